"""S43: the parent's owner is lost, or a drain's deadline passes, in each state of a running split.

A case is a world of its own, under load: agent-1 owns processor 0, the job's only one, and processor 1 is split off to agent-2;
agent-3 is there, too. The split is held in a state. Then the source dies, or is stopped for so long that it is replaced, or is
asked to leave and can not within the deadline; or source or target are asked to leave without one. What was held goes on.
Without any further help the drain ends as it was asked for, the job gets its second processor in the end, a split that was
called off says why, and each record is processed exactly once.

Used by tests/system/test_expand_drain.py (some cases) and tests/soak/test_expand_drain_soak.py.
"""

import dataclasses
import itertools
import shutil

from draining import ask, look, wait_for
from killing import HISTORY_RECORDS, SLOW, SMALL_BATCHES
from scene import GRACE, LIMIT_S, Held, Scene
from waiting import wait_until

CHILD = 1
RATE = 800


@dataclasses.dataclass(frozen=True)
class State:
    """`who` is held at `point` of its task for as long as the split is to be `state`.

    Behind a `wire`, what the target and Kafka say to each other is held from then on, and the source is let go. With `unheard`
    the coordinator stops itself when the source is to be told, and the source is struck before it has heard of it.
    """

    name: str
    state: str
    who: str = None
    point: str = None
    wire: bool = False
    unheard: bool = False


STATES = [
    State("learning", "learning", "target", "phase@{job}/1/learn"),
    State("caught_up", "caught_up", "source", "reported@{job}/0/replay"),  # slow: not active, so it can not be asked to release
    State("releasing", "releasing", unheard=True),
    State("releasing_stamped", "releasing", "source", "split@{job}/0/active"),
    State("released", "released", "target", "phase@{job}/1/producer"),
    State("activating", "activating", "source", "split@{job}/0/active", wire=True),
]
CANCELLABLE = ("learning", "caught_up")
STRUCK = ("forced", "cancelled", "killed", "frozen")  # the source does nothing more for the time being
ENDS = (*STRUCK, "source_drained", "target_drained")


@dataclasses.dataclass(frozen=True)
class Case:
    state: State
    end: str

    @property
    def id(self):
        return f"{self.state.name}-{self.end}"


# A source that is not told of the release, and works on, is told in a moment.
ALL_CASES = [Case(*each) for each in itertools.product(STATES, ENDS) if each[1] in STRUCK or not each[0].unheard]
TELLING = (
    "learning-forced",
    "caught_up-killed",
    "releasing-forced",
    "releasing_stamped-frozen",
    "released-target_drained",
    "activating-cancelled",
)
CASES = [case for case in ALL_CASES if case.id in TELLING]


class Splitting:
    def __init__(self, case, broker, daemons, unique, loads):
        lost = case.end in ("killed", "frozen")
        coordinator = {"hooks": True, "agent_timeout": "2s" if lost else "20s"}
        # A source that is to be found not active yet is away for a while before.
        grace = "2m" if case.state.name == "caught_up" else GRACE
        self.case = case
        job = {"partitions": 4, "processors": 1, "rejoin_grace": grace}
        self.stage = Scene(broker, daemons, unique, loads, coordinator=coordinator, **job)
        self.daemons = daemons
        self.wire = broker.proxy(0) if case.state.wire else None
        self.source, self.target, self.other = (self.stage.agent(start=False, hooks=True) for _ in range(3))
        self.held = []
        if self.wire:
            self.target.options["kafka.bootstrap.servers"] = self.wire.address

    def finish(self):
        """What is still stopped or held would keep its daemon from ending."""
        for each in (self.stage.coordinator, self.source):
            if each.running:
                each.resume()
        for each in self.held:
            each.let_go()
        if self.wire:
            self.wire.heal()

    # ---- into the state

    def hold(self, who, point):
        made = Held(self.daemons, {"source": self.source, "target": self.target}[who], point.format(job=self.stage.job.name))
        self.held.append(made)
        return made

    def let_go(self):
        """Whoever is held and has not died of it."""
        for each in self.held:
            if each.agent.running:
                each.let_go_surely()
        self.held = []
        if self.wire:
            self.wire.heal()

    def splits(self):
        return sorted((each for each in self.stage.job.handoffs() if each["kind"] == "split"), key=lambda each: each["id"])

    def wait_state(self):
        wanted = self.case.state.state
        wait_until(lambda: self.splits()[-1]["state"] == wanted, LIMIT_S, f"the split is {wanted}")

    def slow_down_source(self, point):
        """It has to learn all again, and is held with some of it replayed."""
        assert self.source.stop() == 0
        shutil.rmtree(self.source.options["state_dir"])
        self.source.options.update(SLOW)
        struck = self.hold("source", point)
        self.source.start()
        struck.wait_struck()
        for option in SLOW:
            del self.source.options[option]
        return struck

    def start(self):
        stage, state = self.stage, self.case.state
        slow = state.name == "caught_up"
        if slow:  # it shall not be before the source is held
            learns = self.hold("target", STATES[0].point)
            stage.history(HISTORY_RECORDS, config=SMALL_BATCHES)
        elif state.who:
            struck = self.hold(state.who, state.point)
        self.source.start()
        stage.job.wait_active()
        self.target.start()
        stage.wait_agent(self.target)
        if state.unheard:
            hook = {"BATON_HOOK": f"handoff_after_commit@{stage.job.name}/{CHILD}/releasing:1:stop"}
            stage.coordinator.environment |= hook
            stage.coordinator.restart()
        stage.load(rate=RATE)
        self.operation = stage.expand(2)
        if state.unheard:
            stage.coordinator.wait_stopped()
        elif slow:
            learns.wait_struck()
            struck = self.slow_down_source(state.point)
            learns.let_go_surely()
            self.held.remove(learns)
            self.wait_state()
            stage.job.put(expect=200, rejoin_grace=GRACE)
        else:
            struck.wait_struck()
            if state.wire:
                self.wire.hold()
                struck.let_go_surely()
                self.held.remove(struck)
            self.wait_state()

    # ---- what happens there

    def strike(self):
        """And what is held goes on, when the outcome of what happened is there or does not depend on it."""
        end = self.case.end
        if not self.case.state.unheard:  # before somebody may be missed, which takes its course
            self.start_other()
        if end in ("forced", "cancelled", "frozen"):
            self.source.pause()
        elif end == "killed":
            self.source.kill()
        if self.case.state.unheard:
            self.stage.coordinator.environment.pop("BATON_HOOK")
            self.stage.coordinator.resume()
            self.wait_state()
            self.start_other()
        getattr(self, f"strike_{end}")()

    def start_other(self):
        self.other.start()
        self.stage.wait_agent(self.other)
        self.first = self.splits()[-1]
        assert self.first["state"] == self.case.state.state, self.first

    def strike_forced(self):
        """The source is stopped until it is drained; what holds the target would keep the split, and so the drain, open."""
        coordinator = self.stage.coordinator
        ask(coordinator, self.source, deadline="1s", on_deadline="force")
        wait_until(lambda: look(coordinator, self.source)["overdue"], LIMIT_S, "the deadline has passed")
        if self.case.state.who == "target" or self.wire:
            self.let_go()
        wait_for(coordinator, self.source, "drained")
        self.source.resume()
        self.let_go()

    def strike_cancelled(self):
        ask(self.stage.coordinator, self.source, deadline="1s", on_deadline="cancel")
        ended = wait_for(self.stage.coordinator, self.source, "cancelled")
        assert ended["error"] == "its deadline has passed", ended
        self.source.resume()
        self.let_go()

    def strike_killed(self):
        self.let_go()

    def strike_frozen(self):
        """Until another has the parent and works; then it wakes up in the middle of what it did."""
        others = (self.target.name, self.other.name)

        def is_replaced():
            parent = self.stage.job.processors()[0]
            return parent["agent"] in others and parent["state"] == "active"

        wait_until(is_replaced, LIMIT_S, "another agent works on the parent")
        self.source.resume()
        self.let_go()

    def strike_source_drained(self):
        ask(self.stage.coordinator, self.source)
        self.let_go()
        wait_for(self.stage.coordinator, self.source, "drained")

    def strike_target_drained(self):
        ask(self.stage.coordinator, self.target)
        self.let_go()
        wait_for(self.stage.coordinator, self.target, "drained")

    # ---- the end

    def judge(self):
        stage, end = self.stage, self.case.end
        operation = stage.job.wait_operation(self.operation)
        assert operation["state"] == "succeeded", (operation, self.splits())
        # Who died a moment ago is not missed yet.
        wait_until(lambda: end != "killed" or not self.has(self.source), LIMIT_S, "the source is missed")
        stage.job.wait_active(2)
        stage.wait_nothing_under_way()
        self.judge_splits()
        self.judge_owners()
        overdue = [each["kind"] for each in stage.events() if each["kind"] == "drain_overdue"]
        assert len(overdue) == (end == "forced"), overdue
        stage.wait_outputs(RATE // 2)
        stage.assert_exact()
        wait_until(lambda: not self.critical(), LIMIT_S, f"nothing is wrong any more; {self.critical()}")

    def has(self, agent):
        return agent.name in [each["agent"] for each in self.stage.job.processors()]

    def critical(self):
        return [each for each in self.stage.job.problems() if each["severity"] == "critical"]

    def judge_splits(self):
        """One has made the processor; those before it were called off while they could be, with a reason."""
        *before, last = self.splits()
        assert last["state"] == "done" and not last["forced"], self.splits()
        for each in before:
            assert each["state"] == "cancelled" and each["error"] and each["releasing_ms"] is None, self.splits()
        if self.case.state.state not in CANCELLABLE:
            assert last["id"] == self.first["id"], self.splits()

    def judge_owners(self):
        """Who was asked to leave, or is lost, has nothing; who was asked in vain has what it had."""
        owners = self.stage.job.processors()
        leaver = self.target if self.case.end == "target_drained" else self.source
        if self.case.end == "cancelled":
            assert owners[0]["agent"] == self.source.name and len({each["agent"] for each in owners}) == 2, owners
        elif self.case.end != "frozen":  # which is an agent as any other again
            assert not self.has(leaver), owners
        moves = [each for each in self.stage.job.handoffs("done") if each["kind"] == "relocate" and each["processor"] == 0]
        taken = self.case.end in ("forced", "killed", "frozen")
        assert [each for each in moves if each["forced"]] or not taken, moves
        assert taken or not [each for each in moves if each["forced"]], moves


def run(case, *world):
    """`world`: the fixtures broker, daemons, unique and loads."""
    splitting = Splitting(case, *world)
    try:
        splitting.start()
        splitting.strike()
        splitting.judge()
    finally:
        splitting.finish()
