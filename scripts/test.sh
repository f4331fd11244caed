#!/bin/bash
# `make test`: sets up, builds, and runs every suite; never stops at the first that fails.
#
# The last lines are the time and the counts of each suite, and the sum: `N passed, N failed`. Exit code 0 only when all
# passed. A suite that ends badly without a counted failure (a build that breaks) counts as one.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/results.sh

jobs=$(nproc)
rm -rf "$RESULTS"
mkdir -p "$RESULTS"
names=()
seconds=()
statuses=()
passed=()
failed=()

# The counts of a suite are the sum of the result files that it wrote.
suite() { # NAME COMMAND...
    local name=$1 began=$SECONDS status ok=0 bad=0 file a b
    shift
    echo
    echo "==== $name"
    "$@" </dev/null
    status=$?
    for file in "$RESULTS"/*; do
        [ -f "$file" ] || continue
        read -r a b <"$file"
        ok=$((ok + a)) bad=$((bad + b))
    done
    rm -f "$RESULTS"/*
    [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    names+=("$name")
    seconds+=($((SECONDS - began)))
    statuses+=("$status")
    passed+=("$ok")
    failed+=("$bad")
}

suite setup scripts/setup.sh build test
suite build make -j"$jobs" all hooks tools producer-java
suite lint make lint
suite check make -j"$jobs" check
suite asan make -j"$jobs" asan
suite system scripts/run-system.sh system

echo
echo "==== summary"
all_passed=0
all_failed=0
for i in "${!names[@]}"; do
    printf '%-8s %5d passed %4d failed %6d s\n' "${names[i]}" "${passed[i]}" "${failed[i]}" "${seconds[i]}"
    all_passed=$((all_passed + passed[i]))
    all_failed=$((all_failed + failed[i]))
done
printf 'all suites took %d min %02d s\n' $((SECONDS / 60)) $((SECONDS % 60))
echo "$all_passed passed, $all_failed failed"
[ "$all_failed" -eq 0 ]
