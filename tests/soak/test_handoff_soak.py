"""The kill matrix of hand-overs (tests/system/killing.py) five times over, with other records and at other moments, and
once with at_least_once.
"""

import pytest

import killing

ROUNDS = 5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
@pytest.mark.parametrize("case", killing.ALL_CASES, ids=lambda case: case.id)
def test_handoff_kill_soak(broker, daemons, unique, loads, case, number):
    killing.run(case, broker, daemons, unique, loads, seed=100 * number + killing.ALL_CASES.index(case))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", killing.ALL_CASES, ids=lambda case: case.id)
def test_handoff_kill_at_least_once_soak(broker, daemons, unique, loads, case):
    """Outputs may be repeated, nothing else: no record is lost, and none is applied to the state twice."""
    killing.run(case, broker, daemons, unique, loads, seed=killing.ALL_CASES.index(case), delivery="at_least_once")
