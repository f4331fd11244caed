"""Owners frozen at random moments, again and again; and a source that does not release within the coordinator's patience."""

import random

import pytest

from proxy import DOWN, UP
from scene import Scene

LIMIT_S = 120
FREEZES = 15
PATIENCE_S = 20  # of the coordinator, for a source that is told to release


@pytest.mark.timeout(1800)
def test_handoff_zombies_frozen_at_random_moments_soak(broker, daemons, unique, loads, figures):
    """Each time whoever owns something is frozen, the other takes all over, the zombie thaws and gets its share back."""
    chosen = random.Random(11)
    # A zombie that comes back again and again is taken for a host that flaps, and is given nothing for a while.
    stage = Scene(broker, daemons, unique, loads, partitions=4)
    agents = {agent.name: agent for agent in (stage.agent(), stage.agent())}
    stage.job.wait_owners({"agent-1": 2, "agent-2": 2}, LIMIT_S)
    load = stage.load(rate=2_000)
    fenced = 0
    for _ in range(FREEZES):
        victim = agents.pop(chosen.choice(sorted(agents)))
        (other,) = agents.values()
        agents[victim.name] = victim
        stage.wait_outputs(chosen.randrange(100, 2_000))
        before = len(victim.log_events("task_phase", phase="fenced"))
        victim.pause()
        stage.job.wait_owners({other.name: 4}, LIMIT_S)
        stage.wait_outputs(chosen.randrange(100, 2_000))
        victim.resume()
        stage.wait_agent(victim, "alive")
        stage.wait_outputs(1_000)
        stage.rebalance()
        stage.job.wait_owners({"agent-1": 2, "agent-2": 2}, LIMIT_S)
        fenced += len(victim.log_events("task_phase", phase="fenced")) - before
    verdict = stage.assert_exact()
    figures(freezes=FREEZES, fenced=fenced, records=load.sent_so_far, lost=verdict.lost, doubled=verdict.doubled,
            handoffs=len(stage.job.handoffs()))  # fmt: skip
    assert fenced >= FREEZES, "each of them tried to go on"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("direction", [UP, DOWN])
def test_handoff_release_beyond_patience_is_called_off_soak(broker, daemons, unique, loads, direction):
    """S27: no release is made up. The source is given back what it has, under a new epoch, and goes on when it can."""
    stage = Scene(broker, daemons, unique, loads, partitions=1)
    wire = broker.proxy(2)
    first = stage.agent(bootstrap=wire.address)
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    epoch = stage.epochs()[0]
    try:
        wire.hold(direction)
        operation = stage.move(second)
        cancelled = stage.wait_handoff("cancelled", LIMIT_S)
    finally:
        wire.heal()
    assert "did not release in time" in cancelled["error"] and cancelled["releasing_ms"] >= PATIENCE_S * 1_000, cancelled
    assert stage.job.wait_operation(operation)["state"] == "failed"
    assert not first.log_events("task_released")
    stage.job.wait("the source is active under a new epoch",
                   lambda _: stage.epochs()[0] > epoch and stage.job.owners() == {"agent-1": 1}, LIMIT_S)
    stage.wait_outputs(100)
    assert stage.job.wait_operation(stage.move(second))["state"] == "succeeded"
    stage.wait_outputs(100)
    stage.assert_exact()
