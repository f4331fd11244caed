"""Who dies in which state of a split (tests/system/splitting.py), five times over, and once for at_least_once."""

import pytest

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
