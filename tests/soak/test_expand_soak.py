"""Who dies in which state of a split (tests/system/splitting.py) and of an expansion of partitions (growing.py), five times
over, and once for at_least_once."""

import shutil

import pytest

import benches
import doubling
import growing
import splitting

ROUNDS = 5
RATES = (200, 400, 800, 1200, 1600)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("case", splitting.CASES + splitting.MORE_CASES, ids=splitting.name_of)
def test_expand_survives_kill_soak(broker, daemons, unique, loads, case, number):
    splitting.run(case, broker, daemons, unique, loads, rate=RATES[number])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", splitting.CASES + splitting.MORE_CASES, ids=splitting.name_of)
def test_expand_survives_kill_at_least_once_soak(broker, daemons, unique, loads, case):
    splitting.run(case, broker, daemons, unique, loads, delivery="at_least_once")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("case", splitting.CASES + splitting.MORE_CASES, ids=splitting.name_of)
def test_expand_survives_kill_where_topics_have_grown_soak(broker, daemons, unique, loads, case, number):
    splitting.run(case, broker, daemons, unique, loads, rate=RATES[number], grown=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", splitting.CASES + splitting.MORE_CASES, ids=splitting.name_of)
def test_expand_survives_kill_where_topics_have_grown_at_least_once_soak(broker, daemons, unique, loads, case):
    splitting.run(case, broker, daemons, unique, loads, delivery="at_least_once", grown=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_expand_doubles_both_again_and_again_soak(broker, daemons, unique, loads, number):
    """4 -> 8 -> 16 of both; after each doubling an agent is killed, comes back without its state, and the other one is."""

    def kill(stage, count):
        for agent in stage.agents:
            agent.kill()
            stage.job.wait(f"{agent.name} is missed", lambda _: stage.job.owners().get(agent.name, 0) == 0, 90)
            shutil.rmtree(agent.options["state_dir"])
            agent.start()
            stage.job.wait_active(count, limit_s=90)
            stage.wait_outputs(300)

    doubling.run(broker, daemons, unique, loads, initial=4, doublings=2, rate=RATES[number], after=kill)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("case", growing.ALL_CASES, ids=growing.name_of)
def test_expand_partitions_survives_kill_soak(broker, daemons, unique, case, number):
    growing.run(case, broker, daemons, unique, back=number % 2 == 0, rate=RATES[number], seed=number)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", growing.ALL_CASES, ids=growing.name_of)
def test_expand_partitions_survives_kill_at_least_once_soak(broker, daemons, unique, case):
    growing.run(case, broker, daemons, unique, delivery="at_least_once")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("phase", [None, "producer", "committed", "stamp"])
def test_expand_partitions_while_an_owner_is_frozen_soak(broker, daemons, unique, phase, number):
    growing.run_stopped(phase, broker, daemons, unique, rate=RATES[number], seed=number)


@pytest.mark.timeout(600)
def test_expand_bench_prints_a_line_for_each_and_one_for_all_soak(broker):
    """`make bench-expand`, small: no figure is judged."""
    small = {"rounds": 1, "rate": 1000, "keys": 500, "history": 3000, "partitions": 2, "settle": 1, "pause": 2, "warm_up": 1,
             "margin": 200, "window": 500, "steady_windows": 3}  # fmt: skip
    lines, whole = benches.run("bench_expand", broker, 500, **small)
    assert [(line["kind"], line["from"], line["to"]) for line in lines] == [
        ("partitions", 2, 4), ("partitions", 4, 8), ("processors", 2, 3), ("processors", 3, 4)]  # fmt: skip
    for line in lines:
        assert line["took_ms"] > 0 and line["latency_ms"]["p50"] > 0 and line["moved_latency_ms"]["p50"] > 0
        assert (line["beside_latency_ms"] is not None) == (line["kind"] == "processors")
    assert whole["expansions"] == len(lines) and whole["steady_windows"] >= 3 and whole["exact"] is True
    assert abs(whole["ratio_p99"] - whole["during_latency_ms"]["p99"] / whole["steady_latency_ms"]["p99"]) < 0.01
    assert whole["outputs"] == whole["load_records"] + 2 * small["history"]
