"""`make bench-handoff` runs, counts exactly and prints what it promises. Small, and on a busy machine: no figure is judged."""

import pytest

import benches

LIMIT_S = 280
SMALL = {
    "handoffs": 2, "rate": 1000, "keys": 500, "history": 3000, "partitions": 4, "pause": 1, "warm_up": 1, "margin": 200,
    "window": 500, "steady_windows": 3,
}  # fmt: skip


@pytest.mark.timeout(300)
def test_handoff_bench_prints_a_line_for_each_and_one_for_all(broker):
    lines, summary = benches.run("bench_handoff", broker, LIMIT_S, **SMALL)
    assert [line["processor"] for line in lines] and len(lines) == summary["handoffs"] == 2
    for line in lines:
        assert line["source"] != line["target"]
        assert line["records_replayed"] > 0
        assert line["worst_ms"] == max(line["worst_moved_ms"], line["worst_others_ms"]) > 0
        assert abs(line["added_ms"] - (line["worst_ms"] - summary["steady_worst_ms"]["p50"])) < 0.2
        assert line["output_gap_ms"] > 0 and line["seen_gap_ms"] > 0
        known = [line[phase] for phase in ("releasing_ms", "released_ms", "activating_ms") if line[phase] is not None]
        took = sum(line["steps_ms"].values())
        assert {"tell_source", "report_released", "init_transactions", "first_commit"} <= line["steps_ms"].keys()
        assert abs(took - sum(known)) <= len(line["steps_ms"]), "the steps add up to the phases"
    added = sorted(line["added_ms"] for line in lines)
    assert summary["added_latency_ms"] == {"p50": added[0], "p99": added[1], "max": added[1]}
    assert summary["steady_latency_ms"]["p50"] <= summary["steady_latency_ms"]["p99"] <= summary["steady_latency_ms"]["max"]
    assert summary["steady_windows"] >= 3
    assert summary["exact"] is True
    assert summary["outputs"] == summary["load_records"] + SMALL["history"]
    assert all(summary["environment"][name] for name in ("cores", "kafka", "librdkafka", "baton", "commit"))
