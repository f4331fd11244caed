"""`make demo`, with less of everything: it runs to its end, leaves nothing behind, and fails when it must."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from daemons import ROOT
from oracle import Verdict

HISTORY = 20_000


def load_demo():
    spec = importlib.util.spec_from_file_location("demo", ROOT / "scripts/demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load_demo()


@pytest.mark.timeout(400)
def test_tutorial_demo_runs_and_cleans_up(broker):
    size = [f"--history={HISTORY}", "--rate=500", "--keys=500", "--step-s=1"]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/demo.py", *size],
        env={**os.environ, "DEMO_KAFKA": broker.bootstrap, "PYTHONFAULTHANDLER": "1"}, capture_output=True, text=True, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" and "\x1b" not in done.stdout, "no terminal: printed as plain lines"
    (records, outputs), = re.findall(r"([\d,]+) records in, ([\d,]+) outputs", done.stdout)
    assert records == outputs and int(records.replace(",", "")) > HISTORY
    assert "0 lost, 0 doubled, 0 misordered, 0 unexpected" in done.stdout
    for text in ("active: host-1 8", "active: host-1 4, host-2 4", "active: host-1 5, host-2 5", "active: host-2 10",
                 "from host-1, gap "):
        assert text in done.stdout, done.stdout
    left = [name for name in broker.admin.list_topics(timeout=30).topics if name.startswith("demo-")]
    groups = [group.group_id for group in broker.admin.list_consumer_groups().result(30).valid]
    assert left == [] and [name for name in groups if name.startswith("demo-")] == []


def handoff(forced=False, **fields):
    return {"state": "done", "forced": forced, "output_gap_ms": 40, "learning_ms": None if forced else 900,
            "kind": "relocate", **fields}


HANDOFFS = [
    *(handoff() for _ in range(4)), *(handoff(kind="split") for _ in range(2)), *(handoff(forced=True) for _ in range(5)),
]  # fmt: skip


def test_tutorial_demo_ends_well_only_when_exact_and_as_planned(capsys):
    assert demo.conclude(Verdict(100), 100, HANDOFFS)
    assert "every record was counted exactly once" in capsys.readouterr().out
    for fault in ("lost", "doubled", "misordered", "unexpected"):
        verdict = Verdict(100)
        verdict.add(fault, 1, "key k")
        assert not demo.conclude(verdict, 100, HANDOFFS), fault
        out = capsys.readouterr().out
        assert f"1 {fault}" in out and f"{fault}: key k" in out and "NOT EXACT" in out and "exactly once" not in out
    for handoffs in (HANDOFFS[1:], HANDOFFS[:-1], HANDOFFS + [handoff()], [handoff(state="cancelled"), *HANDOFFS[1:]],
                     [each for each in HANDOFFS if each["kind"] != "split"], []):
        assert not demo.conclude(Verdict(100), 100, handoffs)
        assert "NOT AS PLANNED" in capsys.readouterr().out


def processor(state="active", agent="host-1", t1=10_000, t2=10_010, **fields):
    partitions = [{"owned": True, "t1": t1, "t2": t2}, {"owned": False, "t1": None, "t2": None}]
    return {"processor": 3, "state": state, "agent": agent, "partitions": partitions, "lag_records": 7,
            "records_per_s": 625.4, "replayed_per_s": 0, "eta_ms": None, **fields}  # fmt: skip


MOVE = {"source": "host-1", "target": "host-2", "replay_records": 2_500, "replayed_per_s": 5_000.0, "eta_ms": 500,
        "output_gap_ms": None}  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "move", "text"),
    [
        (processor(), None, "3 host-1 active 10,000 7 625"),
        (processor(), {**MOVE, "state": "learning"}, "625 host-2 7,500 #######... 75% 5,000 0.5 s"),
        (processor(), {**MOVE, "state": "caught_up", "replay_records": 0, "eta_ms": 0}, "host-2 10,000 ########## 100%"),
        (processor(), {**MOVE, "state": "learning", "replay_records": None, "eta_ms": None}, "host-2 ? ? 5,000 ?"),
        (processor(), {**MOVE, "state": "releasing"}, "625 to host-2: releasing"),
        (processor(agent="host-2"), {**MOVE, "state": "done", "output_gap_ms": 41}, "625 from host-1, gap 41 ms"),
        (processor(agent="host-2"), {**MOVE, "state": "done", "output_gap_ms": 7_100}, "from host-1, gap 7.1 s"),
        (processor("agent_lost", lag_records=None), None, "host-1 lost 10,000 ? 625"),
        (processor("replaying", "host-2", t2=0), {**MOVE, "state": "activating"}, "host-2 0 .......... 0% 0 ?"),
        (processor("opening", "host-2", t1=None), {**MOVE, "state": "activating"}, "opening ? 7 625 to host-2: activating"),
    ],
)  # fmt: skip
def test_tutorial_demo_shows_how_far_each_processor_is(shown, move, text):
    assert text in " ".join(demo.row(shown, move).split())


def test_tutorial_demo_shows_a_processor_that_is_split_off():
    move = {**MOVE, "state": "learning", "processor": 8, "parent": 0}
    assert "8 - split off processor 0 host-2 ? ? 5,000 0.5 s" in " ".join(demo.split_row(move).split())
