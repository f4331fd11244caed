"""The coordinator's HTTP API on a real broker: what it answers to good and to bad requests, all held against the contract."""

import concurrent.futures
import http.client
import json
import random
import re
import resource
import signal
import socket
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer

from contract import CheckedClient, as_json, pointers
from jobs import OPERATION_ENDS, Job
from waiting import wait_until

BODY_BYTES_MAX = 1024 * 1024
AGENT_BODY_BYTES_MAX = 16 * BODY_BYTES_MAX
PARTITIONS = 4
LIMIT_S = 100
LATE_S = 20  # for what is to take less than a second, on a machine that stops for seconds
GIVEN_UP_S = 20  # not before that is a sender given up who never comes to an end


@pytest.fixture(scope="module")
def shared(tmp_path_factory, broker):
    """One coordinator for all tests that leave nothing behind; it must outlive all of them."""
    from daemons import Daemons

    made = Daemons(tmp_path_factory.mktemp("contract"), broker)
    coordinator = made.coordinator(agent_timeout="10m")  # agents made by hand speak only when a test comes to it
    pid = coordinator.pid
    yield coordinator
    assert coordinator.running and coordinator.pid == pid
    made.finish()


@pytest.fixture
def api(shared):
    return CheckedClient(shared.address)


@pytest.fixture(scope="module")
def topics(broker):
    """Topics that many tests name."""
    made = {"in": f"contract-in-{uuid.uuid4().hex[:8]}", "out": f"contract-out-{uuid.uuid4().hex[:8]}"}
    for name in made.values():
        broker.create_topic(name, PARTITIONS)
    return made


@pytest.fixture
def spec(topics, unique):
    return {
        "inputs": [topics["in"]],
        "output": topics["out"],
        "group_id": unique("group"),
        "logic": {"kind": "builtin", "name": "count"},
        "processors": 2,
    }


def wait_ended(api, operation):
    """The operation, once it has ended."""

    def ended():
        seen = api.get(f"/v1/operations/{operation}?wait=30s", timeout_s=60).json
        return seen["state"] in OPERATION_ENDS and seen

    return wait_until(ended, LIMIT_S, f"{operation} has ended")


def put_running(api, name, spec):
    """Creates the job and waits for the operation that the answer names."""
    job = api.put(f"/v1/jobs/{name}", spec, expect=201, timeout_s=60).json
    operation = wait_ended(api, job["operation"])
    assert operation["state"] == "succeeded", operation
    return api.get(f"/v1/jobs/{name}").json


def delete_and_wait(api, name):
    operation = api.delete(f"/v1/jobs/{name}", expect=202).json
    ended = wait_ended(api, operation["id"])
    assert ended["state"] == "succeeded", ended


# ---- the process


def test_contract_process_routes(api):
    assert api.get("/healthz").body == b"ok\n"
    assert api.get("/readyz").body == b"ok\n"
    version = api.get("/version").json
    assert version["component"] == "baton-coordinator" and version["sqlite"] and version["librdkafka"]
    document = api.get("/openapi.json")
    assert document.json == api.contract.document
    assert document.headers["Content-Type"] == "application/json"


def test_contract_head_is_get_without_body(api):
    for path in ("/healthz", "/version", "/v1/jobs", "/openapi.json", "/metrics", "/v1/events?limit=1", "/"):
        reply = api.request("HEAD", path, expect=200)
        assert reply.body == b""


def test_contract_unknown_paths_and_methods(api):
    for path in ("/index.html", "/web", "/web/", "/web/x", "/v1", "/v1/", "/v1/jobs/", "/v1/jobs/a/b", "/v1/jobs/a/status/", "/v2/jobs", "//v1/jobs", "/agent"):
        api.refused("GET", path, 404, "not_found")
    for method, path, allow in (
        ("POST", "/v1/jobs", "GET, HEAD"),
        ("PATCH", "/v1/jobs/a", "PUT, GET, HEAD, DELETE"),
        ("DELETE", "/healthz", "GET, HEAD"),
        ("GET", "/agent/v1/agents", "POST"),
        ("BREW", "/v1/jobs/a/map", "GET, HEAD"),
    ):
        reply = api.request(method, path, expect=405)
        assert reply.json["code"] == "method_not_allowed"
        assert sorted(reply.headers["Allow"].split(", ")) == sorted(allow.split(", ")), path


def test_contract_targets_are_read_strictly(api):
    for path in ("/v1/jobs/%zz", "/v1/jobs/a%2", "/v1/jobs/a%00b", "/v1/jobs/a%2Fstatus", "/v1/jobs/%ff", "/v1/jobs?limit=%"):
        api.refused("GET", path, 400, "malformed_target")
    api.refused("GET", "/v1/jobs?limit=1&limit=2", 400, "malformed_target")
    api.refused("GET", "/v1/jobs?" + "a" * 9000, 400, "malformed_target")
    assert "\"color\"" in api.refused("GET", "/v1/jobs?color=red", 400, "invalid_query")["detail"]
    api.refused("GET", "/healthz?deep=true", 400, "invalid_query")
    for query in ("limit=0", "limit=1001", "limit=x", "limit=", "cursor=Not%20A%20Name", "cursor="):
        api.refused("GET", f"/v1/jobs?{query}", 400, "invalid_query")
    for query in ("after=-1", "after=x", "wait=5", "wait=61s", "wait=1h", "job=A!", "last=0", "last=1&limit=1"):
        api.refused("GET", f"/v1/events?{query}", 400, "invalid_query")
    for query in ("state=done", "cursor=op-1", "cursor=0", "limit=0", "job=A!"):
        api.refused("GET", f"/v1/operations?{query}", 400, "invalid_query")


def test_contract_what_is_no_http_is_answered_and_closed(shared):
    for garbage in (b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"):
        with dial(shared.address) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(65536)[:9] in (b"HTTP/1.1 ", b"HTTP/1.0 ", b"")
    assert shared.http.get("/healthz").status == 200


def test_contract_missing_things(api):
    api.refused("GET", "/v1/jobs/none", 404, "job_not_found")
    for part in ("status", "problems", "processors", "processors/0", "map", "map?key=a"):
        api.refused("GET", f"/v1/jobs/none/{part}", 404, "job_not_found")
    api.refused("DELETE", "/v1/jobs/none", 404, "job_not_found")
    api.refused("GET", "/v1/agents/none", 404, "agent_not_found")
    api.refused("DELETE", "/v1/agents/none", 404, "agent_not_found")
    api.refused("GET", "/v1/agents/none/eligibility", 404, "agent_not_found")
    api.refused("PUT", "/v1/agents/none/eligibility", 404, "agent_not_found", {"schedulable": False})
    api.refused("GET", "/v1/agents/none/drain", 404, "agent_not_found")
    api.refused("PUT", "/v1/agents/none/drain", 404, "agent_not_found", {})
    api.refused("DELETE", "/v1/agents/none/drain", 404, "agent_not_found")
    for name in ("op-999999", "op-0", "op-01", "17", "op-", "op-x"):
        api.refused("GET", f"/v1/operations/{name}", 404, "operation_not_found")
    api.refused("GET", "/v1/operations/op-999999?wait=5s", 404, "operation_not_found")
    api.refused("DELETE", "/v1/operations/op-999999", 404, "operation_not_found")


# ---- bad bodies


def test_contract_bodies_that_are_no_json(api, spec):
    good = as_json(spec)
    bad = [
        "", "{", "nope", good[:-1], good + "x", good + good, "\ufeff" + good, "{'a': 1}", '{"a": 01}', '{"a": NaN}',
        '{"a": "\\ud800"}', '{"a": "\t"}', "[" * 17 + "]" * 17, "[" * 100_000, '{"a":' * 20_000,
        good[:-1] + ',"processors":3}', '{"logic": {"kind": "builtin", "kind": "plugin"}}',
        b'{"group_id": "\xff"}', b"\x00", '{"a": "\\u0000"}',
    ]  # fmt: skip
    for raw in bad:
        problem = api.refused("PUT", "/v1/jobs/bad", 400, "malformed_json", raw=raw)
        assert "line" in problem["detail"] or raw == "", (raw[:50], problem)
    api.refused("GET", "/v1/jobs/bad", 404, "job_not_found")


def test_contract_bodies_of_another_type(api, spec):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "x", ""):
        api.refused("PUT", "/v1/jobs/bad", 415, "unsupported_media_type", raw=as_json(spec), headers={"Content-Type": kind})


def test_contract_faults_have_pointers(api, spec):
    def fault(pointer, **changes):
        changed = {**spec, **changes}
        changed = {key: value for key, value in changed.items() if value is not ...}
        problem = api.refused("PUT", "/v1/jobs/bad", 422, "invalid_request", changed)
        assert pointer in pointers(problem), problem

    fault("/colour", colour="red")
    fault("/Processors", Processors=3)
    fault("/processors", processors="2")
    fault("/processors", processors=2.5)
    fault("/processors", processors=0)
    fault("/processors", processors=-1)
    fault("/processors", processors=10001)
    fault("/processors", processors=2**70)
    fault("/processors", processors=None)
    fault("/processors", processors=...)
    fault("/inputs", inputs=...)
    fault("/inputs", inputs=[])
    fault("/inputs", inputs="topic")
    fault("/inputs/0", inputs=[1])
    fault("/inputs/1", inputs=["ok", "not a topic"])
    fault("/inputs/1", inputs=["same", "same"], interleaving="any")
    fault("/inputs", inputs=[f"t{i}" for i in range(17)])
    fault("/output", output="..")
    fault("/output", output="x" * 250)
    fault("/group_id", group_id="")
    fault("/group_id", group_id="g" * 250)
    fault("/group_id", group_id="tab\there")
    fault("/logic", logic=[])
    fault("/logic/name", logic={"kind": "builtin", "name": "nonsense"})
    fault("/logic/kind", logic={"kind": "magic", "name": "count"})
    fault("/logic/extra", logic={"kind": "builtin", "name": "count", "extra": 1})
    fault("/logic/config", logic={"kind": "plugin", "name": "a", "version": "1", "config": "text"})
    fault("/stateful", stateful="yes")
    fault("/settle", settle=10)
    fault("/settle", settle="10 minutes")
    fault("/on_error", on_error="ignore")
    fault("/commit_interval_ms", commit_interval_ms=5)
    problem = api.refused("PUT", "/v1/jobs/bad", 422, "invalid_request", {})
    assert {"/inputs", "/group_id", "/logic", "/processors"} <= set(pointers(problem)), problem
    for whole in ([], 1, "text", None, True):
        problem = api.refused("PUT", "/v1/jobs/bad", 422, "invalid_request", raw=json.dumps(whole))
        assert pointers(problem) == [""], problem
    api.refused("GET", "/v1/jobs/bad", 404, "job_not_found")


def test_contract_names_of_jobs(api, spec):
    for name in ("A", "-a", ".a", "a" * 64, "a%20b", "caf%C3%A9", "a!", "_x"):
        api.refused("PUT", f"/v1/jobs/{name}", 400, "malformed_target", spec)


# ---- large bodies


def post_bytes(address, path, body, headers, limit_s=30):
    """What http.client does not do: sends `body` in pieces, whatever the headers say, and reads the answer."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=limit_s) as connection:
        head = f"PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n{headers}\r\n"
        connection.sendall(head.encode())
        for piece in body:
            connection.sendall(piece)
        response = http.client.HTTPResponse(connection, method="PUT")
        response.begin()
        return response.status, json.loads(response.read())


def test_contract_body_limit_is_1_mib(api, shared, spec):
    padded = as_json({**spec, "group_id": "x"})
    exact = padded + " " * (BODY_BYTES_MAX - len(padded))
    api.refused("PUT", "/v1/jobs/Bad", 400, "malformed_target", raw=exact)  # it is read, and refused for its name
    problem = api.refused("PUT", "/v1/jobs/bad", 413, "body_too_large", raw=exact + " ")
    assert str(BODY_BYTES_MAX) in problem["detail"]
    api.refused("PUT", "/v1/jobs/bad", 413, "body_too_large", raw=b"x" * (20 * BODY_BYTES_MAX))

    piece = b" " * 65536
    chunk = b"10000\r\n" + piece + b"\r\n"
    status, body = post_bytes(shared.address, "/v1/jobs/bad", [chunk] * 17 + [b"0\r\n\r\n"], "Transfer-Encoding: chunked\r\n")
    assert (status, body["code"]) == (413, "body_too_large")
    started = time.monotonic()
    status, body = post_bytes(shared.address, "/v1/jobs/bad", [], f"Expect: 100-continue\r\nContent-Length: {2**40}\r\n")
    assert (status, body["code"]) == (413, "body_too_large")
    status, body = post_bytes(shared.address, "/v1/jobs/bad", [], f"Content-Length: {2**62}\r\n")
    assert (status, body["code"]) == (413, "body_too_large")
    assert time.monotonic() - started < GIVEN_UP_S


def test_contract_agents_may_send_16_mib(api):
    long = as_json({"incarnation": str(uuid.uuid4()), "version": "0.0", "stopping": False, "tasks": []})
    padded = long + " " * (AGENT_BODY_BYTES_MAX - len(long))
    api.refused("POST", "/agent/v1/agents/nobody/report", 404, "agent_unknown", raw=padded)
    api.refused("POST", "/agent/v1/agents/nobody/report", 413, "body_too_large", raw=padded + " ")


# ---- S38 and the group: what Kafka says


def test_contract_refuses_what_kafka_does_not_have(api, broker, spec, unique):
    five = broker.create_topic(unique("five"), 5)

    def refused(code, pointer, **changes):
        problem = api.refused("PUT", "/v1/jobs/bad", 422, code, {**spec, **changes})
        assert pointer in pointers(problem), problem
        return problem

    missing = unique("missing")
    assert missing in refused("topic_unknown", "/inputs/0", inputs=[missing])["detail"]
    refused("topic_unknown", "/inputs/1", inputs=[*spec["inputs"], missing], interleaving="any")
    refused("output_unknown", "/output", output=missing)
    refused("partition_counts_differ", "/inputs", inputs=[*spec["inputs"], five], interleaving="any")
    refused("too_many_processors", "/processors", processors=PARTITIONS + 1)
    api.refused("GET", "/v1/jobs/bad", 404, "job_not_found")
    assert broker.committed(spec["group_id"]) == {}  # nothing was stored or committed
    assert missing not in broker.admin.list_topics(timeout=10).topics  # nor was a topic made by asking for it


def test_contract_group_with_members(api, broker, spec, unique):
    """A group of the classic protocol, and one of the newer (KIP-848), which old descriptions do not show."""
    for protocol in ("classic", "consumer"):
        group = unique(f"members-{protocol}")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol})
        consumer.subscribe(spec["inputs"])
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), 30, f"{group} has a member")
        problem = api.refused("PUT", "/v1/jobs/members", 409, "group_has_members", {**spec, "group_id": group})
        assert group in problem["detail"]
        consumer.close()
    api.refused("GET", "/v1/jobs/members", 404, "job_not_found")


def commit_all(broker, group, topic, offset):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    from confluent_kafka import TopicPartition

    consumer.commit(
        offsets=[TopicPartition(topic, p, offset) for p in range(broker.partition_count(topic))], asynchronous=False
    )
    consumer.close()


def test_contract_group_with_offsets(api, broker, spec, unique):
    group, topic = spec["group_id"], broker.create_topic(unique("in"), 2)
    broker.produce(topic, [(b"k", b"v", p) for p in (0, 1) for _ in range(10)])
    spec = {**spec, "inputs": [topic], "processors": 2}
    api.refused("PUT", f"/v1/jobs/{group}", 409, "offsets_missing", {**spec, "start": "committed"})
    commit_all(broker, group, topic, 7)
    api.refused("PUT", f"/v1/jobs/{group}", 409, "group_has_offsets", spec)
    job = put_running(api, group, {**spec, "start": "committed"})
    wait_until(lambda: api.get(f"/v1/jobs/{group}/status").json["group"]["hold"] == "none", 30, "the group is looked at")
    committed = broker.committed(group, topic)
    assert [offset for offset, _ in committed.values()] == [7, 7]
    assert all(metadata.startswith(f"b1 {job['incarnation']} ") for _, metadata in committed.values()), committed
    delete_and_wait(api, group)
    put_running(api, group, {**spec, "reset_offsets": True})
    assert [offset for offset, _ in broker.committed(group, topic).values()] == [0, 0]
    delete_and_wait(api, group)


def test_contract_start_latest(api, broker, spec, unique):
    topic = broker.create_topic(unique("in"), 2)
    broker.produce(topic, [(b"k", b"v", 0)] * 5)
    job = unique("latest")
    put_running(api, job, {**spec, "inputs": [topic], "start": "latest"})
    assert [offset for offset, _ in broker.committed(spec["group_id"], topic).values()] == [5, 0]
    partitions = [p for each in api.get(f"/v1/jobs/{job}/processors").json["items"] for p in each["partitions"]]
    assert [(p["partition"], p["t0"], p["t1"], p["t2"]) for p in partitions] == [(0, 5, 5, None), (1, 0, 0, None)]
    delete_and_wait(api, job)


# ---- jobs


def test_contract_life_of_a_job(api, broker, spec, unique):
    name = unique("life")
    reply = api.put(f"/v1/jobs/{name}", spec, expect=201, timeout_s=60)
    assert reply.headers["Location"] == f"/v1/jobs/{name}"
    assert reply.headers["ETag"] == '"1"'
    assert reply.json["state"] == "creating" and reply.json["operation"]
    operation = wait_ended(api, reply.json["operation"])
    assert (operation["kind"], operation["job"], operation["state"]) == ("create_job", name, "succeeded")

    job = api.get(f"/v1/jobs/{name}")
    assert job.headers["ETag"] == '"1"' and job.json["state"] == "running"
    again = api.put(f"/v1/jobs/{name}", spec, expect=200)
    assert again.headers["ETag"] == '"1"' and again.json == job.json

    status = api.get(f"/v1/jobs/{name}/status").json
    assert (status["processors"], status["processors_unassigned"], status["lag_records"]) == (2, 2, None)
    problems = api.get(f"/v1/jobs/{name}/problems").json["items"]
    assert [(each["code"], each["processor"]) for each in problems] == [("no_agent", 0), ("no_agent", 1)]
    processor = api.get(f"/v1/jobs/{name}/processors/1").json
    assert (processor["state"], processor["owned"], processor["agent"]) == ("unassigned", [1, 3], None)
    assert "waiting for an agent" in processor["reason"]
    for number in ("2", "-1", "x", "01", "99999999999999999999"):
        api.refused("GET", f"/v1/jobs/{name}/processors/{number}", 404, "processor_not_found")

    kinds = [event["kind"] for event in api.get(f"/v1/events?job={name}").json["items"]]
    assert kinds == ["job_created", "job_running"]
    deletion = api.delete(f"/v1/jobs/{name}", expect=202)
    assert deletion.headers["Location"] == f"/v1/operations/{deletion.json['id']}"
    assert wait_ended(api, deletion.json["id"])["state"] == "succeeded"
    api.refused("GET", f"/v1/jobs/{name}", 404, "job_not_found")
    api.refused("DELETE", f"/v1/operations/{deletion.json['id']}", 409, "operation_not_cancellable")
    assert len(broker.committed(spec["group_id"])) == PARTITIONS  # they stay


def test_contract_changes_of_a_job(api, spec, unique):
    name = unique("change")
    put_running(api, name, spec)
    path = f"/v1/jobs/{name}"
    api.refused("PUT", path, 412, "precondition_failed", spec, headers={"If-Match": '"2"'})
    api.refused("PUT", path, 412, "precondition_failed", spec, headers={"If-None-Match": "*"})
    api.refused("DELETE", path, 412, "precondition_failed", headers={"If-Match": '"2"'})
    for name_of, value in (
        ("If-Match", "1"), ("If-Match", 'W/"1"'), ("If-Match", '"1", "2"'), ("If-Match", '"x"'), ("If-None-Match", '"1"'),
    ):  # fmt: skip
        api.refused("PUT", path, 400, "invalid_header", spec, headers={name_of: value})
    api.refused("PUT", path, 400, "invalid_header", spec, headers={"If-None-Match": "*", "If-Match": "*"})

    changed = {**spec, "commit_interval_ms": 200}
    reply = api.put(path, changed, expect=200, headers={"If-Match": '"1"'})
    assert reply.headers["ETag"] == '"2"' and reply.json["spec"]["commit_interval_ms"] == 200
    assert api.get(path).json == reply.json
    api.refused("PUT", path, 412, "precondition_failed", spec, headers={"If-Match": '"1"'})
    assert api.put(path, changed, expect=200, headers={"If-Match": "*"}).headers["ETag"] == '"2"'

    for field, value in (("processors", 3), ("inputs", [spec["output"]]), ("group_id", "other"), ("delivery", "at_least_once")):
        changes = {field: value} if field != "inputs" else {"inputs": value, "output": None}
        problem = api.refused("PUT", path, 409, "immutable_field", {**changed, **changes})
        assert f"/{field}" in pointers(problem) or field in problem["detail"], problem
    api.refused("PUT", f"/v1/jobs/{unique('none')}", 412, "precondition_failed", spec, headers={"If-Match": "*"})
    api.refused("PUT", f"/v1/jobs/{unique('same')}", 409, "group_in_use", spec)
    delete_and_wait(api, name)


def test_contract_expansions_that_can_not_be(api, spec, unique):
    name = unique("expand")
    put_running(api, name, spec)
    before = api.get(f"/v1/jobs/{name}").json
    path = f"/v1/jobs/{name}/expansions"
    for body, says in (
        ({"processors": spec["processors"]}, "already"),
        ({"processors": 1}, "can not have fewer"),
        ({"processors": PARTITIONS + 1}, "would have nothing to do"),
        ({"processors": PARTITIONS + 1, "dry_run": True}, "would have nothing to do"),
    ):
        problem = api.refused("POST", path, 409, "expansion_refused", body)
        assert says in problem["detail"], problem
    for body, pointer in (
        ({}, "/processors"), ({"processors": 3, "partitions": 8}, "/processors"), ({"partitions": 0}, "/partitions"),
        ({"processors": 3, "topics": 1}, "/topics"),
    ):  # fmt: skip
        assert pointer in pointers(api.refused("POST", path, 422, "invalid_request", body)), body
    api.refused("POST", f"/v1/jobs/{unique('none')}/expansions", 404, "job_not_found", {"processors": 3})
    assert api.get(f"/v1/jobs/{name}").json == before
    delete_and_wait(api, name)


def test_contract_map_and_keys(api, broker, spec, unique):
    """Keys are placed where Java's and librdkafka's producers place them."""
    for partitioner, ours in (("murmur2_random", "murmur2"), ("consistent_random", "crc32")):
        topic = broker.create_topic(unique(ours), PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": partitioner})
        places = {}
        for i in range(200):
            producer.produce(topic, b"v", f"key-{i}", on_delivery=lambda _, m: places.update({m.key(): m.partition()}))
        producer.produce(topic, b"v", b"\x00\xff", on_delivery=lambda _, m: places.update({m.key(): m.partition()}))
        assert producer.flush(30) == 0
        name = unique(f"map-{ours}")
        put_running(api, name, {**spec, "inputs": [topic], "group_id": name, "processors": 2})

        view = api.get(f"/v1/jobs/{name}/map").json
        assert (view["partitions"], view["processors"], view["partitioner"]) == (PARTITIONS, 2, ours)
        owners = {item["partition"]: item["processor"] for item in view["items"]}
        assert owners == {p: p % 2 for p in range(PARTITIONS)}
        for i in (0, 7, 133):
            place = api.get(f"/v1/jobs/{name}/map?key=key-{i}").json
            assert place["partition"] == places[f"key-{i}".encode()]
            assert place["processor"] == owners[place["partition"]]
            assert place["path"] == [place["partition"]]
        place = api.get(f"/v1/jobs/{name}/map?key=AP8%3D&key_encoding=base64").json
        assert place["partition"] == places[b"\x00\xff"] and place["key"] == "AP8="
        if ours == "crc32":  # librdkafka puts the empty key anywhere
            api.refused("GET", f"/v1/jobs/{name}/map?key=", 409, "partitioner_opaque")
        else:
            assert api.get(f"/v1/jobs/{name}/map?key=").json["key"] == ""
        for query in ("key=a&key_encoding=hex", "key=AP8&key_encoding=base64", "key_encoding=base64"):
            api.refused("GET", f"/v1/jobs/{name}/map?{query}", 400, "invalid_query")
        delete_and_wait(api, name)


def test_contract_keys_that_nobody_can_place(api, broker, spec, unique):
    name = unique("empty")
    put_running(api, name, {**spec, "inputs": [broker.create_topic(unique("in"), 2)], "group_id": name})
    api.refused("GET", f"/v1/jobs/{name}/map?key=a", 409, "partitioner_undetermined")
    delete_and_wait(api, name)

    topic = broker.create_topic(unique("random"), 2)
    broker.produce(topic, [(f"key-{i}".encode(), b"v", 0) for i in range(100)])
    name = unique("opaque")
    put_running(api, name, {**spec, "inputs": [topic], "group_id": name})
    api.refused("GET", f"/v1/jobs/{name}/map?key=a", 409, "partitioner_opaque")
    assert "partitioner_opaque" in [each["code"] for each in api.get(f"/v1/jobs/{name}/problems").json["items"]]
    delete_and_wait(api, name)


# ---- pages and waits


def test_contract_pages(api, broker, spec, unique, topics):
    names = sorted(unique(f"page{i}") for i in range(5))
    for name in names:
        put_running(api, name, {**spec, "group_id": name, "processors": PARTITIONS})

    def pages(path, limit):
        cursor, found = "", []
        while True:
            page = api.get(f"{path}?limit={limit}{cursor}").json
            assert len(page["items"]) <= limit
            found.append(page["items"])
            if page["next"] is None:
                return found
            cursor = f"&cursor={page['next']}"

    for limit in (1, 2, 3, 1000):
        listed = [job["name"] for page in pages("/v1/jobs", limit) for job in page]
        assert listed == sorted(listed) and set(names) <= set(listed)
        numbers = [each["processor"] for page in pages(f"/v1/jobs/{names[0]}/processors", limit) for each in page]
        assert numbers == list(range(PARTITIONS))
        ids = [int(each["id"][3:]) for page in pages("/v1/operations", limit) for each in page]
        assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids) >= 5

    # A cursor stays good while the list changes: what was deleted is not there, nothing else is missed or doubled.
    first = api.get("/v1/jobs?limit=1").json
    rest = api.get(f"/v1/jobs?limit=1000&cursor={names[1]}").json["items"]
    delete_and_wait(api, names[1])
    assert api.get(f"/v1/jobs?limit=1000&cursor={names[1]}").json["items"] == rest
    assert first["items"][0]["name"] <= names[0]
    api.refused("GET", f"/v1/jobs/{names[0]}/processors?cursor=x", 400, "invalid_query")
    assert api.get(f"/v1/jobs/{names[0]}/processors?cursor=9999").json == {"items": [], "next": None}

    done = api.get(f"/v1/operations?job={names[2]}&state=succeeded").json["items"]
    assert [(each["kind"], each["job"]) for each in done] == [("create_job", names[2])]
    assert api.get(f"/v1/operations?job={names[2]}&state=failed").json["items"] == []
    for name in names[:1] + names[2:]:
        delete_and_wait(api, name)


def newest_event(api):
    """Id of the last event that there is."""
    (event,) = api.get("/v1/events?last=1").json["items"]
    return event["id"]


def test_contract_last_events_are_the_newest(api):
    for enabled in (True, False) * 2:  # there may be none but the start's yet
        api.put("/v1/maintenance", {"enabled": enabled}, expect=200)
    ids, after = [], 0
    while after is not None:
        page = api.get(f"/v1/events?after={after}&limit=1000").json
        ids += [event["id"] for event in page["items"]]
        after = page["next"]
    newest = api.get("/v1/events?last=5").json
    assert [event["id"] for event in newest["items"]] == ids[-5:] and newest["next"] is None
    assert [event["id"] for event in api.get(f"/v1/events?last=9&after={ids[-3]}").json["items"]] == ids[-2:]
    assert api.get("/v1/events?last=3&job=no-such-job").json["items"] == []


def test_contract_events_wait_for_news(api, spec, unique):
    after, name = newest_event(api), unique("events")
    started = time.monotonic()
    assert api.get(f"/v1/events?after={after}&wait=700ms").json == {"items": [], "next": None}
    assert 0.6 < time.monotonic() - started < LATE_S

    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(api.get, f"/v1/events?after={after}&wait=60s&job={name}", timeout_s=100)
        other = pool.submit(api.get, f"/v1/events?after={after}&wait=2s&job={unique('other')}", timeout_s=40)
        put_running(api, name, spec)
        events = waiting.result(LIMIT_S).json["items"]
        assert events[0]["kind"] == "job_created" and events[0]["job"] == name
        assert events[0]["actor"] == "api 127.0.0.1"
        assert other.result(LIMIT_S).json["items"] == []
    ids = [event["id"] for event in api.get(f"/v1/events?after={after}").json["items"]]
    assert ids == sorted(ids) and all(id_ > after for id_ in ids)
    delete_and_wait(api, name)


# ---- the agent protocol, spoken by hand


class HandMadeAgent:
    def __init__(self, api, agent_id):
        self.api, self.agent_id, self.incarnation = api, agent_id, str(uuid.uuid4())

    def registration(self, **changes):
        return {
            "agent_id": self.agent_id, "incarnation": self.incarnation, "protocol": 2, "protocol_minimum": 2,
            "version": "0.0.1", "address": None, "capacity": 10, "tags": [], "kept": [], **changes,
        }  # fmt: skip

    def register(self, **changes):
        """And waits until all can read of it: what agents are told is published a moment later."""
        welcome = self.api.post("/agent/v1/agents", self.registration(**changes), expect=200).json

        def shown():
            reply = self.api.get(f"/v1/agents/{self.agent_id}", expect=(200, 404))
            return reply.status == 200 and reply.json["state"] == "alive"

        wait_until(shown, LIMIT_S, f"{self.agent_id} is alive")
        return welcome

    def poll(self, after="0.0", wait="0s", expect=200):
        path = f"/agent/v1/agents/{self.agent_id}/assignment?incarnation={self.incarnation}&after={after}&wait={wait}"
        return self.api.get(path, expect=expect, timeout_s=100)

    def report_body(self, **changes):
        return {"incarnation": self.incarnation, "version": "0.0", "stopping": False, "tasks": [], **changes}

    def report(self):
        return self.api.post(f"/agent/v1/agents/{self.agent_id}/report", self.report_body(), expect=200).json

    def leave(self):
        path = f"/agent/v1/agents/{self.agent_id}?incarnation={self.incarnation}"
        self.api.delete(path, expect=204)


def test_contract_agent_protocol(api, spec, unique):
    agent, other = HandMadeAgent(api, "Hand-1"), HandMadeAgent(api, "Hand-1")
    welcome = agent.register()
    assert uuid.UUID(welcome["cluster"]) and welcome["protocol"] == 2
    agent.register()  # the answer was lost: again is fine
    first = agent.poll().json
    assert first["tasks"] == [] and first["jobs"] == []
    started = time.monotonic()
    agent.poll(first["version"], wait="600ms", expect=204)
    assert 0.5 < time.monotonic() - started < LATE_S

    name = unique("polled")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(agent.poll, first["version"], "60s")
        put_running(api, name, spec)
        document = waiting.result(LIMIT_S).json
    if [task["job"] for task in document["tasks"]] != [name, name]:
        document = wait_until(lambda: (new := agent.poll().json)["tasks"][1:] and new, LIMIT_S, "both tasks are its own")
    assert [(task["job"], task["processor"], task["role"]) for task in document["tasks"]] == [
        (name, 0, "active"),
        (name, 1, "active"),
    ]
    assert document["jobs"][0]["spec"]["inputs"] == spec["inputs"]
    assert agent.report() == {"safe_to_stop": False, "drain_refused": False, "follow": []}
    view = api.get("/v1/agents/Hand-1").json
    assert (view["state"], view["tasks"], view["tasks_active"]) == ("alive", 2, 0)
    assert "Hand-1" in [each["agent_id"] for each in api.get("/v1/agents").json["items"]]
    eligibility = "/v1/agents/Hand-1/eligibility"
    assert api.get(eligibility).json == {"schedulable": True, "reason": None, "actor": None, "changed_at": None}
    problem = api.refused("PUT", eligibility, 422, "invalid_request", {"reason": 7})
    assert sorted(pointers(problem)) == ["/reason", "/schedulable"], problem
    assert not api.put(eligibility, {"schedulable": False}, expect=200).json["schedulable"]
    assert api.get(eligibility).json == api.get("/v1/agents/Hand-1").json["eligibility"]
    assert api.put(eligibility, {"schedulable": True}, expect=200).json["schedulable"]
    assert api.get(f"/v1/jobs/{name}/processors/0").json["state"] == "assigned"

    agent.report()  # an id is held by whoever has spoken within two seconds
    reply = api.request("POST", "/agent/v1/agents", other.registration(), expect=409)
    assert reply.json["code"] == "agent_id_in_use" and int(reply.headers["Retry-After"]) >= 1
    api.refused("POST", "/agent/v1/agents/Hand-1/report", 409, "superseded", other.report_body())
    api.refused("GET", f"/agent/v1/agents/Hand-1/assignment?incarnation={other.incarnation}", 409, "superseded")
    api.refused("DELETE", f"/agent/v1/agents/Hand-1?incarnation={other.incarnation}", 409, "superseded")
    api.refused("DELETE", "/v1/agents/Hand-1", 409, "agent_still_owns")
    agent.leave()
    assert api.get("/v1/agents/Hand-1").json["state"] == "stopped"
    other.register()
    api.refused("POST", "/agent/v1/agents/Hand-1/report", 409, "superseded", agent.report_body())
    other.leave()
    api.delete("/v1/agents/Hand-1", expect=204)
    api.refused("GET", "/v1/agents/Hand-1", 404, "agent_not_found")
    delete_and_wait(api, name)


def test_contract_drain(api, spec, unique):
    """Asked for, asked for again, changed, cancelled; and what is refused."""
    leaver, other, name = HandMadeAgent(api, "Leave-1"), HandMadeAgent(api, "Leave-2"), unique("left")
    leaver.register()
    put_running(api, name, spec)
    path = "/v1/agents/Leave-1/drain"
    api.refused("GET", path, 404, "drain_not_found")
    api.refused("DELETE", path, 404, "drain_not_found")
    for pointer, body in (
        ("/deadline", {"deadline": "0s"}), ("/deadline", {"deadline": "x"}), ("/deadline", {"deadline": 5}),
        ("/deadline", {"deadline": "366d"}), ("/on_deadline", {"on_deadline": "later"}), ("/on_deadline", {"on_deadline": None}),
        ("/until_restart", {"until_restart": "yes"}), ("/reason", {"reason": "x" * 1025}), ("/reason", {"reason": 7}),
        ("/force", {"force": True}),
    ):  # fmt: skip
        assert pointers(api.refused("PUT", path, 422, "invalid_request", body)) == [pointer], body
    every = {"deadline": "0s", "on_deadline": "later", "now": 1}
    assert sorted(pointers(api.refused("PUT", path, 422, "invalid_request", every))) == ["/deadline", "/now", "/on_deadline"]
    api.refused("PUT", path, 400, "malformed_json", raw="{")
    assert "Leave-1 has 2 processors" in api.refused("PUT", path, 409, "drain_refused", {})["detail"]
    api.refused("GET", path, 404, "drain_not_found")  # a refusal leaves nothing behind

    other.register()
    api.put("/v1/agents/Leave-2/eligibility", {"schedulable": False}, expect=200)
    api.refused("PUT", path, 409, "drain_refused", {})
    api.put("/v1/agents/Leave-2/eligibility", {"schedulable": True}, expect=200)
    wish = {"deadline": "10m", "on_deadline": "cancel", "until_restart": True, "reason": "a test"}
    began = api.put(path, wish, expect=202).json
    assert {key: began[key] for key in wish} == wish and began["actor"].startswith("api "), began
    assert (began["agent"], began["state"], began["processors"], began["error"]) == ("Leave-1", "draining", 2, None), began
    assert [(each["job"], each["processor"]) for each in began["left"]] == [(name, 0), (name, 1)], began
    assert api.get("/v1/agents/Leave-1").json["drain"] == "draining"
    again = api.put(path, wish, expect=200).json
    assert (again["started_at"], again["deadline_at"]) == (began["started_at"], began["deadline_at"]), again
    assert api.get(path).json["deadline_at"] == began["deadline_at"]
    changed = api.put(path, {}, expect=202).json
    assert changed["deadline"] is None and changed["deadline_at"] is None and changed["on_deadline"] == "force", changed
    assert changed["reason"] is None and not changed["until_restart"] and changed["started_at"] == began["started_at"], changed
    cancelled = api.delete(path, expect=200).json
    assert cancelled["state"] == "cancelled" and cancelled["ended_at"] and not cancelled["safe_to_stop"], cancelled
    again = api.delete(path, expect=200).json
    assert {**again, "left": None} == {**cancelled, "left": None}, again  # what it has still goes on changing
    assert api.get(path).json["ended_at"] == cancelled["ended_at"]
    assert api.get("/v1/agents/Leave-1").json["drain"] is None

    other_path = "/v1/agents/Leave-2/drain"  # has nothing, but was to get something: it does not now, and counts for nobody else
    left = api.put(other_path, {}, expect=202).json["left"]
    assert all(each["target"] == "Leave-2" for each in left), left
    assert wait_until(lambda: api.get(other_path).json["safe_to_stop"], 60, "it is drained")
    assert api.put(other_path, {}, expect=200).json["state"] == "drained"
    api.refused("PUT", path, 409, "drain_refused", {})
    for agent in (leaver, other):
        agent.leave()  # it will not say that it has closed the tasks of a job that goes
        api.delete(f"/v1/agents/{agent.agent_id}", expect=204)
    delete_and_wait(api, name)


def test_contract_agent_that_is_newer_and_speaks_our_protocol_too(api):
    """What it says more is passed over; the version that both speak is chosen."""
    agent = HandMadeAgent(api, "Hand-5")
    welcome = agent.register(protocol=9, not_known_yet={"a": [1]})
    assert welcome["protocol"] == api.get("/version").json["protocol"] == api.get("/v1/agents/Hand-5").json["protocol"]
    agent.leave()
    api.delete("/v1/agents/Hand-5", expect=204)


def test_contract_agent_protocol_refusals(api):
    agent = HandMadeAgent(api, "Hand-2")
    newer = agent.registration(protocol=9, protocol_minimum=9, version="9.0", not_known_yet={"a": [1]})
    problem = api.refused("POST", "/agent/v1/agents", 409, "protocol_unsupported", newer)
    own = api.get("/version").json
    assert "agent Hand-2 of baton 9.0 speaks version 9 " in problem["detail"], problem
    assert f"this coordinator version {own['protocol']}: upgrade the coordinator" in problem["detail"], problem
    for pointer, changes in (
        ("/agent_id", {"agent_id": "no spaces"}), ("/incarnation", {"incarnation": "x"}), ("/capacity", {"capacity": 0}),
        ("/nonsense", {"nonsense": 1}), ("/tags/0/name", {"tags": [{"name": "", "value": ""}]}),
    ):  # fmt: skip
        problem = api.refused("POST", "/agent/v1/agents", 422, "invalid_request", agent.registration(**changes))
        assert pointer in pointers(problem), problem
    incarnation = f"incarnation={agent.incarnation}"
    api.refused("GET", f"/agent/v1/agents/Hand-2/assignment?{incarnation}", 404, "agent_unknown")
    api.refused("POST", "/agent/v1/agents/Hand-2/report", 404, "agent_unknown", agent.report_body())
    api.refused("DELETE", f"/agent/v1/agents/Hand-2?{incarnation}", 404, "agent_unknown")
    api.refused("GET", "/agent/v1/agents/no%20spaces/assignment?" + incarnation, 404, "agent_unknown")
    for query in ("", "incarnation=x", f"{incarnation}&after=3", f"{incarnation}&wait=2m", f"{incarnation.upper()}"):
        api.refused("GET", f"/agent/v1/agents/Hand-2/assignment?{query}", 400, "invalid_query")


def test_contract_reports_with_any_numbers(api, spec, unique):
    """Whatever an agent says of its tasks, what readers get is of the agreed form."""
    seed = 17
    random_ = random.Random(seed)
    name, agent = unique("numbers"), HandMadeAgent(api, "Hand-4")
    agent.register()
    job = put_running(api, name, spec)
    document = agent.poll().json
    most = 2**63 - 1
    for round_ in range(60):

        def number():
            return random_.choice([0, 1, 7, most, most - 1, random_.randrange(most)])

        def offset():
            return random_.choice([None, None, number(), number(), number()])

        def task(wanted):
            progress = [
                {"topic": random_.choice([0, 0, 0, 15]), "partition": random_.choice([*wanted["read"], 9999]),
                 **{field: offset() for field in ("t0", "t1", "t2", "log_start", "stable_end", "end")}}
                for _ in range(random_.randrange(4))
            ]  # fmt: skip
            counters = ("records", "outputs", "replayed", "skipped_null_key", "skipped_error", "dead_lettered", "commits",
                        "aborts", "state_rows", "state_bytes")  # fmt: skip
            return {
                "job": random_.choice([name, name, name, "none"]),
                "job_incarnation": random_.choice([job["incarnation"]] * 3 + [str(uuid.uuid4())]),
                "processor": random_.choice([wanted["processor"]] * 3 + [9999]),
                "role": random_.choice(["learner", "standby", "active", "active"]),
                "state": random_.choice(
                    ["opening", "seeding", "learning", "caught_up", "replaying", "active", "active", "active", "releasing",
                     "closed", "fenced", "failed"]
                ),
                "epoch": random_.choice([wanted["epoch"]] * 4 + [0, most]),
                "handoff": 0,
                "consuming": wanted["owned"],
                "progress": progress,
                "problems": [{"code": random_.choice(["record_failed", "never-heard-of"]), "detail": "\u2026" * 300,
                              "since_at": "2026-11-29T18:12:03.123Z"}] * random_.randrange(3),
                "records_per_s": random_.choice([0, 0.5, 1e12]),
                "replayed_per_s": random_.choice([0, 0.5, 1e12]),
                **{counter: number() for counter in counters},
            }  # fmt: skip

        tasks = [task(wanted) for wanted in document["tasks"] if random_.random() < 0.9]
        path = "/agent/v1/agents/Hand-4/report"
        reply = api.request("POST", path, agent.report_body(tasks=tasks, version=document["version"]), expect=(200, 422))
        assert reply.status == 200, f"seed {seed}, round {round_}: {reply}"
        for part in ("status", "problems", "processors", "map"):
            api.get(f"/v1/jobs/{name}/{part}")
        api.get("/metrics")
        document = agent.poll().json
    agent.leave()
    api.delete("/v1/agents/Hand-4", expect=204)
    delete_and_wait(api, name)


def test_contract_random_requests(shared, api, spec):
    """Requests that are damaged at random are refused, or understood; nothing else happens."""
    seed = 23
    random_ = random.Random(seed)
    body = as_json(spec)
    requests = [
        f"PUT /v1/jobs/Fuzz HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}",
        "GET /v1/jobs?limit=10&cursor=a HTTP/1.1\r\nHost: h\r\nIf-Match: \"1\"\r\n\r\n",
        "GET /v1/events?after=0&limit=3 HTTP/1.1\r\nHost: h\r\n\r\n",
        f"POST /agent/v1/agents HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\n{\"a\":\r\n3\r\n1}}\r\n0\r\n\r\n",
    ]  # fmt: skip

    def damage():
        damaged = bytearray(random_.choice(requests).encode())
        for _ in range(random_.randrange(1, 6)):
            at = random_.randrange(len(damaged))
            kind = random_.randrange(4)
            if kind == 0:
                damaged[at] = random_.randrange(256)
            elif kind == 1:
                del damaged[at : at + random_.randrange(1, 20)]
            elif kind == 2:
                damaged[at:at] = bytes(random_.randrange(256) for _ in range(random_.randrange(1, 10)))
            else:
                damaged[at:at] = damaged[at : at + random_.randrange(1, 60)]
            if not damaged:
                break
        return bytes(damaged)

    def ask(damaged):
        with dial(shared.address) as connection:
            connection.sendall(damaged)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        assert answer == b"" or answer.startswith(b"HTTP/1."), f"seed {seed}: {damaged!r}: {answer[:100]!r}"
        status = int(answer.split()[1]) if answer else 0
        # 503: a whole request that waited for the owner thread when its client's end was seen.
        assert status < 500 or status in (501, 503, 505), f"seed {seed}: {damaged!r}: {answer[:300]!r}"

    # Side by side: what lacks its end is given up only after some seconds.
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for _ in pool.map(ask, [damage() for _ in range(500)]):
            pass
    assert api.get("/v1/jobs").status == 200


# ---- many and slow clients


def dial(address, limit_s=60):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=limit_s)


def test_contract_1000_slow_connections_block_nobody(shared, api):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    starts = (b"", b"GET /v1/jo", b"PUT /v1/jobs/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n{")
    slow = []
    try:
        for i in range(1000):
            slow.append(dial(shared.address))
            slow[-1].sendall(starts[i % len(starts)])
        wait_until(
            lambda: shared.metrics()["baton_http_connections"] >= 1000, GIVEN_UP_S, "the coordinator holds 1000 connections"
        )
        worst = 0.0
        for i in range(100):
            started = time.monotonic()
            api.get("/v1/jobs")
            api.refused("PUT", "/v1/jobs/bad", 422, "invalid_request", {})
            worst = max(worst, time.monotonic() - started)
            assert worst < GIVEN_UP_S, "it has waited for the slow ones"
            for connection in slow[i * 10 : i * 10 + 10]:
                connection.sendall(b" ")
    finally:
        for connection in slow:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: shared.metrics()["baton_http_connections"] < 100, 20, "they are gone")


def test_contract_slow_senders_are_closed(shared):
    """One byte a second forever is not a request."""
    with dial(shared.address, 90) as connection:
        connection.sendall(b"PUT /v1/jobs/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n")
        started = time.monotonic()
        connection.settimeout(1)
        while time.monotonic() - started < 60:
            try:
                connection.sendall(b"x")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert GIVEN_UP_S < time.monotonic() - started < 50


def test_contract_clients_that_stop_waiting_are_forgotten(shared, api):
    agent = HandMadeAgent(api, "Hand-3")
    agent.register()
    version = agent.poll().json["version"]
    connections = []
    paths = [f"/v1/events?after={2**60}&wait=60s"] * 20
    paths += [f"/agent/v1/agents/Hand-3/assignment?incarnation={agent.incarnation}&after={version}&wait=60s"]
    before = shared.metrics()["baton_http_waiting_requests"]
    for path in paths:
        connections.append(dial(shared.address))
        connections[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    wait_until(lambda: shared.metrics()["baton_http_waiting_requests"] == before + 21, 60, "all of them wait")
    for connection in connections:
        connection.close()
    wait_until(lambda: shared.metrics()["baton_http_waiting_requests"] == before, 60, "nobody waits")
    agent.leave()
    api.delete("/v1/agents/Hand-3", expect=204)


# ---- metrics


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$')


def test_contract_metrics_are_well_formed(shared, api, spec, unique):
    name = unique("metrics")
    put_running(api, name, spec)
    reply = api.get("/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    types, helps, seen = {}, set(), set()
    family = None
    for line in reply.body.decode().splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in helps and len(line.split()) > 3
            helps.add(family)
        elif line.startswith("# TYPE "):
            _, _, named, kind = line.split()
            assert named == family and kind in ("counter", "gauge", "histogram")
            types[named] = kind
        else:
            sample = SAMPLE.match(line)
            assert sample, line
            base = re.sub(r"_(bucket|sum|count)$", "", sample[1]) if types[family] == "histogram" else sample[1]
            assert base == family and family.startswith("baton_"), line
            assert types[family] != "counter" or family.endswith("_total"), line
            assert (sample[1], sample[2]) not in seen, line
            seen.add((sample[1], sample[2]))
            float(sample[3])
    values = shared.metrics()
    assert values[f'baton_processors{{job="{name}",state="unassigned"}}'] == 2
    assert values[f'baton_problems{{job="{name}",code="no_agent"}}'] == 2
    assert values['baton_http_requests_total{method="PUT",route="/v1/jobs/{job}",status="201"}'] >= 1
    assert values["baton_store_commit_seconds_count"] > 0 and values["baton_decisions_total"] > 0
    assert values['baton_kafka_calls_total{call="inspect"}'] >= 1
    delete_and_wait(api, name)


# ---- starting, stopping, crashing


@pytest.mark.parametrize(
    "options, says",
    [
        ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers: is required"),
        ({"kafka.no.such.thing": "1"}, "kafka.no.such.thing"),
        ({"kafka.security.protocol": "carrier-pigeon"}, "kafka.security.protocol"),
        ({"listen": "127.0.0.1"}, "listen"),
        ({"listen": "192.0.2.1:0"}, "listen"),
        ({"listen": "no-such-host.invalid:0"}, "listen"),
        ({"database": "/proc/baton/baton.db"}, "database"),
        ({"database": "/"}, "database"),
        ({"agent_timeout": "never"}, "agent_timeout"),
        ({"agent_timeout": "999ms"}, "agent_timeout"),
        ({"report_interval": "1001ms"}, "report_interval"),
        ({"agent_timeout": "1s", "report_interval": "501ms"}, "report_interval"),
        ({"log_level": "loud"}, "log_level"),
        ({"http_connections_max": "1"}, "http_connections_max"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_contract_broken_config_names_the_key(daemons, options, says):
    coordinator = daemons.coordinator(start=False)
    coordinator.options.update(options)
    coordinator.options = {key: value for key, value in coordinator.options.items() if value is not None}
    coordinator.start(ready=None)
    assert coordinator.wait_exit(20) == 1
    assert says in coordinator.log_text()


def test_contract_address_and_database_are_taken_once(daemons, tmp_path):
    first = daemons.coordinator()
    second = daemons.coordinator(name="second", start=False, listen=first.address)
    second.start(ready=None)
    assert second.wait_exit(20) == 1
    assert "listen" in second.log_text() and first.address in second.log_text()
    third = daemons.coordinator(name="third", start=False)  # on the same database
    third.start(ready=None)
    assert third.wait_exit(20) == 1
    assert "database" in third.log_text()
    first.http.get("/v1/jobs")


def test_contract_foreign_database_is_refused_and_kept(daemons, tmp_path):
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(b"not a database at all\n" * 100)
    coordinator = daemons.coordinator(start=False, database=foreign)
    coordinator.start(ready=None)
    assert coordinator.wait_exit(20) == 1
    assert "database" in coordinator.log_text() and str(foreign) in coordinator.log_text()
    assert foreign.read_bytes() == b"not a database at all\n" * 100


def test_contract_listening_beyond_loopback_is_warned_about(daemons):
    coordinator = daemons.coordinator(start=False, listen="0.0.0.0:0")
    coordinator.start(ready=None)
    assert len(coordinator.log_events("listen_not_loopback")) <= 1
    coordinator.wait_log("listen_not_loopback")
    coordinator.wait_log("listening")
    assert coordinator.stop() == 0


def test_contract_tells_systemd(daemons, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        notify.settimeout(20)
        coordinator = daemons.coordinator(environment={"NOTIFY_SOCKET": path})
        assert notify.recv(100) == b"READY=1"
        assert coordinator.stop() == 0
        assert notify.recv(100) == b"STOPPING=1"


def test_contract_stop_answers_who_waits(daemons):
    coordinator = daemons.coordinator()
    client = CheckedClient(coordinator.address)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = [pool.submit(client.request, "GET", f"/v1/events?after={2**60}&wait=60s", timeout_s=70) for _ in range(5)]
        wait_until(lambda: coordinator.metrics()["baton_http_waiting_requests"] == 5, 60, "five wait")
        assert coordinator.stop() == 0  # within half of what they would wait
        for each in waiting:
            assert (each.result(10).status, each.result(10).json["code"]) == (503, "starting")


@pytest.mark.timeout(300)
def test_contract_without_kafka_reads_work_and_writes_say_why(daemons, own_broker, spec):
    broker = own_broker()
    broker.create_topic("in", 2)
    broker.stop()
    coordinator = daemons.coordinator(bootstrap=broker.bootstrap, start=False)
    coordinator.start(ready="/healthz")
    api = CheckedClient(coordinator.address)
    api.refused("GET", "/readyz", 503, "kafka_unavailable")
    assert api.get("/v1/jobs").json["items"] == []
    lonely = {**spec, "inputs": ["in"], "output": None}
    api.refused("PUT", "/v1/jobs/lonely", 503, "kafka_unavailable", lonely, timeout_s=60)
    broker.start()
    coordinator.wait_ready(limit_s=LIMIT_S)

    def accepted():  # not before the broker has loaded the log of transactions
        return api.put("/v1/jobs/lonely", lonely, expect=(201, 503), timeout_s=60).status == 201

    wait_until(accepted, LIMIT_S, "lonely is created")
    wait_until(lambda: api.get("/v1/jobs/lonely").json["state"] == "running", LIMIT_S, "lonely is running")
    broker.stop()
    assert api.get("/readyz").status == 200  # what it has is durable and readable; Kafka comes back
    assert api.get("/v1/jobs/lonely").json["state"] == "running"
    assert coordinator.stop() == 0  # within the limit, although Kafka is away


@pytest.mark.timeout(300)
def test_contract_kill_during_creation_leaves_all_or_nothing(daemons, broker, unique):
    """kill -9 at moments spread over a PUT: the job is not there, or it ends RUNNING with its offsets committed."""
    coordinator = daemons.coordinator()
    outcomes = set()
    answer = None  # the last moment is that of the answer, however long it takes
    for round_, moment_ms in enumerate((0, 5, 10, 15, 20, 30, 45, 70, 120, 250, 500, answer)):
        job = Job(broker, coordinator, lambda word: unique(f"{word}{round_}"), partitions=2)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            put = pool.submit(coordinator.http.request, "PUT", f"/v1/jobs/{job.name}", job.spec)
            if moment_ms is answer:
                assert put.result(30).status == 201
            else:
                time.sleep(moment_ms / 1000)  # the moment is what the test varies, not something that it waits for
            coordinator.kill()
            try:
                answered = put.result(30).status
            except (OSError, http.client.HTTPException):
                answered = None
        coordinator.start()
        api = CheckedClient(coordinator.address)
        reply = api.request("GET", f"/v1/jobs/{job.name}", expect=(200, 404))
        assert answered is None or reply.status == 200, "answered 201, and then it was gone"
        outcomes.add(reply.status)
        if reply.status == 200:
            job.wait_running()
            assert {offset for offset, _ in job.committed().values()} == {0}
            assert len(job.committed()) == 2
    assert outcomes == {200, 404}, "the moments did not hit both sides"


def test_contract_sigstop_is_survived(daemons):
    coordinator = daemons.coordinator()
    coordinator.pause()
    with dial(coordinator.address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        coordinator.resume()
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    coordinator._child.send_signal(signal.SIGINT)
    assert coordinator.wait_exit() == 0
