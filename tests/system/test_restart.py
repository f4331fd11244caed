"""Daemons are killed, stopped and started again: nothing is lost or doubled, and only what must be is read again."""

import concurrent.futures
import random
import shutil
import time

import pytest
from confluent_kafka import Producer

from jobs import Job
from oracle import TopicReader, check_outputs
from scene import Held
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 120
AGENT_TIMEOUT = "2s"


@pytest.fixture
def world(broker, daemons, unique):
    """world(...) makes coordinator, agent and job, active. The agent writes checkpoints every 100 ms unless told."""

    def make(partitions=4, kafka=None, agent=None, start=True, coordinator=None, **spec):
        made = Job(kafka or broker, daemons.coordinator(
            bootstrap=(kafka or broker).bootstrap, agent_timeout=AGENT_TIMEOUT, **(coordinator or {})
        ), unique, partitions, **spec)
        made.create()
        options = {"checkpoint_interval": "100ms", **(agent or {})}
        made.agent = daemons.agent(made.coordinator, bootstrap=(kafka or broker).bootstrap, start=False, **options)
        if start:
            made.agent.start()
            made.wait_active()
        return made

    return make


def fill(job, count, keys=100, seed=1):
    """`count` records, acknowledged; {key: how often}."""
    chosen = random.Random(seed)
    expected = {}
    records = []
    for _ in range(count):
        key = b"key-%d" % chosen.randrange(keys)
        expected[key] = expected.get(key, 0) + 1
        records.append((key, b"x"))
    job.broker.produce(job.input, records)
    return expected


def added(*expected):
    total = {}
    for each in expected:
        for key, count in each.items():
            total[key] = total.get(key, 0) + count
    return total


def assert_exact(job, expected, limit_s=LIMIT_S):
    check_outputs(job.broker.bootstrap, job.output, expected, limit_s, provenance_of=[job.input]).assert_exact()


def epochs_of(job):
    return [each["epoch"] for each in job.processors()]


def wait_active_anew(job, epochs):
    """After a start of the agent: until then what is shown may be of the one before. `epochs`: from before that start."""
    job.wait("active under new epochs", lambda _: all(
        each["state"] == "active" and each["epoch"] > epoch for each, epoch in zip(job.processors(), epochs)))


def outputs_so_far(job):
    return sum(job.broker.end_offsets(job.output).values())


def state_of(job, processor=0):
    return job.agent.directory / f"{job.agent.name}-state" / job.name / str(processor)


# ---- kills under load


def kill_under_load(job, load, victim, times, seed):
    """kill -9 of `victim` at random moments, each time after outputs have come since it was last up."""
    chosen = random.Random(seed)
    for _ in range(times):
        seen = outputs_so_far(job)
        wait_until(lambda: outputs_so_far(job) > seen + chosen.randrange(500), LIMIT_S, "outputs go on")
        victim.kill()
        victim.start()
    return load.stop()


@pytest.mark.parametrize("delivery", ["exactly_once"])
def test_restart_agent_killed_again_and_again_under_load(world, loads, delivery):
    job = world(partitions=4, delivery=delivery)
    load = loads(job.broker.bootstrap, job.input, keys=5_000, seed=21, rate=3_000)
    sent = kill_under_load(job, load, job.agent, times=5, seed=22)
    assert_exact(job, sent)


def test_restart_coordinator_killed_again_and_again_under_load(world, loads):
    job = world(partitions=4)
    load = loads(job.broker.bootstrap, job.input, keys=5_000, seed=23, rate=3_000)
    sent = kill_under_load(job, load, job.coordinator, times=5, seed=24)
    assert_exact(job, sent)
    assert not job.agent.log_events("task_phase", phase="failed")


def test_restart_at_least_once_loses_nothing_and_keeps_the_state_exact(world, loads):
    job = world(partitions=2, delivery="at_least_once")
    load = loads(job.broker.bootstrap, job.input, keys=500, seed=25, rate=3_000)
    sent = kill_under_load(job, load, job.agent, times=3, seed=26)
    check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S).assert_at_least_once()


def test_restart_output_goes_on_without_the_coordinator(world, loads):
    job = world(partitions=4)
    load = loads(job.broker.bootstrap, job.input, keys=1_000, seed=27, rate=2_000)
    job.coordinator.kill()
    down = time.monotonic()
    seen = outputs_so_far(job)
    # Three agent timeouts: whoever would give up without a coordinator has done so by then.
    wait_until(lambda: time.monotonic() - down > 6 and outputs_so_far(job) > seen + 6_000, LIMIT_S, "output goes on")
    job.coordinator.start()
    job.wait_active()
    assert_exact(job, load.stop())
    assert not job.agent.log_events("task_phase", phase="producer")[job.spec["processors"]:], "no task started over"


# ---- what is read again


def test_restart_in_order_replays_nothing(world):
    job = world(partitions=2)
    before = fill(job, 2_000)
    job.wait_drained()
    epochs = epochs_of(job)
    job.agent.restart()
    wait_active_anew(job, epochs)
    assert job.replayed() == 0
    assert_exact(job, added(before, fill(job, 100, seed=2)))


def test_restart_after_a_kill_replays_exactly_t2_to_t1(world):
    job = world(partitions=2)
    first = fill(job, 3_000)
    job.wait_drained()
    assert job.agent.stop() == 0  # T2 = T1 on disk
    job.agent.options["checkpoint_interval"] = "10m"
    epochs = epochs_of(job)
    job.agent.start()
    wait_active_anew(job, epochs)
    second = fill(job, 1_234, seed=2)
    job.wait_drained()  # T1 has moved on, T2 on disk has not
    epochs = epochs_of(job)
    job.agent.kill()
    job.agent.start()
    wait_active_anew(job, epochs)
    assert job.replayed() == 1_234
    assert_exact(job, added(first, second, fill(job, 100, seed=3)))


def test_restart_without_state_rebuilds_all_of_it(world):
    """S1: the last offsets are transaction markers, so the rebuild has to end on the position, not on a record."""
    job = world(partitions=2, acceptable_lag=0)
    for number in range(10):
        job.broker.produce(job.input, [(b"k%d" % number, b"x")], transactional_id=job.name)
    job.wait_drained()
    epochs = epochs_of(job)
    assert job.agent.stop() == 0
    shutil.rmtree(job.agent.options["state_dir"])
    job.agent.start()
    wait_active_anew(job, epochs)
    assert job.replayed() == 10
    job.wait("lag is 0", lambda status: status["lag_records"] == 0)
    more = fill(job, 50)
    assert_exact(job, {**{b"k%d" % number: 1 for number in range(10)}, **more})


def test_restart_goes_on_with_a_rebuild_where_it_was(world, daemons):
    """S12: stopped in the midst of a rebuild it goes on from there, not from 0 and not from the end."""
    job = world(partitions=1, agent={"hooks": True})
    expected = fill(job, 20_000, keys=500)
    job.wait_drained()
    assert job.agent.stop() == 0
    shutil.rmtree(job.agent.options["state_dir"])
    # Fetches of a few records with a pause after each make the rebuild slow enough to be stopped in its midst.
    job.agent.options.update({"kafka.fetch.message.max.bytes": "3000", "kafka.queued.min.messages": "50"})
    with Held(daemons, job.agent, f"checkpoint_after@{job.name}/0/replay") as hold:
        job.agent.start()
        hold.wait_struck()

        def replaying():  # until it says so, what is shown is from before
            return [p for p in job.processors() if p["state"] == "replaying" and p["partitions"][0]["t2"]]

        [held] = wait_until(replaying, LIMIT_S, "it says how far it is")
        progress = held["partitions"][0]["t2"]
        assert 0 < progress < 20_000, held
        with concurrent.futures.ThreadPoolExecutor() as pool:
            stopping = pool.submit(job.agent.stop)
            job.agent.wait_log("agent_phase", phase="stopping")
            hold.let_go_surely()
            assert stopping.result() == 0
    for option in ("kafka.fetch.message.max.bytes", "kafka.queued.min.messages"):
        del job.agent.options[option]
    job.agent.start()
    job.wait_active()
    assert 0 < job.replayed() <= 20_000 - progress
    assert_exact(job, added(expected, fill(job, 100, seed=2)))


def test_restart_keeps_the_position_of_an_emptied_partition(world):
    """S5: the records are gone, the position stays at the end, also over a restart."""
    job = world(partitions=1)
    before = fill(job, 500)
    job.wait_drained()
    job.broker.delete_records(job.input, 0, 500)
    job.agent.restart()
    job.wait_active()

    def at_end():
        partition = job.processors()[0]["partitions"][0]
        return partition["t1"] == partition["t2"] == partition["log_start"] == partition["stable_end"] == 500

    wait_until(at_end, LIMIT_S, "T1 = T2 = end = 500")
    after = fill(job, 20, seed=2)
    check_outputs(job.broker.bootstrap, job.output, added(before, after), LIMIT_S).assert_exact()
    job.wait("lag is 0", lambda status: status["lag_records"] == 0 and status["problems"] == 0)


def test_restart_removes_what_a_killed_transfer_has_left(world):
    """Nothing fetches the state of an owner that has it, and so nobody else would clear it away."""
    job = world(partitions=1)
    before = fill(job, 500)
    job.wait_drained()
    assert job.agent.stop() == 0
    left = state_of(job) / "seed"
    left.mkdir()
    (left / "data.mdb").write_bytes(b"x" * 65536)
    job.agent.start()
    job.wait_active()
    assert not left.exists()
    assert_exact(job, added(before, fill(job, 100, seed=2)))


# ---- state that must not be served


def damage_flip(path):
    size = path.stat().st_size
    with open(path, "r+b") as file:
        for place in range(4096 * 2 + 100, size, 4096):  # one byte of every page but the first two
            file.seek(place)
            byte = file.read(1)
            file.seek(place)
            file.write(bytes([byte[0] ^ 0x5A]))


def damage_cut(path):
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [damage_flip, damage_cut], ids=["flipped", "cut"])
def test_restart_sets_damaged_state_aside_and_relearns(world, damage):
    """S17: detected, set aside (not deleted), relearned, never served."""
    job = world(partitions=1)
    before = fill(job, 5_000, keys=2_000)
    job.wait_drained()
    epochs = epochs_of(job)
    assert job.agent.stop() == 0
    damage(state_of(job) / "data.mdb")
    job.agent.start()
    wait_active_anew(job, epochs)
    assert job.replayed() == 5_000
    aside = list(state_of(job).parent.glob("0.aside-*"))
    assert aside and job.agent.log_events("state_set_aside")
    assert_exact(job, added(before, fill(job, 3_000, keys=2_000, seed=2)))


def test_restart_notices_a_topic_that_was_recreated(world):
    """S14: the same offsets exist again, with other contents: noticed, never taken for the old ones."""
    job = world(partitions=1)
    fill(job, 200)
    job.wait_drained()
    assert job.agent.stop() == 0
    job.broker.delete_topic(job.input)
    job.broker.create_topic(job.input, 1)
    fill(job, 400, seed=9)
    job.agent.start()
    problem = job.wait_problem("topic_recreated")
    assert problem["severity"] == "critical" and problem["action"]
    assert outputs_so_far(job) <= 200 + 10, "nothing was put out on top of the wrong contents"
    assert job.status()["processors_active"] == 0


def test_restart_notices_offsets_that_vanished(world):
    """S10: committed offsets that are gone are never read as 0."""
    job = world(partitions=1)
    fill(job, 200)
    job.wait_drained()
    assert job.agent.stop() == 0
    wait_until(lambda: job.broker.admin.delete_consumer_groups([job.group])[job.group].result(10) is None, 30, "deleted")
    seen = outputs_so_far(job)
    job.agent.start()
    job.wait_problem("offsets_expired")
    assert outputs_so_far(job) == seen
    job.agent.wait_log("task_problem", problem="offsets_expired")  # an operator who reads logs finds it there


def test_restart_says_that_history_is_lost(world):
    """S3: T2 is below the log start: said, not waited for, not skipped."""
    job = world(partitions=1, agent={"checkpoint_interval": "10m"})
    fill(job, 100)
    job.wait_drained()
    assert job.agent.stop() == 0
    job.broker.delete_records(job.input, 0, 100)
    fill(job, 300, seed=2)
    job.agent.start()
    job.wait_active()
    job.wait_drained()
    job.agent.kill()  # T2 on disk is 100
    job.broker.delete_records(job.input, 0, 250)
    job.agent.start()
    problem = job.wait_problem("history_lost")
    assert "T2 100" in problem["detail"] and "250" in problem["detail"]


def test_restart_refuses_a_state_directory_in_use(world, daemons):
    """S18: the second agent on one state directory says who holds it, and ends."""
    job = world(partitions=1)
    other = daemons.agent(job.coordinator, "other", start=False, state_dir=job.agent.options["state_dir"])
    other.start(ready=None)
    assert other.wait_exit() == 1
    assert "state_dir" in other.log_text() and job.agent.name in other.log_text()


# ---- fences and a broker that does not answer


def transactional_id(job, processor=0):
    return job.agent.wait_log("task_opening", job=job.name, processor=processor)["transactional_id"]


def test_restart_fenced_by_another_producer_of_the_same_transactional_id(world):
    """An intruder initialises the id: the agent says FENCED and produces nothing more under that epoch."""
    job = world(partitions=1)
    before = fill(job, 100)
    job.wait_drained()
    epoch = job.processors()[0]["epoch"]
    intruder = Producer({"bootstrap.servers": job.broker.bootstrap, "transactional.id": transactional_id(job)})
    intruder.init_transactions(30)
    more = fill(job, 100, seed=2)
    job.agent.wait_log("task_phase", phase="fenced", epoch=epoch)
    # The coordinator knows that the agent is the rightful owner and gives it a higher epoch, which fences the intruder.
    job.wait("active again under a higher epoch", lambda _: job.processors()[0]["epoch"] > epoch
             and job.processors()[0]["state"] == "active")
    assert_exact(job, added(before, more))
    intruder.begin_transaction()
    intruder.produce(job.output, b"1", b"intruder")
    with pytest.raises(Exception, match="(?i)fenced|epoch"):
        intruder.commit_transaction(30)


def test_restart_without_a_coordinator_a_fenced_task_stays_silent(world):
    job = world(partitions=1)
    before = fill(job, 100)
    job.wait_drained()
    job.coordinator.kill()
    intruder = Producer({"bootstrap.servers": job.broker.bootstrap, "transactional.id": transactional_id(job)})
    intruder.init_transactions(30)
    more = fill(job, 100, seed=2)
    job.agent.wait_log("task_phase", phase="fenced")
    assert outputs_of_committed(job) == 100
    job.coordinator.start()
    assert_exact(job, added(before, more))


def outputs_of_committed(job):
    reader = TopicReader(job.broker.bootstrap, job.output)
    try:
        wait_until(lambda: reader.read() == [] and reader.at_end, LIMIT_S, "outputs are read")
        return reader.total
    finally:
        reader.close()


def test_restart_a_transaction_that_times_out_leads_through_a_new_activation(own_broker, world, loads):
    """The broker stops answering in the midst of transactions: their end is unknown, the producer is given up.

    The one-node cluster must not take its own broker for dead meanwhile: Kafka 4.4 leaves out the abort markers of partitions
    that have no leader at that moment, and what was aborted becomes visible with the producer's next commit (docs/design.md D9).
    """
    kafka = own_broker(properties={"broker.session.timeout.ms": "120000"})
    job = world(partitions=2, kafka=kafka)
    load = loads(kafka.bootstrap, job.input, keys=500, seed=31, rate=1_000)
    wait_until(lambda: outputs_so_far(job) > 500, LIMIT_S, "outputs come")
    kafka.pause()
    job.agent.wait_log("commit_failed", limit_s=LIMIT_S)
    kafka.resume()
    job.wait_active(limit_s=LIMIT_S)
    assert_exact(job, load.stop())


def test_restart_with_a_broker_that_does_not_answer_waits_and_goes_on(world, own_broker):
    """S9, S10: no answer about log ends and committed offsets is "not known yet", never "empty, so done"."""
    kafka = own_broker()
    job = world(partitions=2, kafka=kafka)
    before = fill(job, 500)
    job.wait_drained()
    assert job.agent.stop() == 0
    kafka.pause()
    job.agent.start()
    wait_until(lambda: job.problems() and {each["state"] for each in job.processors()} == {"opening"}, LIMIT_S,
               "the tasks wait and say so")
    kafka.resume()
    job.wait_active()
    assert_exact(job, added(before, fill(job, 100, seed=2)))


# ---- crashes at chosen points


@pytest.mark.parametrize("point", ["commit_before", "commit_after", "checkpoint_before", "checkpoint_after"])
def test_restart_killed_between_transaction_and_checkpoint(broker, daemons, unique, loads, point):
    """S13: whatever was done last, the state equals a replay of what is committed."""
    coordinator = daemons.coordinator(agent_timeout=AGENT_TIMEOUT)
    job = Job(broker, coordinator, unique, 2).create()
    options = {"checkpoint_interval": "100ms", "hooks": True}
    agent = daemons.agent(coordinator, environment={"BATON_HOOK": f"{point}:6:kill"}, start=False, **options)
    load = loads(broker.bootstrap, job.input, keys=500, seed=41, rate=2_000)
    agent.start(ready=None)
    assert agent.wait_exit(LIMIT_S) == -9
    agent.environment.clear()
    agent.start()
    wait_until(lambda: load.sent_so_far > 8_000, LIMIT_S, "records come")
    assert_exact(job, load.stop())
