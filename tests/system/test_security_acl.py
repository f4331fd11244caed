"""The ACLs of docs/operations.md are enough, and each is needed: on a broker that allows nothing else."""

import argparse
import re
import shlex

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

import process
from daemons import ROOT
from jobs import Job
from kafka import ADMIN_LIMIT_S, Broker
from oracle import TopicReader
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # three waits of a minute
USERS = ("baton-coordinator", "baton-agent")
# Names of the page's example, and what they are in a test.
EXAMPLE = {"orders": "input", "orders-per-customer": "output", "orders-failed": "dead", "orders-per-customer-group": "group"}
WAIT_S = 60


class SecuredBroker(Broker):
    """With a listener that wants a password and the standard authorizer. The harness comes in as a super user."""

    def __init__(self, directory):
        super().__init__(directory)
        self.secured_port = process.free_port()
        listener = f"SECURED://127.0.0.1:{self.secured_port}"
        users = " ".join(f'user_{user}="{self.password(user)}"' for user in USERS)
        settings = self._properties
        settings["listeners"] += f",{listener}"
        settings["advertised.listeners"] += f",{listener}"
        settings["listener.security.protocol.map"] += ",SECURED:SASL_PLAINTEXT"
        settings["listener.name.secured.sasl.enabled.mechanisms"] = "PLAIN"
        settings["listener.name.secured.plain.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        )
        settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        settings["super.users"] = "User:ANONYMOUS"

    @staticmethod
    def password(user):
        return f"secret-of-{user}"

    def login(self, user):
        """Options of a daemon that comes in as `user`."""
        return {
            "kafka__bootstrap__servers": f"127.0.0.1:{self.secured_port}",
            "kafka__security__protocol": "sasl_plaintext",
            "kafka__sasl__mechanism": "PLAIN",
            "kafka__sasl__username": user,
            "kafka__sasl__password": self.password(user),
        }

    def allow(self, bindings):
        for future in self.admin.create_acls(bindings).values():
            future.result(ADMIN_LIMIT_S)

    def forbid(self, binding):
        exactly = AclBindingFilter(
            binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
            binding.operation, binding.permission_type,
        )  # fmt: skip
        self.admin.delete_acls([exactly])[exactly].result(ADMIN_LIMIT_S)

    def forbid_all(self):
        anything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        self.admin.delete_acls([anything])[anything].result(ADMIN_LIMIT_S)


def documented_lines(delivery):
    """The commands of the page that count for this delivery."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    (block,) = [each for each in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S) if "kafka-acls.sh" in each]
    everywhere, exactly_once = re.split(r'^# With "delivery": "exactly_once".*$', block, flags=re.M)
    exactly_once = re.split(r'^# With "delivery": "at_least_once"', exactly_once, flags=re.M)[0]
    chosen = everywhere + (exactly_once if delivery == "exactly_once" else "")
    return [line for line in chosen.splitlines() if line.startswith("$A ")]


def parse_line(line, names):
    """The bindings that kafka-acls.sh would make of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for kind in ("topic", "group", "transactional-id"):
        parser.add_argument(f"--{kind}")
    asked = parser.parse_args(shlex.split(line)[1:])
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional_id": ResourceType.TRANSACTIONAL_ID}
    ((kind, name),) = [(kind, getattr(asked, kind)) for kind in kinds if getattr(asked, kind)]
    pattern = ResourcePatternType[asked.resource_pattern_type.upper()]
    for operation in asked.operation:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()
        yield AclBinding(kinds[kind], names.get(name, name), pattern, asked.allow_principal, "*",
                         AclOperation[words], AclPermissionType.ALLOW)  # fmt: skip


@pytest.fixture(scope="module")
def secured(tmp_path_factory, no_process_is_left):
    made = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        yield made.start()
    finally:
        made.finish()


@pytest.fixture
def made(secured, daemons, unique):
    """made(delivery) is a job that is not created yet, its coordinator (started) and its agent (not started)."""

    def make(delivery):
        secured.forbid_all()
        coordinator = daemons.coordinator(**secured.login(USERS[0]))
        job = Job(secured, coordinator, unique, partitions=2, delivery=delivery, logic={"kind": "builtin", "name": "sum"},
                  on_error="dead_letter", dead_letter_topic=secured.create_topic(unique("dead"), 1))  # fmt: skip
        secured.produce(job.input, [(f"key-{i}", "1") for i in range(40)] + [("key-0", "not a number")])
        agent = daemons.agent(coordinator, start=False, **secured.login(USERS[1]))
        return job, agent

    return make


def bindings_of(job, delivery):
    own = {"input": job.input, "output": job.output, "dead": job.spec["dead_letter_topic"], "group": job.group}
    names = {example: own[what] for example, what in EXAMPLE.items()}
    return [binding for line in documented_lines(delivery) for binding in parse_line(line, names)]


def outputs(job, count):
    reader = TopicReader(job.broker.bootstrap, job.output)
    found = []
    try:
        wait_until(lambda: found.extend(reader.read()) or len(found) >= count, WAIT_S, f"{count} outputs")
    finally:
        reader.close()
    return found


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_security_documented_acls_are_enough(made, secured, delivery):
    """For the whole life of a job: created, processed with outputs and dead letters, deleted."""
    job, agent = made(delivery)
    secured.allow(bindings_of(job, delivery))
    job.create()
    agent.start()
    job.wait_active()
    assert len(outputs(job, 40)) == 40
    wait_until(lambda: sum(secured.end_offsets(job.spec["dead_letter_topic"]).values()) > 0, WAIT_S, "a dead letter")
    job.wait("has no lag and no problem", lambda status: status["lag_records"] == 0 and status["problems"] == 0)
    job.delete()


# What the page says a missing one looks like: (who, resource, operation) -> problem code, text in its detail.
AS_REFUSAL = "kafka_unavailable"
MISSING = [
    ("coordinator", "input", "READ", AS_REFUSAL, "authorization failed"),
    ("coordinator", "input", "DESCRIBE_CONFIGS", AS_REFUSAL, "authorization failed"),
    ("coordinator", "output", "DESCRIBE", AS_REFUSAL, "authorization failed"),
    ("coordinator", "output", "DESCRIBE_CONFIGS", AS_REFUSAL, "authorization failed"),
    ("coordinator", "dead", "DESCRIBE", AS_REFUSAL, "authorization failed"),
    ("coordinator", "dead", "DESCRIBE_CONFIGS", AS_REFUSAL, "authorization failed"),
    ("coordinator", "group", "READ", AS_REFUSAL, "authorization failed"),
    ("coordinator", "transactional_id", "WRITE", AS_REFUSAL, "authorization failed"),
    ("agent", "input", "READ", "topic_missing", "authorization failed"),
    ("agent", "input", "DESCRIBE_CONFIGS", "topic_missing", "authorization failed"),
    ("agent", "output", "WRITE", "output_failed", "authorization failed"),
    ("agent", "dead", "WRITE", "output_failed", "authorization failed"),
    ("agent", "group", "READ", "kafka_unauthorized", "authorization failed"),
    ("agent", "transactional_id", "WRITE", "output_failed", "authorization failed"),
]


def is_missing(binding, job, who, what, operation):
    name = {"input": job.input, "output": job.output, "dead": job.spec["dead_letter_topic"], "group": job.group,
            "transactional_id": "baton."}[what]  # fmt: skip
    return (binding.principal, binding.name, binding.operation) == (f"User:baton-{who}", name, AclOperation[operation])


@pytest.mark.parametrize("who, what, operation, code, detail", MISSING, ids=lambda value: str(value).replace(" ", "-"))
def test_security_each_documented_acl_is_needed(made, secured, who, what, operation, code, detail):
    """Without it the named problem is there; with it all goes on by itself."""
    job, agent = made("exactly_once")
    bindings = bindings_of(job, "exactly_once")
    (missing,) = [binding for binding in bindings if is_missing(binding, job, who, what, operation)]
    secured.allow([binding for binding in bindings if binding is not missing])
    if code == AS_REFUSAL:

        def refused():  # a broker that is slow is unavailable, too
            problem = job.coordinator.http.problem("PUT", f"/v1/jobs/{job.name}", job.spec, expect=503, timeout_s=WAIT_S)
            assert problem["code"] == code, problem
            return detail in problem["detail"]

        wait_until(refused, WAIT_S, f"the refusal says {detail}")
    else:
        job.create()
        agent.start()
        job.wait_problem(code, says=detail)
    secured.allow([missing])
    if code == AS_REFUSAL:
        job.create()
        agent.start()
    assert len(outputs(job, 40)) == 40


def test_security_a_right_that_is_taken_away_while_the_job_runs(made, secured):
    """The agent may still describe the input but not read it: said for as long as it is so, and nothing is lost."""
    job, agent = made("exactly_once")
    bindings = bindings_of(job, "exactly_once")
    secured.allow(bindings)
    job.create()
    agent.start()
    assert len(outputs(job, 40)) == 40
    (read,) = [binding for binding in bindings if is_missing(binding, job, "agent", "input", "READ")]
    describe = AclBinding(read.restype, read.name, read.resource_pattern_type, read.principal, read.host,
                          AclOperation.DESCRIBE, AclPermissionType.ALLOW)  # fmt: skip
    secured.allow([describe])
    secured.forbid(read)
    problem = job.wait_problem("kafka_unreachable", says="can not be read")
    assert "authorization failed" in problem["detail"], problem
    secured.produce(job.input, [(f"key-{i}", "1") for i in range(10)])
    secured.allow([read])
    assert len(outputs(job, 50)) == 50
    job.wait("nothing is wrong any more", lambda status: status["problems"] == 0)


def test_security_every_documented_acl_is_tried(made):
    """The list above has each binding of the page, so none is there for nothing."""
    job, _ = made("exactly_once")
    bindings = bindings_of(job, "exactly_once")
    for binding in bindings:
        hits = [case for case in MISSING if is_missing(binding, job, *case[:3])]
        assert len(hits) == 1, binding
    assert len(bindings) == len(MISSING)
