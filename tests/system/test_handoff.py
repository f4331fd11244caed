"""Processors go from one agent to another while the job runs: nothing is lost, doubled or out of order."""

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

LIMIT_S = 120
AGENT_TIMEOUT = "2s"
KEYS = 5_000
RATE = 2_000


def handoffs(job, state=None):
    query = f"?job={job.name}&limit=1000" + (f"&state={state}" if state else "")
    return job.coordinator.http.get(f"/v1/handoffs{query}").json["items"]


def owners(job):
    """{agent: how many active processors it has}."""
    counts = {}
    for each in job.processors():
        if each["state"] == "active":
            counts[each["agent"]] = counts.get(each["agent"], 0) + 1
    return counts


def wait_owners(job, wanted, limit_s=LIMIT_S):
    wait_until(lambda: owners(job) == wanted and not handoffs_running(job), limit_s,
               f"{job.name}: owners are {wanted}; they are {owners(job)}; hand-overs: {handoffs(job)}")


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
    history = loads(broker.bootstrap, job.input, keys=KEYS, seed=1, total=50_000).wait(60)
    job.wait_drained()
    load = loads(broker.bootstrap, job.input, keys=KEYS, seed=2, rate=RATE)
    wait_until(lambda: load.sent_so_far > RATE // 2, LIMIT_S, "live load comes")
    daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_owners(job, {"agent-1": 4, "agent-2": 4})
    done = handoffs(job, "done")
    assert len(done) == 4 and len(handoffs(job)) == 4, handoffs(job)
    assert all(each["source"] == "agent-1" and each["target"] == "agent-2" and not each["forced"] for each in done)
    daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_until(lambda: sorted(owners(job).values()) == [2, 3, 3] and not handoffs_running(job), LIMIT_S, "three share it")
    phases = ("learning_ms", "releasing_ms", "released_ms", "activating_ms", "output_gap_ms")
    figures(**{phase: sorted(each[phase] for each in handoffs(job, "done")) for phase in phases})
    sent = load.stop()
    job.wait_drained()
    assert_exact(job, history + sent)


def test_failover_when_the_grace_of_a_killed_agent_is_over(broker, daemons, unique, loads):
    job = make_job(broker, daemons, unique, partitions=4, rejoin_grace="2s")
    second = daemons.agent(job.coordinator, checkpoint_interval="100ms")
    wait_owners(job, {"agent-1": 2, "agent-2": 2})
    load = loads(broker.bootstrap, job.input, keys=KEYS, seed=3, rate=RATE)
    wait_until(lambda: load.sent_so_far > RATE, LIMIT_S, "live load comes")
    job.first.kill()
    wait_owners(job, {"agent-2": 4})
    assert len([each for each in handoffs(job, "done") if each["forced"]]) == 2
    sent = load.stop()
    job.wait_drained()
    assert_exact(job, sent)
    assert second.running
