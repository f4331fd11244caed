#!/bin/bash
# Makes a jar of Java sources that need Kafka's client and nothing else.
#
# usage: jar.sh JAR FOLDER     FOLDER is the root of the packages
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

jar=$1
folder=$2
client=$KAFKA_LIBS/kafka-clients-$KAFKA_VERSION.jar
for needed in javac jar; do
    command -v "$needed" >/dev/null || { echo "jar.sh: no $needed here: run scripts/setup.sh java" >&2; exit 1; }
done
[ -e "$client" ] || { echo "jar.sh: there is no $client: run scripts/setup.sh java" >&2; exit 1; }

classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
mapfile -t sources < <(find "$folder" -name '*.java')
# Kafka's clients run on Java 11 and later, and so does this.
javac --release 11 -Xlint:all -Werror -cp "$client" -d "$classes" "${sources[@]}"
mkdir -p "$(dirname "$jar")"
jar --create --file "$jar.part" -C "$classes" .
mv "$jar.part" "$jar"
