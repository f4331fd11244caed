"""Processors go from one agent to another while the job runs: nothing is lost, doubled or out of order."""

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

LIMIT_S = 120
AGENT_TIMEOUT = "2s"
KEYS = 5_000
RATE = 2_000


def handoffs_running(job):
    return job.status()["handoffs_running"]


def make_job(broker, daemons, unique, partitions=8, **spec):
    coordinator = daemons.coordinator(agent_timeout=AGENT_TIMEOUT)
    job = Job(broker, coordinator, unique, partitions, **spec)
    job.create()
    job.first = daemons.agent(coordinator, checkpoint_interval="100ms")
    job.wait_active()
    return job


def assert_exact(job, sent):
    check_outputs(job.broker.bootstrap, job.output, sent.expected(), LIMIT_S, provenance_of=[job.input]).assert_exact()


def test_handoff_newcomer_learns_and_takes_its_share(broker, daemons, unique, loads, figures):
    job = make_job(broker, daemons, unique)
    history = loads(broker.bootstrap, job.input, keys=KEYS, seed=1, total=50_000).wait(LIMIT_S)
    job.wait_drained()
    load = loads(broker.bootstrap, job.input, keys=KEYS, seed=2, rate=RATE)
    wait_until(lambda: load.sent_so_far > RATE // 2, LIMIT_S, "live load comes")
    daemons.agent(job.coordinator, checkpoint_interval="100ms")
    job.wait_owners({"agent-1": 4, "agent-2": 4}, LIMIT_S)
    done = job.handoffs("done")
    assert len(done) == 4 and len(job.handoffs()) == 4, job.handoffs()
    assert all(each["source"] == "agent-1" and each["target"] == "agent-2" and not each["forced"] for each in done)
    daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_until(lambda: sorted(job.owners().values()) == [2, 3, 3] and not handoffs_running(job), LIMIT_S, "three share it")
    phases = ("learning_ms", "releasing_ms", "released_ms", "activating_ms", "output_gap_ms")
    figures(**{phase: sorted(each[phase] for each in job.handoffs("done")) for phase in phases})
    sent = load.stop()
    job.wait_drained()
    assert_exact(job, history + sent)


def test_failover_when_the_grace_of_a_killed_agent_is_over(broker, daemons, unique, loads):
    job = make_job(broker, daemons, unique, partitions=4, rejoin_grace="2s")
    second = daemons.agent(job.coordinator, checkpoint_interval="100ms")
    job.wait_owners({"agent-1": 2, "agent-2": 2}, LIMIT_S)
    load = loads(broker.bootstrap, job.input, keys=KEYS, seed=3, rate=RATE)
    wait_until(lambda: load.sent_so_far > RATE, LIMIT_S, "live load comes")
    job.first.kill()
    job.wait_owners({"agent-2": 4}, LIMIT_S)
    assert len([each for each in job.handoffs("done") if each["forced"]]) == 2
    sent = load.stop()
    job.wait_drained()
    assert_exact(job, sent)
    assert second.running
