"""What the programs that measure on a real broker share: broker, daemons, jobs, the load and who notes what comes of it."""

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
sys.path[:0] = [str(ROOT / "tests" / "system")]

import process  # noqa: E402
from daemons import Daemons  # noqa: E402
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


class Rig:
    """A broker, a coordinator and agents. Jobs and loads come and go; each job has a folder of its own."""

    AGENTS = 2

    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.broker = RunningBroker(options.kafka) if options.kafka else Broker(directory / "kafka", 0, BROKER)
        self.daemons = Daemons(directory, self.broker)
        self.jobs = []
        self.load_average_before = round(os.getloadavg()[0], 2)

    def start(self):
        self.broker.start()
        self.coordinator = self.daemons.coordinator(log_level="info")
        names = [f"agent-{number + 1}" for number in range(self.AGENTS)]
        self.agents = [self.daemons.agent(self.coordinator, name, log_level="info") for name in names]

    def finish(self):
        for child in process.started:
            if child.args[0].startswith(str(TOOLS)):
                process.end(child)
        try:
            self.daemons.finish()
            for job in self.jobs if self.options.kafka else ():
                self.broker.delete_topic(job.input)
                self.broker.delete_topic(job.output)
        finally:
            self.broker.finish()

    def make_job(self, partitions, processors, outputs=None, **spec):
        """Its processors are at work. `outputs`: partitions of the output, when they are others."""
        tag = uuid.uuid4().hex[:8]
        job = Job(
            self.broker, self.coordinator, lambda word: f"{word}-bench-{tag}", partitions, processors, create_topics=False,
            provenance=False, commit_interval_ms=self.options.commit_interval, delivery="exactly_once", **spec,
        )  # fmt: skip
        self.jobs.append(job)
        self.broker.create_topic(job.input, partitions)
        self.broker.create_topic(job.output, outputs or partitions)
        job.create()
        job.wait_active(limit_s=LIMIT_S)
        wait_until(lambda: not job.status()["handoffs_running"], LIMIT_S, "no hand-over is under way")
        return job

    def wait_operation(self, operation):
        """The operation, once it has succeeded."""
        deadline = time.monotonic() + LIMIT_S
        while operation["state"] in ("pending", "running"):
            assert time.monotonic() < deadline, f"not done within {LIMIT_S} s: {operation}"
            operation = self.coordinator.http.get(f"/v1/operations/{operation['id']}?wait=5s").json
        assert operation["state"] == "succeeded", operation
        return operation

    # ---- what is made of it

    def check(self, job, *loads):
        """The outputs of all loads, by another client than the agents'."""
        counts = [sum(each) for each in zip(*(load.counts for load in loads))]
        expected = {b"key-%d" % key: count for key, count in enumerate(counts) if count}
        say("reading the outputs back")
        return check_outputs(self.broker.bootstrap, job.output, expected, LIMIT_S)

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


def parse(doc, numbers, arguments, zero=()):
    """Options of (name, fallback, what it is), each 1 or more unless its name is in `zero`, and those that all programs have."""
    about, _, more = doc.partition("\n")
    parser = argparse.ArgumentParser(description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, fallback, what in numbers:
        parser.add_argument(f"--{name}", type=int, default=fallback, help=f"{what} (default {fallback})")
    parser.add_argument("--keep", action="store_true", help="keep logs, states and the broker's data in any case")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="use this broker instead of starting one")
    options = parser.parse_args(arguments)
    for name, *_ in numbers:
        if getattr(options, name.replace("-", "_")) < (0 if name in zero else 1):
            parser.error(f"--{name} must be {0 if name in zero else 1} or more")
    return options


def make_directory(name):
    """For logs, states and the broker's data; kept when something went wrong, for a day at least."""
    kept = ROOT / "build" / "bench"
    kept.mkdir(parents=True, exist_ok=True)
    for old in kept.glob(f"{name}-*"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            shutil.rmtree(old)
    return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=kept))


def show_figures(rows, late_ms_max):
    """For a person who looks on: rows of (what, p50 p99 max), and whether they can be believed."""
    say(f"{'ms':<26}{'p50':>9}{'p99':>9}{'max':>9}")
    for name, figures in rows:
        if figures:
            say(f"{name:<26}" + "".join(f"{figures[each]:>9}" for each in ("p50", "p99", "max")))
    if late_ms_max > LATE_MS:
        say(f"the load itself was held up for as much as {late_ms_max} ms: this machine is busy with other "
            "things, and the figures say more about it than about baton")  # fmt: skip


def run_program(name, options, measure, show):
    """`measure(options, directory)` gives (lines, faults), the last line being the summary, which `show` shows. The exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: ended by SIGTERM"))  # in order, children first
    directory = make_directory(name.removeprefix("bench-"))
    try:
        lines, faults = measure(options, directory)
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
