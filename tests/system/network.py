"""Jobs whose agent reaches the broker over a line that the test breaks, and what must hold of them afterwards."""

import time

import pytest
from confluent_kafka import KafkaException

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

LIMIT_S = 120
MEETINGS = 10
AGENT_TIMEOUT = "2s"


@pytest.fixture
def line(broker, daemons, unique):
    """line(...) makes a job whose agent reaches the broker through job.proxy only; the coordinator and the test do not."""
    used = []

    def make(partitions=2, agent=None, **spec):
        made = Job(broker, daemons.coordinator(agent_timeout=AGENT_TIMEOUT), unique, partitions, **spec).create()
        made.proxy = broker.proxy(0)
        used.append(made.proxy)
        options = {"checkpoint_interval": "100ms", **(agent or {})}
        made.agent = daemons.agent(made.coordinator, bootstrap=made.proxy.address, **options)
        made.wait_active()
        return made

    yield make
    for proxy in used:
        proxy.heal()

def outputs_so_far(job):
    return sum(job.broker.end_offsets(job.output).values())


def wait_outputs(job, count):
    seen = []

    def there():
        seen.append(outputs_so_far(job))
        return seen[-1] > seen[0] + count

    wait_until(there, LIMIT_S, f"{count} more outputs", ignoring=(OSError, KafkaException))


def wait_seconds(seconds):
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > seconds, seconds + 10, "time passes")


def check(job, sent):
    job.wait_drained(LIMIT_S)  # where outputs repeat, their number says nothing
    verdict = check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input])
    if job.spec.get("delivery") != "at_least_once":
        verdict.assert_exact()
        return
    # Outputs may come again, and then an older one after a newer one; each must be there and none may be wrong.
    assert not verdict.lost and not verdict.unexpected, str(verdict)


def assert_producers_given_up(job):
    """Every transaction whose end was not known leads to a new activation, never to a second try of the same producer."""

    def lines_of(processor):
        lines = [line for line in job.agent.log_text().splitlines() if f" processor={processor} " in line]
        return [line for line in lines if "event=commit_failed" in line or "phase=producer" in line]

    for processor in range(job.spec["processors"]):
        wait_until(lambda own=processor: "event=commit_failed" not in lines_of(own)[-1], LIMIT_S, f"{processor} begins anew")
        own = lines_of(processor)
        for failed, following in zip(own, own[1:]):
            if "event=commit_failed" in failed:
                assert "phase=producer" in following, (failed, following)


def cut_ten_times(job, load):
    for number in range(10):
        wait_outputs(job, 300)
        if number % 2:
            job.proxy.disconnect()
        else:
            job.proxy.cut()
            wait_seconds(number / 5)
            job.proxy.heal()
    check(job, load.stop())
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def hold_a_commit(job, load, direction, figures):
    """S26: requests or replies are held for longer than anyone waits, then delivered, late and all at once."""
    for _ in range(MEETINGS):
        wait_outputs(job, 500)
        began, seen = time.monotonic(), len(job.agent.log_events("task_problem"))
        job.proxy.hold(direction)
        # With nothing to be committed at that moment it is a look at what is committed that is met.
        wait_until(lambda: job.agent.log_events("commit_failed") or len(job.agent.log_events("task_problem")) > seen,
                   LIMIT_S, "something is given up")  # fmt: skip
        if job.agent.log_events("commit_failed"):
            break
        job.proxy.heal()
    assert job.agent.log_events("commit_failed"), f"no commit was met in {MEETINGS} times"
    figures(given_up_s=round(time.monotonic() - began, 1))
    job.proxy.heal()
    job.wait_active()
    assert_producers_given_up(job)
    check(job, load.stop())
