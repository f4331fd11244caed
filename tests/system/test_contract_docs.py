"""docs/ and deploy/ say what the code says. Needs a compiler and the daemons, but no broker."""

import importlib.util
import os
import pathlib
import re
import subprocess

import pytest
import yaml

import process
from daemons import ROOT, build_directory
from waiting import wait_until

PARTS_OF_A_PROBLEM = ["Means", "Noticed", "Meanwhile", "Do", "Ends"]
NOT_RAISED = "Not raised in this version"
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not {"build", ".git", "node_modules"} & set(path.relative_to(ROOT).parts)
)


def load_generator():
    spec = importlib.util.spec_from_file_location("docs_generator", ROOT / "scripts/docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = load_generator()
OPERATIONS = docs.OPERATIONS.read_text(encoding="utf-8")
CONFIGURATION = docs.CONFIGURATION.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tables():
    return docs.openapi.load_tables()


@pytest.fixture(scope="module")
def named(tables):
    """The problems of jobs, by code."""
    return {problem["code"]: problem for problem in tables["problems"] if problem["of_job"]}


def section(text, title):
    """From a heading of the second level to the next one."""
    return re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def problem_sections():
    """{code: text} in the order of the page."""
    return dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^### |\Z)", section(OPERATIONS, "Problems of jobs"), re.M | re.S))


def code_blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


# ---- generated parts

def test_contract_docs_generated_parts_are_up_to_date():
    stale = docs.find_stale(docs.make_files())
    assert stale == [], "run scripts/python.sh scripts/docs.py"


def test_contract_docs_have_every_generated_part():
    """A part that was deleted from a page would not be missed by the comparison above."""
    found = [name for text in (CONFIGURATION, OPERATIONS) for _, name, _ in docs.PART.findall(text)]
    assert sorted(found) == sorted(docs.parts(None))
    assert len(re.findall(r"^<!-- (?:generated|end)", CONFIGURATION + OPERATIONS, re.M)) == 2 * len(found)


# ---- problems

def test_contract_docs_have_a_section_for_every_problem(named):
    assert set(problem_sections()) == set(named)


def test_contract_docs_order_problems_by_severity(named):
    severities = [named[code]["severity"] for code in problem_sections()]
    assert severities == sorted(severities, key=["critical", "warning"].index)


def test_contract_docs_problems_have_title_and_all_parts(named):
    for code, text in problem_sections().items():
        first = text.splitlines()[0]
        assert first == f"{named[code]['severity'].capitalize()}. {named[code]['title']}.", code
        assert re.findall(r"^- \*\*(\w+)\.\*\* \S", text, re.M) == PARTS_OF_A_PROBLEM, code


def test_contract_docs_know_which_problems_are_never_raised(named):
    """A code that only the table knows is marked as such, and loses the mark when something begins to raise it."""
    raised = set(re.findall(r'"(\w+)"', docs.source("agent/**/*.c", "coordinator/**/*.c")))
    sections = problem_sections()
    for code in named:
        marked = NOT_RAISED in sections[code]
        assert marked == (code not in raised), f"{code}: raised by the code: {code in raised}, marked as not raised: {marked}"


def test_contract_docs_alerts_tell_warnings_from_critical_problems(named):
    (rules,) = code_blocks(section(OPERATIONS, "Monitoring"), "yaml")
    expressions = {rule["alert"]: rule["expr"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]}
    left_out = {
        alert: set(match[1].split("|")) for alert, text in expressions.items() if (match := re.search(r'code!~"([^"]+)"', text))
    }
    warnings = {code for code, problem in named.items() if problem["severity"] == "warning"}
    assert set(left_out) == {"BatonProblem", "BatonWarning"}
    assert left_out["BatonProblem"] == warnings and left_out["BatonWarning"] < warnings


# ---- events

def test_contract_docs_list_every_kind_of_event():
    in_code = docs.source("coordinator/core/step*.c")
    kinds = set(re.findall(r'\(struct event_about\)\{\s*(?:\.kind = )?"(\w+)"', in_code))
    kinds |= set(re.findall(r'about\.kind = "(\w+)"', in_code))
    kinds |= set(re.findall(r'(?:\] = |&handoff->row, )"(handoff_\w+)"', in_code))
    for both in re.findall(r'\(struct event_about\)\{\s*\w+ \? "(\w+)" : "(\w+)"', in_code):
        kinds |= set(both)
    assert len(kinds) > 10
    listed = re.findall(r"^\| (`[^|]+) \|", section(OPERATIONS, "Events"), re.M)
    assert set(re.findall(r"`(\w+)`", " ".join(listed))) == kinds


# ---- hand-overs

def test_contract_docs_explain_every_state_of_a_hand_over(tables):
    """In the order of the code, and for each state under way what it waits for and what to do when that does not come."""
    (view,) = [type_ for type_ in tables["types"] if type_["name"] == "handoff_view"]
    (state,) = [field for field in view["fields"] if field["name"] == "state"]
    (header, rows) = re.search(r"^\| (state [^\n]*)\n\|[-|]+\n((?:\|.*\n)+)", section(OPERATIONS, "Hand-overs"), re.M).groups()
    assert header.count("|") == 5
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]
    assert [row[0] for row in cells] == [f"`{name}`" for name in state["names"]]
    for row in cells:
        under_way = row[0].strip("`") not in ("done", "cancelled", "failed")
        assert bool(row[3]) == under_way and (row[4] or row[0] == "`done`"), row


def test_contract_docs_read_fields_that_hand_overs_have(tables):
    """What the examples take out of the answers."""
    (view,) = [type_ for type_ in tables["types"] if type_["name"] == "handoff_view"]
    (example,) = re.findall(r"handoffs\?job=\$J&limit=100.*?@tsv'", section(OPERATIONS, "Hand-overs"), re.S)
    used = set(re.findall(r"\.(\w+)", example.partition("jq")[2])) - {"items"}
    assert len(used) == 9 and used <= {field["name"] for field in view["fields"]}


# ---- metrics

def exposed(folder):
    """Names of metrics in a daemon's sources."""
    return set(re.findall(r'"(baton_[a-z0-9_]+)"', docs.source(f"{folder}/metrics*.c")))


def listed(daemon):
    text = re.search(rf"<!-- generated: metrics of the {daemon} -->\n(.*?)<!-- end -->", OPERATIONS, re.S)[1]
    return set(re.findall(r"^\| `(\w+)`", text, re.M))


@pytest.mark.parametrize("daemon", docs.DAEMONS)
def test_contract_docs_list_every_metric(daemon):
    assert listed(daemon) == exposed(daemon)


def test_contract_docs_no_metric_hides_in_another_file():
    everywhere = set(re.findall(r'"(baton_[a-z0-9_]+)"', docs.source("agent/**/*.c", "coordinator/**/*.c", "common/*.c")))
    entry_point = {"baton_processor_entry"}  # of plugins
    assert everywhere - entry_point == exposed("coordinator") | exposed("agent")


def test_contract_docs_alerts_use_metrics_that_exist():
    known = listed("coordinator") | listed("agent")
    text = section(OPERATIONS, "Monitoring")
    text = re.sub(docs.PART, "", text)
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bbaton_[a-z0-9_]+", text)}
    assert used <= known
    assert len(used) > 8


# ---- requests in examples

def requests_in(text):
    """(method, path) of every curl line for the coordinator. $B is its address, $J a job's name."""
    for block in code_blocks(text, "sh"):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            for command in re.findall(r"curl [^|]*", line):
                method = re.search(r"-X (\w+)", command)
                for target in re.findall(r'"?\$B(/[^\s"]*)', command):
                    path = target.replace("$J", "some-job")
                    yield method[1] if method else "GET", *path.partition("?")[::2]


def test_contract_docs_examples_use_routes_that_exist(tables):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = [*requests_in(OPERATIONS), *requests_in(readme)]
    assert len(found) > 15
    for method, path, query in found:
        matching = [
            route for route in tables["routes"]
            if route["method"] == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", route["path"]), path)
        ]  # fmt: skip
        assert matching, f"{method} {path}"
        names = {pair.split("=")[0] for pair in query.split("&") if pair}
        assert names <= set(matching[0]["query"]), f"{method} {path}?{query}"


def test_contract_docs_first_look_has_every_read_of_a_job(tables):
    """status, processors, problems, map, and what is beside them."""
    paths = {(method, path) for method, path, _ in requests_in(section(OPERATIONS, "First look"))}
    reads = ["status", "problems", "processors", "processors/3", "map"]
    assert {("GET", f"/v1/jobs/some-job/{read}") for read in reads} <= paths
    assert {("GET", "/v1/events"), ("GET", "/v1/operations"), ("GET", "/metrics"), ("GET", "/v1/agents")} <= paths


# ---- configuration

def run_agent(*arguments):
    command = [build_directory() / "baton-agent", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


def test_contract_docs_properties_of_the_agent_are_refused_with_the_reason():
    refusals = re.findall(r"^\| `kafka\.([a-z.]+)` \| (.+) \|$", CONFIGURATION.split("**The agent sets**")[0], re.M)
    assert dict(refusals) == docs.kafka_refusals() and len(refusals) > 10
    for name, reason in refusals:
        done = run_agent("--kafka.bootstrap.servers=127.0.0.1:1", f"--kafka.{name}=x")
        assert done.returncode == 1 and f"kafka.{name}: can not be set: {reason}" in done.stderr, name


def test_contract_docs_name_the_properties_that_the_coordinator_overrides():
    paragraph = re.search(r"\*\*The coordinator overrides\*\*(.*?)\n\n", CONFIGURATION, re.S)[1]
    assert set(re.findall(r"`([a-z.]+)`", paragraph)) == docs.kafka_overrides()
    assert "isolation.level" in docs.kafka_overrides()


def test_contract_docs_example_of_tls_and_sasl_is_taken(tmp_path):
    """librdkafka checks properties and files when it makes a client, before it connects."""
    (example,) = code_blocks(CONFIGURATION, "properties")
    assert "kafka.sasl.mechanism" in example and "kafka.ssl.ca.location" in example
    authorities = re.search(r"kafka.ssl.ca.location = (.*)", example)[1]
    if not pathlib.Path(authorities).exists():
        pytest.skip(f"there is no {authorities} here")
    own = f"listen = 127.0.0.1:0\nagent_id = docs\nstate_dir = {tmp_path}/state\ncoordinator = http://127.0.0.1:1\n"
    (tmp_path / "agent.conf").write_text(own + re.sub(r"broker\d\.example\.org:\d+", "127.0.0.1:1", example))
    log = tmp_path / "log"
    child = process.start([build_directory() / "baton-agent", "--config", tmp_path / "agent.conf"], log)
    try:
        wait_until(lambda: child.poll() is not None or "event=listening" in log.read_text(), 20, "it listens")
        assert child.poll() is None, log.read_text()
    finally:
        process.end(child)


def test_contract_docs_no_field_is_without_effect():
    """The last ones that nothing read were those of partition expansion."""
    assert "without effect in this version" not in CONFIGURATION
    code = docs.source("agent/**/*.c", "coordinator/**/*.c")
    for field in ("expansion_order", "settle"):
        assert re.search(rf"\b(?:spec|job)(?:\.|->){field}(?:_ms)?\b", code), f"{field} is not read"


def test_contract_docs_options_in_examples_exist():
    """--name=value in commands of the documents, and `name = value` of the sample files' folder."""
    known = {daemon: docs.printed_options(daemon, "markdown") for daemon in docs.DAEMONS}
    for page in PAGES:
        for daemon, arguments in re.findall(r"baton-(coordinator|agent) ((?:--\S+ ?)+)", page.read_text(encoding="utf-8")):
            for name in re.findall(r"--([a-z_]+)=", arguments):
                assert f"| `{name}` |" in known[daemon], f"{page.name}: baton-{daemon} --{name}"


# ---- links

def anchors(path):
    """As GitHub makes them: lower case, no punctuation, blanks to dashes."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = set()
    for title in re.findall(r"^#+ (.+)$", text, re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_contract_docs_links_resolve(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(path), f"{page.name}: {target}"


def test_contract_docs_are_in_the_index():
    """Every page of docs/ is reachable from README.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name
    assert os.access(ROOT / "deploy/coordinator.conf", os.R_OK)


# ---- scenarios

def test_contract_docs_scenarios_name_their_tests():
    """Who cites a scenario is listed with it, and what is listed is there."""
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| S(\d+) .*\| (.*) \|$", page, re.M)
    rows = {int(number): set(re.findall(r"`([^`]+)`", tests)) for number, tests in found}
    assert list(rows) == list(range(1, 46))
    for number, tests in rows.items():
        assert tests and all((ROOT / "tests" / test).is_file() for test in tests), f"S{number}: {tests}"
    for path in sorted(path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".c") and path.is_file()):
        for number in map(int, re.findall(r"\bS(\d+)\b", path.read_text(encoding="utf-8"))):
            if number > 2:  # the first two are also the names of the two sets of partitions
                assert str(path.relative_to(ROOT / "tests")) in rows[number], f"S{number}"


# ---- the form

def test_contract_docs_lines_are_short():
    """Outside of tables, which can not be broken."""
    for page in (docs.CONFIGURATION, docs.OPERATIONS):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 130 or line.startswith("| "), f"{page.name}:{number}"
