"""Measures what an expansion costs those whom it does not concern, as an outsider sees it: `make bench-expand N=3 RATE=4000`.

`count` jobs (exactly_once, a commit every 100 ms) with some history run on two agents under an even load. Of each round's two
jobs one gets more partitions, 4 to 8 to 16, and the other more processors, 4 to 5 to ... 8 of 8 partitions. Latency is the
arrival of an output at a read_committed consumer less the timestamp of its input.

The window of an expansion begins `--margin` before it is asked for and ends `--margin` after it is done: all tasks have taken
the new partitions, the new processor is active. An output counts for it when its life, from its input's timestamp to its
arrival, touches it, and when its key does not move:

    more partitions   keys that are in the same partition before and after; the output has one partition for each in the end
    more processors   keys of partitions that neither the new processor nor its parent has

`during_latency_ms` is over those of all windows, `steady_latency_ms` over all outputs of windows in which nothing goes on
and all settle windows are closed, `ratio_p99` = during p99 / steady p99. `beside_latency_ms` is of what the parent keeps,
`moved_latency_ms` of what moves, `settling_latency_ms` of what does not move until the settle windows are closed.
Percentiles are by nearest rank.

Prints one JSON line for each expansion and a last one for all, with the same figures for each kind; progress goes to stderr.
Exit code 1, with the reasons on stderr, when outputs are not exact, or a window has none: then the figures mean nothing.
"""

import sys
import time

from expand_report import Part, summary
from phases import parse_us
from rig import LIMIT_S, SEED, PacedLoad, Recorder, Rig, now_us, parse, run_program, say, show_figures, wait_until


class Stage:
    """One job with its load, whose expansions are noted."""

    def __init__(self, rig, number, job, outputs):
        self.rig, self.job, self.options = rig, job, rig.options
        self.expansions, self.quiet = [], []
        directory = rig.directory / f"job-{number}"
        directory.mkdir()
        broker, options = rig.broker, rig.options
        self.history = PacedLoad(broker, job.input, directory, options.keys, SEED, 0, options.history).wait()
        job.wait_drained(LIMIT_S)
        self.recorder = Recorder(broker, job.output, outputs, directory)
        self.began = now_us()
        self.load = PacedLoad(broker, job.input, directory, options.keys, SEED + 1, options.rate)
        time.sleep(options.warm_up)
        self.quiet_since = now_us()

    def expand(self, what, to):
        """And waits until it is done and all has settled."""
        time.sleep(self.options.pause)
        before = self.owners()
        grown = self.grown()
        asked = now_us()
        self.quiet.append((self.quiet_since, asked))
        operation = self.rig.expand(self.job, what, to)
        if what == "partitions":
            wanted = len(grown) + self.job.status()["processors"]
            wait_until(lambda: len(self.grown()) >= wanted, LIMIT_S, "all tasks have taken the new partitions")
            done = max(parse_us(line["ts"]) for line in self.grown())
        else:
            done = parse_us(operation["updated_at"])
        self.job.wait("all has settled", lambda status: status["windows_open"] == 0, LIMIT_S)
        settled = max(done, now_us())
        came_from = len(before) if what == "partitions" else len(set(before.values()))
        self.expansions.append({"from": came_from, "to": to, "asked": asked, "done": done, "settled": settled,
                                **self.concerned(what, before)})  # fmt: skip
        say(f"  {what} {came_from} -> {to}: {(done - asked) // 1000} ms")
        time.sleep(self.options.margin / 1000)
        self.quiet_since = now_us()

    def owners(self):
        """{partition: its processor}."""
        items = self.rig.coordinator.http.get(f"/v1/jobs/{self.job.name}/map").json["items"]
        return {each["partition"]: each["processor"] for each in items}

    def grown(self):
        return [line for agent in self.rig.agents for line in agent.log_events("task_grown", job=self.job.name)]

    def concerned(self, what, before):
        """Partitions of the output: keys of what is new, and of who gave them away."""
        after = self.owners()
        if what == "partitions":  # a stock producer has hash % count, and the output's count is a multiple of it
            moved = {p for p in range(self.options.partitions * 4) if p % len(after) >= len(before)}
            return {"moved": moved, "beside": set()}
        moved = {p for p in after if after[p] != before[p]}
        parents = {before[p] for p in moved}
        return {"moved": moved, "beside": {p for p in after if before[p] in parents} - moved}

    def end(self, kind):
        """(part, verdict, load), when it has been quiet for one more pause."""
        time.sleep(self.options.pause)
        self.quiet.append((self.quiet_since, now_us()))
        time.sleep(self.options.margin / 1000)  # the load goes on: the last windows are like all others
        self.load.stop()
        self.job.wait_drained(LIMIT_S)
        arrivals = self.recorder.stop(self.began)
        verdict = self.rig.check(self.job, self.history, self.load)
        self.job.delete()
        options = self.options
        part = Part(kind, arrivals, self.expansions, self.quiet, options.margin * 1000, options.window * 1000)
        return part, verdict, self.load


class Bench(Rig):
    def expand(self, job, what, to):
        wish = {what: to, "reason": "bench"}
        reply = self.coordinator.http.post(f"/v1/jobs/{job.name}/expansions", wish, expect=(202, 409))
        assert reply.status == 202, f"not expanded: {reply.json['detail']}"
        return self.wait_operation(reply.json)

    def make(self, partitions, processors, outputs):
        settle = f"{self.options.settle}s"
        return self.make_job(partitions, processors, outputs, partitioner="murmur2", settle=settle)

    def more_partitions(self, number):
        initial = self.options.partitions
        stage = Stage(self, number, self.make(initial, initial, initial * 4), initial * 4)
        for count in (initial * 2, initial * 4):
            stage.expand("partitions", count)
        return stage.end("partitions")

    def more_processors(self, number):
        """Of a job that has had all of its partitions from the start, or has got them (--grown-from)."""
        processors, partitions = self.options.partitions, self.options.partitions * 2
        job = self.make(self.options.grown_from or partitions, processors, partitions)
        if self.options.grown_from:
            self.expand(job, "partitions", partitions)
        stage = Stage(self, number, job, partitions)
        for count in range(processors + 1, partitions + 1):
            stage.expand("processors", count)
        return stage.end("processors")

    def run(self):
        self.start()
        for number in range(self.options.rounds):
            say(f"round {number + 1}: under {self.options.rate} records/s")
            yield self.more_partitions(2 * number)
            yield self.more_processors(2 * number + 1)


def measure(options, directory):
    """(lines, faults); the last line is the summary."""
    bench = Bench(options, directory)
    try:
        parts, verdicts, loads = zip(*bench.run())
        made, faults = summary(parts, options.steady_windows)
        made |= {
            "exact": all(verdict.exact for verdict in verdicts),
            "outputs": sum(verdict.total for verdict in verdicts),
            "load_records": sum(load.records for load in loads),
            "load_late_ms_max": round(max(load.late_ms_max for load in loads), 1),
            "options": vars(options),
            "environment": bench.environment(),
        }
        faults += [f"the outputs are not exact: {verdict}" for verdict in verdicts if not verdict.exact]
        return [*(line for part in parts for line in part.lines), made], faults
    finally:
        bench.finish()


NUMBERS = (
    ("rounds", 3, "how many, of two more counts of partitions and as many splits as there are processors each"),
    ("rate", 4000, "records a second"),
    ("keys", 100_000, "different keys"),
    ("history", 200_000, "records of each job before the measured time"),
    ("partitions", 4, "at first, and as many processors; the job that is split has twice as many"),
    ("grown-from", 0, "the job that is split began with so many partitions, as many or half as many as it has; 0: with all"),
    ("commit-interval", 100, "of the jobs, in ms"),
    ("settle", 3, "of the jobs, in seconds"),
    ("pause", 4, "seconds between two expansions"),
    ("warm-up", 5, "seconds of load before the first"),
    ("margin", 500, "ms on both sides of an expansion"),
    ("window", 1500, "ms, the length of a steady window"),
    ("steady-windows", 10, "at least"),
)


def show(made):
    rows = [("during", made["during_latency_ms"]), ("steady", made["steady_latency_ms"])]
    for kind, own in made["kinds"].items():
        rows += [(f"during, more {kind}", own["during_latency_ms"]), (f"steady, more {kind}", own["steady_latency_ms"])]
    show_figures(rows, made["load_late_ms_max"])
    say(f"p99 during / p99 steady: {made['ratio_p99']}")


if __name__ == "__main__":
    sys.exit(run_program("bench-expand", parse(__doc__, NUMBERS, sys.argv[1:], zero=("grown-from",)), measure, show))
