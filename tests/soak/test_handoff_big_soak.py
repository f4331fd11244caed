"""The big run: a million records of history, live load on top, a second agent joins and then a third. Twenty times, exact.

    BATON_SOAK_BIG_RUNS=1 make soak K=big       one run of it
"""

import os
import time

import pytest

from oracle import check_outputs
from scene import Scene

RUNS = int(os.environ.get("BATON_SOAK_BIG_RUNS", "20"))
LIMIT_S = 300
PARTITIONS = 8
KEYS = 500_000
HISTORY = 1_000_000
RATE = 4_000


def phases(handoffs):
    """What each hand-over took, by phase, in the order of its size."""
    names = ("learning_ms", "caught_up_ms", "releasing_ms", "released_ms", "activating_ms", "output_gap_ms")
    return {name: sorted(each[name] for each in handoffs) for name in names}


def join(stage, shares):
    """One more agent. Once loads are even again: (seconds, its hand-overs)."""
    before = {each["id"] for each in stage.job.handoffs()}
    began = time.monotonic()
    stage.agent(checkpoint_interval="1s")
    stage.job.wait(f"the shares are {shares}", lambda status: sorted(stage.job.owners().values()) == shares
                   and status["handoffs_running"] == 0, LIMIT_S)
    spent_s = time.monotonic() - began
    made = [each for each in stage.job.handoffs() if each["id"] not in before]
    assert all(each["state"] == "done" and not each["forced"] for each in made), made
    return spent_s, made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", range(1, RUNS + 1))
def test_handoff_of_a_big_job_soak(broker, daemons, unique, loads, figures, run):
    began = time.monotonic()
    stage = Scene(broker, daemons, unique, loads, partitions=PARTITIONS)
    history = loads(broker.bootstrap, stage.job.input, keys=KEYS, seed=1_000 + run, total=HISTORY).wait(LIMIT_S)
    stage.agent(checkpoint_interval="1s")
    stage.job.wait_active(limit_s=LIMIT_S)
    stage.job.wait_drained(limit_s=LIMIT_S)
    live = loads(broker.bootstrap, stage.job.input, keys=KEYS, seed=2_000 + run, rate=RATE)
    stage.wait_outputs(2 * RATE)
    second_s, second = join(stage, [4, 4])
    assert len(second) == 4, second
    third_s, third = join(stage, [2, 3, 3])
    assert len(third) == 2, third
    stage.wait_outputs(2 * RATE)
    sent = history + live.stop()
    verdict = check_outputs(broker.bootstrap, stage.job.output, sent, LIMIT_S, provenance_of=[stage.job.input])
    figures(run=run, records=sent.total, lost=verdict.lost, doubled=verdict.doubled, misordered=verdict.misordered,
            unexpected=verdict.unexpected, second_join_s=round(second_s, 2), third_join_s=round(third_s, 2),
            replayed=stage.job.replayed(), run_s=round(time.monotonic() - began, 1), **phases(second + third))
    verdict.assert_exact()
    stage.assert_one_at_a_time()
    for topic in (stage.job.input, stage.job.output):  # twenty of them would fill the disk
        broker.delete_topic(topic)
