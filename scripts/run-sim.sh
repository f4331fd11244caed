#!/bin/bash
# Runs the simulator and notes its counts: its last line `N passed, N failed` when it prints one, else its exit code.
#
# usage: run-sim.sh SUITE BINARY [ARGUMENT...]
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/results.sh

suite=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
read -r passed failed <<<"$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -1)"
if [ -z "${passed:-}" ]; then
    passed=$((status == 0)) failed=$((status != 0))
elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    failed=1
fi
result_write "$suite" "$passed" "$failed"
[ "$failed" -eq 0 ]
