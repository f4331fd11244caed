#!/bin/bash
# Runs Criterion test binaries one after another and adds up what they report.
#
# usage: run-unit.sh SUITE BINARY...
#
# Never stops at the first failure. The sum goes to build/results/SUITE, where test.sh reads it. A binary that reports
# nothing (it was not built, crashed before its first test, or holds no test) counts as one failure.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/results.sh
. scripts/sanitizer-env.sh

suite=$1
shift

# Criterion 2.4.1 now and then loses 48 bytes of its own. A suppression would not do: its frames are below every test, so it
# would hide our leaks as well. True when each leak that is reported was allocated by that library and nobody else.
only_criterion_leaks() { # LOG
    grep -q 'ERROR: LeakSanitizer' "$1" && ! grep -qE 'ERROR: AddressSanitizer|runtime error:' "$1" &&
        awk '/(Direct|Indirect) leak of/ { leak = 1; next }
             leak && /^ *$/ { leak = 0 }
             leak && /#0 / { next }
             leak && /#[0-9]+ / && !/libcriterion\.so/ { ours = 1 }
             END { exit ours }' "$1"
}

passed=0
failed=0
for binary in "$@"; do
    log=$(mktemp)
    "$binary" --timeout 120 --color=never >"$log" 2>&1
    status=$?
    line=$(grep -o 'Tested: [0-9]* | Passing: [0-9]* | Failing: [0-9]* | Crashing: [0-9]*' "$log" | tail -1)
    read -r tested ok bad <<<"$(awk '{ print $2 + 0, $5 + 0, $8 + $11 }' <<<"$line")"
    if [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ] && ! only_criterion_leaks "$log"; then
        bad=1
    elif [ "${tested:-0}" -eq 0 ]; then
        echo "$binary: ran no test" >>"$log"
        bad=1
    fi
    printf '  %-24s %4d passed, %d failed\n' "$(basename "$binary")" "${ok:-0}" "$bad"
    [ "$bad" -eq 0 ] || sed 's/^/    /' "$log"
    rm -f "$log"
    passed=$((passed + ${ok:-0}))
    failed=$((failed + bad))
done

result_write "$suite" "$passed" "$failed"
[ "$failed" -eq 0 ]
