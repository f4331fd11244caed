"""What tests/system/test_restart_fleet.py does, with the load and for as long as the figures are stated."""

import pytest

from outages import fleet, lose_the_broker, restart_one_by_one

pytestmark = pytest.mark.timeout(900)
RATE = 4_000
PROGRESS_S = 15


def test_restart_one_by_one_moves_nothing_soak(broker, daemons, unique, loads):
    restart_one_by_one(fleet(broker, daemons, unique, loads), RATE)


def test_restart_of_the_broker_after_half_a_minute_soak(own_broker, daemons, unique, loads, figures):
    stage = fleet(own_broker(mortal=True), daemons, unique, loads)
    spent_s = lose_the_broker(stage, RATE, down_s=30)
    figures(progress_s=round(spent_s, 2))
    assert spent_s <= PROGRESS_S
