"""Releases that meet: docs/operations.md's upgrade is done with its own commands, and who has no protocol version in common is
refused by name. Builds for tests may stand for other releases (BATON_PROTOCOL, api/protocol.h)."""

import re
import subprocess

import pytest

from daemons import ROOT
from scene import LIMIT_S, Scene

pytestmark = pytest.mark.timeout(300)

OLD, OWN, NEXT, FAR = "1-1", "1-2", "2-3", "3-3"
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
SECTION = re.search(r"^### Upgrade a cluster$(.*?)(?=^##+ )", PAGE, re.M | re.S)[1]
STEPS = re.findall(r"^```sh\n(.*?)^```$", SECTION, re.M | re.S)
BACKUP, COORDINATOR, READY, AGENT, WHOLE, LIST = range(6)


def follow(stage, step, agent=None):
    """Runs a step of the page as it stands there; a restart is left to the test, which is told of which unit."""
    settings = f"B=http://{stage.coordinator.address} A={agent.name if agent else ''}\nsystemctl() {{ echo \"$*\"; }}\n"
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", settings + STEPS[step]], capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran
    return ran.stdout.strip()


@pytest.fixture
def scene(broker, daemons, unique, loads, tmp_path):
    """scene(protocol): a coordinator of that release; agents get theirs with `release`."""

    def make(protocol, **options):
        given = {"hooks": True, "environment": {"BATON_PROTOCOL": protocol}, "backup_dir": tmp_path}
        return Scene(broker, daemons, unique, loads, coordinator=given, **options)

    return make


def release(protocol):
    return {"hooks": True, "environment": {"BATON_PROTOCOL": protocol}}


def upgrade(daemon, protocol):
    daemon.environment["BATON_PROTOCOL"] = protocol
    daemon.restart()


def test_restart_upgrade_of_a_cluster_as_the_page_says(scene, tmp_path):
    stage = scene(OLD, rejoin_grace="1h")
    agents = [stage.agent(**release(OLD)) for _ in range(2)]
    stage.job.wait_active()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    stage.load()
    before = {each["processor"]: each["agent"] for each in stage.job.processors()}
    moved = len(stage.job.handoffs())
    backup = follow(stage, BACKUP)
    assert (tmp_path / backup).exists() and backup.startswith(str(tmp_path)), backup
    assert follow(stage, COORDINATOR) == "restart baton-coordinator"
    upgrade(stage.coordinator, OWN)
    assert follow(stage, READY).endswith("agent protocol 1 to 2")
    stage.wait_outputs(500)
    assert re.findall(r"(\S+) alive .* protocol (\d)$", follow(stage, LIST), re.M) == [("agent-1", "1"), ("agent-2", "1")]
    for agent in agents:
        assert follow(stage, AGENT) == "restart baton-agent"
        upgrade(agent, OWN)
        follow(stage, WHOLE, agent)
    assert re.findall(r"(\S+) alive .* protocol (\d)$", follow(stage, LIST), re.M) == [("agent-1", "2"), ("agent-2", "2")]
    stage.wait_outputs(500)
    assert {each["processor"]: each["agent"] for each in stage.job.processors()} == before
    assert len(stage.job.handoffs()) == moved
    stage.assert_exact()


def test_restart_upgrade_too_far_is_refused_with_which_side_to_upgrade(scene):
    """Newer agents, older ones, and one that works when its coordinator leaves it behind."""
    stage = scene(OWN, rejoin_grace="1h")
    works = stage.agent(**release(OLD))
    stage.job.wait_active()
    stage.load()
    newer = stage.agent(start=False, **release(FAR))
    newer.start(ready=None)
    assert newer.wait_exit() == 1
    assert "speaks version 3 of the agent protocol, this coordinator versions 1 to 2: upgrade the coordinator" in newer.log_text()
    upgrade(stage.coordinator, NEXT)
    said = works.wait_log("coordinator_not_followed", LIMIT_S)["detail"]
    assert "speaks version 1 of the agent protocol, this coordinator versions 2 to 3: upgrade the agent" in said, said
    stage.wait_agent(works, "lost")
    stage.wait_outputs(500)  # it works on
    older = stage.agent(start=False, **release(OLD))
    older.start(ready=None)
    assert older.wait_exit() == 1
    assert "speaks version 1 of the agent protocol, this coordinator versions 2 to 3: upgrade the agent" in older.log_text()
    upgrade(works, OWN)
    stage.job.wait_active()
    assert stage.wait_agent(works)["protocol"] == 2
    stage.assert_exact()
