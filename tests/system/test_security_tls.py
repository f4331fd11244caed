"""A broker that wants TLS and a SCRAM password: everything works by kafka.* properties, and a wrong one is said clearly.

On the librdkafka of the oracle's client: before 2.6.1 it can not log in by SCRAM to brokers from 3.8.1 on (its pull request 4895).
"""

import subprocess

import pytest

import process
from daemons import current_librdkafka
from kafka import Broker
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
USER, PASSWORD = "baton", "right-secret"


def make_certificate(key, certificate, *options):
    """Signed by itself; `options` are those of openssl req."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate]
    subprocess.run([*command, *options], check=True, capture_output=True)


class TlsBroker(Broker):
    """With a listener for SASL_SSL and SCRAM-SHA-512. The harness comes in by the plain one."""

    users = {"KAFKA_SCRAM": f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"}

    def __init__(self, directory):
        super().__init__(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.certificate = self.directory / "certificate.pem"
        self.secured_port = process.free_port()
        listener = f"SECURED://127.0.0.1:{self.secured_port}"
        settings = self._properties
        settings["listeners"] += f",{listener}"
        settings["advertised.listeners"] += f",{listener}"
        settings["listener.security.protocol.map"] += ",SECURED:SASL_SSL"
        settings["listener.name.secured.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        settings["listener.name.secured.scram-sha-512.sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
        settings["listener.name.secured.ssl.keystore.type"] = "PEM"
        settings["listener.name.secured.ssl.keystore.location"] = self._keystore()

    def _keystore(self):
        key, both = self.directory / "key.pem", self.directory / "keystore.pem"
        make_certificate(key, self.certificate, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
        both.write_text(key.read_text() + self.certificate.read_text())
        return both

    def login(self, password=PASSWORD, **other):
        return {
            "bootstrap": f"127.0.0.1:{self.secured_port}",
            "environment": current_librdkafka(self.directory / "lib"),
            "kafka__security__protocol": "sasl_ssl",
            "kafka__ssl__ca__location": self.certificate,
            "kafka__sasl__mechanism": "SCRAM-SHA-512",
            "kafka__sasl__username": USER,
            "kafka__sasl__password": password,
            **other,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory, no_process_is_left):
    made = TlsBroker(tmp_path_factory.mktemp("tls"))
    try:
        made.start()
        yield made
    finally:
        made.finish()


def test_security_tls_and_scram_for_all_that_a_job_does(secured, daemons, unique, loads):
    """Creation, work, a hand-over, and a failover."""
    stage = Scene(secured, daemons, unique, loads, partitions=2, coordinator=secured.login())
    first = stage.agent(**secured.login())
    stage.job.wait_active()
    stage.load()
    second = stage.agent(**secured.login())
    stage.job.wait_owners({first.name: 1, second.name: 1})
    first.kill()
    stage.job.wait_owners({second.name: 2})
    stage.assert_exact()


def wait_said(daemon, words):
    """Until the client library says it in the log."""
    wait_until(
        lambda: any(words in line["text"] for line in daemon.log_events("kafka_client")), LIMIT_S, f"the log says {words}"
    )


@pytest.mark.parametrize("wrong", ["password", "certificate"])
def test_security_tls_says_what_is_wrong_with_an_agents_login(secured, daemons, unique, loads, tmp_path, wrong):
    stage = Scene(secured, daemons, unique, loads, partitions=1)
    stage.history(10)
    other = tmp_path / "other.pem"
    if wrong == "password":
        options, said = secured.login("a wrong one"), "Authentication failed"
    else:
        make_certificate(tmp_path / "key.pem", other, "-subj", "/CN=other")
        options, said = secured.login(kafka__ssl__ca__location=other), "certificate verify failed"
    agent = stage.agent(**options)
    stage.job.wait_problem("kafka_unreachable", says=said)
    wait_said(agent, said)
    agent.stop()
    agent.options.update({"kafka.ssl.ca.location": secured.certificate, "kafka.sasl.password": PASSWORD})
    agent.start()
    stage.job.wait_active()
    stage.assert_exact()


def test_security_tls_says_what_is_wrong_with_the_coordinators_login(secured, daemons, unique):
    coordinator = daemons.coordinator(start=False, **secured.login("a wrong one")).start(ready="/healthz")
    topic = secured.create_topic(unique("in"), 1)
    spec = {"inputs": [topic], "group_id": unique("group"), "processors": 1, "logic": {"kind": "builtin", "name": "count"},
            "output": secured.create_topic(unique("out"), 1)}  # fmt: skip
    answer = coordinator.http.put(f"/v1/jobs/{unique('job')}", spec, expect=503, timeout_s=60)
    assert "event=kafka_client" in answer.json["detail"], answer.json
    wait_said(coordinator, "Authentication failed")
