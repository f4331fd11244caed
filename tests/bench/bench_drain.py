"""Measures a drain on a real broker, as an outsider sees it: `make bench-drain RATE=4000`.

As bench_handoff.py, whose words and windows these are, but on three agents, the first of which is asked to leave: its
processors are handed over, as many at a time as the coordinator likes, so their windows may overlap. `safe_to_stop_ms` is the
time from the request until the API says that the agent can be stopped. When all is measured the agent is killed (kill -9) under
load: nothing may move any more.

Prints one JSON line for each hand-over and a last one for all; progress goes to stderr. Exit code 1, with the reasons on
stderr, when the outputs are not exact, or a window has no outputs: then the figures mean nothing.
"""

import functools
import sys
import time

from bench_handoff import NUMBERS, Bench, measure, show
from rig import LIMIT_S, now_us, parse, run_program, say
from waiting import wait_until

POLL_S = 0.01  # so exact is safe_to_stop_ms


class DrainBench(Bench):
    AGENTS = 3

    def move_all(self):
        leaver = self.agents[0]
        path = f"/v1/agents/{leaver.name}/drain"
        http = self.job.coordinator.http
        say(f"a drain of {leaver.name} under {self.options.rate} records/s")
        quiet_since = now_us()
        time.sleep(self.options.pause)
        self.quiet.append((quiet_since, now_us()))
        asked = time.monotonic()
        http.put(path, {"reason": "bench"}, expect=202)
        wait_until(lambda: http.get(path).json["safe_to_stop"], LIMIT_S, f"{leaver.name} is drained", poll_s=POLL_S)
        self.safe_to_stop_ms = round((time.monotonic() - asked) * 1000)
        time.sleep(self.options.margin / 1000)
        quiet_since = now_us()
        for handoff in sorted(self.job.handoffs(), key=lambda each: each["id"]):
            self.note(handoff)
        self.stay_quiet(quiet_since)

    def end(self):
        leaver = self.agents[0]
        http = self.job.coordinator.http
        leaver.kill()
        wait_until(lambda: http.get(f"/v1/agents/{leaver.name}").json["state"] == "lost", LIMIT_S, "it is missed")
        assert len(self.job.handoffs()) == len(self.handoffs), f"a drained agent was taken for an owner: {self.job.handoffs()}"

    def more(self):
        return {"safe_to_stop_ms": self.safe_to_stop_ms}


if __name__ == "__main__":
    mine = [each for each in NUMBERS if each[0] != "handoffs"]
    options = parse(__doc__, mine, sys.argv[1:])
    sys.exit(run_program("bench-drain", options, functools.partial(measure, kind=DrainBench), show))
