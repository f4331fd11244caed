"""The figures of bench_handoff.py and bench_expand.py, on arrivals that are known."""

import struct

from expand_report import Part, summary
from handoff_report import Report, steady_windows, window_length
from latency import Arrivals, cut_out, percentile, spread, windows_within
from phases import moments_us, parse_us, steps_ms

MS, S = 1000, 1_000_000
T = parse_us("2026-11-29T18:00:00.000Z")
PARTITIONS = 4


def outputs(seconds, delay_ms=lambda made, partition: 50):
    """One output per partition every 10 ms, each as late as `delay_ms` says."""
    rows = []
    for made in range(T, T + seconds * S, 10 * MS):
        rows += [(made + delay_ms(made, p) * MS, made, p) for p in range(PARTITIONS)]
    return Arrivals(sorted(rows))


def handoff(at_s, processor=0, took_ms=100, number=1):
    """Told to release at `at_s`, having learned for a second."""
    began = T + at_s * S
    return {
        "id": number, "processor": processor, "source": "a", "target": "b", "started_at": "2026-11-29T18:00:09.000Z",
        "learning_ms": 900, "caught_up_ms": 100, "releasing_ms": 40, "released_ms": 60, "activating_ms": None,
        "output_gap_ms": took_ms, "records_replayed": 7, "moments": {"asked": began, "done": began + took_ms * MS},
    }  # fmt: skip


def report(arrivals, handoffs, quiet, steady_windows_min=1):
    return Report(handoffs, arrivals, quiet, 500 * MS, 1500 * MS, steady_windows_min)


QUIET = [(T, T + 9 * S), (T + 12 * S, T + 20 * S)]


def test_harness_latency_adds_what_a_hand_over_holds_back():
    during = range(T + 10 * S, T + 10 * S + 100 * MS)
    arrivals = outputs(21, lambda made, p: 170 if made in during and p == 0 else 50 + p)
    made = report(arrivals, [handoff(10)], QUIET)
    (line,) = made.lines
    assert not made.faults
    assert line["worst_ms"] == line["worst_moved_ms"] == 170
    assert line["worst_others_ms"] == 53
    assert line["added_ms"] == 170 - 53
    assert made.summary()["added_latency_ms"] == {"p50": 117, "p99": 117, "max": 117}
    assert made.summary()["steady_worst_ms"] == {"p50": 53, "p99": 53, "max": 53}
    assert made.summary()["steady_windows"] == len(steady_windows([handoff(10)], 500 * MS, 1500 * MS, QUIET)) == 11


def test_harness_latency_sees_others_suffer_and_nothing_of_what_is_elsewhere():
    far = range(T + 11 * S + 100 * MS, T + 11 * S + 900 * MS)  # behind the window, before the quiet time
    hit = T + 10 * S + 900 * MS
    arrivals = outputs(21, lambda made, p: 400 if made in far else 90 if made == hit and p == 2 else 50)
    (line,) = report(arrivals, [handoff(10)], QUIET).lines
    assert (line["worst_moved_ms"], line["worst_others_ms"], line["added_ms"]) == (50, 90, 40)


def test_harness_latency_counts_lives_that_span_the_window():
    """What was made long before and came long after it: nothing is hidden by having been very late."""
    stuck = range(T + 8 * S, T + 12 * S)
    arrivals = outputs(21, lambda made, p: (14 * S - (made - T)) // MS if made in stuck and p == 0 else 50)
    (line,) = report(arrivals, [handoff(10)], [(T, T + 7 * S)]).lines
    assert line["worst_moved_ms"] == 6000
    assert line["seen_gap_ms"] is None


def test_harness_latency_refuses_windows_without_outputs():
    silent = Arrivals(row for row in zip(*_columns(outputs(21))) if row[2] != 3 or row[1] < T + 9 * S)
    faults = report(silent, [handoff(10, processor=3)], QUIET).faults
    assert faults == ["no outputs of the moved processor in the window of hand-over 1"]
    gone = Arrivals(row for row in zip(*_columns(outputs(21))) if not T + 13 * S < row[0] < T + 17 * S)
    faults = report(gone, [handoff(10)], QUIET).faults
    assert len(faults) == 2 and all("no outputs in the steady window" in fault for fault in faults)
    nothing = report(Arrivals([]), [handoff(10)], QUIET)
    assert nothing.faults and nothing.lines == [] and nothing.summary()["added_latency_ms"] is None


def test_harness_latency_refuses_too_few_steady_windows():
    assert report(outputs(21), [handoff(10)], QUIET, steady_windows_min=11).faults == []
    (fault,) = report(outputs(21), [handoff(10)], QUIET, steady_windows_min=12).faults
    assert "11 steady windows, at least 12 wanted" in fault


def test_harness_latency_windows_are_equal_and_apart():
    handoffs = [handoff(10), handoff(15, took_ms=730, number=2)]
    length = window_length(handoffs, 500 * MS, 1500 * MS)
    assert length == 1800 * MS, "the longest with its margins, in whole tenths"
    windows = steady_windows(handoffs, 500 * MS, 1500 * MS, [(T, T + 10 * S), (T + 11 * S, T + 15 * S)])
    assert {end - begin for begin, end in windows} == {length}
    taken = [(T + 9_500 * MS, T + 11_300 * MS), (T + 14_500 * MS, T + 16_300 * MS)]
    assert all(end <= first or last <= begin for begin, end in windows for first, last in taken)
    assert len(windows) == 5 + 1
    assert cut_out(0, 100, [(-5, 10), (90, 200), (300, 400)]) == (10, 90)
    assert windows_within(0, 29, 10) == [(0, 10), (10, 20)] and windows_within(30, 0, 10) == []


def test_harness_latency_percentiles_are_values_that_occurred():
    twenty = list(range(1, 21))
    assert (percentile(twenty, 0.5), percentile(twenty, 0.99), percentile([7], 0.5)) == (10, 20, 7)
    assert percentile(range(1, 1001), 0.99) == 990
    assert spread([3.04, 1, 2]) == {"p50": 2, "p99": 3.0, "max": 3.0} and spread([]) is None


def test_harness_latency_reads_what_the_tool_writes(tmp_path):
    file = tmp_path / "arrivals"
    rows = [(T - 5, T // 1000 - 1, 0, 0), (T + 70 * MS + 1, T // 1000, 3, 0)]
    file.write_bytes(b"".join(struct.pack("=qqii", *row) for row in rows))
    arrivals = Arrivals.read(file, since_us=T)
    assert _columns(arrivals) == [[T + 70 * MS + 1], [T], [3]]
    assert arrivals.latencies_ms((T, T + S)) == [70.001]


def test_harness_latency_steps_add_up():
    handed = {**handoff(10), "state": "done", "changed_at": "2026-11-29T18:00:10.100Z", "source_epoch": 4, "target_epoch": 5}

    def line(ms, event, epoch, phase=None, processor=0):
        named = {"phase": phase} if phase else {}
        at = f"2026-11-29T18:00:10.{ms:03}Z"
        return {"ts": at, "event": event, "processor": str(processor), "epoch": str(epoch), **named}

    source = [
        line(1, "task_phase", 4, "release", processor=1), line(2, "task_desired", 4), line(5, "task_phase", 4, "release"),
        line(25, "task_phase", 4, "checkpoint"), line(27, "task_phase", 4, "closed"), line(60, "task_desired", 4),
    ]  # fmt: skip
    target = [
        line(43, "task_desired", 5), line(43, "task_phase", 5, "producer"), line(60, "task_phase", 5, "committed"),
        line(63, "task_phase", 5, "stamp"), line(95, "task_phase", 5, "active"),
    ]  # fmt: skip
    steps = steps_ms(moments_us(handed, source, target))
    assert steps == {
        "tell_source": 2, "stop_source": 3, "release_commit": 20, "report_released": 15, "tell_target": 3, "start_target": 0,
        "init_transactions": 17, "replay": 3, "first_commit": 32, "report_active": 5,
    }  # fmt: skip
    assert sum(steps.values()) == 100


def _columns(arrivals):
    return [list(arrivals.arrived), list(arrivals.made), list(arrivals.partition)]


# ---- expansions


def expansion(at_s, moved, beside=(), settled_s=2):
    began = T + at_s * S
    return {"from": 1, "to": 2, "asked": began, "done": began + 200 * MS, "settled": began + settled_s * S,
            "moved": set(moved), "beside": set(beside)}  # fmt: skip


def part(kind, arrivals, expansions):
    return Part(kind, arrivals, expansions, QUIET, 500 * MS, 1500 * MS)


def test_harness_latency_of_an_expansion_is_of_what_does_not_move():
    asked, settling = range(T + 10 * S, T + 10 * S + 200 * MS), range(T + 11 * S, T + 12 * S)
    slow = {0: 80, 1: 60, 2: 900, 3: 300}
    arrivals = outputs(21, lambda made, p: slow[p] if made in asked else 70 if made in settling else 40)
    made = part("processors", arrivals, [expansion(10, {2}, {3})])
    (line,) = made.lines
    assert not made.faults
    assert line["latency_ms"]["max"] == 80 and line["beside_latency_ms"]["max"] == 300 and line["moved_latency_ms"]["max"] == 900
    assert line["settling_latency_ms"]["p50"] == 70 and (line["took_ms"], line["settled_ms"]) == (200, 1800)
    whole, faults = summary([made], 5)
    assert not faults and whole["expansions"] == 1
    assert whole["steady_latency_ms"] == {"p50": 40, "p99": 40, "max": 40} and whole["steady_windows"] == 6 + 5
    assert whole["during_latency_ms"]["p99"] == 80 and whole["ratio_p99"] == 2
    assert whole["kinds"] == {"processors": {key: whole[key] for key in (
        "expansions", "during_latency_ms", "steady_latency_ms", "ratio_p99")}}  # fmt: skip


def test_harness_latency_of_expansions_is_over_all_of_a_kind_and_says_what_is_missing():
    quick, slow = outputs(21, lambda made, p: 10), outputs(21, lambda made, p: 30)
    parts = [part("partitions", quick, [expansion(10, {2})]), part("processors", slow, [expansion(10, {2}, {3})])]
    whole, faults = summary(parts, 30)
    assert faults == ["22 steady windows, at least 30 wanted: make --pause longer"]
    assert whole["expansions"] == 2 and whole["steady_latency_ms"]["max"] == 30
    for kind, ms in (("partitions", 10), ("processors", 30)):
        assert whole["kinds"][kind]["during_latency_ms"] == whole["kinds"][kind]["steady_latency_ms"]
        assert whole["kinds"][kind]["during_latency_ms"]["max"] == ms and whole["kinds"][kind]["ratio_p99"] == 1
    nobody = part("processors", Arrivals([]), [expansion(10, {2}, {3})])
    assert any("no outputs of what does not move" in fault for fault in nobody.faults)
    assert summary([nobody], 1)[0]["ratio_p99"] is None
