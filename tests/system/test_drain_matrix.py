"""Drains that are cancelled, and agents, coordinator and broker that die in each of their phases: see draining.py."""

import pytest

import draining
from draining import mortal  # noqa: F401  pytest finds the fixture by its name here


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", draining.CASES, ids=lambda case: case.id)
def test_drain_matrix(broker, daemons, unique, loads, case):
    draining.run(case, broker, daemons, unique, loads)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", draining.BROKER_CASES, ids=lambda case: case.id)
def test_drain_matrix_broker(mortal, daemons, unique, loads, case):  # noqa: F811  the fixture
    draining.run(case, mortal, daemons, unique, loads)
