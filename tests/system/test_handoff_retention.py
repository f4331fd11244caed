"""What an agent does not need any more goes from its disk."""

import pathlib

import pytest

from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


def test_handoff_leaves_a_state_that_goes_when_nobody_uses_it(scene):
    """The owner before drops what it has given away, and keeps what it has; it learns it again when it gets it back."""
    stage = scene(partitions=2)
    first = stage.agent(state_retention="2s")
    stage.job.wait_active()
    stage.load()
    second = stage.agent()
    stage.job.wait_owners({first.name: 1, second.name: 1})
    folders = pathlib.Path(first.options["state_dir"]) / stage.job.name
    kept = next(each["processor"] for each in stage.job.processors() if each["agent"] == first.name)
    given = 1 - kept
    wait_until(lambda: not (folders / str(given)).exists(), LIMIT_S, "the state that was given away is dropped")
    assert (folders / str(kept) / "data.mdb").exists()
    first.wait_log("state_dropped")
    dropped = first.log_events("state_dropped")
    assert dropped and all(line["state"].endswith(f"/{given}") and int(line["unused_ms"]) >= 2000 for line in dropped), dropped
    assert stage.job.wait_operation(stage.move(first, given))["state"] == "succeeded"
    assert (folders / str(given) / "data.mdb").exists()
    stage.assert_exact()
