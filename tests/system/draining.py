"""Drains as tests ask for them, and their matrix: something happens while a hand-over of a drain is held in one of its states.

A case is a world of its own, as in killing.py: agent-1 has the processors 0 and 3 and is asked to leave. The hand-over of
processor 0 to agent-2 is held by a task that waits at a hook, the other one takes its course. Then the drain is cancelled,
somebody dies by `kill -9`, the broker among them, and what was held goes on. Without any further help all has to end as
it should: the agent is drained, or stays; every processor is active, no hand-over is open, and each record is processed exactly once.

Used by tests/system/test_drain_matrix.py (each case once) and tests/soak/test_drain_soak.py.
"""

import dataclasses
import itertools

import pytest

from fixtures import SHARED_PROPERTIES
from kafka import Broker
from killing import HISTORY_RECORDS, LIMIT_S, PROCESSOR, World
from waiting import wait_until

# A broker that is killed may come back once its session is over, which is not to take two minutes.
PROPERTIES = {name: value for name, value in SHARED_PROPERTIES.items() if name != "broker.session.timeout.ms"}

GRACE = "2s"

# ---- drains


def ask(coordinator, agent, expect=202, **wish):
    return coordinator.http.put(f"/v1/agents/{agent.name}/drain", wish, expect=expect).json


def cancel(coordinator, agent):
    return coordinator.http.delete(f"/v1/agents/{agent.name}/drain", expect=200).json


def look(coordinator, agent):
    return coordinator.http.get(f"/v1/agents/{agent.name}/drain").json


def wait_for(coordinator, agent, state, limit_s=LIMIT_S):
    """The drain, once it is in that state."""
    seen = {}

    def found():
        seen.update(look(coordinator, agent))
        return seen["state"] == state

    try:
        wait_until(found, limit_s, f"the drain of {agent.name} is {state}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{seen}") from None
    assert seen["safe_to_stop"] == (state == "drained"), seen
    assert seen["ended_at"] or state == "draining", seen
    return seen


# ---- the matrix


@dataclasses.dataclass(frozen=True)
class Phase:
    """The hand-over is in `state` for as long as a task of `who` waits at `point`.

    Or, behind a `wire`, what the target and Kafka say to each other is held, from when the source was held at the point.
    """

    state: str
    who: str
    point: str
    slow: bool = False  # the source has all to replay again: it is not active, so that it can not be asked to release
    wire: bool = False


PHASES = [
    Phase("learning", "target", "phase@learn"),
    Phase("caught_up", "source", "reported@replay", slow=True),
    Phase("releasing", "source", "phase@checkpoint"),  # it has committed, and has not said so
    Phase("released", "target", "phase@producer"),
    Phase("activating", "source", "phase@checkpoint", wire=True),
]
BEFORE_RELEASE = ("learning", "caught_up", "releasing")
# Who dies; None: nobody, the drain is cancelled. Coordinator and broker come back, agents do not.
ENDS = {None: "cancelled", "broker": "broker-restarted"}
VICTIMS = (None, "source", "target", "coordinator", "broker")


@dataclasses.dataclass(frozen=True)
class Case:
    phase: Phase
    victim: str

    @property
    def id(self):
        return f"{self.phase.state}-" + ENDS.get(self.victim, f"{self.victim}-killed")


ALL_CASES = [Case(*each) for each in itertools.product(PHASES, VICTIMS)]
BROKER_CASES = [case for case in ALL_CASES if case.victim == "broker"]
CASES = [case for case in ALL_CASES if case.victim != "broker"]


class Draining(World):
    def __init__(self, case, *world, seed):
        # Who does not die is not to be called lost on a machine that is busy. A slow source is away for a while before.
        super().__init__(*world, seed=seed, agents=3, rejoin_grace="2m" if case.phase.slow else GRACE,
                         agent_timeout="3s" if case.victim in ("source", "target") else "20s")
        self.case = case
        self.wire = self.broker.proxy(0) if case.phase.wire else None

    def look(self):
        return look(self.coordinator, self.source)

    def start(self):
        phase = self.case.phase
        if phase.slow:
            self.fill(HISTORY_RECORDS)
        else:
            self.arm(phase.who, phase.point, "hold")
        if self.wire:
            self.target.options["kafka.bootstrap.servers"] = self.wire.address
        super().start()
        self.wait_outputs(self.seed * 37 % 200)
        if phase.slow:
            self.slow_down_source()
            self.job.put(expect=200, rejoin_grace=GRACE)

    def hold(self):
        """Until the drain is under way, and its hand-over is held where it is to be."""
        phase = self.case.phase
        asked = ask(self.coordinator, self.source, reason="a test")
        assert (asked["state"], asked["processors"]) == ("draining", 2), asked
        wait_until(lambda: self.has_struck(phase.who, phase.point, "hold"), LIMIT_S, f"{phase.who} is held at {phase.point}")
        if self.wire:
            self.wire.hold()
            super().let_go()
        wait_until(lambda: self.state() == phase.state, LIMIT_S, f"the hand-over is {phase.state}")
        self.held = self.handoffs()[0]
        assert self.held["target"] == self.target.name and not self.held["forced"], self.held
        told = {"job": self.job.name, "handoff": self.held["id"], "target": self.target.name, "state": phase.state}

        def is_told():  # what is shown of it may be a moment behind the hand-over
            return any(each["processor"] == PROCESSOR and told.items() <= each.items() for each in self.look()["left"])

        wait_until(is_told, LIMIT_S, f"the drain shows {told}")
        seen = self.look()
        assert seen["state"] == "draining" and not seen["safe_to_stop"], seen

    def let_go(self):
        if self.wire:
            self.wire.heal()
        else:
            super().let_go()

    def strike(self):
        """What is held goes on at once; who comes back comes back after that."""
        victim, held = self.case.victim, self.case.phase.who
        if victim is None:
            said = cancel(self.coordinator, self.source)
            assert said["state"] == "cancelled" and said["error"].startswith("cancelled by "), said
        elif victim == "broker":
            self.broker.kill()
        else:
            self.daemon(victim).kill()
        if held != victim or self.wire:
            self.let_go()
        if victim == "broker":
            self.broker.start()
        elif victim == "coordinator":
            self.coordinator.start()

    def judge(self):
        wanted = "drained" if self.case.victim else "cancelled"
        ended = wait_for(self.coordinator, self.source, wanted)
        super().judge()
        assert self.look()["state"] == wanted and not self.look()["overdue"], self.look()
        agent = self.coordinator.http.get(f"/v1/agents/{self.source.name}").json
        assert (agent["drain"], agent["safe_to_stop"]) == (("drained", True) if self.case.victim else (None, False)), agent
        (first,) = [each for each in self.handoffs() if each["id"] == self.held["id"]]
        if self.case.victim:
            assert not ended["left"] and self.source.name not in self.job.owners(), (ended, self.job.owners())
            self.judge_held(first)
        else:
            self.judge_cancelled(first)

    def judge_held(self, first):
        """It ends as it was meant, unless one of its two agents died."""
        victim, before_release = self.case.victim, self.case.phase.state in BEFORE_RELEASE
        newest = self.handoffs()[0]
        if victim == "target":
            other = self.agents[2].name
            # Whoever has given it up has its state, gets it back, and gives it to somebody else then. What was held at the
            # source goes on before the coordinator misses the target, so that it may come to that.
            ends = [("cancelled", self.target.name)] if before_release else []
            ends += [("done", self.source.name)] if self.case.phase.state != "learning" else []
            assert (first["state"], first["target"]) in ends, first
            assert (newest["state"], newest["target"], newest["forced"]) == ("done", other, False), newest
        elif victim == "broker":  # which may take longer than the source has for its release
            assert (newest["state"], newest["forced"]) == ("done", False), newest
        else:
            forced = victim == "source" and before_release
            assert (first["state"], first["target"], first["forced"]) == ("done", self.target.name, forced), first
            assert newest == first, "and none follows"

    def judge_cancelled(self, first):
        """What was not released stays, under the same owner; the rest finishes."""
        if self.case.phase.state in BEFORE_RELEASE:
            assert first["state"] == "cancelled" and first["error"].startswith("cancelled by "), first
            assert self.handoffs()[0] == first, "and none follows"
            assert self.job.processors()[PROCESSOR]["agent"] == self.source.name, self.job.processors()
        else:
            assert (first["state"], first["target"], first["forced"]) == ("done", self.target.name, False), first


def run(case, *world, seed=1):
    """`world`: the fixtures broker (which is killed, when that is the case), daemons, unique and loads."""
    draining = Draining(case, *world, seed=seed)
    try:
        draining.start()
        draining.hold()
        draining.strike()
        draining.judge()
    finally:
        if draining.wire:
            draining.wire.heal()
        draining.try_to_let_go()  # what is still held would keep its daemon from ending


@pytest.fixture(scope="module")
def mortal(tmp_path_factory, no_process_is_left):
    """A broker that the cases restart."""
    made = Broker(tmp_path_factory.mktemp("mortal"), proxies=1, properties=PROPERTIES, mortal=True)
    try:
        yield made.start()
    finally:
        made.finish()
