"""D3.6: a state is made only of all that its owner has met. Else the join is refused, and the owner goes on.

Nobody asks another copy here ("seed": "replay"); what becomes of it then is in test_handoff_snapshot.py.
"""

import pytest
from confluent_kafka import Producer

from fixtures import SHARED_PROPERTIES
from jobs import OPERATION_ENDS, Job
from kafka import Broker
from oracle import TopicReader, check_outputs
from scene import Held
from waiting import wait_until

LIMIT_S = 120
AGENT_TIMEOUT = "2s"
GRACE = "2s"
KEYS = 40
# So that compaction takes place while a test waits for it.
EAGER_CLEANER = {"log.cleaner.backoff.ms": "500"}
EAGER_COMPACTION = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": "0.01"}
# A learner with these takes many times as long as others.
SLOW_READER = {"kafka__queued__max__messages__kbytes": "32", "kafka__queued__min__messages": "1",
               "kafka__fetch__message__max__bytes": "8192"}  # fmt: skip

# Agents come and go in each, and compaction takes its time.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def compacting(tmp_path_factory, no_process_is_left):
    """A broker that compacts at once what may be compacted."""
    made = Broker(tmp_path_factory.mktemp("compacting"), properties={**SHARED_PROPERTIES, **EAGER_CLEANER})
    try:
        yield made.start()
    finally:
        made.finish()


class Counted:
    """What was sent to a job's input: (key, how often)."""

    def __init__(self, job):
        self.job = job
        self.counts = {}

    def write(self, records, value="x"):
        batch = [(f"key-{number % KEYS}", value) for number in range(records)]
        self.job.broker.produce(self.job.input, batch)
        for key, _ in batch:
            self.counts[key.encode()] = self.counts.get(key.encode(), 0) + 1

    def send(self, records, value="x"):
        self.write(records, value)
        self.job.wait_drained()

    def wait_rows(self, rows):
        """Until so many are on the disks of the owners, by checkpoints."""
        job = self.job
        wait_until(lambda: sum(each["state_rows"] for each in job.processors()) == rows, LIMIT_S, f"{rows} keys have rows")

    def assert_exact(self):
        check_outputs(self.job.broker.bootstrap, self.job.output, self.counts, LIMIT_S).assert_exact()


def make_job(broker, daemons, unique, partitions=2, **spec):
    coordinator = daemons.coordinator(bootstrap=broker.bootstrap, agent_timeout=AGENT_TIMEOUT)
    return Job(broker, coordinator, unique, partitions, **{"rejoin_grace": GRACE, "seed": "replay", **spec})


def start_job(job, daemons):
    job.create()
    job.first = add_agent(job, daemons)
    job.wait_active()
    return Counted(job)


def add_agent(job, daemons, **options):
    return daemons.agent(job.coordinator, bootstrap=job.broker.bootstrap, checkpoint_interval="100ms", **options)


def epochs(job):
    return [each["epoch"] for each in job.processors()]


def operation(job, path, body):
    """Asks for it and waits for its end."""
    asked = job.coordinator.http.post(f"/v1/jobs/{job.name}/{path}", body, expect=202).json["id"]
    return job.wait_operation(asked, LIMIT_S)


def ended(job, operation_id):
    found = job.coordinator.http.get(f"/v1/operations/{operation_id}").json
    return found if found["state"] in OPERATION_ENDS else None


def cut(job, before_offset):
    for partition in range(job.broker.partition_count(job.input)):
        job.broker.delete_records(job.input, partition, before_offset)


def is_compacted(job, records):
    """Fewer than were written are left, on every partition."""
    reader = TopicReader(job.broker.bootstrap, job.input)
    found = []
    try:
        while not reader.at_end:
            found += reader.read()
    finally:
        reader.close()
    return len(found) < records


def compact(job, sent):
    """Writes until compaction has removed records that the job has met."""

    def done():
        sent.send(KEYS)
        return is_compacted(job, sum(sent.counts.values()))

    wait_until(done, LIMIT_S, "compaction has removed records")


def assert_refused(job, agent, code, text):
    """The join came to nothing, says why, and what to do."""
    problem = job.wait_problem(code, LIMIT_S)
    assert problem["agent"] == agent and text in problem["detail"], problem
    assert "retained" in problem["action"], problem


    def all_cancelled():  # after one processor another one may be tried
        seen = job.handoffs()
        return seen and all(each["state"] == "cancelled" for each in seen) and seen

    found = wait_until(all_cancelled, LIMIT_S, "no hand-over is left, and none was done")
    assert any(f"agent {agent} can not learn it: {code}" in each["error"] for each in found), found
    # A coordinator that has just started hears it with the next report.
    wait_until(lambda: job.owners() == {"agent-1": len(job.processors())}, LIMIT_S, "the owner goes on")


def test_history_cut_by_retention_refuses_a_join_and_the_owner_goes_on(broker, daemons, unique):
    """S39."""
    job = make_job(broker, daemons, unique)
    sent = start_job(job, daemons)
    sent.send(200)
    before = epochs(job)
    cut(job, 10)
    add_agent(job, daemons)
    assert_refused(job, "agent-2", "history_incomplete", "position is outside of the log (T0 0")
    assert epochs(job) == before, "the owner was not touched"
    sent.send(100)
    sent.assert_exact()
    # Asked again, it says again; the problem stays for as long as it is so, over a restart of the coordinator as well.
    again = operation(job, "rebalance", {})
    assert again["state"] == "failed" and "history_incomplete" in again["error"], again
    moved = operation(job, "moves", {"processor": 0, "agent": "agent-2"})
    assert moved["state"] == "failed" and "history_incomplete" in moved["error"], moved
    job.coordinator.restart()
    assert_refused(job, "agent-2", "history_incomplete", "position is outside of the log (T0 0")
    # What to do: the operator says that the topics keep enough for this logic.
    job.put(expect=200, history="retained")
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_history_cut_by_retention_stops_a_failover_until_the_owner_is_back(broker, daemons, unique):
    """Nobody else has the state: the processors halt, and nothing is served short."""
    job = make_job(broker, daemons, unique)
    sent = start_job(job, daemons)
    sent.send(200)
    sent.wait_rows(KEYS)  # more than 10 of each partition are in the state that the kill leaves
    cut(job, 10)
    add_agent(job, daemons)
    assert_refused(job, "agent-2", "history_incomplete", "")
    job.first.kill()
    wait_until(lambda: {each["agent"] for each in job.processors()} == {"agent-2"}, LIMIT_S, "agent-2 is to take over")
    job.wait("both have failed", lambda status: status["processors_failed"] == 2, LIMIT_S)
    problem = job.wait_problem("history_incomplete")
    assert problem["agent"] == "agent-2", problem
    waits = [each["waiting"] for each in job.handoffs("activating")]
    assert len(waits) == 2 and all("agent-1" in each for each in waits), waits
    sent.write(100)
    job.first.start()
    wait_until(lambda: job.owners() == {"agent-1": 2}, LIMIT_S, "agent-1 goes on with its state")
    job.wait_drained()
    sent.assert_exact()
    assert [each for each in job.handoffs() if each["state"] == "activating"] == []


def test_history_records_deleted_while_they_are_learned(broker, daemons, unique):
    """S6: the log's start passes a learner in the midst of its rebuild."""
    job = make_job(broker, daemons, unique, partitions=1, acceptable_lag=0)
    sent = start_job(job, daemons)
    sent.send(30_000, value="x" * 1000)
    learner = add_agent(job, daemons, start=False, hooks=True, **SLOW_READER)
    with Held(daemons, learner, f"checkpoint_before@{job.name}/0/learn") as hold:  # with some of it learned
        learner.start()
        operation_id = job.coordinator.http.post(
            f"/v1/jobs/{job.name}/moves", {"processor": 0, "agent": "agent-2"}, expect=202
        ).json["id"]
        hold.wait_struck()
        cut(job, 29_990)
    failed = job.wait_operation(operation_id, LIMIT_S)
    assert failed["state"] == "failed" and "history_" in failed["error"], failed
    problem = wait_until(lambda: [each for each in job.problems() if each["code"].startswith("history_")], LIMIT_S,
                         "the problem stays")[0]  # fmt: skip
    assert problem["agent"] == "agent-2", problem
    sent.send(100)
    sent.assert_exact()
    assert job.owners() == {"agent-1": 1}


def test_history_passed_a_kept_state(broker, daemons, unique):
    """S3: what an agent brought along is below the log's start."""
    job = make_job(broker, daemons, unique)
    sent = start_job(job, daemons)
    second = add_agent(job, daemons)
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    kept = [each["processor"] for each in job.processors() if each["agent"] == "agent-2"][0]
    sent.send(100)
    second.stop()
    job.wait_owners({"agent-1": 2}, LIMIT_S)
    sent.send(400)
    cut(job, 150)
    second.start()
    wait_until(lambda: [each for each in job.handoffs("cancelled") if "history_lost" in (each["error"] or "")], LIMIT_S, "it is refused")
    moved = operation(job, "moves", {"processor": kept, "agent": "agent-2"})
    assert moved["state"] == "failed" and "history_lost" in moved["error"], moved
    sent.send(100)
    sent.assert_exact()
    assert job.owners() == {"agent-1": 2}


def test_history_from_the_latest_offset_on(broker, daemons, unique):
    """S40: what was there before the job is not part of any state."""
    job = make_job(broker, daemons, unique, start="latest")
    broker.produce(job.input, [(f"key-{number % KEYS}", "old") for number in range(100)])
    sent = start_job(job, daemons)
    sent.send(200)
    cut(job, 5)  # below T0: nobody needs it
    add_agent(job, daemons)
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    sent.send(100)
    sent.assert_exact()


def test_history_compacted_refuses_count(compacting, daemons, unique):
    """S41: the join is refused; a failover finds out what is missing and halts; the owner goes on."""
    job = make_job(compacting, daemons, unique, partitions=1, create_topics=False)
    compacting.create_topic(job.input, 1, **EAGER_COMPACTION)
    compacting.create_topic(job.output, 1)
    sent = start_job(job, daemons)
    sent.send(200)
    assert any("is compacted" in warning for warning in
               job.coordinator.http.get(f"/v1/jobs/{job.name}").json["warnings"])  # fmt: skip
    add_agent(job, daemons)
    moved = operation(job, "moves", {"processor": 0, "agent": "agent-2"})
    assert moved["state"] == "failed" and "history_incomplete" in moved["error"], moved
    assert_refused(job, "agent-2", "history_incomplete", "the topic is compacted")
    compact(job, sent)
    # A restart with its state is no rebuild, whatever has become of the topic. In order: what a kill leaves to be replayed may
    # be compacted away.
    job.first.restart()
    wait_until(lambda: job.owners() == {"agent-1": 1}, LIMIT_S, "agent-1 goes on with its state")
    sent.send(100)
    assert job.first.stop() == 0
    problem = wait_until(lambda: [each for each in job.problems() if each["code"] == "history_incomplete"
                                  and "its owner had met" in each["detail"]], LIMIT_S, "the replay came out short")[0]  # fmt: skip
    assert problem["agent"] == "agent-2" and problem["processor"] == 0, problem
    job.first.start()
    wait_until(lambda: job.owners() == {"agent-1": 1}, LIMIT_S, "agent-1 has it back")
    sent.send(100)
    sent.assert_exact()


def test_history_compacted_for_a_while_is_found_out_by_the_number_of_records(compacting, daemons, unique):
    """The topic's policy is as it should be again: the records are gone all the same."""
    job = make_job(compacting, daemons, unique, partitions=1, create_topics=False)
    compacting.create_topic(job.input, 1, **EAGER_COMPACTION)
    compacting.create_topic(job.output, 1)
    sent = start_job(job, daemons)
    compact(job, sent)
    compacting.set_topic_config(job.input, cleanup_policy="delete")
    add_agent(job, daemons)
    moved = operation(job, "moves", {"processor": 0, "agent": "agent-2"})
    assert moved["state"] == "failed" and "its owner had met" in moved["error"], moved
    wait_until(lambda: job.owners() == {"agent-1": 1}, LIMIT_S, "agent-1 has it back")
    problem = job.wait_problem("history_incomplete")
    assert problem["agent"] == "agent-2", problem
    sent.send(100)
    sent.assert_exact()


def test_history_compacted_is_enough_for_latest(compacting, daemons, unique):
    """S41, the other half."""
    job = make_job(compacting, daemons, unique, create_topics=False, logic={"kind": "builtin", "name": "latest"})
    compacting.create_topic(job.input, 2, **EAGER_COMPACTION)
    compacting.create_topic(job.output, 2)
    sent = start_job(job, daemons)
    compact(job, sent)
    add_agent(job, daemons)
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    job.first.kill()
    job.wait_owners({"agent-2": 2}, LIMIT_S)
    sent.send(100)
    sent.wait_rows(KEYS)
    assert [each for each in job.problems() if each["code"].startswith("history")] == []


def test_history_tombstones_stay_deleted_in_a_rebuild(compacting, daemons, unique):
    """S16: who rebuilds `latest`, from what compaction has left, has neither a row of a deleted key nor misses one."""
    job = make_job(compacting, daemons, unique, create_topics=False, logic={"kind": "builtin", "name": "latest"})
    compacting.create_topic(job.input, 2, **EAGER_COMPACTION)
    compacting.create_topic(job.output, 2)
    deleted = KEYS // 4
    sent = start_job(job, daemons)
    compact(job, sent)
    sent.send(deleted, value=None)
    sent.wait_rows(KEYS - deleted)
    add_agent(job, daemons)
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    job.first.kill()
    job.wait_owners({"agent-2": 2}, LIMIT_S)
    sent.wait_rows(KEYS - deleted)
    sent.send(1)
    sent.wait_rows(KEYS - deleted + 1)


def test_history_behind_an_open_transaction(broker, daemons, unique):
    """S7: the learner is not caught up before the transaction has ended, and says what holds it."""
    job = make_job(broker, daemons, unique, partitions=1)
    sent = start_job(job, daemons)
    sent.send(100)
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique("writer"),
                       "transaction.timeout.ms": 600_000, "partitioner": "murmur2_random"})  # fmt: skip
    writer.init_transactions(30)
    writer.begin_transaction()
    for number in range(KEYS):
        writer.produce(job.input, "x", f"key-{number}")
        sent.counts[f"key-{number}".encode()] += 1
    assert writer.flush(30) == 0
    add_agent(job, daemons)
    operation_id = job.coordinator.http.post(
        f"/v1/jobs/{job.name}/moves", {"processor": 0, "agent": "agent-2"}, expect=202
    ).json["id"]

    def stuck():
        found = [each for each in job.handoffs() if each["state"] not in ("done", "cancelled")]
        assert not found or found[0]["state"] == "learning", found
        return found and found[0]["stuck"] == "blocked_by_open_transaction" and found[0]

    view = wait_until(stuck, LIMIT_S, "the hand-over says what it waits for")
    assert "open transaction" in view["waiting"] and view["lag_records"] == 0, view
    learner = job.coordinator.http.get(f"/v1/jobs/{job.name}/processors/0").json["learners"][0]
    assert learner["agent"] == "agent-2" and learner["stuck"] == "blocked_by_open_transaction", learner
    assert learner["partitions"][0]["t2"] == learner["partitions"][0]["t1"] == 100 == learner["learned_records"], learner
    assert {each["agent"] for each in job.problems() if each["code"] == "blocked_by_open_transaction"} >= {"agent-2"}
    assert ended(job, operation_id) is None
    writer.commit_transaction(30)
    moved = job.wait_operation(operation_id, LIMIT_S)
    assert moved["state"] == "succeeded", moved
    job.wait_drained()
    sent.assert_exact()
