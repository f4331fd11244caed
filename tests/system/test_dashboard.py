"""The dashboard: how it is served, and what its script shows of real and of made-up answers (browser.py runs it)."""

import copy
import datetime
import json
import re

import pytest

from browser import WEB, Browser, Skeleton, http_date
from contract import CheckedClient, Contract
from expanding import linhash, murmur2
from jobs import Job
from waiting import wait_until

FILES = {"/": "index.html", "/web/dashboard.css": "dashboard.css", "/web/dashboard.js": "dashboard.js"}
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
LIMIT_S = 100
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp;\"'"
SCRIPT = (WEB / "dashboard.js").read_text()
PAGE = (WEB / "index.html").read_text()
NOW = datetime.datetime(2026, 11, 29, 18, 13, 33, tzinfo=datetime.UTC).timestamp()  # 90 s after the contract's examples


# ---- how it is served


def test_dashboard_is_served_with_safe_headers(daemons):
    api = CheckedClient(daemons.coordinator().address)  # every answer is held against openapi.yaml
    for path, name in FILES.items():
        reply = api.get(path)
        assert reply.body == (WEB / name).read_bytes()
        assert reply.headers["Content-Type"] == f"{KINDS[name.rsplit('.')[1]]}; charset=utf-8"
        assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["Cache-Control"] == "no-cache"
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
        assert policy.pop("default-src") == "'none'" and policy.pop("img-src") == "data:"
        assert {policy.pop(name) for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert policy == {"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
        etag = reply.headers["ETag"]
        for known in (etag, f'"00000000", {etag}', f"W/{etag}"):
            again = api.get(path, headers={"If-None-Match": known}, expect=304)
            assert again.body == b"" and again.headers["ETag"] == etag
        assert api.get(path, headers={"If-None-Match": '"00000000"'}).body == reply.body
        head = api.request("HEAD", path, expect=200)
        assert head.headers["ETag"] == etag
        api.refused("GET", f"{path}?v=1", 400, "invalid_query")
        api.refused("POST", path, 405, "method_not_allowed")


def test_dashboard_page_needs_nothing_from_elsewhere():
    """No code or style in the page itself (the policy would refuse them), and relative addresses, for proxies with a prefix."""
    for tag, attributes in Skeleton(PAGE).elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        assert tag != "style" and (tag != "script" or set(attributes) == {"src", "defer"})
        for name in ("src", "href"):
            if name in attributes and attributes[name] != "data:,":
                assert f"/{attributes[name]}" in {*FILES, *Contract().document["paths"]}, attributes
    assert re.findall(r"<script[^>]*></script>", PAGE) and PAGE.count("<script") == 1
    for text in (SCRIPT, (WEB / "dashboard.css").read_text(), PAGE):
        assert "://" not in text and "@import" not in text


def test_dashboard_page_is_accessible():
    elements = Skeleton(PAGE).elements
    assert ("html", {"lang": "en"}) in elements
    ids = {attributes["id"] for _, attributes in elements if "id" in attributes}
    sections = [attributes for tag, attributes in elements if tag == "section"]
    assert len(sections) == 11 and all(section["aria-labelledby"] in ids for section in sections)
    assert any(attributes.get("role") == "status" for _, attributes in elements)
    style = (WEB / "dashboard.css").read_text()
    assert "prefers-color-scheme: dark" in style and "focus-visible" in style


# ---- made-up answers


@pytest.fixture(scope="module")
def contract():
    return Contract()


@pytest.fixture
def world(contract):
    return World(contract)


class World:
    """A coordinator's answers, made of the contract's examples; each is held against its schema."""

    def __init__(self, contract):
        self.contract = contract
        self.jobs = ["orders"]
        self.statuses = {"orders": self.example("job_status", name="orders", handoffs_running=0)}
        self.processors = {"orders": [self.processor("orders", n) for n in range(4)]}
        self.problems = {}
        self.agents = [self.example("agent_view", agent_id=agent, tasks=2) for agent in ("host-1", "host-2")]
        self.handoffs = []
        self.drains = {}  # by agent
        self.operations = []
        self.maps = {}  # by job; others are the example
        self.keys = {}  # by key
        self.maintenance = self.example("maintenance_view", enabled=False, reason=None)
        self.events = copy.deepcopy(contract.document["components"]["examples"]["event_page"]["value"]["items"])
        self.fault = {}  # path, with or without a query: status, or an OSError
        self.unready = None  # (code, title, detail) of /readyz

    def example(self, of, **fields):
        value = copy.deepcopy(self.contract.document["components"]["examples"][of]["value"])
        return {**value, **fields}

    def processor(self, job, number, **fields):
        made = self.example("processor_view", job=job, processor=number, agent="host-1", owned=[number], read=[number])
        made["partitions"][0].update(partition=number, t0=1_000, t1=11_000, t2=11_000)
        return {**made, **fields}

    def handoff(self, **fields):
        return self.example("handoff_view", job="orders", **fields)

    def expansion(self, **fields):
        return self.example("operation_view_expanding", job="orders", **fields)

    def drain(self, agent, left, **fields):
        """The agent is to leave; `left`: fields of what it has still, by processor."""
        made = self.example("drain_view", agent=agent, **fields)
        made["left"] = [{**made["left"][0], "processor": number, **each} for number, each in left.items()]
        made["safe_to_stop"] = made["state"] == "drained"
        self.drains[agent] = made
        (view,) = [each for each in self.agents if each["agent_id"] == agent]
        view.update(drain=made["state"], safe_to_stop=made["safe_to_stop"])

    def problem(self, **fields):
        (made,) = self.example("problem_page")["items"][:1]
        return {**made, "job": "orders", **fields}

    def answer(self, path):
        """(schema, body) of a path."""
        name, _, query = path.partition("?")
        asked = dict(pair.split("=") for pair in query.split("&") if pair)
        page = {"next": None}
        if name == "v1/jobs":
            return "job_page", {**page, "items": [self.example("job_view", name=job) for job in self.jobs]}
        if name == "v1/agents":
            return "agent_page", {**page, "items": self.agents}
        if name == "v1/maintenance":
            return "maintenance_view", self.maintenance
        if found := re.fullmatch(r"v1/agents/([^/]+)/drain", name):
            return "drain_view", self.drains[found[1]]
        if name == "v1/events":
            return "event_page", {**page, "items": self.events[-int(asked["last"]):]}
        if name == "v1/handoffs":
            found = [each for each in self.handoffs if asked.get("state") in (None, each["state"])]
            return "handoff_page", {**page, "items": sorted(found, key=lambda each: -each["id"])[:int(asked["limit"])]}
        if name == "v1/operations":
            found = [each for each in self.operations if asked.get("state") in (None, each["state"])]
            found.sort(key=lambda each: each["id"], reverse=True)
            return "operation_page", {**page, "items": found[:int(asked["limit"])]}
        job, part = re.fullmatch(r"v1/jobs/([^/]+)/(\w+)", name).groups()
        if part == "map" and "key" in asked:
            return "map_key_view", self.keys[asked["key"], asked["key_encoding"]]
        if part == "map":
            return "map_view", self.maps.get(job) or self.example("map_view", job=job)
        if part == "status":
            return "job_status", {**self.statuses[job], "problems": len(self.problems.get(job, []))}
        if part == "problems":
            return "problem_page", {**page, "items": self.problems[job]}
        first = int(asked.get("cursor", -1)) + 1  # pages of three
        items = self.processors[job][first:first + 3]
        more = first + 3 < len(self.processors[job])
        return "processor_page", {"items": items, "next": str(first + 2) if more else None}

    def fetch(self, path):
        fault = self.fault.get(path) or self.fault.get(path.partition("?")[0], 200)
        if isinstance(fault, OSError):
            raise fault
        if path == "readyz" and fault == 200 and not self.unready:
            return {"status": 200, "body": "ok\n", "date": http_date(NOW)}
        if path == "readyz" and fault == 200:
            code, title, detail = self.unready
            body = {"type": f"urn:baton:problem:{code}", "title": title, "status": 503, "detail": detail, "code": code, "errors": []}
            return {"status": 503, "body": json.dumps(body), "date": http_date(NOW)}
        if fault != 200:
            body = {"type": "urn:baton:problem:store_failed", "title": "The disk refused to store", "status": fault,
                    "detail": "the database could not be read", "code": "store_failed", "errors": []}  # fmt: skip
            return {"status": fault, "body": json.dumps(body), "date": http_date(NOW)}
        schema, body = self.answer(path)
        self.contract.check_schema(self.contract.schema(schema), body)
        return {"status": 200, "body": json.dumps(body), "date": http_date(NOW)}

    def browser(self, **options):
        return Browser(fetch=self.fetch, **options)


def test_dashboard_shows_how_far_a_hand_over_is(world):
    world.statuses["orders"]["handoffs_running"] = 3
    world.handoffs = [
        world.handoff(id=1, processor=0, state="done", output_gap_ms=41, learning_ms=3_400, reason="new"),
        world.handoff(id=2, processor=3, replay_records=2_500, replayed_per_s=5_000, eta_ms=590),
        world.handoff(id=3, processor=1, replay_records=None, eta_ms=None, waiting="it is not known yet"),
        world.handoff(id=4, processor=2, state="activating", replay_records=0, eta_ms=0, forced=True),
        world.handoff(id=5, processor=0, state="cancelled", error="somebody asked"),
    ]  # fmt: skip
    page = world.browser()
    assert page.text("link") == "live"
    unknown, forced, learning = page.table("moving")
    assert (learning["Processor"], learning["From"], learning["To"], learning["State"]) == ("3", "host-1", "host-2", "learning")
    assert learning["T2 towards T1"] == "75 %", "of T0 1,000 to T1 11,000 there are 2,500 to go"
    assert (learning["Records to go"], learning["Learns/s"], learning["Ready in"]) == ("2,500", "5,000", "590 ms")
    assert learning["Waits for"] == "81230 records to go" and learning["For"] == "90 s", "by the coordinator's clock"
    assert (unknown["T2 towards T1"], unknown["Records to go"], unknown["Ready in"]) == ("?", "?", "?"), "never 0"
    assert (forced["State"], forced["T2 towards T1"]) == ("activating, forced", "100 %")
    bars = page.eval("dom.made.filter((e) => e.tagName === 'PROGRESS').map((e) => [e.value, e.max, e.attributes['aria-label']])")
    assert sorted(bars) == [[0.75, 1, "75 %"], [1, 1, "100 %"]]
    cancelled, done = page.table("moved")
    assert (cancelled["End"], cancelled["Why"], cancelled["No output for"]) == ("cancelled", "somebody asked", "")
    assert (done["End"], done["No output for"], done["Learned in"]) == ("done", "41 ms", "3.4 s")
    assert "3 processors moving" in page.text("summary")


def test_dashboard_shows_problems_first_and_what_to_do(world):
    world.problems = {"orders": [
        world.problem(code="learning_too_slow", severity="warning", processor=1),
        world.problem(code="history_incomplete", severity="critical", processor=3, detail="gone", action="take it along"),
        world.problem(code="retention_risk", severity="warning", processor=None),
    ]}  # fmt: skip
    page = world.browser()
    first, *rest = page.table("problems")
    assert (first["Problem"], first["What happened"], first["What to do"]) == ("history_incomplete", "gone", "take it along")
    assert {each["Processor"] for each in rest} == {"1", "all"}
    assert page.eval("document.querySelector('title').textContent") == "(3) baton"
    world.problems = {}
    assert page.refresh().rows("problems") == [] and page.text("problems").startswith("None that is known.")


def test_dashboard_groups_processors_by_agent(world):
    for number, fields in {1: {"agent": "host-2"}, 2: {"agent": None, "state": "unassigned", "epoch": 0, "reason": "no room"},
                           3: {"agent": "host-2", "state": "replaying", "eta_ms": 61_000}}.items():  # fmt: skip
        world.processors["orders"][number].update(fields)
    page = world.browser()
    head, *rows = page.rows("processors")
    assert [row[0] for row in rows] == [
        "no agent: 1 processor, 0 active", "2", "host-1 (alive): 1 processor, 1 active", "0",
        "host-2 (alive): 2 processors, 1 active", "1", "3",
    ]  # fmt: skip
    by_number = {row["Processor"]: row for row in page.table("processors")}
    assert by_number["2"]["Why"] == "no room" and by_number["3"]["Ready in"] == "61 s"
    assert by_number["0"]["T1"] == "11,000" and by_number["0"]["Ready in"] == ""


def test_dashboard_shows_how_far_agents_are_with_leaving(world):
    world.agents.append(world.example("agent_view", agent_id="host-3", tasks=2))
    page = world.browser()
    assert not [path for path in page.paths if path.endswith("/drain")], "none is asked for"
    assert {each["Leaving"] + each["Left"] + each["Gone in"] + each["Slowest"] for each in page.table("agents")} == {""}
    assert "leaving" not in page.text("summary")
    world.drain("host-1", {0: {"eta_ms": 700}, 3: {"eta_ms": 5_200}}, processors=8, eta_ms=5_200)
    world.drain("host-2", {}, state="drained", processors=8, eta_ms=0)
    leaver, drained, stays = page.refresh().table("agents")
    assert (leaver["Leaving"], leaver["Left"], leaver["Gone in"]) == ("draining", "2 of 8", "5.2 s")
    assert leaver["Slowest"] == "orders 3 to host-2: learning"
    assert (drained["Leaving"], drained["Left"], drained["Gone in"], drained["Slowest"]) == ("safe to stop", "0 of 8", "", "")
    assert (stays["Leaving"], stays["Left"]) == ("", "")
    assert "3 agents alive, 1 leaving" in page.text("summary")


def test_dashboard_names_what_keeps_a_leaver_most(world):
    """What has no time to go, and of that what is stuck or has not begun, goes before what takes long."""
    long, unknown = {"eta_ms": 3_600_000, "waiting": "long"}, {"eta_ms": None, "waiting": "unknown"}
    stuck = {"eta_ms": None, "stuck": "store_failed", "waiting": "store_failed: full"}
    waits = {"eta_ms": None, "handoff": None, "target": None, "state": None, "lag_records": None, "waiting": "no agent can"}
    for left, shown in [
        ({0: long, 1: unknown}, "orders 1 to host-2: unknown"),
        ({0: unknown, 1: stuck, 2: long}, "orders 1 to host-2: store_failed: full"),
        ({0: long, 1: unknown, 2: waits}, "orders 2: no agent can"),
        ({0: {**waits, "waiting": None}}, "orders 0: not begun"),
        ({0: {**long, "waiting": None, "state": "caught_up"}}, "orders 0 to host-2: caught_up"),
    ]:
        world.drain("host-1", left, eta_ms=None)
        leaver, _ = world.browser().table("agents")
        assert (leaver["Slowest"], leaver["Gone in"]) == (shown, "?")
    world.drain("host-1", {0: unknown}, eta_ms=None, overdue=True)
    assert world.browser().table("agents")[0]["Gone in"] == "overdue"


def test_dashboard_passes_over_a_drain_that_goes_meanwhile(world):
    world.drain("host-1", {0: {}})
    world.fault = {"v1/agents/host-1/drain": 404}
    page = world.browser()
    assert page.text("link") == "live"
    leaver, _ = page.table("agents")
    assert (leaver["Leaving"], leaver["Left"], leaver["Slowest"]) == ("draining", "", "")


def test_dashboard_says_what_people_hold_back(world):
    world.maintenance.update(enabled=True, reason="the brokers are upgraded", actor="api 10.0.0.9")
    world.statuses["orders"].update(paused=True, state="running")
    page = world.browser()
    assert page.text("summary").endswith(", maintenance is on for 90 s, by api 10.0.0.9: the brokers are upgraded")
    assert "paused" in page.text("jobs")
    world.maintenance.update(reason=None, actor=None)
    assert page.refresh().text("summary").endswith(", maintenance is on for 90 s, by ?")


def test_dashboard_shows_standbys(world):
    standby = world.processors["orders"][0]["standbys"][0]
    assert standby["ready"]
    late = {**standby, "agent": "host-2", "ready": False, "state": "learning", "waiting": "81230 records to go"}
    world.processors["orders"][1]["standbys"] = [late, standby]
    world.processors["orders"][2]["standbys"] = [{**late, "waiting": None}]
    world.processors["orders"][3]["standbys"] = []
    world.statuses["orders"].update(standbys_ready=2, standbys_wanted=4)
    page = world.browser()
    assert page.table("jobs")[0]["Standbys"] == "2 of 4"
    assert [row["Standbys"] for row in page.table("processors")] == [
        "host-3: ready", "host-2: 81230 records to go, host-3: ready", "host-2: learning", ""]  # fmt: skip
    world.statuses["orders"].update(standbys_ready=0, standbys_wanted=0)
    assert page.refresh().table("jobs")[0]["Standbys"] == ""


@pytest.mark.parametrize("code", ["recovering", "database_outdated"])
def test_dashboard_says_that_nothing_is_decided(world, code):
    """What is known is shown, and that it is not acted on."""
    world.unready = (code, "The coordinator is not at work", "start it with --recover")
    page = world.browser()
    assert page.text("link") == (
        "live, but it is not ready, so nothing is decided: The coordinator is not at work: start it with --recover"
    )
    assert page.table("jobs")[0]["Job"] == "orders"
    world.unready = None
    assert page.refresh().text("link") == "live"


def test_dashboard_shows_the_job_that_is_chosen(world):
    world.jobs = ["orders", "clicks"]
    world.statuses["clicks"] = {**world.statuses["orders"], "name": "clicks"}
    world.processors["clicks"] = [world.processor("clicks", 0, agent="host-9")]
    page = world.browser()
    assert "host-1 (alive)" in page.text("processors")
    page.choose("clicks")
    assert "host-9 (not registered)" in page.text("processors") and "host-1 (" not in page.text("processors")
    assert page.eval("location.hash") == "clicks"
    assert "host-9" in world.browser(hash="#clicks").text("processors"), "the address keeps the choice"
    assert "host-1 (alive)" in world.browser(hash="#gone").text("processors"), "another one when there is no such job"


def test_dashboard_keeps_what_it_knows_while_the_coordinator_is_away(world):
    page = world.browser()
    before = {part: page.rows(part) for part in ("jobs", "processors", "agents", "events")}
    row = page.eval("(globalThis.kept = page.tables.jobs.body.children[0], true)")
    world.fault = {"v1/jobs": OSError("connection refused")}
    page.refresh()
    assert page.text("link").startswith("The coordinator does not answer (connection refused). Agents go on")
    assert {part: page.rows(part) for part in before} == before
    page.eval("(page.link.readAt -= 35000, page.link.tick(), true)")
    assert re.fullmatch(r"What is shown was read at \d\d:\d\d:\d\d, 3\d s ago\.", page.text("age"))
    assert page.eval("document.querySelector('main').className") == "old"
    world.fault = {}
    world.statuses["orders"]["lag_records"] = None
    page.refresh()
    assert page.text("link") == "live" and page.eval("document.querySelector('main').className") == ""
    assert page.table("jobs")[0]["Lag"] == "?"
    assert row and page.eval("kept === page.tables.jobs.body.children[0]"), "rows stay, so focus and selection do"


def test_dashboard_says_nothing_before_it_knows(world):
    """No "Problems: none" of a coordinator that was never reached."""
    world.fault = {"v1/jobs": OSError("connection refused")}
    page = world.browser()
    assert page.eval("document.querySelector('main').hidden") is True
    assert page.text("link").startswith("The coordinator does not answer")
    world.fault = {}
    assert page.refresh().eval("document.querySelector('main').hidden") is False


def test_dashboard_lives_on_when_the_database_is_away(world):
    world.fault = {"v1/events": 503}
    page = world.browser()
    assert page.text("link") == ("live, but without hand-overs, operations and events: "
                                 "The disk refused to store: the database could not be read")  # fmt: skip
    assert page.table("jobs")[0]["Job"] == "orders"


def test_dashboard_passes_over_a_job_that_goes_meanwhile(world):
    world.jobs = ["orders", "gone"]
    world.fault = {"v1/jobs/gone/status": 404}
    page = world.browser()
    assert page.text("link") == "live" and [each["Job"] for each in page.table("jobs")] == ["orders"]


def test_dashboard_takes_names_and_texts_as_text(world):
    """browser.js makes an error of whatever turns text into markup; here every text that the schemas allow is hostile."""
    world.statuses["orders"]["handoffs_running"] = 1
    world.processors["orders"][0].update(reason=HOSTILE)
    world.processors["orders"][1]["standbys"][0].update(ready=False, waiting=HOSTILE)
    world.agents[0].update(address=HOSTILE, tags=[{"name": "zone", "value": HOSTILE}])
    world.problems = {"orders": [world.problem(detail=HOSTILE, action=HOSTILE)]}
    world.handoffs = [world.handoff(id=1, waiting=HOSTILE), world.handoff(id=2, state="failed", error=HOSTILE)]
    world.events[0].update(detail=HOSTILE, actor=HOSTILE)
    world.drain("host-2", {0: {"waiting": HOSTILE}})
    world.operations = [
        world.expansion(waiting=HOSTILE, action=HOSTILE, actor=HOSTILE, reason=HOSTILE, step=HOSTILE, handoff=None),
        world.expansion(id="op-30", state="failed", error=HOSTILE, cancellable=False),
    ]
    page = world.browser()
    assert page.text("link") == "live"
    for part in ("processors", "agents", "problems", "moving", "moved", "events", "operating", "operated"):
        assert any(HOSTILE in cell for row in page.rows(part) for cell in row), part
    assert HOSTILE in page.table("agents")[1]["Slowest"]
    made = set(page.eval("dom.made.map((element) => element.tagName)"))
    assert made - {tag.upper() for tag, _ in Skeleton(PAGE).elements} == {
        "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "PROGRESS", "SPAN"}  # fmt: skip


@pytest.mark.parametrize("name", ["innerHTML", "outerHTML", "href"])
def test_dashboard_browser_notices_markup(world, name):
    """The check above can fail."""
    page = world.browser()
    with pytest.raises(Exception, match=f"{name} is written"):
        page.eval(f"document.getElementById('age').{name} = 'x'")


# ---- operations


def operating(page):
    """{heading: {title: text}} of the operations under way."""
    shown = {}
    for row in page.rows("operating")[1:]:
        if len(row) == 1:
            shown[row[0]] = {}
        else:
            shown[list(shown)[-1]][row[0]] = row[1]
    return shown


def test_dashboard_shows_how_far_an_expansion_is(world):
    world.statuses["orders"]["handoffs_running"] = 1
    world.handoffs = [world.handoff(
        id=19, kind="split", processor=5, parent=1, target="host-3", learned_records=2_500, target_records=10_000,
        replay_records=7_500, replayed_per_s=5_000, eta_ms=1_500, operation="op-31")]  # fmt: skip
    world.operations = [
        world.expansion(handoff=19, eta_ms=61_000),
        world.expansion(id="op-30", state="failed", reached=5, error="history is gone", action="ask again", waiting=None,
                        cancellable=False, handoff=None, eta_ms=None),
        world.expansion(id="op-29", kind="expand_partitions", state="succeeded", reached=8, actor="coordinator", waiting=None,
                        cancellable=False, handoff=None, eta_ms=None, reason="somebody else has added partitions to the inputs"),
    ]  # fmt: skip
    page = world.browser()
    assert page.text("link") == "live"
    ((heading, shown),) = operating(page).items()
    assert heading == "orders, processors: 4 to 8, 5 now (op-31)"
    assert (shown["Now"], shown["T2 of T1"]) == ("split 2 of 4", "2,500 of 10,000 records, 5,000/s")
    assert shown["Waits for"].startswith("processor 5, split off 1, to agent host-3, learning")
    assert shown["Asked for"] == "90 s ago by api 10.0.0.7: two hosts more" and shown["All ready in"] == "61 s"
    assert "What to do" not in shown
    assert shown["To cancel"] == "curl -X DELETE http://baton.example/prefix/v1/operations/op-31", "where the page is from"
    bars = page.eval("dom.made.filter((e) => e.tagName === 'PROGRESS').map((e) => e.value)")
    assert bars == [0.25, 0.25], "the split is among the hand-overs, too"
    (split,) = page.table("moving")
    assert (split["Processor"], split["Kind"], split["T2 towards T1"]) == ("5", "split off 1", "25 %")
    failed, adopted = page.table("operated")
    assert (failed["Operation"], failed["What"], failed["End"]) == ("op-30", "processors: 4 to 8, 5 reached", "failed")
    assert (failed["What happened"], failed["What to do"]) == ("history is gone", "ask again")
    assert (adopted["What"], adopted["By"]) == ("partitions: 4 to 8", "coordinator")
    assert adopted["Why"] == "somebody else has added partitions to the inputs"


def test_dashboard_shows_why_an_expansion_is_stuck(world):
    """Nothing that is not known is made up: what an older version did not note, how long a wait takes."""
    world.operations = [
        world.expansion(id="op-32", handoff=None, eta_ms=None, from_=None, step_number=None, steps=None, actor=None,
                        waiting="the job is paused", action="Resume the job"),
        world.expansion(id="op-31", kind="expand_partitions", handoff=None, eta_ms=None, step_number=4, steps=4, reached=4,
                        step="committing the start offsets to the group", waiting="no controller", cancellable=False),
    ]  # fmt: skip
    del world.operations[0]["from_"]
    world.operations[0]["from"] = None
    (asked, processors), (adopted, partitions) = operating(world.browser()).items()
    assert asked == "orders, processors: ? to 8, 5 now (op-32)" and adopted == "orders, partitions: 4 to 8, 4 now (op-31)"
    assert (processors["Now"], processors["Asked for"]) == ("split ? of ?", "90 s ago by ?: two hosts more")
    assert "T2 of T1" not in processors and processors["All ready in"] == "?"
    assert (processors["Waits for"], processors["What to do"]) == ("the job is paused", "Resume the job")
    assert partitions["Now"] == "step 4 of 4: committing the start offsets to the group"
    assert "All ready in" not in partitions and partitions["To cancel"] == "too late: it has to finish"


def test_dashboard_shows_why_a_creation_or_a_move_does_not_end(world):
    """Kinds without counts tell their step; and those that have ended are all there, whatever kind they were."""
    world.statuses["orders"]["handoffs_running"] = 1
    world.handoffs = [world.handoff(id=19, processor=1, operation="op-33")]
    plain = {"step_number": None, "steps": None, "from": None, "to": None, "reached": None, "eta_ms": None, "action": None}
    world.operations = [
        {**world.expansion(id="op-34", kind="create_job", step="committing the start offsets", handoff=None, cancellable=False,
                           waiting="the group may not be written: not authorized", reason=None), **plain},
        {**world.expansion(id="op-33", kind="move", step="handing over", handoff=19, waiting="processor 1 learns"), **plain},
        world.example("operation_view", id="op-32"),
        {**world.expansion(id="op-31", kind="rebalance", state="cancelled", error="asked for", waiting=None), **plain},
    ]  # fmt: skip
    page = world.browser()
    assert page.text("link") == "live"
    shown = operating(page)
    assert list(shown) == ["orders, creation (op-34)", "orders, move (op-33)", "orders, deletion (op-32)"]
    creation, move, deletion = shown.values()
    assert creation == {"Asked for": "90 s ago by api 10.0.0.7", "Now": "committing the start offsets",
                        "Waits for": "the group may not be written: not authorized",
                        "To cancel": "no: delete the job instead"}  # fmt: skip
    assert (move["Now"], move["Waits for"]) == ("handing over", "processor 1 learns") and "T2 of T1" not in move
    assert move["To cancel"].startswith("curl -X DELETE") and deletion["To cancel"] == "no: it can not be undone"
    assert deletion["What to do"].startswith("It goes on by itself")
    (rebalance,) = page.table("operated")
    assert (rebalance["What"], rebalance["End"], rebalance["What happened"]) == ("rebalance", "cancelled", "asked for")


def test_dashboard_shows_settle_windows(world):
    page = world.browser()
    assert (page.text("windows-said"), page.rows("windows")) == ("", [])
    assert page.table("jobs")[0]["Settle windows"] == ""
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    opened, met, closes = [(now + datetime.timedelta(minutes=m)).isoformat()[:19] + "Z" for m in (-12.5, -3.5, 7.5)]
    for number, fields in {
        0: {"window": "closed", "window_at": met, "fence": 90, "old_records": 0},
        1: {"window": "closed", "window_at": met, "fence": 90, "old_records": 2, "old_at": opened},
        2: {"window": "open", "window_at": opened, "old_records": 3, "old_at": met, "window_closes_at": closes},
        3: {"window": "open", "window_at": opened, "old_records": 4, "old_at": met, "window_stale": True,
            "window_closes_at": opened},
    }.items():  # fmt: skip
        world.processors["orders"][number]["partitions"][0].update(fields)
    world.statuses["orders"].update(windows_open=2, windows_stale=1, old_records=9, old_at=met, windows_close_at=closes)
    again, waiting, closed = page.refresh().table("windows")
    assert (again["Partition"], again["Window"], again["Last one"]) == ("3", "open again", "3 min ago")
    assert again["Ends"] == "as soon as its owner has committed what came until then"
    assert "stale_after_settle" in again["What to do"] and waiting["What to do"] == ""
    assert (waiting["Window"], waiting["For"], waiting["Old-count records"]) == ("open", "12 min", "3")
    assert waiting["Ends"] == "in 7 min at the earliest"
    assert (closed["Partition"], closed["Window"], closed["Ends"]) == ("1", "closed", ""), "one without such records is left out"
    assert page.text("windows-said") == (
        "2 are open, 1 of them again; 9 old-count records were met, the last 3 min ago; the first ends in 7 min at the earliest.")
    assert page.table("jobs")[0]["Settle windows"] == "2 open, 1 again"
    world.statuses["orders"].update(windows_stale=0, old_records=0, old_at=None, windows_close_at=None)
    assert page.refresh().text("windows-said") == (
        "2 are open; no old-count record was met; they can not be closed: nobody knows how keys are placed.")


def test_dashboard_shows_the_map_and_where_a_key_is(world):
    owners = [0, 1, 2, 3, 0, 5, 2, 3, 0, 1, 2, 3]  # of 12 partitions: 5 was split off 1, and 4 off 0 would be next
    world.maps["orders"] = world.example(
        "map_view", job="orders", version=3, partitions_initial=8, partitions=12, partitions_split_pointer=4,
        processors_initial=4, processors=6, processors_split_pointer=2)  # fmt: skip
    world.maps["orders"]["items"] = [
        {"partition": n, "processor": owner, "agent": f"host-{owner}", "parent": n - 8 if n > 7 else None}
        for n, owner in enumerate(owners)
    ]
    page = world.browser()
    rows = page.table("map")
    assert [row["Processor"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert [row["Split off"] for row in rows] == ["", "", "", "", "0", "1"]
    assert rows[0]["Partitions"] == "0, 4, 8" and rows[4]["Agent"] == "none"
    said = page.text("map-said")
    assert "12 partitions, 8 at first (level 0, split pointer 4); 6 processors, 4 at first (level 0, split pointer 2)" in said
    assert "version 3; keys are placed by murmur2." in said and "kept for ever" in said
    assert page.text("key-said") == ""
    world.keys["a%26b", "text"] = world.example("map_key_view", job="orders", key=HOSTILE, path=[1, 9], partition=9, processor=1)
    page.look_up("a&b")
    assert page.text("key-said") == f"{HOSTILE} of orders: murmur2 gives 1584006640, bucket 1, then 9: " + (
        "partition 9, processor 1, agent host-1.")
    world.keys["a%26b", "text"]["agent"] = None
    assert page.refresh().text("key-said").endswith("agent none."), "it is asked again with each reading"


def test_dashboard_says_why_a_key_has_no_place(world):
    page = world.browser()
    world.fault = {"v1/jobs/orders/map?key=x&key_encoding=base64": 409}
    page.look_up("x", "base64")
    assert page.text("key-said").startswith("The disk refused to store"), "the refusal as it is"
    assert page.text("link") == "live" and page.table("map"), "all else is shown"


# ---- fields


@pytest.mark.parametrize(
    ("table", "schema"),
    [("problems", "problem_view"), ("moving", "handoff_view"), ("jobs", "job_status"), ("processors", "processor_view"),
     ("agents", "agent_view"), ("moved", "handoff_view"), ("events", "event_view"),
     ("operated", "operation_view"), ("windows", "partition_view")],
)  # fmt: skip
def test_dashboard_columns_are_fields_of_the_contract(contract, table, schema):
    """Rows are copies, which browser.js does not guard: their fields are compared here."""
    block = re.search(rf"new Table\(at\('{table}'\)(.*?)\n        \]\),", SCRIPT, re.S)[1]
    used = set(re.findall(r"\b[a-z]\.(\w+)", block)) - {"now", "processor_view", "processor" if table == "windows" else "now"}
    assert len(used) >= 5
    assert used <= set(contract.document["components"]["schemas"][schema]["properties"])


# ---- the real thing


@pytest.mark.timeout(300)
def test_dashboard_shows_a_real_cluster(broker, daemons, unique, loads):
    coordinator = daemons.coordinator(agent_timeout="1m")  # a busy machine is no reason for hand-overs that nobody asked for
    job = Job(broker, coordinator, unique)
    job.create()
    daemons.agent(coordinator)
    job.wait_active()
    loads(broker.bootstrap, job.input, keys=100, seed=1, total=1_000).wait(LIMIT_S)
    job.wait_drained()
    daemons.agent(coordinator)
    page = Browser(coordinator.address)

    def moved():
        page.refresh()  # reads one thing after the other, so it can see a hand-over end between two
        ended = [each["End"] for each in page.table("moved")] == ["done", "done"] and page.rows("moving") == []
        shared = [row[0] for row in page.rows("processors") if len(row) == 1] == [
            f"agent-{n} (alive): 2 processors, 2 active" for n in (1, 2)]  # fmt: skip
        return ended and shared and page.table("jobs")[0]["Active"] == "4 of 4"

    wait_until(moved, LIMIT_S, "two processors have gone to the second agent")
    assert page.text("link") == "live"
    (shown,) = page.table("jobs")
    assert (shown["Job"], shown["State"]) == (job.name, "running")
    assert {each["What"] for each in page.table("events")} >= {"job_created", "agent_registered", "handoff_done"}
    coordinator.http.put("/v1/agents/agent-1/drain", {"reason": "it is replaced"}, expect=202)

    def safe_to_stop():
        leaver, stays = page.refresh().table("agents")
        assert stays["Leaving"] == "" and leaver["Leaving"] in ("draining", "safe to stop")
        return (leaver["Leaving"], leaver["Left"], stays["Tasks"].split()[0]) == ("safe to stop", "0 of 2", "4")

    wait_until(safe_to_stop, LIMIT_S, "the first agent is drained")
    client = CheckedClient(coordinator.address)
    for path in sorted(set(page.paths)):
        client.get(f"/{path}")  # each is in the contract
    coordinator.kill()
    page.refresh()
    assert page.text("link").startswith("The coordinator does not answer") and page.table("jobs")
    coordinator.start()
    wait_until(lambda: page.refresh().text("link") == "live", LIMIT_S, "the page finds the coordinator again")


@pytest.mark.timeout(300)
def test_dashboard_shows_a_real_expansion(broker, daemons, unique):
    """One that waits, says for what, goes on; then more partitions, their windows, and where a key is then."""
    coordinator = daemons.coordinator(agent_timeout="1m")
    job = Job(broker, coordinator, unique, 4, 2, settle="1h", partitioner="murmur2")
    job.create()
    daemons.agent(coordinator)
    job.wait_active()
    api, path = coordinator.http, f"/v1/jobs/{job.name}/expansions"
    api.put("/v1/agents/agent-1/eligibility", {"schedulable": False})
    operation = api.post(path, {"processors": 3, "reason": "a host more"}, expect=202).json["id"]
    page = Browser(coordinator.address)
    ((heading, shown),) = operating(page).items()
    assert heading == f"{job.name}, processors: 2 to 3, 2 now ({operation})"
    assert shown["Now"] == "split 1 of 1" and shown["Asked for"].endswith(": a host more")
    assert shown["Waits for"].startswith("no agent is alive, neither cordoned nor drained")
    assert "or cancel it" in shown["What to do"] and shown["To cancel"].endswith(f"/v1/operations/{operation}")
    asked = api.get(f"/v1/operations/{operation}").json
    assert asked["cancellable"] and asked["waiting"] == api.get("/v1/operations").json["items"][0]["waiting"]
    assert api.get(f"/v1/operations/{operation}?wait=1ms").json["waiting"] == asked["waiting"], "whoever answers"
    api.put("/v1/agents/agent-1/eligibility", {"schedulable": True})
    assert job.wait_operation(operation)["state"] == "succeeded"
    wait_until(lambda: "done" in [each["End"] for each in page.refresh().table("moved")], LIMIT_S, "the split has ended")
    assert [(each["Processor"], each["Kind"]) for each in page.table("moved")] == [("2", "split off 0")]
    ended = job.wait_operation(api.post(path, {"partitions": 8}, expect=202).json["id"])
    assert (ended["from"], ended["to"], ended["reached"], ended["steps"]) == (4, 8, 8, 4)
    wait_until(lambda: len(page.refresh().table("windows")) == 4, LIMIT_S, "the windows of the old partitions are shown")
    assert operating(page) == {}
    assert [(each["What"], each["End"]) for each in page.table("operated")] == [
        ("partitions: 4 to 8", "succeeded"), ("processors: 2 to 3", "succeeded"), ("creation", "succeeded")]  # fmt: skip
    assert re.fullmatch(r"4 are open; no old-count record was met; the first ends in \d+ min at the earliest\.",
                        page.text("windows-said"))  # fmt: skip
    assert [(each["Processor"], each["Partitions"], each["Split off"]) for each in page.table("map")] == [
        ("0", "0, 4", ""), ("1", "1, 3, 5, 7", ""), ("2", "2, 6", "0")]  # fmt: skip
    page.look_up("customer-17")
    wanted = linhash(murmur2(b"customer-17"), 4, 8)
    assert f"partition {wanted}, processor " in page.text("key-said") and page.text("link") == "live"
    client = CheckedClient(coordinator.address)
    for asked in sorted(set(page.paths)):
        client.get(f"/{asked}")  # each is in the contract
