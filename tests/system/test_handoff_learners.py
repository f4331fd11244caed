"""Learners in hard places: several at once (S15), and a topic that is cut, made anew or taken away under them (S8)."""

import pytest

from scene import AGENT_TIMEOUT, LIMIT_S, RATE, Held, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

# Fetches of a few records with a pause after each make the learning slow enough to be met in its midst.
SLOW = {"kafka__fetch__message__max__bytes": "3000", "kafka__queued__min__messages": "50"}
HISTORY = 30_000


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def test_handoff_to_four_agents_that_join_together(scene):
    """Each learns its share from the one that has all; what is moved is what is owed, and the end is even."""
    stage = scene(partitions=10)
    stage.agent()
    stage.job.wait_active()
    stage.history(20_000)
    stage.load()
    # Nothing moves before all are there: else the first would be given more than its share, and would have to give some of it on.
    stage.maintenance(True)
    joining = [stage.agent(start=False) for _ in range(4)]
    for agent in joining:
        agent.start(ready=None)
    for agent in joining:
        stage.wait_agent(agent)
    stage.maintenance(False)
    stage.job.wait_owners({f"agent-{number}": 2 for number in range(1, 6)})
    done = stage.job.handoffs("done")
    assert len(done) == 8 and {each["source"] for each in done} == {"agent-1"}, done
    assert len({each["processor"] for each in done}) == 8
    stage.wait_outputs(500)
    stage.assert_exact()


def test_handoff_waits_for_a_disk_that_stalls(scene, daemons):
    """S20: a learner's checkpoint hangs. Its agent answers, stays alive and works on with what else it has; then all goes on."""
    stage = scene(partitions=2)
    stage.agent()
    stage.job.wait_active()
    stage.history(HISTORY)
    stage.load()
    stage.maintenance(True)
    # A cache that is full before the state is learned: what the disk does not take can not be read on.
    second = stage.agent(start=False, hooks=True, cache_bytes="64KiB")
    with Held(daemons, second, f"flush_before@{stage.job.name}/0") as hold:
        second.start()
        stage.move(second, 1)
        stage.job.wait_owners({"agent-1": 1, second.name: 1})
        stage.move(second, 0)
        hold.wait_struck()

        def done_meanwhile():
            return stage.job.processors()[1]["partitions"][0]["t1"]

        before = done_meanwhile()
        assert stage.job.processors()[1]["agent"] == second.name
        # Each partition gets half of the load, so this takes three times as long as an agent may be silent.
        more = 3 * int(AGENT_TIMEOUT.removesuffix("s")) * RATE // 2
        wait_until(lambda: done_meanwhile() >= before + more, LIMIT_S, "the agent's other task works on")
        assert second.http.get("/healthz").status == 200
        assert stage.job.handoffs("learning"), "nothing is taken over on a state that is not learned"
    stage.job.wait_owners({second.name: 2})
    assert not stage.events("agent_lost"), "it kept its lease"
    stage.wait_outputs(500)
    stage.assert_exact()


def cut(stage):
    """The topic is another one, and shorter than what was committed."""
    stage.broker.delete_topic(stage.job.input)
    stage.broker.create_topic(stage.job.input, 1)
    stage.broker.produce(stage.job.input, [(b"other", b"x")] * 100)


def take_away(stage):
    stage.broker.delete_topic(stage.job.input)


@pytest.mark.parametrize("strike", [cut, take_away], ids=["cut", "gone"])
def test_handoff_ends_when_the_topic_is_lost_under_the_learner(scene, daemons, strike):
    """A clear error, at once; the owner has its own problem, keeps the processor, and no hand-over follows."""
    stage = scene(partitions=1, acceptable_lag=0)
    stage.agent()
    stage.job.wait_active()
    stage.history(HISTORY)
    # As reported: a learner goes by the T1 that it is told, and an older one would soon be caught up with.
    stage.job.wait("all is committed", lambda _: stage.job.processors()[0]["partitions"][0]["t1"] == HISTORY, LIMIT_S)
    # Its first checkpoint is held, and it can not read on when its cache is full, which is soon.
    learner = stage.agent(start=False, hooks=True, cache_bytes="64KiB", **SLOW)
    with Held(daemons, learner, f"flush_before@{stage.job.name}/0") as hold:
        learner.start()
        stage.move(learner)
        hold.wait_struck()
        wait_until(lambda: 0 < (stage.wait_handoff("learning")["replay_records"] or 0) < HISTORY, LIMIT_S,
                   "some of it is learned")
        epoch = stage.epochs()[0]
        strike(stage)
    if strike is take_away:
        # It may pass (the topic is made again, a right is given back), so it is said at once and tried for some minutes.
        stuck = stage.wait_handoff("learning", stuck="topic_missing")
        assert "topic_missing" in stuck["waiting"], stuck
        stage.coordinator.http.delete(f"/v1/handoffs/{stuck['id']}", expect=200)
    ended = stage.wait_handoff("cancelled")
    assert strike is take_away or "topic_" in ended["error"], ended
    problem = wait_until(lambda: [each for each in stage.job.problems() if each["code"].startswith("topic_")
                                  and each["agent"] == "agent-1"], LIMIT_S, "the owner says so, too")[0]
    assert problem["severity"] == "critical" and problem["action"], problem
    assert stage.outputs() <= HISTORY + HISTORY // 100, "nothing was put out for the other contents"
    assert (stage.epochs()[0], stage.job.processors()[0]["agent"]) == (epoch, "agent-1")
    assert [each["state"] for each in stage.job.handoffs()] == ["cancelled"], stage.job.handoffs()
    if strike is cut:
        refused = stage.job.wait_operation(stage.move(learner))  # asking again does not help either
        assert refused["state"] == "failed" and "topic_" in refused["error"], refused
    assert stage.job.status()["processors_active"] == 0
