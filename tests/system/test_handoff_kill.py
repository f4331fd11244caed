"""The kill matrix of hand-overs; what a case is and what it proves stands in killing.py. All of it is in the soak tests."""

import pytest

import killing

CASES = [case for case in killing.ALL_CASES if not case.long_runs]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_handoff_kill(broker, daemons, unique, loads, case):
    killing.run(case, broker, daemons, unique, loads)
