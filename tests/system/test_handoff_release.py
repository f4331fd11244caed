"""S27, S26: a processor is given up only once what it has done is committed, whatever becomes of the bytes of that commit."""

import time

import pytest

from proxy import DOWN, UP
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LEASE_S = 2  # the agent timeout
MOVES_MAX = 20


@pytest.fixture
def scene(broker, daemons, unique, loads):
    """The first agent reaches Kafka through a proxy that belongs to the test alone while it runs."""

    def make(**options):
        stage = Scene(broker, daemons, unique, loads, partitions=1, **options)
        stage.wire = broker.proxy(2)
        return stage

    yield make
    broker.proxy(2).heal()


def move_while_a_commit_is_held(stage, direction, source, target):
    """The hand-over. A source with nothing to commit needs nothing more of Kafka and releases at once: then it is moved back."""
    for _ in range(MOVES_MAX):
        stage.wire.hold(direction)
        operation = stage.move(target)

        def held_or_done():
            (now,) = [each for each in stage.job.handoffs() if each["operation"] == operation]
            commits = source.log_events("task_phase")[-1]["phase"] == "release"
            return (now["state"] == "done" or now["state"] == "releasing" and commits) and now

        handoff = wait_until(held_or_done, LIMIT_S, "the source is held, or is through with it")
        if handoff["state"] == "releasing":
            return handoff
        stage.wire.heal()
        assert stage.job.wait_operation(stage.move(source))["state"] == "succeeded"
    raise AssertionError(f"nothing to commit in {MOVES_MAX} moves")


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_handoff_waits_for_a_commit_whose_bytes_are_held(scene, direction):
    """up: the broker has not got the commit. down: it is done, and the source does not know."""
    stage = scene()
    first = stage.agent(bootstrap=stage.wire.address)
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    releasing = move_while_a_commit_is_held(stage, direction, first, second)
    began, epochs, released = time.monotonic(), stage.epochs(), first.log_events("task_released")

    def nothing_has_happened_for_longer_than_the_lease():
        (now,) = [each for each in stage.job.handoffs() if each["id"] == releasing["id"]]
        assert now["state"] == "releasing" and stage.epochs() == epochs, now
        return time.monotonic() - began > 2 * LEASE_S

    stage.job.wait("the lease is over, and the source was waited for",
                   lambda _: nothing_has_happened_for_longer_than_the_lease(), LIMIT_S)
    assert first.log_events("task_released") == released
    stage.wire.heal()
    done = stage.wait_handoff("done", id=releasing["id"])
    assert not done["forced"] and done["releasing_ms"] >= 2_000 * LEASE_S, done
    stage.job.wait_owners({"agent-2": 1})
    stage.wait_outputs(100)
    stage.assert_exact()


def test_failover_while_a_commit_is_held_refuses_the_commit(scene, proxy_to):
    """Nothing is heard of the source any more and it is not waited for: its commit comes late, and is refused."""
    stage = scene()
    link = proxy_to(stage.coordinator.http.port)
    first = stage.agent(through=link, bootstrap=stage.wire.address)
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    releasing = move_while_a_commit_is_held(stage, UP, first, second)
    link.cut()
    done = stage.wait_handoff("done", id=releasing["id"])
    assert done["forced"], done
    stage.job.wait_owners({"agent-2": 1})
    taken = stage.epochs()
    stage.wait_outputs(500)
    stage.wire.heal()  # the commit's bytes go to the broker now
    first.wait_log("task_phase", LIMIT_S, phase="fenced")
    link.heal()
    stage.wait_agent(first, "alive", tasks=0)
    stage.wait_outputs(500)
    assert stage.epochs() == taken
    stage.assert_exact()
