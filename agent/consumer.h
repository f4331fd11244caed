/*
 * The reading side of one task: a librdkafka consumer with explicit assignments and a queue for
 * each partition.
 *
 * Owned by the task's thread. It never subscribes and never commits by itself; offsets are explicit
 * and the reset policy is "error", so a position outside of the log shows up instead of being moved
 * (D3.7). A partition is held back by not reading its queue; nothing is ever paused (batch
 * consuming with pause/resume skips records in librdkafka 2.0.2, D9).
 *
 * Items of one partition come in the order of offsets. `wake` is called by librdkafka's threads
 * when a queue that was empty has something again, and not any more once consumer_destroy has
 * returned.
 *
 * What waits in the queues is limited for the task as a whole: queued.* count per queue, so each of
 * many partitions gets a small share.
 */
#ifndef BATON_AGENT_CONSUMER_H
#define BATON_AGENT_CONSUMER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/task.h"
#include "common/err.h"
#include "common/opts.h"

struct consumer;

struct consumer_config { /* borrowed; only the partitions must outlive the consumer */
    const struct opts_kafka *kafka;
    const char *client_id;
    const char *group_id;
    char *const *topics;
    size_t topic_count;
    const struct task_partition
        *partitions; /* its (topic, partition) are what `index` refers to below */
    size_t partition_count;
    void (*wake)(void *arg);
    void *wake_arg;
};

/* What the queue of each of so many partitions may hold, unless the operator says otherwise. */
struct consumer_limits {
    int64_t messages, kbytes, fetch_bytes;
};
struct consumer_limits consumer_limits(size_t partition_count);

enum err_code consumer_create(const struct consumer_config *config, struct consumer **ret_consumer,
                              struct err *reterr) MUSTCHECK;
/* NULL is fine. Waits for a request under way, up to socket.timeout.ms. */
void consumer_destroy(struct consumer *consumer);

/* Reads all partitions from `offsets[i]`; what was fetched before is dropped and never comes up
 * again. */
enum err_code consumer_assign(struct consumer *consumer, const int64_t *offsets,
                              struct err *reterr) MUSTCHECK;
void consumer_unassign(struct consumer *consumer);

/*
 * More partitions: `partitions` (as in the configuration, wherever they are now) has those that
 * there were, and others behind them. What the queues may hold was set for fewer. Then
 * consumer_assign_more reads those from index `first` on, as consumer_assign does, and leaves the
 * others alone.
 */
void consumer_grow(struct consumer *consumer, const struct task_partition *partitions,
                   size_t partition_count);
enum err_code consumer_assign_more(struct consumer *consumer, size_t first, const int64_t *offsets,
                                   struct err *reterr) MUSTCHECK;
/* Asks a broker about the topic again; ERR_UNAVAILABLE unless it knows as many partitions. */
enum err_code consumer_refresh(struct consumer *consumer, size_t topic, uint32_t partition_count,
                               int timeout_ms, struct err *reterr) MUSTCHECK;

enum consumer_item_kind {
    CONSUMER_NOTHING, /* nothing fetched at the moment */
    CONSUMER_RECORD,
    CONSUMER_END,     /* the end of partition is at `offset`: nothing readable before it is left */
    CONSUMER_LOST,    /* the position is outside of the log */
    CONSUMER_MISSING, /* the broker says that the topic or the partition does not exist */
    CONSUMER_FAILED /* of this partition; librdkafka tries again by itself, and says so only once */
};

struct consumer_item {
    enum consumer_item_kind kind;
    rd_kafka_message_t *message; /* RECORD; valid until consumer_pop */
    int64_t offset;              /* RECORD, END */
    const char *detail;          /* of all others; valid until consumer_pop */
};

/* The next item of partition `index`, which stays until consumer_pop. Fetches from the queue
 * without blocking. */
void consumer_peek(struct consumer *consumer, size_t index, struct consumer_item *ret_item);
void consumer_pop(struct consumer *consumer, size_t index);

/* Serves callbacks (errors, logs, statistics); call now and then. True: all brokers are down since
 * the last good answer. */
bool consumer_poll(struct consumer *consumer);

/* Why, as the client said it last: a password, a certificate, a port where nobody listens; "" when
 * it said nothing. Valid until the next call. */
const char *consumer_down_reason(const struct consumer *consumer);

/*
 * True: a record came by another way than its partition's queue and was dropped by consumer_poll,
 * which must never happen: assign anew from the positions before anything else is read.
 */
bool consumer_strayed(const struct consumer *consumer);
void consumer_answered(struct consumer *consumer); /* a broker gave one */

/*
 * Committed offsets of the owned partitions with their stamps, stable ones only (an open
 * transaction's are waited for). Blocks up to timeout_ms. Those of others stay as they are. None
 * stored: API_UNKNOWN.
 * ERR_CONFLICT: the broker answers, but a transaction on them stayed open all that time; ERR_KAFKA:
 * this user may not read them; ERR_UNAVAILABLE: everything else.
 */
enum err_code consumer_committed(struct consumer *consumer, int timeout_ms,
                                 struct task_committed *ret_committed,
                                 struct err *reterr) MUSTCHECK;

/*
 * Commits without a transaction (at_least_once): every partition whose `committing` is set, with
 * the task's stamp of it. Blocks up to timeout_ms; the commit may still
 * take effect when it has failed by then.
 */
enum err_code consumer_commit(struct consumer *consumer, const struct task *task, int timeout_ms,
                              struct err *reterr) MUSTCHECK;

/* For transactional commits: the same partitions and stamps. The caller destroys the list. */
rd_kafka_topic_partition_list_t *consumer_commit_list(const struct consumer *consumer,
                                                      const struct task *task);

/*
 * Of the partitions that are `given` nothing is read any more; the others are read on. Called
 * before they leave the list that was given at creation, which has them no more afterwards: the
 * indexes of those behind them go down.
 */
void consumer_forget(struct consumer *consumer);

#endif
