"""S27, S26: a processor is given up only once what it has done is committed, whatever becomes of the bytes of that commit."""

import time

import pytest

from proxy import DOWN, UP
from scene import LIMIT_S, Scene

pytestmark = pytest.mark.timeout(300)

LEASE_S = 2  # the agent timeout


@pytest.fixture
def scene(broker, daemons, unique, loads):
    """The first agent reaches Kafka through a proxy that belongs to the test alone while it runs."""

    def make(**options):
        stage = Scene(broker, daemons, unique, loads, partitions=1, **options)
        stage.wire = broker.proxy(2)
        return stage

    yield make
    broker.proxy(2).heal()


def move_while_a_commit_is_held(stage, direction, target):
    stage.wire.hold(direction)
    stage.move(target)
    return stage.wait_handoff("releasing")


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_handoff_waits_for_a_commit_whose_bytes_are_held(scene, direction):
    """up: the broker has not got the commit. down: it is done, and the source does not know."""
    stage = scene()
    first = stage.agent(bootstrap=stage.wire.address)
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    releasing = move_while_a_commit_is_held(stage, direction, second)
    began, epochs = time.monotonic(), stage.epochs()

    def nothing_has_happened_for_longer_than_the_lease():
        (now,) = stage.job.handoffs()
        assert now["state"] == "releasing" and stage.epochs() == epochs, now
        return time.monotonic() - began > 2 * LEASE_S

    stage.job.wait("the lease is over, and the source was waited for",
                   lambda _: nothing_has_happened_for_longer_than_the_lease(), LIMIT_S)
    assert not first.log_events("task_released")
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
    releasing = move_while_a_commit_is_held(stage, UP, second)
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
