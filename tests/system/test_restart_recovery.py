"""The coordinator's database is lost, or an old copy is in its place, while agents work: nothing is decided on it, and `--recover`
takes what agents and Kafka know. Exactly once throughout, and no epoch is ever given twice."""

import pathlib
import shutil

import pytest

from scene import Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 60


@pytest.fixture
def stage(broker, daemons, unique, loads, tmp_path):
    """stage(...) makes a scene with two agents, both at work, and a folder for backups."""

    def make(agents=2, **spec):
        (tmp_path / "backups").mkdir()
        # A recovery waits for agents that it does not know for one agent_timeout: a busy machine must not make one late.
        return Scene(broker, daemons, unique, loads, partitions=4, agents=agents,
                     coordinator={"backup_dir": tmp_path / "backups", "agent_timeout": "6s"},
                     **{"rejoin_grace": "5m", **spec})  # fmt: skip

    return make


def database(scene):
    return scene.coordinator.options["database"]


def restore_database(scene, copy):
    """As docs/operations.md does it; the coordinator is stopped."""
    for path in database(scene).parent.iterdir():
        path.unlink()
    shutil.copy2(copy, database(scene))


def lose_database(scene):
    for path in database(scene).parent.iterdir():
        path.unlink()


def recover(scene):
    """One start with --recover, until it works."""
    scene.coordinator.start(ready=None, arguments=["--recover=true"])
    scene.coordinator.wait_for_address()
    wait_unready(scene, "recovering")
    assert ask_for_move(scene, 503)["code"] == "recovering"
    # Of a group that commits all the time Kafka may take a while to have stable offsets.
    scene.coordinator.wait_ready(limit_s=2 * LIMIT_S)


def ask_for_move(scene, expect):
    return scene.coordinator.http.problem("POST", f"/v1/jobs/{scene.job.name}/rebalance", {"reason": "x"}, expect=expect)


def wait_unready(scene, code):
    def found():
        reply = scene.coordinator.http.request("GET", "/readyz")
        return reply.status == 503 and reply.json["code"] == code and reply.json

    return wait_until(found, LIMIT_S, f"/readyz says {code}")


def raise_epochs(scene, count=2):
    """Epochs that an earlier copy of the database does not know: an agent's new starts."""
    for _ in range(count):
        before, first = scene.epochs(), scene.agents[0]
        mine = [each["processor"] for each in scene.job.processors() if each["agent"] == first.name]
        first.restart()
        # What is shown may be from before for a moment.
        scene.job.wait("has higher epochs", lambda _, mine=mine, before=before: all(
            scene.epochs()[each] > before[each] for each in mine))  # fmt: skip
    scene.job.wait_active()


def test_restart_recovery_of_an_old_database_under_load(stage):
    scene = stage()
    scene.load()
    backup = scene.coordinator.http.post("/v1/backups", expect=201).json
    assert pathlib.Path(backup["file"]).stat().st_size == backup["bytes"]
    raise_epochs(scene)
    highest = max(scene.epochs().values())
    owners = {each["processor"]: each["agent"] for each in scene.job.processors()}

    assert scene.coordinator.stop() == 0
    restore_database(scene, backup["file"])
    scene.coordinator.start(ready=None)
    scene.coordinator.wait_for_address()
    problem = wait_unready(scene, "database_outdated")
    assert "--recover" in problem["detail"] and str(highest) in problem["detail"], problem
    assert ask_for_move(scene, 503)["code"] == "database_outdated"
    scene.coordinator.wait_log("database_outdated")
    scene.wait_outputs(500)  # agents work on
    assert all(agent.running for agent in scene.agents)
    scene.coordinator.kill()

    recover(scene)
    assert scene.coordinator.wait_log("recovered")
    scene.job.wait_active()
    assert min(scene.epochs().values()) > highest
    assert {each["processor"]: each["agent"] for each in scene.job.processors()} == owners
    scene.wait_outputs(500)
    scene.assert_exact()


def test_restart_recovery_of_a_lost_database_under_load(stage):
    scene = stage()
    raise_epochs(scene, 1)
    scene.load()
    before = scene.coordinator.http.get(f"/v1/jobs/{scene.job.name}").json
    origins = {(each["processor"], at["partition"]): at["t0"] for each in scene.job.processors() for at in each["partitions"]}
    owners = {each["processor"]: each["agent"] for each in scene.job.processors()}
    highest = max(scene.epochs().values())
    scene.coordinator.kill()
    lose_database(scene)

    # Started without --recover it is an empty new cluster, which no agent joins.
    scene.coordinator.start()
    assert "lose its database" in scene.agents[0].wait_log("coordinator_not_followed")["detail"]
    wait_until(lambda: scene.events("agent_of_other_cluster"), LIMIT_S, "an event says so")
    assert scene.coordinator.http.get("/v1/agents").json["items"] == []
    assert scene.coordinator.stop() == 0

    recover(scene)
    scene.job.wait_active()
    after = scene.coordinator.http.get(f"/v1/jobs/{scene.job.name}").json
    assert after["incarnation"] == before["incarnation"] and after["spec"] == before["spec"]
    assert {each["processor"]: each["agent"] for each in scene.job.processors()} == owners
    assert origins == {
        (each["processor"], at["partition"]): at["t0"] for each in scene.job.processors() for at in each["partitions"]
    }
    assert min(scene.epochs().values()) > highest
    scene.wait_outputs(500)
    scene.agents[1].restart()  # its state is of this cluster and job still
    scene.job.wait_active()
    assert scene.agents[1].log_events("kept_states", count=len([1 for owner in owners.values() if owner == scene.agents[1].name]))
    scene.assert_exact()


def test_restart_recovery_second_coordinator_on_one_database_is_refused(stage, daemons):
    scene = stage(agents=0)
    second = daemons.coordinator(start=False, name="second", database=database(scene))
    second.start(ready=None)
    assert second.wait_exit() == 1
    assert "in use by another process" in second.log_events("start_failed")[0]["detail"]
    assert scene.coordinator.http.get(f"/v1/jobs/{scene.job.name}").json["state"] == "running"


def test_restart_recovery_backups_need_a_folder(daemons):
    coordinator = daemons.coordinator()
    assert coordinator.http.problem("POST", "/v1/backups", expect=409)["code"] == "backups_disabled"


def test_restart_recovery_of_a_lost_database_knows_what_is_inherited(stage):
    """Processor 4 is split off processor 0 when the topic has grown; then nobody has its state, and it is made anew up to there."""
    scene = stage(processors=4, settle="1s", partitioner="murmur2", rejoin_grace="1s")
    scene.history(2000)
    assert scene.job.wait_operation(scene.job.expand(partitions=8))["state"] == "succeeded"
    scene.load()
    assert scene.job.wait_operation(scene.expand(5))["state"] == "succeeded"
    scene.job.wait_active(5)

    def bounds():
        return {each["partition"]: each["t1"] for each in scene.job.processors()[4]["partitions"] if not each["owned"]}

    before = bounds()
    assert list(before) == [0] and before[0] > 0, before
    scene.coordinator.kill()
    lose_database(scene)
    recover(scene)
    scene.job.wait_active(5)
    assert bounds() == before
    owner = next(each["agent"] for each in scene.job.processors() if each["processor"] == 4)
    next(agent for agent in scene.agents if agent.name == owner).kill()
    scene.job.wait("the other one has all", lambda status: set(scene.job.owners()) == {a.name for a in scene.agents} - {owner})
    scene.job.wait_active(5)
    assert bounds() == before
    scene.wait_outputs(500)
    scene.assert_exact()
