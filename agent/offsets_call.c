#include "agent/offsets_call.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"

/* A call that keeps its timeout returns within so much more: a request in flight is waited for. */
#define SLACK_MS 3000

struct offsets_call {
    rd_kafka_t *client;
    rd_kafka_topic_partition_list_t *offsets;
    rd_kafka_consumer_group_metadata_t *group;
    int timeout_ms;
    pthread_mutex_t lock; /* protects all below; nothing is called under it */
    pthread_cond_t returned_cond;
    bool returned;
    rd_kafka_error_t *error;
    void (*end)(void *arg); /* NULL: whoever called takes care of it */
    void *arg;
};

static struct offsets_call *make(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *offsets,
                                 const char *group_id, int timeout_ms)
{
    struct offsets_call *call = mem_calloc(1, sizeof(*call));
    pthread_condattr_t attributes;

    call->client = client;
    call->offsets = rd_kafka_topic_partition_list_copy(offsets);
    call->group = rd_kafka_consumer_group_metadata_new(group_id);
    call->timeout_ms = timeout_ms;
    /* None of these fails on Linux. */
    (void)pthread_mutex_init(&call->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&call->returned_cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return call;
}

static void destroy(struct offsets_call *call)
{
    if (call->error != NULL)
        rd_kafka_error_destroy(call->error);
    rd_kafka_consumer_group_metadata_destroy(call->group);
    rd_kafka_topic_partition_list_destroy(call->offsets);
    (void)pthread_cond_destroy(&call->returned_cond);
    (void)pthread_mutex_destroy(&call->lock);
    free(call);
}

static void *run(void *arg)
{
    struct offsets_call *call = arg;
    rd_kafka_error_t *error = rd_kafka_send_offsets_to_transaction(call->client, call->offsets,
                                                                   call->group, call->timeout_ms);
    void (*end)(void *arg);

    pthread_mutex_lock(&call->lock);
    call->error = error;
    call->returned = true;
    end = call->end;
    pthread_cond_signal(&call->returned_cond);
    pthread_mutex_unlock(&call->lock);
    if (end != NULL) { /* it was left to itself; otherwise it is gone by now */
        end(call->arg);
        destroy(call);
    }
    return NULL;
}

static enum err_code start(struct offsets_call *call, struct err *reterr)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, run, call);
    (void)pthread_attr_destroy(&attributes);
    return error == 0 ? ERR_NONE
                      : err_set(reterr, ERR_IO, "starting a thread to commit: %s", strerror(error));
}

static struct timespec deadline_in(int64_t timeout_ms)
{
    struct timespec deadline;

    (void)clock_gettime(CLOCK_MONOTONIC, &deadline); /* never fails with this clock */
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    return deadline;
}

static bool wait_for(struct offsets_call *call)
{
    struct timespec deadline = deadline_in((int64_t)call->timeout_ms + SLACK_MS);
    bool returned;
    int error = 0;

    pthread_mutex_lock(&call->lock);
    while (!call->returned && error == 0)
        error = pthread_cond_timedwait(&call->returned_cond, &call->lock, &deadline);
    returned = call->returned;
    pthread_mutex_unlock(&call->lock);
    return returned;
}

enum err_code offsets_call_run(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *offsets,
                               const char *group_id, int timeout_ms, rd_kafka_error_t **ret_error,
                               struct offsets_call **ret_call, struct err *reterr)
{
    struct offsets_call *call = make(client, offsets, group_id, timeout_ms);
    enum err_code code = start(call, reterr);

    if (code == ERR_NONE && !wait_for(call)) {
        *ret_call = call;
        return err_set(reterr, ERR_TIMEOUT,
                       "send_offsets_to_transaction: no end within %d ms; the broker that "
                       "coordinates group %s does not answer",
                       timeout_ms, group_id);
    }
    if (code == ERR_NONE) {
        *ret_error = call->error;
        call->error = NULL;
    }
    destroy(call);
    return code;
}

void offsets_call_leave(struct offsets_call *call, void (*end)(void *arg), void *arg)
{
    bool returned;

    assert(end != NULL);
    pthread_mutex_lock(&call->lock);
    returned = call->returned;
    call->end = end;
    call->arg = arg;
    pthread_mutex_unlock(&call->lock);
    if (!returned)
        return;
    end(arg);
    destroy(call);
}
