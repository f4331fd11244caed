"""What a fleet goes through in its life: hosts that restart one after the other, a broker that is gone for a while.

Used by tests/system/test_restart_fleet.py (short) and tests/soak/test_restart_fleet_soak.py (as long as the figures want).
"""

import time

from scene import LIMIT_S, Scene
from waiting import wait_until

PARTITIONS = 8
AGENTS = 3


def fleet(broker, daemons, unique, loads, **options):
    """Eight processors on three agents; a restart is to be over within `rejoin_grace`."""
    calm = {"agent_timeout": "10s"}
    return Scene(broker, daemons, unique, loads, PARTITIONS, coordinator=calm, agents=AGENTS, rejoin_grace="2m", **options)


def owners(job):
    return {each["processor"]: each["agent"] for each in job.processors()}


def restart_one_by_one(stage, rate):
    """Every agent and the coordinator, in order and by kill -9: nothing moves, whoever comes back has what it had."""
    stage.load(rate)
    before = owners(stage.job)
    for end in ("stop", "kill"):
        for daemon in [*stage.agents, stage.coordinator]:
            getattr(daemon, end)()
            stage.wait_outputs(rate // 8)  # the others go on
            daemon.start()
            stage.job.wait_active(limit_s=LIMIT_S)
            stage.wait_outputs(rate // 8)
    assert owners(stage.job) == before
    assert not stage.job.handoffs(), stage.job.handoffs()
    stage.assert_exact()


def committed(job):
    """As the owners report it: of a group that commits all the time Kafka hardly ever has stable offsets of all partitions."""
    return {each["processor"]: each["partitions"][0]["t1"] for each in job.processors()}


def lose_the_broker(stage, rate, down_s):
    """The broker dies and is away for `down_s`. Returns how long after it serves again each partition has got further, in s."""
    stage.load(rate)
    stage.wait_outputs(rate)
    before = committed(stage.job)
    stage.broker.kill()
    died = time.monotonic()
    wait_until(lambda: time.monotonic() - died > down_s, down_s + 10, "the broker is away")
    stage.broker.start()
    began = time.monotonic()

    def further():
        now = committed(stage.job)
        return all(now[processor] > offset for processor, offset in before.items())

    wait_until(further, LIMIT_S, "each partition has got further")
    spent_s = time.monotonic() - began
    stage.wait_outputs(rate)
    if stage.job.spec.get("delivery") == "at_least_once":
        stage.assert_at_least_once()
    else:
        stage.assert_exact()
    stage.job.wait("nothing is wrong any more", lambda status: status["problems"] == 0, LIMIT_S)
    return spent_s
