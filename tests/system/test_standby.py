"""Standbys: warm copies of processors, who take over at once when an agent is lost, and first when one leaves."""

import time
from datetime import datetime

import pytest

from jobs import Job
from oracle import check_outputs
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)

LIMIT_S = 100
AGENT_TIMEOUT_S = 2
FAILOVER_S = AGENT_TIMEOUT_S + 1  # what is promised of a machine that has nothing else to do
SLOW = 10
KEYS = 5_000
RATE = 1_000
HISTORY = 20_000


class World:
    """Agents, and a job with one standby for each processor that came to them when they were there; a grace that nobody awaits."""

    def __init__(self, broker, daemons, unique, loads, zones=(None, None, None), **spec):
        self.broker = broker
        self.daemons = daemons
        self.coordinator = daemons.coordinator(agent_timeout=f"{AGENT_TIMEOUT_S}s")
        self.agents = [self.agent(zone) for zone in zones]
        self.job = Job(
            broker, self.coordinator, unique, spec.pop("processors", 6), **{"standbys": 1, "rejoin_grace": "1h", **spec}
        ).create()
        self._loads = loads
        self._sent = loads(broker.bootstrap, self.job.input, keys=KEYS, seed=1, total=HISTORY).wait(LIMIT_S)
        self.job.wait_active()
        self._load = None

    def agent(self, zone=None, **options):
        tags = {"tags": f"zone={zone}"} if zone else {}
        return self.daemons.agent(self.coordinator, **{"checkpoint_interval": "100ms", **tags, **options})

    def start_load(self):
        self._load = self._loads(self.broker.bootstrap, self.job.input, keys=KEYS, seed=2, rate=RATE)
        wait_until(lambda: self._load.sent_so_far > RATE, LIMIT_S, "live load comes")

    def assert_exact(self):
        if self._load:
            self._sent = self._sent + self._load.stop()
            self._load = None
        self.job.wait_drained(LIMIT_S)
        verdict = check_outputs(
            self.broker.bootstrap, self.job.output, self._sent.expected(), LIMIT_S, provenance_of=[self.job.input]
        )
        verdict.assert_exact()

    # ---- what there is

    def owners(self):
        """{processor: agent}."""
        return {each["processor"]: each["agent"] for each in self.job.processors()}

    def standbys(self):
        """{processor: the agents that have one}."""
        return {each["processor"]: [one["agent"] for one in each["standbys"]] for each in self.job.processors()}

    def holders(self):
        """{processor: the one agent that has its standby}."""
        found = self.standbys()
        assert all(len(agents) == 1 for agents in found.values()), found
        return {processor: agents[0] for processor, agents in found.items()}

    def wait_ready(self):
        def ready(status):
            return status["standbys_ready"] == status["standbys_wanted"] == self.job.spec["processors"]

        self.job.wait("all standbys are ready", ready, LIMIT_S)

    def events(self, kind):
        items = self.coordinator.http.get(f"/v1/events?last=1000&job={self.job.name}").json["items"]
        return [each for each in items if each["kind"] == kind]

    def wait_owned_by(self, wanted):
        """Until these are active there, {processor: agent}, by the present owner's word."""

        def there():
            seen = {each["processor"]: each for each in self.job.processors()}
            return all(seen[number]["agent"] == agent and seen[number]["state"] == "active" for number, agent in wanted.items())

        try:
            wait_until(there, LIMIT_S, f"{wanted} are active")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.processors()}\n{self.job.handoffs()}") from None


@pytest.fixture
def make_world(broker, daemons, unique, loads):
    return lambda **options: World(broker, daemons, unique, loads, **options)


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_standby_takes_over_at_once_after_kill_9(make_world, figures):
    world = make_world()
    world.start_load()
    world.wait_ready()
    owners, holders = world.owners(), world.holders()
    assert all(owners[number] != holders[number] for number in owners), (owners, holders)
    victim = world.agents[0]
    lost = {number: holders[number] for number, agent in owners.items() if agent == victim.name}
    assert len(lost) == 2, owners
    killed_at = time.time()
    victim.kill()
    world.wait_owned_by(lost)
    took_s = max(seconds(each["at"]) for each in world.events("processor_active") if each["processor"] in lost) - killed_at
    figures(active_again_s=round(took_s, 2), promised_s=FAILOVER_S)
    assert took_s < FAILOVER_S * SLOW
    forced = [each for each in world.job.handoffs() if each["forced"]]
    assert {each["processor"]: each["target"] for each in forced} == lost, forced
    assert all("has its standby" in each["reason"] for each in forced), forced
    for number in lost:  # they have others by now; of those that the lost one held nobody knows yet that it is gone for good
        wait_until(lambda: victim.name not in world.standbys()[number], LIMIT_S, f"processor {number} has another standby")
    world.assert_exact()


def test_standby_of_an_agent_that_stops_in_order_waits_for_it(make_world):
    world = make_world()
    world.wait_ready()
    owners, standbys = world.owners(), world.standbys()
    world.agents[0].restart()
    world.job.wait_active(limit_s=LIMIT_S)
    world.wait_ready()
    assert (world.owners(), world.standbys()) == (owners, standbys)
    assert not world.job.handoffs()
    world.assert_exact()


def test_standby_first_when_an_agent_is_drained(make_world, figures):
    world = make_world()
    world.start_load()
    world.wait_ready()
    owners, holders = world.owners(), world.holders()
    leaver = world.agents[1]
    moved = {number: holders[number] for number, agent in owners.items() if agent == leaver.name}
    assert len(moved) == 2, owners
    path = f"/v1/agents/{leaver.name}/drain"
    world.coordinator.http.put(path, {"reason": "a test"}, expect=202)
    world.wait_owned_by(moved)
    wait_until(lambda: world.coordinator.http.get(path).json["safe_to_stop"], LIMIT_S, "it is drained")
    done = world.job.handoffs("done")
    assert {each["processor"]: each["target"] for each in done} == moved, done
    assert all("has its standby" in each["reason"] and not each["forced"] for each in done), done
    figures(learning_ms=[each["learning_ms"] for each in done], output_gap_ms=[each["output_gap_ms"] for each in done])
    world.wait_ready()
    assert leaver.name not in world.holders().values()
    leaver.kill()
    world.assert_exact()


def test_standby_is_in_another_zone(make_world):
    world = make_world(zones=("north", "north", "south"))
    zones = dict(zip((each.name for each in world.agents), ("north", "north", "south"), strict=True))
    world.wait_ready()
    owners, holders = world.owners(), world.holders()
    assert all(zones[owners[number]] != zones[holders[number]] for number in owners), (owners, holders)
    for each in world.job.processors():
        assert [one["zone"] for one in each["standbys"]] == [zones[holders[each["processor"]]]], each
    wait_until(lambda: not world.job.problems(), LIMIT_S, "nothing is missing")
    # Without the south there is no other zone: who is left has them, and it is said.
    path = f"/v1/agents/{world.agents[2].name}/drain"
    world.coordinator.http.put(path, {"reason": "a test"}, expect=202)
    problem = world.job.wait_problem("standbys_missing", LIMIT_S)
    assert problem["severity"] == "warning" and problem["processor"] is None, problem
    world.wait_ready()
    wait_until(lambda: "another zone" in world.job.wait_problem("standbys_missing", LIMIT_S)["detail"], LIMIT_S, "that is said")
    # As many as the job wants: none, then there is nothing missing.
    world.job.put(expect=200, standbys=0)
    world.job.wait("there are none", lambda status: status["standbys_ready"] == status["standbys_wanted"] == 0, LIMIT_S)
    assert not any(world.standbys().values())
    wait_until(lambda: not world.job.problems(), LIMIT_S, "nothing is missing")
    world.assert_exact()


def test_standby_wants_another_agent(make_world):
    world = make_world(zones=(None,), processors=2)
    assert "2 of 2 processors" in world.job.wait_problem("standbys_missing", LIMIT_S)["detail"]
    assert world.job.status()["standbys_wanted"] == 2
    world.agent()
    world.wait_ready()
    wait_until(lambda: not world.job.problems(), LIMIT_S, "nothing is missing")
    world.assert_exact()
