"""What happens in each phase of a drain (tests/system/draining.py) five times over, with other records and at other moments."""

import pytest

import draining
from draining import mortal  # noqa: F401  pytest finds the fixture by its name here

ROUNDS = 5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
@pytest.mark.parametrize("case", draining.CASES, ids=lambda case: case.id)
def test_drain_matrix_soak(broker, daemons, unique, loads, case, number):
    draining.run(case, broker, daemons, unique, loads, seed=100 * number + draining.ALL_CASES.index(case))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
@pytest.mark.parametrize("case", draining.BROKER_CASES, ids=lambda case: case.id)
def test_drain_matrix_broker_soak(mortal, daemons, unique, loads, case, number):  # noqa: F811  the fixture
    draining.run(case, mortal, daemons, unique, loads, seed=100 * number + draining.ALL_CASES.index(case))
