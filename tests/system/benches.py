"""Runs a program of tests/bench on a broker that is there."""

import json
import subprocess

from daemons import ROOT


def run(name, broker, limit_s, **numbers):
    """(lines, summary), once it has ended well. `warm_up=1` is --warm-up=1."""
    options = [f"--{option.replace('_', '-')}={value}" for option, value in numbers.items()]
    program = [ROOT / "scripts" / "python.sh", ROOT / "tests" / "bench" / f"{name}.py", *options, f"--kafka={broker.bootstrap}"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stderr
    *lines, summary = map(json.loads, done.stdout.splitlines())
    return lines, summary
