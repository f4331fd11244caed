"""Others in the group of a job: consumers that it takes over from, that it leaves to, and that nobody wants there (S36, S37)."""

import re
import subprocess
import textwrap
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from daemons import ROOT
from jobs import Job
from plain import PlainConsumer, assert_one_effect_each, wait_assigned
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)

FREEZE_S = 10
TAKE_OVER_S = 15  # members leave, two looks find nobody, owners activate; on a busy machine


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


@pytest.fixture
def plain(broker):
    """Starts plain consumers; those that a failed test leaves end with it."""
    started = []

    def start(job, **options):
        started.append(PlainConsumer(broker.bootstrap, job.group, job.input, **options))
        return started[-1]

    yield start
    for each in started:
        each.stop()


def group_of(job):
    return job.status()["group"]


GUIDE = [
    textwrap.dedent(block)
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", (ROOT / "docs/migration.md").read_text(encoding="utf-8"), re.M | re.S)
]
SETTINGS, COMPARE, CREATE, READY, EVENTS, GIVE_UP, PAUSE, RESUME = range(8)


def follow_guide(job, step):
    """Runs the commands of one step of docs/migration.md as they stand there, with this job's names; returns what they print."""
    settings = f"""
        B=http://{job.coordinator.address} J={job.name} G={job.group} K="--bootstrap-server {job.broker.bootstrap}"
        kafka-consumer-groups.sh() {{ echo "$*"; }}
    """
    commands = GUIDE[step].replace('"orders"', f'"{job.input}"').replace('"orders-per-customer"', f'"{job.output}"')
    commands = commands.replace('"start":', '"provenance": true, "start":')
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", settings + commands], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran
    return ran.stdout


def test_migrate_guide_has_the_steps_that_are_tested_here():
    assert len(GUIDE) == 8 and all(f"{name}=" in GUIDE[SETTINGS] for name in "BJGK"), GUIDE


def wait_group(job, limit_s=LIMIT_S, **wanted):
    return wait_until(
        lambda: (lambda seen: wanted.items() <= seen.items() and seen)(group_of(job)), limit_s, f"{job.name}: the group is {wanted}"
    )


def kinds(stage, *wanted):
    return [each["kind"] for each in stage.events() if each["kind"] in wanted]


def offsets(job):
    """Without stamps: the client may show what lies behind one in its memory, too."""
    return {partition: offset for (_, partition), (offset, _) in job.committed().items()}


def outputs(job):
    return sum(job.broker.end_offsets(job.output).values())


def wait_ends(job):
    """Until no transaction is open in the output: its marker may come a moment after the commit was answered."""
    reader = Consumer({"bootstrap.servers": job.broker.bootstrap, "group.id": "looks", "isolation.level": "read_committed"})

    def stable_ends():
        at = [TopicPartition(job.output, partition) for partition in range(job.broker.partition_count(job.output))]
        return {each.partition: reader.get_watermark_offsets(each, timeout=10)[1] for each in at}

    try:
        wait_until(lambda: stable_ends() == job.broker.end_offsets(job.output), LIMIT_S, "no transaction is open")
    finally:
        reader.close()


# ---- from a plain group to baton (S37)


def test_migrate_in_and_out_and_in_again_under_load(broker, daemons, unique, loads, plain):
    coordinator = daemons.coordinator(agent_timeout="2s")
    agents = [daemons.agent(coordinator, checkpoint_interval="100ms") for _ in range(2)]
    for agent in agents:
        wait_until(lambda: coordinator.http.get(f"/v1/agents/{agent.name}", expect=(200, 404)).status == 200, LIMIT_S, "is known")
    job = Job(broker, coordinator, unique, partitions=4, start="committed")
    old = [plain(job, output=job.output, client=f"old-app-{number}") for number in range(2)]
    load = loads(broker.bootstrap, job.input, keys=500, seed=1, rate=500)
    wait_assigned(old, 4, LIMIT_S)
    wait_until(lambda: all(offset for offset, _ in committed(job)), LIMIT_S, "the old consumers commit")

    # They run on while it learns.
    assert job.group in follow_guide(job, COMPARE)
    assert f'"name":"{job.name}"' in follow_guide(job, CREATE).replace(" ", "")
    job.wait_running()
    seen = wait_group(job, hold="starting", ready=True, members=2)
    told = follow_guide(job, READY)
    assert '"ready": true' in told and "group_awaited: " in told, told
    assert "old-app-0 at " in seen["who"] and "old-app-1 at " in seen["who"], seen
    [problem] = job.problems()
    assert problem["code"] == "group_awaited" and "4 of 4 processors have learned" in problem["detail"], problem
    assert all(each["state"] == "paused" for each in job.processors())
    before = old[0].processed
    wait_until(lambda: old[0].processed > before + 200, LIMIT_S, "the old consumers go on")
    epochs = {each["processor"]: each["epoch"] for each in job.processors() if each["agent"] == agents[0].name}
    agents[0].kill()  # and what it has learned is there when it comes back
    agents[0].start()
    wait_until(lambda: all(job.processors()[each]["epoch"] > epoch for each, epoch in epochs.items()), LIMIT_S, "it is back")
    wait_group(job, hold="starting", ready=True)
    old.pop().stop()  # one of two: nothing changes
    wait_assigned(old, 4, LIMIT_S)
    assert group_of(job)["hold"] == "starting"
    by_old = old.pop()
    by_old.stop()
    wait_group(job, TAKE_OVER_S, hold="none")
    job.wait_active()
    assert "job_took_over  " in follow_guide(job, EVENTS)

    # Out, and in again.
    more = outputs(job) + 500
    wait_until(lambda: outputs(job) > more, LIMIT_S, "baton puts out")
    follow_guide(job, PAUSE)
    job.wait("all are paused", lambda status: status["processors_paused"] == 4, LIMIT_S)
    again = plain(job, output=job.output)
    wait_until(lambda: again.processed > 500, LIMIT_S, "the plain consumer goes on")
    assert group_of(job)["hold"] == "none"
    follow_guide(job, RESUME)
    wait_group(job, hold="waiting", members=1, ready=True)
    before = again.processed
    wait_until(lambda: again.processed > before + 200, LIMIT_S, "it goes on while the job learns")
    again.stop()
    wait_group(job, TAKE_OVER_S, hold="none")
    job.wait_active()
    more = outputs(job) + 200
    wait_until(lambda: outputs(job) > more, LIMIT_S, "baton puts out")
    load.stop()
    job.wait_drained()
    made = assert_one_effect_each(broker.bootstrap, job.input, job.output, LIMIT_S)
    assert made.by_plain > 500 and made.by_baton > 700, vars(made)


def committed(job):
    found = job.committed()
    return [found.get((job.input, partition), (0, "")) for partition in range(4)]


def test_migrate_takes_over_from_a_job_that_was_deleted(scene, plain):
    """Its stamps are still on partitions that the plain consumers had nothing of to commit."""
    stage = scene(partitions=2)
    stage.agent()
    stage.job.wait_active()
    stage.load()
    stage.end_load()
    stage.job.delete()
    member = plain(stage.job, output=stage.job.output)
    wait_assigned([member], 2, LIMIT_S)
    stage.job.put(start="committed")
    wait_group(stage.job, hold="starting", ready=True)
    before = offsets(stage.job)
    follow_guide(stage.job, GIVE_UP)
    path = f"/v1/jobs/{stage.job.name}"
    wait_until(lambda: stage.coordinator.http.get(path, expect=(200, 404)).status == 404, LIMIT_S, "it is gone")
    assert offsets(stage.job) == before and member.assigned == 2
    stage.job.put(start="committed")
    wait_group(stage.job, hold="starting", ready=True)
    member.stop()
    stage.job.wait_active()
    stage.assert_exact()


# ---- somebody who should not be there (S36)


def test_migrate_intruder_freezes_the_job_until_it_leaves(scene, plain):
    stage = scene(partitions=2)
    first = stage.agent()
    stage.job.wait_active()
    stage.load()
    epochs = stage.epochs()
    intruder = plain(stage.job, client="lost-cron")
    wait_assigned([intruder], 2, LIMIT_S)
    there = time.monotonic()
    wait_group(stage.job, hold="frozen", members=1)
    stage.job.wait("all have stopped", lambda status: status["processors_paused"] == 2)
    assert time.monotonic() - there < FREEZE_S
    problem = stage.job.wait_problem("group_intruded")
    assert problem["severity"] == "critical" and "lost-cron at " in problem["detail"], problem
    metrics = stage.coordinator.metrics()
    assert metrics[f'baton_job_group_hold{{job="{stage.job.name}",hold="frozen"}}'] == 1, metrics
    assert metrics[f'baton_job_group_members{{job="{stage.job.name}"}}'] == 1, metrics
    wait_ends(stage.job)
    seen = outputs(stage.job)
    stage.coordinator.kill()  # it is known to be frozen from the start, and who starts anew stays so
    first.kill()
    stage.coordinator.start()
    first.start()
    stage.wait_agent(first)
    stage.job.wait("all stand still", lambda status: status["processors_paused"] == 2)
    refused = stage.coordinator.http.problem(
        "POST", f"/v1/jobs/{stage.job.name}/moves", {"processor": 0, "agent": first.name}, expect=409
    )
    assert refused["code"] == "move_refused" and "others are in the group" in refused["detail"], refused
    assert outputs(stage.job) == seen
    intruder.stop()
    stage.job.wait_active()
    assert all(epoch > epochs[processor] for processor, epoch in stage.epochs().items())
    assert group_of(stage.job)["hold"] == "none" and not stage.job.problems()
    assert kinds(stage, "job_frozen", "job_thawed") == ["job_frozen", "job_thawed"]
    stage.assert_exact()


def test_migrate_intruder_is_found_among_many_jobs(broker, daemons, unique, plain):
    """Of many groups all there are in the cluster are asked for at once (coordinator/kafka_groups.c): each gets its own answer."""
    coordinator = daemons.coordinator()
    first = Job(broker, coordinator, unique, partitions=1)
    others = [
        Job(broker, coordinator, lambda word, n=n: f"{unique(word)}-{n}", partitions=1, create_topics=False) for n in range(9)
    ]
    first.create()
    for job in others:
        job.put(inputs=[first.input], output=first.output)
    for job in others:
        job.wait_running()
    intruder = plain(first, client="lost-cron")
    seen = wait_group(first, hold="frozen", members=1)
    assert "lost-cron at " in seen["who"], seen
    for job in others:
        wait_group(job, hold="none", members=0)
        assert not [each for each in job.problems() if each["code"].startswith("group_")], job.problems()
    intruder.stop()
    wait_group(first, hold="none", members=0)


def test_migrate_intruder_that_committed_leaves_offsets_that_are_not_obeyed(scene, plain):
    stage = scene(partitions=1)
    stage.agent()
    stage.job.wait_active()
    stage.broker.produce(stage.job.input, [(b"key", b"x")] * 10)
    stage.job.wait_drained()
    intruder = plain(stage.job)
    stage.job.wait("is frozen", lambda status: status["group"]["hold"] == "frozen" and status["processors_paused"] == 1)
    stage.broker.produce(stage.job.input, [(b"key", b"x")] * 5)
    stage.coordinator.pause()  # the job is to go on after the tool's commit
    intruder.stop()
    tool = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.job.group})
    wait_until(lambda: commits(tool, TopicPartition(stage.job.input, 0, 12)), LIMIT_S, "it is committed")
    tool.close()
    stage.coordinator.resume()
    stage.job.wait_problem("offsets_changed")
    assert outputs(stage.job) >= 10


def commits(tool, partition):
    try:
        [answer] = tool.commit(offsets=[partition], asynchronous=False)
        return answer.error is None
    except Exception:  # the group still has a member
        return False
