"""What people decide when a processor waits: a record that can not be processed is passed, offsets are chosen (S31, S45)."""

import pathlib

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

import draining
from jobs import Job
from oracle import TopicReader, read_commits
from plugins import PluginDir
from scene import Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 60
GRACE = "1h"  # nobody takes over but who is told to


def send(stage, *values):
    """Records of one key."""
    stage.broker.produce(stage.job.input, [(b"a", value, 0) for value in values])


def wait_values(stage, *wanted):
    """Exactly these outputs come."""
    reader = TopicReader(stage.broker.bootstrap, stage.job.output)
    seen = []

    def all_seen():
        seen.extend(int(each.value()) for each in reader.read(0.2))
        return len(seen) >= len(wanted)

    try:
        wait_until(all_seen, LIMIT_S, f"{len(wanted)} outputs come")
        seen.extend(int(each.value()) for each in reader.read(1))
    finally:
        reader.close()
    assert seen == list(wanted)


def skip(stage, offset, expect=201, **fields):
    body = {"topic": stage.job.input, "partition": 0, "offset": offset, **fields}
    return stage.coordinator.http.post(f"/v1/jobs/{stage.job.name}/skips", body, expect=expect).json


def skips(stage):
    return stage.coordinator.http.get(f"/v1/jobs/{stage.job.name}/skips").json["items"]


def choose(stage, action, expect=200, **fields):
    body = {"action": action, **fields}
    return stage.coordinator.http.post(f"/v1/jobs/{stage.job.name}/offsets", body, expect=expect).json


def reset_by_tool(stage, offset):
    """As kafka-consumer-groups.sh does it, without our metadata."""
    at = [TopicPartition(stage.job.input, 0, offset)]
    answer = stage.broker.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(stage.job.group, at)])
    answer[stage.job.group].result(LIMIT_S)


def commit_again(stage, offset, metadata):
    """As if it had been committed so last."""
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": stage.job.group})
    try:
        consumer.commit(offsets=[TopicPartition(stage.job.input, 0, offset, metadata=metadata)], asynchronous=False)
    finally:
        consumer.close()


def forget_offsets(stage):
    stage.broker.admin.delete_consumer_groups([stage.job.group])[stage.job.group].result(LIMIT_S)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


@pytest.fixture
def moody(scene, tmp_path):
    """A job of the plugin `moody`, and the files that make it fail or crash at a value "bad"."""

    def make(*files, **spec):
        plugins = PluginDir(tmp_path / "plugins")
        plugins.install_moody()
        at = {name: tmp_path / name for name in ("crash", "fail")}
        for name in files:
            at[name].touch()
        config = {name: str(path) for name, path in at.items()}
        stage = scene(partitions=1, logic={"kind": "plugin", "name": "moody", "version": "1", "config": config},
                      **{"rejoin_grace": GRACE, **spec})  # fmt: skip
        stage.options = {"plugin_dir": plugins.path}
        stage.files = at
        return stage

    return make


# ---- a record is passed


def test_restart_offsets_a_skipped_record_is_in_nobodys_state(moody):
    """Not in the owner's, nor a standby's, nor in what is rebuilt later, though the logic would take it by then."""
    stage = moody("fail", standbys=1)
    first, second = stage.agent(**stage.options), stage.agent(**stage.options)
    stage.job.wait_active()
    send(stage, b"1", b"bad", b"2")
    problem = stage.job.wait_problem("record_failed")
    assert "offset 1" in problem["detail"], problem
    [view] = stage.job.processors()
    assert view["halted"] == [{"topic": stage.job.input, "partition": 0, "offset": 1}], view
    refused = skip(stage, 0, expect=409)
    assert refused["code"] == "skip_refused" and "is in its state" in refused["detail"], refused
    assert "another record" in skip(stage, 2, expect=409)["detail"]
    made = skip(stage, 1, reason="ticket 4711")
    assert made["processor"] == 0 and made["reason"] == "ticket 4711" and made["actor"].startswith("api "), made
    stage.files["fail"].unlink()
    wait_values(stage, 1, 2)
    assert skip(stage, 1, expect=200, reason="again") == made
    assert skips(stage) == [made]
    [event] = stage.events("record_skipped")
    assert "ticket 4711" in event["detail"] and "offset 1" in event["detail"], event
    stage.job.wait("its owner has said so", lambda _: stage.job.processors()[0]["skipped_asked"] == 1)
    stage.coordinator.kill()
    stage.coordinator.start()
    assert skips(stage) == [made]
    stage.job.wait("its standby is ready", lambda status: status["standbys_ready"] == 1)
    owner = first if stage.job.processors()[0]["agent"] == first.name else second
    owner.kill()
    stage.job.wait("the other one is active", lambda _: stage.job.owners() and owner.name not in stage.job.owners())
    send(stage, b"3")
    wait_values(stage, 1, 2, 3)
    third = stage.agent(**stage.options)  # has nothing, and learns it all
    stage.wait_agent(third)
    assert stage.job.wait_operation(stage.move(third))["state"] == "succeeded"
    send(stage, b"4")
    wait_values(stage, 1, 2, 3, 4)


def test_restart_offsets_only_a_record_that_stops_a_processor_can_be_skipped(scene):
    stage = scene(partitions=1)
    stage.agent()
    stage.job.wait_active()
    assert "it is active" in skip(stage, 0, expect=409)["detail"]
    send(stage, b"x")
    stage.job.wait_drained()
    stage.job.wait("T1 is told", lambda _: stage.job.processors()[0]["partitions"][0]["t1"] == 1)
    assert "is in its state" in skip(stage, 0, expect=409)["detail"]
    path = f"/v1/jobs/{stage.job.name}/skips"
    other = {"topic": "other", "partition": 0, "offset": 0}
    assert "is no input" in stage.coordinator.http.post(path, other, expect=409).json["detail"]
    assert stage.coordinator.http.post("/v1/jobs/no-such/skips", other, expect=404).json["code"] == "job_not_found"
    assert skips(stage) == []


# ---- committed offsets are chosen


def work(stage, count):
    stage.job.wait_active()
    send(stage, *[b"x"] * count)
    stage.job.wait_drained()


def stop_and_reset(stage, agent, offset):
    """`offset` None: the offsets are gone."""
    if agent.running:
        assert agent.stop() == 0
    if offset is None:
        forget_offsets(stage)
    else:
        reset_by_tool(stage, offset)
    agent.start()
    stage.job.wait_problem("offsets_changed" if offset is not None else "offsets_expired")


@pytest.mark.parametrize("found", [40, 105, None], ids=["lower", "higher", "gone"])
def test_restart_offsets_are_restored(scene, found):
    stage = scene(partitions=1, rejoin_grace=GRACE)
    agent = stage.agent()
    work(stage, 100)
    assert agent.stop() == 0
    send(stage, *[b"x"] * 10)
    stop_and_reset(stage, agent, found)
    epoch = stage.epochs()[0]
    wanted = {"processor": 0, "topic": stage.job.input, "partition": 0, "found": found, "offset": 100, "t2": 100}
    tried = choose(stage, "restore", dry_run=True)
    assert tried == {"dry_run": True, "offsets": [wanted]}, tried
    assert stage.epochs()[0] == epoch
    assert choose(stage, "restore", processors=[0], reason="a mistake") == {"dry_run": False, "offsets": [wanted]}
    stage.job.wait_active()
    assert stage.epochs()[0] > epoch
    wait_values(stage, *range(1, 111))
    [event] = stage.events("offsets_restored")
    assert "a mistake" in event["detail"] and "100" in event["detail"], event
    stage.job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_restart_offsets_that_are_higher_are_accepted(scene):
    """What is before them is in the state, and is not put out."""
    stage = scene(partitions=1, rejoin_grace=GRACE)
    agent = stage.agent()
    work(stage, 100)
    assert agent.stop() == 0
    send(stage, *[b"x"] * 50)
    reset_by_tool(stage, 120)
    agent.start()
    stage.job.wait_problem("offsets_changed")
    choose(stage, "accept")
    stage.job.wait_active()
    wait_values(stage, *range(1, 101), *range(121, 151))
    assert stage.events("offsets_accepted")


def test_restart_offsets_that_are_lower_are_accepted(scene):
    """The state is rebuilt up to there, and what follows is put out again."""
    stage = scene(partitions=1, rejoin_grace=GRACE)
    agent = stage.agent()
    work(stage, 100)
    stop_and_reset(stage, agent, 40)
    choose(stage, "accept")
    stage.job.wait_active()
    wait_values(stage, *range(1, 101), *range(41, 101))
    stage.job.wait_drained()


def test_restart_offsets_that_are_set_again_after_the_choice_are_not_obeyed(scene):
    """A choice is about what was found; the owner dies before it could carry it out."""
    stage = scene(partitions=1, rejoin_grace=GRACE)
    agent = stage.agent()
    work(stage, 100)
    stop_and_reset(stage, agent, 40)
    agent.pause()
    choose(stage, "accept")
    agent.kill()
    reset_by_tool(stage, 60)
    stage.coordinator.kill()
    stage.coordinator.start()
    agent.start()
    stage.wait_agent(agent)
    stage.job.wait_problem("offsets_changed")
    [view] = choose(stage, "restore")["offsets"]
    assert view["found"] == 60 and view["offset"] == 100, view
    stage.job.wait_active()
    send(stage, b"x")
    wait_values(stage, *range(1, 102))


def test_restart_offsets_can_only_be_chosen_where_a_processor_waits(scene):
    stage = scene(partitions=1, rejoin_grace=GRACE)
    agent = stage.agent()
    work(stage, 10)
    assert "no processor" in choose(stage, "accept", expect=409)["detail"]
    assert "does not wait" in choose(stage, "restore", expect=409, processors=[0])["detail"]
    assert choose(stage, "restore", expect=404, processors=[1])["code"] == "processor_not_found"
    stop_and_reset(stage, agent, None)
    assert "restore it" in choose(stage, "accept", expect=409)["detail"]
    choose(stage, "restore")
    stage.job.wait_active()


# ---- states that are ahead


def test_restart_offsets_a_standby_that_is_ahead_of_what_is_committed_is_not_promoted_as_it_is(scene):
    """S28: a commit that was acknowledged is gone when its owner is lost, and the standby has followed it.

    Its state is given up: from the commit before on, each record counts on what was before it.
    """
    stage = scene(partitions=1, standbys=1, acceptable_lag=0, rejoin_grace=GRACE)
    agents = [stage.agent() for _ in range(2)]
    stage.job.wait_active()
    send(stage, *[b"x"] * 6)
    stage.job.wait_drained()
    before = read_commits(stage.broker.bootstrap, stage.job.group, LIMIT_S)[stage.job.input, 0][-1]
    send(stage, *[b"x"] * 4)
    stage.job.wait_drained()

    def has_followed(_):
        [view] = stage.job.processors()
        return view["partitions"][0]["t1"] == 10 and [each["lag_records"] for each in view["standbys"]] == [0]

    stage.job.wait("its standby has followed", has_followed)
    owner = stage.job.processors()[0]["agent"]
    stage.coordinator.pause()  # nobody is promoted before that is done
    next(each for each in agents if each.name == owner).kill()
    commit_again(stage, *before)
    stage.coordinator.resume()
    [heir] = [each for each in agents if each.name != owner]
    stage.job.wait("its standby is active", lambda _: stage.job.owners() == {heir.name: 1})
    send(stage, b"x")
    assert heir.wait_log("task_problem", LIMIT_S, problem="state_ahead")
    wait_values(stage, *range(1, 11), *range(7, 12))


# ---- records that can not be processed, again and again


def test_restart_offsets_a_record_that_crashes_the_agent_stops_its_processor_alone(moody, broker, unique):
    """Three crashes at one record are enough; the agent's other job goes on, and a skip lets this one go on as well."""
    stage = moody("crash")
    other = Job(broker, stage.coordinator, lambda kind: unique(f"other-{kind}"), partitions=1, rejoin_grace=GRACE).create()
    agent = stage.agent(**stage.options)
    stage.job.wait_active()
    other.wait_active()
    send(stage, b"1", b"bad", b"2")
    for crash in range(3):
        agent.wait_exit()
        if crash < 2:
            agent.start(ready=None)
    agent.start()
    problem = stage.job.wait_problem("logic_crashed")
    assert "offset 1" in problem["detail"] and problem["agent"] == agent.name, problem
    other.wait_active()
    broker.produce(other.input, [(b"a", b"x", 0)])
    other.wait_drained()
    [view] = stage.job.processors()
    assert view["halted"] == [{"topic": stage.job.input, "partition": 0, "offset": 1}], view
    skip(stage, 1)
    stage.job.wait_active()
    wait_values(stage, 1, 2)
    wait_until(lambda: count_crashes(stage, [agent]) == 0, LIMIT_S, "what was passed is forgotten")
    wait_until(lambda: "logic_crash_cleared" in [each["kind"] for each in events(stage)], LIMIT_S, "the coordinator hears of it")
    agent.kill()
    agent.start()
    stage.job.wait_active()
    send(stage, b"3")
    wait_values(stage, 1, 2, 3)
    stage.job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def events(stage):
    return stage.coordinator.http.get("/v1/events?last=100").json["items"]


def count_crashes(stage, agents):
    notes = [pathlib.Path(each.options["state_dir"]) / stage.job.name / "0.crashes" for each in agents]
    return sum(len(each.read_text().splitlines()) for each in notes if each.exists())


@pytest.mark.parametrize("back", ["next", "last"])
def test_restart_offsets_a_record_that_crashes_agents_ends_three_of_a_fleet_at_most(moody, broker, unique, back):
    """Each owner is lost of it before it is back, so another takes over, which counts what the others have met (S31).

    Who has crashed comes back when the next one has, or when the last one has.
    """
    stage = moody("crash", rejoin_grace="1s")
    agents = [stage.agent(**stage.options) for _ in range(3)]
    other = Job(broker, stage.coordinator, lambda kind: unique(f"other-{kind}"), partitions=3, rejoin_grace="1s").create()
    stage.job.wait_active()
    other.wait_active()
    send(stage, b"1", b"bad", b"2")
    crashed, waiting = [], []

    def next_one():
        return [each for each in agents if not each.running and each not in waiting]

    for _ in range(3):
        [victim] = wait_until(next_one, LIMIT_S, "the record ends its owner")
        victim.wait_exit()
        crashed.append(victim)
        if back == "next":
            for each in waiting:
                each.start()
            waiting = [victim]
        else:
            waiting.append(victim)
    for each in waiting:
        each.start()
        stage.wait_agent(each)
        problem = stage.job.wait_problem("logic_crashed")
        waiting = []
    assert "offset 1" in problem["detail"] and "skip" in problem["detail"], problem
    for each in crashed:
        assert each.name in problem["detail"], problem
    other.wait_active()
    broker.produce(other.input, [(b"a", b"x", partition) for partition in range(3)])
    other.wait_drained()
    [view] = stage.job.processors()
    assert view["halted"] == [{"topic": stage.job.input, "partition": 0, "offset": 1}], view
    assert count_crashes(stage, agents) == 3 and all(each.running for each in agents)
    skip(stage, 1)
    stage.job.wait_active()
    wait_values(stage, 1, 2)


def test_restart_offsets_a_record_that_has_crashed_one_agent_often_enough_ends_no_other(moody):
    """Its owner is asked to leave: whoever gets the processor stops where it stopped (S31)."""
    stage = moody("crash")
    agent, other = stage.agent(**stage.options), None
    stage.job.wait_active()
    send(stage, b"1", b"bad", b"2")
    for crash in range(3):
        agent.wait_exit()
        agent.start(ready=None if crash < 2 else "/readyz")
    stage.job.wait_problem("logic_crashed")
    other = stage.agent(**stage.options)
    stage.wait_agent(other)
    draining.ask(stage.coordinator, agent)  # without a deadline: it has stopped at the record, and says where
    draining.wait_for(stage.coordinator, agent, "drained")
    stage.job.wait("the other one has stopped there", lambda _: stage.job.processors()[0]["agent"] == other.name
                   and stage.job.processors()[0]["halted"])  # fmt: skip
    problem = stage.job.wait_problem("logic_crashed")
    assert problem["agent"] == other.name and f"{agent.name} 3" in problem["detail"], problem
    skip(stage, 1)
    stage.job.wait_active()
    wait_values(stage, 1, 2)
    assert other.running and count_crashes(stage, [agent, other]) == 3


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_restart_offsets_on_error_holds_in_replays(moody, broker, unique, policy):
    """Of an owner after kill -9, of who takes over from it, and of a learner: the same state, and each letter once."""
    dead = broker.create_topic(unique("dead"), 1)
    stage = moody("fail", on_error=policy, dead_letter_topic=dead if policy == "dead_letter" else None, standbys=1)
    agents = [stage.agent(**stage.options) for _ in range(2)]
    stage.job.wait_active()
    good = 0
    for turn in range(2):
        send(stage, b"x", b"bad", b"x", b"bad", b"x")
        good += 3
        wait_values(stage, *range(1, good + 1))
        stage.job.wait("its standby is ready", lambda status: status["standbys_ready"] == 1)
        [owner] = [each for each in agents if each.name == stage.job.processors()[0]["agent"]]
        owner.kill()
        if turn == 0:  # its standby takes over; what is told of the dead one at first is from before its death
            [other] = [each for each in agents if each is not owner]
            stage.job.wait("its standby is active", lambda _, wanted=other.name: stage.job.owners() == {wanted: 1})
        owner.start()  # the second one comes back itself, before anybody has missed it
        stage.wait_agent(owner)
        stage.job.wait("somebody is active", lambda _: sum(stage.job.owners().values()) == 1)
    send(stage, b"x")
    wait_values(stage, *range(1, good + 2))
    if policy == "dead_letter":
        letters = TopicReader(broker.bootstrap, dead)
        seen = []
        try:
            wait_until(lambda: seen.extend(letters.read()) or letters.at_end, LIMIT_S, "the letters are read")
        finally:
            letters.close()
        at = sorted(int(dict(each.headers())["baton-offset"]) for each in seen)
        assert at == sorted(5 * turn + bad for turn in range(2) for bad in (1, 3)), at


def test_restart_offsets_a_halted_processor_does_not_wander(moody):
    """S31: who takes it over is stopped by the same record, and keeps it; the others are left alone."""
    stage = moody("fail")
    first = stage.agent(**stage.options)
    stage.job.wait_active()
    send(stage, b"1", b"bad", b"2")
    stage.job.wait_problem("record_failed")
    second = stage.agent(**stage.options)
    stage.wait_agent(second)
    assert stage.job.wait_operation(stage.move(second))["state"] == "succeeded"

    def halted_there(_):
        [view] = stage.job.processors()
        return view["agent"] == second.name and view["halted"]

    stage.job.wait("it is halted where it was moved to", halted_there)
    assert [each["state"] for each in stage.job.handoffs()] == ["done"], stage.job.handoffs()
    stage.wait_agent(first, tasks=0)
    skip(stage, 1)
    wait_values(stage, 1, 2)
