"""Agents that are asked to leave: all that they have is handed over while they work on, and then they can be stopped anyhow."""

from datetime import datetime

import pytest

from draining import ask, cancel, look, wait_for
from killing import World
from scene import LIMIT_S, Scene
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)

HISTORY = 20_000


@pytest.fixture
def scene(broker, daemons, unique, loads):
    return lambda **options: Scene(broker, daemons, unique, loads, **options)


@pytest.fixture
def make_world(broker, daemons, unique, loads):
    """Of a kind of World. What is held at the end would keep its daemon from ending."""
    made = []

    def make(kind, **options):
        made.append(kind(broker, daemons, unique, loads, **options))
        return made[-1]

    yield make
    for each in made:
        each.try_to_let_go()


def owned_by(job, agent):
    return {each["processor"] for each in job.processors() if each["agent"] == agent.name}


def processed(processor):
    """How many records its owner has committed."""
    known = [each for each in processor["partitions"] if each["owned"] and each["t1"] is not None]
    return sum(each["t1"] - each["t0"] for each in known)


def kinds_of_drains(stage):
    return [each["kind"] for each in stage.events() if each["kind"].startswith("drain_")]


# ---- under load


def test_drain_under_load_hands_all_over_and_then_the_agent_can_be_killed(scene, figures):
    stage = scene(agents=3, partitions=8)
    leaver, *staying = stage.agents
    stage.history(HISTORY)
    stage.load(rate=2_000)
    had = owned_by(stage.job, leaver)
    assert len(had) == 3, stage.job.processors()
    asked = ask(stage.coordinator, leaver, reason="its host is replaced")
    assert (asked["processors"], asked["deadline_at"], asked["reason"]) == (3, None, "its host is replaced"), asked
    assert asked["actor"].startswith("api ") and asked["started_at"] and not asked["ended_at"], asked
    assert {each["processor"] for each in asked["left"]} == had, asked
    left = [had]

    def is_drained():
        seen = look(stage.coordinator, leaver)
        left.append({each["processor"] for each in seen["left"]})
        assert left[-1] <= left[-2], f"what has gone does not come back: {left}"
        assert {each["target"] for each in seen["left"]} <= {each.name for each in staying} | {None}, seen
        return seen["state"] == "drained"

    wait_until(is_drained, LIMIT_S, "it is drained")
    done = wait_for(stage.coordinator, leaver, "drained")
    assert not done["left"] and not done["overdue"] and done["processors"] == 3, done
    seen = stage.coordinator.http.get(f"/v1/agents/{leaver.name}").json
    assert (seen["drain"], seen["safe_to_stop"]) == ("drained", True), seen
    handoffs = stage.job.handoffs()
    assert sorted(each["processor"] for each in handoffs) == sorted(had), handoffs
    for each in handoffs:
        assert (each["state"], each["forced"], each["source"]) == ("done", False, leaver.name), each
        assert each["learning_ms"] is not None and each["releasing_ms"] is not None, each
    figures(output_gap_ms=sorted(each["output_gap_ms"] for each in handoffs))
    stage.job.wait_owners({each.name: 4 for each in staying})
    epochs = stage.epochs()
    leaver.kill()
    stage.wait_agent(leaver, "lost")
    stage.wait_outputs(2_000)
    assert stage.epochs() == epochs and len(stage.job.handoffs()) == 3, "nobody noticed"
    assert kinds_of_drains(stage) == ["drain_requested", "drain_done"]
    stage.assert_exact()


def test_drain_of_the_old_half_of_a_fleet_moves_nothing_twice(scene):
    """Two more agents come, and the two that were there get nothing any more and leave at once."""
    stage = scene(agents=2, partitions=8)
    old = stage.agents
    stage.history(HISTORY)
    stage.load(rate=2_000)
    new = [stage.agent() for _ in range(2)]
    for agent in new:
        stage.wait_agent(agent)
    for agent in old:
        stage.coordinator.http.put(f"/v1/agents/{agent.name}/eligibility", {"schedulable": False}, expect=200)
    for agent in old:
        ask(stage.coordinator, agent)
    for agent in old:
        assert not wait_for(stage.coordinator, agent, "drained")["left"]
    stage.job.wait_owners({each.name: 4 for each in new})
    # What was learned when its owner was asked to leave may have been called off, to be learned elsewhere.
    assert {each["state"] for each in stage.job.handoffs()} <= {"done", "cancelled"}, stage.job.handoffs()
    handoffs = stage.job.handoffs("done")
    assert sorted(each["processor"] for each in handoffs) == list(range(8)), handoffs
    for each in handoffs:
        assert not each["forced"], each
        assert each["source"] in [agent.name for agent in old] and each["target"] in [agent.name for agent in new], each
    for agent in old:
        agent.kill()
    for agent in old:
        stage.wait_agent(agent, "lost")
    stage.wait_outputs(2_000)
    assert len(stage.job.handoffs("done")) == 8
    stage.assert_exact()


# ---- and back


def test_drain_and_back_before_the_old_copy_is_closed(make_world):
    """S19: the processor is learned back while the agent that gave it away has not closed its state yet; it is used."""
    world = make_world(World, agents=2, partitions=2, agent_timeout="20s")
    world.arm("source", "phase@closed", "hold")
    world.fill(HISTORY)
    world.start()
    world.job.wait_drained()
    wait_until(lambda: world.committed() > HISTORY // 4, LIMIT_S, "the source has said so")
    had = world.committed()
    ask(world.coordinator, world.source)
    wait_until(lambda: world.has_struck("source", "phase@closed", "hold"), LIMIT_S, "it is held")
    wait_for(world.coordinator, world.source, "drained")
    assert world.job.owners() == {world.target.name: 2}
    assert cancel(world.coordinator, world.source)["state"] == "cancelled"
    world.move(world.source)
    wait_until(lambda: world.handoffs()[0]["target"] == world.source.name, LIMIT_S, "it is to be learned back")
    assert world.state() == "learning" and not world.source.log_events("task_phase", processor=0, phase="learn")
    world.let_go()
    wait_until(lambda: world.state() == "done", LIMIT_S, "it is back")
    world.job.wait_owners({world.source.name: 1, world.target.name: 1})
    mine = world.job.processors()[0]
    assert mine["agent"] == world.source.name, mine
    assert mine["replayed"] <= processed(mine) - had, "a state made anew has replayed the history"
    world.judge()


def test_drain_until_restart_ends_with_the_next_start_which_learns_back_what_it_has(scene):
    """S19: what was drained away is on the disk of the one that comes back: it gets just that, and only what is new is read."""
    stage = scene(agents=2, partitions=4)
    leaver, other = stage.agents
    stage.history(HISTORY)
    stage.load()

    def processed_by_leaver():
        return {each["processor"]: processed(each) for each in stage.job.processors() if each["agent"] == leaver.name}

    wait_until(lambda: sum(processed_by_leaver().values()) > HISTORY // 4, LIMIT_S, "the history is processed")
    had = processed_by_leaver()
    ask(stage.coordinator, leaver, until_restart=True)
    wait_for(stage.coordinator, leaver, "drained")
    stage.job.wait_owners({other.name: 4})
    # Its states are closed a moment after others have taken over.
    wait_until(lambda: all(leaver.log_events("task_closed", processor=each) for each in had), LIMIT_S, "its states are closed")
    leaver.kill()
    stage.wait_agent(leaver, "lost")
    assert look(stage.coordinator, leaver)["state"] == "drained"
    leaver.start()
    ended = wait_for(stage.coordinator, leaver, "cancelled")
    assert ended["error"] == "the agent has started anew", ended
    stage.job.wait_owners({leaver.name: 2, other.name: 2})
    assert owned_by(stage.job, leaver) == set(had)
    assert int(leaver.log_events("kept_states")[-1]["count"]) == 2
    back = [each for each in stage.job.handoffs("done") if each["target"] == leaver.name]
    assert len(back) == 2 and not any(each["forced"] for each in back), back
    # A state made anew has replayed what was processed before it left as well.
    for each in stage.job.processors():
        if each["processor"] in had:
            assert each["replayed"] <= processed(each) - had[each["processor"]], (each, had)
    stage.assert_exact()


def test_drain_lasts_over_a_start_until_it_is_cancelled(scene):
    stage = scene(agents=2, partitions=2, coordinator={"agent_timeout": "20s"})
    leaver, other = stage.agents
    stage.load()
    ask(stage.coordinator, leaver)
    wait_for(stage.coordinator, leaver, "drained")
    assert leaver.stop() == 0
    leaver.start()
    stage.wait_agent(leaver, tasks=0)
    refused = stage.coordinator.http.problem(
        "POST", f"/v1/jobs/{stage.job.name}/moves", {"processor": 0, "agent": leaver.name}, expect=409
    )
    assert refused["code"] == "move_refused" and "drained" in refused["detail"], refused
    stage.rebalance()
    stage.coordinator.kill()
    stage.coordinator.start()
    stage.job.wait_owners({other.name: 2})
    assert wait_for(stage.coordinator, leaver, "drained")["processors"] == 1
    cancel(stage.coordinator, leaver)
    stage.job.wait_owners({leaver.name: 1, other.name: 1})
    assert look(stage.coordinator, leaver)["state"] == "cancelled"
    stage.assert_exact()


# ---- deadlines that can not be met


class Late(World):
    """agent-1 has the processors 0 and 2; agent-2 gets them, and the learner of 0 does not get on."""

    def __init__(self, *world, **spec):
        super().__init__(*world, partitions=4, agent_timeout="20s", **spec)
        self.arm("target", "phase@learn", "hold")
        self.start()

    def drain(self):
        """Without a deadline, until the learner is held: nobody knows how long that takes."""
        ask(self.coordinator, self.source)
        wait_until(lambda: self.has_struck("target", "phase@learn", "hold"), LIMIT_S, "the learner is held")

    def set_deadline(self, on_deadline):
        """Returns the drain as it is then."""
        seen = ask(self.coordinator, self.source, deadline="3s", on_deadline=on_deadline)
        assert (seen["deadline"], seen["on_deadline"], seen["overdue"]) == ("3s", on_deadline, False), seen
        return seen

    def assert_not_before(self, kind, deadline_at):
        """The time is kept by another clock than the one that dates it: they may differ by as much as they are rounded. Returns
        how many ms after it."""
        late = datetime.fromisoformat(self.event(kind)["at"]) - datetime.fromisoformat(deadline_at)
        assert late.total_seconds() > -0.1, (kind, deadline_at)
        return round(late.total_seconds() * 1000)

    def event(self, kind):
        items = self.coordinator.http.get("/v1/events?limit=1000").json["items"]
        (found,) = [each for each in items if each["kind"] == kind]
        return found


def test_drain_is_forced_at_its_deadline(make_world, figures):
    """One at a time learns, and that one is held: at the deadline both go, the one without a learner too."""
    world = make_world(Late, max_learners=1)
    world.drain()
    asked = world.set_deadline("force")
    assert sorted((each["processor"], each["state"]) for each in asked["left"]) == [(0, "learning"), (2, None)], asked
    wait_until(lambda: look(world.coordinator, world.source)["overdue"], LIMIT_S, "it is overdue")
    figures(after_deadline_ms=world.assert_not_before("drain_overdue", asked["deadline_at"]))
    assert not owned_by(world.job, world.source), world.job.processors()
    seen = look(world.coordinator, world.source)
    assert seen["state"] == "draining" and not seen["safe_to_stop"], "0 is not served yet, and its state may be needed"
    world.let_go()
    done = wait_for(world.coordinator, world.source, "drained")
    assert done["overdue"] and not done["left"], done
    for processor in (0, 2):
        (only,) = world.handoffs(processor)
        assert (only["state"], only["forced"], only["target"]) == ("done", True, world.target.name), only
    world.judge()
    assert world.job.owners() == {world.target.name: 4}


def test_drain_is_cancelled_at_its_deadline(make_world, figures):
    """What has gone by then has gone, the rest stays with its owner, which goes on under its epoch."""
    world = make_world(Late)
    world.drain()
    wait_until(lambda: (world.handoffs(2) or [{"state": None}])[0]["state"] == "done", LIMIT_S, "the other one goes")
    asked = world.set_deadline("cancel")
    epoch = world.job.processors()[0]["epoch"]
    ended = wait_for(world.coordinator, world.source, "cancelled")
    assert ended["error"] == "its deadline has passed" and not ended["overdue"], ended
    figures(after_deadline_ms=world.assert_not_before("drain_cancelled", asked["deadline_at"]))
    world.let_go()
    world.judge()
    assert owned_by(world.job, world.source) == {0} and world.job.processors()[0]["epoch"] == epoch
    (only,) = world.handoffs()
    assert only["state"] == "cancelled" and only["error"] == "its deadline has passed", only
    assert world.handoffs(2)[0]["target"] == world.target.name
