"""A plain consumer group as people have before they have baton: members that subscribe, write outputs, and commit themselves.

Each output says where it comes from, in the headers of `provenance`, so that one check covers theirs and baton's.
"""

import threading

from confluent_kafka import Consumer, Producer

from oracle import HEADER_OFFSET, HEADER_PARTITION, HEADER_TOPIC, ProvenanceCheck, TopicReader, read_input_offsets, read_into
from waiting import wait_until

VALUE = b"plain"
BATCH = 200


class PlainConsumer:
    """One member, in a thread. It writes the outputs of a batch, then commits: when it is stopped in order, none is done twice."""

    def __init__(self, bootstrap, group, source, output=None, client="old-app", **options):
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **options,
        })
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"})
        self._output = output  # None: it neither writes nor commits
        self._stop = threading.Event()
        self._failure = None
        self.processed = 0
        self._assigned = 0  # asking the client for it from another thread can block both
        self._consumer.subscribe([source], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                self._process([each for each in self._consumer.consume(BATCH, 0.1) if not each.error()])
        except Exception as error:  # shown by stop
            self._failure = error
        finally:
            self._consumer.close()  # leaves the group

    def _process(self, records):
        if not records or not self._output:
            return
        for each in records:
            headers = {HEADER_TOPIC: each.topic(), HEADER_PARTITION: str(each.partition()), HEADER_OFFSET: str(each.offset())}
            self._producer.produce(self._output, VALUE, each.key(), headers=headers)
        assert self._producer.flush(30) == 0
        self._consumer.commit(asynchronous=False)
        self.processed += len(records)

    @property
    def assigned(self):
        assert not self._failure, self._failure
        return self._assigned

    def _assign(self, _, partitions):
        self._assigned = len(partitions)

    def _revoke(self, _, __):
        self._assigned = 0

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._failure:
            raise self._failure


def wait_assigned(consumers, partitions, limit_s):
    """Until the group is at rest: each has some, and together they have all."""
    wait_until(
        lambda: sum(each.assigned for each in consumers) == partitions and all(each.assigned for each in consumers),
        limit_s,
        "the plain consumers have all partitions",
    )


class Ordinals:
    """What `count` must have put out for a record: how often its key has been seen up to there. A check as those of oracle.py."""

    def __init__(self, bootstrap, topic):
        self._of = {}
        self.by_plain = self.by_baton = 0
        self.wrong = []
        reader = TopicReader(bootstrap, topic)
        seen = {}
        try:
            while not reader.at_end:
                for each in reader.read():
                    seen[each.key()] = seen.get(each.key(), 0) + 1
                    self._of[each.partition(), each.offset()] = seen[each.key()]
        finally:
            reader.close()

    def feed(self, messages):
        for each in messages:
            if each.value() == VALUE:
                self.by_plain += 1
                continue
            self.by_baton += 1
            headers = dict(each.headers())
            place = int(headers[HEADER_PARTITION]), int(headers[HEADER_OFFSET])
            if int(each.value()) != self._of.get(place):
                self.wrong.append((place, each.value(), self._of.get(place)))


def assert_one_effect_each(bootstrap, source, output, limit_s):
    """Each input record has exactly one output, whoever made it, and baton's show a state that has met all before it."""
    inputs = read_input_offsets(bootstrap, source)
    provenance, ordinals = ProvenanceCheck(), Ordinals(bootstrap, source)
    reader = TopicReader(bootstrap, output)
    try:
        read_into([provenance, ordinals], reader, sum(len(offsets) for offsets in inputs.values()), limit_s)
    finally:
        reader.close()
    provenance.verdict(inputs).assert_exact()
    assert not ordinals.wrong, (len(ordinals.wrong), ordinals.wrong[:5])
    return ordinals
