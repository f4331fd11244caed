#!/bin/bash
# Installs what this machine lacks to build and test baton. Made for Debian 12; elsewhere it says what is missing.
#
# usage: setup.sh GROUP...
#   build    compiler, libraries and headers, Criterion
#   test     kafka, python and java: all that the system tests need
#   kafka    a JRE and the broker's jars
#   python   the tests' Python packages, in a venv
#   java     a JDK and the broker's jars, Kafka's client among them: for the producers' Java class
#   format, tidy, cover, model   the tools of those targets
#
# What is there is found by what it can do (pkg-config, a program on the PATH, a header), so libraries of your own count.
# Prints one line and changes nothing when all is there. Needs root or sudo only when apt has work to do.
# Downloads go to a folder outside the clone (env.sh); they are built aside and named at the end, under a lock, so that an
# interrupted or a second set-up does no harm.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

say() {
    echo "setup: $*"
}
fail() {
    echo "setup: $*" >&2
    exit 1
}

# ---- Debian packages ----------------------------------------------------------------------------

packages=() # to be installed

need() { # PACKAGE... : the check that failed
    packages+=("$@")
}
need_program() { # PROGRAM PACKAGE
    command -v "$1" >/dev/null || need "$2"
}
need_library() { # PKG-CONFIG-NAME PACKAGE
    pkg-config --exists "$1" 2>/dev/null || need "$2"
}
header_exists() {
    echo "#include <$1>" | ${CC:-gcc} -E -x c - >/dev/null 2>&1
}

check_build() {
    need_program gcc gcc
    need_program make make
    need_program ar binutils
    need_program cmp diffutils
    need_program pkg-config pkg-config
    # Headers of the C library come with no program; all else is asked of pkg-config in one call.
    if ! command -v pkg-config >/dev/null ||
        ! pkg-config --exists 'rdkafka >= 2.0.2' libmicrohttpd jansson 'sqlite3 >= 3.37' lmdb libxxhash libcurl zlib \
            criterion; then
        need_library 'rdkafka >= 2.0.2' librdkafka-dev
        need_library libmicrohttpd libmicrohttpd-dev
        need_library jansson libjansson-dev
        need_library 'sqlite3 >= 3.37' libsqlite3-dev
        need_library lmdb liblmdb-dev
        need_library libxxhash libxxhash-dev
        need_library libcurl libcurl4-openssl-dev
        need_library zlib zlib1g-dev
        need_library criterion libcriterion-dev
    fi
    header_exists stdlib.h || need libc6-dev
    header_exists uthash.h || need uthash-dev
}

# Kafka 4 needs Java 17. The release file beside the JRE tells the version without starting a JVM.
java_is_recent() {
    local java home version
    java=$(command -v java) || return 1
    home=$(dirname "$(dirname "$(readlink -f "$java")")")
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release" 2>/dev/null || true)
    [ -n "$version" ] || version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ]
}

check_kafka() {
    java_is_recent || need default-jre-headless
    [ -d "$KAFKA_LIBS" ] || need_program mvn maven
}

check_java() {
    need_program javac default-jdk-headless
    check_kafka
}

check_python() {
    need_program sqlite3 sqlite3
    need_program ip iproute2
    need_program openssl openssl
    command -v "$PYTHON" >/dev/null || { need python3 python3-venv; return; }
    [ -e "$(venv_path)/complete" ] || "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
}

install_packages() {
    local run=() list=${packages[*]}
    command -v apt-get >/dev/null ||
        fail "this machine lacks $list (names of Debian packages) and has no apt-get: install them with its own tools"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            fail "this machine lacks some packages; as root, run: apt-get update && apt-get install $list"
        run=(sudo)
    fi
    say "installing with apt-get: $list"
    local log
    log=$(mktemp)
    if ! { "${run[@]}" apt-get -q -o DPkg::Lock::Timeout=600 update &&
        "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
            install --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        fail "apt-get failed, see above"
    fi
    rm -f "$log"
}

# ---- downloads ----------------------------------------------------------------------------------

# One set-up at a time: the second waits, then finds the work done.
lock_cache() {
    mkdir -p "$CACHE" || fail "cannot create $CACHE (BATON_CACHE names another folder)"
    exec 9>"$CACHE/lock"
    flock -n 9 || { say "waiting for another set-up on this machine"; flock 9; }
}

fetch_kafka() {
    [ -d "$KAFKA_LIBS" ] && return
    lock_cache
    if [ ! -d "$KAFKA_LIBS" ]; then
        say "fetching Kafka $KAFKA_VERSION from Maven Central into $(dirname "$KAFKA_LIBS")"
        local part=$CACHE/kafka-$KAFKA_VERSION.part
        rm -rf "$part"
        mvn -q -B -ntp -f scripts/kafka-pom.xml dependency:copy-dependencies -DoutputDirectory="$part/libs" \
            >"$CACHE/maven.log" 2>&1 </dev/null ||
            { tail -40 "$CACHE/maven.log" >&2; fail "Maven failed; its whole output is in $CACHE/maven.log"; }
        [ -e "$part/libs/kafka_2.13-$KAFKA_VERSION.jar" ] || fail "Maven copied no broker into $part/libs"
        mv "$part" "$(dirname "$KAFKA_LIBS")"
    fi
    exec 9>&-
}

# A venv holds its own path, so it is made in place and counts from the moment `complete` is there.
fetch_python() {
    local venv
    venv=$(venv_path)
    [ -e "$venv/complete" ] && return
    lock_cache
    if [ ! -e "$venv/complete" ]; then
        say "installing the Python packages of tests/requirements.txt into $venv"
        rm -rf "$venv"
        { "$PYTHON" -m venv "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check \
            --only-binary :all: -r tests/requirements.txt; } >"$CACHE/pip.log" 2>&1 </dev/null ||
            { tail -40 "$CACHE/pip.log" >&2; fail "pip failed; its whole output is in $CACHE/pip.log"; }
        touch "$venv/complete"
    fi
    exec 9>&-
}

# ---- main ---------------------------------------------------------------------------------------

[ $# -gt 0 ] || fail "usage: setup.sh build|test|kafka|python|java|format|tidy|cover|model ..."
groups=()
for group in "$@"; do
    case $group in
    test) groups+=(kafka python java) ;;
    build | kafka | python | java | format | tidy | cover | model) groups+=("$group") ;;
    *) fail "unknown group '$group': use build, test, kafka, python, java, format, tidy, cover or model" ;;
    esac
done

for group in "${groups[@]}"; do
    case $group in
    build) check_build ;;
    kafka) check_kafka ;;
    python) check_python ;;
    java) check_java ;;
    format) need_program "${CLANG_FORMAT:-clang-format-14}" clang-format-14 ;;
    tidy) need_program "${CLANG_TIDY:-clang-tidy-14}" clang-tidy-14 ;;
    cover) need_program gcovr gcovr ;;
    model) need_program spin spin ;;
    esac
done
changed=no
if [ ${#packages[@]} -gt 0 ]; then
    install_packages
    changed=yes
fi
for group in "${groups[@]}"; do
    case $group in
    kafka | java) [ -d "$KAFKA_LIBS" ] || { fetch_kafka; changed=yes; } ;;
    python) [ -e "$(venv_path)/complete" ] || { fetch_python; changed=yes; } ;;
    esac
done
if [ "$changed" = yes ]; then
    say "done"
else
    say "nothing missing for $*"
fi
