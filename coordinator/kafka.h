/*
 * The coordinator's hands at Kafka: one thread that carries out the calls of
 * coordinator/core/update.h, one after the other in the order in which they were posted, and
 * delivers one result for each.
 *
 * A call is tried again within its own time limit as long as the answer may change by itself (no
 * broker reachable, a group coordinator that is loading, a leader being elected); then it has
 * failed, and whether it still matters is the core's to decide. What a broker did not say stays
 * unknown; it is never taken for 0 or for "none" (D1, S10).
 *
 * Everything that the operator gives as kafka.* goes to librdkafka; baton's own properties are set
 * over them. Any thread may call kafka_post and the readers; create, start and stop are main's.
 */
#ifndef BATON_COORDINATOR_KAFKA_H
#define BATON_COORDINATOR_KAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/opts.h"
#include "coordinator/core/update.h"

#define KAFKA_CALLS_MAX 4000 /* posted and not yet delivered */

struct kafka;

/*
 * Checks the options, which are borrowed for the life of the object (ERR_INVALID names the key),
 * and makes the clients; they connect in the background, so brokers that are down are no failure.
 */
enum err_code kafka_create(const struct opts_kafka *options, struct kafka **ret_kafka,
                           struct err *reterr) MUSTCHECK;
/* `deliver` is called by the Kafka thread and takes the result: kafka_result_finish, then free().
 */
enum err_code kafka_start(struct kafka *kafka,
                          void (*deliver)(void *context, struct kafka_result *result),
                          void *context, struct err *reterr) MUSTCHECK;

/* Ends the thread: the call under way is given up, those that wait are dropped. NULL is fine. */
void kafka_stop(struct kafka *kafka);
void kafka_destroy(struct kafka *kafka);

/* Takes the call's content; false (too many, or stopped): it is the caller's still. */
bool kafka_post(struct kafka *kafka, struct kafka_call *call) MUSTCHECK;

bool kafka_answered(const struct kafka *kafka); /* a broker has answered since the start */

struct kafka_counts { /* by enum kafka_call_kind */
    uint64_t calls[KAFKA_CALL_COUNT], failures[KAFKA_CALL_COUNT];
};
void kafka_count(const struct kafka *kafka, struct kafka_counts *ret_counts);
const char *kafka_call_name(enum kafka_call_kind kind);

#endif
