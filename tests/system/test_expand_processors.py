"""More processors: one is added at a time, its parent's other partitions go on, and every record counts once."""

import pytest

from scene import LIMIT_S, Scene
from waiting import wait_until

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


# Who dies, and where: the split is of processor 2, out of processor 0.
KILLS = [
    ("source", "split@{job}/0/active"),  # the partitions have gone, and only Kafka knows
    ("target", "phase@{job}/2/committed"),  # it has shut older producers out
    ("coordinator", "handoff_after_commit@{job}/2/releasing"),  # the epoch is handed out, the source is not told
    ("coordinator", "handoff_before_commit@{job}/2/released"),  # the map has not grown yet
]


@pytest.mark.parametrize("victim, point", KILLS, ids=[f"{who}-{point.split('@')[0]}" for who, point in KILLS])
def test_expand_survives_kill(broker, daemons, unique, loads, victim, point):
    stage = Scene(broker, daemons, unique, loads, partitions=4, processors=2, coordinator={"hooks": True})
    hook = {"BATON_HOOK": f"{point.format(job=stage.job.name)}:1:kill"}
    source = stage.agent(start=False, hooks=True)
    source.environment |= hook if victim == "source" else {}
    source.start()
    stage.job.wait_active()
    target = stage.agent(start=False, hooks=True, max_learners=1)
    target.environment |= hook if victim == "target" else {}
    stage.maintenance(True)  # nothing else moves
    target.start()
    if victim == "coordinator":
        stage.coordinator.environment |= hook
        stage.coordinator.restart()
    stage.load()
    operation = stage.expand(3)
    struck = {"source": source, "target": target, "coordinator": stage.coordinator}[victim]
    wait_until(lambda: not struck.running, LIMIT_S, f"{victim} is struck at {point}")
    assert struck.wait_exit() == -9 and struck.log_events("hook", action="kill")
    struck.environment.pop("BATON_HOOK")
    struck.start()
    assert stage.job.wait_operation(operation)["state"] == "succeeded"
    stage.job.wait_active(3)
    stage.wait_outputs(500)
    stage.assert_exact()
