"""deploy/: the units as systemd reads them, and against what the daemons do. Needs no broker; systemd need not run here."""

import os
import re
import shutil
import socket
import subprocess

import pytest

import process
from daemons import ROOT, build_directory
from waiting import wait_until

DAEMONS = ("coordinator", "agent")
EXPOSURE_MAX = 20  # of 100, as `systemd-analyze security` counts it
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def unit_path(daemon):
    return ROOT / f"deploy/baton-{daemon}.service"


def unit(daemon):
    """{name: [values]} of all sections."""
    found = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit_path(daemon).read_text(), re.M):
        found.setdefault(name, []).append(value)
    return found


def default_of(daemon, option):
    text = (ROOT / f"deploy/{daemon}.conf").read_text()  # equal to the code: test_contract_docs
    return re.search(rf"^#{option} = (.*)$", text, re.M)[1]


def seconds(text):
    number, name = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * UNITS[name]


def constant(path, name):
    return int(re.search(rf"^#define {name} +(\d+)", (ROOT / path).read_text(), re.M)[1])


@needs_analyze
@pytest.mark.parametrize("daemon", DAEMONS)
def test_package_units_are_valid(daemon, tmp_path):
    """Anything that systemd would warn of is on stderr; the program must be there, so it is named where it was built."""
    text = unit_path(daemon).read_text().replace("/usr/local/bin", str(build_directory()))
    copy = tmp_path / unit_path(daemon).name
    copy.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    copy.write_text(text.replace("RestartSec=", "RestartSecs="))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert "RestartSecs" in done.stderr, "a mistake would not be seen"


@needs_analyze
@pytest.mark.parametrize("daemon", DAEMONS)
def test_package_units_are_hardened(daemon):
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit_path(daemon)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze has no --offline")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("daemon", DAEMONS)
def test_package_units_keep_what_the_daemons_need(daemon):
    settings = unit(daemon)
    assert settings["Type"] == ["notify"] and settings["KillSignal"] == ["SIGTERM"] and settings["User"] == ["baton"]
    assert settings["ExecStart"] == [f"/usr/local/bin/baton-{daemon} --config /etc/baton/{daemon}.conf"]
    place = default_of(daemon, {"coordinator": "database", "agent": "state_dir"}[daemon])
    (state,) = settings["StateDirectory"]
    assert place == f"/var/lib/{state}" or place.startswith(f"/var/lib/{state}/")


def test_package_agent_unit_lets_it_see_what_it_looks_at():
    """The boot id, the true host name, and that plugins belong to root: without them states are rebuilt or not served."""
    settings = unit("agent")
    for name in ("PrivateUsers", "ProtectHostname", "ProcSubset"):
        assert name not in settings, name


def test_package_agent_unit_waits_long_enough():
    settings = unit("agent")
    assert settings["TimeoutStartSec"] == ["infinity"], "it is ready only when the coordinator has answered"
    leaving_s = 2 * constant("agent/agent.c", "LEAVE_MS") / 1000 + 5  # the last report, signing off, a request under way
    (stop_s,) = settings["TimeoutStopSec"]
    assert int(stop_s) > seconds(default_of("agent", "stop_timeout")) + leaving_s


@pytest.mark.parametrize("daemon", DAEMONS)
def test_package_units_have_a_watchdog_only_where_it_is_fed(daemon):
    feeds = any("WATCHDOG=1" in path.read_text() for path in (ROOT / daemon).glob("*.c"))
    assert ("WatchdogSec" in unit(daemon)) == feeds


@pytest.fixture
def notify_socket(tmp_path, monkeypatch):
    """What systemd would be told, one datagram at a time."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        yield receiver


def start(daemon, tmp_path, environment=None):
    """With nobody to talk to."""
    own = {
        "coordinator": [f"--database={tmp_path}/baton.db"],
        "agent": ["--agent_id=a", f"--state_dir={tmp_path}/state", "--coordinator=http://127.0.0.1:1"],
    }
    command = [build_directory() / f"baton-{daemon}", "--listen=127.0.0.1:0", "--kafka.bootstrap.servers=127.0.0.1:1"]
    return process.start([*command, *own[daemon]], tmp_path / "log", environment)


def test_package_coordinator_tells_systemd_when_it_is_ready(notify_socket, tmp_path):
    child = start("coordinator", tmp_path)
    assert notify_socket.recv(100) == b"READY=1"
    child.terminate()
    assert notify_socket.recv(100) == b"STOPPING=1"
    assert child.wait(30) == 0


def test_package_agent_feeds_the_watchdog_while_it_waits_for_the_coordinator(notify_socket, tmp_path):
    # Rarely: the socket holds ten datagrams and loses what comes then.
    child = start("agent", tmp_path, {"WATCHDOG_USEC": "2000000"})
    assert [notify_socket.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3, "not ready: there is no coordinator"
    child.terminate()
    wait_until(lambda: notify_socket.recv(100) == b"STOPPING=1", 20, "it says that it stops")
    assert child.wait(30) == 0


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="systemd-sysusers is not installed")
def test_package_user_can_be_made(tmp_path):
    for folder in ("etc", "usr/lib"):
        os.makedirs(tmp_path / folder)
    command = ["systemd-sysusers", f"--root={tmp_path}", "--dry-run", ROOT / "deploy/sysusers-baton.conf"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-sysusers has no --dry-run")
    assert done.returncode == 0, done.stderr
    assert "Would create user baton" in done.stdout + done.stderr or "Creating user 'baton'" in done.stdout + done.stderr
