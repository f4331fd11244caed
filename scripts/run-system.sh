#!/bin/bash
# Runs the tests of one folder on a real broker.
#
# usage: run-system.sh SUITE [WORD]
#   SUITE   system, soak or bench: the folder of tests/; or tsan: the system tests on the binaries of $BATON_BUILD
#   WORD    only tests whose names hold it (pytest's -k, so "handoff and not soak" works as well)
#
# Tests wait more than they work, so one more than the machine has processors run at a time, each of those workers with a
# broker of its own (long runs, which work more: as many as processors). BATON_WORKERS=1 runs them one after another. Benches
# are always alone.
#
# Each run has a folder of its own under build/, kept when a test failed: logs, states, the broker's data. The figures that
# the tests measured are in build/SUITE/summary.json, with the commit.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/sanitizer-env.sh

suite=$1
word=${2:-}
folder=tests/$suite
[ "$suite" = tsan ] && folder=tests/system
if [ ! -d "$folder" ]; then
    echo "$suite: there is no $folder" >&2
    exit 1
fi

mkdir -p "build/$suite"
find "build/$suite" -maxdepth 1 -name 'run-*' -mmin +1440 -exec rm -rf {} + # what failed a day ago
run=$(mktemp -d "$PWD/build/$suite/run-XXXXXX")
arguments=("$folder" -c tests/pytest.ini --rootdir tests --basetemp "$run/tmp" --color=no)
case $suite in
system) arguments+=(-n "${BATON_WORKERS:-$(($(nproc) + 1))}" --dist worksteal) ;;
soak) arguments+=(-n "${BATON_WORKERS:-$(nproc)}" --dist worksteal -v) ;; # long runs show how far they are
*) arguments+=(-s) ;;
esac
[ -n "$word" ] && arguments+=(-k "$word")
BATON_SUITE=$suite scripts/python.sh -m pytest "${arguments[@]}" </dev/null
status=$?
if [ "$status" -eq 0 ]; then
    rm -rf "$run"
elif [ "$status" -eq 5 ]; then
    rm -rf "$run"
    echo "$suite: no test's name holds '$word'" >&2
else
    echo "$suite: logs and states of failed tests are in $run"
fi
exit "$status"
