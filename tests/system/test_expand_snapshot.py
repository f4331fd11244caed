"""D8: a split whose history is gone gets its part of the parent's state, and no more of it."""

import pytest

from test_expand_state import keys_of, rows_of
from test_handoff_history import LIMIT_S, add_agent, make_job, operation
from test_handoff_snapshot import ManyKeys, seeded
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

RECORDS = 24_000  # each key twice
PROCESSOR_OF = {0: 0, 1: 1, 2: 2, 3: 1}  # of 3


def begin(broker, daemons, unique, first=None, second=None, **spec):
    """Two processors on agent-1, the first half of whose records is in no topic any more, and agent-2, which has none."""
    job = make_job(broker, daemons, unique, partitions=4, processors=2, seed="auto", **spec)
    job.create()
    job.first = add_agent(job, daemons, hooks=True, environment=hook(job, first))
    job.wait_active()
    sent = ManyKeys(job)
    sent.send(RECORDS)
    keys = rows_wanted(job, {0: 0, 1: 1, 2: 0, 3: 1})
    wait_until(lambda: rows_of(job) == keys, LIMIT_S, f"all rows are on disk: {keys}")
    ends = broker.end_offsets(job.input)
    for partition, end in ends.items():
        broker.delete_records(job.input, partition, end // 2)
    job.coordinator.http.put("/v1/maintenance", {"enabled": True, "reason": "nothing else moves"}, expect=200)
    job.second = add_agent(job, daemons, hooks=True, environment=hook(job, second))
    return job, sent


def rows_wanted(job, processor_of):
    """How many keys each processor has."""
    keys = {}
    for partition, count in keys_of(job).items():
        keys[processor_of[partition]] = keys.get(processor_of[partition], 0) + count
    return keys


def hook(job, point):
    return {"BATON_HOOK": f"{point.format(job=job.name)}:1:kill"} if point else None


def wait_killed(job, agent):
    wait_until(lambda: not agent.running, LIMIT_S, f"{agent.name} dies")
    assert agent.wait_exit() == -9 and agent.log_events("hook", whole=True, action="kill")


def finish(job, sent, times=1):
    """Every row is where its key is, and counts on from what it was."""
    keys = rows_wanted(job, PROCESSOR_OF)
    wait_until(lambda: rows_of(job) == keys, LIMIT_S, f"the rows are where their keys are: {keys}")
    came = [(each["source"], int(each["rows"])) for agent in (job.first, job.second) for each in seeded(agent)]
    assert came == [("agent-1", keys[2])] * times, "the rows of the child alone"
    sent.send(RECORDS)
    sent.assert_exact()


def test_expand_seeds_a_split_from_its_parent(broker, daemons, unique):
    job, sent = begin(broker, daemons, unique)
    assert operation(job, "expansions", {"processors": 3, "reason": "a test"})["state"] == "succeeded"
    assert job.owners() == {"agent-1": 2, "agent-2": 1}
    finish(job, sent)


@pytest.mark.parametrize("victim,point", [("first", "snapshot_serve_rows@{job}/0"), ("second", "snapshot_fetch_page@{job}/2")])
def test_expand_seeds_a_split_once_though_one_is_killed_midway(broker, daemons, unique, victim, point):
    """Whoever is the target after that: what has come before is of no use to it."""
    job, sent = begin(broker, daemons, unique, rejoin_grace="2m", **{victim: point})  # the owner is back before
    asked = job.expand(processors=3)
    agent = getattr(job, victim)
    wait_killed(job, agent)
    assert not seeded(job.second)
    agent.environment = {}
    agent.start()
    assert job.wait_operation(asked, LIMIT_S)["state"] == "succeeded"
    finish(job, sent)


def test_expand_seeds_another_target_after_the_release(broker, daemons, unique):
    """The first one and its disk are lost when the partitions have left already: the parent still has what they were."""
    job, sent = begin(broker, daemons, unique, second="phase@{job}/2/committed")
    asked = job.expand(processors=3)
    wait_killed(job, job.second)
    wait_until(lambda: len(job.processors()) == 3, LIMIT_S, "there are three")
    assert seeded(job.second)
    assert job.wait_operation(asked, LIMIT_S)["state"] == "succeeded"
    assert job.owners() == {"agent-1": 3}
    finish(job, sent, times=2)
