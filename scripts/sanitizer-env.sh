# Sourced by the runners: how binaries built with a sanitizer behave. Without one these variables mean nothing.

export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$PWD/scripts/lsan.supp:print_suppressions=0:${LSAN_OPTIONS:-}"
# Debian's libraries are not instrumented: what they lock is invisible, so their own accesses are left out.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1:suppressions=$PWD/scripts/tsan.supp:${TSAN_OPTIONS:-}"
