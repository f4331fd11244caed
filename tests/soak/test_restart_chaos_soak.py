"""A hundred kills in one run, and ten cuts of lines between namespaces: nothing lost, nothing doubled, zombies fenced.

    BATON_SOAK_SEED=7 make soak K=chaos       the run of that seed (it is among the figures)
"""

import contextlib
import os
import random
import time

import pytest

from islands import BOTH, BROKER, COORDINATOR, IN, OUT, Island, Mainland
from kafka import Broker
from scene import Scene
from waiting import wait_until

SEED = int(os.environ.get("BATON_SOAK_SEED") or random.SystemRandom().randrange(1 << 16))
KILLS = int(os.environ.get("BATON_SOAK_KILLS", "100"))
CUTS = int(os.environ.get("BATON_SOAK_CUTS", "10"))
CUT_S = (5, 30)
PARTITIONS = 8
AGENTS = 3
RATE = 2_000
LIMIT_S = 300


@pytest.mark.timeout(3600)
def test_restart_chaos_of_a_hundred_kills_soak(broker, daemons, unique, loads, figures):
    """Of agents and of the coordinator; some come back at once, others after their processors went elsewhere."""
    chance = random.Random(SEED)
    stage = Scene(broker, daemons, unique, loads, PARTITIONS, agents=AGENTS, standbys=1)
    stage.load(RATE)
    killed = {each.name: 0 for each in [*stage.agents, stage.coordinator]}
    for _ in range(KILLS):
        victim = chance.choice([*stage.agents, stage.coordinator])
        victim.kill()
        killed[victim.name] += 1
        if chance.random() < 0.5:
            stage.wait_outputs(chance.randrange(RATE // 10, 4 * RATE))
        victim.start()
        if chance.random() < 0.5:
            stage.wait_outputs(chance.randrange(RATE // 10, RATE))
    stage.job.wait_active(limit_s=LIMIT_S)
    verdict = stage.assert_exact()
    handoffs = stage.job.handoffs("done")
    figures(seed=SEED, kills=sum(killed.values()), killed=killed, handoffs=len(handoffs), lost=verdict.lost,
            forced=sum(each["forced"] for each in handoffs), doubled=verdict.doubled, misordered=verdict.misordered)


class IslandBroker(Broker):
    """It is reached by the islands at an address of its own, and by the test as ever."""

    def __init__(self, directory, **options):
        super().__init__(directory, proxies=1, **options)
        (self._island_port, _), = self._proxied
        for name in ("listeners", "advertised.listeners"):
            before = [each for each in self._properties[name].split(",") if not each.startswith("PROXY0:")]
            self._properties[name] = ",".join([*before, f"PROXY0://{BROKER}:{self._island_port}"])
        self.island_bootstrap = f"{BROKER}:{self._island_port}"


@pytest.mark.timeout(3600)
def test_restart_chaos_of_ten_cuts_between_namespaces_soak(tmp_path, daemons, unique, loads, figures):
    chance = random.Random(SEED)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Mainland())
        islands = [stack.enter_context(Island(number)) for number in range(1, AGENTS + 1)]
        broker = IslandBroker(tmp_path / "kafka")
        stack.callback(broker.finish)
        broker.start()
        stage = Scene(broker, daemons, unique, loads, PARTITIONS, coordinator={"listen": f"{COORDINATOR}:0"})
        agents = [stage.agent(bootstrap=broker.island_bootstrap, listen=f"{each.address}:0", prefix=each.prefix) for each in islands]
        stage.job.wait_active(limit_s=LIMIT_S)
        stage.rebalance()
        stage.load(RATE)
        made = []
        for _ in range(CUTS):
            number = chance.randrange(AGENTS)
            line, direction = chance.choice(["broker", "coordinator"]), chance.choice([BOTH, IN, OUT])
            length_s = chance.uniform(*CUT_S)
            islands[number].cut(line, direction)
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > length_s, length_s + 10, "the line is cut")
            islands[number].heal(line)
            made.append(f"{agents[number].name}-{line} {direction} {length_s:.0f} s")
            stage.job.wait_active(limit_s=LIMIT_S)
        verdict = stage.assert_exact()
        fenced = sum(len(each.log_events("task_phase", phase="fenced")) for each in agents)
        dropped = sum(len(each.log_events("superseded")) for each in agents)
        figures(seed=SEED, cuts=made, fenced=fenced, superseded=dropped, lost=verdict.lost, doubled=verdict.doubled,
                misordered=verdict.misordered, handoffs=len(stage.job.handoffs("done")))
