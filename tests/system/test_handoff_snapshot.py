"""S39, D8: a state that the topics can not rebuild any more comes from another copy, whole or not at all."""

import process
import pytest
from proxy import DOWN, TcpProxy
from test_handoff_history import LIMIT_S, Counted, add_agent, cut, make_job, start_job
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)


class NewKeys(Counted):
    """Each record has a key of its own: when all is in a checkpoint there are as many rows as records."""

    def write(self, records, value="x"):
        known = len(self.counts)
        batch = [(f"key-{known + number}", value) for number in range(records)]
        self.job.broker.produce(self.job.input, batch)
        self.counts |= {key.encode(): 1 for key, _ in batch}

    def cut(self, before_offset):
        """A copy of the last checkpoint is to be of use: one from before the cut would be thrown away, and asked for again."""
        self.job.wait_drained()
        self.wait_rows(len(self.counts))
        cut(self.job, before_offset)


def lose_history(job, daemons, records=400):
    """A job of two processors on agent-1, whose first records are in no topic any more."""
    start_job(job, daemons)
    sent = NewKeys(job)
    sent.send(records)
    sent.cut(50)
    return sent


def seeded(agent):
    return agent.log_events("seeded", whole=True)


def test_handoff_snapshot_lets_an_agent_join_and_leave_when_history_is_gone(broker, daemons, unique):
    job = make_job(broker, daemons, unique, seed="auto")
    sent = lose_history(job, daemons)
    second = add_agent(job, daemons)
    sent.write(100)
    job.wait_owners({"agent-1": 1, "agent-2": 1}, LIMIT_S)
    assert [each["source"] for each in seeded(second)] == ["agent-1"]
    sent.send(200)
    # The other one comes as well, by a drain.
    sent.cut(250)
    job.coordinator.http.put("/v1/agents/agent-1/drain", {}, expect=202)
    job.wait_owners({"agent-2": 2}, LIMIT_S)
    sent.send(100)
    sent.assert_exact()
    assert {each["code"] for each in job.problems()} <= {"retention_risk"}


class ManyKeys(Counted):
    """So many rows that a snapshot has several pages."""

    def write(self, records, value="x"):
        batch = [(f"key-{number % 12_000}", value) for number in range(records)]
        self.job.broker.produce(self.job.input, batch)
        for key, _ in batch:
            self.counts[key.encode()] = self.counts.get(key.encode(), 0) + 1


def begin(broker, daemons, unique, first=None, second=None, **options):
    """A job of one processor on agent-1 whose history is gone, and agent-2, which shall have it."""
    job = make_job(broker, daemons, unique, partitions=1, seed="auto")
    job.create()
    job.first = add_agent(job, daemons, hooks=True, environment=first, **options)
    job.wait_active()
    sent = ManyKeys(job)
    sent.send(24_000)
    sent.wait_rows(12_000)  # of which a copy is asked for: it is to go on behind the cut
    cut(job, 12_000)
    job.second = add_agent(job, daemons, hooks=True, environment=second)
    return job, sent


def ask(job):
    """To move it, until that was done: what is under way when somebody dies may come to nothing."""
    if job.owners() == {"agent-2": 1}:
        return True
    if job.status()["handoffs_running"] == 0 and job.owners() == {"agent-1": 1}:
        job.coordinator.http.post(f"/v1/jobs/{job.name}/moves", {"processor": 0, "agent": "agent-2"}, expect=(202, 409))
    return False


def finish(job, sent):
    wait_until(lambda: ask(job), LIMIT_S, "agent-2 has it")
    sent.send(100)
    sent.assert_exact()
    assert [each["source"] for each in seeded(job.second)] == ["agent-1"]


def wait_killed(job, agent, name):
    wait_until(lambda: ask(job) or not agent.running, LIMIT_S, f"{agent.name} dies")
    agent.wait_exit()
    assert agent.log_events("hook", whole=True, name=name) and not seeded(job.second)
    agent.environment = {}
    agent.start()


def test_handoff_snapshot_receiver_killed_midway(broker, daemons, unique):
    """What has come is of no use and in nobody's way: it begins anew."""
    job, sent = begin(broker, daemons, unique, second={"BATON_HOOK": "snapshot_fetch_page:3:kill"})
    wait_killed(job, job.second, "snapshot_fetch_page")
    finish(job, sent)


def test_handoff_snapshot_sender_killed_midway(broker, daemons, unique):
    """The owner dies while it sends: nothing short is served, and it is asked again when it is back."""
    job, sent = begin(broker, daemons, unique, first={"BATON_HOOK": "snapshot_serve_rows:2:kill"})
    wait_killed(job, job.first, "snapshot_serve_rows")
    finish(job, sent)


def test_handoff_snapshot_damaged_on_the_way(broker, daemons, unique):
    """A bit flips in the midst of two transfers: both are thrown away, and the third one is whole."""
    port = process.free_port()
    proxy = TcpProxy(port)
    try:
        proxy.flip(DOWN, 100_000, 600_000)
        job, sent = begin(broker, daemons, unique, listen=f"127.0.0.1:{port}", advertise=proxy.address)
        finish(job, sent)
        assert proxy.directions[DOWN].flips == [], "both have happened"
    finally:
        proxy.close()
