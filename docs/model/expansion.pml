/*
 * A model of D3.3, D3.9 and D4 (docs/design.md) for Spin: the order of a key across expansions of
 * partitions, settle windows, replays and, with -DSPLIT, a split after the partitions have grown.
 * README.md says what is in it and what is not, and which code does each rule; scripts/model.sh runs
 * it, whole and with each of its mutants (-DMUTANT_...), which leave one rule out and have to be
 * found.
 *
 * One key is followed. With n partitions its records go to partition n - 1, whose parent is n - 2:
 * each expansion moves it. Who owns what, epochs and fences of producers are handover.pml's subject
 * and are taken as given here: a task that crashes is followed by one that knows what is durable.
 */

#ifndef PARTITIONS
#define PARTITIONS 2 /* in the end */
#endif
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef RECORDS
#define RECORDS 3 /* of each producer */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifdef SPLIT
#define TASKS 2 /* 1 gets all partitions but partition 0, whose records of the key it needs, too */
#else
#define TASKS 1
#endif
/* Without -DSTALE producers keep what `settle` takes for granted: nobody writes by an old number any
 * more when a window closes. With it a window closes whenever it likes: then nobody can promise the
 * order, but nothing may be lost or doubled. */

#define NONE         255
#define LOG          (PRODUCERS * RECORDS)
#define AT(p, i)     ((p) * LOG + (i))
#define OF(t, p)     ((t) * PARTITIONS + (p))
#define BY(t, k)     ((t) * PRODUCERS + (k))
#define NEED(t, p, a) (((t) * PARTITIONS + (p)) * PARTITIONS + (a))
#define ALL          ((1 << RECORDS) - 1)

/* ---- Kafka */

byte count = 1;                     /* partitions that there are */
byte log[PARTITIONS * LOG];         /* producer * 16 + number of the record */
byte ends[PARTITIONS];               /* high watermark: a producer goes on when its record is below it */
byte stable[PARTITIONS];            /* what read_committed gets: it follows, each partition for itself */
byte committed[PARTITIONS];         /* T1 */
byte effects[PRODUCERS];            /* bit of each record that has taken effect; in one transaction with T1 */
byte misrouted[PRODUCERS];          /* told of instead */
bool given;                         /* the stamp of the split, in one transaction with T1 */
byte bound;                         /* and how far the parent was in partition 0 then */

#ifdef MUTANT_BOUND_IS_FENCE
byte fence_asked;
#endif

byte knows[PRODUCERS];              /* the number of partitions that the producer knows, less one: where it writes */
byte written[PRODUCERS];            /* its records */

/* ---- the coordinator: durable */

#define NO_SPLIT  0
#define LEARNING  1
#define RELEASING 2
#define RELEASED  3

byte split;
byte fence[PARTITIONS];             /* NONE: the window is open. Of the last partition nothing is asked */
byte window[PARTITIONS];            /* its number */

/* ---- a task */

#define CLOSED 0
#define LEARN  1
#define REPLAY 2
#define LIVE   3

byte phase[TASKS];
byte position[TASKS * PARTITIONS];  /* T2 */
byte limit[TASKS * PARTITIONS];     /* T1 as it was told, one vector; while it learns or replays */
byte state[TASKS * PRODUCERS];      /* bit of each record that is in it */
byte clear[TASKS * PARTITIONS];     /* live: records below it may be applied */
byte gate[TASKS * PARTITIONS];      /* what lies below it was there when the ancestors ended at need */
bool armed[TASKS * PARTITIONS];
byte need[TASKS * PARTITIONS * PARTITIONS];
byte mark[TASKS * PARTITIONS];      /* a high watermark, taken when the settle time was over; NONE */
byte marked_in[TASKS * PARTITIONS]; /* the number of the window that was open then */

byte crashes_left = CRASHES;
byte expansions_left = PARTITIONS - 1;

#ifdef SPLIT
#define owns(t, p) ((t) == 0 -> ((p) == 0 || !given) : ((p) > 0 && given))
#define is_key_of(t) ((t) == 0 -> !given : true) /* whose the key is */
#else
#define owns(t, p) true
#define is_key_of(t) true
#endif

/* The owner has done what was written by the old numbers; so has who gave it away. */
#define is_settled(t, p) (!owns(t, p) || fence[p] != NONE)

/* ---- the state of the key */

/* Nothing twice, and what a producer wrote earlier comes first. */
inline apply(t, record)
{
    k = record / 16; s = record % 16;
    assert(!(state[BY(t, k)] & (1 << s)));
#ifndef STALE
    assert(state[BY(t, k)] == (1 << s) - 1);
#endif
    state[BY(t, k)] = state[BY(t, k)] | (1 << s);
    k = 0; s = 0
}

/* What is in a state that was rebuilt is what has taken effect. */
inline compare(t)
{
    for (k : 0 .. PRODUCERS - 1) {
        assert(state[BY(t, k)] == effects[k])
    }
    k = 0
}

inline forget_gates(t)
{
    for (p : 0 .. PARTITIONS - 1) {
        clear[OF(t, p)] = position[OF(t, p)]; gate[OF(t, p)] = 0; armed[OF(t, p)] = false; mark[OF(t, p)] = NONE;
        marked_in[OF(t, p)] = 0;
        for (a : 0 .. PARTITIONS - 1) {
            need[NEED(t, p, a)] = 0
        }
        a = 0
    }
    p = 0
}

/* What a document tells: T1, or the bound of a split. */
inline tell(t)
{
    for (p : 0 .. PARTITIONS - 1) {
#ifdef SPLIT
        limit[OF(t, p)] = (t == 1 && p == 0 && given -> bound : committed[p])
#else
        limit[OF(t, p)] = committed[p]
#endif
    }
    p = 0
}

/* ---- order */

#define LOWER(a, b) ((a) < (b) -> (a) : (b))

/* While learning and replaying: each ancestor up to min(fence, T1), NONE being above all. */
#ifdef MUTANT_REPLAY_UNORDERED
#define replay_open(t, p) true
#else
#define replay_past(t, a) (position[OF(t, a)] >= LOWER(fence[a], limit[OF(t, a)]))
#define replay_open(t, p) (((p) < 1 || replay_past(t, 0)) && ((p) < 2 || replay_past(t, 1)))
#endif

#define settled_before(t, p) (((p) < 1 || is_settled(t, 0)) && ((p) < 2 || is_settled(t, 1)))
#ifdef MUTANT_UNORDERED
#define live_open(t, p) true
#else
#define live_open(t, p) ((p) == 0 || settled_before(t, p) || position[OF(t, p)] < clear[OF(t, p)])
#endif

#define done_before(t, p, a) (!owns(t, a) || position[OF(t, a)] >= need[NEED(t, p, a)])
#ifdef MUTANT_PARENT_ONLY
#define gate_open(t, p) done_before(t, p, (p) - 1)
#else
#define gate_open(t, p) (done_before(t, p, 0) && ((p) < 2 || done_before(t, p, 1)))
#endif

/* The two halves of an answer: how far the descendant is stable, and afterwards where the ancestors end. */
inline ask_stable(t, d)
{
    gate[OF(t, d)] = stable[d]
}

inline ask_ends(t, d)
{
    for (a : 0 .. d - 1) {
#ifdef MUTANT_STABLE_ENDS
        need[NEED(t, d, a)] = stable[a]
#else
        need[NEED(t, d, a)] = ends[a]
#endif
    }
    a = 0
}

#ifdef MUTANT_ENDS_FIRST
#define first(t, d)  ask_ends(t, d); gate[OF(t, d)] = NONE
#define second(t, d) ask_stable(t, d)
#else
#define first(t, d)  ask_stable(t, d)
#define second(t, d) ask_ends(t, d)
#endif
#define is_worth_asking(t, d) (owns(t, d) && !settled_before(t, d) && clear[OF(t, d)] < ends[d])

#define GATE_OF(t, d)                                                                              \
    :: atomic { phase[t] == LIVE && is_worth_asking(t, d) && gate[OF(t, d)] == 0 -> first(t, d) }  \
    :: atomic { phase[t] == LIVE && gate[OF(t, d)] != 0 && !armed[OF(t, d)] ->                     \
                second(t, d); armed[OF(t, d)] = true }                                             \
    :: atomic { phase[t] == LIVE && armed[OF(t, d)] && gate_open(t, d) ->                          \
                if                                                                                 \
                :: gate[OF(t, d)] > clear[OF(t, d)] -> clear[OF(t, d)] = gate[OF(t, d)]            \
                :: else                                                                            \
                fi;                                                                                \
                gate[OF(t, d)] = 0; armed[OF(t, d)] = false;                                       \
                for (a : 0 .. PARTITIONS - 1) {                                                    \
                    need[NEED(t, d, a)] = 0                                                        \
                }                                                                                  \
                a = 0 }

/* ---- reading */

/* A record by an old number that comes after the window has closed: descendants wait again. */
inline meet_late(t, p)
{
    if
    :: p < count - 1 && fence[p] != NONE ->
        fence[p] = NONE; window[p]++; /* as if it were told at once: until then the task keeps it open for itself */
        for (d : p + 1 .. PARTITIONS - 1) {
            clear[OF(t, d)] = position[OF(t, d)]
        }
        d = 0
    :: else
    fi;
    mark[OF(t, p)] = NONE
}

#ifdef MUTANT_PARENT_GOES_ON
#define is_foreign(t) false
#else
#define is_foreign(t) (!is_key_of(t))
#endif

inline read_live(t, p)
{
    record = log[AT(p, position[OF(t, p)])];
    position[OF(t, p)]++;
    if
    :: is_foreign(t) -> wrong[record / 16] = wrong[record / 16] | (1 << (record % 16))
    :: else ->
        apply(t, record);
        meet_late(t, p)
    fi;
    record = 0
}

/* Silently. What belongs to somebody else now is passed. */
inline read_again(t, p)
{
    record = log[AT(p, position[OF(t, p)])];
    position[OF(t, p)]++;
    if
    :: is_key_of(t) -> apply(t, record)
    :: else
    fi;
    record = 0
}

/* One transaction: positions, and what has come of the records. */
inline commit(t)
{
    for (p : 0 .. PARTITIONS - 1) {
        if
        :: owns(t, p) -> committed[p] = position[OF(t, p)]
        :: else
        fi
    }
    p = 0;
    for (k : 0 .. PRODUCERS - 1) {
        if
        :: is_key_of(t) -> effects[k] = state[BY(t, k)]
        :: else
        fi;
        assert(!(wrong[k] & misrouted[k]));
        misrouted[k] = misrouted[k] | wrong[k];
        wrong[k] = 0
    }
    k = 0
}

#define is_dirty(t, p) (owns(t, p) && position[OF(t, p)] != committed[p])
#define at_limit(t, p) (position[OF(t, p)] >= limit[OF(t, p)])
#define are_at_limit(t) (at_limit(t, 0) && at_limit(t, 1) && at_limit(t, PARTITIONS - 1))
#define is_stale_vector(t) (limit[OF(t, 0)] != committed[0] || limit[OF(t, 1)] != committed[1] || \
                            limit[OF(t, PARTITIONS - 1)] != committed[PARTITIONS - 1])

#ifdef STALE
#define is_time_over true
#else
#define is_time_over (knows[0] == count - 1 && knows[PRODUCERS - 1] == count - 1)
#endif

#ifdef MUTANT_MARK_EARLY
#define may_mark true
#else
#define may_mark is_time_over
#endif

#define PARTITION_OF(t, q)                                                                         \
    :: atomic { phase[t] == LIVE && owns(t, q) && q < count && position[OF(t, q)] < stable[q] && live_open(t, q) -> \
                read_live(t, q) }                                                                  \
    :: atomic { (phase[t] == LEARN || phase[t] == REPLAY) && !at_limit(t, q) && replay_open(t, q) ->         \
                read_again(t, q) }                                                                 \
    /* The window: once the time is over a high watermark is taken; when it is committed past it, it closes. */ \
    :: atomic { phase[t] == LIVE && owns(t, q) && q < count - 1 && fence[q] == NONE && mark[OF(t, q)] == NONE && may_mark -> \
                mark[OF(t, q)] = ends[q]; marked_in[OF(t, q)] = window[q] }                         \
    :: atomic { phase[t] == LIVE && owns(t, q) && q < count - 1 && fence[q] == NONE && mark[OF(t, q)] != NONE && \
                committed[q] >= mark[OF(t, q)] ->                                                  \
                if                                                                                 \
                :: marked_in[OF(t, q)] == window[q] -> fence[q] = committed[q]                     \
                :: else                                                                            \
                fi;                                                                                \
                mark[OF(t, q)] = NONE }

proctype task(byte t)
{
    byte wrong[PRODUCERS];
    byte p, a, d, k, s, record;
end:
    do
    PARTITION_OF(t, 0)
    PARTITION_OF(t, 1)
    GATE_OF(t, 1)
#if PARTITIONS > 2
    PARTITION_OF(t, 2)
    GATE_OF(t, 2)
#endif
    :: atomic { phase[t] == LIVE && (is_dirty(t, 0) || is_dirty(t, 1) || is_dirty(t, PARTITIONS - 1)) -> commit(t) }
    /* Nothing was ever on disk: all is replayed from the beginning to T1. */
    :: atomic { phase[t] != CLOSED && crashes_left > 0 ->
                crashes_left--;
                for (p : 0 .. PARTITIONS - 1) {
                    position[OF(t, p)] = 0
                }
                p = 0;
                for (k : 0 .. PRODUCERS - 1) {
                    state[BY(t, k)] = 0; wrong[k] = 0
                }
                k = 0;
                forget_gates(t);
                tell(t);
                phase[t] = (phase[t] == LEARN -> LEARN : REPLAY) }
    :: atomic { phase[t] == REPLAY && are_at_limit(t) ->
                if
                :: is_key_of(t) -> compare(t)
                :: else
                fi;
                forget_gates(t);
                phase[t] = LIVE }
#ifdef SPLIT
    :: atomic { t == 1 && split >= LEARNING && phase[t] == CLOSED -> tell(t); phase[t] = LEARN }
#ifdef MUTANT_MIXED_VECTOR
    :: atomic { phase[t] == LEARN && !given && limit[OF(t, 0)] != committed[0] -> limit[OF(t, 0)] = committed[0] }
    :: atomic { phase[t] == LEARN && !given && limit[OF(t, 1)] != committed[1] -> limit[OF(t, 1)] = committed[1] }
#else
    :: atomic { phase[t] == LEARN && !given && is_stale_vector(t) -> tell(t) }
#endif
    :: atomic { phase[t] == LEARN && split == RELEASED -> tell(t); phase[t] = REPLAY }
    /* The release: one transaction with all that the parent has done until then. */
    :: atomic { t == 0 && split == RELEASING && !given && phase[t] == LIVE ->
                commit(t);
#ifdef MUTANT_BOUND_IS_FENCE
                bound = fence_asked;
#else
                bound = position[OF(t, 0)];
#endif
                given = true }
#endif
    od
}

#define PRODUCER_OF(i)                                                                             \
    :: atomic { knows[i] < count - 1 -> knows[i]++ }                                               \
    :: atomic { written[i] < RECORDS ->                                                            \
                log[AT(knows[i], ends[knows[i]])] = i * 16 + written[i]; ends[knows[i]]++; written[i]++ }

#define STABLE_OF(q) :: atomic { stable[q] < ends[q] -> stable[q]++ }

proctype world()
{
    byte p;
end:
    do
    PRODUCER_OF(0)
#if PRODUCERS > 1
    PRODUCER_OF(1)
#endif
    STABLE_OF(0)
    STABLE_OF(1)
#if PARTITIONS > 2
    STABLE_OF(2)
#endif
    /* More partitions: all windows are open, under new numbers. Not while there is a split. */
    :: atomic { expansions_left > 0 && (split == NO_SPLIT || split == RELEASED) ->
                expansions_left--; count++;
                for (p : 0 .. PARTITIONS - 1) {
                    fence[p] = NONE; window[p]++
                }
                p = 0 }
#ifdef SPLIT
    :: atomic { split == NO_SPLIT && count == 2 -> split = LEARNING }
    :: atomic { split == LEARNING && fence[0] != NONE ->
#ifdef MUTANT_BOUND_IS_FENCE
                fence_asked = fence[0];
#endif
                split = RELEASING }
    :: atomic { split == RELEASING && given -> split = RELEASED }
#endif
    od
}

/* When nothing more can happen, all that was written has taken effect, once, or was told of. */
proctype monitor()
{
    byte k;
    timeout;
    for (k : 0 .. PRODUCERS - 1) {
        assert(written[k] == RECORDS);
        assert(!(effects[k] & misrouted[k]));
#ifdef STALE
        assert((effects[k] | misrouted[k]) == ALL)
#else
        assert(effects[k] == ALL)
#endif
    }
}

init
{
    atomic {
        byte p;
        for (p : 0 .. PARTITIONS - 1) {
            fence[p] = NONE; mark[OF(0, p)] = NONE; mark[OF(TASKS - 1, p)] = NONE
        }
        p = 0;
        phase[0] = LIVE;
        run world();
        run task(0);
#ifdef SPLIT
        run task(1);
#endif
        run monitor()
    }
}
