"""Dockerfile and docker-compose.yml, as far as they can be checked without a container engine: the compose file against the
Compose Specification, its names and options against what they point to, the image's packages against what the daemons need."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from compose_spec import PyCompose

from daemons import ROOT, build_directory

COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DAEMONS = ("baton-coordinator", "baton-agent")
needs_daemons = pytest.mark.skipif(
    not all((ROOT / program.removeprefix("baton-") / "main.c").exists() for program in DAEMONS),
    reason="the daemons are not written yet",
)


def compose():
    return yaml.safe_load(COMPOSE)


def runtime_packages():
    """What the last stage of the Dockerfile installs."""
    install = re.search(r"apt-get install.*?--no-install-recommends(.*?)&&", DOCKERFILE.rsplit("\nFROM ", 1)[1], re.S)
    return set(install[1].replace("\\", " ").split())


def parse_compose(document):
    """Through the strict parser, which knows neither merge keys nor YAML anchors: it gets what Compose makes of them."""
    return PyCompose.from_json(json.dumps(document))


def test_compose_matches_the_specification():
    assert sorted(parse_compose(compose()).service_names()) == ["agent-1", "agent-2", "coordinator", "kafka"]


@pytest.mark.parametrize("service, path, value, complaint", [
    ("coordinator", "imagee", "x", "imagee"),
    ("agent-1", "depends_on", {"coordinator": {"condition": "service_happy"}}, "service_happy"),
    ("kafka", "healthcheck", {"test": ["CMD", "true"], "interval": "often"}, "often"),
])  # fmt: skip
def test_compose_check_finds_mistakes(service, path, value, complaint):
    """The parser above is strict enough to be worth asking."""
    document = compose()
    document["services"][service][path] = value
    with pytest.raises(ValueError, match=complaint):
        parse_compose(document)


def test_compose_names_exist():
    document = compose()
    for name, service in document["services"].items():
        for other, how in service.get("depends_on", {}).items():
            assert other in document["services"], f"{name} depends on {other}"
            if how["condition"] == "service_healthy":
                own_check = "healthcheck" in document["services"][other]
                assert own_check or "HEALTHCHECK" in DOCKERFILE, f"{name} waits for {other}, which has no health check"
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in document["volumes"], f"{name}: {volume}"
    used = {volume.split(":")[0] for service in document["services"].values() for volume in service.get("volumes", ())}
    assert used == set(document["volumes"])


def test_compose_states_are_not_shared():
    """Each agent has a volume and a host name (its id) of its own."""
    agents = [service for name, service in compose()["services"].items() if name.startswith("agent-")]
    assert len({agent["hostname"] for agent in agents}) == len({agent["volumes"][0] for agent in agents}) == len(agents) == 2


@needs_daemons
def test_compose_options_are_known():
    for name, service in compose()["services"].items():
        if "command" not in service:
            continue
        program, *options = service["command"]
        known = subprocess.run([build_directory() / program, "--help"], capture_output=True, text=True, check=True).stdout
        for option in options:
            key = option.removeprefix("--").split("=")[0]
            assert key.startswith("kafka.") or re.search(rf"--{re.escape(key)}\b", known), f"{name}: {program} has no {key}"


def test_dockerfile_copies_what_is_there():
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M):
        for source in sources.split():
            assert (ROOT / source).exists(), source


def test_dockerfile_ends_without_root():
    last_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert re.search(r"^USER baton$", last_stage, re.M)
    assert "useradd" in last_stage[: last_stage.index("USER baton")]


@needs_daemons
@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="package names are Debian's")
def test_dockerfile_installs_what_the_daemons_need():
    packages = runtime_packages()
    for program in DAEMONS:
        dump = subprocess.run(["objdump", "-p", build_directory() / program], capture_output=True, text=True, check=True)
        linked = subprocess.run(["ldd", build_directory() / program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"NEEDED\s+(\S+)", dump.stdout):
            path = re.search(rf"^\s*{re.escape(library)} => (\S+)", linked, re.M)
            if path is None or library.startswith(("libc.", "libm.", "ld-linux")):
                continue
            owner = subprocess.run(["dpkg-query", "-S", f"*/{library}"], capture_output=True, text=True, check=True).stdout
            names = {line.split(":")[0] for line in owner.splitlines()}
            assert names & packages, f"{program} needs {library} of {names}"
