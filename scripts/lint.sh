#!/bin/bash
# Runs all checks that need neither a build nor a broker; `make lint`.
#
# Each check counts as one for test.sh. A check that looks for violations runs its self-test first: a check that finds
# nothing because it is broken must not pass.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/results.sh

passed=0
failed=0
run() { # NAME COMMAND...
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
        printf '  %-34s ok\n' "$name"
    else
        failed=$((failed + 1))
        printf '  %-34s FAILED\n' "$name"
        sed 's/^/    /' <<<"$output"
    fi
}

shell_syntax() {
    local file status=0
    for file in scripts/*.sh .ci/run; do
        bash -n "$file" || status=1
    done
    return $status
}

python_syntax() {
    scripts/python.sh - <<'END'
import ast, pathlib
for path in pathlib.Path("tests").rglob("*.py"):
    ast.parse(path.read_text(), str(path))
END
}

c_layout() {
    local file status=0
    while IFS= read -r -d '' file; do
        [ -e "$file" ] || continue # deleted and not yet committed
        "$CLANG_FORMAT" --dry-run -Werror "$file" >/dev/null 2>&1 || { echo "$file: run make format"; status=1; }
    done < <(git ls-files --cached --others --exclude-standard -z -- '*.c' '*.h')
    return $status
}

run "include direction: self-test" scripts/check-includes.sh --self-test
run "include direction" scripts/check-includes.sh
run "source rules: self-test" scripts/check-source.sh --self-test
run "source rules" scripts/check-source.sh
run "shell syntax" shell_syntax
run "python syntax" python_syntax
CLANG_FORMAT=${CLANG_FORMAT:-clang-format-14}
if command -v "$CLANG_FORMAT" >/dev/null; then
    run "layout of C files" c_layout
else
    echo "  layout of C files                  not checked: no $CLANG_FORMAT here (make format-check installs it)"
fi

result_write lint "$passed" "$failed"
[ "$failed" -eq 0 ]
