"""`make bench-drain` runs, counts exactly and prints what it promises. Small, and on a busy machine: no figure is judged."""

import pytest

import benches

LIMIT_S = 280
SMALL = {
    "rate": 1000, "keys": 500, "history": 3000, "partitions": 6, "pause": 2, "warm_up": 1, "margin": 200, "window": 500,
    "steady_windows": 3,
}  # fmt: skip


@pytest.mark.timeout(300)
def test_drain_bench_prints_a_line_for_each_handoff_and_one_for_all(broker):
    lines, summary = benches.run("bench_drain", broker, LIMIT_S, **SMALL)
    assert len(lines) == summary["handoffs"] == 2
    assert {line["source"] for line in lines} == {"agent-1"} and {line["target"] for line in lines} <= {"agent-2", "agent-3"}
    for line in lines:
        assert line["records_replayed"] > 0 and line["worst_ms"] > 0 and line["output_gap_ms"] > 0
    assert summary["safe_to_stop_ms"] >= max(line["output_gap_ms"] for line in lines)
    assert summary["steady_windows"] >= 3 and summary["exact"] is True
    assert summary["outputs"] == summary["load_records"] + SMALL["history"]
