"""One job as tests see it: its topics, its spec, and waiting for what its status says."""

from confluent_kafka import KafkaException

from waiting import wait_until

WAIT_S = 60
HANDOFF_WAIT_S = 100
OPERATION_ENDS = ("succeeded", "failed", "cancelled")


def owners_of(processors):
    """{agent: how many active processors it has}."""
    counts = {}
    for each in processors:
        if each["state"] == "active":
            counts[each["agent"]] = counts.get(each["agent"], 0) + 1
    return counts


class Job:
    """A `count` job with provenance unless told otherwise; the names are unique to the test."""

    def __init__(self, broker, coordinator, unique, partitions=4, processors=None, create_topics=True, **spec):
        self.broker = broker
        self.coordinator = coordinator
        self.name = unique("job")
        self.input = unique("in")
        self.output = unique("out")
        self.group = unique("group")
        if create_topics:
            broker.create_topic(self.input, partitions)
            broker.create_topic(self.output, partitions)
        self.spec = {
            "inputs": [self.input],
            "output": self.output,
            "group_id": self.group,
            "logic": {"kind": "builtin", "name": "count"},
            "processors": processors or partitions,
            "provenance": True,
            **spec,
        }

    # ---- what it does

    def put(self, expect=201, **changes):
        self.spec.update(changes)
        # A creation asks Kafka, which may take its time; a busy machine more.
        reply = self.coordinator.http.put(f"/v1/jobs/{self.name}", self.spec, expect=expect, timeout_s=WAIT_S)
        return reply.json

    def create(self):
        """Put it and wait until its start offsets are committed and the tasks may run.

        A broker that has just started answers for transactions only when it has loaded their log: 503 until then.
        """

        def accepted():
            path = f"/v1/jobs/{self.name}"
            return self.coordinator.http.put(path, self.spec, expect=(201, 503), timeout_s=WAIT_S).status == 201

        wait_until(accepted, WAIT_S, f"{self.name} is created")
        self.wait_running()
        return self

    def delete(self):
        """And wait until it is gone; its topics and its group's offsets stay."""
        operation = self.coordinator.http.delete(f"/v1/jobs/{self.name}").json["id"]
        ended = self.wait_operation(operation)
        assert ended["state"] == "succeeded", ended

    def status(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/status").json

    def processors(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/processors?limit=1000").json["items"]

    def problems(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/problems").json["items"]

    def handoffs(self, state=None):
        query = f"?job={self.name}&limit=1000" + (f"&state={state}" if state else "")
        return self.coordinator.http.get(f"/v1/handoffs{query}").json["items"]

    def owners(self):
        return owners_of(self.processors())

    def wait_owners(self, wanted, limit_s=HANDOFF_WAIT_S):
        """Until they are `wanted` and no hand-over is under way."""

        def settled(_):
            return self.owners() == wanted and self.status()["handoffs_running"] == 0  # in this order: one may just begin

        try:
            self.wait(f"owners are {wanted}", settled, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.handoffs()}") from None

    def expand(self, expect=202, reason="a test", **to):
        """Asks for so many `partitions` or `processors`, and returns the operation's id."""
        path = f"/v1/jobs/{self.name}/expansions"
        return self.coordinator.http.post(path, {"reason": reason, **to}, expect=expect).json["id"]

    def wait_operation(self, operation, limit_s=HANDOFF_WAIT_S):
        """The operation of that id, once it has ended."""

        def ended():
            seen = self.coordinator.http.get(f"/v1/operations/{operation}?wait=10s", timeout_s=20).json
            return seen["state"] in OPERATION_ENDS and seen

        return wait_until(ended, limit_s, f"{operation} has ended")

    def wait(self, what, condition, limit_s=WAIT_S):
        """Until `condition(status)` holds; the failure shows the last status, problems and processors."""
        try:
            return wait_until(lambda: condition(self.status()), limit_s, f"{self.name}: {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.status()}\n{self.problems()}\n{self.processors()}") from None

    def wait_running(self, limit_s=WAIT_S):
        self.wait("is running", lambda status: status["state"] == "running", limit_s)

    def wait_active(self, count=None, limit_s=WAIT_S):
        """Until `count` processors (default: all) are active, as reported by their present owners."""
        wanted = self.spec["processors"] if count is None else count
        self.wait(f"{wanted} are active", lambda status: status["processors_active"] == wanted, limit_s)

    def wait_drained(self, limit_s=WAIT_S):
        """Until all input there is now is committed, by the broker's word, not the status's. More may come meanwhile."""
        ends = self.broker.end_offsets(self.input)

        def drained():
            committed = self.committed()
            return all(committed[self.input, p][0] >= end for p, end in ends.items())

        wait_until(drained, limit_s, f"{self.name} has committed all of its input", ignoring=(OSError, KafkaException))

    def committed(self):
        return self.broker.committed(self.group, self.input)

    def wait_problem(self, code, limit_s=WAIT_S, says=""):
        """The named problem, once it is there with these words in its detail: on a slow machine others may come first."""

        def found():
            return [problem for problem in self.problems() if problem["code"] == code and says in problem["detail"]]

        try:
            return wait_until(found, limit_s, f"{self.name} has the problem {code} {says}")[0]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.problems()}") from None

    def replayed(self):
        return sum(each["replayed"] for each in self.processors())
