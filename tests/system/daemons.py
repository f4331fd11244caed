"""baton's daemons as child processes: started from a config file, waited for over HTTP, killed in every way.

    BATON_BUILD=build/asan        takes the binaries from there
    BATON_LIBRDKAFKA=current      runs them on the librdkafka of the oracle's client
"""

import os
import pathlib
import re
import signal
import subprocess

import process
from http_client import Client
from waiting import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_LIMIT_S = 60
STOP_LIMIT_S = 60  # an agent gives up after 30 s by itself
SANITIZER_REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "WARNING: ThreadSanitizer")
_LOGFMT = re.compile(r'([A-Za-z0-9_.]+)=("(?:[^"\\]|\\.)*"|\S*)')


def build_directory(hooks=False):
    """Where the binaries are: $BATON_BUILD, else build/; build/hooks/ for tests that hold a state.

    Sanitizer builds have the hooks anyway.
    """
    chosen = os.environ.get("BATON_BUILD")
    if chosen:
        return ROOT / chosen
    return ROOT / "build" / "hooks" if hooks else ROOT / "build"


def current_librdkafka(directory):
    """Environment that makes a daemon run on the librdkafka that confluent-kafka brings, instead of the installed one."""
    import confluent_kafka

    package = pathlib.Path(confluent_kafka.__file__).parent
    bundled = package.with_name("confluent_kafka.libs")
    (library,) = bundled.glob("librdkafka-*.so*")
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / "librdkafka.so.1"
    if not link.exists():
        link.symlink_to(library)
    return {"LD_LIBRARY_PATH": f"{directory}:{bundled}"}


def parse_logfmt(line):
    """{key: text} of one log line."""
    fields = {}
    for key, value in _LOGFMT.findall(line):
        if value.startswith('"'):
            value = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), value[1:-1])
        fields[key] = value
    return fields


class Daemon:
    """One daemon. It may be started and ended many times; its options, directories and log stay."""

    program = None  # of the subclass

    def __init__(self, name, directory, options, hooks=False, environment=None, prefix=()):
        """`prefix`: a command that becomes the daemon, in another network namespace for instance."""
        self.name = name
        self.prefix = prefix
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.options = dict(options)
        self.environment = dict(environment or {})
        if os.environ.get("BATON_LIBRDKAFKA") == "current":
            self.environment |= current_librdkafka(self.directory / "lib")
        self.binary = build_directory(hooks) / self.program
        self.log_path = self.directory / f"{name}.log"
        self.config_path = self.directory / f"{name}.conf"
        self.address = None
        self._child = None
        self._log_start = 0  # where the present process's lines begin
        self._ended_on_purpose = True

    # ---- life cycle ----

    def start(self, ready="/readyz", limit_s=START_LIMIT_S, arguments=()):
        """Starts it and waits until GET `ready` answers 200; `ready=None` waits for nothing."""
        assert not self.running, f"{self.name} is running"
        self.config_path.write_text("".join(f"{key} = {value}\n" for key, value in self.options.items()))
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._ended_on_purpose = False
        self.address = None
        self._child = process.start(
            [*self.prefix, self.binary, "--config", self.config_path, *arguments], self.log_path, self.environment
        )
        if ready:
            self.wait_for_address(limit_s)
            self.wait_ready(ready, limit_s)
        return self

    def wait_for_address(self, limit_s=START_LIMIT_S):
        """The daemon picks its port and logs it (listen = 127.0.0.1:0)."""

        def listening():
            self._assert_running()
            return self.log_events("listening")

        self.address = wait_until(listening, limit_s, f"{self.name} listens, see {self.log_path}")[-1]["address"]
        return self.address

    def wait_ready(self, path="/readyz", limit_s=START_LIMIT_S):
        def ready():
            self._assert_running()
            return self.http.request("GET", path).status == 200

        wait_until(ready, limit_s, f"{self.name} answers 200 to {path}, see {self.log_path}")

    def stop(self, limit_s=STOP_LIMIT_S):
        """SIGTERM; the exit code, which is 0 for a daemon that ended in order."""
        self._ended_on_purpose = True
        self._child.send_signal(signal.SIGCONT)
        self._child.terminate()
        return self._wait(limit_s, "ends after SIGTERM")

    def kill(self):
        """kill -9."""
        self._ended_on_purpose = True
        self._child.kill()
        self._child.wait()

    def pause(self):
        """SIGSTOP."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        self._child.send_signal(signal.SIGCONT)

    def wait_stopped(self, limit_s=STOP_LIMIT_S):
        """For a daemon that stops itself at a hook (SIGSTOP)."""

        def stopped():
            self._assert_running()
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state == "T"

        wait_until(stopped, limit_s, f"{self.name} stops itself at {self.environment.get('BATON_HOOK')}")

    def restart(self, **start_options):
        """Orderly, on the same state."""
        code = self.stop()
        assert code == 0, f"{self.name} ended with {code}, see {self.log_path}"
        return self.start(**start_options)

    def wait_exit(self, limit_s=STOP_LIMIT_S):
        """For a daemon that is expected to end by itself: its exit code."""
        code = self._wait(limit_s, "ends by itself")
        self._ended_on_purpose = True
        return code

    def finish(self):
        """Ends it whatever its state and returns what was wrong with it, as texts."""
        faults = []
        if self._child is None:
            return faults
        if self.running:
            try:
                code = self.stop()
                if code != 0:
                    faults.append(f"{self.name} ended with {code} after SIGTERM")
            except AssertionError as error:
                faults.append(str(error))
                self.kill()
        elif not self._ended_on_purpose:
            faults.append(f"{self.name} ended by itself with {self._child.returncode}")
        log = self.log_text(whole=True)
        faults += [f"{self.name}: {mark}" for mark in SANITIZER_REPORTS if mark in log]
        return faults

    @property
    def running(self):
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self):
        return self._child.pid

    def _wait(self, limit_s, what):
        try:
            return self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not within {limit_s} s: {self.name} {what}, see {self.log_path}") from None

    def _assert_running(self):
        assert self.running, f"{self.name} ended with {self._child.returncode}:\n{self.log_text()[-2000:]}"

    # ---- what it says ----

    @property
    def http(self):
        assert self.address, f"{self.name} was not waited for: no address yet"
        return Client(self.address)

    def log_text(self, whole=False):
        """Since the last start, or all of it."""
        if not self.log_path.exists():
            return ""
        with open(self.log_path, "rb") as log:
            log.seek(0 if whole else self._log_start)
            return log.read().decode(errors="replace")

    def log_events(self, event, whole=False, **fields):
        """The lines with that event and those fields, parsed."""
        wanted = {"event": event, **{key: str(value) for key, value in fields.items()}}
        written = self.log_text(whole).rpartition("\n")[0]  # the last line may be under way
        lines = (parse_logfmt(line) for line in written.splitlines() if event in line)
        return [line for line in lines if wanted.items() <= line.items()]

    def wait_log(self, event, limit_s=START_LIMIT_S, **fields):
        what = f"{self.name} logs event={event} {fields or ''}"
        return wait_until(lambda: self.log_events(event, **fields), limit_s, what)[-1]

    def metrics(self):
        """{name{labels}: value} of GET /metrics."""
        values = {}
        for line in self.http.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values


class Coordinator(Daemon):
    program = "baton-coordinator"

    def __init__(self, directory, bootstrap, name="coordinator", hooks=False, environment=None, **options):
        directory = pathlib.Path(directory)
        settings = {
            "listen": "127.0.0.1:0",
            "database": directory / "coordinator-db" / "baton.db",
            "kafka.bootstrap.servers": bootstrap,
            "log_level": "debug",
        }
        super().__init__(name, directory, {**settings, **_dotted(options)}, hooks, environment)

    def start(self, **start_options):
        """Keeps its port over restarts: agents know it by its address."""
        super().start(**start_options)
        if self.address:
            self.options["listen"] = self.address
        return self


class Agent(Daemon):
    program = "baton-agent"

    def __init__(self, directory, bootstrap, coordinator, agent_id, hooks=False, environment=None, prefix=(), **options):
        """`coordinator` is a Coordinator or an address, that of a proxy for instance."""
        directory = pathlib.Path(directory)
        address = coordinator if isinstance(coordinator, str) else coordinator.address
        settings = {
            "agent_id": agent_id,
            "coordinator": f"http://{address}",
            "state_dir": directory / f"{agent_id}-state",
            "kafka.bootstrap.servers": bootstrap,
            "listen": "127.0.0.1:0",
            "log_level": "debug",
        }
        super().__init__(agent_id, directory, {**settings, **_dotted(options)}, hooks, environment, prefix)


def _dotted(options):
    """Python has no dots in names: kafka__security__protocol becomes kafka.security.protocol. None drops an option."""
    return {key.replace("__", "."): value for key, value in options.items()}


class Daemons:
    """All daemons of one test. The fixture `daemons` ends them, agents first, and fails the test on what it finds."""

    def __init__(self, directory, broker):
        self.directory = pathlib.Path(directory)
        self.broker = broker
        self.all = []

    def coordinator(self, bootstrap=None, start=True, **options):
        made = Coordinator(self.directory, bootstrap or self.broker.bootstrap, **options)
        return self._add(made, start)

    def agent(self, coordinator, agent_id=None, bootstrap=None, start=True, **options):
        agent_id = agent_id or f"agent-{1 + sum(isinstance(each, Agent) for each in self.all)}"
        made = Agent(self.directory, bootstrap or self.broker.bootstrap, coordinator, agent_id, **options)
        return self._add(made, start)

    def _add(self, daemon, start):
        assert daemon.log_path not in {each.log_path for each in self.all}, f"two daemons named {daemon.name}"
        self.all.append(daemon)
        return daemon.start() if start else daemon

    def finish(self):
        faults = []
        for daemon in sorted(self.all, key=lambda each: isinstance(each, Coordinator)):
            faults += daemon.finish()
        assert not faults, "; ".join(faults)
