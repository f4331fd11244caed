"""What SIGTERM does by `on_term`: a host that is taken away gives its processors to others first."""

import pytest

from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)
LONG = "10m"  # rejoin_grace: nobody is to wait that long here


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, rejoin_grace=LONG, **options)


def test_drain_on_term_hands_over_before_the_process_ends(scene):
    stage = scene(partitions=4)
    first = stage.agent(on_term="drain", drain_timeout="5m")
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.job.wait_owners({"agent-1": 2, "agent-2": 2})
    first.stop(LIMIT_S)
    stage.job.wait_owners({"agent-2": 4})
    assert stage.wait_agent(first, state="stopped")["safe_to_stop"]
    away = [each for each in stage.job.handoffs() if each["source"] == first.name]
    assert [each["state"] for each in away if each["target"] == second.name][-2:] == ["done", "done"], away
    assert not any(each["forced"] for each in away), away
    assert [each["kind"] for each in stage.events() if each["kind"].startswith("drain_")] == ["drain_requested", "drain_done"]
    first.start()  # it is a newcomer again
    stage.job.wait_owners({"agent-1": 2, "agent-2": 2})
    assert stage.wait_agent(first)["drain"] is None
    stage.assert_exact()


def test_drain_on_term_of_the_only_agent_does_not_hold_it(scene):
    stage = scene()
    only = stage.agent(on_term="drain", drain_timeout="5m")
    stage.job.wait_active()
    stage.load()
    only.stop()
    assert only.log_events("drain_ended")[-1]["detail"] == "no other agent can take what it has"
    only.start()
    stage.job.wait_owners({"agent-1": 2})
    stage.assert_exact()


def test_drain_on_term_release_is_not_waited_for(scene):
    stage = scene()
    first = stage.agent(on_term="release")
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    first.stop()
    stage.job.wait_owners({"agent-2": 2})
    wait_until(lambda: stage.wait_agent(second)["tasks_active"] == 2, LIMIT_S, "all work")
    stage.assert_exact()
