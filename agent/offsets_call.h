/*
 * rd_kafka_send_offsets_to_transaction, with an end. librdkafka (2.0 to 2.14 at least, issue 5456)
 * does not keep that call's timeout while the group's coordinator is away, and may never return: a
 * task that waited for it could not be stopped, and would not even say what it waits for. So it
 * is called in a thread of its own, and one that does not return is left behind with its client.
 */
#ifndef BATON_AGENT_OFFSETS_CALL_H
#define BATON_AGENT_OFFSETS_CALL_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "common/err.h"

struct offsets_call;

/*
 * ERR_NONE: it has returned; `ret_error` is what librdkafka said, NULL for success. ERR_TIMEOUT: it
 * has not within timeout_ms and a little more; `ret_call` is to be given to offsets_call_leave, and
 * the client to be left alone but for that. Other errors: it was not called.
 */
enum err_code offsets_call_run(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *offsets,
                               const char *group_id, int timeout_ms, rd_kafka_error_t **ret_error,
                               struct offsets_call **ret_call, struct err *reterr) MUSTCHECK;

/* Takes `call`. `end` is called with `arg` once it has returned: at once, or by its thread. */
void offsets_call_leave(struct offsets_call *call, void (*end)(void *arg), void *arg);

#endif
