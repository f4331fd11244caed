"""Settle windows at full length (D4): producers that stay on the old number of partitions, fall silent, or jump over one."""

import time

import pytest

from expanding import CarefulProducer, assert_exact_and_in_order, linhash, murmur2, wait_settled
from jobs import Job
from oracle import TopicReader
from waiting import wait_until

LIMIT_S = 120
RATE = 100
SLACK_S = 5  # the last record of the old number was written some time before the last look at the clock


class Stage:
    def __init__(self, broker, daemons, unique, settle):
        coordinator = daemons.coordinator()
        self.broker, self.agents = broker, [daemons.agent(coordinator) for _ in range(2)]
        self.job = Job(broker, coordinator, unique, 4, 2, settle=settle, partitioner="murmur2").create()
        self.job.wait_active()
        self.producers = {}

    def producer(self, prefix, seed):
        self.producers[prefix] = CarefulProducer(self.broker.bootstrap, self.job.input, 300, 4, RATE, seed, prefix=prefix)
        self.producers[prefix].wait_more(RATE)
        return self.producers[prefix]

    def expand(self, partitions):
        assert self.job.wait_operation(self.job.expand(partitions=partitions), LIMIT_S)["state"] == "succeeded"

    def events(self, kind):
        items = self.job.coordinator.http.get(f"/v1/events?job={self.job.name}&limit=1000").json["items"]
        return [each for each in items if each["kind"] == kind]

    def assert_exact_and_in_order(self):
        sent = {}
        for producer in self.producers.values():
            sent |= producer.stop()
        return assert_exact_and_in_order(self.job, sent, tuple(self.producers))

    def count_old(self, since):
        """Records past `since` (of partitions 0 to 3) whose keys belong to one of eight partitions that is new."""
        ends = self.broker.end_offsets(self.job.input)
        reader = TopicReader(self.broker.bootstrap, self.job.input)
        seen, count = {}, 0
        deadline = time.monotonic() + LIMIT_S
        try:
            while any(seen.get(p, 0) < ends[p] for p in range(4)):  # others go on writing
                assert time.monotonic() < deadline, "the input was not read to its end"
                for each in reader.read():
                    seen[each.partition()] = each.offset() + 1
                    old = each.partition() < 4 and each.offset() >= since[each.partition()]
                    count += old and linhash(murmur2(each.key()), 4, 8) != each.partition()
        finally:
            reader.close()
        return count


def wait_for(seconds, since):
    """Here time is what is waited for."""
    wait_until(lambda: time.monotonic() - since >= seconds, seconds + LIMIT_S, f"{seconds} s have passed")


@pytest.mark.timeout(900)
def test_expand_settle_a_producer_keeps_to_the_old_number_for_a_minute_soak(broker, daemons, unique):
    stage = Stage(broker, daemons, unique, "120s")
    old, new = stage.producer("old-", 1), stage.producer("new-", 2)
    before = broker.end_offsets(stage.job.input)
    stage.expand(8)
    after = broker.end_offsets(stage.job.input)
    expanded = time.monotonic()
    new.use(8)
    wait_for(60, expanded)
    assert stage.job.status()["windows_open"] == 4
    last = time.monotonic()
    old.use(8)
    old.wait_more(RATE)
    fewest, most = stage.count_old(after), stage.count_old(before)
    assert most >= fewest > 60 * RATE / 4
    stage.job.wait("all of them are counted", lambda status: fewest <= status["old_records"] <= most)
    stage.job.wait("a window is closed", lambda status: status["windows_open"] < 4, 400)
    assert time.monotonic() - last > 120 - SLACK_S
    wait_settled(stage.job, 400)
    counted = stage.job.status()["old_records"]
    assert fewest <= counted <= most
    old.wait_more(RATE)
    new.wait_more(RATE)
    assert stage.assert_exact_and_in_order() > 100
    assert stage.job.status()["old_records"] == counted and not stage.job.problems()
    assert not stage.events("settle_window_reopened")


@pytest.mark.timeout(900)
def test_expand_settle_a_producer_that_was_silent_writes_by_the_old_number_soak(broker, daemons, unique):
    stage = Stage(broker, daemons, unique, "10s")
    late, new = stage.producer("late-", 1), stage.producer("new-", 2)
    stage.expand(8)
    with late.silent():
        began = time.monotonic()
        new.use(8)
        wait_settled(stage.job)
        assert time.monotonic() - began >= 10 - SLACK_S
        wait_for(30, began)
        counted = stage.job.status()["old_records"]
        assert not stage.job.problems()
    late.wait_more(30 * RATE)
    problem = stage.job.wait_problem("stale_after_settle")
    assert problem["severity"] == "warning", problem
    stage.job.wait("they are counted", lambda status: status["old_records"] > counted + 30 * RATE / 4)
    stage.job.wait("the windows are open", lambda status: status["windows_open"] == 4)
    late.use(8)
    wait_settled(stage.job)
    stage.job.wait("the problem is over", lambda status: status["problems"] == 0)
    late.wait_more(RATE)
    assert stage.assert_exact_and_in_order() > 100
    assert stage.events("settle_window_reopened")
    wait_settled(stage.job)


@pytest.mark.timeout(900)
def test_expand_settle_a_producer_jumps_from_four_to_sixteen_soak(broker, daemons, unique):
    """It writes by the first number for half a minute after each of two expansions, the windows of the first being open."""
    stage = Stage(broker, daemons, unique, "30s")
    jumps, goes = stage.producer("jumps-", 1), stage.producer("goes-", 2)
    for count in (8, 16):
        stage.expand(count)
        expanded = time.monotonic()
        goes.use(count)
        wait_for(30, expanded)
        assert stage.job.status()["windows_open"] >= 4, "it still writes by the first number"
    jumps.use(16)
    jumps.wait_more(RATE)
    wait_settled(stage.job)
    jumps.wait_more(RATE)
    assert stage.assert_exact_and_in_order() > 200
    assert not stage.job.problems() and stage.job.status()["partitions"] == 16
    assert not stage.events("settle_window_reopened")
