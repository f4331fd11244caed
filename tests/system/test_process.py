"""A stateful job at work: every record takes effect once, in order, whatever the topics are made of."""

import re

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from jobs import Job
from kafka import metadata_of
from oracle import TopicReader, check_outputs
from waiting import wait_until

LIMIT_S = 120


@pytest.fixture
def job(broker, daemons, unique):
    """job(partitions=..., **spec) makes coordinator, agent and job; the job is created and its tasks are active."""

    def make(partitions=4, agent_options=None, start=True, **spec):
        coordinator = daemons.coordinator()
        made = Job(broker, coordinator, unique, partitions, **spec)
        made.create()
        if start:
            made.agent = daemons.agent(coordinator, **(agent_options or {}))
            made.wait_active()
        return made

    return make


def outputs_of(job, topic=None, count=None, limit_s=LIMIT_S):
    """All committed outputs, by partition and offset; waits for `count` of them."""
    reader = TopicReader(job.broker.bootstrap, topic or job.output)
    found = []
    try:
        def enough():
            found.extend(reader.read())
            return reader.at_end and (count is None or len(found) >= count)

        wait_until(enough, limit_s, f"{topic or job.output} has {count} outputs")
    finally:
        reader.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def pairs(messages):
    return [(message.key(), message.value()) for message in messages]


def test_process_counts_every_record_once_under_load(job, loads):
    made = job(partitions=8)
    load = loads(made.broker.bootstrap, made.input, keys=20_000, seed=11, total=200_000)
    sent = load.wait(LIMIT_S)
    check_outputs(made.broker.bootstrap, made.output, sent, LIMIT_S, provenance_of=[made.input]).assert_exact()
    made.wait_drained()
    made.wait("lag is 0", lambda status: status["lag_records"] == 0 and status["replay_records"] == 0)


def test_process_reads_what_was_there_before_the_job(broker, daemons, unique, loads):
    coordinator = daemons.coordinator()
    made = Job(broker, coordinator, unique, partitions=4, processors=2)
    sent = loads(broker.bootstrap, made.input, keys=500, seed=12, total=20_000).wait(LIMIT_S)
    made.create()
    daemons.agent(coordinator)
    check_outputs(broker.bootstrap, made.output, sent, LIMIT_S, provenance_of=[made.input]).assert_exact()


def test_process_start_latest_leaves_out_what_was_there(broker, daemons, unique):
    coordinator = daemons.coordinator()
    made = Job(broker, coordinator, unique, partitions=2, start="latest")
    broker.produce(made.input, [(b"old", b"x")] * 5)
    made.create()
    daemons.agent(coordinator)
    made.wait_active()
    broker.produce(made.input, [(b"old", b"x"), (b"new", b"x")])
    assert sorted(pairs(outputs_of(made, count=2))) == [(b"new", b"1"), (b"old", b"1")]


def test_process_at_least_once(job, loads):
    made = job(partitions=4, delivery="at_least_once")
    sent = loads(made.broker.bootstrap, made.input, keys=1_000, seed=13, total=50_000).wait(LIMIT_S)
    # Nothing fails here, so nothing is repeated either.
    check_outputs(made.broker.bootstrap, made.output, sent, LIMIT_S, provenance_of=[made.input]).assert_exact()
    made.wait_drained()


def test_process_output_looks_like_javas_and_keeps_time_and_headers(job):
    made = job(partitions=4)
    producer = Producer({"bootstrap.servers": made.broker.bootstrap, "partitioner": "murmur2_random"})
    for index in range(40):
        producer.produce(made.input, b"v", b"key%d" % index, timestamp=1_600_000_000_000 + index,
                         headers=[("trace", b"t%d" % index), ("trace", b"again"), ("empty", None)])
    assert producer.flush(30) == 0
    places = {(m.key(), m.partition()) for m in TopicRecords(made.broker, made.input)}
    outputs = outputs_of(made, count=40)
    assert {(m.key(), m.partition()) for m in outputs} == places, "outputs go where Java's producer puts the key"
    for message in outputs:
        index = int(message.key()[3:])
        headers = message.headers()
        assert message.timestamp()[1] == 1_600_000_000_000 + index
        assert headers[:3] == [("trace", b"t%d" % index), ("trace", b"again"), ("empty", None)]
        assert dict(headers[3:]).keys() == {"baton-topic", "baton-partition", "baton-offset"}


def TopicRecords(broker, topic):
    reader = TopicReader(broker.bootstrap, topic)
    records = []
    try:
        wait_until(lambda: records.extend(reader.read()) or reader.at_end, LIMIT_S, f"{topic} is read")
    finally:
        reader.close()
    return records


# ---- built-in logics and plugins


def test_process_sum(job):
    made = job(partitions=1, logic={"kind": "builtin", "name": "sum"}, on_error="skip")
    made.broker.produce(made.input, [(b"a", b"5"), (b"b", b"-2"), (b"a", b"x7"), (b"a", b"7"), (b"a", None)])
    assert pairs(outputs_of(made, count=3)) == [(b"a", b"5"), (b"b", b"-2"), (b"a", b"12")]
    made.wait("two records are skipped", lambda _: made.processors()[0]["skipped_error"] == 2)


def test_process_latest_and_tombstones(job):
    made = job(partitions=1, logic={"kind": "builtin", "name": "latest"})
    made.broker.produce(made.input, [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3")])
    assert pairs(outputs_of(made, count=4)) == [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3")]
    made.wait("one row is left", lambda status: status["state_rows"] == 1)


def test_process_dedup(job):
    made = job(partitions=1, logic={"kind": "builtin", "name": "dedup"})
    made.broker.produce(made.input, [(b"a", b"1"), (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"1")])
    assert pairs(outputs_of(made, count=3)) == [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")]


# ---- records that can not be processed


def test_process_on_error_dead_letter(broker, daemons, unique):
    coordinator = daemons.coordinator()
    dead = broker.create_topic(unique("dead"), 1)
    made = Job(broker, coordinator, unique, partitions=1, logic={"kind": "builtin", "name": "sum"},
               on_error="dead_letter", dead_letter_topic=dead).create()
    daemons.agent(coordinator)
    broker.produce(made.input, [(b"a", b"1"), (b"a", b"no number"), (b"a", b"2")])
    assert pairs(outputs_of(made, count=2)) == [(b"a", b"1"), (b"a", b"3")]
    letters = outputs_of(made, dead, count=1)
    assert pairs(letters) == [(b"a", b"no number")]
    headers = dict(letters[0].headers())
    assert headers["baton-offset"] == b"1" and b"number" in headers["baton-error"]


def test_process_on_error_halt_then_skip(job):
    made = job(partitions=1, logic={"kind": "builtin", "name": "sum"})
    made.broker.produce(made.input, [(b"a", b"1"), (b"a", b"bad"), (b"a", b"2")])
    problem = made.wait_problem("record_failed")
    assert "offset 1" in problem["detail"] and problem["processor"] == 0 and problem["action"]
    assert pairs(outputs_of(made, count=1)) == [(b"a", b"1")]
    assert made.committed()[made.input, 0][0] == 1, "what is before the record is committed, the record is not"
    made.put(expect=200, on_error="skip")
    assert pairs(outputs_of(made, count=2)) == [(b"a", b"1"), (b"a", b"3")]
    made.wait("the problem is gone", lambda status: status["problems"] == 0)


def test_process_null_key_skip(job):
    made = job(partitions=1)
    made.broker.produce(made.input, [(None, b"x"), (b"a", b"x"), (None, b"x"), (b"", b"x")])
    assert pairs(outputs_of(made, count=2)) == [(b"a", b"1"), (b"", b"1")]
    made.wait("two are counted", lambda _: made.processors()[0]["skipped_null_key"] == 2)


def test_process_null_key_halt(job):
    made = job(partitions=1, null_key="halt")
    made.broker.produce(made.input, [(b"a", b"x"), (None, b"x")])
    assert "offset 1" in made.wait_problem("null_key_halt")["detail"]


# ---- what the partitions are made of (S1, S2, S4, S11)


def test_process_lag_is_0_behind_transaction_markers(job):
    """S2: ten transactions of one record each end in markers; T1, T2 and the end must meet on positions."""
    made = job(partitions=2, acceptable_lag=0)
    for number in range(10):
        made.broker.produce(made.input, [(b"k%d" % number, b"x")], transactional_id=made.name)
    outputs_of(made, count=10)
    made.wait_drained()  # by the broker's own numbers: committed = end, markers included
    made.wait("lag is 0", lambda status: status["lag_records"] == 0 and status["lag_records_max"] == 0)


def test_process_a_tail_of_aborted_records(job):
    """S11: an aborted transaction larger than a fetch, before the next committed record and at the end."""
    made = job(partitions=1, agent_options={"kafka__fetch__message__max__bytes": "10000"})
    junk = [(b"aborted", b"x" * 1000)] * 200
    made.broker.produce(made.input, junk, transactional_id=made.name, abort=True)
    made.broker.produce(made.input, [(b"a", b"x")], transactional_id=made.name)
    made.broker.produce(made.input, junk, transactional_id=made.name, abort=True)
    assert pairs(outputs_of(made, count=1)) == [(b"a", b"1")]
    made.wait_drained()


def test_process_partitions_emptied_unwritten_and_with_one_record(broker, daemons, unique):
    """S4: one partition emptied by retention (low = high > 0), one never written, one with exactly one record."""
    coordinator = daemons.coordinator()
    made = Job(broker, coordinator, unique, partitions=3)
    broker.produce(made.input, [(b"gone", b"x", 0)] * 500 + [(b"one", b"x", 2)])
    broker.delete_records(made.input, 0, 500)
    made.create()
    daemons.agent(coordinator)
    made.wait_active()
    assert pairs(outputs_of(made, count=1)) == [(b"one", b"1")]
    made.wait_drained()
    made.wait("lag is 0", lambda status: status["lag_records"] == 0)
    broker.produce(made.input, [(b"gone", b"x", 0), (b"first", b"x", 1)])
    assert sorted(pairs(outputs_of(made, count=3))) == [(b"first", b"1"), (b"gone", b"1"), (b"one", b"1")]


def test_process_says_when_an_open_transaction_blocks_it(job):
    """S7 (its first half): the status names the open transaction, and the problem goes when it is resolved."""
    made = job(partitions=1)
    producer = Producer({"bootstrap.servers": made.broker.bootstrap, "transactional.id": made.name,
                         "transaction.timeout.ms": 600_000})  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(made.input, b"x", b"a", partition=0)
    assert producer.flush(30) == 0
    made.wait_problem("blocked_by_open_transaction")
    producer.commit_transaction(30)
    assert pairs(outputs_of(made, count=1)) == [(b"a", b"1")]
    made.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_says_when_a_transaction_on_its_offsets_is_open(job):
    """The broker answers, so it is not out of reach: people would look for the wrong fault, and wait for ever after Kafka lost the end."""
    made = job(partitions=1)
    made.broker.produce(made.input, [(b"a", b"x")] * 3)
    outputs_of(made, count=3)
    made.wait_drained()
    made.agent.stop()
    consumer = Consumer({"bootstrap.servers": made.broker.bootstrap, "group.id": made.group})
    producer = Producer({"bootstrap.servers": made.broker.bootstrap, "transactional.id": made.name,
                         "transaction.timeout.ms": 600_000})  # fmt: skip
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        at = TopicPartition(made.input, 0, 1)
        producer.send_offsets_to_transaction([at], consumer.consumer_group_metadata(), 30)
        made.agent.start()
        problem = made.wait_problem("blocked_by_open_transaction")
        assert made.group in problem["detail"], problem
        made.broker.produce(made.input, [(b"a", b"x")])
        producer.abort_transaction(30)
    finally:
        consumer.close()
    assert pairs(outputs_of(made, count=4)) == [(b"a", b"%d" % count) for count in (1, 2, 3, 4)]
    made.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_commits_are_what_stock_tools_read(job):
    """Offsets are in the job's group: a plain consumer of that group would go on where baton is."""
    made = job(partitions=1)
    made.broker.produce(made.input, [(b"a", b"x")] * 3)
    outputs_of(made, count=3)
    made.wait_drained()
    consumer = Consumer({"bootstrap.servers": made.broker.bootstrap, "group.id": made.group})
    try:
        committed = consumer.committed([TopicPartition(made.input, 0)], timeout=30)[0]
    finally:
        consumer.close()
    assert committed.offset == 3
    assert re.match(rf"b1 {made.put(expect=200)['incarnation']} 0 [1-9]", metadata_of(committed))
