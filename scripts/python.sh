#!/bin/bash
# Runs Python with the tests' packages. usage: python.sh ARGUMENT... (from any folder)
set -eu
root=$(dirname "$(dirname "$(realpath "$0")")")
venv=$(cd "$root" && . scripts/env.sh && venv_path)
if [ ! -e "$venv/complete" ]; then
    echo "python.sh: the Python packages are not installed: run make setup" >&2
    exit 1
fi
exec "$venv/bin/python" "$@"
