"""What else is wanted while a hand-over is under way: it waits its turn or takes its place, and never runs beside it."""

import pytest

from killing import LIMIT_S, World
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def make_world(broker, daemons, unique, loads):
    made = []

    def make(**options):
        made.append(World(broker, daemons, unique, loads, rejoin_grace="2s", **options))
        return made[-1]

    yield make
    for each in made:
        each.try_to_let_go()  # what is still held would keep its daemon from ending


def open_handoffs(world):
    return [(each["processor"], each["target"], each["state"])
            for processor in range(world.job.spec["processors"]) for each in world.handoffs(processor)
            if each["state"] not in ("done", "cancelled", "failed")]


def test_handoff_under_way_is_what_others_wait_for(make_world, daemons):
    """S21: a second wish for the same processor is refused, a plan for others goes on beside it."""
    world = make_world()
    world.arm("target", "phase@learn", "hold")
    world.start()
    world.move_until_held("target", "phase@learn")
    asked = world.move(world.target)
    assert asked["id"] == world.handoffs()[0]["operation"], "the same wish is the same operation"
    third = daemons.agent(world.coordinator, checkpoint_interval="100ms")
    world.agents.append(third)
    refusal = world.coordinator.http.problem("POST", f"/v1/jobs/{world.job.name}/moves",
                                             {"processor": 0, "agent": third.name}, expect=409)
    assert asked["id"] in refusal["detail"], refusal
    # The newcomer gets what it is owed of the others, one that is not the one under way.
    wait_until(lambda: [each for each in world.job.processors()
                        if each["agent"] == third.name and each["state"] == "active"], LIMIT_S, "the newcomer has one")
    assert open_handoffs(world) == [(0, world.target.name, "learning")]
    world.let_go()
    wait_until(lambda: world.state() == "done", LIMIT_S, "the first one is done")
    world.judge()
    assert [each["target"] for each in world.handoffs()] == [world.target.name]


def test_handoff_that_was_planned_gives_way_to_one_that_is_asked_for(make_world, daemons):
    """S21: a newcomer learns; somebody wants the processor elsewhere: cancelled, then the other begins."""
    world = make_world()
    world.start()
    third = daemons.agent(world.coordinator, start=False, hooks=True, checkpoint_interval="100ms")
    world.agents.append(third)
    third.environment |= {"BATON_HOOK": "warm:1:hold", "BATON_HOOK_FIFO": str(world.fifo)}
    third.start()
    said = third.wait_log("hook", limit_s=LIMIT_S, action="hold")
    processor = int(said["where"].split("/")[1])
    planned = world.handoffs(processor)[0]
    assert planned["state"] == "learning" and planned["target"] == third.name and planned["operation"] is None
    owner = planned["source"]
    other = world.target if owner == world.source.name else world.source
    asked = world.coordinator.http.post(f"/v1/jobs/{world.job.name}/moves", {"processor": processor, "agent": other.name}).json
    wait_until(lambda: world.handoffs(processor)[0]["state"] == "done", LIMIT_S, "the wish is fulfilled")
    newest, before = world.handoffs(processor)[:2]
    assert (newest["source"], newest["target"], newest["operation"]) == (owner, other.name, asked["id"])
    assert before["id"] == planned["id"] and before["state"] == "cancelled" and "superseded" in before["error"]
    world.let_go()
    world.judge()


def test_handoff_is_released_when_it_is_committed_and_not_before(make_world):
    """S27: the source is held before the last commit: nobody takes over, for as long as it takes and its agent lives."""
    world = make_world()
    world.arm("source", "commit_before@release", "hold")
    world.start()
    world.move_until_held("source", "commit_before@release")
    before = world.job.committed()
    epoch = world.job.processors()[0]["epoch"]
    reports = reports_of(world.source)
    wait_until(lambda: reports_of(world.source) > reports + 6, LIMIT_S, "it reports for longer than the agent timeout")
    assert open_handoffs(world) == [(0, world.target.name, "releasing")]
    assert world.job.processors()[0]["epoch"] == epoch
    assert world.target.log_events("task_phase", processor=0)[-1]["phase"] == "learn", "nothing was asked of Kafka"
    assert offset_of(world, world.job.committed()) == offset_of(world, before)
    world.let_go()
    wait_until(lambda: world.state() == "done", LIMIT_S, "it is done")
    assert offset_of(world, world.job.committed()) > offset_of(world, before)
    world.judge()


def offset_of(world, committed):
    return committed[world.job.input, 0][0]


def reports_of(agent):
    return agent.metrics()['baton_agent_coordinator_requests_total{operation="report"}']
