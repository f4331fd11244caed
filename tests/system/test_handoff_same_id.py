"""S30: two agents with one id, as on a cloned host: the second is refused and says why; a restart of the first is not."""

import pytest

from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)



@pytest.fixture
def scene(broker, daemons, unique, loads):
    return Scene(broker, daemons, unique, loads)


def clone_of(stage, agent):
    """Another process with the same id on another disk. It has to have a log of its own."""
    clone = stage.agent(agent_id="clone", start=False)
    clone.options["agent_id"] = agent.options["agent_id"]
    return clone


def test_handoff_a_second_agent_with_the_same_id_is_refused(scene):
    first = scene.agent()
    scene.job.wait_active()
    scene.load()
    epochs = scene.epochs()
    incarnation = scene.wait_agent(first)["incarnation"]
    clone = clone_of(scene, first)
    clone.start(ready=None)
    assert clone.wait_exit(LIMIT_S) == 1
    (said,) = clone.log_events("refused")
    assert "agent-1 is in use" in said["detail"] and "give this one another agent_id" in said["detail"], said
    assert incarnation in said["detail"], "it names who holds the id"
    assert not clone.log_events("registered") and not clone.log_events("task_opening")
    assert first.running and scene.wait_agent(first)["incarnation"] == incarnation
    scene.wait_outputs(200)
    assert scene.epochs() == epochs, "the first was not disturbed"
    scene.assert_exact()


@pytest.mark.parametrize("how", ["killed", "stopped", "stalled"])
def test_restart_of_an_agent_is_not_taken_for_a_second_one(scene, how):
    """stalled: its old process is still there, frozen, and wakes up when the new one works: it is told, and ends."""
    first = scene.agent()
    scene.job.wait_active()
    scene.load()
    old = scene.wait_agent(first)["incarnation"]
    new = first
    if how == "killed":
        first.kill()
    elif how == "stopped":
        assert first.stop() == 0
    else:
        first.pause()
        scene.wait_agent(first, "lost")
        new = clone_of(scene, first)
    new.start(ready="/readyz")
    assert new.running
    wait_until(lambda: scene.wait_agent(first)["incarnation"] != old, LIMIT_S, "it is seen, too")
    scene.job.wait_active()
    scene.wait_outputs(200)
    if how == "stalled":
        first.resume()
        assert first.wait_exit(LIMIT_S) == 1
        (said,) = first.log_events("superseded")
        assert "another agent_id" in said["detail"], said
        scene.wait_outputs(200)
    scene.assert_exact()
