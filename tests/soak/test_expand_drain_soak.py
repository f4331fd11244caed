"""Drains and losses in each state of a split (tests/system/split_matrix.py), five times over."""

import pytest

import split_matrix

ROUNDS = 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("case", split_matrix.ALL_CASES, ids=lambda case: case.id)
def test_expand_drain_soak(broker, daemons, unique, loads, case, number):
    split_matrix.run(case, broker, daemons, unique, loads)
