#!/bin/bash
# Checks the rules of CONTRIBUTING.md that a compiler does not know, on all C files.
#
# usage: check-source.sh [FOLDER]     prints file:line: what is wrong; exit 1 when anything is
#        check-source.sh --self-test  seeds each violation and fails unless it is found
#
# A line that needs an exception says so with its reason: /* allow(sleep): why it can not be done otherwise */
# on the line itself or the one before.
set -euo pipefail
export LC_ALL=C
script=$(realpath "$0")

FUNCTION_LINES_MAX=70
COLUMNS_MAX=100
FILE_LINES_MAX=600

check() { # FOLDER
    cd "$1"
    local folders=() folder files
    for folder in api common coordinator agent cli producer examples tests; do
        [ -d "$folder" ] && folders+=("$folder")
    done
    mapfile -t files < <(find "${folders[@]}" -name '*.[ch]' | sort)
    [ ${#files[@]} -gt 0 ] || return 0
    awk -v function_max=$FUNCTION_LINES_MAX -v columns_max=$COLUMNS_MAX -v file_max=$FILE_LINES_MAX '
    function report(text) {
        print FILENAME ":" FNR ": " text
        found++
    }

    # The code of a line: comments become blanks, string and character constants become "". Keeps in_comment over lines.
    function code_of(line,    out, i, c, two, quote) {
        out = ""
        quote = ""
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            two = substr(line, i, 2)
            if (in_comment) {
                if (two == "*/") { in_comment = 0; i++ }
            } else if (quote != "") {
                if (c == "\\") i++
                else if (c == quote) { quote = ""; out = out c }
            } else if (two == "/*") { in_comment = 1; i++; out = out " " }
            else if (two == "//") { line_comment = 1; break }
            else if (c == "\"" || c == "\047") { quote = c; out = out c }
            else out = out c
        }
        return out
    }

    function ban(name, instead) {
        if (code ~ ("(^|[^A-Za-z0-9_.>])" name "[ ]*\\(") && index(allowed, "allow(" name ")") == 0)
            report(name "() is banned: " instead)
    }

    function check_calls() {
        ban("strcpy", "strbuf.h, or memcpy with a checked length")
        ban("strcat", "strbuf.h")
        ban("strncpy", "strbuf.h, or memcpy with a checked length")
        ban("strncat", "strbuf.h")
        ban("sprintf", "snprintf or strbuf.h")
        ban("vsprintf", "vsnprintf or strbuf.h")
        ban("gets", "fgets")
        ban("strtok", "strchr or strspn")
        ban("atoi", "strtol with its checks")
        ban("atol", "strtol with its checks")
        ban("atoll", "strtoll with its checks")
        ban("atof", "strtod with its checks")
        ban("alloca", "the heap, after a limit")
        ban("system", "posix_spawn")
        ban("popen", "posix_spawn")
        ban("sleep", "wait for the event, with a deadline")
        ban("usleep", "wait for the event, with a deadline")
        ban("nanosleep", "wait for the event, with a deadline")
        ban("clock_nanosleep", "wait for the event, with a deadline")
        if (is_core && code ~ /(^|[^A-Za-z0-9_])(v?f?printf|v?dprintf|f?puts|f?putc|putchar|f(open|close|read|write|flush|gets|scanf)|perror|remove|rename|tmpfile|getenv|rand|abort)[ ]*\(/)
            report("a core does no I/O and takes nothing from its surroundings")
        if (is_test || is_example) return
        if (FILENAME !~ /\/main\.c$/) {
            ban("exit", "return an error; only main ends the process")
            ban("_exit", "return an error; only main ends the process")
        }
        if (FILENAME != "common/mem.c") {
            ban("malloc", "mem.h")
            ban("calloc", "mem.h")
            ban("realloc", "mem.h")
            ban("reallocarray", "mem.h")
            ban("strdup", "mem.h")
            ban("strndup", "mem.h")
            ban("asprintf", "mem.h")
            ban("vasprintf", "mem.h")
        }
    }

    # A function starts with a brace in the first column and ends with one (the layout of .clang-format).
    function check_function() {
        if (code ~ /^\{/) { function_start = FNR; is_function = previous_code !~ /[=;]$/ }
        else if (code ~ /^\}/ && function_start) {
            if (is_function && FNR - function_start + 1 > function_max)
                report("function of " (FNR - function_start + 1) " lines, at most " function_max)
            function_start = 0
        }
    }

    function guard_of(path) {
        if (path == "api/processor.h") return "BATON_PROCESSOR_H" # installed as <baton/processor.h>
        if (path == "producer/partitioner.h") return "BATON_PARTITIONER_H" # the same
        gsub(/[^A-Za-z0-9]/, "_", path)
        return "BATON_" toupper(path)
    }

    function finish_file() {
        if (file == "") return
        if (lines > file_max) print file ":" lines ": file of " lines " lines, at most " file_max
        if (lines > file_max) found++
        if (file ~ /\.h$/ && !guarded) { print file ":1: include guard " guard_of(file) " is missing"; found++ }
    }

    FNR == 1 {
        finish_file()
        file = FILENAME
        in_comment = function_start = guarded = 0
        is_test = FILENAME ~ /^tests\//
        is_core = FILENAME ~ /^(coordinator|agent)\/core\//
        is_example = FILENAME ~ /^examples\//
        previous = previous_code = ""
    }

    {
        lines = FNR
        columns = $0
        gsub(/[\200-\277]/, "", columns) # continuation bytes of UTF-8
        if (length(columns) > columns_max) report("line of " length(columns) " columns, at most " columns_max)
        if ($0 ~ /\t/) report("tab")
        if ($0 ~ /\r/) report("carriage return")
        if ($0 ~ /[ \t]$/) report("blanks at the end")
        if ($0 ~ /(TODO|FIXME|(^|[^X])XXX([^X]|$))/) report("a note to oneself: do it, or write it down as an open question")
        allowed = previous $0
        line_comment = 0
        code = code_of($0)
        if (line_comment) report("// comment: use /* */")
        if (code ~ /^#ifndef / && ($2 == guard_of(FILENAME) || (is_test && $2 ~ /^BATON_TESTS?_.*_H$/))) guarded = 1
        if (code ~ /(^|[^A-Za-z0-9_])typedef (struct|enum|union)([^A-Za-z0-9_]|$)/)
            report("typedef of a struct, enum or union: use its tag")
        check_calls()
        check_function()
        previous = $0
        if (code ~ /[^ ]/) { previous_code = code; sub(/ +$/, "", previous_code) }
    }

    END {
        finish_file()
        exit found > 0
    }' "${files[@]}"
}

# ---- self-test ----------------------------------------------------------------------------------

seed() { # FILE TEXT EXPECTED-MESSAGE: a tree with only this file must give exactly this one finding ('' for none)
    local tree output
    tree=$(mktemp -d)
    mkdir -p "$tree/$(dirname "$1")"
    printf '%b' "$2" >"$tree/$1"
    output=$("$script" "$tree") || true
    rm -rf "$tree"
    if [ -n "$3" ] && ! { [[ $output == *"$3"* ]] && [ "$(wc -l <<<"$output")" -eq 1 ]; }; then
        echo "check-source: self-test: expected one finding '$3' in $1, got: ${output:-none}" >&2
        failures=$((failures + 1))
    elif [ -z "$3" ] && [ -n "$output" ]; then
        echo "check-source: self-test: expected no finding in $1, got: $output" >&2
        failures=$((failures + 1))
    fi
}

many() { # COUNT LINE
    local i
    for ((i = 0; i < $1; i++)); do printf '%s' "$2"; done
}

self_test() {
    failures=0
    local name guard='#ifndef BATON_COMMON_X_H\n#define BATON_COMMON_X_H\n'
    for name in strcpy strcat strncpy strncat sprintf vsprintf gets strtok atoi atol atoll atof alloca system popen sleep \
        usleep nanosleep clock_nanosleep exit _exit malloc calloc realloc reallocarray strdup strndup asprintf vasprintf; do
        seed common/x.c "void f(void)\n{\n    $name(a);\n}\n" "$name() is banned"
        seed common/x.c "/* $name(a) */\nconst char *s = \"$name(\\\\\"a)\";\nint x_$name(int), y;\n" ''
        seed common/x.c "void f(void)\n{\n    /* allow($name): seeded */\n    $name(a);\n}\n" ''
    done
    for name in printf fprintf vfprintf dprintf puts fputs fopen fwrite perror getenv rand; do
        seed agent/core/x.c "void f(void)\n{\n    $name(a);\n}\n" 'a core does no I/O'
        seed agent/x.c "void f(void)\n{\n    $name(a);\n}\n" ''
    done
    seed agent/core/x.c 'void f(void)\n{\n    snprintf(a, 1, "b");\n    task_remove(a);\n}\n' ''
    seed common/mem.c 'void *f(void)\n{\n    return malloc(1);\n}\n' ''
    seed agent/main.c 'int main(void)\n{\n    exit(1);\n}\n' ''
    seed tests/unit/common/test_x.c 'void f(void)\n{\n    free(malloc(1));\n}\n' ''
    seed common/x.c "void f(void)\n{\n$(many 68 '    a();\n')}\n" ''
    seed common/x.c "void f(void)\n{\n$(many 69 '    a();\n')}\n" 'function of 71 lines'
    seed common/x.c "static const int table[] = {\n$(many 80 '    1,\n')};\n" ''
    seed common/x.c "/* $(many 97 x)\n */\n" ''
    seed common/x.c "/* $(many 98 x)\n */\n" 'line of 101 columns'
    seed common/x.c "/* $(many 97 '\xc3\xa4')\n */\n" ''
    seed common/x.c "$(many 600 'int a;\n')" ''
    seed common/x.c "$(many 601 'int a;\n')" 'file of 601 lines'
    seed common/x.c '\tint a;\n' 'tab'
    seed common/x.c 'int a; \n' 'blanks at the end'
    seed common/x.c 'int a;\r\n' 'carriage return'
    seed common/x.c 'int a; // note\n' '// comment'
    seed common/x.c 'const char *a = "http://x"; /* see http://x */\n' ''
    seed common/x.c '/* TODO later */\n' 'note to oneself'
    seed common/x.c 'const char *a = "/tmp/x-XXXXXX";\n' ''
    seed common/x.h "${guard}#endif\n" ''
    seed common/x.h 'int a;\n' 'include guard BATON_COMMON_X_H is missing'
    seed common/x.h '#ifndef BATON_Y_H\n#define BATON_Y_H\n#endif\n' 'include guard BATON_COMMON_X_H is missing'
    seed tests/x/y.h '#ifndef BATON_TESTS_Y_H\n#define BATON_TESTS_Y_H\n#endif\n' ''
    seed common/x.h "${guard}typedef struct x x;\n#endif\n" 'typedef of a struct'
    seed common/x.h "${guard}typedef int (*x_fn)(struct x *x);\n#endif\n" ''
    [ "$failures" -eq 0 ]
}

case ${1:-} in
--self-test) self_test ;;
*) check "${1:-$(dirname "$script")/..}" ;;
esac
