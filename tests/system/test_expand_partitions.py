"""More partitions while a job runs: exact, and each key in the order in which it was written, across parents and children."""

import growing
import pytest
from confluent_kafka import Producer

from expanding import CarefulProducer, assert_exact_and_in_order, keys_of, wait_settled
from jobs import Job
from oracle import TopicReader, check_outputs
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 90
START_MS = 1_700_000_000_000


@pytest.fixture
def job(broker, daemons, unique):
    """job(...) with processors at work. `settle` is short: no producer of a test takes longer, unless it is the test's point."""

    def make(partitions=4, processors=2, agents=1, agent_options=None, coordinator_options=None, **spec):
        coordinator = daemons.coordinator(**(coordinator_options or {}))
        made = Job(broker, coordinator, unique, partitions, processors, **{"settle": "2s", "partitioner": "murmur2", **spec})
        made.create()
        made.agents = [daemons.agent(coordinator, **(agent_options or {})) for _ in range(agents)]
        made.wait_active() if agents else None
        return made

    return make


def expand(made, partitions, expect="succeeded"):
    ended = made.wait_operation(made.expand(partitions=partitions), LIMIT_S)
    assert ended["state"] == expect, ended
    return ended


def refuse(made, words, **request):
    body = made.coordinator.http.post(f"/v1/jobs/{made.name}/expansions", request, expect=409).json
    assert body["code"] == "expansion_refused" and words in body["detail"], body


def outputs_of(made, count):
    """(key, value) of all outputs, once there are `count`."""
    reader = TopicReader(made.broker.bootstrap, made.output)
    found = []
    try:
        wait_until(lambda: found.extend(reader.read()) or len(found) >= count, LIMIT_S, f"{count} outputs")
    finally:
        reader.close()
    return [(each.key(), each.value()) for each in found]


def test_expand_doubles_partitions_while_producers_write(job, loads):
    made = job(partitioner="auto")
    stock = {"topic.metadata.refresh.interval.ms": 1000}  # else it hears of them in five minutes
    load = loads(made.broker.bootstrap, made.input, keys=200, seed=5, rate=300, prefix="stock-", config=stock)
    producer = CarefulProducer(made.broker.bootstrap, made.input, 300, 4)
    producer.wait_more(400)
    expand(made, 8)
    assert made.broker.partition_count(made.input) == 8 and made.status()["partitions"] == 8
    producer.wait_more(300)
    producer.use(8)
    producer.wait_more(600)
    ends = made.broker.end_offsets(made.input)
    wait_until(lambda: load.sent_so_far and all(made.broker.end_offsets(made.input)[p] > ends[p] for p in range(4, 8)), LIMIT_S,
               "the stock producer writes to all of them")
    sent = producer.stop() | load.stop().expected()
    assert assert_exact_and_in_order(made, sent) > 50
    wait_settled(made)
    made.wait_drained()
    assert len(made.agents[0].log_events("task_opening")) == 2, "nothing was opened anew"
    assert len(made.agents[0].log_events("task_grown")) == 2


def test_expand_counts_a_producer_of_the_old_number_and_one_that_is_late(job):
    made = job()
    producer = CarefulProducer(made.broker.bootstrap, made.input, 100, 4)
    expand(made, 8)
    producer.wait_more(400)
    made.wait("old-count records are counted", lambda status: status["old_records"] > 100 and status["windows_open"] == 4)
    producer.use(8)
    producer.wait_more(400)
    sent = producer.stop()
    wait_settled(made)
    assert not made.problems()
    made.put(expect=200, settle="1h")  # the window that is about to open is to be seen
    (late,) = keys_of(5, 4, 8)
    made.broker.produce(made.input, [(late, b"1", 1)])  # where four partitions put it
    problem = made.wait_problem("stale_after_settle")
    assert problem["severity"] == "warning" and "1 partitions" in problem["detail"]
    made.broker.produce(made.input, [(late, b"2", 5)])
    made.put(expect=200, settle="2s")
    wait_settled(made)
    made.wait("the problem is over", lambda status: status["problems"] == 0)
    check_outputs(made.broker.bootstrap, made.output, sent | {late: 2}, LIMIT_S, provenance_of=[made.input]).assert_exact()
    kinds = [each["kind"] for each in made.coordinator.http.get(f"/v1/events?job={made.name}&limit=1000").json["items"]]
    assert "settle_window_closed" in kinds and "settle_window_reopened" in kinds and "expansion_done" in kinds


def test_expand_an_open_transaction_on_a_parent_holds_its_child(job):
    """S44: what is below the high watermark of the parent is waited for, though nobody can read it yet."""
    made = job(settle="1h")
    (held,), (free,) = keys_of(4, 4, 8), keys_of(5, 4, 8)
    producer = Producer({"bootstrap.servers": made.broker.bootstrap, "transactional.id": made.name,
                         "transaction.timeout.ms": 300_000})  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(made.input, b"1", held, partition=0)  # where four partitions put it
    assert producer.flush(30) == 0
    expand(made, 8)
    made.broker.produce(made.input, [(held, b"2", 4), (free, b"1", 5)])
    assert outputs_of(made, 1) == [(free, b"1")]
    # A second one of the same child: by now its siblings have been let through twice.
    made.broker.produce(made.input, [(free, b"2", 5)])
    assert outputs_of(made, 2) == [(free, b"1"), (free, b"2")]
    producer.commit_transaction(30)
    assert sorted(outputs_of(made, 4)) == [(held, b"1"), (held, b"2"), (free, b"1"), (free, b"2")]
    check_outputs(made.broker.bootstrap, made.output, {held: 2, free: 2}, LIMIT_S, provenance_of=[made.input]).assert_exact()


def test_expand_twice_with_a_producer_that_jumps_and_kills_between(job, daemons):
    """All ancestors are waited for; whoever dies in the midst of it, nothing is lost or out of order."""
    made = job(coordinator_options={"hooks": True, "agent_timeout": "2s"}, agent_options={"hooks": True}, agents=2)
    coordinator, (first, second) = made.coordinator, made.agents
    producer = CarefulProducer(made.broker.bootstrap, made.input, 200, 4)
    asked = []
    for count, point in ((8, "operation_before_commit@{}/commit_starts"), (16, "operation_before_commit@{}/end")):
        coordinator.stop()
        coordinator.environment["BATON_HOOK"] = f"{point.format(made.name)}:1:kill"
        coordinator.start()
        made.wait_active()
        operation = growing.ask(made, count)
        assert coordinator.wait_exit(LIMIT_S) == -9
        coordinator.environment.pop("BATON_HOOK")
        coordinator.start()
        asked.append(operation or growing.find_or_ask(made, count, asked))
        assert made.wait_operation(asked[-1], LIMIT_S)["state"] == "succeeded"
        producer.wait_more(200)
        first.kill()
        first.start(ready=None)
        first, second = second, first
    producer.use(16)
    producer.wait_more(600)
    sent = producer.stop()
    assert made.status()["partitions"] == 16
    assert assert_exact_and_in_order(made, sent) > 50
    made.wait_active()
    wait_settled(made)


def test_expand_by_one_with_linear_hashing_and_adopted_partitions(job):
    """4 -> 5 -> 6 by request, 7 because somebody has added it: stock tools are noticed within 10 s."""
    made = job(expansion_order="merge")
    producer = CarefulProducer(made.broker.bootstrap, made.input, 200, 4)
    for count in (5, 6):
        producer.wait_more(200)
        expand(made, count)
        producer.use(count)
    producer.wait_more(200)
    made.broker.expand_topic(made.input, 7)
    producer.use(7)
    producer.wait_more(100)  # S33: before anybody has seen it
    made.wait("they are adopted", lambda status: status["partitions"] == 7)
    producer.wait_more(200)
    assert assert_exact_and_in_order(made, producer.stop()) > 20
    warnings = made.coordinator.http.get(f"/v1/jobs/{made.name}").json["warnings"]
    assert any("linear-hashing" in each for each in warnings), warnings


def test_expand_holds_new_partitions_until_all_have_settled(job):
    made = job(expansion_order="hold", settle="1h")
    (moved,), (stays,) = keys_of(6, 4, 8), keys_of(2, 4, 8)
    made.broker.produce(made.input, [(moved, b"1", 2), (stays, b"1", 2)])
    expand(made, 8)
    made.broker.produce(made.input, [(moved, b"2", 6), (stays, b"2", 2)])
    assert sorted(outputs_of(made, 3)) == [(stays, b"1"), (stays, b"2"), (moved, b"1")]
    made.put(expect=200, settle="0s")
    assert sorted(outputs_of(made, 4))[2:] == [(moved, b"1"), (moved, b"2")]


def test_expand_a_record_that_belongs_to_another_processor_stops_it(job):
    made = job()
    (stray,), (good,) = keys_of(1, 4, 8), keys_of(4, 4, 8)
    made.broker.produce(made.input, [(good, b"1", 0)])
    expand(made, 8)
    made.broker.produce(made.input, [(good, b"2", 4), (stray, b"1", 4)])
    problem = made.wait_problem("misrouted")
    assert "partition 1" in problem["detail"] and problem["processor"] == 0, problem
    made.put(expect=200, on_error="skip")
    made.broker.produce(made.input, [(good, b"3", 4)])
    assert outputs_of(made, 3) == [(good, b"1"), (good, b"2"), (good, b"3")]


def test_expand_state_ttl_goes_by_records_of_other_processors_too(job):
    made = job(logic={"kind": "builtin", "name": "count"}, state_ttl="1m", on_error="skip")
    (stray,), (good,) = keys_of(1, 4, 8), keys_of(4, 4, 8)
    expand(made, 8)
    producer = Producer({"bootstrap.servers": made.broker.bootstrap})
    for key, seconds in ((good, 0), (good, 30), (stray, 120), (good, 30)):
        producer.produce(made.input, b"x", key, partition=4, timestamp=START_MS + seconds * 1000)
    assert producer.flush(LIMIT_S) == 0
    # Its own records alone would not have let the state die.
    assert outputs_of(made, 3) == [(good, b"1"), (good, b"2"), (good, b"1")]


def test_expand_refuses_what_can_not_be(job):
    made = job(agents=0, partitioner="auto")
    before = what_expansions_change(made)
    refuse(made, "has 4 partitions already", partitions=4)
    refuse(made, "has 4 partitions already", partitions=2)
    refuse(made, "has 2 processors already", processors=2)
    refuse(made, "5 processors are more than the 4 partitions", processors=5)
    assert "nobody knows yet" in expand(made, 8, "failed")["error"]
    made.coordinator.http.put(f"/v1/jobs/{made.name}/pause", {})
    refuse(made, "paused", partitions=8)
    odd = job_of_three(made)
    refuse(odd, "power of two", partitions=8)
    assert what_expansions_change(made) == before and made.broker.partition_count(odd.input) == 4


def what_expansions_change(made):
    numbers = made.coordinator.http.get(f"/v1/jobs/{made.name}/map").json
    return made.broker.partition_count(made.input), numbers, made.status()["windows_open"], sorted(made.committed())


def job_of_three(made):
    odd = Job(made.broker, made.coordinator, lambda word: f"{word}-{made.name[4:]}-odd"[:60], 4, 3)
    return odd.create()


def stock_producer(made, partitioner, keys, records, **more):
    """Writes and ends. {key: how often}: `keys` in turn; `more` records have an empty key, or none."""
    producer = Producer({"bootstrap.servers": made.broker.bootstrap, "partitioner": partitioner})
    sent = {}
    for number in range(records):
        key = b"key-%d" % (number % keys)
        producer.produce(made.input, b"%d" % number, key)
        sent[key] = sent.get(key, 0) + 1
    for key, count in ((b"", more.get("empty", 0)), (None, more.get("null", 0))):
        for _ in range(count):
            producer.produce(made.input, b"0", key)
    assert producer.flush(LIMIT_S) == 0
    return sent


def test_expand_a_crc32_producer_disturbs_nobody_until_a_murmur2_job_is_expanded(job):
    """S34: keys lie where the job's hash does not put them. Nobody minds while nothing depends on it."""
    made = job(partitioner="murmur2")
    sent = stock_producer(made, "consistent_random", 100, 400)
    made.wait_drained()
    before = what_expansions_change(made)
    assert not made.problems()
    assert "keys do not lie where murmur2 puts them" in expand(made, 8, "failed")["error"]
    assert what_expansions_change(made) == before and not made.problems()
    more = stock_producer(made, "consistent_random", 100, 200)
    sent = {key: count + more[key] for key, count in sent.items()}
    check_outputs(made.broker.bootstrap, made.output, sent, LIMIT_S, provenance_of=[made.input]).assert_exact()
    assert not made.problems()


def test_expand_refuses_after_a_stock_producer_has_used_a_number_that_is_no_doubling(job):
    """Six want linear hashing; hash % 6 is found by the sample of the next expansion, and nothing is done."""
    made = job(processors=1, settle="1h")
    expand(made, 6)
    sent = stock_producer(made, "murmur2_random", 100, 400)
    made.wait_drained()
    before = what_expansions_change(made)
    assert "keys do not lie where murmur2 puts them" in expand(made, 8, "failed")["error"]
    assert what_expansions_change(made) == before and not made.problems()
    check_outputs(made.broker.bootstrap, made.output, sent, LIMIT_S, provenance_of=[made.input]).assert_exact()


def test_expand_stock_crc32_producers_with_empty_keys_and_none(broker, daemons, unique):
    """S34: librdkafka's default puts empty keys anywhere, as those without a key, and all others where crc32 does."""
    coordinator = daemons.coordinator()
    made = Job(broker, coordinator, unique, 4, 2, settle="1s", partitioner="auto")
    sent = stock_producer(made, "consistent_random", 100, 400, empty=200, null=50)
    made.create()
    daemons.agent(coordinator)
    made.wait_active()
    assert made.coordinator.http.get(f"/v1/jobs/{made.name}/map").json["partitioner"] == "crc32"
    expand(made, 8)
    for _ in range(2):  # while the windows are open, and when they are closed
        more = stock_producer(made, "consistent_random", 100, 200, empty=200, null=50)
        sent = {key: count + more[key] for key, count in sent.items()}
        found = outputs_of(made, sum(sent.values()))
        wait_settled(made)
    made.wait_drained()
    found = outputs_of(made, sum(sent.values()) + 600)
    for key, count in sent.items():
        assert [value for its, value in found if its == key] == [b"%d" % number for number in range(1, count + 1)]
    assert len(found) == sum(sent.values()) + 600 and not made.problems()


def test_expand_refuses_keys_that_stock_producers_have_placed_by_a_number_that_is_no_doubling(broker, daemons, unique):
    """Four became six before the job, and the producers have hash % 6: sampling finds no rule that a processor could rely on."""
    made = Job(broker, daemons.coordinator(), unique, 6, 2, initial_partitions=4)
    stock_producer(made, "murmur2_random", 100, 400)
    made.create()
    problem = made.wait_problem("partitioner_opaque")
    assert "no single rule" in problem["detail"], problem
    before = what_expansions_change(made)
    refuse(made, "nobody knows how keys are spread", partitions=8)
    assert what_expansions_change(made) == before


def test_expand_while_a_newcomer_learns(job, daemons):
    """Learners take new partitions as they are, and whoever takes over goes on in order; without transactions, too."""
    made = job(processors=4, delivery="at_least_once")
    producer = CarefulProducer(made.broker.bootstrap, made.input, 200, 4)
    producer.wait_more(300)
    daemons.agent(made.coordinator)
    expand(made, 8)
    producer.use(8)
    made.wait_owners({"agent-1": 2, "agent-2": 2})
    expand(made, 16)
    producer.wait_more(200)
    producer.use(16)
    producer.wait_more(400)
    # Nothing fails here, so nothing is repeated either.
    assert assert_exact_and_in_order(made, producer.stop()) > 50


def test_expand_topics_that_were_expanded_before_the_job(broker, daemons, unique):
    coordinator = daemons.coordinator()
    made = Job(broker, coordinator, unique, 4, 2, settle="2s", partitioner="murmur2", initial_partitions=4)
    producer = CarefulProducer(broker.bootstrap, made.input, 100, 4)
    producer.wait_more(300)
    broker.expand_topic(made.input, 8)
    producer.use(8)
    producer.wait_more(300)
    made.create()
    daemons.agent(coordinator)
    made.wait_active()
    assert assert_exact_and_in_order(made, producer.stop()) > 20
    wait_settled(made)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", growing.CASES, ids=growing.name_of)
def test_expand_partitions_survives_kill(broker, daemons, unique, case):
    growing.run(case, broker, daemons, unique)


@pytest.mark.timeout(300)
def test_expand_partitions_while_an_owner_is_frozen(broker, daemons, unique):
    growing.run_stopped("committed", broker, daemons, unique)
