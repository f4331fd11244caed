#!/bin/bash
# Runs the measurements: the programs of build/bench one by one, each with a folder for its data, then those of tests/bench on
# a real broker. Figures depend on the machine; compare ratios.
#
# usage: run-bench.sh [WORD]     only those whose names hold the word
set -u
cd "$(dirname "$0")/.." || exit 1

word=${1:-}
status=0
for program in build/bench/bench_*; do
    [[ -x $program && $program == *"$word"* ]] || continue
    data=$(mktemp -d build/bench/data-XXXXXX)
    echo "== $(basename "$program")"
    "$program" "$data" </dev/null || status=1
    rm -rf "$data"
done
for program in tests/bench/bench_*.py; do
    [[ $program == *"$word"* ]] || continue
    echo "== $(basename "$program" .py)"
    scripts/python.sh "$program" </dev/null || status=1
done
if compgen -G 'tests/bench/test_*.py' >/dev/null; then
    scripts/run-system.sh bench "$word" || status=1
fi
exit "$status"
