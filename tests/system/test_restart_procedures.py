"""What docs/operations.md tells people to do is done here, with its own commands: each way out leads out, and is exact."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from daemons import ROOT
from jobs import Job
from oracle import TopicReader, check_outputs
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 60
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
RECHECK_S = 10  # a halted task looks again that often


def section(title):
    return re.search(rf"^##+ {re.escape(title)}$(.*?)(?=^##+ |\Z)", PAGE, re.M | re.S)[1]


@pytest.fixture
def world(broker, daemons, unique):
    """world(...) makes coordinator, agent and job, active."""

    def make(partitions=2, agent_id="host-1", **spec):
        made = Job(broker, daemons.coordinator(agent_timeout="2s"), unique, partitions, **spec)
        made.create()
        made.agent = daemons.agent(made.coordinator, agent_id)
        made.wait_active()
        return made

    return make


def fill(job, words):
    """One record a word, keys as they are; {key: how often} so far."""
    job.broker.produce(job.input, [(word, b"x") for word in words])
    job.expected = getattr(job, "expected", {})
    for word in words:
        job.expected[word.encode()] = job.expected.get(word.encode(), 0) + 1
    return job.expected


def words(count):
    return [f"word-{index % 7}" for index in range(count)]


def assert_exact(job):
    check_outputs(job.broker.bootstrap, job.output, job.expected, LIMIT_S, provenance_of=[job.input]).assert_exact()


def work(job, count=50):
    fill(job, words(count))
    assert_exact(job)
    job.wait_drained()


def reset_by_tool(job, to):
    """As kafka-consumer-groups.sh does it, without metadata: `to` is {partition: offset}."""
    at = [TopicPartition(job.input, partition, offset) for partition, offset in to.items()]
    answer = job.broker.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(job.group, at)])
    answer[job.group].result(LIMIT_S)


def forget_offsets(job):
    job.broker.admin.delete_consumer_groups([job.group])[job.group].result(LIMIT_S)


def commit_by_hand(job, tmp_path, processor, offset=None):
    """Runs the page's program for each owned partition of the processor; T2 where no offset is given."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", section("Set committed offsets by hand"), re.M | re.S)
    script = tmp_path / "commit.py"
    script.write_text(program)
    incarnation = job.coordinator.http.get(f"/v1/jobs/{job.name}").json["incarnation"]
    view = job.coordinator.http.get(f"/v1/jobs/{job.name}/processors/{processor}").json
    for at in view["partitions"]:
        arguments = [job.broker.bootstrap, job.group, incarnation, processor, view["epoch"], at["topic"], at["partition"],
                     at["t2"] if offset is None else offset]  # fmt: skip
        subprocess.run([sys.executable, script, *map(str, arguments)], check=True, capture_output=True)


def change(job, **fields):
    """As the page's jq line does it: the whole spec, with some fields changed."""
    spec = job.coordinator.http.get(f"/v1/jobs/{job.name}").json["spec"]
    job.coordinator.http.put(f"/v1/jobs/{job.name}", {**spec, **fields})


def create_anew(job, between=lambda: None, **fields):
    spec = job.coordinator.http.get(f"/v1/jobs/{job.name}").json["spec"]
    operation = job.coordinator.http.delete(f"/v1/jobs/{job.name}").json["id"]
    ended = job.coordinator.http.get(f"/v1/operations/{operation}?wait=60s", timeout_s=90).json
    assert ended["state"] == "succeeded", ended
    between()
    job.coordinator.http.put(f"/v1/jobs/{job.name}", {**spec, **fields}, expect=201, timeout_s=40)
    job.wait_running()


# ---- offsets

def restore(job):
    """With the page's own request."""
    (body,) = re.findall(r'-d \'(\{"action": "restore", "processors".*?\})\'', section("Accept or restore committed offsets"))
    job.coordinator.http.post(f"/v1/jobs/{job.name}/offsets", {**json.loads(body), "processors": []}, expect=200)


def test_restart_after_a_reset_by_restoring(world):
    job = world(processors=2)
    work(job)
    assert job.agent.stop() == 0
    reset_by_tool(job, {0: 0, 1: 0})
    job.agent.start()
    assert job.wait_problem("offsets_changed")["severity"] == "critical"
    fill(job, words(10))
    job.wait("both wait", lambda status: status["processors_failed"] == 2)
    restore(job)
    job.wait_active()
    assert_exact(job)


def test_restart_after_expired_offsets_by_restoring(world):
    job = world(processors=1)
    work(job)
    assert job.agent.stop() == 0
    forget_offsets(job)
    fill(job, words(10))
    job.agent.start()
    job.wait_problem("offsets_expired")
    restore(job)
    job.wait_active()
    assert_exact(job)


def test_restart_after_a_reset_by_a_new_job_takes_the_new_offsets(world):
    """The other way out: the reset is what people want. Outputs after it are written again, and the state is right."""
    job = world(partitions=1, processors=1)
    fill(job, ["a"] * 5)
    assert_exact(job)
    assert job.agent.stop() == 0
    reset_by_tool(job, {0: 3})
    job.agent.start()
    job.wait_problem("offsets_changed")
    create_anew(job, start="committed", reset_offsets=False)
    job.wait_active()
    job.wait_drained()
    values = [message.value() for message in read_all(job, 7)]
    assert values == [b"1", b"2", b"3", b"4", b"5", b"4", b"5"]


def read_all(job, count):
    reader = TopicReader(job.broker.bootstrap, job.output)
    found = []
    try:
        wait_until(lambda: found.extend(reader.read()) or len(found) >= count, LIMIT_S, f"{count} outputs")
    finally:
        reader.close()
    return found


def test_restart_after_lost_records_goes_on_at_the_log_start(world, tmp_path):
    """Records were removed before they were processed: they are lost, the job is not."""
    job = world(partitions=1, processors=1)
    fill(job, ["a"] * 5)
    assert_exact(job)
    assert job.agent.stop() == 0
    job.broker.produce(job.input, [("a", "x")] * 5)  # offsets 5 to 9 are never counted
    job.broker.delete_records(job.input, 0, 10)
    job.agent.start()
    job.wait_problem("history_lost")
    change(job, history="retained")
    job.broker.produce(job.input, [("a", "x")] * 2)
    job.wait_problem("history_lost")
    commit_by_hand(job, tmp_path, 0, offset=10)
    job.wait_active(limit_s=RECHECK_S + 20)
    assert [message.value() for message in read_all(job, 7)] == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]


def test_restart_after_a_truncation_goes_on_at_the_end(world):
    """The topic is shorter than what was committed, here because it was made anew."""
    job = world(partitions=1, processors=1)
    fill(job, ["a"] * 5)
    assert_exact(job)
    assert job.agent.stop() == 0
    before = job.committed()[job.input, 0]
    job.broker.delete_topic(job.input)
    job.broker.create_topic(job.input, 1)
    job.broker.produce(job.input, [("b", "x")] * 2)
    job.agent.start()
    job.wait_problem("topic_truncated")
    assert before[0] >= 5
    create_anew(job, between=lambda: reset_by_tool(job, {0: 2}), start="committed")
    job.wait_active()
    job.broker.produce(job.input, [("b", "x")])
    assert [message.value() for message in read_all(job, 6)] == [b"1", b"2", b"3", b"4", b"5", b"3"]


# ---- hosts

def test_restart_on_another_host_takes_the_state_along(world, daemons):
    job = world(processors=2)
    work(job)
    assert job.agent.stop() == 0
    old_state = job.agent.directory / "host-1-state"
    second = daemons.agent(job.coordinator, "host-2", start=False)
    shutil.copytree(old_state / job.name, second.directory / "host-2-state" / job.name,
                    ignore=shutil.ignore_patterns("lock.mdb", "agent.lock", "*.aside-*"))  # fmt: skip
    fill(job, words(20))
    job.coordinator.http.delete("/v1/agents/host-1", expect=204)
    second.start()
    job.wait_active()
    assert_exact(job)
    assert job.replayed() == 0, "nothing had to be learned again"
    assert {each["agent"] for each in job.processors()} == {"host-2"}


def test_restart_on_another_host_without_the_state_replays_it(world, daemons):
    job = world(processors=2)
    work(job)
    assert job.agent.stop() == 0
    job.coordinator.http.delete("/v1/agents/host-1", expect=204)
    fill(job, words(20))
    daemons.agent(job.coordinator, "host-2")
    job.wait_active()
    assert_exact(job)
    assert job.replayed() == 50


def test_restart_refuses_to_forget_an_agent_that_is_alive(world):
    job = world()
    refusal = job.coordinator.http.problem("DELETE", "/v1/agents/host-1", expect=409)
    assert refusal["code"] == "agent_still_owns"


# ---- the database

def database(job):
    return job.coordinator.options["database"]


def test_restart_with_a_lost_database_and_new_agents(world):
    """Nobody knows T0 any more: the jobs are put in again."""
    job = world(processors=2)
    work(job)
    spec = job.coordinator.http.get(f"/v1/jobs/{job.name}").json["spec"]
    job.coordinator.kill()
    for path in database(job).parent.iterdir():
        path.unlink()
    job.coordinator.start()
    assert "lose its database" in job.agent.wait_log("coordinator_not_followed")["detail"]
    fill(job, words(20))
    assert_exact(job)  # it still works for the old cluster

    assert job.agent.stop() == 0
    job.coordinator.http.put(f"/v1/jobs/{job.name}", {**spec, "start": "committed", "reset_offsets": False}, expect=201)
    job.wait_running()
    fill(job, words(10))
    job.agent.start()
    job.wait_active()
    assert_exact(job)
    states = (job.agent.directory / "host-1-state" / job.name).iterdir()
    assert any(".aside-" in path.name and (path / "reason").exists() for path in states)


def test_restart_database_can_not_be_opened_by_a_second_process(world):
    """So a backup is a snapshot, or a copy while the coordinator is stopped."""
    job = world()
    command = ["sqlite3", database(job), ".timeout 100", "SELECT count(*) FROM jobs"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "locked" in done.stderr


# ---- records

def test_restart_past_a_refused_record_and_back_to_halt(world, unique):
    job = world(partitions=1, processors=1, logic={"kind": "builtin", "name": "sum"})
    job.broker.produce(job.input, [("a", "1"), ("a", "one"), ("a", "2")])
    problem = job.wait_problem("record_failed")
    assert "offset 1" in problem["detail"]
    change(job, on_error="skip")
    assert [message.value() for message in read_all(job, 2)] == [b"1", b"3"]
    job.wait_drained()
    job.wait("the first one is forgotten", lambda status: status["problems"] == 0)
    change(job, on_error="halt")
    job.wait_active()
    job.broker.produce(job.input, [("a", "two")])
    assert "offset 3" in job.wait_problem("record_failed")["detail"]
