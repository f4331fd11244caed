"""A keyed load, made by a process of its own so that it neither slows the test down nor is slowed down by it.

Keys are drawn at random from a fixed set by a seed; values are the running number in decimal. The partitioner is Java's
(murmur2_random). What was sent is known exactly: a load of which a record failed is an error, not a result.
"""

import array
import ctypes
import multiprocessing
import os
import random
import signal
import time

from confluent_kafka import Producer

from waiting import wait_until

BATCH_RECORDS = 10_000
IN_FLIGHT_RECORDS = 400_000
TICK_S = 0.01
FLUSH_LIMIT_S = 120
# Threads of librdkafka do not survive a fork.
_context = multiprocessing.get_context("spawn")


class Sent:
    """What one or several loads sent: how often each key, and how many records to each partition."""

    def __init__(self, prefix, counts, partitions):
        self.prefix = prefix
        self.counts = counts
        self.partitions = partitions

    @property
    def total(self):
        return sum(self.counts)

    def expected(self):
        """{key: how often}, as the oracle wants it."""
        return {key_of(self.prefix, index): count for index, count in enumerate(self.counts) if count}

    def __add__(self, other):
        """The sum of two loads over one set of keys."""
        assert self.prefix == other.prefix and len(self.counts) == len(other.counts), "not the same keys"
        counts = array.array("I", map(int.__add__, self.counts, other.counts))
        partitions = {p: self.partitions.get(p, 0) + other.partitions.get(p, 0) for p in
                      self.partitions.keys() | other.partitions.keys()}
        return Sent(self.prefix, counts, partitions)


def key_of(prefix, index):
    return f"{prefix}{index}".encode()


class Load:
    """`total` records (None: until `stop`), at `rate` records/s (None: as fast as it goes)."""

    def __init__(self, bootstrap, topic, keys, seed, total=None, rate=None, prefix="key-", partitions_max=256,
                 config=None):
        assert total is not None or rate is not None, "a load needs an end or a rate"
        self._prefix = prefix
        self._counts = _context.Array(ctypes.c_uint32, keys, lock=False)
        self._partitions = _context.Array(ctypes.c_uint64, partitions_max, lock=False)
        self._sent = _context.Value(ctypes.c_uint64, 0, lock=False)
        self._stop = _context.Event()
        self._errors = _context.SimpleQueue()
        settings = {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": 0,  # a broker that comes back later must get all of it
            "queue.buffering.max.messages": 2 * IN_FLIGHT_RECORDS,
            "queue.buffering.max.kbytes": 1 << 20,
            "log_level": 2,
            **(config or {}),
        }
        self._process = _context.Process(
            target=_produce,
            args=(settings, topic, prefix, seed, total, rate, self._counts, self._partitions, self._sent, self._stop,
                  self._errors, os.getpid()),
            daemon=True,
        )

    def start(self):
        self._process.start()
        return self

    @property
    def sent_so_far(self):
        """Handed to the client; acknowledged a little later."""
        return self._sent.value

    def wait_known(self, partition, limit_s):
        """Until it writes to that partition or a later one, and what it has sent up to then is there."""
        wait_until(lambda: any(self._partitions[partition:]), limit_s, f"the load knows partition {partition}")
        sent = self.sent_so_far
        wait_until(lambda: sum(self._partitions) >= sent, limit_s, f"{sent} records of the load are there")

    @property
    def running(self):
        return self._process.is_alive()

    def wait(self, limit_s):
        """Until all of `total` is acknowledged."""
        self._process.join(limit_s)
        if self._process.is_alive():
            self._process.kill()
            raise AssertionError(f"the load did not end within {limit_s} s ({self.sent_so_far} records handed over)")
        if self._process.exitcode != 0 or not self._errors.empty():
            why = self._errors.get() if not self._errors.empty() else f"exit code {self._process.exitcode}"
            raise AssertionError(f"the load failed: {why}")
        partitions = {p: count for p, count in enumerate(self._partitions) if count}
        return Sent(self._prefix, array.array("I", self._counts), partitions)

    def stop(self, limit_s=FLUSH_LIMIT_S):
        """Ends the load and waits until all that it sent is acknowledged."""
        self._stop.set()
        return self.wait(limit_s)

    def finish(self):
        if self._process.pid is not None and self._process.is_alive():
            self._process.kill()
            self._process.join()


def _produce(settings, topic, prefix, seed, total, rate, counts, partitions, sent, stop, errors, parent):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent ends this process
    try:
        _Generator(settings, topic, prefix, seed, counts, partitions, sent).run(total, rate, stop, parent)
    except Exception as error:  # goes to the test, which fails with it
        errors.put(f"{type(error).__name__}: {error}")


class _Generator:
    def __init__(self, settings, topic, prefix, seed, counts, partitions, sent):
        self.producer = Producer(settings)
        self.topic = topic
        self.keys = [key_of(prefix, index) for index in range(len(counts))]
        self.random = random.Random(seed)
        self.counts = counts
        self.partitions = partitions
        self.sent = sent
        self.failure = None

    def run(self, total, rate, stop, parent):
        began = time.monotonic()
        number = 0
        while (total is None or number < total) and not stop.is_set() and os.getppid() == parent:
            wanted = BATCH_RECORDS if rate is None else int((time.monotonic() - began) * rate) - number
            if total is not None:
                wanted = min(wanted, total - number)
            for _ in range(0, wanted, BATCH_RECORDS):
                batch = min(wanted, BATCH_RECORDS)
                self.send(number, batch)
                number += batch
                wanted -= batch
            self.producer.poll(0 if rate is None else TICK_S)
            while len(self.producer) > IN_FLIGHT_RECORDS and not stop.is_set():
                self.producer.poll(0.05)
            if self.failure:
                raise self.failure
        left = self.producer.flush(FLUSH_LIMIT_S)
        if self.failure or left:
            raise self.failure or TimeoutError(f"{left} records were not acknowledged")

    def send(self, number, batch):
        produce, topic, keys, counts, delivered = (
            self.producer.produce, self.topic, self.keys, self.counts, self.delivered)
        for index in self.random.choices(range(len(keys)), k=batch):
            produce(topic, b"%d" % number, keys[index], on_delivery=delivered)
            counts[index] += 1
            number += 1
        self.sent.value = number

    def delivered(self, error, message):
        if error is None:
            self.partitions[message.partition()] += 1
        elif self.failure is None:
            self.failure = RuntimeError(f"a record was not delivered: {error}")
