# Sourced by the scripts, from the root of the tree: where things that are downloaded live, and their versions.
#
# Downloads are kept outside the clone, so that a second clone downloads nothing:
#   ${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}/
#     kafka-<version>/libs/   the broker's jars, from Maven Central
#     venv-<hash>/            Python packages of tests/requirements.txt; another list or interpreter is another folder

KAFKA_VERSION=$(sed -n 's/.*<kafka.version>\(.*\)<\/kafka.version>.*/\1/p' scripts/kafka-pom.xml)
CACHE=${BATON_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/baton}
KAFKA_LIBS=$CACHE/kafka-$KAFKA_VERSION/libs
PYTHON=${BATON_PYTHON:-python3}

# The interpreter's real path tells 3.11 of Debian from 3.11 of pyenv: a venv of one is of no use to the other.
venv_path() {
    local identity
    identity=$("$PYTHON" -c 'import os, sys; print(os.path.realpath(sys.executable), sys.version)' 2>/dev/null)
    echo "$CACHE/venv-$({ echo "$identity"; cat tests/requirements.txt; } | sha256sum | cut -c1-16)"
}
