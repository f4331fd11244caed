"""A cordoned agent keeps its processors and receives none, whatever happens around it."""

import pytest

from scene import GRACE, LIMIT_S, Held, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def set_eligibility(stage, agent, schedulable, reason=None):
    body = {"schedulable": schedulable, "reason": reason}
    return stage.coordinator.http.request("PUT", f"/v1/agents/{agent.name}/eligibility", body, expect=200).json


def test_drain_cordon_keeps_and_receives_nothing_until_uncordoned(scene):
    """Not as a newcomer, not when others fail, not by hand, and not after kill -9 of coordinator and agent."""
    stage = scene(partitions=4)
    first = stage.agent()
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.job.wait_owners({"agent-1": 2, "agent-2": 2})
    said = set_eligibility(stage, second, False, "its disk")
    assert not said["schedulable"] and said["reason"] == "its disk" and said["actor"].startswith("api "), said
    assert stage.coordinator.http.get(f"/v1/agents/{second.name}").json["eligibility"] == said
    assert stage.coordinator.http.get(f"/v1/agents/{second.name}/eligibility").json == said
    assert set_eligibility(stage, second, False, "its disk") == said
    refused = stage.coordinator.http.problem(
        "POST", f"/v1/jobs/{stage.job.name}/moves", {"processor": 0, "agent": second.name}, expect=409
    )
    assert refused["code"] == "move_refused" and "cordoned" in refused["detail"], refused
    stage.job.put(expect=200, rejoin_grace="5m")  # it is waited for until it is back
    stage.coordinator.kill()
    second.kill()
    stage.coordinator.start()
    second.start()
    stage.job.wait_owners({"agent-1": 2, "agent-2": 2})
    stage.job.put(expect=200, rejoin_grace=GRACE)
    assert stage.coordinator.http.get(f"/v1/agents/{second.name}/eligibility").json == said
    third = stage.agent()
    stage.wait_agent(third, tasks=1)
    first.kill()  # its processors go to the third alone
    wait_until(lambda: stage.job.owners().get("agent-1") is None and sum(stage.job.owners().values()) == 4, LIMIT_S, "all go on")
    first.start()
    stage.wait_agent(first)
    stage.wait_nothing_under_way()
    assert 1 <= stage.job.owners()["agent-2"] <= 2, stage.job.owners()  # it may have given one to the newcomer
    received = [each for each in stage.job.handoffs() if each["target"] == second.name and each["started_at"] > said["changed_at"]]
    assert not received, received
    assert not set_eligibility(stage, second, True)["reason"]
    kinds = [each["kind"] for each in stage.events() if "cordoned" in each["kind"]]
    assert kinds == ["agent_cordoned", "agent_uncordoned"], kinds
    stage.assert_exact()


def test_drain_cordon_of_a_target_cancels_what_it_learns(scene, daemons):
    stage = scene(partitions=2)
    stage.agent()
    stage.job.wait_active()
    stage.history(20_000)
    stage.load()
    held = stage.agent(start=False, hooks=True)
    with Held(daemons, held, "warm") as hold:
        held.start()
        hold.wait_struck()
        stage.wait_handoff("learning", target=held.name)
        set_eligibility(stage, held, False, "a test")
        cancelled = stage.wait_handoff("cancelled", target=held.name)
        assert cancelled["error"] == f"agent {held.name} is cordoned", cancelled
        stage.wait_agent(held, tasks=0)
        other = stage.agent()
        stage.job.wait_owners({"agent-1": 1, other.name: 1})
    set_eligibility(stage, held, True)  # the two have one each: nothing is owed
    stage.wait_outputs(500)
    assert stage.job.owners() == {"agent-1": 1, other.name: 1}
    stage.assert_exact()
