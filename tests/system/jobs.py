"""One job as tests see it: its topics, its spec, and waiting for what its status says."""

from confluent_kafka import KafkaException

from waiting import wait_until

WAIT_S = 60


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
        reply = self.coordinator.http.put(f"/v1/jobs/{self.name}", self.spec, expect=expect)
        return reply.json

    def create(self):
        """Put it and wait until its start offsets are committed and the tasks may run."""
        self.put()
        self.wait_running()
        return self

    def status(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/status").json

    def processors(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/processors?limit=1000").json["items"]

    def problems(self):
        return self.coordinator.http.get(f"/v1/jobs/{self.name}/problems").json["items"]

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
        """Until every processor has committed up to the end of its partitions, by the broker's word, not the status's."""

        def drained():
            ends = self.broker.end_offsets(self.input)
            committed = self.committed()
            return all(committed[self.input, p][0] == end for p, end in ends.items())

        wait_until(drained, limit_s, f"{self.name} has committed all of its input", ignoring=(OSError, KafkaException))

    def committed(self):
        return self.broker.committed(self.group, self.input)

    def wait_problem(self, code, limit_s=WAIT_S):
        """The named problem, once it is there."""

        def found():
            return [problem for problem in self.problems() if problem["code"] == code]

        return wait_until(found, limit_s, f"{self.name} has the problem {code}; it has {self.problems()}")[0]

    def replayed(self):
        return sum(each["replayed"] for each in self.processors())
