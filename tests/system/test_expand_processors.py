"""More processors: one is added at a time, its parent's other partitions go on, and every record counts once."""

import pytest

import splitting
from scene import Scene

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 8


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
    after = stage.coordinator.http.get(f"/v1/jobs/{stage.job.name}/map").json
    assert (after["processors"], after["version"]) == (8, before["version"] + 4), after
    assert {each["partition"]: each["processor"] for each in after["items"]} == {p: p for p in range(PARTITIONS)}
    stage.job.wait_active(8)
    now = stage.epochs()
    assert {n: now[n] for n in epochs} == epochs, "a parent does not stop"
    splits = stage.job.handoffs("done")
    assert [(each["kind"], each["parent"], each["processor"]) for each in sorted(splits, key=lambda each: each["id"])] == [
        ("split", n, n + 4) for n in range(4)
    ]
    assert set(stage.job.owners().values()) == {4}, "the agents have equally many"
    stage.wait_outputs(1000)
    stage.assert_exact()


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
