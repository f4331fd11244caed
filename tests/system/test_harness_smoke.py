"""The harness itself, on a real broker: loads are exact, the oracle sees what a stand-in for baton writes, proxies and
brokers misbehave as told."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

import process
from daemons import Daemon, parse_logfmt
from oracle import check_outputs, read_input_offsets
from proxy import DOWN, UP, TcpProxy
from waiting import wait_until

RECORDS = 20_000
KEYS = 1_000


def count_job(bootstrap, source, sink, total, fault=None):
    """What a `count` job does, by the plainest means: one transaction per batch. `fault(outputs)` may spoil the outputs."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stand-in", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": sink, "partitioner": "murmur2_random"})
    producer.init_transactions(30)
    consumer.subscribe([source])
    state, outputs = {}, []
    deadline = time.monotonic() + 60
    while len(outputs) < total:
        assert time.monotonic() < deadline, f"only {len(outputs)} of {total} were read"
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None, message.error()
            key = message.key()
            state[key] = state.get(key, 0) + 1
            headers = [("baton-topic", message.topic().encode()), ("baton-partition", b"%d" % message.partition()),
                       ("baton-offset", b"%d" % message.offset())]
            outputs.append((key, b"%d" % state[key], headers))
    consumer.close()
    outputs = fault(outputs) if fault else outputs
    producer.begin_transaction()
    for key, value, headers in outputs:
        producer.produce(sink, value, key, headers=headers)
        producer.poll(0)
    producer.commit_transaction(30)
    return len(outputs)


@pytest.fixture
def topics(broker, unique):
    return broker.create_topic(unique("in"), 4), broker.create_topic(unique("out"), 4)


def test_load_and_oracle(broker, topics, loads):
    source, sink = topics
    sent = loads(broker.bootstrap, source, keys=KEYS, seed=1, total=RECORDS).wait(60)
    assert sent.total == RECORDS
    assert sum(broker.end_offsets(source).values()) == RECORDS
    assert broker.end_offsets(source) == {p: sent.partitions.get(p, 0) for p in range(4)}

    count_job(broker.bootstrap, source, sink, RECORDS)
    verdict = check_outputs(broker.bootstrap, sink, sent, 60, quiet_s=0.2, provenance_of=[source])
    assert verdict.assert_exact().total == RECORDS


def test_oracle_finds_faults_on_a_broker(broker, topics, loads):
    source, sink = topics
    sent = loads(broker.bootstrap, source, keys=KEYS, seed=2, total=RECORDS).wait(60)

    def spoil(outputs):
        del outputs[100]
        outputs.append(outputs[500])
        return outputs

    count_job(broker.bootstrap, source, sink, RECORDS, spoil)
    verdict = check_outputs(broker.bootstrap, sink, sent, 60, quiet_s=0.2, provenance_of=[source])
    assert (verdict.lost, verdict.doubled, verdict.misordered) == (2, 2, 0), verdict  # both checks see both


def test_oracle_ignores_aborted_outputs(broker, topics):
    source, sink = topics
    broker.produce(source, [(b"a", b"x"), (b"a", b"y"), (None, b"z")])
    broker.produce(sink, [(b"a", b"1"), (b"a", b"2")], transactional_id=sink, abort=True)
    broker.produce(sink, [(b"a", b"1"), (b"a", b"2")], transactional_id=sink)
    check_outputs(broker.bootstrap, sink, {b"a": 2}, 20, quiet_s=0.2).assert_exact()
    assert sum(len(offsets) for offsets in read_input_offsets(broker.bootstrap, source).values()) == 2


def test_load_at_a_rate(broker, topics, loads):
    load = loads(broker.bootstrap, topics[0], keys=10, seed=3, rate=1000)
    began = time.monotonic()
    wait_until(lambda: load.sent_so_far >= 1500, 30, "1,500 records sent")
    sent = load.stop()
    assert sent.total >= 1500
    assert sent.total <= 1000 * (time.monotonic() - began) + 1000, "the load runs ahead of its rate"
    assert sum(broker.end_offsets(topics[0]).values()) == sent.total


def test_load_that_fails_is_an_error(broker, unique, loads):
    load = loads(broker.bootstrap, unique("missing"), keys=10, seed=4, total=10, config={"message.timeout.ms": 2000})
    with pytest.raises(AssertionError, match="the load failed: "):
        load.wait(60)


@pytest.mark.timeout(400)  # two starts of a broker
def test_broker_survives_pause_and_kill(own_broker, unique):
    broker = own_broker()
    topic = broker.create_topic(unique("in"), 2)
    broker.produce(topic, [(b"a", b"1", 0), (b"b", b"2", 1)])
    broker.pause()
    with pytest.raises(KafkaException, match="_TRANSPORT|_TIMED_OUT"):
        broker.admin.list_topics(topic, timeout=1)
    broker.resume()
    broker.kill()
    broker.start()
    assert broker.end_offsets(topic) == {0: 1, 1: 1}
    broker.expand_topic(topic, 3)
    broker.delete_records(topic, 0, 1)
    assert broker.start_offsets(topic) == {0: 1, 1: 0, 2: 0}


def test_broker_behind_a_proxy(broker, topics):
    """All connections of a client that starts at the proxy go through it, so holding it stops the client."""
    proxy = broker.proxy(0)
    results = []
    producer = Producer({"bootstrap.servers": proxy.address, "log_level": 2})

    def send(value):
        producer.produce(topics[0], value, b"key", on_delivery=lambda error, _: results.append(error))

    send(b"before")
    assert producer.flush(60) == 0 and results == [None]
    proxy.hold(UP)
    up_bytes = proxy.passed_bytes(UP)
    send(b"held")
    assert producer.flush(1) == 1 and len(results) == 1
    assert proxy.passed_bytes(UP) == up_bytes
    proxy.heal()
    assert producer.flush(60) == 0 and results == [None, None]
    proxy.cut()
    send(b"cut off")
    assert producer.flush(1) == 1
    proxy.heal()
    assert producer.flush(60) == 0 and results == [None] * 3


class Echo:
    """A server that sends back what it gets."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    @staticmethod
    def _echo(connection):
        with connection:
            try:
                while data := connection.recv(4096):
                    connection.sendall(data)
            except OSError:
                pass


def test_proxy_modes():
    echo = Echo()
    proxy = TcpProxy(echo.port)
    try:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as line:
            line.sendall(b"one")
            assert line.recv(10) == b"one"

            proxy.hold(DOWN)
            line.sendall(b"two")
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(10)
            proxy.heal()
            line.settimeout(60)
            assert line.recv(10) == b"two"

            proxy.delay(0.3)
            began = time.monotonic()
            line.sendall(b"three")
            assert line.recv(10) == b"three"
            assert time.monotonic() - began >= 0.55, "the delay counts in both directions"

            proxy.heal()
            proxy.drop(UP)
            line.sendall(b"four")
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(10)
            line.settimeout(60)
            proxy.heal()
            assert line.recv(10) == b"", "a line that lost bytes is closed"
        proxy.cut()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as line:
            assert line.recv(10) == b""
        proxy.heal()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as line:
            line.sendall(b"five")
            assert line.recv(10) == b"five"
    finally:
        proxy.close()
        echo.listener.close()


STAND_IN = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(options.get("exit_code", "0"))))
options = dict(line.strip().split(" = ", 1) for line in open(sys.argv[2]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/readyz", "/metrics") else 404)
        self.end_headers()
        self.wfile.write(b'# TYPE x counter\\nx{a="b c"} 3\\n')
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f'ts=1 level=info event=listening address=127.0.0.1:{server.server_port} text="a \\\\"b\\\\" c"', file=sys.stderr, flush=True)
server.serve_forever()
"""


class StandIn(Daemon):
    program = "stand-in"

    def __init__(self, directory, **options):
        super().__init__("stand-in", directory, options)
        script = directory / "stand_in.py"
        script.write_text(STAND_IN)
        self.binary = directory / "stand-in"
        self.binary.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        self.binary.chmod(0o755)


def test_daemon_life_cycle(tmp_path):
    daemon = StandIn(tmp_path).start()
    assert daemon.log_events("listening")[0]["text"] == 'a "b" c'
    assert daemon.metrics() == {'x{a="b c"}': 3.0}
    daemon.http.get("/missing", expect=404)
    with pytest.raises(AssertionError, match="expected 200, got 404"):
        daemon.http.get("/missing")
    first = daemon.address
    daemon.restart()
    assert daemon.running and len(daemon.log_events("listening")) == 1
    assert len(daemon.log_events("listening", whole=True)) == 2 and first
    daemon.pause()
    with pytest.raises(OSError):
        daemon.http.get("/readyz", timeout_s=0.3)
    daemon.resume()
    daemon.wait_ready()
    daemon.kill()
    assert daemon.finish() == []


def test_daemon_faults_are_found(tmp_path):
    daemon = StandIn(tmp_path, exit_code=3).start()
    assert daemon.finish() == ["stand-in ended with 3 after SIGTERM"]
    daemon.start()
    daemon._child.send_signal(signal.SIGKILL)  # behind the harness's back
    daemon._child.wait()
    assert daemon.finish() == ["stand-in ended by itself with -9"]
    with pytest.raises(AssertionError, match="ended with"):
        daemon.binary.write_text("#!/bin/sh\nexit 7\n")
        daemon.start()
    assert daemon.wait_exit() == 7


def test_logfmt():
    line = 'ts=1 level=info event=x job="a b" text="say \\"hi\\"\\nthere" epoch=17 empty="" eq="a=b"'
    assert parse_logfmt(line) == {
        "ts": "1", "level": "info", "event": "x", "job": "a b", "text": 'say "hi"\nthere', "epoch": "17", "empty": "",
        "eq": "a=b",
    }  # fmt: skip


def test_children_die_with_the_run(tmp_path):
    """A test run that is killed leaves nothing behind."""
    script = (
        "import pathlib, process, time\n"
        "child = process.start(['sleep', '600'], 'log')\n"
        "pathlib.Path('pid').write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    run = process.start([sys.executable, "-c", script], tmp_path / "run.log", environment, tmp_path)
    pid_file = tmp_path / "pid"
    pid = int(wait_until(lambda: pid_file.exists() and pid_file.read_text(), 60, "the child's pid"))
    run.kill()
    run.wait()

    def gone():
        state = subprocess.run(["cat", f"/proc/{pid}/stat"], capture_output=True, text=True).stdout
        return not state or " Z " in state

    wait_until(gone, 60, f"process {pid} is gone")
