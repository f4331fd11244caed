"""Producers and checks for expansions of partitions.

The order of a key across partitions is the producer's to keep first: a stock client does not wait for what it has sent to the
old partition before it writes to the new one. The one here does, so that what the topic holds has an order at all, and its
values tell it.
"""

import contextlib
import functools
import random
import threading
import time

import make_partitions
from confluent_kafka import KafkaException, Producer

from oracle import HEADER_OFFSET, HEADER_PARTITION, TopicReader, check_outputs
from producer import key_of
from waiting import wait_until

LIMIT_S = 90


def murmur2(key):
    """As Java's producers have it, without the sign."""
    return make_partitions.murmur2(key) & 0x7FFFFFFF


buckets = functools.cache(make_partitions.Buckets)


def linhash(h, initial, now):
    """D2."""
    return buckets(initial, now).find(h)


class CarefulProducer:
    """Writes at `rate` to the partition that `count` says, until `stop`; the values are one running number.

    `use(count)` ends when everything by the old count is acknowledged and the client knows the new partitions.
    """

    def __init__(self, bootstrap, topic, keys, count, rate=400, seed=1, initial=None, prefix="key-", config=None):
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, **(config or {})})
        self._topic, self._rate = topic, rate
        self._initial, self._count = initial or count, count
        self._keys = [key_of(prefix, index) for index in range(keys)]
        self._hashes = [murmur2(key) for key in self._keys]
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure = None
        self.number = self._acknowledged = 0
        self.sent = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error, message):
        if error is None:
            self._acknowledged += 1
            key = message.key()
            self.sent[key] = self.sent.get(key, 0) + 1
        elif self._failure is None:
            self._failure = RuntimeError(f"a record was not delivered: {error}")

    def _send(self):
        index = self._random.randrange(len(self._keys))
        partition = linhash(self._hashes[index], self._initial, self._count)
        key = self._keys[index]
        self._producer.produce(self._topic, b"%d" % self.number, key, partition=partition, on_delivery=self._delivered)
        self.number += 1

    def _run(self):
        began = time.monotonic()
        try:
            while not self._stop.is_set() and self._failure is None:
                with self._lock:
                    for _ in range(min(100, int((time.monotonic() - began) * self._rate) - self.number)):
                        self._send()
                    self._producer.poll(0)
                self._stop.wait(0.005)
        except Exception as error:  # the test fails with it
            self._failure = error

    def use(self, count):
        def known():
            return len(self._producer.list_topics(self._topic, timeout=5).topics[self._topic].partitions) >= count

        with self._lock:
            assert self._producer.flush(LIMIT_S) == 0
            wait_until(known, LIMIT_S, f"the producer knows {count} partitions", ignoring=(KafkaException,))
            self._count = count

    @contextlib.contextmanager
    def silent(self):
        """What it would have sent meanwhile, it sends at once afterwards: one that was cut off, and has buffered it."""
        with self._lock:
            yield

    def wait_more(self, records):
        target = self._acknowledged + records
        wait_until(lambda: self._failure or self._acknowledged >= target, LIMIT_S, f"{records} more records are there")

    def stop(self):
        """{key: how often it was sent}."""
        self._stop.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive() and self._producer.flush(LIMIT_S) == 0
        if self._failure:
            raise self._failure
        return self.sent


class OrderCheck:
    """The outputs of each key come in the order in which its records were written, whatever partition they went to.

    Of records whose values are the running number of their one producer; its keys begin with `prefix`.
    """

    def __init__(self, bootstrap, topic, prefix):
        self._prefix = prefix.encode()
        self._numbers = {}
        self._last = {}
        self.falls = []
        self.moved = set()  # keys with outputs of several partitions
        self._of_key = {}
        reader = TopicReader(bootstrap, topic)
        deadline = time.monotonic() + LIMIT_S
        try:
            while not reader.at_end:
                assert time.monotonic() < deadline, f"{topic} was not read to its end"
                for each in reader.read():
                    if each.key().startswith(self._prefix):
                        self._numbers[each.partition(), each.offset()] = int(each.value())
        finally:
            reader.close()

    def feed(self, messages):
        for each in messages:
            if not each.key().startswith(self._prefix):
                continue
            headers = dict(each.headers())
            place = int(headers[HEADER_PARTITION]), int(headers[HEADER_OFFSET])
            number, last = self._numbers[place], self._last.get(each.key(), (-1, None))
            if number < last[0]:
                self.falls.append((each.key(), last, (number, place)))
            self._last[each.key()] = (number, place)
            if self._of_key.setdefault(each.key(), place[0]) != place[0]:
                self.moved.add(each.key())


def assert_in_order(bootstrap, source, output, prefix="key-"):
    """Returns how many keys had records in several partitions."""
    check = OrderCheck(bootstrap, source, prefix)
    reader = TopicReader(bootstrap, output)
    deadline = time.monotonic() + LIMIT_S
    try:
        while not reader.at_end:
            assert time.monotonic() < deadline, f"{output} was not read to its end"
            check.feed(reader.read())
    finally:
        reader.close()
    assert not check.falls, (len(check.falls), check.falls[:5])
    return len(check.moved)


def assert_exact_and_in_order(job, sent, prefixes=("key-",)):
    """Of the job's records, and of the keys of each producer. How many keys have moved."""
    check_outputs(job.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input]).assert_exact()
    return sum(assert_in_order(job.broker.bootstrap, job.input, job.output, prefix) for prefix in prefixes)


def wait_settled(job, limit_s=LIMIT_S):
    job.wait("all settle windows are closed", lambda status: status["windows_open"] == 0, limit_s)


def keys_of(partition, initial, now, count=1):
    """Keys that belong there."""
    keys = (b"of-%d-%d" % (partition, n) for n in range(100_000))
    return [key for key in keys if linhash(murmur2(key), initial, now) == partition][:count]
