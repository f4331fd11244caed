"""A paused job puts nothing out and keeps all that it has, whatever happens; maintenance keeps processors where they are."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from oracle import TopicReader
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def pause(stage, reason="a test"):
    return stage.coordinator.http.put(f"/v1/jobs/{stage.job.name}/pause", {"reason": reason}, expect=200).json["pause"]


def resume(stage):
    said = stage.coordinator.http.put(f"/v1/jobs/{stage.job.name}/resume", {"reason": "go on"}, expect=200).json["pause"]
    assert not said["paused"], said


def wait_paused(stage):
    count = stage.job.spec["processors"]
    stage.job.wait(f"{count} are paused", lambda status: status["processors_paused"] == count, LIMIT_S)


def offsets(stage):
    """{partition: committed offset}; stamps may change."""
    return {partition: offset for (_, partition), (offset, _) in stage.job.committed().items()}


def count_outputs(stage):
    """Those that a reader of committed ones sees."""
    reader = TopicReader(stage.broker.bootstrap, stage.job.output)
    try:
        wait_until(lambda: not reader.read() and reader.at_end, LIMIT_S, "all outputs are read")
        return reader.total
    finally:
        reader.close()


def assert_still(stage, committed):
    """Nothing more was committed, and what was put out is one output for each record before that."""
    assert offsets(stage) == committed
    assert count_outputs(stage) == sum(committed.values())


def test_drain_pause_under_load_keeps_still_through_kills_and_goes_on_exactly(scene):
    stage = scene(partitions=4)
    first = stage.agent()
    stage.job.wait_active()
    second = stage.agent()
    stage.job.wait_owners({first.name: 2, second.name: 2})
    stage.load()
    said = pause(stage)
    assert said["paused"] and said["reason"] == "a test" and said["actor"].startswith("api "), said
    wait_paused(stage)
    assert pause(stage) == said
    committed = offsets(stage)
    status = stage.job.status()
    assert status["paused"] and status["paused_reason"] == "a test" and status["paused_at"] == said["changed_at"], status
    [problem] = stage.job.problems()
    assert problem["code"] == "paused" and problem["severity"] == "warning" and "a test" in problem["detail"], problem
    lag = status["lag_records"]
    stage.job.wait("the lag grows", lambda status: (status["lag_records"] or 0) >= (lag or 0) + 2_000, LIMIT_S)
    assert_still(stage, committed)
    refused = stage.coordinator.http.problem(
        "POST", f"/v1/jobs/{stage.job.name}/moves", {"processor": 0, "agent": second.name}, expect=409
    )
    assert refused["code"] == "move_refused" and "paused" in refused["detail"], refused
    metrics = stage.coordinator.metrics()
    assert metrics[f'baton_job_paused{{job="{stage.job.name}"}}'] == 1 and metrics["baton_maintenance"] == 0, metrics

    stage.coordinator.kill()
    first.kill()
    stage.coordinator.start()
    first.start()
    stage.wait_agent(first)
    wait_paused(stage)
    assert_still(stage, committed)

    second.kill()  # for good: the new owner is paused, too
    stage.wait_agent(second, state="lost")
    wait_until(lambda: {each["agent"] for each in stage.job.processors()} == {first.name}, LIMIT_S, "all are taken over")
    wait_paused(stage)
    second.start()  # and gets nothing back meanwhile
    stage.wait_agent(second, tasks=0)
    assert_still(stage, committed)
    assert not stage.job.handoffs("learning")

    epochs = stage.epochs()
    resume(stage)
    stage.job.wait_active()
    assert all(epoch > epochs[processor] for processor, epoch in stage.epochs().items())
    stage.job.wait_owners({first.name: 2, second.name: 2})  # what it is owed
    assert not [each for each in stage.job.problems() if each["code"] == "paused"]
    kinds = [each["kind"] for each in stage.events() if each["kind"] in ("job_paused", "job_resumed", "offsets_accepted")]
    assert kinds == ["job_paused", "job_resumed"], kinds
    stage.assert_exact()


# ---- offsets that an operator's tool sets (S45)


def set_offset(stage, offset):
    """As a tool does that knows nothing of stamps."""
    tool = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.job.group})
    try:
        [answer] = tool.commit(offsets=[TopicPartition(stage.job.input, 0, offset)], asynchronous=False)
        assert answer.error is None, answer
    finally:
        tool.close()


def send(stage, count):
    stage.broker.produce(stage.job.input, [(b"key", b"x")] * count)


def wait_counts(stage, wanted):
    """What was put out is these counts of the one key, in that order."""
    reader = TopicReader(stage.broker.bootstrap, stage.job.output)
    seen = []
    try:
        wait_until(lambda: seen.extend(int(each.value()) for each in reader.read()) or len(seen) >= len(wanted), LIMIT_S, "counts")
        seen.extend(int(each.value()) for each in reader.read(1))
    finally:
        reader.close()
    assert seen == wanted


def work_then_pause(stage, count):
    stage.job.wait_active()
    send(stage, count)
    stage.job.wait_drained()
    pause(stage)
    wait_paused(stage)


def test_drain_pause_accepts_an_offset_that_a_tool_set_higher_and_says_so(scene):
    stage = scene(partitions=1)
    agent = stage.agent()
    work_then_pause(stage, 100)
    send(stage, 50)
    set_offset(stage, 120)
    agent.kill()  # and who starts anew leaves it alone, too
    agent.start()
    stage.wait_agent(agent)
    wait_paused(stage)
    offset, stamp = stage.job.committed()[stage.job.input, 0]
    assert offset == 120 and not stamp, stage.job.committed()
    resume(stage)
    stage.job.wait_active()
    wait_counts(stage, [*range(1, 101), *range(121, 151)])  # the 20 are learned, and not put out
    [event] = stage.events("offsets_accepted")
    assert "120" in event["detail"] and event["processor"] == 0, event


def test_drain_pause_refuses_an_offset_that_a_tool_set_lower_until_it_is_put_right(scene):
    stage = scene(partitions=1)
    stage.agent()
    work_then_pause(stage, 100)
    set_offset(stage, 40)
    resume(stage)
    stage.job.wait_problem("offsets_changed")
    send(stage, 10)
    set_offset(stage, 100)
    stage.job.wait_active()
    wait_counts(stage, [*range(1, 111)])


def test_drain_pause_refuses_what_a_tool_sets_while_the_job_runs(scene):
    stage = scene(partitions=1)
    agent = stage.agent()
    work_then_pause(stage, 100)
    resume(stage)
    stage.job.wait_active()
    send(stage, 10)
    stage.job.wait_drained()
    set_offset(stage, 110)
    agent.restart()
    stage.job.wait_problem("offsets_changed")
    wait_counts(stage, [*range(1, 111)])


# ---- maintenance


def test_drain_pause_of_the_planner_lets_nothing_come_to_an_agent_that_joins(scene):
    stage = scene(partitions=2)
    first = stage.agent()
    stage.job.wait_active()
    stage.load()
    said = stage.maintenance(True)
    assert said["enabled"] and said["reason"] == "the brokers" and said["actor"].startswith("api "), said
    stage.coordinator.kill()
    stage.coordinator.start()
    assert stage.coordinator.http.get("/v1/maintenance").json == said
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    waiting = "waits: maintenance is on"
    wait_until(lambda: any(waiting in (each["reason"] or "") for each in stage.job.processors()), LIMIT_S, "a processor says so")
    stage.wait_outputs(1_000)
    assert not stage.job.handoffs()
    stage.move(second)  # what is asked for goes on
    stage.job.wait_owners({first.name: 1, second.name: 1})
    third = stage.agent()
    second.kill()  # and so does what has lost its owner
    wait_until(lambda: second.name not in stage.job.owners() and sum(stage.job.owners().values()) == 2, LIMIT_S, "all go on")
    second.start()
    stage.wait_agent(second)
    stage.wait_agent(third)
    assert not stage.maintenance(False)["enabled"]
    stage.wait_nothing_under_way()
    kinds = [each["kind"] for each in stage.events() if each["kind"].startswith("maintenance")]
    assert kinds == ["maintenance_on", "maintenance_off"], kinds
    stage.assert_exact()
