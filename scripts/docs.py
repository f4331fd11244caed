"""Writes the parts of docs/ and deploy/ that follow from the code: tables of options, spec fields, problems and metrics, sample files.

usage: scripts/python.sh scripts/docs.py [--check]

--check writes nothing and fails when a file is not what would be written. Needs a C compiler, jansson and both daemons built
(build/, or $BATON_BUILD). A generated part stands between the lines `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "docs/configuration.md"
OPERATIONS = ROOT / "docs/operations.md"
DAEMONS = ("coordinator", "agent")
NOWHERE = "127.0.0.1:1"  # no broker and no coordinator is there
START_LIMIT_S = 15
PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->\n)", re.S)


def load_openapi():
    spec = importlib.util.spec_from_file_location("openapi_generator", ROOT / "scripts/openapi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


openapi = load_openapi()


def program(daemon):
    return ROOT / os.environ.get("BATON_BUILD", "build") / f"baton-{daemon}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# ---- options

def printed_options(daemon, form):
    done = subprocess.run([program(daemon), f"--print-options={form}"], check=True, capture_output=True, text=True)
    return done.stdout


def source(*patterns):
    """The text of all C files of these patterns."""
    return "".join(path.read_text(encoding="utf-8") for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def kafka_refusals():
    """{property: reason} that the agent refuses to take from its operator."""
    body = re.search(r"kafka_refusals\[\] = \{(.*?)\n\};", source("agent/options.c"), re.S)[1]
    return dict(re.findall(r'\{"([a-z.]+)",\s*"([^"]+)"\}', body))


def kafka_presets():
    """[[property, value, whose]] that the agent sets but its operator may set otherwise."""
    rows = []
    for kind in ("consumer", "producer"):
        items = re.findall(r'\{"([a-z.]+)", "([a-z0-9]+)", (true|false), (true|false)\}', source(f"agent/{kind}.c"))
        rows += [[f"`kafka.{name}`", f"`{value}`", f"{kind}s"] for name, value, _, owned in items if owned == "false"]
    return [row for index, row in enumerate(rows) if row not in rows[:index]]


def kafka_overrides():
    """Properties that the coordinator sets over what its operator says."""
    return set(re.findall(r'^\s*(?:[^"\n]*\{)?\{"([a-z.]+)", (?:"[^"]*"|[a-z_]+)\}', source("coordinator/kafka*.c"), re.M))


# ---- fields of the spec

def describe_kind(field):
    """What a field takes, in words."""
    kind = field["kind"]
    texts = {
        "bool": "true or false",
        "name": "name",
        "topic": "topic name",
        "json": "object",
    }
    if kind == "string":
        return f"text of {field['min']} to {field['max']} bytes"
    if kind in ("uint32", "int64"):
        return f"{field['min']} to {field['max']}"
    if kind == "duration":
        return f"duration, {openapi.duration_text(field['min'])} to {openapi.duration_text(field['max'])}"
    if kind == "enum":
        return " or ".join(f"`{name}`" for name in field["names"])
    if kind == "list":
        return f"list of {field['min']} to {field['max']} {field['element']} names"
    if kind == "object":
        return "object, see below"
    return texts[kind]


def describe_default(field):
    if field["required"] or field["kind"] == "object":
        return "required"
    value = openapi.fallback_of(field)
    if value is None:
        return "null"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def field_rows(tables, name):
    (type_,) = [type_ for type_ in tables["types"] if type_["name"] == name]
    for field in type_["fields"]:
        yield [f"`{field['name']}`", describe_kind(field), describe_default(field),
               "no" if field["immutable"] else "yes", field["help"]]  # fmt: skip


def job_fields(tables):
    return table(["Field", "Takes", "Default", "Can change", "Meaning"], field_rows(tables, "job_spec"))


def logic_fields(tables):
    rows = [[*row[:3], row[4]] for row in field_rows(tables, "job_logic")]
    return table(["Field", "Takes", "Default", "Meaning"], rows)


# ---- problems

def request_problems(tables):
    problems = sorted((p for p in tables["problems"] if p["status"] != 0), key=lambda problem: problem["status"])
    rows = [[f"`{p['code']}`", str(p["status"]), f"{p['title']}.", p["action"]] for p in problems]
    return table(["Code", "Status", "Means", "What to do"], rows)


# ---- metrics: from a daemon that runs, since that is what people scrape

def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.read().decode()
    except (urllib.error.URLError, OSError):
        return ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scrape(daemon, mark):
    """GET /metrics of a daemon that reaches nobody, once it holds `mark`."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "coordinator": [f"--database={folder}/baton.db"],
            "agent": ["--agent_id=docs", f"--state_dir={folder}/state", f"--coordinator=http://{NOWHERE}"],
        }
        command = [program(daemon), f"--listen=127.0.0.1:{port}", f"--kafka.bootstrap.servers={NOWHERE}", *own[daemon]]
        with open(f"{folder}/log", "w+", encoding="utf-8") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                deadline = time.monotonic() + START_LIMIT_S
                while mark not in (text := get(port, "/metrics")):
                    if child.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        sys.exit(f"{command[0]} shows no metrics:\n{log.read()}")
                    time.sleep(0.05)
            finally:
                child.send_signal(signal.SIGTERM)
                child.wait()
    return text


def parse_families(text):
    """[(name, type, help)] in their order."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    return [(name, types[name], words) for name, words in re.findall(r"^# HELP (\S+) (.*)$", text, re.M)]


def metric_rows(daemon):
    mark = {"coordinator": "# TYPE baton_epoch ", "agent": "# TYPE baton_agent_ready "}[daemon]
    rows = [[f"`{name}`", kind, words] for name, kind, words in parse_families(scrape(daemon, mark))]
    return table(["Metric", "Type", "Meaning"], rows)


# ---- files

def parts(tables):
    """{name of a generated part: what makes it}"""
    return {
        "options of the coordinator": lambda: printed_options("coordinator", "markdown"),
        "options of the agent": lambda: printed_options("agent", "markdown"),
        "kafka properties of the agent": lambda: table(
            ["Property", "Why it is baton's"], [[f"`kafka.{name}`", reason] for name, reason in kafka_refusals().items()]
        ),
        "presets of the agent": lambda: table(["Property", "Value", "In its"], kafka_presets()),
        "fields of a job": lambda: job_fields(tables),
        "fields of logic": lambda: logic_fields(tables),
        "request problems": lambda: request_problems(tables),
        "metrics of the coordinator": lambda: metric_rows("coordinator"),
        "metrics of the agent": lambda: metric_rows("agent"),
    }


def fill(text, makers):
    return PART.sub(lambda part: part[1] + makers[part[2]]() + part[3], text)


def make_files():
    """{path: what it is to hold}"""
    makers = parts(openapi.load_tables())
    files = {path: fill(path.read_text(encoding="utf-8"), makers) for path in (CONFIGURATION, OPERATIONS)}
    for daemon in DAEMONS:
        files[ROOT / f"deploy/{daemon}.conf"] = printed_options(daemon, "sample")
    return files


def find_stale(files):
    return [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    files = make_files()
    stale = find_stale(files)
    if check:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"not up to date, run scripts/docs.py: {names}" if stale else 0)
    for path in stale:
        path.write_text(files[path], encoding="utf-8")


if __name__ == "__main__":
    main()
