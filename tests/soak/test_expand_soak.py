"""Who dies in which state of a split (tests/system/splitting.py) and of an expansion of partitions (growing.py), five times
over, and once for at_least_once."""

import pytest

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
