"""What a change would move is what it then moves."""

import pytest

from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def look(stage, **change):
    return stage.coordinator.http.post("/v1/plans", change, expect=200).json


def wait_counted(stage):
    """The owners have reported how far they are, so that there is something to count."""

    def known():
        plan = look(stage, change="drain", agents=[stage.agents[0].name])
        return plan["records"] is not None and plan["records"] > 0 and plan["state_bytes"]

    wait_until(known, LIMIT_S, "what the processors take is known")


def test_drain_plan_is_what_then_moves_and_gets_out_of_date(scene):
    """A drain is looked at before and after an agent has come: the first plan is refused then, the second is carried out."""
    stage = scene(partitions=4, agents=1)
    leaver = stage.agents[0]
    refused = look(stage, change="drain", agents=[leaver.name])
    assert refused["refused"] == "drain_refused" and not refused["moves"] and refused["plan"] is None, refused
    stage.load()
    second = stage.agent()
    stage.job.wait_owners({leaver.name: 2, second.name: 2})
    stage.wait_nothing_under_way()
    wait_counted(stage)
    old = look(stage, change="drain", agents=[leaver.name])
    assert {move["target"] for move in old["moves"]} == {second.name}, old
    coming = look(stage, change="add_agents")
    assert [move["target"] for move in coming["moves"]] == ["new-1"], coming
    third = stage.agent()
    wait_until(lambda: stage.job.owners().get(third.name) == 1, LIMIT_S, "the third agent has its share")
    stage.wait_nothing_under_way()
    path = f"/v1/agents/{leaver.name}/drain"
    stale = stage.coordinator.http.problem("PUT", path, {"plan": old["plan"]}, expect=412)
    assert stale["code"] == "plan_stale", stale
    assert stage.coordinator.http.get(path, expect=404)
    begun = max(each["id"] for each in stage.job.handoffs())
    plan = look(stage, change="drain", agents=[leaver.name])
    assert plan["plan"] not in (None, old["plan"]) and plan["moves"], plan
    stage.coordinator.http.put(path, {"plan": plan["plan"]}, expect=202)
    wait_until(lambda: stage.coordinator.http.get(path).json["safe_to_stop"], LIMIT_S, "the agent is drained")
    moved = {(each["processor"], each["source"], each["target"]) for each in stage.job.handoffs("done") if each["id"] > begun}
    assert moved == {(each["processor"], each["source"], each["target"]) for each in plan["moves"]}, (moved, plan)
    stage.assert_exact()


def test_drain_plan_of_nonsense_says_what_is_wrong(broker, daemons):
    coordinator = daemons.coordinator()
    for change, pointer in [
        ({"change": "drain"}, "/agents"),
        ({"change": "move", "job": "j"}, "/processor"),
        ({"change": "rebalance", "job": "j", "standbys": 1}, "/standbys"),
        ({"change": "add_agents", "count": 101}, "/count"),
    ]:
        problem = coordinator.http.problem("POST", "/v1/plans", change, expect=422)
        assert [error["pointer"] for error in problem["errors"]] == [pointer], problem
