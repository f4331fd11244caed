"""Fixtures and rules of the system tests and of the soak tests; their conftest.py take everything from here."""

import json
import os
import pathlib
import re
import subprocess
import time
import uuid

import pytest

import process
from daemons import ROOT, Daemons
from kafka import Broker
from producer import Load
from proxy import TcpProxy

# `make system K=word` selects by these words, so every test's name (its file's or its own) holds one of them.
CAPABILITIES = (
    "process", "restart", "handoff", "failover", "drain", "standby", "migrate", "expand", "cli", "dashboard", "contract",
    "tutorial", "security", "exec", "package", "metrics", "harness",
)  # fmt: skip
LOG_TAIL_LINES = 60
SHARED_PROXIES = 3
SHARED_PROPERTIES = {
    # On a busy machine it must not take itself for dead: it would leave out abort markers then (docs/design.md D9).
    "broker.session.timeout.ms": 120_000,
    # Records of tests may be of long ago: retention is not to take them while a test wants to read them again.
    "log.retention.check.interval.ms": 86_400_000,
    # Transactions that are over their time are aborted within a second, not ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}
_STARTED = pytest.StashKey()


def pytest_collection_modifyitems(items):
    for item in items:
        words = re.split(r"[^a-z]+", f"{item.path.stem}_{item.name}".lower())
        if not set(words) & set(CAPABILITIES):
            raise pytest.UsageError(f"{item.nodeid}: its name holds no capability ({', '.join(CAPABILITIES)})")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the ends of its daemons' logs."""
    outcome = yield
    report = outcome.get_result()
    daemons = getattr(item, "funcargs", {}).get("daemons")
    if report.failed and daemons:
        for daemon in daemons.all:
            lines = daemon.log_text(whole=True).splitlines()[-LOG_TAIL_LINES:]
            report.sections.append((f"{daemon.log_path} (last {len(lines)} lines)", "\n".join(lines)))


def pytest_sessionstart(session):
    session.config.stash[_STARTED] = time.time()


def pytest_terminal_summary(terminalreporter, config):
    """Leaves the counts where scripts/test.sh adds them up, and a summary with all figures in build/<suite>/summary.json."""
    suite = os.environ.get("BATON_SUITE")
    if not suite:
        return
    stats = terminalreporter.stats
    passed, skipped = len(stats.get("passed", ())), len(stats.get("skipped", ()))
    failed = len(stats.get("failed", ())) + len(stats.get("error", ()))
    results = pathlib.Path(os.environ.get("BATON_RESULTS", ROOT / "build" / "results"))
    results.mkdir(parents=True, exist_ok=True)
    (results / suite).write_text(f"{passed} {failed}\n")
    reports = [each for outcome in ("passed", "failed", "error", "skipped") for each in stats.get(outcome, ())]
    summary = {
        "suite": suite,
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain").splitlines()),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(config.stash[_STARTED])),
        "seconds": round(time.time() - config.stash[_STARTED], 1),
        "selected": config.option.keyword,
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "tests": [
            {"name": each.nodeid, "outcome": each.outcome, "phase": each.when, "seconds": round(each.duration, 2),
             "figures": dict(each.user_properties)}
            for each in reports
        ],
    }  # fmt: skip
    path = ROOT / "build" / suite / "summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=1) + "\n")


def _git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left():
    """Whatever a test started must have ended with it."""
    yield
    left = [child.args for child in process.started if child.poll() is None]
    for child in process.started:
        process.end(child)
    assert not left, f"still running at the end: {left}"


@pytest.fixture(scope="session")
def broker(tmp_path_factory, no_process_is_left):
    """The shared broker. Its proxies (broker.proxy(0), ...) are healed by whoever breaks them."""
    shared = Broker(tmp_path_factory.mktemp("kafka"), SHARED_PROXIES, SHARED_PROPERTIES)
    try:
        yield shared.start()
    finally:
        shared.finish()


@pytest.fixture
def own_broker(tmp_path):
    """Makes brokers that belong to the test alone: own_broker(proxies=1, properties={...}, mortal=True) starts one."""
    made = []

    def make(proxies=0, properties=None, mortal=False):
        made.append(Broker(tmp_path / f"kafka-{len(made)}", proxies, properties, mortal))
        return made[-1].start()

    yield make
    for each in made:
        each.resume()
        each.finish()


@pytest.fixture
def unique(request):
    """Names that no other test uses: unique("in") is "in-<test>-<random>", fit for topics, groups and jobs."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    tag = uuid.uuid4().hex[:8]
    return lambda word: f"{word}-{test}-{tag}"


@pytest.fixture
def figures(record_property):
    """figures(gap_ms=41, kills=20) prints measured values and keeps them for the summary of the run."""

    def keep(**values):
        for name, value in values.items():
            record_property(name, value)
            print(f"figure {name} = {value}")

    return keep


@pytest.fixture
def daemons(tmp_path, broker):
    """daemons.coordinator(...) and daemons.agent(coordinator, ...) start baton's daemons on the shared broker."""
    made = Daemons(tmp_path, broker)
    yield made
    made.finish()


@pytest.fixture
def loads():
    """loads(bootstrap, topic, keys=..., seed=..., total=... or rate=...) starts a load that ends with the test at last."""
    made = []

    def make(*args, **options):
        made.append(Load(*args, **options))
        return made[-1].start()

    yield make
    for each in made:
        each.finish()


@pytest.fixture
def proxy_to():
    """proxy_to(port) starts a TCP proxy before any port of loopback, a daemon's for instance."""
    made = []

    def make(port):
        made.append(TcpProxy(port))
        return made[-1]

    yield make
    for each in made:
        each.close()
