"""S43: drains and losses in the states of a running split: see split_matrix.py. All cases are in the long runs."""

import pytest

import split_matrix


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", split_matrix.CASES, ids=lambda case: case.id)
def test_expand_drain(broker, daemons, unique, loads, case):
    split_matrix.run(case, broker, daemons, unique, loads)
