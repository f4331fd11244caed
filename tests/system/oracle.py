"""The oracle: says from the output topic alone, read_committed and with another client than baton's, whether it is exact.

Two independent checks, in one pass over the outputs:
- CountCheck: a job with the logic `count` must have written, per key, the values 1..n in order, n being how often the
  key was sent.
- ProvenanceCheck: with `provenance` on, each input (topic, partition, offset) must have exactly one output, and the
  outputs of one key must follow the order of the input.

A verdict counts what is lost (never seen), doubled (seen again), misordered (seen after a later one) and unexpected (never
sent, or not of the form), and shows examples.
"""

import struct
import time
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

EXAMPLES_MAX = 5
BATCH_RECORDS = 10_000
HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET = "baton-topic", "baton-partition", "baton-offset"
FAULTS = ("lost", "doubled", "misordered", "unexpected")


class Verdict:
    """Counts of faults by kind, with examples."""

    def __init__(self, total=0):
        self.total = total  # outputs seen
        self.counts = Counter()
        self.examples = []

    def add(self, fault, count, example):
        assert fault in FAULTS
        if count:
            self.counts[fault] += count
            if len(self.examples) < EXAMPLES_MAX * len(FAULTS) and self.counts[fault] - count < EXAMPLES_MAX:
                self.examples.append(f"{fault}: {example}")

    def merge(self, other):
        self.counts.update(other.counts)
        self.examples += other.examples
        return self

    @property
    def lost(self):
        return self.counts["lost"]

    @property
    def doubled(self):
        return self.counts["doubled"]

    @property
    def misordered(self):
        return self.counts["misordered"]

    @property
    def unexpected(self):
        return self.counts["unexpected"]

    @property
    def exact(self):
        return not any(self.counts.values())

    def assert_exact(self):
        assert self.exact, str(self)
        return self

    def assert_at_least_once(self):
        """Repeats are allowed, nothing else."""
        assert not (self.lost or self.misordered or self.unexpected), str(self)
        return self

    def __str__(self):
        faults = ", ".join(f"{self.counts[fault]} {fault}" for fault in FAULTS)
        return "\n  ".join([f"{self.total} outputs: {faults}", *self.examples])


class CountCheck:
    """Per key the values 1..n in order."""

    # In place of a key's last value once the key went wrong: no next value matches it, so the key leaves the fast path.
    _ODD = -(1 << 60)

    def __init__(self):
        self.total = 0
        self._last = {}
        self._odd = {}  # key: all its values so far, in order
        self._malformed = []

    def feed(self, messages):
        last = self._last
        get = last.get
        for message in messages:
            key = message.key()
            text = message.value()
            try:
                value = int(text)
            except (TypeError, ValueError):
                self._malformed.append((key, text))
                continue
            if value == get(key, 0) + 1:
                last[key] = value
            else:
                self._feed_odd(key, value)
        self.total += len(messages)

    def _feed_odd(self, key, value):
        values = self._odd.get(key)
        if values is None:
            values = self._odd[key] = list(range(1, self._last.get(key, 0) + 1))
            self._last[key] = self._ODD
        values.append(value)

    def verdict(self, expected):
        """`expected` is {key: how often it was sent}."""
        verdict = Verdict(self.total)
        for key, text in self._malformed:
            verdict.add("unexpected", 1, f"key {key!r}: the value {text!r} is not a number")
        for key in self._last.keys() - expected.keys():
            verdict.add("unexpected", max(self._last[key], len(self._odd.get(key, ()))), f"key {key!r} was never sent")
        for key, sent in expected.items():
            last = self._last.get(key, 0)
            if last == sent:
                continue
            if last == self._ODD:
                self._judge(verdict, key, self._odd[key], sent)
            elif last < sent:
                verdict.add("lost", sent - last, f"key {key!r} ends at {last} of {sent}")
            else:
                verdict.add("unexpected", last - sent, f"key {key!r} goes on to {last}, sent {sent}")
        return verdict

    @staticmethod
    def _judge(verdict, key, values, sent):
        times = Counter(values)
        missing = [value for value in range(1, sent + 1) if value not in times]
        verdict.add("lost", len(missing), f"key {key!r} never had {missing[:5]} of 1..{sent}")
        foreign = [value for value in times if not 1 <= value <= sent]
        verdict.add("unexpected", len(foreign), f"key {key!r} had {foreign[:5]}, sent {sent}")
        again = {value: count for value, count in times.items() if count > 1}
        verdict.add("doubled", sum(again.values()) - len(again), f"key {key!r} had {list(again)[:5]} more than once")
        first_seen = list(times)  # a Counter keeps the order of first sight
        falls = [(a, b) for a, b in zip(first_seen, first_seen[1:]) if b < a]
        verdict.add("misordered", len(falls), f"key {key!r} had {falls[:5]} (value, then a smaller one)")


class ProvenanceCheck:
    """Each input offset exactly once, by the headers that the outputs carry."""

    def __init__(self):
        self.total = 0
        self._times = {}  # (topic, partition): bytearray, how often each offset was seen (at most 255)
        self._last = {}  # (key, topic, partition): the highest offset seen
        self._falls = []
        self._headerless = []

    def feed(self, messages):
        for message in messages:
            key = message.key()
            place = self._place(message)
            if place is None:
                self._headerless.append((key, message.partition(), message.offset()))
                continue
            topic, partition, offset = place
            times = self._times.get((topic, partition))
            if times is None:
                times = self._times[topic, partition] = bytearray()
            if offset >= len(times):
                times.extend(bytes(max(offset + 1 - len(times), len(times))))
            first_time = times[offset] == 0
            times[offset] = min(255, times[offset] + 1)
            self._follow(key, topic, partition, offset, first_time)
        self.total += len(messages)

    @staticmethod
    def _place(message):
        headers = dict(message.headers() or ())
        try:
            return headers[HEADER_TOPIC].decode(), int(headers[HEADER_PARTITION]), int(headers[HEADER_OFFSET])
        except (KeyError, ValueError, AttributeError, TypeError):
            return None

    def _follow(self, key, topic, partition, offset, first_time):
        last = self._last.get((key, topic, partition), -1)
        if offset > last:
            self._last[key, topic, partition] = offset
        elif first_time:  # a repeat is counted as doubled, not as misordered
            self._falls.append((key, topic, partition, last, offset))

    def verdict(self, expected):
        """`expected` is {(topic, partition): offsets of all inputs} (InputOffsets.read makes it)."""
        verdict = Verdict(self.total)
        for key, partition, offset in self._headerless:
            verdict.add("unexpected", 1, f"output {partition}/{offset} (key {key!r}) has no provenance headers")
        for place in self._times.keys() | expected.keys():
            times = self._times.get(place, bytearray())
            wanted = set(expected.get(place, ()))
            seen = {offset for offset, count in enumerate(times) if count}
            lost, foreign = sorted(wanted - seen), sorted(seen - wanted)
            again = [offset for offset in seen if times[offset] > 1]
            verdict.add("lost", len(lost), f"{place}: offsets {lost[:5]} have no output")
            verdict.add("unexpected", len(foreign), f"{place}: offsets {foreign[:5]} are no inputs")
            verdict.add("doubled", sum(times[offset] - 1 for offset in again), f"{place}: offsets {again[:5]}")
        for key, topic, partition, last, offset in self._falls:
            verdict.add("misordered", 1, f"key {key!r}: {topic}/{partition} offset {offset} came after {last}")
        return verdict


class TopicReader:
    """Reads a topic from the start, read_committed, and knows when it has reached the end.

    `only(count)` gives the partitions to read, of so many; without it all are read.
    """

    def __init__(self, bootstrap, topic, config=None, only=None):
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",  # demanded by the client; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "queued.min.messages": 500_000,
            "fetch.message.max.bytes": 8 << 20,
            "log_level": 2,
            **(config or {}),
        })
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        assert partitions, f"topic {topic} does not exist"
        self._at_end = dict.fromkeys(only(len(partitions)) if only else partitions, False)
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in self._at_end])
        self.total = 0

    def read(self, limit_s=0.5):
        """The next records, at most BATCH_RECORDS; empty when nothing came within `limit_s`."""
        records = []
        for message in self._consumer.consume(BATCH_RECORDS, limit_s):
            error = message.error()
            if error is None:
                records.append(message)
                self._at_end[message.partition()] = False
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end[message.partition()] = True
            elif not error.retriable() and error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                raise RuntimeError(f"reading the outputs: {error}")
        self.total += len(records)
        return records

    @property
    def at_end(self):
        """All partitions were read up to their last stable offset."""
        return all(self._at_end.values())

    def close(self):
        self._consumer.close()


def read_into(checks, reader, until_total, limit_s, quiet_s=1.0):
    """Feeds outputs to `checks` until `until_total` have come and, after that, nothing more for `quiet_s` at the end.

    Ends at `limit_s` in any case: what is missing then is the verdict's to say. None for `until_total`: up to the end.
    """
    deadline = time.monotonic() + limit_s
    last_record = time.monotonic()
    while time.monotonic() < deadline:
        records = reader.read(0.2)
        for check in checks:
            check.feed(records)
        now = time.monotonic()
        if records:
            last_record = now
        complete = until_total is None or reader.total >= until_total
        if complete and reader.at_end and now - last_record >= quiet_s:
            return


def read_input_offsets(bootstrap, topic, limit_s=60, keyed_only=True, config=None):
    """{(topic, partition): offsets of its committed records}, for ProvenanceCheck; without a key none is expected."""
    reader = TopicReader(bootstrap, topic, config)
    offsets = {}
    deadline = time.monotonic() + limit_s
    try:
        while not reader.at_end:
            assert time.monotonic() < deadline, f"{topic} was not read to its end within {limit_s} s"
            for message in reader.read():
                if message.key() is not None or not keyed_only:
                    offsets.setdefault((topic, message.partition()), []).append(message.offset())
    finally:
        reader.close()
    return offsets


COMMITS_TOPIC = "__consumer_offsets"


def commits_partition(group, count):
    """Where Kafka keeps a group's offsets: by Java's hash of its name, a signed number, without its sign."""
    number = 0
    for character in group:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    if number >= 1 << 31:
        number = (1 << 32) - number
    return 0 if number == 1 << 31 else number % count


def parse_commit(key, value):
    """(group, topic, partition, offset, metadata), or None: it is no committed offset (or one was deleted)."""

    def text(data, at):
        (length,) = struct.unpack_from(">h", data, at)
        return data[at + 2 : at + 2 + length].decode(), at + 2 + length

    if struct.unpack_from(">h", key)[0] > 1 or value is None:
        return None
    group, at = text(key, 2)
    topic, at = text(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    version, offset = struct.unpack_from(">hq", value)
    at = 10 if version < 3 else 14  # the leader's epoch lies between
    if version < 4:
        return group, topic, partition, offset, text(value, at)[0]
    length = value[at]  # a varint of length + 1; what we write is shorter than 127 bytes
    assert length < 0x80, "longer metadata than ours"
    return group, topic, partition, offset, value[at + 1 : at + length].decode()


def read_commits(bootstrap, group, limit_s=60):
    """{(topic, partition): [(offset, metadata), ...]}: all that was committed, in order, aborted transactions left out.

    What the admin client shows is only the last of it.
    """
    reader = TopicReader(bootstrap, COMMITS_TOPIC, only=lambda count: [commits_partition(group, count)])
    commits = {}
    deadline = time.monotonic() + limit_s
    try:
        while not reader.at_end:
            assert time.monotonic() < deadline, f"the commits of {group} were not read within {limit_s} s"
            for message in reader.read():
                found = parse_commit(message.key(), message.value())
                if found and found[0] == group:
                    commits.setdefault(found[1:3], []).append(found[3:])
    finally:
        reader.close()
    return commits


def check_outputs(bootstrap, topic, expected, limit_s, quiet_s=1.0, provenance_of=(), config=None):
    """The verdict on a `count` job: `expected` is Sent or {key: count}; `provenance_of` names its input topics."""
    expected = expected if isinstance(expected, dict) else expected.expected()
    count = CountCheck()
    provenance = ProvenanceCheck() if provenance_of else None
    reader = TopicReader(bootstrap, topic, config)
    try:
        checks = [count] + ([provenance] if provenance else [])
        read_into(checks, reader, sum(expected.values()), limit_s, quiet_s)
    finally:
        reader.close()
    verdict = count.verdict(expected)
    if provenance:
        inputs = {}
        for name in provenance_of:
            inputs.update(read_input_offsets(bootstrap, name, config=config))
        verdict.merge(provenance.verdict(inputs))
    return verdict
