"""S21: a new plan comes while a hand-over is in flight, in each of its states: it waits or takes its place, and never overlaps.

A hand-over is held in a state by what its agents do not hear from Kafka: each of the two has a proxy before the broker. The
agent timeout is so long that none is called lost meanwhile.
"""

import pytest

from scene import LIMIT_S, Scene

pytestmark = pytest.mark.timeout(300)

STATES = ["learning", "releasing", "released", "activating"]


class Held(Scene):
    """A planned hand-over from agent-1 to agent-2 that stays in `state` until `let_go`."""

    def __init__(self, broker, daemons, unique, loads, state, **spec):
        super().__init__(broker, daemons, unique, loads, coordinator={"agent_timeout": "30s"}, **spec)
        self.source_wire, self.target_wire = broker.proxy(0), broker.proxy(1)
        self.source = self.agent(bootstrap=self.source_wire.address)
        self.job.wait_active()
        self.load()
        if state == "learning":
            self.target_wire.hold()
        self.target = self.agent(start=False, bootstrap=self.target_wire.address)
        if state != "learning":
            self.source_wire.hold()  # its next commit does not end, so that it can not release
        self.target.start()
        if state != "learning":
            self.wait_handoff("releasing")
        if state == "released":
            self.target.pause()
        if state == "activating":
            self.target_wire.hold()
        if state != "releasing":
            self.source_wire.heal()
        self.held = self.wait_handoff(state)
        assert (self.held["source"], self.held["target"]) == ("agent-1", "agent-2")

    def let_go(self):
        (now,) = [each for each in self.job.handoffs() if each["id"] == self.held["id"]]
        self.target.resume()
        for wire in (self.source_wire, self.target_wire):
            wire.heal()
        return now["state"]


@pytest.fixture
def held(broker, daemons, unique, loads):
    yield lambda state, **spec: Held(broker, daemons, unique, loads, state, **spec)
    for index in range(2):
        broker.proxy(index).heal()


@pytest.mark.parametrize("state", STATES)
def test_handoff_in_flight_meets_new_plans(held, state):
    """A third agent joins, the same processor is asked for by name, and the job is to be evened out, all at once."""
    stage = held(state, partitions=3)
    processor = stage.held["processor"]
    third = stage.agent()
    move = stage.move(third, processor)
    path = f"/v1/jobs/{stage.job.name}/rebalance"
    evening = stage.coordinator.http.post(path, {"reason": "a test"}, expect=202).json["id"]
    under_way = [each["processor"] for each in stage.job.handoffs() if each["state"] in STATES + ["caught_up"]]
    assert len(under_way) == len(set(under_way)), "one at a time per processor"
    # What has not begun to release gives way, anything later is finished first.
    assert stage.let_go() == ("cancelled" if state == "learning" else state)
    assert stage.job.wait_operation(move)["state"] == "succeeded"
    assert stage.job.wait_operation(evening)["state"] == "succeeded"
    stage.job.wait("all are active", lambda status: status["processors_active"] == 3 and not status["handoffs_running"],
                   LIMIT_S)
    of_it = sorted((each for each in stage.job.handoffs("done") if each["processor"] == processor), key=lambda each: each["id"])
    assert "agent-3" in [each["target"] for each in of_it]
    if state != "learning":
        assert (of_it[0]["id"], of_it[0]["target"]) == (stage.held["id"], "agent-2"), "the one in flight came first"
    assert max(stage.job.owners().values()) - min(stage.job.owners().values()) <= 1
    stage.wait_outputs(100)
    stage.assert_exact()


@pytest.mark.parametrize("state", STATES)
def test_handoff_in_flight_meets_the_deletion_of_its_job(held, state):
    """The deletion ends it, and a job that is created again on the same group goes on exactly where the old one stopped."""
    stage = held(state, partitions=2)
    operation = stage.coordinator.http.delete(f"/v1/jobs/{stage.job.name}", expect=202).json["id"]
    stage.wait_handoff("failed" if state in ("released", "activating") else "cancelled", id=stage.held["id"])
    stage.let_go()
    assert stage.job.wait_operation(operation)["state"] == "succeeded"
    assert {each["state"] for each in stage.job.handoffs()} <= {"done", "cancelled", "failed"}
    stage.job.put(expect=201, start="committed")
    stage.job.wait_active()
    stage.wait_outputs(100)
    stage.assert_exact()
