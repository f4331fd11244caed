/*
 * What must hold, looked at when it is decided and not only at the end:
 *
 * - the invariants of every core (task_check), after each of its steps;
 * - a transaction carries exactly the outputs of the records between the committed offsets before
 *   and after it, in order and with the reference's values: so every input record has one effect,
 *   never more (exactly_once); without transactions every record before a committed offset has an
 *   output, and every output is right;
 * - nobody commits under an older epoch than one that was reported active (exactly_once), and
 *   committed offsets never go back;
 * - the state on disk is the reference's at its T2, and T2 is not past T1;
 * - a learner follows a T1 that was committed as one, and has no state past it;
 * - who says released has all of S1 committed under that epoch, and commits nothing under it after;
 * - a task is active only when its stamp is on all of S1; never initialises again for an epoch it
 *   was fenced in; does not turn in circles;
 * - in the end all is read, all is put out, and all tasks close.
 */
#ifndef BATON_TESTS_SIM_CHECKS_H
#define BATON_TESTS_SIM_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/kafka_model.h"
#include "tests/sim/store_model.h"

struct world;
struct sim_report;
struct sim_task;

struct checks_vector { /* T1 of one commit */
    int64_t of[KAFKA_PARTITIONS_MAX];
};

struct checks {
    bool failed;
    char text[256];
    int64_t committed[KAFKA_PARTITIONS_MAX];            /* T1 as it was accepted */
    int64_t highest[KAFKA_PARTITIONS_MAX];              /* of all T1 that ever were */
    uint64_t stamped[KAFKA_PARTITIONS_MAX];             /* epoch of the accepted commit */
    uint32_t outputs[KAFKA_PARTITIONS_MAX][KAFKA_KEYS]; /* accepted ones, of each key */
    uint64_t released[KAFKA_PROCESSORS_MAX];            /* highest epoch that was said to be */
    struct {
        struct checks_vector *items;
        size_t count, capacity;
    } vectors[KAFKA_PROCESSORS_MAX]; /* all that were accepted */
};

void checks_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct kafka_watcher checks_watcher(struct world *world);

/* An offset that the coordinator commits at the start. */
void checks_start(struct world *world, size_t partition, int64_t offset);
void checks_started(struct world *world); /* all of them have been told */
void checks_finish(struct checks *checks);
void checks_core(struct world *world, struct sim_task *task, int phase_before);
void checks_init(struct world *world, const struct sim_task *task);
void checks_followed(struct world *world, const struct sim_task *task);
void checks_released(struct world *world, const struct sim_report *report); /* it says so */
void checks_believed(struct world *world,
                     const struct sim_report *report); /* the coordinator does */
void checks_disk(struct world *world, const struct sim_task *task);
void checks_turn(struct world *world, struct sim_task *task);
/* Everything has come to rest: is it done, or rightly halted? */
void checks_end(struct world *world);
/* No copy can go on: T2 of every disk, or T1, is no longer in the log. */
bool checks_is_halted(const struct world *world, uint32_t processor);

#endif
