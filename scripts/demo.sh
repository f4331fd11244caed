#!/bin/bash
# `make demo`: scripts/demo.py with the Python packages of the set-up. DEMO_KAFKA=host:port uses that broker.
set -eu
cd "$(dirname "$0")/.."
exec scripts/python.sh scripts/demo.py
