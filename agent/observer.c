#include "agent/observer.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kafka_conf.h"
#include "agent/offsets_retention.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

/* Of one request. A question takes three, one more for each topic when one fails, and two for the
 * policies. */
#define REQUEST_TIMEOUT_MS 1000
#define POLICY_TIMEOUT_MS  5000
/* Brokers are started anew to change it. */
#define RETENTION_INTERVAL_MS INT64_C(3600000)
#define RETENTION_RETRY_MS    60000

/* ListOffsets' names for them. */
#define EDGE_START INT64_C(-2)
#define EDGE_END   INT64_C(-1)

enum watch_state { WATCH_IDLE, WATCH_QUEUED, WATCH_BUSY };

struct observer_watch {
    struct observer *observer;
    rd_kafka_topic_partition_list_t *list; /* fixed: topics and partitions */
    void (*wake)(void *arg);
    void *wake_arg;
    struct task_range *ranges;    /* of the observer's thread while BUSY, else under the lock */
    struct task_policy *policies; /* likewise */
    struct err err;               /* likewise */
    enum err_code code;           /* likewise */
    bool asking_policy;           /* likewise: what the question under way is */

    /* under the observer's lock */
    enum watch_state state;
    bool policy;                 /* whoever asked wants it answered, too */
    bool again;                  /* asked while BUSY: the answer under way is too old */
    bool answered;               /* and not taken */
    bool gone;                   /* nobody wants the answer: to be freed */
    struct observer_watch *next; /* QUEUED */
};

struct observer {
    rd_kafka_t *committed, *uncommitted;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the queue, `stopping` and the watches' part; only `wake` is
                             called under it */
    pthread_cond_t changed;
    bool stopping;
    struct observer_watch *first, *last;
    atomic_int_least64_t retention_ms; /* of committed offsets; API_UNKNOWN */
    int64_t retention_due_ms;          /* the observer's thread's own, as is the next */
    bool retention_refused;            /* and logged */
};

/* ---- questions */

/*
 * librdkafka remembers that a partition had no leader (a broker that was away for a moment) and
 * answers from that memory, without asking again, until its next refresh minutes later. So after a
 * failure it is made to ask. The answer also says whether the topics are there.
 */
static rd_kafka_resp_err_t refresh_topic(rd_kafka_t *client, const char *name, int timeout_ms)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error;

    if (topic == NULL)
        return rd_kafka_last_error();
    error = rd_kafka_metadata(client, 0, topic, &metadata, timeout_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (metadata->topic_cnt > 0)
            error = metadata->topics[0].err;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(topic);
    return error;
}

static bool is_missing(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           error == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
}

/* What to say of a request that failed with `error`. */
static enum err_code explain(const struct observer_watch *watch, rd_kafka_t *client,
                             rd_kafka_resp_err_t error, struct err *reterr)
{
    int64_t deadline_ms = clock_mono_ms() + REQUEST_TIMEOUT_MS;
    const char *before = "";

    for (int i = 0; i < watch->list->cnt; i++) {
        const char *name = watch->list->elems[i].topic;
        int64_t left_ms = deadline_ms - clock_mono_ms();
        rd_kafka_resp_err_t topic_error;

        if (strcmp(name, before) == 0)
            continue; /* partitions of one topic stand together */
        if (left_ms <= 0)
            break;
        before = name;
        topic_error = refresh_topic(client, name, (int)left_ms);
        if (is_missing(topic_error))
            return err_set(reterr, ERR_NOT_FOUND, "topic %s: %s", name,
                           rd_kafka_err2str(topic_error));
    }
    return err_set(reterr, ERR_UNAVAILABLE, "asking for log start and end: %s",
                   rd_kafka_err2str(error));
}

/* ListOffsets for all partitions in one request a broker; gives a list that the caller destroys. */
static enum err_code list_offsets(const struct observer_watch *watch, rd_kafka_t *client,
                                  int64_t which, rd_kafka_topic_partition_list_t **ret_list,
                                  struct err *reterr)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(watch->list);
    rd_kafka_resp_err_t error;

    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = which;
    error = rd_kafka_offsets_for_times(client, list, REQUEST_TIMEOUT_MS);
    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        error = list->elems[i].err;
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[i].offset < 0)
            error = RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE;
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        *ret_list = list;
        return ERR_NONE;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return explain(watch, client, error, reterr);
}

/* Fills in watch->ranges. The stable end comes before the end: what lies between them then is not
 * just what was written meanwhile. */
static enum err_code ask_brokers(struct observer_watch *watch, struct err *reterr)
{
    struct observer *observer = watch->observer;
    rd_kafka_topic_partition_list_t *starts = NULL, *stable = NULL, *ends = NULL;
    enum err_code code = list_offsets(watch, observer->committed, EDGE_START, &starts, reterr);

    if (code == ERR_NONE)
        code = list_offsets(watch, observer->committed, EDGE_END, &stable, reterr);
    if (code == ERR_NONE)
        code = list_offsets(watch, observer->uncommitted, EDGE_END, &ends, reterr);
    for (int i = 0; i < watch->list->cnt && code == ERR_NONE; i++)
        watch->ranges[i] = (struct task_range){.log_start = starts->elems[i].offset,
                                               .stable_end = stable->elems[i].offset,
                                               .end = ends->elems[i].offset};
    if (starts != NULL)
        rd_kafka_topic_partition_list_destroy(starts);
    if (stable != NULL)
        rd_kafka_topic_partition_list_destroy(stable);
    if (ends != NULL)
        rd_kafka_topic_partition_list_destroy(ends);
    return code;
}

/* ---- policies */

/* Who does not say how it cleans may do anything. */
static const struct task_policy worst_policy = {.compacted = true, .delete_retention_ms = 0};

static struct task_policy read_policy(const rd_kafka_ConfigResource_t *resource)
{
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
    struct task_policy policy = worst_policy;

    for (size_t i = 0; i < count; i++) {
        const char *name = rd_kafka_ConfigEntry_name(entries[i]);
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);

        if (value == NULL)
            continue;
        if (strcmp(name, "cleanup.policy") == 0)
            policy.compacted = strstr(value, "compact") != NULL;
        else if (strcmp(name, "delete.retention.ms") == 0)
            policy.delete_retention_ms = strtoll(value, NULL, 10); /* Kafka's own number, >= 0 */
    }
    return policy;
}

/* Takes what is said of one topic. */
static enum err_code take_policy(struct observer_watch *watch,
                                 const rd_kafka_ConfigResource_t *resource, struct err *reterr)
{
    const char *name = rd_kafka_ConfigResource_name(resource);
    rd_kafka_resp_err_t error = rd_kafka_ConfigResource_error(resource);

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, is_missing(error) ? ERR_NOT_FOUND : ERR_UNAVAILABLE,
                       "configuration of topic %s: %s", name, rd_kafka_err2str(error));
    for (int i = 0; i < watch->list->cnt; i++) {
        if (strcmp(watch->list->elems[i].topic, name) == 0)
            watch->policies[i] = read_policy(resource);
    }
    return ERR_NONE;
}

static enum err_code take_policies(struct observer_watch *watch, rd_kafka_event_t *event,
                                   struct err *reterr)
{
    enum err_code code = ERR_NONE;
    size_t count = 0;
    const rd_kafka_ConfigResource_t **resources;

    if (event == NULL || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return err_set(reterr, ERR_UNAVAILABLE, "asking for the configuration of topics: %s",
                       rd_kafka_err2str(event == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT
                                                      : rd_kafka_event_error(event)));
    resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count);
    for (size_t i = 0; i < count && code == ERR_NONE; i++)
        code = take_policy(watch, resources[i], reterr);
    return code;
}

static bool is_listed(rd_kafka_ConfigResource_t *const *topics, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rd_kafka_ConfigResource_name(topics[i]), name) == 0)
            return true;
    }
    return false;
}

/* Fills in watch->policies where there is an answer. */
static enum err_code ask_policies(struct observer_watch *watch, struct err *reterr)
{
    rd_kafka_t *client = watch->observer->committed;
    rd_kafka_ConfigResource_t **topics = mem_calloc((size_t)watch->list->cnt, sizeof(*topics));
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *answers = rd_kafka_queue_new(client);
    rd_kafka_event_t *event;
    enum err_code code;
    char text[128];
    size_t count = 0;
    /* Never fails for this kind of request. */
    rd_kafka_resp_err_t error =
        rd_kafka_AdminOptions_set_request_timeout(options, POLICY_TIMEOUT_MS, text, sizeof(text));

    assert(error == RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int i = 0; i < watch->list->cnt; i++) {
        const char *name = watch->list->elems[i].topic;

        if (!is_listed(topics, count, name)) /* they need not stand together (task_grow) */
            topics[count++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name);
    }
    rd_kafka_DescribeConfigs(client, topics, count, options, answers);
    event = rd_kafka_queue_poll(answers, POLICY_TIMEOUT_MS + REQUEST_TIMEOUT_MS);
    code = take_policies(watch, event, reterr);
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy_array(topics, count);
    rd_kafka_queue_destroy(answers); /* an answer that comes later is dropped */
    rd_kafka_AdminOptions_destroy(options);
    free(topics);
    return code;
}

/* ---- watches; all with the lock held */

static void put_in_queue(struct observer *observer, struct observer_watch *watch)
{
    watch->state = WATCH_QUEUED;
    watch->next = NULL;
    if (observer->last == NULL)
        observer->first = watch;
    else
        observer->last->next = watch;
    observer->last = watch;
    (void)pthread_cond_signal(&observer->changed); /* never fails on a valid condition */
}

static void take_from_queue(struct observer *observer, struct observer_watch *watch)
{
    struct observer_watch *before = NULL;

    for (struct observer_watch *each = observer->first; each != watch; each = each->next)
        before = each;
    if (before == NULL)
        observer->first = watch->next;
    else
        before->next = watch->next;
    if (observer->last == watch)
        observer->last = before;
    watch->next = NULL;
}

static void free_watch(struct observer_watch *watch)
{
    rd_kafka_topic_partition_list_destroy(watch->list);
    free(watch->ranges);
    free(watch->policies);
    free(watch);
}

static void give_answer(struct observer *observer, struct observer_watch *watch)
{
    watch->state = WATCH_IDLE;
    if (watch->gone) {
        free_watch(watch);
    } else if (watch->again) {
        watch->again = false;
        put_in_queue(observer, watch);
    } else {
        watch->answered = true;
        watch->wake(watch->wake_arg);
    }
}

/* ---- retention of committed offsets */

/* What was known before is kept when there is no answer: the hourly renewal, or a shorter one. */
static void ask_retention(struct observer *observer)
{
    struct err err;
    int64_t retention_ms;

    if (offsets_retention_ask(observer->committed, REQUEST_TIMEOUT_MS, &retention_ms, &err) ==
        ERR_NONE) {
        atomic_store(&observer->retention_ms, retention_ms);
        observer->retention_refused = false;
        observer->retention_due_ms = clock_mono_ms() + RETENTION_INTERVAL_MS;
        return;
    }
    if (!observer->retention_refused)
        log_warn("offsets_retention_unknown", LOG_STR("detail", err.text),
                 LOG_STR("consequence", "unmoved offsets are committed again every hour"), LOG_END);
    observer->retention_refused = true;
    observer->retention_due_ms = clock_mono_ms() + RETENTION_RETRY_MS;
}

/* With the lock held, and nobody in the queue: questions of tasks go first. */
static void rest(struct observer *observer)
{
    struct timespec until;

    if (clock_mono_ms() >= observer->retention_due_ms) {
        pthread_mutex_unlock(&observer->lock);
        ask_retention(observer);
        pthread_mutex_lock(&observer->lock);
        return;
    }
    until.tv_sec = observer->retention_due_ms / 1000;
    until.tv_nsec = observer->retention_due_ms % 1000 * 1000000;
    /* Whether woken or late, the loop looks again. */
    (void)pthread_cond_timedwait(&observer->changed, &observer->lock, &until);
}

static void *run(void *arg)
{
    struct observer *observer = arg;

    pthread_mutex_lock(&observer->lock);
    while (!observer->stopping) {
        struct observer_watch *watch = observer->first;

        if (watch == NULL) {
            rest(observer);
            continue;
        }
        take_from_queue(observer, watch);
        watch->state = WATCH_BUSY;
        watch->asking_policy = watch->policy;
        watch->policy = false;
        pthread_mutex_unlock(&observer->lock);
        watch->code = ask_brokers(watch, &watch->err);
        for (int i = 0; i < watch->list->cnt; i++)
            watch->policies[i] = worst_policy;
        if (watch->code == ERR_NONE && watch->asking_policy)
            watch->code = ask_policies(watch, &watch->err);
        pthread_mutex_lock(&observer->lock);
        give_answer(observer, watch);
    }
    pthread_mutex_unlock(&observer->lock);
    return NULL;
}

/* ---- what tasks call */

struct observer_watch *observer_watch(struct observer *observer,
                                      const struct observer_watch_config *config)
{
    struct observer_watch *watch = mem_calloc(1, sizeof(*watch));

    watch->observer = observer;
    watch->wake = config->wake;
    watch->wake_arg = config->wake_arg;
    watch->ranges = mem_calloc(config->partition_count, sizeof(*watch->ranges));
    watch->policies = mem_calloc(config->partition_count, sizeof(*watch->policies));
    watch->list = rd_kafka_topic_partition_list_new((int)config->partition_count);
    for (size_t i = 0; i < config->partition_count; i++)
        (void)rd_kafka_topic_partition_list_add(watch->list,
                                                config->topics[config->partitions[i].topic],
                                                (int32_t)config->partitions[i].partition);
    return watch;
}

void observer_unwatch(struct observer_watch *watch)
{
    struct observer *observer = watch == NULL ? NULL : watch->observer;

    if (watch == NULL)
        return;
    pthread_mutex_lock(&observer->lock);
    if (watch->state == WATCH_QUEUED)
        take_from_queue(observer, watch);
    if (watch->state == WATCH_BUSY)
        watch->gone = true;
    else
        free_watch(watch);
    pthread_mutex_unlock(&observer->lock);
}

void observer_ask(struct observer_watch *watch, bool policy)
{
    struct observer *observer = watch->observer;

    pthread_mutex_lock(&observer->lock);
    watch->answered = false;
    watch->policy = watch->policy || policy;
    if (watch->state == WATCH_IDLE)
        put_in_queue(observer, watch);
    else if (watch->state == WATCH_BUSY)
        watch->again = true;
    pthread_mutex_unlock(&observer->lock);
}

bool observer_take(struct observer_watch *watch, enum err_code *ret_code,
                   struct task_range *ret_ranges, struct task_policy *ret_policies,
                   struct err *reterr)
{
    bool answered;

    pthread_mutex_lock(&watch->observer->lock);
    answered = watch->answered;
    watch->answered = false;
    pthread_mutex_unlock(&watch->observer->lock);
    if (!answered)
        return false;
    /* Nobody else touches the answer until it is asked again, which only the caller does. */
    *ret_code = watch->code;
    if (watch->code == ERR_NONE) {
        memcpy(ret_ranges, watch->ranges, (size_t)watch->list->cnt * sizeof(*ret_ranges));
        memcpy(ret_policies, watch->policies, (size_t)watch->list->cnt * sizeof(*ret_policies));
    } else if (reterr != NULL) {
        *reterr = watch->err;
    }
    return true;
}

int64_t observer_offsets_retention_ms(const struct observer *observer)
{
    return atomic_load(&observer->retention_ms);
}

/* ---- life */

static enum err_code create_client(const struct opts_kafka *kafka, const char *client_id,
                                   const char *isolation, rd_kafka_t **ret_client,
                                   struct err *reterr)
{
    const struct kafka_conf_item items[] = {
        {"client.id", client_id, false, false},
        {"socket.timeout.ms", "10000", false, false},
        {"isolation.level", isolation, false, true},
        {"allow.auto.create.topics", "false", false, true},
    };
    rd_kafka_conf_t *conf;
    enum err_code code =
        kafka_conf_create(items, sizeof(items) / sizeof(items[0]), kafka, &conf, reterr);

    return code != ERR_NONE ? code : kafka_conf_client(RD_KAFKA_CONSUMER, conf, ret_client, reterr);
}

static enum err_code start(struct observer *observer, struct err *reterr)
{
    int error = pthread_create(&observer->thread, NULL, run, observer);

    return error == 0
               ? ERR_NONE
               : err_set(reterr, ERR_IO, "starting the observer's thread: %s", strerror(error));
}

static void free_observer(struct observer *observer)
{
    if (observer->committed != NULL)
        rd_kafka_destroy(observer->committed);
    if (observer->uncommitted != NULL)
        rd_kafka_destroy(observer->uncommitted);
    pthread_cond_destroy(&observer->changed);
    pthread_mutex_destroy(&observer->lock);
    free(observer);
}

enum err_code observer_create(const struct opts_kafka *kafka, const char *client_id,
                              struct observer **ret_observer, struct err *reterr)
{
    struct observer *observer = mem_calloc(1, sizeof(*observer));
    pthread_condattr_t monotonic;
    enum err_code code;

    /* None of them fails on Linux. */
    (void)pthread_mutex_init(&observer->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&observer->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    atomic_init(&observer->retention_ms, API_UNKNOWN);
    code = create_client(kafka, client_id, "read_committed", &observer->committed, reterr);
    if (code == ERR_NONE)
        code = create_client(kafka, client_id, "read_uncommitted", &observer->uncommitted, reterr);
    if (code == ERR_NONE)
        code = start(observer, reterr);
    if (code != ERR_NONE) {
        free_observer(observer);
        return code;
    }
    *ret_observer = observer;
    return ERR_NONE;
}

void observer_destroy(struct observer *observer)
{
    int error;

    if (observer == NULL)
        return;
    pthread_mutex_lock(&observer->lock);
    assert(observer->first == NULL);
    observer->stopping = true;
    (void)pthread_cond_signal(&observer->changed); /* never fails on a valid condition */
    pthread_mutex_unlock(&observer->lock);
    error = pthread_join(observer->thread, NULL);
    assert(error == 0);
    free_observer(observer);
}
