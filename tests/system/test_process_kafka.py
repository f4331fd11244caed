"""What Kafka's topics, records and settings do to a job at work, and how soon it answers."""

import os
import statistics
import time

import pytest
from confluent_kafka import Producer

from jobs import Job
from oracle import TopicReader, check_outputs
from plugins import PluginDir
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 240
START_MS = 1_700_000_000_000


@pytest.fixture
def plugins(tmp_path):
    return PluginDir(tmp_path / "plugins")


@pytest.fixture
def work(broker, daemons, unique):
    """work(partitions=..., agent={options}, **spec): coordinator, job and agent, active unless start=False."""

    def make(partitions=1, agent=None, start=True, **spec):
        made = Job(broker, daemons.coordinator(), unique, partitions, **spec)
        made.create()
        made.agent = daemons.agent(made.coordinator, start=False, **(agent or {}))
        if start:
            made.agent.start()
            made.wait_active()
        return made

    return make


def write(job, records, **config):
    """Records as dicts of produce()'s arguments, in order and acknowledged."""
    producer = Producer({"bootstrap.servers": job.broker.bootstrap, "partitioner": "murmur2_random", **config})
    failed = []
    for record in records:
        producer.produce(job.input, **{"value": b"x", **record}, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(LIMIT_S) == 0 and not failed, failed


def read(job, count, topic=None):
    """`count` committed outputs, of each partition in its order."""
    reader = TopicReader(job.broker.bootstrap, topic or job.output)
    found = []
    try:
        wait_until(lambda: found.extend(reader.read()) or (reader.at_end and len(found) >= count), LIMIT_S,
                   f"{topic or job.output} has {count} outputs")
    finally:
        reader.close()
    assert len(found) == count
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(messages):
    return [message.value() for message in messages]


# ---- records


def test_process_records_with_null_and_empty_parts(work):
    job = work(logic={"kind": "builtin", "name": "latest"}, provenance=False)
    cases = [
        {"key": b"a", "value": b""},
        {"key": b"a", "value": None},
        {"key": b"", "value": b"of the empty key"},
        {"key": b"", "value": None},
        {"key": b"\0\xff", "value": b"\0", "headers": [("", b""), ("n", None), ("n", b"\0")]},
    ]
    write(job, cases)
    outputs = read(job, len(cases))
    assert [(m.key(), m.value()) for m in outputs] == [(case["key"], case["value"]) for case in cases]
    assert outputs[-1].headers() == [("", b""), ("n", None), ("n", b"\0")]
    assert not outputs[0].headers()


def test_process_topics_with_append_time(broker, work, unique):
    """The broker's time counts where a topic says so, for the input and for the output."""
    job = work()
    broker.set_topic_config(job.input, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    write(job, [{"key": b"a", "timestamp": START_MS}])
    (output,) = read(job, 1)
    assert output.timestamp()[1] >= before
    broker.set_topic_config(job.input, message_timestamp_type="CreateTime")
    broker.set_topic_config(job.output, message_timestamp_type="LogAppendTime")
    write(job, [{"key": b"a", "timestamp": START_MS}])
    assert read(job, 2)[1].timestamp()[1] >= before


def test_process_a_time_that_the_output_topic_refuses(broker, work):
    """A record from the future passes the input and not the output: a named problem, not a loop of transactions."""
    job = work()
    broker.set_topic_config(job.input, message_timestamp_after_max_ms=2**62)
    write(job, [{"key": b"a"}, {"key": b"b", "timestamp": int(time.time() * 1000) + 48 * 3600 * 1000}])
    assert "timestamp" in job.wait_problem("output_failed")["detail"].lower()
    broker.set_topic_config(job.output, message_timestamp_after_max_ms=2**62)
    read(job, 2)
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_an_output_too_large_for_the_topic(broker, work):
    """Tried every 10 s, not all the time; goes on by itself once the topic takes it."""
    job = work(logic={"kind": "builtin", "name": "latest"})
    broker.set_topic_config(job.output, max_message_bytes=2000)
    write(job, [{"key": b"a", "value": b"1"}, {"key": b"a", "value": b"x" * 5000}])
    problem = job.wait_problem("output_failed")
    assert "too large" in problem["detail"] and "max.message.bytes" in problem["detail"]
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since > 8, 10, "some seconds pass")
    tries = len(job.agent.log_events("task_phase", phase="failed"))
    assert tries <= 2 + (time.monotonic() - since) // 10
    broker.set_topic_config(job.output, max_message_bytes=100_000)
    assert [len(m.value()) for m in read(job, 2)] == [1, 5000]
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_an_output_too_large_for_the_client(broker, work):
    job = work(logic={"kind": "builtin", "name": "latest"})
    for topic in (job.input, job.output):
        broker.set_topic_config(topic, max_message_bytes=4_000_000)
    write(job, [{"key": b"a", "value": b"x" * 2_000_000}], **{"message.max.bytes": 4_000_000})
    problem = job.wait_problem("output_failed")
    assert "kafka.message.max.bytes" in problem["detail"] and "partition 0 offset 0" in problem["detail"]
    job.agent.options["kafka.message.max.bytes"] = 4_000_000
    job.agent.restart()
    assert len(read(job, 1)[0].value()) == 2_000_000


def test_process_state_ttl_goes_by_the_records_time(work):
    job = work(logic={"kind": "builtin", "name": "count"}, state_ttl="1m")
    at = lambda seconds, key: {"key": key, "timestamp": START_MS + seconds * 1000}  # noqa: E731
    write(job, [at(0, b"a"), at(30, b"a"), at(89, b"b"), at(90, b"a"), at(151, b"a"), at(150, b"a")])
    assert values(read(job, 6)) == [b"1", b"2", b"1", b"3", b"1", b"2"]
    job.wait_drained()
    # The same once more, from the records alone.
    assert job.agent.stop() == 0
    (job.agent.directory / "agent-1-state" / job.name / "0" / "data.mdb").unlink()
    job.agent.start()
    job.wait_active()
    write(job, [at(210, b"a"), at(271, b"b")])
    assert values(read(job, 8))[6:] == [b"3", b"1"]
    job.wait("six were replayed", lambda _: job.replayed() == 6)


# ---- topics that change


def test_process_an_output_topic_is_deleted_and_created_again(work, loads):
    job = work(partitions=2)
    load = loads(job.broker.bootstrap, job.input, keys=50, seed=51, rate=500)
    wait_until(lambda: sum(job.broker.end_offsets(job.output).values()) > 500, LIMIT_S, "outputs come")
    job.broker.delete_topic(job.output)
    job.wait_problem("topic_missing")
    job.broker.create_topic(job.output, 3)
    job.wait("it goes on", lambda status: status["problems"] == 0 and status["processors_active"] == 2)
    sent = load.stop().expected()
    job.wait_drained()
    # What the old topic had is gone; the counts go on where they were, each once.
    seen = {}
    for message in read(job, sum(job.broker.end_offsets(job.output).values()) - markers(job)):
        seen.setdefault(message.key(), []).append(int(message.value()))
    for key, numbers in seen.items():  # their order is a partition's, and the keys may be in others now
        assert sorted(numbers) == list(range(min(numbers), sent[key] + 1)), key


def markers(job):
    """Offsets of the output topic that are no records: the ends of transactions."""
    reader = TopicReader(job.broker.bootstrap, job.output)
    try:
        wait_until(lambda: not reader.read() and reader.at_end, LIMIT_S, "all is read")
        return sum(job.broker.end_offsets(job.output).values()) - reader.total
    finally:
        reader.close()


def test_process_an_input_topic_is_deleted_while_idle(work):
    """Noticed although nothing comes; created again it is another topic, and nothing of it is taken for the old."""
    job = work(partitions=2)
    write(job, [{"key": b"k%d" % n} for n in range(100)])
    job.wait_drained()
    job.broker.delete_topic(job.input)
    job.wait_problem("topic_missing")
    job.broker.create_topic(job.input, 2)
    write(job, [{"key": b"new"}] * 5)
    job.wait("the problem is another one", lambda _: {each["code"] for each in job.problems()}
             & {"topic_truncated", "topic_recreated", "offsets_expired"})
    assert len(read(job, 100)) == 100
    job.wait("neither works", lambda status: status["processors_active"] == 0)
    assert len(read(job, 100)) == 100


def test_process_an_input_gets_more_partitions(work):
    """The job goes on with those that it has, and says that nobody reads the others."""
    job = work(partitions=2)
    job.broker.expand_topic(job.input, 3)
    problem = job.wait_problem("partitions_changed")
    assert problem["severity"] == "warning" and "3 partitions" in problem["detail"] and job.input in problem["detail"]
    assert problem["processor"] is None
    write(job, [{"key": b"a", "partition": p} for p in range(3)])
    assert len(read(job, 2)) == 2
    assert job.status()["processors_active"] == 2
    assert job.coordinator.metrics()[f'baton_problems{{job="{job.name}",code="partitions_changed"}}'] == 1
    job.delete()
    job.put(initial_partitions=2, reset_offsets=True)  # as the problem says
    assert len(read(job, 5)) == 5, "the first two once more, and the one that nobody read"


def test_process_a_dead_letter_topic_is_deleted_while_idle(broker, work, unique):
    """Said before the first record needs it, and over once it is there again."""
    dead = broker.create_topic(unique("dead"), 1)
    job = work(on_error="dead_letter", dead_letter_topic=dead)
    broker.delete_topic(dead)
    assert dead in job.wait_problem("topic_missing")["detail"]
    broker.create_topic(dead, 1)
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_history_that_the_topic_does_not_keep(broker, work):
    """A warning while there is time, another when records are gone, and none once the logic needs no more."""
    job = work()
    write(job, [{"key": b"a"}] * 3)
    job.wait_drained()
    broker.set_topic_config(job.input, retention_ms=1000)
    assert "keeps records for 1s" in job.wait_problem("retention_risk")["detail"]
    broker.set_topic_config(job.input, retention_ms=-1)
    job.wait("it is over", lambda status: status["problems"] == 0)
    broker.delete_records(job.input, 0, 2)
    problem = job.wait_problem("retention_risk")
    assert problem["severity"] == "warning" and "from 0 to 2" in problem["detail"]
    write(job, [{"key": b"a"}])
    assert values(read(job, 4)) == [b"1", b"2", b"3", b"4"], "it goes on"
    job.put(expect=200, history="retained")
    job.wait("it is declared enough", lambda status: status["problems"] == 0)


# ---- how soon


def test_process_latency_of_an_idle_job(work, figures):
    """One record at a time: it is worked on when it comes, not at the next look, and its transaction follows."""
    job = work()
    reader = TopicReader(job.broker.bootstrap, job.output, {"fetch.wait.max.ms": 10})
    producer = Producer({"bootstrap.servers": job.broker.bootstrap, "linger.ms": 0})
    took = []
    try:
        wait_until(lambda: not reader.read() and reader.at_end, LIMIT_S, "the reader is ready")
        for _ in range(20):
            began = time.monotonic()
            producer.produce(job.input, b"x", b"a")
            assert producer.flush(30) == 0
            while not reader.read(0.05):
                assert time.monotonic() - began < LIMIT_S
            took.append(time.monotonic() - began)
    finally:
        reader.close()
    figures(latency_ms_median=round(statistics.median(took) * 1000), latency_ms_max=round(max(took) * 1000))
    assert statistics.median(took) < 1, "commit_interval_ms is 100"


def test_process_commits_at_its_interval_under_a_flood(work, plugins, figures):
    """Slow logic and a backlog on many partitions: reading ends for commits, and for a stop."""
    plugins.install_slow()
    job = work(partitions=8, processors=1, agent={"plugin_dir": plugins.path}, start=False, stateful=False,
               logic={"kind": "plugin", "name": "slow", "version": "1", "config": {"pause_us": 2000}})
    write(job, [{"key": b"k", "partition": p} for p in range(8) for _ in range(600)])
    job.agent.start()
    job.wait_active()

    def counted():
        """Records worked on, and commits, of one report."""
        seen = job.agent.metrics()
        return [sum(value for name, value in seen.items() if name.startswith(f"baton_task_{what}_total{{"))
                for what in ("records", "commits")]  # fmt: skip

    records, commits = wait_until(lambda: counted()[0] > 500 and counted(), LIMIT_S, "some of the backlog is done")
    began = time.monotonic()
    assert job.agent.stop() == 0
    figures(records_per_commit=round(records / commits), stop_ms=round((time.monotonic() - began) * 1000))
    # A record takes 2 ms, on however slow a machine: time itself would count what the machine stood still.
    assert records / commits < 100, "commit_interval_ms is 100"
    assert 500 < sum(offset for offset, _ in job.committed().values()) < 4800, "neither lost nor done: it takes ten seconds"


def test_process_200_partitions_of_one_processor(work, loads, figures):
    job = work(partitions=200, processors=1, start=False)
    sent = loads(job.broker.bootstrap, job.input, keys=20_000, seed=52, total=100_000).wait(LIMIT_S)
    job.agent.start()
    job.wait_active()
    check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input]).assert_exact()
    job.wait_drained()
    job.wait("lag is 0", lambda status: status["lag_records"] == 0 and status["problems"] == 0)
    figures(agent_memory_mib=resident_mib(job.agent.pid))


def test_process_a_backlog_does_not_fill_the_memory(work, figures):
    """What waits in the client is limited for a task as a whole, whatever its number of partitions."""
    job = work(partitions=32, processors=1, start=False, logic={"kind": "builtin", "name": "latest"}, provenance=False,
               agent={"cache_bytes": "1MiB"})  # fmt: skip
    write(job, [{"key": b"k%d" % (n % 32), "value": bytes(200_000), "partition": n % 32} for n in range(3200)],
          **{"queue.buffering.max.kbytes": 2**20})  # fmt: skip
    job.agent.start()
    peak = 0

    def drained():
        nonlocal peak
        peak = max(peak, resident_mib(job.agent.pid))
        return all(offset == 100 for offset, _ in job.committed().values())

    wait_until(drained, LIMIT_S, "640 MB are processed")
    figures(agent_memory_mib=peak)
    # AddressSanitizer keeps what was freed: 256 MiB, and more around each piece.
    limit = 450 if "asan" not in os.environ.get("BATON_BUILD", "") else 900
    assert peak < limit, "128 MiB wait to be processed and as many to be sent, at most"


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        (line,) = [line for line in status if line.startswith("VmRSS:")]
    return int(line.split()[1]) // 1024


# ---- plugins and settings


def session(start, end, events):
    return b'{"session":%d,"end":%d,"events":%d}' % (start, end, events)


def test_process_a_plugin_over_restarts(work, plugins):
    """The example plugin, its state kept over an orderly restart, a kill, and a rebuild from nothing."""
    plugins.install_example()
    job = work(agent={"plugin_dir": plugins.path, "checkpoint_interval": "10m"},
               logic={"kind": "plugin", "name": "sessionize", "version": "1", "config": {"gap_ms": 100}})
    at = lambda offset_ms: {"key": b"u", "timestamp": START_MS + offset_ms}  # noqa: E731
    write(job, [at(0), at(50)])
    expected = [session(START_MS, START_MS, 1), session(START_MS, START_MS + 50, 2)]
    assert values(read(job, 2)) == expected
    job.agent.restart()
    job.wait_active()
    write(job, [at(120)])
    expected.append(session(START_MS, START_MS + 120, 3))
    assert values(read(job, 3)) == expected
    job.agent.kill()
    job.agent.start()
    job.wait_active()
    job.wait("it has replayed from the checkpoint of the orderly stop to T1", lambda _: job.replayed() == 1)
    write(job, [at(500)])
    expected.append(session(START_MS + 500, START_MS + 500, 1))
    assert values(read(job, 4)) == expected
    job.wait_drained()
    assert job.agent.stop() == 0
    (job.agent.directory / "agent-1-state" / job.name / "0" / "data.mdb").unlink()
    job.agent.start()
    job.wait_active()
    write(job, [at(200)])
    expected.append(session(START_MS, START_MS + 200, 4))
    assert values(read(job, 5)) == expected


def test_process_a_logic_that_the_agent_lacks(work, plugins):
    """A named problem; the job goes on by itself once the version is there."""
    plugins.install_slow("1")
    job = work(agent={"plugin_dir": plugins.path}, start=False, stateful=False,
               logic={"kind": "plugin", "name": "slow", "version": "2", "config": {"pause_us": 0}})
    write(job, [{"key": b"a"}])
    job.agent.start()
    problem = job.wait_problem("logic_missing")
    assert "slow" in problem["detail"] and "2" in problem["detail"] and problem["processor"] == 0
    assert job.status()["processors_active"] == 0
    plugins.install_slow("2")
    read(job, 1)
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_process_kafka_settings_reach_the_clients_except_baton_s_own(work):
    """librdkafka itself says what it was given: defaults of baton, the operator's, and what is never theirs."""
    job = work(agent={"kafka__debug": "conf", "kafka__fetch__wait__max__ms": "77", "kafka__client__id": "from-the-operator"})
    lines = [line["text"] for line in job.agent.log_events("kafka_client", facility="CONF")]

    def told(text):
        return any(text in line for line in lines)

    assert told("fetch.wait.max.ms = 77") and not told("fetch.wait.max.ms = 100"), lines
    assert told("client.id = from-the-operator")
    assert told("isolation.level = read_committed") and told("enable.idempotence = true")
    assert told("auto.offset.reset = error")
    assert told("fetch.error.backoff.ms = 100"), "a default of baton that the operator left alone"
    job.broker.produce(job.input, [(b"a", b"x")])
    read(job, 1)
