"""The demo: a real broker, a coordinator, an agent, a producer; a live table; a kill -9; then everything is counted.

DEMO_KAFKA=host:port uses that broker instead of starting one (two topics are created there and deleted again).
Exit code 0 only when every record was counted exactly once.
"""

import os
import pathlib
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from daemons import Daemons  # noqa: E402
from jobs import Job  # noqa: E402
from kafka import Broker  # noqa: E402
from oracle import check_outputs  # noqa: E402
from producer import Load  # noqa: E402

PARTITIONS = 8
KEYS = 50_000
RATE = 5_000  # records a second
SECONDS = 24
KILL_AFTER_S = 12
LIVE = sys.stdout.isatty()


class YourBroker:
    """A broker that runs already, with the few calls that the job needs."""

    create_topic, admin = Broker.create_topic, Broker.admin
    end_offsets, committed, partition_count = Broker.end_offsets, Broker.committed, Broker.partition_count
    delete_topic, _offsets, _wait_for_partitions = Broker.delete_topic, Broker._offsets, Broker._wait_for_partitions
    _result = staticmethod(Broker._result)

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None


def say(text):
    print(text, flush=True)


def number(value):
    return "?" if value is None else f"{value:,}"


def total(processor, field):
    values = [partition[field] for partition in processor["partitions"] if partition["owned"]]
    return None if None in values else sum(values)


def table(job, load, began):
    """T1 is committed, T2 is in the state: after a crash, only T2 to T1 is read again."""
    status = job.status()
    lines = [
        f"{time.monotonic() - began:5.1f} s   sent {number(load.sent_so_far)}   "
        f"{status['records_per_s']:,.0f} records/s   lag {number(status['lag_records'])}",
        f"{'processor':>9}  {'agent':<8} {'state':<10} {'epoch':>5} {'T1':>9} {'T2':>9} {'lag':>7} {'replayed':>8} {'records/s':>9}",
    ]
    for each in job.processors():
        lines.append(
            f"{each['processor']:>9}  {each['agent'] or '-':<8} {each['state']:<10} {each['epoch']:>5} "
            f"{number(total(each, 't1')):>9} {number(total(each, 't2')):>9} {number(each['lag_records']):>7} "
            f"{number(each['replayed']):>8} {each['records_per_s']:>9,.0f}"
        )
    return lines


class Screen:
    """Redraws the table in place on a terminal; elsewhere prints it every few seconds."""

    def __init__(self, every_s=4):
        self.lines = 0
        self.every_s = every_s
        self.next = 0

    def draw(self, lines):
        if LIVE:
            say(f"\x1b[{self.lines}A" * (self.lines > 0) + "\n".join("\x1b[K" + line for line in lines))
            self.lines = len(lines)
        elif time.monotonic() >= self.next:
            self.next = time.monotonic() + self.every_s
            say("\n".join(lines) + "\n")

    def leave(self):
        self.lines = 0
        self.next = 0


def run(broker, directory):
    daemons = Daemons(directory, broker)
    tag = uuid.uuid4().hex[:8]
    try:
        coordinator = daemons.coordinator()
        say(f"coordinator  http://{coordinator.address}   (try: curl http://{coordinator.address}/v1/jobs)")
        agent = daemons.agent(coordinator, "host-1")
        job = Job(broker, coordinator, lambda word: f"demo-{word}-{tag}", PARTITIONS)
        job.create()
        job.wait_active()
        say(f"job {job.name}: counts the records of each key; {PARTITIONS} processors on agent host-1\n")
        sent = watch(job, agent, broker)
        verdict = check_outputs(broker.bootstrap, job.output, sent, 60, provenance_of=[job.input])
        say(f"\nread back with another client, read_committed: {verdict}")
        say("every record was counted exactly once" if verdict.exact else "NOT EXACT: see the lines above")
        return verdict.exact
    finally:
        daemons.finish()


def watch(job, agent, broker):
    load = Load(broker.bootstrap, job.input, keys=KEYS, seed=int(time.time()), rate=RATE).start()
    screen, began, killed = Screen(), time.monotonic(), False
    try:
        while time.monotonic() - began < SECONDS:
            screen.draw(table(job, load, began))
            if not killed and time.monotonic() - began >= KILL_AFTER_S:
                killed = True
                screen.leave()
                say("\n>>> kill -9 of the agent, and a fresh start: it reads T2 to T1 again, silently, and goes on\n")
                agent.kill()
                agent.start()
            time.sleep(0.5)  # the frame rate of the table
        sent = load.stop()
    finally:
        load.finish()
    job.wait_drained()
    screen.draw(table(job, load, began))
    return sent


def main():
    bootstrap = os.environ.get("DEMO_KAFKA")
    with tempfile.TemporaryDirectory(prefix="baton-demo-") as directory:
        broker = YourBroker(bootstrap) if bootstrap else Broker(pathlib.Path(directory) / "kafka")
        try:
            if not bootstrap:
                broker.start()
            say(f"kafka        {broker.bootstrap}")
            return 0 if run(broker, directory) else 1
        finally:
            if not bootstrap:
                broker.finish()


if __name__ == "__main__":
    sys.exit(main())
