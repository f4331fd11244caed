#!/bin/bash
# Runs the programs tests/tsan/race_*.c, built with ThreadSanitizer, each with a folder for its data.
#
# usage: run-races.sh FOLDER     the folder of the binaries; exit 1 when one fails or the sanitizer reports a race
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/sanitizer-env.sh

status=0
for program in "$1"/race_*; do
    [ -x "$program" ] || continue
    data=$(mktemp -d)
    echo "== $(basename "$program")"
    "$program" "$data" </dev/null || status=1
    rm -rf "$data"
done
exit "$status"
