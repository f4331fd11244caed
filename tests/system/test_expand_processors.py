"""More processors: one is added at a time, its parent's other partitions go on, and every record counts once."""

import pytest

import doubling
import splitting
from expanding import linhash, murmur2
from oracle import check_outputs
from scene import Scene

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 8
LIMIT_S = 90


def test_expand_processors_under_load(broker, daemons, unique, loads):
    """Four become eight, on two agents; the parents go on with what they keep, under the epoch that they had."""
    stage = Scene(broker, daemons, unique, loads, partitions=PARTITIONS, processors=4, agents=2)
    stage.load()
    epochs = stage.epochs()
    before = stage.coordinator.http.get(f"/v1/jobs/{stage.job.name}/map").json
    plan = stage.coordinator.http.post(
        f"/v1/jobs/{stage.job.name}/expansions", {"processors": 8, "dry_run": True}, expect=200
    ).json
    assert [(each["kind"], each["processor"]) for each in plan["moves"]] == [("split", n) for n in range(4, 8)], plan
    assert stage.coordinator.http.get(f"/v1/jobs/{stage.job.name}/map").json == before, "nothing was done"

    operation = stage.job.wait_operation(stage.expand(8))
    assert operation["state"] == "succeeded", operation
    stage.job.wait_active(8)
    after = stage.coordinator.http.get(f"/v1/jobs/{stage.job.name}/map").json
    assert (after["processors"], after["version"]) == (8, before["version"] + 4), after
    assert {each["partition"]: each["processor"] for each in after["items"]} == {p: p for p in range(PARTITIONS)}
    now = stage.epochs()
    assert {n: now[n] for n in epochs} == epochs, "a parent does not stop"
    splits = stage.job.handoffs("done")
    assert [(each["kind"], each["parent"], each["processor"]) for each in sorted(splits, key=lambda each: each["id"])] == [
        ("split", n, n + 4) for n in range(4)
    ]
    assert set(stage.job.owners().values()) == {4}, "the agents have equally many"
    stage.wait_outputs(1000)
    stage.assert_exact()


def test_expand_processors_of_topics_that_have_grown(broker, daemons, unique, loads):
    """Partitions, processors, and both once more: the last ones have records in two ancestors that others own."""

    def look(stage, count):
        if count < 8:
            return
        last = stage.job.processors()[-1]
        bounds = {each["partition"]: each for each in last["partitions"] if not each["owned"]}
        assert last["owned"] == [7] and sorted(bounds) == [1, 3], last
        assert all(0 < each["t2"] == each["t1"] for each in bounds.values()), bounds

    doubling.run(broker, daemons, unique, loads, initial=2, doublings=2, after=look)


def test_expand_keys_that_have_left_are_not_taken_by_their_parent(broker, daemons, unique, loads):
    """A producer that has known two partitions for longer than `settle` writes a key where it is no more."""
    spec = {"settle": "1s", "partitioner": "murmur2", "on_error": "skip"}
    stage = Scene(broker, daemons, unique, loads, partitions=2, processors=2, agents=2, **spec)
    key = next(key for key in (b"late-%d" % n for n in range(1000)) if linhash(murmur2(key), 2, 4) == 2)
    broker.produce(stage.job.input, [(key, b"1", 0)])
    doubling.grow(stage.job, partitions=4)
    doubling.grow(stage.job, processors=3)
    stage.job.wait_active(3)
    broker.produce(stage.job.input, [(key, b"2", 2)])
    stage.job.wait_drained()
    broker.produce(stage.job.input, [(key, b"3", 0)])
    stage.job.wait("it is passed", lambda _: stage.job.processors()[0]["skipped_error"] == 1, LIMIT_S)
    broker.produce(stage.job.input, [(key, b"4", 2)])
    stage.job.wait_drained()
    check_outputs(broker.bootstrap, stage.job.output, {key: 3}, LIMIT_S).assert_exact()


def test_expand_auto_gives_each_newcomer_work(broker, daemons, unique, loads):
    stage = Scene(broker, daemons, unique, loads, partitions=3, processors=1, agents=1, auto_expand=True)
    stage.load()
    stage.agent()
    stage.agent()
    stage.job.wait_owners({"agent-1": 1, "agent-2": 1, "agent-3": 1})
    stage.wait_outputs(1000)
    stage.assert_exact()


@pytest.mark.parametrize("case", splitting.CASES, ids=splitting.name_of)
def test_expand_survives_kill(broker, daemons, unique, loads, case):
    splitting.run(case, broker, daemons, unique, loads)


@pytest.mark.parametrize("case", splitting.CASES, ids=splitting.name_of)
def test_expand_survives_kill_where_topics_have_grown(broker, daemons, unique, loads, case):
    splitting.run(case, broker, daemons, unique, loads, grown=True)
