"""Agents that are frozen or cut off past the agent timeout while others take over, and then wake up: they change nothing.

The frozen one is always heard of again: it says FENCED where it tries to go on, closes what is no longer its own, and gets
processors again like any other agent.
"""

import pytest

from scene import LIMIT_S, Scene

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def hooked(point, count=1):
    """Stops itself at the point's count-th pass."""
    return {"hooks": True, "environment": {"BATON_HOOK": f"{point}:{count}:stop"}}


def at(point, stage, phase):
    """The point in processor 0 while its task is in that phase."""
    return f"{point}@{stage.job.name}/0/{phase}"


def said_fenced(agent):
    return agent.log_events("task_phase", phase="fenced")


def assert_undisturbed(stage, taken):
    """What the zombie did and said has changed nothing: epochs are what they were, but where it was given its share again."""
    epochs = stage.epochs()  # before the hand-overs: one that has changed an epoch is among those then
    back = [each for each in stage.job.handoffs() if each["target"] == "agent-1"]
    moved = {each["processor"] for each in back}
    assert {processor: epoch for processor, epoch in epochs.items() if processor not in moved} == {
        processor: epoch for processor, epoch in taken.items() if processor not in moved}  # fmt: skip
    assert len(moved) <= 1 and not any(each["forced"] for each in back), back
    assert not stage.events("processor_refenced")


def assert_rejoins(stage):
    """It learns its share like a newcomer and works."""
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1})
    stage.wait_outputs(200)


# ---- S25: the owner is frozen


@pytest.mark.parametrize("point", ["anywhere", "commit_before", "commit_after", "checkpoint_before"])
def test_failover_from_a_frozen_owner_that_thaws(scene, point):
    """Frozen between two transactions (anywhere), with one open, with one committed and not yet known, in a checkpoint."""
    stage = scene()
    first = stage.agent(**({} if point == "anywhere" else hooked(point, 12)))
    stage.job.wait_active()
    stage.load()
    if point == "anywhere":
        first.pause()
    first.wait_stopped(LIMIT_S)
    before = stage.epochs()
    stage.agent()
    stage.job.wait_owners({"agent-2": 2})
    taken = stage.epochs()
    assert all(taken[processor] > before[processor] for processor in before)
    stage.wait_outputs(500)
    first.resume()
    first.wait_log("task_phase", LIMIT_S, phase="fenced")
    stage.wait_agent(first, "alive")
    stage.wait_outputs(500)
    assert_undisturbed(stage, taken)
    # What it says of its old tasks, it says under the old epochs.
    assert {int(each["epoch"]) for each in said_fenced(first)} <= set(before.values())
    assert_rejoins(stage)
    stage.assert_exact()


@pytest.mark.parametrize("point, phase", [("commit_before", "release"), ("phase", "checkpoint")])
def test_failover_from_a_source_frozen_while_it_releases(scene, point, phase):
    """release: its last transaction is open. checkpoint: it is committed, and nobody was told that it has released."""
    stage = scene(partitions=1, commit_interval_ms=2_000)  # so that there is something to commit when it is told to stop
    first = stage.agent(**hooked(at(point, stage, phase)))
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.wait_agent(second, tasks=0)
    stage.move(second)
    first.wait_stopped(LIMIT_S)
    stage.job.wait_owners({"agent-2": 1})
    (handoff,) = stage.job.handoffs()
    assert handoff["state"] == "done" and handoff["releasing_ms"] is not None, handoff
    assert handoff["forced"], "the source was not waited for"
    taken = stage.epochs()
    stage.wait_outputs(200)
    first.resume()
    if phase == "release":
        first.wait_log("task_phase", LIMIT_S, phase="fenced")
    first.wait_log("task_phase", LIMIT_S, phase="closed")
    stage.wait_agent(first, "alive", tasks=0)
    stage.wait_outputs(200)
    assert stage.epochs() == taken, "its late release has changed nothing"
    stage.assert_exact()


def test_failover_from_a_frozen_owner_that_was_forgotten(scene):
    """Nobody waits for it: its processors are free at once. It wakes up unknown, registers again and gets its share."""
    stage = scene()
    first = stage.agent(**hooked("commit_before", 12))
    stage.job.wait_active()
    stage.load()
    first.wait_stopped(LIMIT_S)
    stage.agent()
    stage.wait_agent(first, "lost")
    stage.coordinator.http.delete(f"/v1/agents/{first.name}", expect=204)
    stage.job.wait_owners({"agent-2": 2})
    taken = stage.epochs()
    stage.wait_outputs(200)
    first.resume()
    first.wait_log("agent_unknown", LIMIT_S)
    first.wait_log("task_phase", LIMIT_S, phase="fenced")
    stage.wait_agent(first, "alive")
    assert_undisturbed(stage, taken)
    assert_rejoins(stage)
    stage.assert_exact()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_failover_from_a_frozen_owner_whose_job_was_created_anew(scene, delivery):
    """The new job has other transactional ids, so it does not shut the zombie out by itself: the deletion has to.

    Without transactions nothing can. The zombie's last commit lands, and must not keep the new owner out for good.
    """
    stage = scene(delivery=delivery)
    first = stage.agent(**hooked("commit_before", 12))
    stage.job.wait_active()
    stage.load()
    first.wait_stopped(LIMIT_S)
    stage.wait_agent(first, "lost")
    operation = stage.coordinator.http.delete(f"/v1/jobs/{stage.job.name}", expect=202).json["id"]
    assert stage.job.wait_operation(operation)["state"] == "succeeded"
    stage.agent()
    stage.job.put(expect=201, start="committed")
    stage.job.wait_owners({"agent-2": 2})
    stage.wait_outputs(200)
    first.resume()
    if delivery == "exactly_once":
        first.wait_log("task_phase", LIMIT_S, phase="fenced")
    for processor in range(2):
        first.wait_log("task_phase", LIMIT_S, phase="closed", processor=processor)
    stage.wait_outputs(500)
    stage.job.wait_active()
    if delivery == "exactly_once":
        stage.assert_exact()
    else:
        stage.assert_at_least_once()


# ---- S42: the target is frozen between its assignment and init_transactions


@pytest.mark.parametrize("source", ["lives", "dies", "dies_and_its_partitions_are_split"])
def test_failover_from_a_target_frozen_before_its_init_that_thaws(scene, proxy_to, source):
    """Its late init shuts the owner out, and must lead no further than to the metadata check: the owner comes back.

    It hears nothing from the coordinator meanwhile, so the check alone keeps it from going on. Where the source lives it has
    the processor again; where it dies a third agent takes it, and gives a partition of it to a new processor meanwhile.
    """
    split = source.endswith("split")
    stage = scene(partitions=2 if split else 1, processors=1)
    wire = proxy_to(stage.coordinator.http.port)
    first = stage.agent()
    stage.job.wait_active()
    stage.load()
    second = stage.agent(through=wire, **hooked(at("phase", stage, "producer")))
    stage.move(second)
    second.wait_stopped(LIMIT_S)
    wire.cut()
    # By its own word: it is missed, and others are told to take over, as soon as an agent timeout has passed.
    assigned = int(second.log_events("task_phase", processor=0, phase="producer")[-1]["epoch"])
    if source != "lives":
        first.kill()
    holder = first if source == "lives" else stage.agent()
    owner = holder.name
    stage.job.wait_owners({owner: 1})
    if split:
        assert stage.job.wait_operation(stage.expand(2))["state"] == "succeeded"
        stage.job.wait_owners({owner: 2})
    taken, *others = stage.epochs().values()
    assert taken > assigned
    stage.wait_outputs(200)
    second.resume()
    fenced = second.wait_log("task_phase", LIMIT_S, phase="fenced")
    assert int(fenced["epoch"]) == assigned and "stamp of a newer owner" in fenced["detail"]
    # An init that finds a transaction open shuts its producer out and is tried again by the client: it may strike twice.
    # Mostly the owner hears that it is fenced. Struck in the middle of a commit, it may get an error that its client does not
    # know: then it has its producer anew, and goes on under the epoch that it had.
    stage.job.wait("the owner was struck, and is active again",
                   lambda _: (stage.epochs()[0] > taken or holder.log_events("commit_failed", processor=0))
                   and stage.job.owners() == {owner: 1 + split}, LIMIT_S)
    assert list(stage.epochs().values())[1:] == others, "what was split away is not concerned"
    refenced = stage.events("processor_refenced")
    assert {each["agent"] for each in refenced} <= {owner}
    stage.wait_outputs(200)
    assert not second.log_events("task_phase", phase="active")
    wire.heal()
    stage.wait_agent(second, "alive", tasks=None if split else 0)  # a newcomer, where there are two
    stage.assert_exact()


# ---- S23: the owner is cut off from the coordinator and goes on against Kafka


def test_failover_from_an_owner_cut_off_from_the_coordinator(scene, proxy_to):
    stage = scene()
    wire = proxy_to(stage.coordinator.http.port)
    first = stage.agent(through=wire)
    stage.job.wait_active()
    stage.load()
    wire.cut()
    stage.wait_agent(first, "lost")
    stage.wait_outputs(500)  # it works on: nobody else is told to yet
    before = stage.epochs()
    stage.agent()
    stage.job.wait_owners({"agent-2": 2})
    taken = stage.epochs()
    assert all(taken[processor] > before[processor] for processor in before)
    for processor in range(2):
        first.wait_log("task_phase", LIMIT_S, phase="fenced", processor=processor)
    wire.heal()
    stage.wait_agent(first, "alive")
    stage.wait_outputs(500)
    assert_undisturbed(stage, taken)
    assert_rejoins(stage)
    stage.assert_exact()
