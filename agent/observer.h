/*
 * Asks the brokers where partitions start and end, and whether topics are compacted, for all tasks
 * of the agent; and, when it has nothing else to do, how long they keep committed offsets.
 *
 * It has a thread and two clients of its own: read_committed for stable ends, read_uncommitted for
 * ends (D9). A task's own client would answer behind its fetches (200 ms at full load, measured),
 * and a partition without a leader would hold up the task's thread until the time is over.
 *
 * Questions are answered one after the other. A watch belongs to one thread, its task's; the
 * observer itself to the thread that makes it.
 *
 *   task thread --observer_ask--> observer's thread --wake--> task thread --observer_take
 */
#ifndef BATON_AGENT_OBSERVER_H
#define BATON_AGENT_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/core/task.h"
#include "common/err.h"
#include "common/opts.h"

struct observer;
struct observer_watch;

enum err_code observer_create(const struct opts_kafka *kafka, const char *client_id,
                              struct observer **ret_observer, struct err *reterr) MUSTCHECK;

/* After the last watch is gone. Waits for the question under way, some seconds at most. NULL is
 * fine. */
void observer_destroy(struct observer *observer);

struct observer_watch_config { /* borrowed during observer_watch */
    char *const *topics;
    const struct task_partition *partitions; /* `topic` is an index of `topics` */
    size_t partition_count;
    void (*wake)(void *arg); /* there is an answer; called by the observer's thread, must not block
                                and must not call the observer */
    void *wake_arg;
};

struct observer_watch *observer_watch(struct observer *observer,
                                      const struct observer_watch_config *config);
/* Returns at once; `wake` is not called any more. NULL is fine. */
void observer_unwatch(struct observer_watch *watch);

/*
 * Asks; the answer is newer than this call. An answer that was not taken before is dropped.
 * `policy`: how the topics are cleaned is asked, too (D3.6); else the worst is said: compacted, and
 * no tombstone is kept.
 */
void observer_ask(struct observer_watch *watch, bool policy);

/*
 * False: there is no answer (yet). True, once for each answer: either ret_code is ERR_NONE and
 * ret_ranges and ret_policies, one for each partition, are known in full; or it says why not
 * (ERR_NOT_FOUND: a topic does not exist or may not be described; ERR_UNAVAILABLE), with reterr.
 */
bool observer_take(struct observer_watch *watch, enum err_code *ret_code,
                   struct task_range *ret_ranges, struct task_policy *ret_policies,
                   struct err *reterr) MUSTCHECK;

/* How long the brokers keep the committed offsets of a job that stands still, in ms, as of the last
 * hour; API_UNKNOWN: they have not said, which is logged once. Any thread. */
int64_t observer_offsets_retention_ms(const struct observer *observer);

#endif
