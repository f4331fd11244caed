/*
 * The writing side of one activation: one librdkafka producer, transactional for exactly_once,
 * idempotent for at_least_once.
 *
 * Owned by the task's thread and made anew for every activation (a learner makes it ahead, so that
 * it is connected when it is needed): after a transactional call that failed or whose end nobody
 * knows the producer is destroyed and the activation starts over (D9: no KIP-890). Being
 * initialised is what fences all earlier producers of the same transactional.id.
 *
 * Errors of all calls: ERR_FENCED: a newer producer is at work. ERR_NOT_FOUND: a topic does not
 * exist. ERR_INVALID: refused for good (too large, not allowed): trying again at once is no use.
 * Any other: it may go better with a new producer. After each of them the producer is to be
 * destroyed.
 */
#ifndef BATON_AGENT_PRODUCER_H
#define BATON_AGENT_PRODUCER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/processor.h"
#include "common/err.h"
#include "common/opts.h"

struct producer;

struct producer_config { /* borrowed during producer_create */
    const struct opts_kafka *kafka;
    const char *client_id;
    const char *transactional_id; /* NULL: no transactions */
    const char *output;           /* topic; NULL: none */
    const char *dead_letter;      /* topic; NULL: none */
    bool provenance;              /* adds baton-topic, baton-partition, baton-offset headers */
};

enum err_code producer_create(const struct producer_config *config, struct producer **ret_producer,
                              struct err *reterr) MUSTCHECK;

/* Gives up what is not committed. Blocks up to half a second, while outputs are on their way to a
   broker that does not answer. NULL is fine. */
void producer_destroy(struct producer *producer);

/* Once. init_transactions; nothing without transactions. Blocks up to timeout_ms. */
enum err_code producer_init(struct producer *producer, int timeout_ms,
                            struct err *reterr) MUSTCHECK;

enum producer_topic { PRODUCER_TOPIC_OUTPUT, PRODUCER_TOPIC_DEAD_LETTER };

/*
 * Sends one message, in a transaction that is begun when none is open. Timestamp of `record`;
 * headers of the output, or of the record when it has none. Copies. Waits up to timeout_ms while
 * the client's queue is full, then ERR_TIMEOUT.
 */
enum err_code producer_send(struct producer *producer, enum producer_topic topic,
                            const struct baton_record *record, const struct baton_output *output,
                            int timeout_ms, struct err *reterr) MUSTCHECK;

/* Sends the record itself to the dead letter topic, with headers baton-error and its place added.
 */
enum err_code producer_send_dead(struct producer *producer, const struct baton_record *record,
                                 const char *error, int timeout_ms, struct err *reterr) MUSTCHECK;

/*
 * Transactional: outputs and `offsets` in one transaction. Otherwise waits until all outputs are
 * acknowledged (the caller commits the offsets then). Blocks up to about 2 * timeout_ms.
 */
enum err_code producer_commit(struct producer *producer,
                              const rd_kafka_topic_partition_list_t *offsets, const char *group_id,
                              int timeout_ms, struct err *reterr) MUSTCHECK;

/* Serves delivery reports; an error when an output was refused or the client broke. */
enum err_code producer_poll(struct producer *producer, struct err *reterr) MUSTCHECK;

#endif
