"""Network namespaces in which agents live, each with a line of its own to the broker and one to the coordinator.

A line is cut without anybody being told, in one direction or both: its packets go to a hardware address that nobody has.
Broker and coordinator listen on addresses of their own (BROKER, COORDINATOR) on the loopback of the host. Needs root.
"""

import subprocess

NETWORK = "10.88"
BROKER = f"{NETWORK}.255.1"
COORDINATOR = f"{NETWORK}.255.2"
LINES = {"broker": (BROKER, 0), "coordinator": (COORDINATOR, 4)}  # whom it leads to, and where its subnet starts
NOBODY = "02:00:00:00:00:01"
OUT, IN, BOTH = "out", "in", "both"  # as the agent sees it


def ip(*arguments, check=True):
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


class Mainland:
    """The two addresses of the host."""

    def __enter__(self):
        for address in (BROKER, COORDINATOR):
            ip("addr", "replace", f"{address}/32", "dev", "lo")
        return self

    def __exit__(self, *_):
        for address in (BROKER, COORDINATOR):
            ip("addr", "del", f"{address}/32", "dev", "lo", check=False)


class Island:
    def __init__(self, number):
        self.name = f"baton-island-{number}"
        self._number = number
        self.prefix = ("ip", "netns", "exec", self.name)  # of a command that runs there
        self.address = self._there("coordinator")  # at which the host reaches it

    def _host(self, line):
        return f"{NETWORK}.{self._number}.{LINES[line][1] + 1}"

    def _there(self, line):
        return f"{NETWORK}.{self._number}.{LINES[line][1] + 2}"

    def _host_device(self, line):
        return f"baton{self._number}{line[0]}"

    def __enter__(self):
        ip("netns", "del", self.name, check=False)  # of a run that was killed
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")
        for line, (address, _) in LINES.items():
            device = self._host_device(line)
            ip("link", "add", device, "type", "veth", "peer", "name", line, "netns", self.name)
            ip("addr", "add", f"{self._host(line)}/30", "dev", device)
            ip("-n", self.name, "addr", "add", f"{self._there(line)}/30", "dev", line)
            ip("link", "set", device, "up")
            ip("-n", self.name, "link", "set", line, "up")
            ip("-n", self.name, "route", "add", f"{address}/32", "via", self._host(line), "dev", line)
        return self

    def __exit__(self, *_):
        ip("netns", "del", self.name, check=False)  # its lines go with it

    def cut(self, line, direction=BOTH):
        if direction in (OUT, BOTH):
            ip("-n", self.name, "neigh", "replace", self._host(line), "lladdr", NOBODY, "dev", line, "nud", "permanent")
        if direction in (IN, BOTH):
            ip("neigh", "replace", self._there(line), "lladdr", NOBODY, "dev", self._host_device(line), "nud", "permanent")

    def heal(self, line):
        ip("-n", self.name, "neigh", "del", self._host(line), "dev", line, check=False)
        ip("neigh", "del", self._there(line), "dev", self._host_device(line), check=False)
