/* What the files of the Kafka thread share. All of it is that thread's, but where said otherwise.
 */
#ifndef BATON_COORDINATOR_KAFKA_PRIVATE_H
#define BATON_COORDINATOR_KAFKA_PRIVATE_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>

#include "common/mailbox.h"
#include "coordinator/kafka.h"
#include "coordinator/kafka_versions.h"

/* One blocking call into librdkafka waits at most this long, so that a stop does not wait longer.
 */
#define KAFKA_SLICE_MS   2000
#define KAFKA_BACKOFF_MS 250

struct kafka {
    const struct opts_kafka *options;
    void (*deliver)(void *context, struct kafka_result *result);
    void *context;
    rd_kafka_t *client;    /* read_uncommitted consumer without a group: admin calls and ends */
    rd_kafka_t *committed; /* read_committed consumer: last stable offsets */
    struct kafka_versions *versions; /* any thread: librdkafka's log callbacks write it */
    struct mailbox *mailbox;         /* of struct kafka_call */
    bool transactions_seen;          /* the probe succeeded once: brokers do not forget how */
    bool started;
    pthread_t thread;
    int stop_fd; /* eventfd: readable from the moment of the stop on */
    /* Atomic. */
    bool stop, answered;
    struct kafka_counts counts;
};

/* ---- kafka_client.c */

struct kafka_property {
    const char *name, *value;
};

/* A client with the operator's options and these over them. `kafka` may be NULL to check only. */
enum err_code kafka_client_create(struct kafka *kafka, const struct opts_kafka *options,
                                  rd_kafka_type_t type, const struct kafka_property *properties,
                                  size_t property_count, rd_kafka_t **ret_client,
                                  struct err *reterr) MUSTCHECK;

/* ---- kafka.c: a new `client` in place of the old one, of which nothing may be in use */
void kafka_renew_client(struct kafka *kafka);

/* ---- kafka.c: time and failures */

/* False when the deadline has passed or the thread is to stop; else waits a moment. */
bool kafka_backoff(struct kafka *kafka, int64_t deadline_ms) MUSTCHECK;
bool kafka_stopping(const struct kafka *kafka);
int kafka_slice(int64_t deadline_ms); /* timeout of one blocking call, >= 1 */
bool kafka_retriable(rd_kafka_resp_err_t code);

/* Sets *reterr: ERR_KAFKA for what repeating can not help, else ERR_UNAVAILABLE, retriable. */
enum err_code kafka_fail(struct err *reterr, rd_kafka_resp_err_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- kafka_admin.c: questions and one command, each tried until `deadline_ms` */

struct kafka_admin {
    struct kafka *kafka;
    rd_kafka_AdminOptions_t *options;
    rd_kafka_queue_t *queue;
};
struct kafka_admin kafka_admin_begin(struct kafka *kafka, rd_kafka_admin_op_t kind);
/* The answer, to be destroyed, or NULL with the code. */
rd_kafka_event_t *kafka_admin_await(struct kafka_admin *admin, rd_kafka_resp_err_t *ret_code);
/* `code`: how it ended. */
void kafka_admin_end(struct kafka_admin *admin, rd_kafka_resp_err_t code);

/* Existence and count of partitions; all of them have a leader. */
enum err_code kafka_ask_topic(struct kafka *kafka, const char *name, int64_t deadline_ms,
                              struct kafka_topic *ret_topic, struct err *reterr) MUSTCHECK;
/* Retention and cleanup policy of one that exists. */
enum err_code kafka_ask_topic_config(struct kafka *kafka, int64_t deadline_ms,
                                     struct kafka_topic *topic, struct err *reterr) MUSTCHECK;

enum kafka_edge { KAFKA_EDGE_LOG_START, KAFKA_EDGE_STABLE_END, KAFKA_EDGE_END };
/* Sets the offsets of `offsets` to that edge of each partition: all, or none on failure. */
enum err_code kafka_ask_edge(struct kafka *kafka, enum kafka_edge edge, int64_t deadline_ms,
                             rd_kafka_topic_partition_list_t *offsets,
                             struct err *reterr) MUSTCHECK;

/* The list that comes back has offset < 0 where none is stored, and metadata where it is. */
enum err_code kafka_ask_committed(struct kafka *kafka, const char *group_id,
                                  const rd_kafka_topic_partition_list_t *partitions,
                                  int64_t deadline_ms,
                                  rd_kafka_topic_partition_list_t **ret_committed,
                                  struct err *reterr) MUSTCHECK;
enum err_code kafka_alter_committed(struct kafka *kafka, const char *group_id,
                                    const rd_kafka_topic_partition_list_t *offsets,
                                    int64_t deadline_ms, struct err *reterr) MUSTCHECK;

/* ---- kafka_groups.c */

struct kafka_described {
    rd_kafka_resp_err_t code; /* an error: all but `listed` says nothing */
    uint32_t members;
    char *who; /* or NULL; free() */
    rd_kafka_consumer_group_state_t state;
    bool listed; /* a broker has it */
};
/* What the brokers' list (or NULL) says of these groups; one that it lacks is nobody's. Overwrites
 * `items`. */
void kafka_groups_take(const struct rd_kafka_group_list *list, const char **ids, size_t count,
                       struct kafka_described *items);

/* Who is in the group; *ret_state NULL (else to be freed): there is no such group. */
enum err_code kafka_ask_group(struct kafka *kafka, const char *group_id, int64_t deadline_ms,
                              struct kafka_group *ret_group, char **ret_state,
                              struct err *reterr) MUSTCHECK;

/* ---- kafka_inspect.c, kafka_groups.c, kafka_sample.c, kafka_fence.c: the calls; failures are said
 * in *result */

void kafka_inspect(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_commit(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_sample(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_fence(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_groups(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_claim(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_topics(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_stamps(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result);
void kafka_create_partitions(struct kafka *kafka, const struct kafka_call *call,
                             struct kafka_result *result); /* kafka_partitions.c */
void kafka_result_fail(struct kafka_result *result, const struct err *err);

/* init_transactions once, by a producer that is destroyed then. */
enum err_code kafka_init_transactions(struct kafka *kafka, const char *transactional_id,
                                      int64_t deadline_ms, struct err *reterr) MUSTCHECK;

#endif
