"""S24: every option of the daemons and every field of a job at zero, at the least and at the most that is allowed.

The lists come from docs/configuration.md, which is printed from the code: what is added there is tested here at once. A value
out of its range is refused with a line that names the option and the range; at both ends of the ranges a job runs and its
processors go from one agent to another.
"""

import itertools
import re

import pytest

from daemons import ROOT
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

PAGE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Needed for a broker to be reached and for a test to read logs.
UNTOUCHED = ("listen",)


def table(title):
    """Rows of one generated table, as lists of cells."""
    text = re.search(rf"<!-- generated: {re.escape(title)} -->\n(.*?)<!-- end -->", PAGE, re.S)[1]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    assert rows
    return rows


def ranged_options(program):
    """[(name, least, most)] of options that take a number with or without unit."""
    found = [(row[0], re.search(r"from (\S+) to (\S+)$", row[2])) for row in table(f"options of the {program}")]
    return [(name, match[1], match[2]) for name, match in found if match]


def ranged_fields():
    """[(name, least, most)] of numeric fields of a job: numbers as numbers, durations as text."""
    found = []
    for row in table("fields of a job"):
        match = re.match(r"(duration, )?(\d+[smhd]*) to (\d+[smhd]*)$", row[1])
        if match:
            found.append((row[0], *(match.group(i) if match[1] else int(match.group(i)) for i in (2, 3))))
    return found


OPTIONS = {program: ranged_options(program) for program in ("coordinator", "agent")}
FIELDS = ranged_fields()


def moved(value, by):
    """The value one smallest step further."""
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", value).groups()
    return str(int(number) * UNITS[unit] + by) + ("ms" if unit in ("ms", "s", "m", "h", "d") else "")


def beyond(name, least, most):
    """Values just out of the range, and zero where it is out of it."""
    values = [moved(most, 1)]
    if int(re.match(r"\d+", least)[0]) > 0:
        zero = re.sub(r"\d+", "0", least)
        values += [moved(least, -1), zero]
    return values


def test_handoff_limits_are_read_from_the_page():
    assert {"agent_timeout", "report_interval", "poll_wait_max"} <= {name for name, *_ in OPTIONS["coordinator"]}
    assert {"capacity", "checkpoint_interval", "stop_timeout"} <= {name for name, *_ in OPTIONS["agent"]}
    assert {"commit_interval_ms", "rejoin_grace", "settle", "max_learners"} <= {name for name, *_ in FIELDS}


@pytest.mark.parametrize("program", ["coordinator", "agent"])
def test_handoff_options_out_of_range_are_refused(daemons, program):
    """By the name of the option and its range, at the start, with status 1."""
    daemon = daemons.coordinator(start=False) if program == "coordinator" else daemons.agent("127.0.0.1:1", start=False)
    for name, least, most in OPTIONS[program]:
        for value in beyond(name, least, most):
            before = daemon.options.get(name)
            daemon.options[name] = value
            daemon.start(ready=None)
            assert daemon.wait_exit() == 1, f"{name} = {value} was taken"
            said = daemon.log_text()
            assert name in said and f"from {least} to {most}" in said, said
            if before is None:
                del daemon.options[name]
            else:
                daemon.options[name] = before


def test_handoff_fields_out_of_range_are_refused(scene):
    stage = scene(partitions=2)
    path = f"/v1/jobs/{stage.job.name}-new"
    for name, least, most in FIELDS:
        for value in beyond(name, str(least), str(most)):
            body = {**stage.job.spec, "group_id": stage.job.group + "-new", name: value if isinstance(least, str) else int(value)}
            problem = stage.coordinator.http.problem("PUT", path, body, expect=(400, 422))
            (error,) = [each for each in problem["errors"] if each["pointer"] == f"/{name}"]
            assert str(least) in error["detail"] and str(most) in error["detail"], problem


# ---- at the ends of the ranges


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def limits_of(program, which):
    """{option: its least or its most}."""
    return {name: (least, most)[which == "most"] for name, least, most in OPTIONS[program]}


def spec_at(which, partitions):
    """All numeric fields at that end, except where another one allows less."""
    spec = {name: (least, most)[which == "most"] for name, least, most in FIELDS}
    spec["processors"] = {"least": 1, "most": partitions}[which]
    spec["initial_partitions"] = {"least": 0, "most": partitions}[which]
    return spec


@pytest.mark.parametrize("which", ["least", "most"])
def test_handoff_at_the_limits_of_every_option(scene, which):
    partitions = 2
    stage = scene(partitions=partitions, coordinator=limits_of("coordinator", which), **spec_at(which, partitions))
    first = stage.agent(**limits_of("agent", which))
    stage.job.wait_active()
    stage.history(2_000)
    second = stage.agent(**limits_of("agent", which))
    if which == "most":  # it is a newcomer, and owed one of the two
        stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    for target in (second, first, second):
        for processor in range(stage.job.spec["processors"]):
            operation = stage.job.wait_operation(stage.move(target, processor))
            assert operation["state"] == "succeeded", operation
        stage.job.wait_owners({target.name: stage.job.spec["processors"]})
        stage.history(2_000)
    targets = itertools.cycle((first, second))

    def all_is_committed():
        """A release commits what the interval would hold back: as much as was worked on by then."""
        target = next(targets)
        for processor in range(stage.job.spec["processors"]):
            stage.job.wait_operation(stage.move(target, processor))
        committed = stage.job.committed()
        return all(committed[stage.job.input, p][0] >= end for p, end in stage.broker.end_offsets(stage.job.input).items())

    wait_until(all_is_committed, LIMIT_S, "the releases commit all")
    stage.assert_exact()
    for agent in (first, second):
        agent.kill()  # with stop_timeout at 0 an agent does not end in order


def test_handoff_after_a_grace_of_zero(scene):
    """A lost agent's processors go on at once, and it may come back."""
    stage = scene(rejoin_grace="0s")
    first = stage.agent()
    stage.job.wait_active()
    stage.load()
    stage.agent()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    first.kill()
    stage.job.wait_owners({"agent-2": 2})
    first.start()
    stage.wait_agent(first, "alive")
    stage.wait_outputs(100)
    stage.assert_exact()
