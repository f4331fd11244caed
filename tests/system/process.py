"""Child processes of the harness: none outlives the test run, and nothing that the harness did not start is touched."""

import ctypes
import os
import random
import signal
import socket
import subprocess

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

started = []  # every Popen of this run; conftest checks at the end that all have ended
_given_ports = set()


def _die_with_parent():
    """Runs in the child: the kernel kills it when the test run dies, even by kill -9.

    The signal is tied to the *thread* that started the child, so children are started from the main thread only.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(arguments, log_path, environment=None, directory=None, stdin=subprocess.DEVNULL):
    """Starts a child with both outputs appended to `log_path`; `stdin` is as Popen's."""
    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=stdin,
            stdout=log,
            stderr=log,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            preexec_fn=_die_with_parent,
        )
    started.append(child)
    return child


def end(child, limit_s=10):
    """Ends a child for good, whatever its state; fine when it has ended already."""
    if child.poll() is None:
        child.send_signal(signal.SIGCONT)  # a stopped process does not see SIGTERM
        child.terminate()
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return child.returncode


def free_port():
    """A port on loopback below the range of outgoing connections, so that it can be taken again after a restart.

    It is used later, and looks free until then: no two calls give the same one, nor do two workers of one run.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = random.SystemRandom().randrange(20000 + worker % workers, 32000, workers)
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port
