#!/bin/bash
# Checks that includes go one way, and that the cores stay pure.
#
# usage: check-includes.sh [FOLDER]     prints file:line: what is wrong; exit 1 when anything is
#        check-includes.sh --self-test  seeds each violation and fails unless it is found
#
#   common <- api <- coordinator      common <- api <- agent      common <- api <- cli      common <- producer
#
# coordinator/core and agent/core know no clock, disk, network, thread or log: they take headers only from the lists below.
# A file is pure when all that it includes is; a header of common or api joins the list when it holds data and plain
# functions only. The link of the cores' unit tests proves the same for what they call.
set -euo pipefail
export LC_ALL=C
script=$(realpath "$0")

PURE_SYSTEM='assert errno inttypes limits math stdarg stdbool stddef stdint stdio stdlib string uthash utlist'
PURE_COMMON='arena err fsm mem rng strbuf utf8 hash/.*'

# Headers of api that bring jansson along, one a line.
private_headers() {
    local known='<jansson.h>' found before=''
    while :; do
        found=$(grep -lF "$known" api/*.h 2>/dev/null || true)
        [ "$found" != "$before" ] || break
        before=$found
        known='<jansson.h>'$(sed '/./s/.*/\n"&"/' <<<"$found")
        known=$(sed '/^$/d' <<<"$known")
    done
    echo "$found"
}

check() { # FOLDER
    cd "$1"
    local folders=() folder files
    for folder in api common coordinator agent cli producer; do
        [ -d "$folder" ] && folders+=("$folder")
    done
    mapfile -t files < <(find "${folders[@]}" -name '*.[ch]' | sort)
    [ ${#files[@]} -gt 0 ] || return 0
    awk -v pure_system="^(${PURE_SYSTEM// /|})\\.h$" -v pure_common="^common/(${PURE_COMMON// /|})\\.h$" \
        -v private_headers="$(private_headers | tr '\n' ' ')" '
    function report(text) {
        print FILENAME ":" FNR ": " text
        found++
    }
    BEGIN {
        allowed["common"] = "^common/"
        allowed["api"] = "^(common|api)/"
        allowed["coordinator"] = "^(common|api|coordinator)/"
        allowed["agent"] = "^(common|api|agent)/"
        allowed["cli"] = "^(common|api|cli)/"
        allowed["producer"] = "^(common|producer)/"
    }
    FNR == 1 {
        split(FILENAME, part, "/")
        room = part[1]
        in_core = part[2] == "core"
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, piece, "\"")
        header = piece[2]
        if (header !~ /\//) report("\"" header "\": include by path from the root of the tree")
        else if (header !~ allowed[room]) report(room "/ must not include \"" header "\"")
        else if (in_core && header ~ ("^" room "/") && header !~ ("^" room "/core/"))
            report("a core must not include \"" header "\": it is of the shell around it")
        else if (in_core && header ~ /^common\// && header !~ pure_common)
            report("a core must not include \"" header "\": not in PURE_COMMON of check-includes.sh")
        else if (in_core && header == "api/codec.h") report("a core must not include \"" header "\"")
        else if (room != "api" && index(" " private_headers, " " header " "))
            report(room "/ must not include \"" header "\": it brings jansson and is private to api")
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
        split($0, piece, /[<>]/)
        header = piece[2]
        if (in_core && header !~ pure_system)
            report("a core must not include <" header ">: not in PURE_SYSTEM of check-includes.sh")
        else if (header == "jansson.h" && room != "api") report("only api/ may include <jansson.h>")
        else if (header == "sqlite3.h" && room != "coordinator") report(room "/ must not include <sqlite3.h>")
        else if (header == "lmdb.h" && room != "agent") report(room "/ must not include <lmdb.h>")
        else if (header ~ /^librdkafka\// && room !~ /^(coordinator|agent|producer)$/)
            report(room "/ must not include <" header ">")
    }
    END { exit found > 0 }' "${files[@]}"
}

# ---- self-test ----------------------------------------------------------------------------------

seed() { # FILE HEADER EXPECTED-MESSAGE ('' for none); api/deep.h brings jansson through api/raw.h
    local tree output
    tree=$(mktemp -d)
    mkdir -p "$tree/$(dirname "$1")" "$tree/api"
    echo '#include <jansson.h>' >"$tree/api/raw.h"
    echo '#include "api/raw.h"' >"$tree/api/deep.h"
    printf '/* x */\n#include %s\n' "$2" >"$tree/$1"
    output=$("$script" "$tree") || true
    rm -rf "$tree"
    if { [ -n "$3" ] && [[ $output != *"$1:2: "*"$3"* ]]; } || { [ -z "$3" ] && [ -n "$output" ]; }; then
        echo "check-includes: self-test: #include $2 in $1: expected '${3:-nothing}', got: ${output:-nothing}" >&2
        failures=$((failures + 1))
    fi
}

self_test() {
    failures=0
    local room
    for room in api coordinator agent cli producer; do
        seed common/x.c "\"$room/y.h\"" "common/ must not include"
        seed "$room/x.c" '"common/err.h"' ''
    done
    for room in coordinator agent cli producer; do
        seed api/x.h "\"$room/y.h\"" "api/ must not include"
    done
    seed coordinator/x.c '"agent/y.h"' 'coordinator/ must not include'
    seed agent/core/x.c '"coordinator/core/y.h"' 'agent/ must not include'
    seed producer/x.c '"api/y.h"' 'producer/ must not include'
    seed agent/x.c '"agent/core/y.h"' ''
    seed agent/x.c '"y.h"' 'by path from the root'
    seed agent/core/x.c '"agent/y.h"' 'of the shell around it'
    seed coordinator/core/x.h '"common/clock.h"' 'PURE_COMMON'
    seed coordinator/core/x.h '"common/hash/linhash.h"' ''
    seed agent/core/x.c '"common/errand.h"' 'PURE_COMMON'
    seed agent/core/x.c '"api/codec.h"' 'must not include'
    seed agent/core/x.c '"api/types.h"' ''
    for room in pthread.h time.h unistd.h sys/time.h sys/socket.h fcntl.h signal.h jansson.h lmdb.h; do
        seed agent/core/x.c "<$room>" 'PURE_SYSTEM'
        seed coordinator/core/x.c "  <$room>" 'PURE_SYSTEM'
    done
    seed agent/core/x.c '<string.h>' ''
    seed api/x.c '<jansson.h>' ''
    seed api/x.h '<jansson.h>' ''
    seed api/x.h '"api/deep.h"' ''
    seed agent/x.c '"api/raw.h"' 'private to api'
    seed agent/core/x.c '"api/deep.h"' 'private to api'
    seed agent/x.c '"api/codec.h"' ''
    seed coordinator/x.c '<jansson.h>' 'only api/'
    seed agent/x.c '<sqlite3.h>' 'must not include <sqlite3.h>'
    seed coordinator/x.c '<lmdb.h>' 'must not include <lmdb.h>'
    seed common/x.c '<librdkafka/rdkafka.h>' 'must not include <librdkafka'
    seed coordinator/x.c '<librdkafka/rdkafka.h>' ''
    [ "$failures" -eq 0 ]
}

case ${1:-} in
--self-test) self_test ;;
*) check "${1:-$(dirname "$script")/..}" ;;
esac
