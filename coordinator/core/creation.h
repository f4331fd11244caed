/*
 * What Kafka says about a job's specification: may it be created, with which counts and offsets,
 * and what should its owner be warned of. Internal to coordinator/core; pure functions of the
 * specification and an inspection.
 */
#ifndef BATON_COORDINATOR_CORE_CREATION_H
#define BATON_COORDINATOR_CORE_CREATION_H

#include "api/codec_faults.h"
#include "coordinator/core/update.h"

struct creation_verdict {
    const char *code;           /* of the first fault, in the list of api/problem.h; NULL: none */
    struct codec_faults faults; /* all that can be told together */
    char *unknown; /* what Kafka did not say, when nothing is wrong so far; else NULL */

    /* Filled in only when there is no fault and nothing unknown. */
    uint32_t partitions_initial, partitions; /* N0, N */
    struct {
        char **items;
        size_t count, capacity;
    } warnings;
    struct {
        struct input_offset *items;
        size_t count;
    } origins; /* T0 (D1), by topic then partition */
    struct {
        struct input_offset *items;
        size_t count;
    } starts; /* first T1, in the same order */
    struct {
        struct input_offset *items;
        size_t count;
    } ends; /* of topics that have been expanded before: where they end now; else empty */
};

/* For a job that is to be created. */
void creation_judge(const struct job_spec *spec, const struct kafka_inspection *inspection,
                    struct creation_verdict *ret_verdict);

/*
 * For an update of a job that is there: only topics that an update may name can be wrong, its group
 * and offsets are its own business by now. Fills in warnings, not counts and offsets.
 */
void creation_judge_update(const struct job_spec *spec, const struct job_row *row,
                           const struct kafka_inspection *inspection,
                           struct creation_verdict *ret_verdict);

/* The row's warnings say of its partitions what is true now that there are more. */
void creation_warn_anew(struct job_row *row);

void creation_finish(struct creation_verdict *verdict);

/* Which hash the sample speaks for (D2), and the reason in words: free(). */
enum effective_partitioner creation_partitioner(const struct kafka_sample *sample,
                                                char **ret_reason);

/* Logic that needs of each key no more than its latest record (D3.6). */
bool creation_rebuilds_from_latest(const struct job_logic *logic);

#endif
