"""The long runs of one agent at work: a million records, and twenty kills of each daemon."""

import random
import subprocess
import time

import pytest

from daemons import ROOT
from jobs import Job
from oracle import check_outputs
from waiting import wait_until

LIMIT_S = 300
PARTITIONS = 8
KEYS = 500_000


@pytest.fixture
def world(broker, daemons, unique):
    def make(**options):
        coordinator = daemons.coordinator(agent_timeout="2s")
        made = Job(broker, coordinator, unique, PARTITIONS)
        made.create()
        made.agent = daemons.agent(coordinator, **options)
        made.wait_active()
        return made

    return make


def outputs_so_far(job):
    return sum(job.broker.end_offsets(job.output).values())


def drain_seconds(broker, topic, total):
    """How long a bare consumer in C that does nothing takes for the same records."""
    answer = subprocess.run([ROOT / "build" / "tools" / "bare_consumer", broker.bootstrap, topic, str(PARTITIONS)],
                            capture_output=True, text=True, timeout=LIMIT_S, check=True)
    records, milliseconds = answer.stdout.split()
    assert int(records) == total
    return int(milliseconds) / 1000


@pytest.mark.timeout(900)
def test_process_a_million_records_soak(broker, daemons, unique, loads, figures):
    """1 M records waiting, 500 k keys, 8 processors on one agent, live load on top: exact, and how fast."""
    coordinator = daemons.coordinator()
    job = Job(broker, coordinator, unique, PARTITIONS)
    history = loads(broker.bootstrap, job.input, keys=KEYS, seed=1, total=1_000_000).wait(LIMIT_S)
    bare_s = drain_seconds(broker, job.input, 1_000_000)
    job.create()
    agent = daemons.agent(coordinator, start=False, checkpoint_interval="1s")
    agent.start()
    job.wait_active()
    began = time.monotonic()
    wait_until(lambda: sum(each["records"] for each in job.processors()) >= 1_000_000, LIMIT_S, "the history is processed")
    spent_s = time.monotonic() - began
    live = loads(broker.bootstrap, job.input, keys=KEYS, seed=2, rate=4_000)
    wait_until(lambda: live.sent_so_far >= 120_000, LIMIT_S, "live load")
    sent = history + live.stop()
    verdict = check_outputs(broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input])
    figures(records=sent.total, lost=verdict.lost, doubled=verdict.doubled, misordered=verdict.misordered,
            processed_per_s=round(1_000_000 / spent_s), bare_consumer_per_s=round(1_000_000 / bare_s),
            ratio=round(bare_s / spent_s, 3))
    verdict.assert_exact()


def kill_soak(job, loads, figures, victim, times, seed):
    chosen = random.Random(seed)
    load = loads(job.broker.bootstrap, job.input, keys=50_000, seed=seed, rate=4_000)
    for _ in range(times):
        seen, more = outputs_so_far(job), chosen.randrange(4_000)
        wait_until(lambda: outputs_so_far(job) > seen + more, LIMIT_S, "outputs go on")
        victim.kill()
        victim.start()
    sent = load.stop()
    verdict = check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input])
    figures(kills=times, records=sent.total, lost=verdict.lost, doubled=verdict.doubled, misordered=verdict.misordered)
    verdict.assert_exact()


@pytest.mark.timeout(900)
def test_restart_agent_killed_twenty_times_soak(world, loads, figures):
    job = world()
    kill_soak(job, loads, figures, job.agent, 20, seed=3)


@pytest.mark.timeout(900)
def test_restart_coordinator_killed_twenty_times_soak(world, loads, figures):
    job = world()
    kill_soak(job, loads, figures, job.coordinator, 20, seed=4)


@pytest.mark.timeout(900)
def test_restart_coordinator_away_for_a_minute_soak(world, loads, figures):
    job = world()
    load = loads(job.broker.bootstrap, job.input, keys=50_000, seed=5, rate=4_000)
    job.coordinator.kill()
    began, seen = time.monotonic(), outputs_so_far(job)
    wait_until(lambda: time.monotonic() - began >= 60, LIMIT_S, "a minute is over", poll_s=1)
    came = outputs_so_far(job) - seen
    job.coordinator.start()
    job.wait_active()
    sent = load.stop()
    verdict = check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input])
    figures(outputs_while_away=came, lost=verdict.lost, doubled=verdict.doubled)
    assert came > 60 * 4_000 * 0.9
    verdict.assert_exact()
