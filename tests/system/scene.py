"""Hand-overs as tests stage them: a job with a load on it, who owns what, what became of each move, and when it is exact."""

import errno
import os

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

LIMIT_S = 100
AGENT_TIMEOUT = "2s"
GRACE = "1s"
KEYS = 5_000
RATE = 1_000
ENDED = ("done", "cancelled", "failed")


class Scene:
    """One job on a coordinator that takes an agent for lost after 2 s; its processors wait 1 s more for it.

    Agents write checkpoints every 100 ms, so that a state that goes on is a recent one. As many as `agents` are there before
    the job, and get their share of it at once.
    """

    def __init__(self, broker, daemons, unique, loads, partitions=2, coordinator=None, agents=0, **spec):
        self.broker = broker
        self.daemons = daemons
        given = {"bootstrap": broker.bootstrap, "agent_timeout": AGENT_TIMEOUT, **(coordinator or {})}
        self.coordinator = daemons.coordinator(**given)
        self.agents = [self.agent() for _ in range(agents)]
        self.job = Job(broker, self.coordinator, unique, partitions, **{"rejoin_grace": GRACE, **spec}).create()
        if agents:
            self.job.wait_active()
        self._loads = loads
        self._running = []
        self._sent = None
        self._seed = 0

    # ---- agents

    def agent(self, through=None, **options):
        """`through`: a proxy before the coordinator."""
        coordinator = through.address if through else self.coordinator
        given = {"bootstrap": self.broker.bootstrap, "checkpoint_interval": "100ms", **options}
        return self.daemons.agent(coordinator, **given)

    def epochs(self):
        """{processor: epoch}."""
        return {each["processor"]: each["epoch"] for each in self.job.processors()}

    def wait_agent(self, agent, state="alive", tasks=None, limit_s=LIMIT_S):
        """What the coordinator knows of it, once it is so."""

        def found():
            reply = self.coordinator.http.get(f"/v1/agents/{agent.name}", expect=(200, 404))
            seen = reply.json if reply.status == 200 else None
            return seen and seen["state"] == state and tasks in (None, seen["tasks"]) and seen

        return wait_until(found, limit_s, f"{agent.name} is {state}" + (f" with {tasks} tasks" if tasks is not None else ""))

    # ---- hand-overs

    def maintenance(self, enabled):
        """While it is on, the planner starts nothing."""
        body = {"enabled": enabled, "reason": "the brokers"}
        return self.coordinator.http.put("/v1/maintenance", body, expect=200).json

    def move(self, agent, processor=0, expect=202):
        """Asks for a move to an agent, or to the one of that name, and returns the operation's id."""
        body = {"processor": processor, "agent": getattr(agent, "name", agent)}
        return self.coordinator.http.post(f"/v1/jobs/{self.job.name}/moves", body, expect=expect).json["id"]

    def expand(self, processors, expect=202):
        """Asks for so many processors, and returns the operation's id."""
        return self.job.expand(expect, processors=processors)

    def rebalance(self):
        path = f"/v1/jobs/{self.job.name}/rebalance"
        operation = self.coordinator.http.post(path, {"reason": "a test"}, expect=202).json["id"]
        assert self.job.wait_operation(operation)["state"] == "succeeded"

    def wait_handoff(self, state, limit_s=LIMIT_S, **fields):
        """The newest hand-over in that state with those fields, once there is one."""

        def found():
            return [each for each in self.job.handoffs(state) if fields.items() <= each.items()]

        wanted = f"a hand-over is {state} {fields or ''}"
        try:
            return wait_until(found, limit_s, wanted)[-1]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.handoffs()}\n{self.job.problems()}") from None

    def wait_nothing_under_way(self):
        self.job.wait("no hand-over is under way", lambda status: status["handoffs_running"] == 0, LIMIT_S)

    def events(self, kind=None):
        items, after = [], 0
        while True:
            page = self.coordinator.http.get(f"/v1/events?after={after}&limit=1000").json["items"]
            if not page:
                return [each for each in items if kind in (None, each["kind"])]
            items += page
            after = page[-1]["id"]

    # ---- load and verdict

    def load(self, rate=RATE, keys=KEYS):
        """Starts one and waits until its records come out at the other end."""
        self._seed += 1
        seen = self.outputs()
        self._running.append(self._loads(self.broker.bootstrap, self.job.input, keys=keys, seed=self._seed, rate=rate))
        self.wait_outputs(rate // 4, seen)
        return self._running[-1]

    def history(self, total, keys=KEYS, **options):
        self._seed += 1
        load = self._loads(self.broker.bootstrap, self.job.input, keys=keys, seed=self._seed, total=total, **options)
        self._add(load.wait(LIMIT_S))

    def outputs(self):
        """As many as there are, control records and what was aborted among them."""
        return sum(self.broker.end_offsets(self.job.output).values())

    def wait_outputs(self, more, seen=None):
        """Until `more` have come: the job works."""
        seen = self.outputs() if seen is None else seen
        wait_until(lambda: self.outputs() >= seen + more, LIMIT_S, f"{more} more outputs come")

    def _add(self, sent):
        self._sent = sent if self._sent is None else self._sent + sent

    def end_load(self):
        while self._running:
            self._add(self._running.pop().stop())
        self.job.wait_drained()
        return self._sent

    def assert_exact(self):
        """Ends the load: each record sent has exactly one output, in the order of its key."""
        sent = self.end_load()
        verdict = check_outputs(self.broker.bootstrap, self.job.output, sent, LIMIT_S, provenance_of=[self.job.input])
        verdict.assert_exact()
        self.assert_one_at_a_time()
        return verdict

    def assert_at_least_once(self):
        """Ends the load: outputs may be repeated, none is missing, and none shows that a record was counted twice."""
        sent = self.end_load()
        check_outputs(self.broker.bootstrap, self.job.output, sent, LIMIT_S).assert_at_least_once()
        self.assert_one_at_a_time()
        return sent

    def assert_one_at_a_time(self):
        """No processor had two hand-overs at once, and each was made under a higher epoch than the one before."""
        last = {}
        for each in sorted(self.job.handoffs(), key=lambda handoff: handoff["id"]):
            before = last.get(each["processor"])
            if before:
                assert before["state"] in ENDED, (before, each)
                assert before["changed_at"] <= each["started_at"], (before, each)
                own = before["source_epoch"] if before["kind"] == "relocate" else 0  # of a split it is the parent's
                assert max(own, before["target_epoch"] or 0) <= each["source_epoch"], (before, each)
            if each["state"] == "done" and each["kind"] == "relocate":
                assert each["target_epoch"] > each["source_epoch"], each
            last[each["processor"]] = each


class Held:
    """From its next start on an agent (with hooks) is held at a point, one task of it, until the block ends or `let_go`.

    It is held at the last of so many `passes`.
    """

    def __init__(self, daemons, agent, point, passes=1):
        self.agent = agent
        self._fifo = daemons.directory / f"hold-{agent.name}"
        os.mkfifo(self._fifo)
        agent.environment |= {"BATON_HOOK": f"{point}:{passes}:hold", "BATON_HOOK_FIFO": str(self._fifo)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.let_go()

    def wait_struck(self, limit_s=LIMIT_S):
        wait_until(lambda: self.agent.log_events("hook", action="hold"), limit_s, f"{self.agent.name} is held")

    def let_go(self):
        """Nobody is held when it is not there any more."""
        for name in ("BATON_HOOK", "BATON_HOOK_FIFO"):
            self.agent.environment.pop(name, None)
        return self._try_to_let_go()

    def let_go_surely(self, limit_s=LIMIT_S):
        """It is held: it has just said so, or it has just been resumed, and comes to the pipe in a moment."""
        wait_until(self.let_go, limit_s, f"{self.agent.name} waits at the pipe")

    def _try_to_let_go(self):
        """Opening the pipe for writing needs its reader."""
        try:
            os.close(os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK))
            return True
        except OSError as error:
            assert error.errno == errno.ENXIO, error
            return False
