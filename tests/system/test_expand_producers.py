"""The partitioner for producers, in C and in Java: the vectors, what is installed, and records on a real broker while their topic grows
by one partition at a time. What is right is told by tests/golden/make_partitions.py, which shares no code with either."""

import collections
import importlib.util
import itertools
import os
import re
import subprocess
import zlib

import pytest

import process
from daemons import ROOT
from expanding import assert_in_order
from jobs import Job
from oracle import TopicReader, check_outputs
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

DOCS = (ROOT / "docs/producers.md").read_text(encoding="utf-8")
INITIAL = 4
COUNTS = (4, 5, 6, 7)
KEYS = [f"customer-{number}" for number in range(150)] + [f"ключ {number}" for number in range(50)]
KEYLESS = 5  # of each producer with each count
LIMIT_S = 60  # for whatever must come


def load_golden():
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tests/golden/make_partitions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = load_golden()
BUCKETS = {count: golden.Buckets(INITIAL, count) for count in range(INITIAL, max(COUNTS) + 2)}


def place(key, count, hash_name):
    data = key.encode()
    return BUCKETS[count].find(zlib.crc32(data) if hash_name == "crc32" else golden.murmur2(data) & 0x7FFFFFFF)


def java_command(program, *arguments):
    """A source file as it stands, with the jar and Kafka's client (and what it logs with)."""
    (jar,) = (ROOT / "build/lib").glob("baton-partitioner-*.jar") or pytest.fail("run make producer-java")
    shell = f'. scripts/env.sh; exec java -XX:TieredStopAtLevel=1 -cp "{jar}:$KAFKA_LIBS/*" "$@"'
    return ["bash", "-c", shell, "java", program, *arguments]


def run(command, **options):
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=100, **options)


def code_block(language):
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCS, re.M | re.S)
    return block


# ---- without a broker

def test_expand_producers_vectors_are_up_to_date():
    done = run(["python3", "tests/golden/make_partitions.py", "--check"])
    assert done.returncode == 0, done.stderr


def test_expand_producers_java_class():
    """tests/java/PartitionerTest.java says what it checks."""
    done = run(java_command("tests/java/PartitionerTest.java", "tests/golden/partitions.txt"))
    assert done.returncode == 0, done.stderr
    assert int(re.fullmatch(r"(\d+) keys checked\n", done.stdout)[1]) >= 10_000


def test_expand_producers_formula_of_the_docs():
    names = {}
    exec(code_block("python"), names)
    for count, buckets in BUCKETS.items():
        for value in range(200):
            assert names["partition"](value, INITIAL, count) == buckets.find(value)


def test_expand_producers_are_installed(tmp_path):
    """The header, both libraries and the pkg-config file, as the example of the docs uses them; and no name that is not ours."""
    prefix = tmp_path / "usr"
    done = run(["make", "-o", "all", "install", f"PREFIX={prefix}", "DESTDIR="])  # -o: what is there is not built again
    assert done.returncode == 0, done.stderr
    (tmp_path / "docs.c").write_text(code_block("c") + MAIN)
    where = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig:{os.environ.get('PKG_CONFIG_PATH', '')}"}
    flags = run(["pkg-config", "--cflags", "--libs", "baton-partitioner"], env=where)
    assert flags.returncode == 0, flags.stderr
    static = flags.stdout.replace("-lbaton-partitioner", str(prefix / "lib/libbaton-partitioner.a"))
    for name, libraries in (("shared", [*flags.stdout.split(), f"-Wl,-rpath,{prefix}/lib"]), ("static", static.split())):
        built = run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / name, tmp_path / "docs.c", *libraries])
        assert built.returncode == 0, built.stderr
        assert run([tmp_path / name]).stdout == "opened\n"
    assert "libbaton-partitioner.so.0" in run(["ldd", tmp_path / "shared"]).stdout
    assert "libbaton-partitioner" not in run(["ldd", tmp_path / "static"]).stdout
    exported = run(["nm", "--extern-only", "--defined-only", "--format=just-symbols", prefix / "lib/libbaton-partitioner.a"])
    dynamic = run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", prefix / "lib/libbaton-partitioner.so"])
    for names in (exported, dynamic):
        symbols = [name for name in names.stdout.split() if not name.endswith(":")]
        assert sorted(symbols) == ["baton_partitioner_callback", "baton_partitioner_partition", "baton_partitioner_set"]


MAIN = """
int main(void)
{
    rd_kafka_t *producer = open_producer(rd_kafka_conf_new());
    if (producer == NULL)
        return 1;
    puts("opened");
    rd_kafka_destroy(producer);
    return 0;
}
"""


# ---- on a real broker

class Sender:
    """One of the example programs, which sends the lines that it is given and prints where they went."""

    def __init__(self, name, command, folder):
        self.name = name
        self._out = folder / f"{name}.log"
        self._child = process.start(command, self._out, directory=ROOT, stdin=subprocess.PIPE)
        self._sent = 0

    def send(self, records):
        """(key or None, value) each; returns the partition of each key, once all are acknowledged."""
        lines = [value if key is None else f"{key}\t{value}" for key, value in records]
        self._child.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._child.stdin.flush()
        first = self._sent
        self._sent += len(lines)
        done = wait_until(self._acknowledged, LIMIT_S, f"{self.name} has sent {self._sent} records")[first:]
        return {key: partition for partition, key in done}

    def _acknowledged(self):
        text = self._out.read_text(encoding="utf-8")
        assert self._child.poll() is None, text
        found = re.findall(r"^(\d+) \d+ (.*)\n", text, re.M)
        return [(int(partition), key) for partition, key in found] if len(found) >= self._sent else None

    def close(self):
        self._child.stdin.close()
        self._child.wait(LIMIT_S)
        assert self._child.returncode == 0, self._out.read_text()

    def end(self):
        process.end(self._child)


@pytest.fixture
def senders(broker, tmp_path):
    made = []

    def start(topic, hash_name):
        settings = dict(line.split("=") for line in code_block("properties").split())
        settings |= {"baton.hash": hash_name, "metadata.max.age.ms": "500", "linger.ms": "0"}
        assert settings["baton.initial.partitions"] == str(INITIAL)
        c = ["build/examples/send", broker.bootstrap, topic, INITIAL, hash_name, "topic.metadata.refresh.interval.ms=500"]
        java = java_command("examples/producer/Send.java", broker.bootstrap, topic, *(f"{n}={v}" for n, v in settings.items()))
        made.extend(Sender(name, command, tmp_path) for name, command in (("c", c), ("java", java)))
        return made

    yield start
    for each in made:
        each.end()


def wait_for_partitions(sender, count, hash_name):
    """Until the producer knows the newest partition: it goes to the old place of a key until then, and to no third one."""
    key = next(key for key in KEYS if place(key, count, hash_name) == count - 1)
    before = place(key, count - 1, hash_name)

    def moved():
        at = sender.send([(key, "probe")])[key]
        assert at in (before, count - 1), f"{sender.name}: {key} with {count} partitions is in {at}"
        return at == count - 1

    wait_until(moved, LIMIT_S, f"{sender.name} sees partition {count - 1}")


def test_expand_producers_keep_the_order_of_a_job_that_grows(broker, daemons, unique, senders, hash_name="murmur2"):
    """4 -> 5 -> 6 -> 7 while the C library and the Java class write: exact, and each key in its producer's order.

    Nobody knows when they hear of a new partition: `settle` is longer than that.
    """
    job = Job(broker, daemons.coordinator(), unique, INITIAL, INITIAL // 2, partitioner=hash_name, settle="5m")
    job.create()
    daemons.agent(job.coordinator)
    job.wait_active()
    running = senders(job.input, hash_name)
    number = itertools.count()

    def write():
        for sender in running:
            sender.send([(f"{sender.name}-{key}", str(next(number))) for key in KEYS])

    for count in COUNTS:
        if count > INITIAL:
            assert job.wait_operation(job.expand(partitions=count))["state"] == "succeeded"
            write()  # they may know of it, or not
            for sender in running:
                wait_for_partitions(sender, count, hash_name)
        write()
    for sender in running:
        sender.close()
    sent = count_keys(broker, job.input)
    assert sum(sent.values()) > 2 * len(KEYS) * len(COUNTS)
    check_outputs(broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input]).assert_exact()
    for sender in running:
        assert assert_in_order(broker.bootstrap, job.input, job.output, prefix=f"{sender.name}-") > len(KEYS) // 10


def count_keys(broker, topic):
    """{key: how many of its records are in the topic}."""
    reader, found = TopicReader(broker.bootstrap, topic), collections.Counter()
    try:
        while not reader.at_end:
            found.update(record.key() for record in reader.read())
    finally:
        reader.close()
    return found


@pytest.mark.parametrize("hash_name", ["murmur2", "crc32"])
def test_expand_producers_place_records(broker, unique, senders, hash_name):
    """A topic goes from 4 to 7 partitions under running producers: each record is where linear hashing puts it with so many."""
    topic = broker.create_topic(unique("in"), INITIAL)
    running = senders(topic, hash_name)
    for count in COUNTS:
        if count > INITIAL:
            broker.expand_topic(topic, count)
        for sender in running:
            if count > INITIAL:
                wait_for_partitions(sender, count, hash_name)
            sender.send([(key, f"{sender.name} {count}") for key in KEYS] + [(None, f"{sender.name} {count}")] * KEYLESS)
    for sender in running:
        sender.close()

    placed, keyless = {}, 0
    reader = TopicReader(broker.bootstrap, topic)
    try:
        while not reader.at_end:
            for record in reader.read():
                if record.value() == b"probe":
                    continue
                if record.key() is None:
                    keyless += 1
                    continue
                name, count = record.value().decode().split()
                at = (name, int(count), record.key().decode())
                assert at not in placed, f"{at} is there twice"
                placed[at] = record.partition()
    finally:
        reader.close()
    expected = {(sender.name, count, key): place(key, count, hash_name) for sender in running for count in COUNTS for key in KEYS}
    wrong = {at: (placed.get(at), expected[at]) for at in expected if placed.get(at) != expected[at]}
    assert not wrong, (len(wrong), list(wrong.items())[:5])
    assert placed.keys() == expected.keys() and keyless == KEYLESS * len(running) * len(COUNTS)
    assert set(expected.values()) == set(range(max(COUNTS))), "the keys do not reach every partition"


def test_expand_producers_refuse_what_has_no_place(broker, unique):
    """Fewer partitions than N0, and no N0 at all: refused with what is wrong, and nothing is written."""
    topic = broker.create_topic(unique("in"), 3)
    for command, complaint in (
        (["build/examples/send", broker.bootstrap, topic, INITIAL, "murmur2"], "Local: Unknown partition"),
        (["build/examples/send", broker.bootstrap, topic, 0, "murmur2"], "initial_partitions is 0: set it to"),
        (java_command("examples/producer/Send.java", broker.bootstrap, topic, f"baton.initial.partitions={INITIAL}"),
         f"baton.initial.partitions is 4, but topic {topic} has 3 partitions: set it to"),
        (java_command("examples/producer/Send.java", broker.bootstrap, topic, "baton.hash=murmur2"),
         "baton.initial.partitions is missing: set it to"),
    ):  # fmt: skip
        done = run(command, input="key\tvalue\n")
        assert done.returncode == 1 and complaint in done.stderr, (command, done.stdout, done.stderr)
    assert not any(broker.end_offsets(topic).values())
