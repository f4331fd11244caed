"""Restarts of a whole fleet, and a broker that is gone: nothing moves, nothing is lost, and it goes on by itself."""

import pytest

from outages import fleet, lose_the_broker, restart_one_by_one

pytestmark = pytest.mark.timeout(600)
RATE = 800


def test_restart_one_by_one_moves_nothing(broker, daemons, unique, loads):
    restart_one_by_one(fleet(broker, daemons, unique, loads), RATE)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_restart_of_the_broker_after_a_while(own_broker, daemons, unique, loads, figures, delivery):
    stage = fleet(own_broker(mortal=True), daemons, unique, loads, delivery=delivery)
    figures(progress_s=round(lose_the_broker(stage, RATE, down_s=12), 2))
