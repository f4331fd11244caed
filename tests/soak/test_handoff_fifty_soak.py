"""S32: an agent joins that is owed fifty processors at once. Learners are throttled, and what does not move keeps its latency."""

import pytest
from latency import percentile
from rig import Recorder, now_us

from scene import Scene
from waiting import wait_until

PROCESSORS = 100
HISTORY = 300_000
RATE = 2_000
LEARNERS_MAX = 4  # of an agent, as it is when nothing is said
STEADY_S = 15
LIMIT_S = 600


@pytest.mark.timeout(1500)
def test_handoff_of_fifty_processors_at_once_soak(broker, daemons, unique, loads, figures, tmp_path):
    stage = Scene(broker, daemons, unique, loads, partitions=PROCESSORS, commit_interval_ms=1000,
                  coordinator={"agent_timeout": "30s"})  # fmt: skip
    stage.agent(capacity=PROCESSORS)
    stage.job.wait_active(limit_s=LIMIT_S)
    stage.history(HISTORY)
    stage.load(rate=RATE)
    recorder = Recorder(broker, stage.job.output, PROCESSORS, tmp_path)
    stage.wait_outputs(RATE * 5)
    steady = now_us()
    stage.wait_outputs(RATE * STEADY_S)
    joined = now_us()
    stage.agent(capacity=PROCESSORS)
    at_once = [0]

    def even():
        at_once.append(sum(each["state"] in ("learning", "caught_up") for each in stage.job.handoffs()))
        return sorted(stage.job.owners().values()) == [PROCESSORS // 2] * 2

    wait_until(even, LIMIT_S, "each has its half")
    ended = now_us()
    done = stage.job.handoffs("done")
    stage.wait_outputs(RATE * 2)
    stage.assert_exact()
    moved = {each["processor"] for each in done}  # a partition each
    seen = recorder.stop(steady)
    before, meanwhile = seen.latencies_ms((steady, joined), but=moved), seen.latencies_ms((joined, ended), but=moved)
    figures(handoffs=len(done), learners_at_once=max(at_once), joined_s=round((ended - joined) / 1e6, 1),
            steady_p99_ms=percentile(before, 0.99), learning_p99_ms=percentile(meanwhile, 0.99),
            ratio=round(percentile(meanwhile, 0.99) / percentile(before, 0.99), 2),
            output_gap_ms=percentile([each["output_gap_ms"] for each in done], 0.5))  # fmt: skip
    assert len(moved) == PROCESSORS // 2 and max(at_once) <= LEARNERS_MAX, (len(moved), max(at_once))
