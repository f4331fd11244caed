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


_reserved = []  # sockets, until this run ends


def free_port():
    """A port on loopback that is this run's alone, below the range of outgoing connections.

    It stays bound: others (runs beside this one) can not choose it, though nobody listens yet, or nobody does between two
    starts. Servers, which all set SO_REUSEADDR, can still listen there.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))  # refused when anybody has it, because it does not say SO_REUSEADDR yet
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.append(holder)
        return port
