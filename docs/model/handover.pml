/*
 * A model of D3.1, D3.2 and D4 (docs/design.md) for Spin: hand-over, give-back, forced hand-over,
 * failover and, with -DSPLIT, the split of a processor. README.md says what is in it and what is
 * not, and which code does each rule; scripts/model.sh runs it, whole and with each of its mutants
 * (-DMUTANT_...), which leave one rule out and have to be found.
 *
 * Whoever is slow is not modelled apart: each step may happen ever so late, and its doer be a
 * zombie by then.
 */

#ifdef SPLIT
#define PARTITIONS 2 /* both of processor 0, until the split gives partition 1 to processor 1 */
#define PROCESSORS 2
#else
#define PARTITIONS 1
#define PROCESSORS 1
#endif
#define CHILD        1 /* processor, and the partition that it gets */
#define TASKS        (2 * PROCESSORS) /* of each processor one on each of two agents */
#define PROCESSOR(t) ((t) / 2)
#define AGENT(t)     ((t) % 2)
#define SIBLING(t)   ((t) ^ 1) /* of the same processor, on the other agent */
#define AT(t, q)     ((t) * PARTITIONS + (q))

/* How many records the partitions have, and how much happens in one run at most. */
#ifndef RECORDS
#define RECORDS 2 /* of the partition that moves */
#endif
#ifndef OTHERS
#define OTHERS 1 /* of the one that stays, in a split */
#endif
#ifndef HANDOFFS
#define HANDOFFS 2 /* begun */
#endif
#ifndef LOSSES
#define LOSSES 1 /* an owner that is called lost, rightly or not: failover, or force */
#endif
#ifndef CRASHES
#define CRASHES 1 /* of tasks, with all that they have in memory */
#endif
#ifndef DOUBTS
#define DOUBTS 1 /* commits of which the task does not hear how they ended */
#endif
#ifndef CANCELS
#define CANCELS 1 /* of hand-overs */
#endif
#ifndef RESTARTS
#define RESTARTS 1 /* of the coordinator */
#endif
#ifdef SPLIT
#define LIMIT(q) ((q) == CHILD -> RECORDS : OTHERS)
#else
#define LIMIT(q) RECORDS
#endif

/* With these there are two owners at once, or an older one: the point is what becomes of records. */
#if defined(MUTANT_NO_FENCE) || defined(MUTANT_T1_EARLY)
#define EFFECTS_ONLY
#endif

/* ---- Kafka */

bool valid[TASKS];                   /* the task's producer is the newest of its transactional.id */
byte committed[PARTITIONS];          /* T1 */
byte stamp_processor[PARTITIONS], stamp_epoch[PARTITIONS];

/* The transaction of a task that is under way: whether the task still waits for it or not, Kafka may execute it,
 * until an init of its transactional.id aborts it. It has one record at most. */
bool sent[TASKS];
byte sent_mask[TASKS];               /* bit of each partition whose offset it commits */
byte sent_to[TASKS * PARTITIONS];    /* the offsets */
byte sent_record[TASKS];             /* 1 + the partition of its record, the last before that offset; 0: none */
byte sent_epoch[TASKS];              /* its stamp */
byte sent_child[TASKS];              /* not 0: a split's release; CHILD is stamped with this epoch of the child */

/* What the invariants are about. */
byte effects[PARTITIONS];            /* bit of each record whose output is there */
byte active_epoch[PROCESSORS];       /* the highest that was active */

/* ---- the coordinator: this is durable before anybody hears of it */

#define IDLE      0
#define LEARNING  1
#define RELEASING 2

byte epoch_counter = 1;
byte owner[PROCESSORS];              /* agent */
byte epoch[PROCESSORS];              /* 0: nobody has it */
byte handoff;                        /* of processor 0 */
byte split_epoch;                    /* of the child to be */
bool has_split;                      /* M = 2 */

/* What tasks reported last; this is not durable. */
byte told_released[TASKS], told_fenced[TASKS];

byte handoffs_left = HANDOFFS, losses_left = LOSSES, crashes_left = CRASHES, doubts_left = DOUBTS;
byte restarts_left = RESTARTS, cancels_left = CANCELS;

/* ---- tasks */

#define CLOSED     0 /* or a learner */
#define INIT       1
#define READ       2
#define STAMPING   3
#define ACTIVE     4
#define COMMITTING 5
#define GIVING     6 /* the commit of a release */
#define FENCED     7

bool registered[TASKS];
byte phase[TASKS];
bool has_child[TASKS];               /* of processor 0: partition CHILD is in S1 */
byte checkpoint[TASKS * PARTITIONS]; /* T2 on disk */

#define owns(t, q)  (PROCESSOR(t) == (q) || (has_child[t] && (q) == CHILD))
#define is_owner(t) (epoch[PROCESSOR(t)] != 0 && owner[PROCESSOR(t)] == AGENT(t))
#define works(t)    (phase[t] >= ACTIVE && phase[t] <= GIVING)
#define waits(t)    (phase[t] == STAMPING || phase[t] == COMMITTING || phase[t] == GIVING)

inline forget_request(t)
{
    sent[t] = false; sent_mask[t] = 0; sent_record[t] = 0; sent_epoch[t] = 0; sent_child[t] = 0;
    sent_to[AT(t, 0)] = 0; sent_to[AT(t, PARTITIONS - 1)] = 0
}

/* init_transactions: whoever had this transactional.id before is shut out, with what he had under way. */
inline init_producer(t)
{
#ifndef MUTANT_NO_FENCE
    valid[SIBLING(t)] = false;
    forget_request(SIBLING(t));
#endif
    forget_request(t);
    valid[t] = true
}

#define consumes(other, q) (valid[other] && works(other) && owns(other, q))

/* A transaction takes effect, whole. */
inline execute(t)
{
    for (q : 0 .. PARTITIONS - 1) {
        if
        :: sent_mask[t] & (1 << q) ->
            if
            :: sent_record[t] == q + 1 ->
                assert(!(effects[q] & (1 << (sent_to[AT(t, q)] - 1)))); /* no record has two effects */
                effects[q] = effects[q] | (1 << (sent_to[AT(t, q)] - 1))
            :: else
            fi;
            assert(effects[q] == (1 << sent_to[AT(t, q)]) - 1); /* T1 passes none without effect, nor goes back */
            /* One owner: nobody else who could still commit consumes it. */
#ifndef EFFECTS_ONLY
            assert(t == 0 || !consumes(0, q));
            assert(t == 1 || !consumes(1, q));
#endif
#if defined(SPLIT) && !defined(EFFECTS_ONLY)
            assert(t == 2 || !consumes(2, q));
            assert(t == 3 || !consumes(3, q));
#endif
            committed[q] = sent_to[AT(t, q)];
            if
            :: sent_child[t] != 0 && q == CHILD -> stamp_processor[q] = CHILD; stamp_epoch[q] = sent_child[t]
            :: else -> stamp_processor[q] = PROCESSOR(t); stamp_epoch[q] = sent_epoch[t]
            fi
        :: else
        fi
    }
    q = 0;
#ifndef EFFECTS_ONLY
    assert(sent_epoch[t] >= active_epoch[PROCESSOR(t)]); /* anything with an older epoch is refused */
#endif
    forget_request(t)
}

/* ---- the coordinator */

/* Owner and epoch, in one durable decision. */
inline give(p, agent)
{
    epoch_counter++;
    assert(epoch_counter < 20); /* they do not rise for ever */
    owner[p] = agent;
    epoch[p] = epoch_counter;
#ifndef SPLIT
    /* A relocation that the source has been told of ends with its epoch. (A split goes on: whoever has the parent
     * next finishes the release.) */
    handoff = IDLE
#endif
}

inline complete_release()
{
#ifdef SPLIT
    has_split = true;
    owner[CHILD] = 0; /* which of its two tasks is all the same */
    epoch[CHILD] = split_epoch;
    split_epoch = 0;
    handoff = IDLE
#else
    give(0, 1 - owner[0])
#endif
}

/* A release is believed when it was said under the epoch that the source has now. */
#ifdef MUTANT_STALE_RELEASE
#define is_release(t) (told_released[t] != 0)
#else
#define is_release(t) (told_released[t] == epoch[0])
#endif

/* What a planned hand-over stands on: the source has stopped, and nothing of it is under way. */
#ifdef SPLIT
#define has_stopped(t) (!has_child[t])
#else
#define has_stopped(t) (!works(t) && !(sent[t] && valid[t]))
#endif

#define RELEASE_OF(t)                                                                              \
    :: atomic { handoff == RELEASING && is_owner(t) && is_release(t) ->                            \
                assert(has_stopped(t)); complete_release() }

/* The coordinator backs off. So what is under way in Kafka ends before it tries a child again that the parent's stamp
 * keeps out, and when nothing is under way no try can help. */
#ifdef SPLIT
#define is_worth_it(t) (PROCESSOR(t) == 0 || stamp_processor[CHILD] == CHILD)
#else
#define is_worth_it(t) true
#endif

#define OWNER_STEPS(t)                                                                             \
    /* The rightful owner was fenced by a late zombie, and never initialises again for its epoch. */ \
    :: atomic { is_owner(t) && told_fenced[t] == epoch[PROCESSOR(t)] && is_worth_it(t) ->          \
                give(PROCESSOR(t), AGENT(t)) }                                                     \
    /* Lost, or only slow: another one takes over, by force. */                                    \
    :: atomic { is_owner(t) && losses_left > 0 ->                                         \
                losses_left--; give(PROCESSOR(t), 1 - AGENT(t)) }

proctype coordinator()
{
end:
    do
    :: atomic { handoff == IDLE && !has_split && handoffs_left > 0 ->
                handoffs_left--; handoff = LEARNING }
    :: atomic { handoff == LEARNING -> handoff = RELEASING; /* it has caught up */
#ifdef SPLIT
                epoch_counter++; split_epoch = epoch_counter
#endif
       }
    :: atomic { handoff == LEARNING && cancels_left > 0 -> cancels_left--; handoff = IDLE } /* cancelled */
#ifndef SPLIT
    /* Cancelled, and given back: the source may have stopped already. */
#ifdef MUTANT_SAME_EPOCH
    :: atomic { handoff == RELEASING && cancels_left > 0 -> cancels_left--; handoff = IDLE }
#else
    :: atomic { handoff == RELEASING && cancels_left > 0 -> cancels_left--; give(0, owner[0]) }
#endif
#endif
#ifdef MUTANT_SPLIT_CANCELLED
    :: atomic { handoff == RELEASING && cancels_left > 0 -> cancels_left--; handoff = IDLE; split_epoch = 0 }
#endif
#ifdef MUTANT_SPLIT_FORCED
    :: atomic { handoff == RELEASING && losses_left > 0 -> losses_left--; complete_release() }
#endif
    RELEASE_OF(0)
    RELEASE_OF(1)
    OWNER_STEPS(0)
    OWNER_STEPS(1)
#ifdef SPLIT
    OWNER_STEPS(2)
    OWNER_STEPS(3)
#endif
    /* A restart: what was only observed is gone, until it is reported again. */
    :: atomic { restarts_left > 0 && (told_released[0] != 0 || told_released[1] != 0) ->
                restarts_left--; told_released[0] = 0; told_released[1] = 0; told_fenced[0] = 0; told_fenced[1] = 0 }
    /* From here on nothing more is begun, and nothing goes wrong. */
    :: atomic { handoffs_left + cancels_left + losses_left + crashes_left + doubts_left + restarts_left > 0 ->
                handoffs_left = 0; cancels_left = 0; losses_left = 0; crashes_left = 0; doubts_left = 0; restarts_left = 0 }
    od
}

/* ---- a task */

/* What a document says when it is fetched: the epoch of the owner, and to release (in a split: the child's epoch). */
#define document_epoch(t) (is_owner(t) -> epoch[PROCESSOR(t)] : 0)
#define told_to_release(t) (is_owner(t) && PROCESSOR(t) == 0 && handoff == RELEASING)
#ifdef SPLIT
#define document_release(t) (told_to_release(t) -> split_epoch : 0)
#define document_child(t)   (PROCESSOR(t) == 0 && !has_split)
#else
#define document_release(t) told_to_release(t)
#define document_child(t)   false
#endif
#define is_new(t) (d_epoch != document_epoch(t) || d_release != document_release(t) || d_child != document_child(t))

inline send(mask, record, child)
{
    sent_mask[t] = mask; sent_record[t] = record; sent_epoch[t] = working; sent_child[t] = child;
    for (q : 0 .. PARTITIONS - 1) {
        if
        :: mask & (1 << q) -> sent_to[AT(t, q)] = position[q]
        :: else
        fi
    }
    q = 0;
    sent[t] = true
}

/* What is in memory is gone; what is on disk is left. */
inline drop_memory()
{
    position[0] = checkpoint[AT(t, 0)]; position[PARTITIONS - 1] = checkpoint[AT(t, PARTITIONS - 1)]
}

inline close()
{
    drop_memory();
    phase[t] = CLOSED; working = 0; has_child[t] = false
}

inline is_fenced()
{
    drop_memory();
    forget_request(t);
    phase[t] = FENCED;
    told_fenced[t] = working
}

/* Of an activation. */
inline begin()
{
    told_fenced[t] = 0;
    working = d_epoch;
    has_child[t] = d_child;
    phase[t] = INIT
}

/* T1, and whether a newer owner's stamp is there. */
inline read_committed()
{
#ifdef SPLIT
    if /* a release that was begun before is done: what is left is the rest */
    :: d_release != 0 && stamp_processor[CHILD] == CHILD -> has_child[t] = false
    :: else
    fi;
#endif
    newer = false;
    for (q : 0 .. PARTITIONS - 1) {
        if
        :: owns(t, q) ->
            newer = newer || stamp_processor[q] != PROCESSOR(t) || stamp_epoch[q] > working;
            t1[q] = committed[q]
        :: else
        fi
    }
    q = 0
}

inline is_active()
{
    phase[t] = ACTIVE;
    if
    :: working > active_epoch[PROCESSOR(t)] -> active_epoch[PROCESSOR(t)] = working
    :: else
    fi
}

/* Replays up to T1, silently, and stamps all of S1. */
inline replay_and_stamp()
{
    for (q : 0 .. PARTITIONS - 1) {
        if
        :: owns(t, q) -> assert(position[q] <= t1[q]); position[q] = t1[q]; t1[q] = 0 /* T2 <= T1 */
        :: else
        fi
    }
    q = 0;
#ifdef MUTANT_NO_STAMP
    is_active()
#else
    send((has_child[t] -> 3 : 1 << PROCESSOR(t)), 0, 0);
    phase[t] = STAMPING
#endif
}

/* A task that has released an epoch never works under it again: it may have been believed. */
inline is_released()
{
    told_released[t] = working;
    released = working;
    checkpoint[AT(t, 0)] = position[0];
    phase[t] = CLOSED; working = 0
}

/* What the answer to a commit means; checkpoints are written after it, now and then. */
inline is_committed()
{
    if
    :: phase[t] == STAMPING -> is_active()
    :: phase[t] == GIVING ->
#ifdef SPLIT
        has_child[t] = false; told_released[t] = working; phase[t] = ACTIVE
#else
        is_released()
#endif
    :: phase[t] == COMMITTING ->
        phase[t] = ACTIVE;
        if
        :: true
        :: PARTITIONS == 1 -> /* a checkpoint; in a split each state is rebuilt from nothing */
            for (q : 0 .. PARTITIONS - 1) {
                if
                :: owns(t, q) -> assert(position[q] <= committed[q]); checkpoint[AT(t, q)] = position[q] /* T2 <= T1 */
                :: else
                fi
            }
            q = 0
        fi
    fi
}

#define is_learning(t) (PARTITIONS == 1 && phase[t] == CLOSED && registered[t] && d_epoch == 0 && handoff == LEARNING && \
                        position[0] < committed[0])
#define is_told_to_release (d_release != 0 && (PARTITIONS == 1 || has_child[t]))

/* One record, and the offset behind it. */
#define RECORD_OF(partition)                                                                       \
    :: atomic { phase[t] == ACTIVE && d_epoch == working && !is_told_to_release && owns(t, partition) && \
                position[partition] < LIMIT(partition) ->                                          \
                position[partition]++; send(1 << partition, partition + 1, 0); phase[t] = COMMITTING }

proctype task(byte t)
{
    byte position[PARTITIONS], t1[PARTITIONS]; /* T2 in memory; T1 between READ and the replay */
    byte working, released;                    /* epochs */
    byte d_epoch, d_release;                   /* of the document */
    bool d_child, newer;
    byte q;
end:
    do
    /* The start of an agent: who it was before has no say any more, and its epochs are raised. */
    :: atomic { !registered[t] ->
                registered[t] = true; told_released[t] = 0; told_fenced[t] = 0;
                if
                :: is_owner(t) -> give(PROCESSOR(t), AGENT(t))
                :: else
                fi }
    :: atomic { registered[t] && is_new(t) ->
                d_epoch = document_epoch(t); d_release = document_release(t); d_child = document_child(t) }
    :: atomic { registered[t] && crashes_left > 0 && (phase[t] != CLOSED || released != 0) ->
                crashes_left--;
                registered[t] = false; released = 0; d_epoch = 0; d_release = 0; d_child = false;
                t1[0] = 0; t1[PARTITIONS - 1] = 0;
                close() } /* what was sent is still under way */

    :: atomic { phase[t] == CLOSED && d_epoch > released -> begin() }
    :: atomic { (phase[t] == FENCED || phase[t] == ACTIVE) && d_epoch > working -> begin() }
    :: atomic { (phase[t] == FENCED || phase[t] == ACTIVE || phase[t] == INIT) && d_epoch == 0 -> told_fenced[t] = 0; close() }
    /* A learner: never past the T1 that it knows. */
    :: atomic { is_learning(t) -> position[0] = committed[0]; checkpoint[AT(t, 0)] = position[0] }

    /* D3.1. The two orders differ in the mutant only. */
#ifndef MUTANT_T1_EARLY
    :: atomic { phase[t] == INIT -> init_producer(t); phase[t] = READ }
    :: atomic { phase[t] == READ ->
                read_committed();
                if
                :: newer -> newer = false; t1[0] = 0; t1[PARTITIONS - 1] = 0; is_fenced()
                :: else -> replay_and_stamp()
                fi }
#else
    :: atomic { phase[t] == INIT ->
                read_committed();
                if
                :: newer -> newer = false; t1[0] = 0; t1[PARTITIONS - 1] = 0; is_fenced()
                :: else -> phase[t] = READ
                fi }
    :: atomic { phase[t] == READ -> init_producer(t); replay_and_stamp() }
#endif

    /* Kafka executes it; the answer comes at once, or never (in doubt), or after the end of who sent it. */
    :: atomic { sent[t] && valid[t] ->
                execute(t);
                if
                :: waits(t) -> is_committed()
                :: else
                fi }
    :: atomic { waits(t) && !valid[t] -> is_fenced() }
    /* In doubt. The one repair: what is in memory is dropped, and Kafka is asked. */
    :: atomic { waits(t) && sent[t] && doubts_left > 0 ->
                doubts_left--;
#ifndef MUTANT_MEMORY_KEPT
                drop_memory();
#endif
                phase[t] = INIT }
    /* Who has nothing to commit renews its offsets, and so hears that it is fenced. */
    :: atomic { phase[t] == ACTIVE && !valid[t] -> is_fenced() }

    RECORD_OF(0)
#ifdef SPLIT
    RECORD_OF(1)
#endif

    /* Told to release: the last commit, then it is said. */
#ifndef SPLIT
    :: atomic { phase[t] == ACTIVE && d_epoch == working && d_release != 0 ->
                if
                :: position[0] < RECORDS ->
                    position[0]++; send(1, 1, 0); phase[t] = GIVING;
#ifdef MUTANT_EARLY_RELEASED
                    told_released[t] = working
#endif
                :: else -> is_released()
                fi }
    :: atomic { registered[t] && phase[t] == CLOSED && released != 0 && told_released[t] != released ->
                told_released[t] = released }
#else
    /* One transaction: what is given up gets the child's stamp, the rest the own one. */
    :: atomic { phase[t] == ACTIVE && d_epoch == working && d_release != 0 && has_child[t] ->
                if
                :: position[CHILD] < RECORDS -> position[CHILD]++; send(3, CHILD + 1, d_release)
                :: else -> send(3, 0, d_release)
                fi;
                phase[t] = GIVING;
#ifdef MUTANT_EARLY_RELEASED
                told_released[t] = working; has_child[t] = false
#endif
       }
    :: atomic { phase[t] == ACTIVE && d_epoch == working && d_release != 0 && !has_child[t] && told_released[t] != working ->
                told_released[t] = working }
#endif
    :: atomic { registered[t] && phase[t] == FENCED && told_fenced[t] != working -> told_fenced[t] = working }
    od
}

/* When nothing can happen any more, all is done and somebody works on each partition. */
#define is_at_work(t, q) (phase[t] == ACTIVE && owns(t, q) && valid[t] && is_owner(t))

proctype monitor()
{
end:
    timeout -> atomic {
        assert(effects[0] == (1 << LIMIT(0)) - 1);
        assert(is_at_work(0, 0) || is_at_work(1, 0));
#ifdef SPLIT
        assert(effects[CHILD] == (1 << LIMIT(CHILD)) - 1);
        assert(has_split || is_at_work(0, CHILD) || is_at_work(1, CHILD));
        assert(!has_split || is_at_work(2, CHILD) || is_at_work(3, CHILD))
#endif
    }
}

init {
    atomic {
        epoch[0] = 1; /* of agent 0 */
        registered[0] = true; registered[1] = true;
        run coordinator(); run task(0); run task(1);
#ifdef SPLIT
        registered[2] = true; registered[3] = true;
        run task(2); run task(3);
#endif
        run monitor()
    }
}
