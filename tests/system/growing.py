"""Who dies in an expansion of partitions, and where: 4 become 8 under a producer that goes from the old number to the new one.

Processor 0 has partitions 0 and 2 before and 0, 2, 4, 6 afterwards. A case whose kill did not strike at its point fails.
Without any help but the victim's next start all has to be as it should be: exact, and each key in order.
"""

import contextlib
import http.client

from confluent_kafka import Producer

from expanding import CarefulProducer, assert_exact_and_in_order, keys_of, wait_settled
from jobs import Job
from oracle import check_outputs
from scene import Held
from waiting import wait_until

LIMIT_S = 100
KEYS = 200
RATE = 300
MORE = 150

STEPS = ("sample", "record_ends", "create_partitions", "commit_starts", "end")
EARLY = ("record_ends", "create_partitions", "closed")  # what only an expansion passes: the coordinator is armed from the start
CASES = [
    ("coordinator", "operation_after_commit@{job}/create_partitions"),  # Kafka has been asked for nothing yet
    ("coordinator", "window_before_commit@{job}/closed"),  # the owner has said so, the fence is nowhere
    ("owner", "commit_after_of@{job}/0/4"),  # the new partitions are stamped, nobody knows
    ("owner", "gate_open@{job}/0/active"),  # the first record of a new partition is about to be processed
    ("learner", "grown@{job}/0/learn"),
]
# In the long runs only.
MORE_CASES = [
    *[("coordinator", f"operation_{when}_commit@{{job}}/{step}") for step in STEPS for when in ("before", "after")],
    ("coordinator", "window_after_commit@{job}/closed"),
    ("owner", "grow@{job}/0/active"),  # it has heard of them
    ("owner", "grown@{job}/0/active"),  # it reads them, and has not stamped them
    ("owner", "commit_before_of@{job}/0/4"),
    ("owner", "window_settled@{job}/0/active"),  # it is about to say that a window may be closed
    ("owner", "window_closed@{job}/0/active"),  # it has heard of a fence
    ("learner", "grow@{job}/0/learn"),
]
ALL_CASES = [*CASES, *[case for case in MORE_CASES if case not in CASES]]


def name_of(case):
    victim, point = case
    kind, where = point.split("@")
    return f"{victim}-{kind}-{where.rsplit('/', 1)[1]}"


def ask(job, partitions=8):
    """The operation's id; None: the coordinator died of it before it answered."""
    try:
        return job.expand(partitions=partitions)
    except (OSError, http.client.HTTPException):
        return None


def find_or_ask(job, partitions=8, earlier=()):
    """What is durable goes on by itself; what is not is asked for again, as its user would. `earlier`: ids of others."""
    found = job.coordinator.http.get("/v1/operations").json["items"]
    mine = [each["id"] for each in found if each["job"] == job.name and each["kind"] == "expand_partitions"]
    mine = [each for each in mine if each not in earlier]
    return mine[-1] if mine else ask(job, partitions)


class World:
    """One job of two processors; `agent-1` has both, unless there are more agents from the start."""

    def __init__(self, broker, daemons, unique, hook=None, agents=1, rate=RATE, seed=1, **spec):
        self.broker, self.daemons = broker, daemons
        self.hook = {"BATON_HOOK": f"{hook.format(job=unique('job'))}:1:kill"} if hook else {}
        self.armed = hook is not None and hook.rpartition("/")[2] in EARLY
        self.coordinator = daemons.coordinator(hooks=True, agent_timeout="2s", environment=self.hook if self.armed else None)
        self.agents = [self.agent() for _ in range(agents)]
        self.job = Job(broker, self.coordinator, unique, 4, 2, settle="2s", partitioner="murmur2", rejoin_grace="1s", **spec)
        self._rate, self._seed = rate, seed
        self.producer = None

    def agent(self, start=False):
        return self.daemons.agent(self.coordinator, start=start, hooks=True, checkpoint_interval="100ms")

    def arm(self, daemon):
        """From its next start on."""
        daemon.environment |= self.hook

    def start(self):
        """Agents before the job: each has its share at once."""
        for agent in self.agents:
            agent.start()
        self.job.create()
        self.job.wait_active()
        self.producer = CarefulProducer(self.broker.bootstrap, self.job.input, KEYS, 4, self._rate, self._seed)
        self.producer.wait_more(MORE)

    def maintenance(self, enabled):
        """While it is on, the planner starts nothing."""
        self.coordinator.http.put("/v1/maintenance", {"enabled": enabled, "reason": "a test"}, expect=200)

    # ---- the expansion

    def go_on(self, operation):
        """It succeeds, and the producer hears of it."""
        ended = self.job.wait_operation(operation, LIMIT_S)
        assert ended["state"] == "succeeded", ended
        self.producer.wait_more(MORE)
        self.producer.use(8)
        self.producer.wait_more(MORE)

    # ---- what becomes of it

    def wait_struck(self, daemon):
        wait_until(lambda: not daemon.running, LIMIT_S, f"{daemon.name} is struck at {self.hook}")
        assert daemon.wait_exit() == -9 and daemon.log_events("hook", action="kill")
        daemon.environment.pop("BATON_HOOK")

    def end(self, more=None):
        """All is as it should be; `more`: {key: how often} of others' records."""
        self.job.wait_active()
        self.producer.wait_more(MORE)
        sent = self.producer.stop() | (more or {})
        if self.job.spec.get("delivery") == "at_least_once":
            self.job.wait_drained()
            check_outputs(self.broker.bootstrap, self.job.output, sent, LIMIT_S).assert_at_least_once()
        else:
            assert assert_exact_and_in_order(self.job, sent) > KEYS // 4
        self.job.wait_active()
        wait_settled(self.job)
        assert self.job.status()["partitions"] == 8
        self.job.wait("nothing is under way", lambda status: status["handoffs_running"] == status["problems"] == 0, LIMIT_S)


def run(case, broker, daemons, unique, back=True, **options):
    """`back`: the victim is started again at once, else after another agent has taken over (an owner) or learned."""
    victim, point = case
    world = World(broker, daemons, unique, point, **options)
    {"coordinator": run_coordinator, "owner": run_owner, "learner": run_learner}[victim](world, back)


def run_coordinator(world, back):
    world.start()
    if not world.armed:  # a creation has steps of the same names
        world.arm(world.coordinator)
        world.coordinator.restart()
        world.job.wait_active()
    operation = ask(world.job)
    if operation is not None and "window" in world.hook["BATON_HOOK"]:
        world.go_on(operation)
    world.wait_struck(world.coordinator)
    world.producer.wait_more(MORE)
    world.coordinator.start()
    world.go_on(operation or find_or_ask(world.job))
    world.end()


def run_owner(world, back):
    (owner,) = world.agents
    world.arm(owner)
    world.start()
    world.maintenance(True)
    if not back:
        survivor = world.agent(start=True)
    world.go_on(ask(world.job))
    world.wait_struck(owner)
    if not back:
        world.maintenance(False)
        world.job.wait_owners({survivor.name: 2})
    owner.start()
    world.end()


def run_learner(world, back):
    """An open transaction keeps it learning: nobody is caught up before that has ended (D3.5)."""
    world.start()
    world.maintenance(True)
    learner = world.agent()
    world.arm(learner)
    learner.start()
    (key,) = keys_of(0, 4, 8)
    held = Producer({"bootstrap.servers": world.broker.bootstrap, "transactional.id": world.job.name,
                     "transaction.timeout.ms": 300_000})  # fmt: skip
    held.init_transactions(LIMIT_S)
    held.begin_transaction()
    held.produce(world.job.input, b"1", key, partition=0)
    assert held.flush(LIMIT_S) == 0
    path, wish = f"/v1/jobs/{world.job.name}/moves", {"processor": 0, "agent": learner.name}
    world.coordinator.http.post(path, wish, expect=202)
    wait_until(lambda: learner.log_events("task_phase", phase="learn"), LIMIT_S, "the newcomer learns")
    world.go_on(ask(world.job))
    world.wait_struck(learner)
    if back:
        learner.start()
    held.commit_transaction(LIMIT_S)
    world.maintenance(False)
    if not back:
        world.job.wait_owners({world.agents[0].name: 2})
        learner.start()
    world.job.wait_owners({world.agents[0].name: 1, learner.name: 1})
    world.end({key: 1})


def run_stopped(phase, broker, daemons, unique, **options):
    """SIGSTOP of the owner of processor 0, with a transaction open, over the whole expansion. It wakes up when the other
    agent has taken over (None), or while that is held in `phase`: before or after it has shut older producers out."""
    world = World(broker, daemons, unique, agents=2, **options)
    owner, other = world.agents
    owner.environment |= {"BATON_HOOK": f"commit_before@{world.job.name}/0/active:10:stop"}
    with Held(daemons, other, f"phase@{world.job.name}/0/{phase}") if phase else contextlib.nullcontext() as hold:
        world.start()
        owner.wait_stopped(LIMIT_S)
        world.go_on(ask(world.job))
        if phase:
            hold.wait_struck()
        else:
            world.job.wait_owners({other.name: 2})
            world.producer.wait_more(MORE)
        owner.resume()
        owner.wait_log("task_phase", LIMIT_S, phase="closed", processor=0)
    world.job.wait_owners({owner.name: 1, other.name: 1})
    world.end()
