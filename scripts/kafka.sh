#!/bin/bash
# A real one-node Kafka (KRaft) on loopback, for tests and the demo.
#
# usage: kafka.sh up [NAME=VALUE ...]       start it and wait until it serves; prints its address
#        kafka.sh down                      end it; the data stay
#        kafka.sh status                    prints the address and the pid, exit 1 when it is not running
#        kafka.sh address                   prints the address alone, of a broker that is prepared
#        kafka.sh topic NAME PARTITIONS     create a topic, unless it is there
#        kafka.sh prepare [NAME=VALUE ...]  write the settings and format the disk, start nothing
#        kafka.sh run                       be the broker (exec), as prepared: for harnesses that own the process
#
# NAME=VALUE are broker settings, over the ones below; they count when the folder is prepared for the first time.
#   KAFKA_DIR    its folder: settings, log, data (default build/kafka). Another folder is another broker.
#   KAFKA_PORT   its port (default: a free one, chosen when prepared and kept)
#   KAFKA_HEAP   of the JVM (default 1g)
#   KAFKA_SCRAM  a user who is known from the start, as StorageTool's --add-scram takes one (default: none)
#   KAFKA_CLUSTER_ID  of its cluster, 22 characters of base64 (default: a new one)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

DIR=${KAFKA_DIR:-build/kafka}
PROPERTIES=$DIR/server.properties
LOG=$DIR/kafka.log
PID_FILE=$DIR/pid
READY_SECONDS=60
STOP_SECONDS=30

fail() {
    echo "kafka: $*" >&2
    exit 1
}

# The pid of our broker. A pid file outlives its process and pids are used again, so the process must name our settings.
running_pid() {
    local pid arguments
    pid=$(cat "$PID_FILE" 2>/dev/null) || return 1
    [ -r "/proc/$pid/cmdline" ] || return 1
    arguments=$(tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null) || return 1
    grep -qxF "$(realpath "$PROPERTIES")" <<<"$arguments" || return 1
    echo "$pid"
}

address() {
    sed -n 's/^advertised.listeners=PLAINTEXT:\/\/\([^,]*\).*/\1/p' "$PROPERTIES"
}

answers() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Below the range that the kernel gives to outgoing connections, so that no client takes it meanwhile.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        answers "$port" || { echo "$port"; return; }
    done
    fail "found no free port between 20000 and 32000"
}

java_run() { # JVM options and arguments
    exec java -Xms256m "-Xmx${KAFKA_HEAP:-1g}" -XX:+UseG1GC -Djava.awt.headless=true \
        -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat='HH:mm:ss.SSS' \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=info -cp "$KAFKA_LIBS/*" "$@"
}

write_properties() { # [NAME=VALUE ...]
    local port controller
    port=${KAFKA_PORT:-$(free_port)}
    controller=$(free_port)
    while [ "$controller" = "$port" ]; do controller=$(free_port); done
    # The broker takes the last of two lines with one name, so the caller's settings come last.
    cat <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$(realpath "$DIR")/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
min.insync.replicas=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
END
    [ $# -eq 0 ] || printf '%s\n' "$@"
}

prepare() { # [NAME=VALUE ...]
    command -v java >/dev/null || fail "no java here: run scripts/setup.sh kafka"
    [ -d "$KAFKA_LIBS" ] || fail "no broker in $KAFKA_LIBS: run scripts/setup.sh kafka"
    [ -e "$DIR/prepared" ] && return
    mkdir -p "$DIR/data"
    write_properties "$@" >"$PROPERTIES"
    local id=${KAFKA_CLUSTER_ID:-}
    if [ -z "$id" ]; then
        id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
        id=B${id:1} # a leading dash would be taken for an option
    fi
    (java_run -XX:TieredStopAtLevel=1 kafka.tools.StorageTool format --ignore-formatted --cluster-id "$id" \
        ${KAFKA_SCRAM:+--add-scram "$KAFKA_SCRAM"} \
        --config "$(realpath "$PROPERTIES")") >"$LOG" 2>&1 ||
        { tail -20 "$LOG" >&2; fail "formatting $DIR/data failed"; }
    touch "$DIR/prepared"
}

run() {
    [ -e "$DIR/prepared" ] || fail "$DIR is not prepared"
    java_run kafka.Kafka "$(realpath "$PROPERTIES")"
}

wait_until_ready() { # PID
    local pid=$1 deadline=$((SECONDS + READY_SECONDS))
    until grep -q 'Kafka Server started' "$LOG" && answers "$(address | sed 's/.*://')"; do
        if ! kill -0 "$pid" 2>/dev/null; then
            tail -20 "$LOG" >&2
            fail "the broker ended while starting, see $LOG"
        fi
        if [ "$SECONDS" -ge "$deadline" ]; then
            kill -KILL "$pid" 2>/dev/null
            fail "the broker was not ready within $READY_SECONDS s, see $LOG"
        fi
        sleep 0.1
    done
}

up() { # [NAME=VALUE ...]
    local pid
    if pid=$(running_pid); then
        echo "kafka: already running at $(address) (pid $pid)"
        return
    fi
    prepare "$@"
    answers "$(address | sed 's/.*://')" && fail "$(address) is taken by another program"
    setsid scripts/kafka.sh run >"$LOG" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$PID_FILE"
    wait_until_ready "$pid"
    echo "kafka: running at $(address) (pid $pid, log $LOG)"
}

down() {
    local pid deadline=$((SECONDS + STOP_SECONDS))
    if ! pid=$(running_pid); then
        echo "kafka: not running"
        return
    fi
    kill -TERM "$pid"
    while running_pid >/dev/null; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "kafka: still there after $STOP_SECONDS s, killing it" >&2
            kill -KILL "$pid"
            deadline=$((SECONDS + STOP_SECONDS))
        fi
        sleep 0.1
    done
    rm -f "$PID_FILE"
    echo "kafka: ended"
}

status() {
    local pid
    pid=$(running_pid) || { echo "kafka: not running"; exit 1; }
    echo "kafka: running at $(address) (pid $pid)"
}

topic() { # NAME PARTITIONS
    [ $# -eq 2 ] || fail "usage: kafka.sh topic NAME PARTITIONS"
    running_pid >/dev/null || fail "not running"
    java_run -Xms16m -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=error org.apache.kafka.tools.TopicCommand \
        --bootstrap-server "$(address)" --create --if-not-exists --topic "$1" --partitions "$2" --replication-factor 1
}

case ${1:-} in
up | down | status | prepare | run | topic) "$@" ;;
address)
    [ -e "$PROPERTIES" ] || fail "$DIR is not prepared"
    address
    ;;
*) fail "usage: kafka.sh up|down|status|address|topic|prepare|run" ;;
esac
