"""What tests/system/test_restart_network.py does for exactly_once, for at_least_once: nothing is lost, though it may repeat."""

import pytest
from network import cut_ten_times, hold_a_commit, line  # noqa: F401  pytest finds the fixture by its name here
from proxy import DOWN, UP

pytestmark = pytest.mark.timeout(300)


def test_restart_after_ten_cuts_of_the_line_soak(line, loads):
    job = line(partitions=4, delivery="at_least_once")
    cut_ten_times(job, loads(job.broker.bootstrap, job.input, keys=1_000, seed=61, rate=2_000))


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_restart_after_commits_whose_end_is_not_known_soak(line, loads, direction, figures):
    job = line(delivery="at_least_once")
    hold_a_commit(job, loads(job.broker.bootstrap, job.input, keys=500, seed=62, rate=1_000), direction, figures)
