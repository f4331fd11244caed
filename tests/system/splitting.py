"""Who dies in a split, and where: processor 2 is split off processor 0, from one agent to the other, under load.

Of a job whose partitions have grown it inherits what partition 0 held of its keys.
"""

import http.client

from scene import LIMIT_S, Scene
from waiting import wait_until

CASES = [
    ("source", "split@{job}/0/active"),  # the partitions have gone, and only Kafka knows
    ("target", "phase@{job}/2/committed"),  # it has shut older producers out
    ("coordinator", "handoff_after_commit@{job}/2/releasing"),  # the epoch is handed out, the source is not told
    ("coordinator", "handoff_before_commit@{job}/2/released"),  # the map has not grown yet
]
# In the long runs only.
MORE_CASES = [
    ("target", "phase@{job}/2/learn"),
    ("target", "warm@{job}/2/learn"),
    ("target", "phase@{job}/2/producer"),
    ("target", "phase@{job}/2/stamp"),
    ("target", "commit_before@{job}/2/stamp"),
    ("target", "commit_after@{job}/2/stamp"),
    ("target", "phase@{job}/2/active"),
    ("coordinator", "handoff_before_commit@{job}/2/learning"),
    ("coordinator", "handoff_after_commit@{job}/2/learning"),
    ("coordinator", "handoff_before_commit@{job}/2/releasing"),
    ("coordinator", "handoff_after_commit@{job}/2/released"),
    ("coordinator", "handoff_before_commit@{job}/2/done"),
    ("coordinator", "handoff_after_commit@{job}/2/done"),
]


def name_of(case):
    victim, point = case
    kind, where = point.split("@")
    return f"{victim}-{kind}-{where.rsplit('/', 1)[1]}"


def ask(stage):
    """The operation's id; None: the coordinator died of it before it answered."""
    try:
        return stage.expand(3)
    except (OSError, http.client.HTTPException):
        return None


def find_or_ask(stage):
    """What was asked for and is durable goes on by itself; what is not is asked for again, as its user would."""
    found = stage.coordinator.http.get("/v1/operations").json["items"]
    mine = [each["id"] for each in found if each["job"] == stage.job.name and each["kind"] == "expand_processors"]
    return mine[-1] if mine else stage.expand(3)


GROWN = {"partitions": 2, "settle": "1s", "partitioner": "murmur2"}


def grow(stage):
    """Before the load comes, which then knows all partitions."""
    stage.history(2000)
    assert stage.job.wait_operation(stage.job.expand(partitions=4))["state"] == "succeeded"


def run(case, broker, daemons, unique, loads, rate=None, grown=False, **spec):
    victim, point = case
    spec = {"partitions": 4} | (GROWN if grown else {}) | spec
    stage = Scene(broker, daemons, unique, loads, processors=2, coordinator={"hooks": True}, **spec)
    hook = {"BATON_HOOK": f"{point.format(job=stage.job.name)}:1:kill"}
    source = stage.agent(start=False, hooks=True)
    source.environment |= hook if victim == "source" else {}
    source.start()
    stage.job.wait_active()
    if grown:
        grow(stage)
    target = stage.agent(start=False, hooks=True, max_learners=1)
    target.environment |= hook if victim == "target" else {}
    stage.maintenance(True)  # nothing else moves
    target.start()
    if victim == "coordinator":
        stage.coordinator.environment |= hook
        stage.coordinator.restart()
    stage.load(**({"rate": rate} if rate else {}))
    operation = ask(stage)
    struck = {"source": source, "target": target, "coordinator": stage.coordinator}[victim]
    wait_until(lambda: not struck.running, LIMIT_S, f"{victim} is struck at {point}")
    assert struck.wait_exit() == -9 and struck.log_events("hook", action="kill")
    struck.environment.pop("BATON_HOOK")
    struck.start()
    operation = operation or find_or_ask(stage)
    assert stage.job.wait_operation(operation)["state"] == "succeeded"
    stage.job.wait_active(3)
    stage.wait_outputs(500)
    if spec.get("delivery") == "at_least_once":
        stage.assert_at_least_once()
    else:
        stage.assert_exact()
