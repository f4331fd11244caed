"""Measures hand-overs on a real broker, as an outsider sees them: `make bench-handoff N=20 RATE=4000`.

A `count` job (8 partitions, 8 processors, exactly_once, a commit every 100 ms) with some history runs on two agents under an
even load. One processor after the other is moved to the other agent and, later, back. Latency is the arrival of an output at
a read_committed consumer less the timestamp of its input.

The window of a hand-over begins `--margin` before the source is told to stop and holds the time until the target's first
commit was reported, and `--margin` after it. All windows have one length: `--window`, or that of the longest hand-over with
its margins when that is longer. An output counts for a window when its life, from its input's timestamp to its arrival,
touches it; outputs of all processors count, the moved one and the others.

    added = the worst latency in the hand-over's window - the median of the worst of the steady windows

Steady windows are as long, and lie where no hand-over and no learning is: before the first, between two, after the last;
they touch no window of a hand-over.
Percentiles are by nearest rank, so with 20 hand-overs p99 is the maximum. `learning_worst_ms` is the worst latency while
the target learned; `seen_gap_ms` the longest time in which no output of the moved processor arrived.

Prints one JSON line for each hand-over and a last one for all; progress goes to stderr. Exit code 1, with the reasons on
stderr, when the outputs are not exact, or a window has no outputs: then the figures mean nothing.
"""

import sys
import time

import phases
from handoff_report import Report, steady_windows, window_length
from rig import LIMIT_S, SEED, PacedLoad, Recorder, Rig, now_us, parse, run_program, say, show_figures


class Bench(Rig):
    def __init__(self, options, directory):
        super().__init__(options, directory)
        self.handoffs = []
        self.quiet = []  # (begin, end): times without a hand-over

    # ---- what is measured

    def run(self):
        """Moves processors under load; then compares what came with what was sent. (arrivals, load, verdict)"""
        options = self.options
        self.start()
        self.job = self.make_job(options.partitions, options.partitions)
        history = PacedLoad(self.broker, self.job.input, self.directory, options.keys, SEED, 0, options.history).wait()
        self.job.wait_drained(LIMIT_S)
        recorder = Recorder(self.broker, self.job.output, options.partitions, self.directory)
        began = now_us()
        load = PacedLoad(self.broker, self.job.input, self.directory, options.keys, SEED + 1, options.rate)
        time.sleep(options.warm_up)
        self.move_all()
        self.end()
        load.stop()
        self.job.wait_drained(LIMIT_S)
        arrivals = recorder.stop(began)
        return arrivals, load, self.check(self.job, history, load)

    def move_all(self):
        say(f"{self.options.handoffs} hand-overs under {self.options.rate} records/s")
        quiet_since = now_us()
        for number in range(self.options.handoffs):
            time.sleep(self.options.pause)
            asked = now_us()
            handoff = self.move(number)
            self.quiet.append((quiet_since, asked))
            time.sleep(self.options.margin / 1000)
            quiet_since = now_us()
            self.note(handoff)
        self.stay_quiet(quiet_since)

    def note(self, handoff):
        assert handoff["state"] == "done" and not handoff["forced"], f"not handed over as asked: {handoff}"
        (moved,) = (each for each in self.job.processors() if each["processor"] == handoff["processor"])
        self.handoffs.append({**handoff, "records_replayed": moved["replayed"]})
        say(f"  {len(self.handoffs)}: processor {handoff['processor']} {handoff['source']} -> {handoff['target']}, "
            f"gap {handoff['output_gap_ms']} ms")  # fmt: skip

    def stay_quiet(self, quiet_since):
        self.find_moments()
        # After the last: as long as it takes until there are enough steady windows, within reason; one pause at least.
        spans = self.handoffs, self.options.margin * 1000, self.options.window * 1000
        missing = self.options.steady_windows - len(steady_windows(*spans, self.quiet))
        time.sleep(max(self.options.pause, min(LIMIT_S, (missing + 1) * window_length(*spans) / 1e6)))
        self.quiet.append((quiet_since, now_us()))
        time.sleep(self.options.margin / 1000)  # the load goes on: the last windows are like all others

    def move(self, number):
        """Moves a processor to the other agent, in turn from either, so that loads stay even. Waits until it is done."""
        source, target = (self.agents[(number + i) % 2].name for i in range(2))
        mine = [each["processor"] for each in self.job.processors() if each["agent"] == source]
        moved = [each["processor"] for each in self.handoffs]
        processor = min(mine, key=lambda each: (moved.count(each), each))
        wish = {"processor": processor, "agent": target, "reason": "bench"}
        operation = self.wait_operation(self.coordinator.http.post(f"/v1/jobs/{self.job.name}/moves", wish, expect=202).json)
        made = self.job.handoffs()
        (handoff,) = (each for each in made if each["operation"] == operation["id"])
        return handoff

    def end(self):
        """What is still to happen under load, when all is measured."""

    def more(self):
        """Figures of its own."""
        return {}

    def find_moments(self):
        lines = {each.name: each.log_events("task_phase") + each.log_events("task_desired") for each in self.agents}
        for handoff in self.handoffs:
            handoff["moments"] = phases.moments_us(handoff, lines[handoff["source"]], lines[handoff["target"]])


def measure(options, directory, kind=Bench):
    """(lines, faults); the last line is the summary."""
    bench = kind(options, directory)
    try:
        arrivals, load, verdict = bench.run()
        report = Report(
            bench.handoffs, arrivals, bench.quiet, options.margin * 1000, options.window * 1000, options.steady_windows
        )
        summary = {
            **report.summary(),
            **bench.more(),
            "exact": verdict.exact,
            "outputs": verdict.total,
            "load_records": load.records,
            "load_late_ms_max": round(load.late_ms_max, 1),
            "options": vars(options),
            "environment": bench.environment(),
        }
        faults = report.faults + ([] if verdict.exact else [f"the outputs are not exact: {verdict}"])
        return [*report.lines, summary], faults
    finally:
        bench.finish()


NUMBERS = (
    ("handoffs", 20, "how many"),
    ("rate", 4000, "records a second"),
    ("keys", 100_000, "different keys"),
    ("history", 400_000, "records before the measured time"),
    ("partitions", 8, "and as many processors"),
    ("commit-interval", 100, "of the job, in ms"),
    ("pause", 4, "seconds between two hand-overs"),
    ("warm-up", 10, "seconds of load before the first"),
    ("margin", 500, "ms on both sides of a hand-over"),
    ("window", 1500, "ms, the least length of all windows"),
    ("steady-windows", 20, "at least"),
)


def show(summary):
    rows = [("added latency", summary["added_latency_ms"]), ("output gap", summary["output_gap_ms"]),
            ("gap as seen", summary["seen_gap_ms"]), ("steady latency", summary["steady_latency_ms"]),
            ("worst of a steady window", summary["steady_worst_ms"]), *summary["steps_ms"].items()]  # fmt: skip
    show_figures(rows, summary["load_late_ms_max"])


if __name__ == "__main__":
    sys.exit(run_program("bench-handoff", parse(__doc__, NUMBERS, sys.argv[1:]), measure, show))
