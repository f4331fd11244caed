"""The line between agent and broker fails in every way, and the broker hangs: nothing is lost or doubled, nothing waits.

What takes long for at_least_once is in tests/soak.
"""

import time

import pytest

from jobs import Job
from network import (  # noqa: F401  pytest finds the fixture by its name here
    AGENT_TIMEOUT,
    check,
    cut_ten_times,
    hold_a_commit,
    line,
    wait_outputs,
    wait_seconds,
)
from proxy import DOWN, UP

pytestmark = pytest.mark.timeout(300)

GIVEN_UP_S = 10  # KAFKA_TIMEOUT_MS and socket.timeout.ms of the agent


def test_restart_after_ten_cuts_of_the_line(line, loads):
    job = line(partitions=4)
    cut_ten_times(job, loads(job.broker.bootstrap, job.input, keys=1_000, seed=61, rate=2_000))


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_restart_after_transactions_whose_end_is_not_known(line, loads, direction, figures):
    job = line()
    hold_a_commit(job, loads(job.broker.bootstrap, job.input, keys=500, seed=62, rate=1_000), direction, figures)


def test_restart_nothing_for_delayed_replies(line, loads):
    """S26: every reply comes half a second late, those to the ends of transactions too: slow, and nothing else."""
    job = line()
    load = loads(job.broker.bootstrap, job.input, keys=500, seed=63, rate=500)
    wait_outputs(job, 200)
    job.proxy.delay(0.5, DOWN)
    wait_outputs(job, 2_000)
    job.proxy.heal()
    check(job, load.stop())
    assert not job.agent.log_events("commit_failed")
    assert len(job.agent.log_events("task_phase", phase="active")) == 2, "once for each processor"


def test_restart_after_the_broker_has_aborted_the_transaction(line, loads):
    """The agent stands still for longer than its transaction may last: it finds itself fenced, or its own client gives the
    messages up first; in both cases it begins anew."""
    job = line(partitions=1, agent={"kafka__transaction__timeout__ms": "3000", "kafka__socket__timeout__ms": "2000"})
    load = loads(job.broker.bootstrap, job.input, keys=100, seed=64, rate=1_000)
    wait_outputs(job, 1_000)
    epoch, begun_anew = job.processors()[0]["epoch"], []
    for _ in range(5):  # it may stand still in the moment between two transactions
        job.agent.pause()
        wait_seconds(6)  # the broker looks for such transactions every second
        job.agent.resume()
        wait_outputs(job, 1_000)
        begun_anew = job.agent.log_events("task_phase", phase="active")[1:]
        if begun_anew:
            break
    assert begun_anew
    if job.agent.log_events("task_phase", phase="fenced"):
        job.wait("has a higher epoch", lambda _: job.processors()[0]["epoch"] > epoch)
    check(job, load.stop())


@pytest.mark.timeout(600)
def test_restart_while_the_broker_hangs(own_broker, daemons, unique, loads, figures):
    """Each job in the midst of a commit that nobody answers: an orderly stop takes what one call may take, not one after
    the other."""
    # It must not take itself for dead meanwhile: it would leave out abort markers then (docs/design.md D9).
    broker = own_broker(properties={"broker.session.timeout.ms": "120000"})
    coordinator = daemons.coordinator(bootstrap=broker.bootstrap, agent_timeout=AGENT_TIMEOUT)
    names = {each: (lambda word, each=each: unique(f"{word}-{each[:5]}")) for each in ("exactly_once", "at_least_once")}
    jobs = [Job(broker, coordinator, names[each], 2, delivery=each).create() for each in names]
    agent = daemons.agent(coordinator, bootstrap=broker.bootstrap, checkpoint_interval="100ms")
    sent = [loads(broker.bootstrap, job.input, keys=500, seed=65, rate=300) for job in jobs]
    for job in jobs:
        job.wait_active()
        wait_outputs(job, 500)
    broker.pause()
    wait_seconds(1.5)  # the look at the committed offsets, once a second, hangs as well
    began = time.monotonic()
    code = agent.stop()
    figures(stop_s=round(time.monotonic() - began, 1))
    assert code == 0 and time.monotonic() - began < GIVEN_UP_S + 5
    broker.resume()
    agent.start()
    for job in jobs:
        wait_outputs(job, 300)
    for job, load in zip(jobs, sent):
        check(job, load.stop())
        job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_restart_says_that_the_broker_is_away(line):
    job = line(partitions=1)
    job.broker.produce(job.input, [(b"a", b"x")])
    job.wait_drained()
    job.proxy.cut()
    job.wait_problem("kafka_unreachable", limit_s=30)
    # The ends that were told before the cut do not make a lag of 0 for ever.
    job.wait("the lag is unknown", lambda status: status["lag_records"] is None and status["lag_records_max"] is None, limit_s=40)
    assert [each["partitions"][0]["end"] for each in job.processors()] == [None]
    job.proxy.heal()
    job.wait("it is back", lambda status: status["problems"] == 0 and status["lag_records"] == 0, limit_s=30)
    job.broker.produce(job.input, [(b"a", b"x")])
    check(job, {b"a": 2})
