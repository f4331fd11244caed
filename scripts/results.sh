# Sourced by the runners of test suites: how a suite leaves its counts for test.sh.
#
# build/results/SUITE holds one line "passed failed". A missing file means that the suite never got so far.

RESULTS=${BATON_RESULTS:-build/results}

result_write() { # SUITE PASSED FAILED
    mkdir -p "$RESULTS"
    echo "$2 $3" >"$RESULTS/$1"
}
