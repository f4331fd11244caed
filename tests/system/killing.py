"""The kill matrix of hand-overs: one of source, target and coordinator dies at a chosen point of one hand-over.

A case is a world of its own (coordinator, agents, job) on the shared broker, under load. One processor is moved; the victim
dies by `kill -9`, at a point of the code that strikes by itself (common/hook.h) or while another daemon is held at one. That
it died *there* is proven by what the hook said, by the signal, and by the hand-over's state in the coordinator's store; a
case whose kill did not strike fails. Then the victim is started again, or not, and without any further help all has to
be as it should be: every processor active, no hand-over left open, epochs only risen, and each record processed exactly once.

Used by tests/system/test_handoff_kill.py (each case once) and tests/soak/test_handoff_soak.py.
"""

import dataclasses
import errno
import http.client
import os
import shutil
import sqlite3

from jobs import Job
from oracle import check_outputs, read_commits
from waiting import wait_until

LIMIT_S = 120
AGENT_TIMEOUT = "2s"
PROCESSOR = 0
KEYS = 200
RATE = 400
# Of the cases in which somebody is to take a while to replay: batches of few records, each fetched by itself.
HISTORY_RECORDS = 12_000
# Much is fetched before a learner is told the first T1, so there has to be more to be slow at.
LEARNED_RECORDS = 20_000
SMALL_BATCHES = {"batch.num.messages": 2}
SLOW = {"kafka.fetch.message.max.bytes": "100"}
MOVES_MAX = 20

AFTER = ("released", "activating")
ENDED = ("done", "cancelled", "failed")
STATES = ("learning", "caught_up", "releasing", *AFTER, *ENDED)


@dataclasses.dataclass(frozen=True)
class Case:
    """`victim` dies at `point`, or from outside while another daemon's task is held at a point: `held` = (who, point).

    Points are "name@phase" of the processor's task, for the coordinator "name@state". `states` are the hand-over's possible
    states at that moment by the coordinator's store, None standing for none.
    """

    victim: str
    states: tuple
    point: str = None
    held: tuple = None
    slow: str = None  # this one reads slowly
    back: bool = True  # the victim is started again at once
    forced: bool = False  # the owner is lost, and the hand-over that follows is the one
    acceptable_lag: int = 10_000  # 10: somebody who is slow is found learning; else taking over with a replay to do
    long_runs: bool = False  # only there
    also: str = None  # dies next, and comes back with the victim
    let_go_when: str = None  # what is held goes on when the hand-over is there, instead of right after the kill

    @property
    def id(self):
        where = self.point or f"held-{self.held[1]}"
        parts = ["forced"] if self.forced else []
        parts += [self.victim] if self.point else [self.victim, self.states[0]]
        parts += [f"and-{self.also}"] if self.also else []
        parts += [where.replace("@", "-in-")]
        parts += [f"until-{self.let_go_when}"] if self.let_go_when else []
        return "-".join(parts if self.victim == "coordinator" else [*parts, "back" if self.back else "gone"])


def mostly(returns, **options):
    """With and without the victim's return, one of them in the long runs only."""
    return [Case(**options, back=back, long_runs=back != (returns == "back")) for back in (True, False)]


LEARNING = {"slow": "target", "acceptable_lag": 10}  # in its midst, some of it written
SOURCE_CASES = [
    *mostly("back", victim="source", states=("learning",), held=("target", "phase@learn")),
    *mostly("gone", victim="source", states=("learning",), held=("target", "checkpoint_after@learn"), **LEARNING),
    *mostly("back", victim="source", states=("caught_up",), held=("source", "reported@replay"), slow="source"),
    *mostly("back", victim="source", states=("releasing",), point="commit_before@release"),
    *mostly("gone", victim="source", states=("releasing",), point="commit_after@release"),
    # From here on the report that it has released is about to be sent, on its way, or has arrived.
    *mostly("back", victim="source", states=("releasing", *AFTER, "done"), point="checkpoint_before@checkpoint"),
    *mostly("gone", victim="source", states=("releasing", *AFTER, "done"), point="checkpoint_after@checkpoint"),
    *mostly("back", victim="source", states=("releasing", *AFTER, "done"), point="phase@closed"),
    *mostly("gone", victim="source", states=("released",), held=("target", "phase@producer")),
    *mostly("gone", victim="source", states=("activating",), held=("target", "reported@replay"), slow="target"),
]

TARGET_CASES = [
    *mostly("back", victim="target", states=("learning",), point="phase@learn"),
    *mostly("back", victim="target", states=("learning",), point="checkpoint_before@learn", **LEARNING),
    *mostly("gone", victim="target", states=("learning",), point="checkpoint_after@learn", **LEARNING),
    *mostly("gone", victim="target", states=("learning",), point="warm@learn"),
    *mostly("gone", victim="target", states=("caught_up",), held=("source", "reported@replay"), slow="source"),
    *mostly("back", victim="target", states=("releasing",), held=("source", "commit_before@release")),
    Case(victim="target", states=("releasing",), held=("source", "commit_before@release"), back=False,
         let_go_when="cancelled"),
    *mostly("back", victim="target", states=("released",), point="phase@producer"),  # before the init
    *mostly("back", victim="target", states=AFTER, point="phase@committed"),  # after it
    *mostly("gone", victim="target", states=AFTER, point="phase@replay", slow="target"),
    *mostly("back", victim="target", states=("activating",), held=("target", "reported@replay"), slow="target"),
    *mostly("back", victim="target", states=AFTER, point="phase@stamp"),
    *mostly("gone", victim="target", states=AFTER, point="commit_before@stamp"),
    *mostly("back", victim="target", states=AFTER, point="commit_after@stamp"),
    *mostly("gone", victim="target", states=AFTER, point="phase@active"),  # not reported yet
]

REPLAYING = {"held": ("target", "reported@replay"), "slow": "target"}  # so that it says so before it is active
COORDINATOR_CASES = [
    *[Case(victim="coordinator", states=states, point=f"handoff_before_commit@{state}", **options)
      for state, states, options in (
          ("learning", (None,), {}), ("caught_up", ("learning",), {"slow": "source"}), ("releasing", ("learning",), {}),
          ("released", ("releasing",), {}), ("activating", ("released",), REPLAYING), ("done", AFTER, {}))],
    *[Case(victim="coordinator", states=(state,), point=f"handoff_after_commit@{state}", **options)
      for state, options in (("learning", {}), ("caught_up", {"slow": "source"}), ("releasing", {}), ("released", {}),
                             ("activating", REPLAYING), ("done", {}))],
]  # fmt: skip

FORCED_CASES = [
    *mostly("gone", victim="target", states=AFTER, point="phase@producer", forced=True),
    *mostly("back", victim="target", states=AFTER, point="phase@committed", forced=True),
    *mostly("gone", victim="target", states=AFTER, point="phase@replay", slow="target", forced=True),
    *mostly("back", victim="target", states=AFTER, point="phase@stamp", forced=True),
    *mostly("gone", victim="target", states=AFTER, point="commit_after@stamp", forced=True),
    Case(victim="coordinator", states=(None,), point="handoff_before_commit@released", forced=True),
    Case(victim="coordinator", states=("released",), point="handoff_after_commit@released", forced=True),
    Case(victim="coordinator", states=AFTER, point="handoff_before_commit@done", forced=True),
    Case(victim="coordinator", states=("done",), point="handoff_after_commit@done", forced=True),
]

DOUBLE_CASES = [
    Case(victim="source", also="coordinator", states=("releasing",), point="commit_after@release"),
    Case(victim="target", also="source", states=AFTER, point="commit_after@stamp"),
    Case(victim="coordinator", also="target", states=("released",), point="handoff_after_commit@released"),
    *[dataclasses.replace(case, long_runs=True) for case in (
        Case(victim="source", also="target", states=("releasing",), point="commit_after@release"),
        Case(victim="source", also="coordinator", states=("released",), held=("target", "phase@producer")),
        Case(victim="target", also="source", states=("released",), point="phase@producer"),
        Case(victim="target", also="coordinator", states=("learning",), point="warm@learn"),
        Case(victim="target", also="coordinator", states=AFTER, point="commit_after@stamp"),
        Case(victim="coordinator", also="source", states=("releasing",), point="handoff_before_commit@released"))],
]  # fmt: skip

ALL_CASES = [*SOURCE_CASES, *TARGET_CASES, *COORDINATOR_CASES, *FORCED_CASES, *DOUBLE_CASES]


class World:
    """Coordinator, agents and a job, for one hand-over under load: agent-1 owns processor 0, agent-2 is to get it."""

    def __init__(self, broker, daemons, unique, loads, seed=1, agents=2, partitions=4, agent_timeout=AGENT_TIMEOUT, **spec):
        self.broker, self.loads, self.seed = broker, loads, seed
        # On a quiet machine even who is slow has replayed all in some tenths of a second, and is to say so in between.
        self.coordinator = daemons.coordinator(broker.bootstrap, agent_timeout=agent_timeout, report_interval="50ms", hooks=True)
        self.job = Job(broker, self.coordinator, unique, partitions, **spec)
        self.fifo = daemons.directory / "hold"
        os.mkfifo(self.fifo)
        self.agents = [daemons.agent(self.coordinator, bootstrap=broker.bootstrap, start=False, hooks=True,
                                     checkpoint_interval="100ms") for _ in range(agents)]
        self.source, self.target = self.agents[:2]
        self.epochs = {}
        self.history = None
        self.load = None

    def daemon(self, who):
        return {"source": self.source, "target": self.target, "coordinator": self.coordinator}[who]

    # ---- points

    def place(self, point):
        name, where = point.split("@")
        return f"{name}@{self.job.name}/{PROCESSOR}/{where}"

    def arm(self, who, point, action):
        """For the daemon's next start."""
        self.daemon(who).environment |= {"BATON_HOOK": f"{self.place(point)}:1:{action}", "BATON_HOOK_FIFO": str(self.fifo)}

    def disarm(self, who):
        for name in ("BATON_HOOK", "BATON_HOOK_FIFO"):
            self.daemon(who).environment.pop(name, None)

    def has_struck(self, who, point, action):
        """Since the daemon's last start."""
        name, _, where = self.place(point).partition("@")
        return bool(self.daemon(who).log_events("hook", name=name, where=where, action=action))

    def move_until_held(self, who, point):
        self.move_until(lambda: self.has_struck(who, point, "hold"), f"{who} is held at {point}")

    def try_to_let_go(self):
        """False when nobody is held: opening the pipe for writing needs its reader."""
        try:
            os.close(os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK))
            return True
        except OSError as error:
            assert error.errno == errno.ENXIO, error
            return False

    def let_go(self):
        wait_until(self.try_to_let_go, LIMIT_S, "a task waits at the pipe")

    # ---- the start

    def fill(self, records):
        """A history that waits for the job."""
        self.history = self.loads(self.broker.bootstrap, self.job.input, keys=KEYS, seed=self.seed + 1000,
                                  total=records, config=SMALL_BATCHES).wait(LIMIT_S)

    def start(self):
        """The agents first: of one that comes later, the planner would make a newcomer."""
        for agent in self.agents:
            agent.start()
        self.job.create()
        self.job.wait_active()
        owners = {each["processor"]: each["agent"] for each in self.job.processors()}
        assert owners[PROCESSOR] == self.source.name, owners
        self.load = self.loads(self.broker.bootstrap, self.job.input, keys=KEYS, seed=self.seed, rate=RATE)
        self.wait_outputs(RATE // 4)
        self.note_epochs()

    def slow_down_source(self):
        """It has to learn all again, and is held with some of it replayed: not active, so it can not release."""
        assert self.source.stop() == 0
        shutil.rmtree(self.source.options["state_dir"])
        self.source.options.update(SLOW)
        self.arm("source", "reported@replay", "hold")
        self.source.start()
        wait_until(lambda: self.has_struck("source", "reported@replay", "hold"), LIMIT_S, "the source is held")
        for option in SLOW:
            del self.source.options[option]
        self.disarm("source")

    def wait_outputs(self, more):
        before = sum(self.broker.end_offsets(self.job.output).values())
        wait_until(lambda: sum(self.broker.end_offsets(self.job.output).values()) > before + more, LIMIT_S,
                   f"{more} more outputs")

    def committed(self):
        """Records of the processor that its owner has committed."""
        processor = next(each for each in self.job.processors() if each["processor"] == PROCESSOR)
        known = [each for each in processor["partitions"] if each["owned"] and each["t1"] is not None]
        return sum(each["t1"] - each["t0"] for each in known)

    def move(self, agent):
        """The operation; None when the coordinator died while it answered."""
        request = {"processor": PROCESSOR, "agent": agent.name}
        try:
            return self.coordinator.http.post(f"/v1/jobs/{self.job.name}/moves", request, expect=202).json
        except (OSError, http.client.HTTPException):
            wait_until(lambda: not self.coordinator.running, LIMIT_S, "the coordinator has died")
            return None

    def move_until(self, struck, what):
        """Moves the processor until that holds: a source that has nothing to commit when it releases passes no commit."""
        for _ in range(MOVES_MAX):
            closed = self.closed()
            self.move(self.target)
            # The source is not through with it yet when the target is.
            wait_until(lambda: struck() or (self.state() == "done" and self.closed() > closed), LIMIT_S, what)
            if struck():
                return
            self.move(self.source)
            wait_until(lambda: self.state() == "done", LIMIT_S, "it was moved back")
        raise AssertionError(f"not in {MOVES_MAX} moves: {what}")

    def closed(self):
        """How often the source has closed a task of the processor."""
        return len(self.source.log_events("task_closed", processor=str(PROCESSOR)))

    # ---- what is seen

    def handoffs(self, processor=PROCESSOR):
        """Newest first; from the database when the coordinator is dead."""
        if self.coordinator.running:
            items = self.job.handoffs()
        else:
            items = self.stored_handoffs()
        return sorted((each for each in items if each["processor"] == processor), key=lambda each: -each["id"])

    def stored_handoffs(self):
        """From a copy: opening the database would change it."""
        database = self.coordinator.options["database"]
        copy = self.coordinator.directory / "looked-at"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(database.parent, copy)
        connection = sqlite3.connect(copy / database.name)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM handoffs WHERE job = ?", (self.job.name,))]
        finally:
            connection.close()

    def state(self):
        """Of the newest hand-over; None when there never was one."""
        found = self.handoffs()
        return found[0]["state"] if found else None

    def note_epochs(self):
        for each in self.job.processors():
            before = self.epochs.setdefault(each["processor"], each["epoch"])
            assert each["epoch"] >= before, f"the epoch of {each['processor']} went back from {before} to {each['epoch']}"
            self.epochs[each["processor"]] = each["epoch"]

    # ---- the end

    def knows(self, agent):
        """The coordinator has heard of its present start."""
        said = agent.log_events("registered")
        reply = self.coordinator.http.get(f"/v1/agents/{agent.name}", expect=(200, 404))
        return bool(said) and reply.status == 200 and reply.json["incarnation"] == said[-1]["incarnation"]

    def settled(self):
        """Also for those who were started a moment ago: until they are heard of, what they were before is what is seen."""
        self.note_epochs()
        running = {agent.name for agent in self.agents if agent.running}
        return (all(self.knows(agent) for agent in self.agents if agent.running)
                and self.job.status()["handoffs_running"] == 0
                and all(each["state"] == "active" and each["agent"] in running for each in self.job.processors()))

    def judge(self):
        """Without a hand all becomes as it should be: see the head of this file."""
        job = self.job
        wait_until(self.settled, LIMIT_S, f"{job.name}: all is active and no hand-over is open")
        self.wait_outputs(RATE // 2)
        sent = self.load.stop()
        if self.history:
            sent = self.history + sent
        job.wait_drained(LIMIT_S)
        verdict = check_outputs(self.broker.bootstrap, job.output, sent, LIMIT_S, provenance_of=[job.input])
        if job.spec.get("delivery") == "at_least_once":
            verdict.assert_at_least_once()
        else:
            verdict.assert_exact()
        # Who came back after its processors were given away has got its share meanwhile, or is getting it.
        wait_until(self.settled, LIMIT_S, f"{job.name}: all is active and no hand-over is open, at the end as well")
        self.judge_commits()
        for processor in range(job.spec["processors"]):
            self.assert_one_by_one(self.handoffs(processor))
        operations = self.coordinator.http.get("/v1/operations?limit=1000").json["items"]
        assert all(each["state"] in ("succeeded", "failed", "cancelled") for each in operations), operations
        problems = [each for each in job.problems() if each["severity"] == "critical"]
        assert not problems, problems

    def judge_commits(self):
        """By what Kafka has: of each partition neither offset nor epoch ever went back, and the last is the owner's."""
        job = self.job
        commits = read_commits(self.broker.bootstrap, job.group, LIMIT_S)
        epochs = {each["processor"]: each["epoch"] for each in job.processors()}
        assert len(commits) == len(epochs), commits.keys()
        for (topic, partition), history in commits.items():
            offsets = [offset for offset, _ in history]
            stamps = [metadata.split(" ") for _, metadata in history]
            assert topic == job.input and {tuple(each[:3]) for each in stamps} == {
                ("b1", stamps[0][1], str(partition))}, stamps
            written = [int(each[3]) for each in stamps]
            assert offsets == sorted(offsets), f"T1 of partition {partition} went back: {history}"
            assert written == sorted(written), f"the epoch of partition {partition} went back: {history}"
            assert written[-1] == epochs[partition], (written, epochs)

    @staticmethod
    def assert_one_by_one(handoffs):
        """A processor's next hand-over begins when the one before has ended."""
        assert all(each["state"] in ENDED for each in handoffs), handoffs
        for later, earlier in zip(handoffs, handoffs[1:]):
            assert earlier["changed_at"] <= later["started_at"], (earlier, later)


class Killing(World):
    """The world of one case."""

    def __init__(self, case, *world, seed, **spec):
        size = {"agents": 3, "partitions": 3} if case.forced else {}
        # A source that is made slow is away for a moment before.
        super().__init__(*world, seed=seed, rejoin_grace="6s" if case.slow == "source" else "2s",
                         acceptable_lag=case.acceptable_lag, **size, **spec)
        self.case = case

    def start(self):
        case = self.case
        if case.slow:  # what they are slow at
            self.fill(LEARNED_RECORDS if case.slow == "target" else HISTORY_RECORDS)
        if case.slow == "target":
            self.target.options.update(SLOW)
        if case.point:
            self.arm(case.victim, case.point, "kill")
        if case.victim == "coordinator":
            self.coordinator.restart()
        if case.held and case.slow != "source":
            self.arm(*case.held, "hold")
        super().start()
        # Whoever takes over is to have something to replay; of a history at least half of what is the processor's by rights.
        least = self.history.total // self.job.spec["processors"] // 2 if self.history else 1
        wait_until(lambda: self.committed() >= least, LIMIT_S, f"the owner has committed {least} records")
        self.wait_outputs(self.seed * 37 % 200)
        if case.slow == "source":
            self.slow_down_source()

    def strike(self):
        """Until the victim is dead, and dead there."""
        case, victim = self.case, self.daemon(self.case.victim)
        if case.forced:
            self.source.kill()
            wait_until(lambda: not victim.running, LIMIT_S, f"{victim.name} is struck at {case.point}")
        elif case.point:
            self.move_until(lambda: not victim.running, f"{victim.name} is struck at {case.point}")
        elif case.slow == "source":  # which is held already
            self.move(self.target)
        else:
            self.move_until_held(*case.held)
        if not case.point:
            wait_until(lambda: self.state() in case.states, LIMIT_S, f"the hand-over is {case.states}")
        state = self.state()
        if case.point:
            assert victim.wait_exit() == -9 and self.has_struck(case.victim, case.point, "kill")
            if state not in case.states and case.victim != "coordinator":
                state = self.state_before_missed(victim)
        else:
            victim.kill()
        assert state in case.states, f"the hand-over was {state} at the kill, not {case.states}: {self.handoffs()}"
        if case.also:
            self.daemon(case.also).kill()

    def state_before_missed(self, agent):
        """Of the hand-over, when the coordinator went on before it was looked at: its last before the agent was called lost."""
        states = {"handoff_started": "learning", **{f"handoff_{state}": state for state in STATES}}
        state = None
        for each in self.coordinator.http.get("/v1/events?last=1000").json["items"]:
            if each["kind"] == "agent_lost" and each["agent"] == agent.name:
                break
            if each["kind"] in states and each["processor"] == PROCESSOR:
                state = states[each["kind"]]
        return state

    def recover(self):
        case = self.case
        if case.let_go_when:
            wait_until(lambda: self.state() == case.let_go_when, LIMIT_S, f"the hand-over is {case.let_go_when}")
        held = case.held[0] if case.held else "source" if case.slow == "source" else None
        if held not in (None, case.victim):
            self.let_go()
        for who in (case.victim, case.also) if case.back else ():
            if who:
                self.start_again(who)

    def start_again(self, who):
        """Agents wait until they are known: that needs the coordinator, whose turn may be the next."""
        for option in SLOW:
            self.daemon(who).options.pop(option, None)
        self.disarm(who)
        self.daemon(who).start(ready="/readyz" if who == "coordinator" else None)

    def judge(self):
        """A coordinator that dies only delays, moreover: what it had written down is carried out as it was meant."""
        super().judge()
        if self.case.victim == "coordinator" and not self.case.also and (self.case.forced or self.case.states != (None,)):
            newest = self.handoffs()[0]
            assert (newest["state"], newest["target"]) == ("done", self.target.name), newest


def run(case, *world, seed=1, **spec):
    """`world`: the fixtures broker, daemons, unique and loads; `spec`: of the job."""
    killing = Killing(case, *world, seed=seed, **spec)
    try:
        killing.start()
        killing.strike()
        killing.recover()
        killing.judge()
    finally:
        killing.try_to_let_go()  # what is still held would keep its daemon from ending
