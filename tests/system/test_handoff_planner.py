"""Who gets which processors, and when: arrivals in a row, slots for learners, states on disks, agents that return."""

import os
from datetime import datetime

import pytest

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)

LIMIT_S = 180
AGENT_TIMEOUT = "4s"
KEYS = 2_000
RATE = 400
ENDED = ("done", "cancelled", "failed")
LEARNER_PHASES = ("learning_ms", "caught_up_ms", "releasing_ms")


def make_job(broker, coordinator, unique, word="job", processors=4, **spec):
    job = Job(broker, coordinator, lambda name: f"{word}-{unique(name)}", processors, **spec)
    return job.create()


def make_world(broker, daemons, unique, **spec):
    coordinator = daemons.coordinator(agent_timeout=AGENT_TIMEOUT)
    job = make_job(broker, coordinator, unique, rejoin_grace="2s", **spec)
    first = daemons.agent(coordinator, checkpoint_interval="100ms")
    job.wait_active()
    return job, first


def handoffs(job, **wanted):
    return [each for each in job.handoffs() if wanted.items() <= each.items()]


def operation(job, operation_id):
    return job.coordinator.http.get(f"/v1/operations/{operation_id}").json


def owned(job):
    """{agent: its active processors}."""
    found = {}
    for each in job.processors():
        if each["state"] == "active":
            found.setdefault(each["agent"], []).append(each["processor"])
    return found


def is_at_rest(job):
    return sum(map(len, owned(job).values())) == job.spec["processors"] and all(
        each["state"] in ENDED for each in handoffs(job)
    )


def wait_counts(job, wanted, limit_s=LIMIT_S):
    def reached():
        return is_at_rest(job) and {agent: len(items) for agent, items in owned(job).items()} == wanted

    wait_until(reached, limit_s, f"{job.name} is spread as {wanted}; it is {owned(job)}, {handoffs(job)}")


def wait_on_disk(job, processors):
    """Until their owners have checkpoints of them: what is not in one does not outlive its task."""

    def is_there():
        return all(each["state_rows"] > 0 for each in job.processors() if each["processor"] in processors)

    wait_until(is_there, LIMIT_S, f"there are checkpoints of {processors}")


def start_load(job, loads, seed):
    load = loads(job.broker.bootstrap, job.input, keys=KEYS, seed=seed, rate=RATE)
    wait_until(lambda: load.sent_so_far > RATE, LIMIT_S, "live load comes")
    return load


def assert_exact(job, sent):
    job.wait_drained()
    check_outputs(job.broker.bootstrap, job.output, sent.expected(), LIMIT_S, provenance_of=[job.input]).assert_exact()


def learner_intervals(items):
    """When each of them had a learner, by the coordinator's clock in ms."""
    for each in items:
        start = datetime.fromisoformat(each["started_at"].replace("Z", "+00:00")).timestamp() * 1000
        yield start, start + sum(each[phase] or 0 for phase in LEARNER_PHASES)


def test_handoff_five_agents_in_a_row_get_what_they_are_owed(broker, daemons, unique, loads, figures):
    """S22: one more agent a second, five times, over two jobs of eight: as many moves as are owed, an even end, and rest."""
    coordinator = daemons.coordinator(agent_timeout="10s")
    jobs = [make_job(broker, coordinator, unique, word, processors=8) for word in ("first", "second")]
    options = {"checkpoint_interval": "100ms", "max_learners": 4}
    daemons.agent(coordinator, **options)
    for job in jobs:
        job.wait_active()
    running = [start_load(job, loads, seed) for seed, job in enumerate(jobs)]
    for _ in range(5):
        sent = running[0].sent_so_far
        wait_until(lambda sent=sent: running[0].sent_so_far >= sent + RATE, LIMIT_S, "a second of load")
        daemons.agent(coordinator, **options)
    names = [f"agent-{number}" for number in range(1, 7)]

    def spread():
        """How many processors each agent has, of each job and in all."""
        seen = [owned(job) for job in jobs]
        each_job = [sorted(len(items.get(name, [])) for name in names) for items in seen]
        return each_job, sorted(sum(len(items.get(name, [])) for items in seen) for name in names)

    # Being at rest alone says nothing: what the last newcomer is owed may not have begun.
    even = ([[1, 1, 1, 1, 2, 2]] * 2, [2, 2, 3, 3, 3, 3])
    try:
        wait_until(lambda: spread() == even and all(map(is_at_rest, jobs)), LIMIT_S, f"the spread is {even}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{spread()}\n{[handoffs(job) for job in jobs]}") from None
    done = [each for job in jobs for each in handoffs(job, state="done")]
    figures(done=len(done), all=sum(len(handoffs(job)) for job in jobs))
    # 13 when nothing arrives before the last agent has come; else each newcomer gets a share of what is there then.
    assert 13 <= len(done) <= sum(16 // agents for agents in range(2, 7)), len(done)
    assert not [each for each in done if each["forced"]]
    before = [len(handoffs(job)) for job in jobs]
    sent = running[0].sent_so_far
    wait_until(lambda: running[0].sent_so_far >= sent + 5 * RATE, LIMIT_S, "five seconds of load")
    assert [len(handoffs(job)) for job in jobs] == before, "nothing moves when nothing has changed"
    for job, load in zip(jobs, running):
        assert_exact(job, load.stop())


@pytest.fixture
def gate(daemons):
    """A named pipe at which hooks hold tasks, and what opens it for good."""
    path, opened = daemons.directory / "hold", []
    os.mkfifo(path)
    yield path, lambda: opened.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    for each in opened:
        os.close(each)


def test_handoff_learners_wait_for_a_slot(broker, daemons, unique, loads, gate):
    """max_learners of an agent: one learns, the others say what they wait for, and all of them come in the end."""
    path, let_go = gate
    job, _ = make_world(broker, daemons, unique, processors=8)
    load = start_load(job, loads, 1)
    hold = {"BATON_HOOK": "warm:1:hold", "BATON_HOOK_FIFO": str(path)}
    second = daemons.agent(job.coordinator, hooks=True, environment=hold, max_learners=1, checkpoint_interval="100ms")
    try:
        second.wait_log("hook", limit_s=LIMIT_S, action="hold")
        (learning,) = handoffs(job)
        assert learning["state"] == "learning" and learning["target"] == second.name, learning

        def waiting():
            return [each for each in job.processors() if "waits for a learner slot" in (each["reason"] or "")]

        wait_until(lambda: len(waiting()) == 3, LIMIT_S, f"the other three wait: {job.processors()}")
        asked = {"processor": waiting()[0]["processor"], "agent": second.name}
        asked_id = job.coordinator.http.post(f"/v1/jobs/{job.name}/moves", asked).json["id"]
        assert "waits for a learner slot" in operation(job, asked_id)["error"]
    finally:
        let_go()
    wait_counts(job, {"agent-1": 4, "agent-2": 4})
    came = handoffs(job, state="done")
    assert len(came) == 4 and asked["processor"] in [each["processor"] for each in came], came
    intervals = sorted(learner_intervals(handoffs(job)))
    assert all(before[1] <= after[0] + 1 for before, after in zip(intervals, intervals[1:])), intervals
    assert operation(job, asked_id)["state"] == "succeeded"
    assert not [each for each in job.processors() if each["reason"]]
    assert_exact(job, load.stop())


def test_handoff_prefers_the_state_that_is_on_the_newcomers_disk(broker, daemons, unique, loads):
    """A killed agent whose processors were taken over comes back as a new start: it gets back those that it has."""
    job, _ = make_world(broker, daemons, unique, processors=8)
    load = start_load(job, loads, 2)
    second = daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_counts(job, {"agent-1": 4, "agent-2": 4})
    had = owned(job)["agent-2"]
    # Others learn some of the rest, so that the numbers alone would choose otherwise.
    third = daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_until(lambda: is_at_rest(job) and len(owned(job)) == 3, LIMIT_S, f"three share it: {owned(job)}")
    had = [each for each in had if each in owned(job)["agent-2"]]
    wait_on_disk(job, had)
    second.kill()
    third.stop()
    wait_counts(job, {"agent-1": 8})
    second.start()
    kept = second.log_events("kept_states")[-1]
    assert not second.log_events("kept_state_skipped")
    assert int(kept["count"]) >= len(had), kept
    wait_counts(job, {"agent-1": 4, "agent-2": 4})
    assert set(had) <= set(owned(job)["agent-2"]), (had, owned(job))
    assert_exact(job, load.stop())


def test_handoff_agent_that_returns_gets_its_share_back(broker, daemons, unique, loads):
    """S23: it stands still until others have taken over, then goes on: nothing is doubled, and it is used again."""
    job, _ = make_world(broker, daemons, unique, processors=4)
    load = start_load(job, loads, 3)
    second = daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_counts(job, {"agent-1": 2, "agent-2": 2})
    had = owned(job)["agent-2"]
    wait_on_disk(job, had)
    second.pause()
    wait_counts(job, {"agent-1": 4})
    assert len(handoffs(job, forced=True)) == 2
    second.resume()
    wait_counts(job, {"agent-1": 2, "agent-2": 2})
    assert owned(job)["agent-2"] == had, "those of which it has the state"
    assert len(handoffs(job, state="done")) == 6 and len(handoffs(job, forced=True)) == 2
    events = job.coordinator.http.get("/v1/events?limit=1000").json["items"]
    assert [each["agent"] for each in events if each["kind"] == "agent_returned"] == [second.name]
    assert_exact(job, load.stop())
