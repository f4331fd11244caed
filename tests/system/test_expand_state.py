"""What a split does to the states on disk: each row in one of them, the parent's file for what comes next (D3.10)."""

import pathlib

import pytest

from oracle import TopicReader
from test_handoff_history import LIMIT_S, Counted, add_agent, make_job, operation
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

KEYS = 12_000


class ManyKeys(Counted):
    def send_keys(self, first, count):
        self.job.broker.produce(self.job.input, [(f"key-{number}", "x") for number in range(first, first + count)])
        for number in range(first, first + count):
            key = f"key-{number}".encode()
            self.counts[key] = self.counts.get(key, 0) + 1
        self.job.wait_drained()


def keys_of(job):
    """How many keys each partition of the input holds."""
    reader = TopicReader(job.broker.bootstrap, job.input)
    found = {}
    try:
        while not reader.at_end:
            for record in reader.read():
                found.setdefault(record.partition(), set()).add(record.key())
    finally:
        reader.close()
    return {partition: len(keys) for partition, keys in found.items()}


def rows_of(job):
    return {each["processor"]: each["state_rows"] for each in job.processors()}


def test_expand_removes_what_it_has_left_behind(broker, daemons, unique):
    job = make_job(broker, daemons, unique, processors=1, rejoin_grace="5m")
    job.create()
    first = add_agent(job, daemons)
    job.wait_active()
    sent = ManyKeys(job)
    sent.send_keys(0, KEYS)
    wait_until(lambda: rows_of(job) == {0: KEYS}, LIMIT_S, "all rows are on disk")
    second = add_agent(job, daemons)
    assert operation(job, "expansions", {"processors": 2, "reason": "a test"})["state"] == "succeeded"
    job.wait_owners({first.name: 1, second.name: 1}, LIMIT_S)
    keys = keys_of(job)
    wait_until(lambda: rows_of(job) == keys, LIMIT_S, f"the rows are where their keys are: {keys}")
    wait_until(lambda: not job.processors()[0]["garbage_left"], LIMIT_S, "the rest was looked through as well")
    assert job.processors()[0]["garbage_rows"] == keys[1], job.processors()
    assert job.processors()[1]["garbage_rows"] == 0
    labels = f'{{job="{job.name}",processor="0"}}'
    wanted = {f"baton_task_garbage_rows_total{labels}": keys[1], f"baton_task_garbage_left{labels}": 0}
    wait_until(lambda: wanted.items() <= first.metrics().items(), LIMIT_S, f"the metrics, which are renewed twice a second: {wanted}")

    data = pathlib.Path(first.options["state_dir"]) / job.name / "0" / "data.mdb"
    size = data.stat().st_size
    sent.send_keys(KEYS, KEYS // 2)  # half of them are the parent's, and fewer than have gone
    keys = keys_of(job)
    wait_until(lambda: rows_of(job) == keys, LIMIT_S, f"the new ones are on disk: {keys}")
    assert data.stat().st_size <= size * 1.02, "they have taken the room of those that went"

    epoch = job.processors()[0]["epoch"]
    first.restart()
    job.wait("the parent has started anew", lambda _: job.processors()[0]["epoch"] > epoch)
    job.wait_active(2)
    sent.send_keys(0, KEYS)
    wait_until(lambda: rows_of(job) == keys, LIMIT_S, "no row has come or gone")
    assert job.processors()[0]["garbage_rows"] == 0, "it is not looked for again"
    sent.assert_exact()
