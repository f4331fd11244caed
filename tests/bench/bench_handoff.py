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

import argparse
import array
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "tests" / "bench")]

import phases  # noqa: E402
import process  # noqa: E402
from daemons import Daemons  # noqa: E402
from handoff_report import Report, steady_windows, window_length  # noqa: E402
from jobs import Job  # noqa: E402
from kafka import Broker, RunningBroker  # noqa: E402
from latency import Arrivals  # noqa: E402
from oracle import check_outputs  # noqa: E402
from waiting import wait_until  # noqa: E402

TOOLS = ROOT / "build" / "tools"
LIMIT_S = 120
SEED = 4
KEPT_S = 86_400
BROKER = {"broker.session.timeout.ms": "120000"}  # a busy one must not take itself for dead (docs/design.md D9)
LATE_MS = 30  # what a timer's tick and a busy core explain


def say(text):
    print(text, file=sys.stderr, flush=True)


def now_us():
    return time.time_ns() // 1000


class PacedLoad:
    """tests/tools/paced_load.c as a child. `rate` 0: as fast as it goes."""

    def __init__(self, broker, topic, directory, keys, seed, rate, total=0):
        self._counts = directory / f"load-{seed}.counts"
        self._log = directory / f"load-{seed}.log"
        program = [TOOLS / "paced_load", broker.bootstrap, topic, keys, seed, rate, total, self._counts]
        self._child = process.start(program, self._log)

    def wait(self):
        """Until all of it is acknowledged; it was given a total, or told to end."""
        code = self._child.wait(LIMIT_S)
        assert code == 0, f"the load ended with {code}: {self._log.read_text()}"
        records, late_us = self._log.read_text().split()[-2:]
        self.records, self.late_ms_max = int(records), int(late_us) / 1000
        self.counts = array.array("I", self._counts.read_bytes())
        return self

    def stop(self):
        assert self._child.poll() is None, f"the load ended by itself: {self._log.read_text()}"
        self._child.terminate()
        return self.wait()


class Recorder:
    """tests/tools/arrivals.c as a child."""

    def __init__(self, broker, topic, partitions, directory):
        self._path = directory / "arrivals"
        self._log = directory / "arrivals.log"
        self._child = process.start([TOOLS / "arrivals", broker.bootstrap, topic, partitions, self._path], self._log)

    def stop(self, since_us):
        self._child.terminate()
        code = self._child.wait(LIMIT_S)
        assert code == 0, f"the consumer ended with {code}: {self._log.read_text()}"
        return Arrivals.read(self._path, since_us)


class Bench:
    AGENTS = 2

    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.broker = RunningBroker(options.kafka) if options.kafka else Broker(directory / "kafka", 0, BROKER)
        self.job = None
        self.daemons = Daemons(directory, self.broker)
        self.handoffs = []
        self.quiet = []  # (begin, end): times without a hand-over
        self.load_average_before = round(os.getloadavg()[0], 2)

    def finish(self):
        for child in process.started:
            if child.args[0].startswith(str(TOOLS)):
                process.end(child)
        try:
            self.daemons.finish()
            if self.options.kafka and self.job:
                self.broker.delete_topic(self.job.input)
                self.broker.delete_topic(self.job.output)
        finally:
            self.broker.finish()

    # ---- what is measured

    def run(self):
        """Moves processors under load; then compares what came with what was sent. (arrivals, load, verdict)"""
        self.set_up()
        options = self.options
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
        return arrivals, load, self.check(history, load)

    def set_up(self):
        options = self.options
        self.broker.start()
        coordinator = self.daemons.coordinator(log_level="info")
        names = [f"agent-{number + 1}" for number in range(self.AGENTS)]
        self.agents = [self.daemons.agent(coordinator, name, log_level="info") for name in names]
        tag = uuid.uuid4().hex[:8]
        self.job = Job(
            self.broker, coordinator, lambda word: f"{word}-bench-{tag}", options.partitions, provenance=False,
            commit_interval_ms=options.commit_interval, delivery="exactly_once",
        )  # fmt: skip
        self.job.create()
        self.job.wait_active(limit_s=LIMIT_S)
        wait_until(lambda: not self.job.status()["handoffs_running"], LIMIT_S, "no hand-over is under way")

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
        http = self.job.coordinator.http
        source, target = (self.agents[(number + i) % 2].name for i in range(2))
        mine = [each["processor"] for each in self.job.processors() if each["agent"] == source]
        moved = [each["processor"] for each in self.handoffs]
        processor = min(mine, key=lambda each: (moved.count(each), each))
        wish = {"processor": processor, "agent": target, "reason": "bench"}
        operation = http.post(f"/v1/jobs/{self.job.name}/moves", wish, expect=202).json
        deadline = time.monotonic() + LIMIT_S
        while operation["state"] in ("pending", "running"):
            assert time.monotonic() < deadline, f"not done within {LIMIT_S} s: {operation}"
            operation = http.get(f"/v1/operations/{operation['id']}?wait=5s").json
        assert operation["state"] == "succeeded", operation
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

    # ---- what is made of it

    def check(self, *loads):
        """The outputs of all loads, by another client than the agents'."""
        counts = [sum(each) for each in zip(*(load.counts for load in loads))]
        expected = {b"key-%d" % key: count for key, count in enumerate(counts) if count}
        say("reading the outputs back")
        return check_outputs(self.broker.bootstrap, self.job.output, expected, LIMIT_S)

    def environment(self):
        version = self.agents[-1].http.get("/version").json
        return {
            "cores": os.cpu_count(),
            "cpu": _cpu(),
            "load_average_before": self.load_average_before,
            "kafka": self.options.kafka or _output("bash", "-c", '. scripts/env.sh && echo "$KAFKA_VERSION"'),
            "librdkafka": version["librdkafka"],
            "baton": version["version"],
            "commit": _output("git", "rev-parse", "HEAD"),
            "changed_files": len(_output("git", "status", "--porcelain").splitlines()),
        }


def _cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return None


def _output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def measure(kind, options, directory):
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


def parse(arguments, text, numbers):
    about, _, more = text.partition("\n")
    parser = argparse.ArgumentParser(description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, fallback, what in numbers:
        parser.add_argument(f"--{name}", type=int, default=fallback, help=f"{what} (default {fallback})")
    numbers = parser.parse_args([])
    parser.add_argument("--keep", action="store_true", help="keep logs, states and the broker's data in any case")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="use this broker instead of starting one")
    options = parser.parse_args(arguments)
    if min(getattr(options, name) for name in vars(numbers)) < 1:
        parser.error("all numbers must be 1 or more")
    return options


def make_directory():
    """For logs, states and the broker's data; kept when something went wrong, for a day at least."""
    kept = ROOT / "build" / "bench"
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob("handoff-*"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old)
    return pathlib.Path(tempfile.mkdtemp(prefix="handoff-", dir=kept))


def show(summary):
    """For a person who looks on: the figures that count, and where the time of the hand-overs went."""
    rows = [("added latency", summary["added_latency_ms"]), ("output gap", summary["output_gap_ms"]),
            ("gap as seen", summary["seen_gap_ms"]), ("steady latency", summary["steady_latency_ms"]),
            ("worst of a steady window", summary["steady_worst_ms"]), *summary["steps_ms"].items()]  # fmt: skip
    say(f"{'ms':<26}{'p50':>9}{'p99':>9}{'max':>9}")
    for name, figures in rows:
        if figures:
            say(f"{name:<26}" + "".join(f"{figures[each]:>9}" for each in ("p50", "p99", "max")))
    if summary["load_late_ms_max"] > LATE_MS:
        say(f"the load itself was held up for as much as {summary['load_late_ms_max']} ms: this machine is busy with other "
            "things, and the figures say more about it than about baton")  # fmt: skip


def main(name, kind, text, numbers):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: ended by SIGTERM"))  # in order, children first
    options = parse(sys.argv[1:], text, numbers)
    directory = make_directory()
    try:
        lines, faults = measure(kind, options, directory)
    except BaseException:
        say(f"{name}: broken off; logs and states are in {directory}")
        raise
    for line in lines:
        print(json.dumps(line), flush=True)
    show(lines[-1])
    for fault in faults:
        say(f"{name}: {fault}")
    if faults or options.keep:
        say(f"{name}: logs and states are in {directory}")
    else:
        shutil.rmtree(directory)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main("bench-handoff", Bench, __doc__, NUMBERS))
