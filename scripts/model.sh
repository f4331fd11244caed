#!/bin/bash
# Checks the models of docs/model with Spin: they have no error, and each of their mutants has one.
#
# usage: model.sh [WORD]     only the cases whose names hold WORD
#
# All states are visited (no bitstate hashing). A case is a line below: its name, what is expected (`holds`, or `found` for a
# mutant), and how much there is and may happen in it at most. Mutants get the least in which they show. Prints for each the number of states and the
# seconds of the search. A counterexample that should not be there is kept in build/model/NAME, and the command that shows it printed.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/results.sh

MODELS=$PWD/docs/model
OUT=${BUILD:-build}/model
SECONDS_MAX=600   # of one search
MEMORY_MB_MAX=6000

# The columns are the model's parameters.
cases() {
    cat <<'END_OF_CASES'
model handover        expected  HANDOFFS CANCELS LOSSES CRASHES DOUBTS RESTARTS
relocation-mixed        holds     1 1 1 1 1 0
relocation-restart      holds     1 1 1 1 0 1
relocation-again        holds     2 2 1 0 0 1
relocation-zombies      holds     1 0 2 0 0 0
relocation-records      holds     1 1 1 0 1 0  RECORDS=4
split-mixed             holds     1 0 1 1 1 0  SPLIT OTHERS=0
split-restart           holds     1 1 1 0 1 1  SPLIT OTHERS=0
split-zombies           holds     1 0 2 0 0 0  SPLIT OTHERS=0
split-both-work         holds     1 0 1 0 1 0  SPLIT OTHERS=1
no-fence                found     1 0 1 0 0 0  MUTANT_NO_FENCE
no-stamp                found     0 0 2 0 0 0  MUTANT_NO_STAMP
t1-early                found     1 0 1 0 0 0  MUTANT_T1_EARLY
memory-kept             found     0 0 0 0 1 0  MUTANT_MEMORY_KEPT
early-released          found     1 0 0 0 0 0  MUTANT_EARLY_RELEASED
stale-release           found     2 1 0 0 0 0  MUTANT_STALE_RELEASE
same-epoch-back         found     1 1 0 0 0 0  MUTANT_SAME_EPOCH
split-cancelled         found     1 1 0 0 0 0  SPLIT OTHERS=0 MUTANT_SPLIT_CANCELLED
split-forced            found     1 0 1 0 0 0  SPLIT OTHERS=0 MUTANT_SPLIT_FORCED
split-early-released    found     1 0 0 0 1 0  SPLIT OTHERS=0 MUTANT_EARLY_RELEASED
split-no-fence          found     1 0 1 0 0 0  SPLIT OTHERS=0 MUTANT_NO_FENCE
model expansion       expected  PARTITIONS PRODUCERS RECORDS CRASHES
expand-jump             holds     3 2 2 1
expand-late             holds     3 1 4 2  STALE
grown-split             holds     2 2 2 1  SPLIT
grown-split-again       holds     3 1 3 1  SPLIT
grown-split-late        holds     2 1 3 2  SPLIT STALE
grown-split-late-again  holds     3 1 3 1  SPLIT STALE
unordered               found     2 1 3 1  MUTANT_UNORDERED
stable-ends             found     2 1 3 1  MUTANT_STABLE_ENDS
ends-first              found     2 2 2 1  MUTANT_ENDS_FIRST
parent-only             found     3 1 3 1  MUTANT_PARENT_ONLY
replay-unordered        found     2 1 3 1  MUTANT_REPLAY_UNORDERED
mark-early              found     2 1 3 1  MUTANT_MARK_EARLY
mixed-vector            found     2 1 3 1  SPLIT MUTANT_MIXED_VECTOR
bound-is-fence          found     2 1 3 1  SPLIT STALE MUTANT_BOUND_IS_FENCE
parent-goes-on          found     2 1 3 1  SPLIT STALE MUTANT_PARENT_GOES_ON
END_OF_CASES
}

passed=0
failed=0

# What a failed assertion of the model means.
reason() { # LOG
    case $(sed -n 's/.*assertion violated \(.*\) (at depth.*/\1/p' "$1") in
    *active_epoch*) echo 'an older epoch commits' ;;
    *epoch_counter*) echo 'epochs rise for ever' ;;
    *owner*) echo 'the owner does not work in the end' ;;
    *position*) echo 'T2 > T1' ;;
    '!((effects'*) echo 'a record with two effects' ;;
    *sent_to*) echo 'T1 passes a record without effect, or goes back' ;;
    *state*1*s*-1*) echo 'a producer'"'"'s records in another order, or one is missing' ;;
    *state*effects*) echo 'a state that is not what has taken effect' ;;
    '!((state'*) echo 'a record is applied twice' ;;
    *effects*) echo 'records are left in the end' ;;
    *==*valid*phase*) echo 'two owners of a partition' ;;
    *phase*sent* | '!(has_child'*) echo 'a release is believed of one who goes on' ;;
    *) echo 'see the assertion' ;;
    esac
}

check() { # NAME EXPECTED FLAGS...
    local name=$1 expected=$2 folder began=$SECONDS states errors found optimise=-O1
    shift 2
    [ "$expected" = holds ] || optimise=-O0 # its search is shorter than the compiler's work
    folder=$OUT/$name
    rm -rf "$folder"
    mkdir -p "$folder"
    if ! (cd "$folder" && cp "$MODELS/$model.pml" . && spin -a "$@" "$model.pml" && ${CC:-gcc} "$optimise" -w -DSAFETY \
        "-DMEMLIM=$MEMORY_MB_MAX" -o pan pan.c && timeout "$SECONDS_MAX" ./pan -m100000 -w22) >"$folder/log" 2>&1; then
        echo "no end: see below" >>"$folder/log"
    fi
    errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' "$folder/log")
    states=$(sed -n 's/ *\([0-9e+.]*\) states, stored.*/\1/p' "$folder/log")
    # A search that was cut short has proven nothing: not even that there is no error.
    if grep -q 'Search not completed\|max search depth too small\|out of memory' "$folder/log" && [ "${errors:-0}" = 0 ]; then
        found=unfinished
    else
        case $errors in
        0) found=holds ;;
        '') found=unfinished ;;
        *) found=found ;;
        esac
    fi
    printf '  %-22s %-6s %12s states %5d s' "$name" "$found" "${states:-?}" $((SECONDS - began))
    if [ "$found" = "$expected" ]; then
        passed=$((passed + 1))
        [ "$found" = holds ] && echo || echo "   $(reason "$folder/log")"
        rm -rf "$folder"
        return
    fi
    failed=$((failed + 1))
    echo "   FAILED: expected $expected"
    if [ "$found" = found ]; then
        echo "    (cd $folder && spin -t -p -g $* $model.pml)"
    elif [ "$found" = unfinished ]; then
        sed 's/^/    /' "$folder/log" | tail -15
    fi
}

command -v spin >/dev/null || { echo "model: no spin here: run scripts/setup.sh model" >&2; exit 1; }
while read -r name expected line; do
    if [ "$name" = model ]; then
        model=$expected
        parameters=${line#expected}
        continue
    fi
    [[ $name == *"${1:-}"* ]] || continue
    read -r -a words <<<"$line"
    flags=()
    i=0
    for parameter in $parameters; do
        flags+=("-D$parameter=${words[i]}")
        i=$((i + 1))
    done
    for word in "${words[@]:i}"; do flags+=("-D$word"); done
    check "$name" "$expected" "${flags[@]}"
done < <(cases)
[ $((passed + failed)) -gt 0 ] || { echo "model: no case's name holds '$1'" >&2; exit 1; }
echo "model: $passed passed, $failed failed"
result_write model "$passed" "$failed"
[ "$failed" -eq 0 ]
