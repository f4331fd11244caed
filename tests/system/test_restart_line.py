"""S26, S23: the line between an agent and the coordinator is slow, or passes only one direction; the one to Kafka is whole.

An agent that is not heard, or that hears nothing, is called lost and works on until others have taken over; what was held of its
reports, or of what it was told, comes late and changes nothing. One that is merely slow is never called lost, and moves.
"""

import pytest

from proxy import DOWN, UP
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def scene(broker, daemons, unique, loads, proxy_to):
    """scene(...): agent-1 reaches the coordinator directly, agent-2 over stage.line; each has one processor of two."""

    def make(**coordinator):
        stage = Scene(broker, daemons, unique, loads, coordinator=coordinator)
        stage.line = proxy_to(stage.coordinator.http.port)
        stage.agent()
        stage.job.wait_active()
        stage.load()
        stage.far = stage.agent(through=stage.line)
        stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
        return stage

    return make


def test_restart_line_that_is_slow_delays_and_does_nothing_else(scene):
    stage = scene(agent_timeout="20s")  # so long that a busy machine is not taken for it
    stage.line.delay(0.4, UP, DOWN)
    (mine,) = [each["processor"] for each in stage.job.processors() if each["agent"] == "agent-2"]
    for target, processor in (("agent-1", mine), ("agent-2", mine)):
        moved = stage.job.wait_operation(stage.move(target, processor))
        assert moved["state"] == "succeeded", moved
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    assert not any(each["forced"] for each in stage.job.handoffs()), stage.job.handoffs()
    assert not stage.events("agent_lost")
    assert not stage.far.log_events("task_phase", phase="fenced")
    stage.wait_outputs(500)
    stage.assert_exact()


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_restart_line_that_passes_one_direction_only(scene, direction):
    """up: what the agent says is held. down: it is heard now and then, and hears nothing. In both cases others take over."""
    stage = scene()
    (mine,) = [each["processor"] for each in stage.job.processors() if each["agent"] == "agent-2"]
    before = stage.epochs()[mine]
    stage.line.hold(direction)
    stage.job.wait_owners({"agent-1": 2})
    assert stage.epochs()[mine] > before
    assert [each["agent"] for each in stage.events("agent_lost")][0] == "agent-2"

    def has_stopped():  # fenced by Kafka, or told by the answer to a poll that was sent before
        ends = [each["phase"] for each in stage.far.log_events("task_phase", processor=mine)]
        return {"fenced", "closed"} & set(ends)

    wait_until(has_stopped, LIMIT_S, "the one that was lost has stopped")
    stage.wait_outputs(500)
    taken = stage.epochs()[1 - mine]
    stage.line.heal()  # all that was held arrives now
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    stage.wait_outputs(500)
    assert stage.epochs()[1 - mine] >= taken
    assert not stage.events("processor_refenced")
    stage.assert_exact()
