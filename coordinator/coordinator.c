#include "coordinator/coordinator.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mailbox.h"
#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/rows.h"
#include "coordinator/publish_pace.h"
#include "coordinator/recovery_log.h"

#define MAILBOX_CAPACITY                                                                           \
    4096 /* above KAFKA_CALLS_MAX: results have as many places of their own                        \
          */
#define LOAD_BACKOFF_MS     100
#define LOAD_BACKOFF_MS_MAX 5000

enum message_kind { MESSAGE_EVENT, MESSAGE_QUERY };

struct message { /* to the owner: from HTTP threads, and from the Kafka thread (COORD_EVENT_KAFKA)
                  */
    enum message_kind kind;
    union {
        struct coord_event event;
        struct archive_query query;
    };
};

struct coordinator {
    struct coordinator_config config;
    struct mailbox *mailbox; /* of struct message */
    struct kafka *kafka;
    bool started;
    pthread_t thread;
    struct prom_histogram commit_times; /* any thread reads it */
    struct metrics_handoffs handoffs;   /* any thread reads it */

    /* Atomic. */
    bool stop, working;
    struct coordinator_counts counts;

    /* The owner's alone, from coordinator_start on. */
    struct store *store;
    struct cluster cluster;
    bool loaded; /* the cluster is filled in */
    struct rng rng;
    int64_t wake_ms;
    int64_t load_ms; /* when to try to load again */
    int64_t load_backoff_ms;
    struct publish_dirty dirty;
    struct publish_pace pace;
    struct archive archive;
    struct recovery_log recovery_log;
    struct { /* calls that the Kafka thread had no place for, as failed ones: steps of their own */
        struct kafka_result *items;
        size_t count, capacity;
    } refused_calls;
};

static const struct prom_histogram commit_times_empty = {
    .limits_us = {250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
                  2500000, 5000000}};

static void count(uint64_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* ---- answers */

static void answer(void *context, struct answer *answer)
{
    const struct coordinator *coordinator = context;
    coordinator->config.answer(coordinator->config.context, answer);
}

static void answer_store_failed(struct coordinator *coordinator, uint64_t request)
{
    if (request == 0)
        return;
    struct answer failed = archive_problem(
        request, "store_failed",
        "the database could not be written; look whether the change is there before you repeat it");
    answer(coordinator, &failed);
}

/* ---- publishing */

static void publish(struct coordinator *coordinator)
{
    int64_t start_ms = clock_thread_ms();
    publish_build(coordinator->config.publisher, &coordinator->cluster, clock_mono_ms(),
                  &coordinator->dirty);
    publish_pace_done(&coordinator->pace, clock_thread_ms() - start_ms, clock_mono_ms());
    count(&coordinator->counts.publications);
}

/* INT64_MAX: nothing is to be published. */
static int64_t publish_due_ms(const struct coordinator *coordinator)
{
    if (!coordinator->loaded || !publish_is_dirty(&coordinator->dirty))
        return INT64_MAX;
    return publish_pace_due_ms(&coordinator->pace);
}

static void publish_if_due(struct coordinator *coordinator)
{
    if (clock_mono_ms() >= publish_due_ms(coordinator))
        publish(coordinator);
}

/* ---- the store fails */

static void set_working(struct coordinator *coordinator, bool working)
{
    __atomic_store_n(&coordinator->working, working, __ATOMIC_RELEASE);
}

/* Everybody who waits for something that is only in memory. */
static void answer_waiting(struct coordinator *coordinator)
{
    const struct cluster *cluster = &coordinator->cluster;
    for (size_t i = 0; i < cluster->polls.count; i++)
        answer_store_failed(coordinator, cluster->polls.items[i].request);
    for (size_t i = 0; i < cluster->operation_waits.count; i++)
        answer_store_failed(coordinator, cluster->operation_waits.items[i].request);
    for (size_t i = 0; i < cluster->creations.count; i++)
        answer_store_failed(coordinator, cluster->creations.items[i].request);
}

static void drop_memory(struct coordinator *coordinator)
{
    cluster_finish(&coordinator->cluster);
    coordinator->loaded = false;
    coordinator->wake_ms = INT64_MAX;
    set_working(coordinator, false);
}

/* Later than the last time, up to a limit. */
static void load_later(struct coordinator *coordinator)
{
    coordinator->load_ms = clock_mono_ms() + coordinator->load_backoff_ms;
    coordinator->load_backoff_ms *= 2;
    if (coordinator->load_backoff_ms > LOAD_BACKOFF_MS_MAX)
        coordinator->load_backoff_ms = LOAD_BACKOFF_MS_MAX;
}

static void give_up_update(struct coordinator *coordinator, const struct update *update,
                           uint64_t request, const struct err *err)
{
    set_working(coordinator, false); /* before anybody hears of it */
    count(&coordinator->counts.commit_failures);
    log_error("store_failed", LOG_STR("detail", err->text),
              LOG_STR("consequence", "nothing of the last step happened; loading again"), LOG_END);
    bool answered = false;
    for (size_t i = 0; i < update->answers.count; i++) {
        answered = answered || update->answers.items[i].request == request;
        answer_store_failed(coordinator, update->answers.items[i].request);
    }
    /* The request of this step may wait in the cluster already: a second answer is nobody's then.
     */
    if (!answered)
        answer_store_failed(coordinator, request);
    answer_waiting(coordinator);
    drop_memory(coordinator);
    load_later(coordinator);
}

/* ---- steps */

/* So many calls wait only while Kafka is away and the store has failed again and again. */
static void keep_refused_call(struct coordinator *coordinator, const struct kafka_call *call)
{
    coordinator->refused_calls.items =
        mem_grow(coordinator->refused_calls.items, coordinator->refused_calls.count,
                 &coordinator->refused_calls.capacity, sizeof(*coordinator->refused_calls.items));
    coordinator->refused_calls.items[coordinator->refused_calls.count++] =
        (struct kafka_result){.id = call->id,
                              .kind = call->kind,
                              .job = rows_text_copy(call->job), /* NULL: it is about all jobs */
                              .failed = true,
                              .detail = mem_strdup("too many calls to Kafka wait, or it stops")};
    count(&coordinator->counts.calls_refused);
}

static enum err_code commit(struct coordinator *coordinator, const struct update *update,
                            struct err *reterr)
{
    if (update->changes.count == 0)
        return ERR_NONE;
    int64_t start_us = clock_mono_us();
    enum err_code code = store_commit(coordinator->store, update, reterr);
    prom_histogram_observe(&coordinator->commit_times, clock_mono_us() - start_us);
    return code;
}

/* What operators see in the API as events they find in the log, too. */
static void log_events(const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct event_view *event = &update->changes.items[i].event;
        if (update->changes.items[i].kind != CHANGE_EVENT)
            continue;
        log_info(event->kind, LOG_STR("job", event->job), LOG_INT("processor", event->processor),
                 LOG_STR("agent", event->agent), LOG_STR("operation", event->operation),
                 LOG_STR("actor", event->actor), LOG_STR("detail", event->detail), LOG_END);
    }
}

/* What is asked about what is under way is answered alike, whoever answers. */
static void complete(void *context, const struct schema_type *type, void *view)
{
    const struct coordinator *coordinator = context;
    if (coordinator->loaded)
        publish_complete(&coordinator->cluster, type, view);
}

/* Published before answered: a client that reads after its write finds what it wrote. */
static void carry_out(struct coordinator *coordinator, struct update *update)
{
    log_events(update);
    metrics_handoffs_see(&coordinator->handoffs, update);
    for (size_t i = 0; i < update->calls.count; i++) {
        struct kafka_call *call = &update->calls.items[i];
        if (!kafka_post(coordinator->kafka, call))
            keep_refused_call(coordinator, call);
    }
    publish_mark_update(&coordinator->dirty, update);
    if (publish_pace_see(&coordinator->pace, update))
        publish(coordinator);
    publish_if_due(coordinator);
    for (size_t i = 0; i < update->answers.count; i++) {
        complete(coordinator, update->answers.items[i].type, update->answers.items[i].body);
        answer(coordinator, &update->answers.items[i]);
    }
    archive_see_update(&coordinator->archive, update);
}

/* Takes the content of the event. */
static void step(struct coordinator *coordinator, struct coord_event *event)
{
    struct update update = {.wake_ms = INT64_MAX};
    struct err err;
    uint64_t request = event->request;
    event->now_ms = clock_mono_ms();
    event->now_at = clock_wall_ms();
    event->random = rng_next(&coordinator->rng);
    rng_uuid(event->uuid);
    count(&coordinator->counts.steps);
    publish_mark_event(&coordinator->dirty, event);
    coord_step(&coordinator->cluster, event, &update);
    coord_event_finish(event);
    coordinator->wake_ms = update.wake_ms;
    if (commit(coordinator, &update, &err) == ERR_NONE) {
        set_working(coordinator, true);
        coordinator->config.core.recover = coordinator->cluster.config.recover; /* once is enough */
        if (recovery_log_see(&coordinator->recovery_log, &coordinator->cluster))
            coordinator->dirty.all = coordinator->pace.urgent = true;
        carry_out(coordinator, &update);
    } else {
        give_up_update(coordinator, &update, request, &err);
    }
    update_finish(&update);
}

static void tick(struct coordinator *coordinator)
{
    struct coord_event event = {.kind = COORD_EVENT_TICK};
    step(coordinator, &event);
}

static void begin(struct coordinator *coordinator)
{
    struct coord_event event = {.kind = COORD_EVENT_START};
    coordinator->loaded = true;
    coordinator->dirty.all = true;
    step(coordinator, &event);
    if (!coordinator->loaded)
        return;
    coordinator->load_backoff_ms = LOAD_BACKOFF_MS;
    log_info("cluster_loaded", LOG_STR("cluster", coordinator->cluster.meta.cluster),
             LOG_INT("start", coordinator->cluster.meta.start_number),
             LOG_INT("jobs", coordinator->cluster.jobs.count),
             LOG_INT("agents", coordinator->cluster.agents.count),
             LOG_INT("epoch", coordinator->cluster.meta.epoch), LOG_END);
}

static void load_again(struct coordinator *coordinator)
{
    struct err err;
    cluster_init(&coordinator->cluster, coordinator->config.core);
    if (store_load(coordinator->store, &coordinator->cluster, &err) == ERR_NONE) {
        begin(coordinator);
        return;
    }
    log_error("store_load_failed", LOG_STR("detail", err.text),
              LOG_INT("retry_ms", coordinator->load_backoff_ms), LOG_END);
    drop_memory(coordinator);
    load_later(coordinator);
}

static bool concerns_old_operation(const struct coordinator *coordinator,
                                   const struct coord_event *event)
{
    return (event->kind == COORD_EVENT_OPERATION_WAIT ||
            event->kind == COORD_EVENT_OPERATION_CANCEL) &&
           cluster_operation(&coordinator->cluster, event->operation) == NULL;
}

static bool concerns_old_handoff(const struct coordinator *coordinator,
                                 const struct coord_event *event)
{
    return event->kind == COORD_EVENT_HANDOFF_CANCEL &&
           cluster_handoff(&coordinator->cluster, event->handoff) == NULL;
}

static void serve_event(struct coordinator *coordinator, struct coord_event *event)
{
    if (event->kind == COORD_EVENT_REQUEST_GONE)
        archive_forget(&coordinator->archive, event->request);
    if (!coordinator->loaded)
        answer_store_failed(coordinator, event->request);
    else if (concerns_old_operation(coordinator, event))
        archive_old_operation(&coordinator->archive, event);
    else if (concerns_old_handoff(coordinator, event))
        archive_old_handoff(&coordinator->archive, event);
    else
        step(coordinator, event);
    coord_event_finish(event);
}

/* Who reads after it what is, finds nothing older than what it says there was. */
static void serve_query(struct coordinator *coordinator, struct archive_query *query)
{
    if (coordinator->loaded && coordinator->pace.urgent)
        publish(coordinator);
    archive_ask(&coordinator->archive, query);
}

static void finish_message(void *pointer)
{
    struct message *message = pointer;
    if (message->kind == MESSAGE_EVENT)
        coord_event_finish(&message->event);
    else
        archive_query_finish(&message->query);
    free(message);
}

/* ---- the thread */

static int64_t next_deadline_ms(const struct coordinator *coordinator)
{
    int64_t deadline_ms = coordinator->loaded ? coordinator->wake_ms : coordinator->load_ms;
    int64_t publish_ms = publish_due_ms(coordinator);
    if (publish_ms < deadline_ms)
        deadline_ms = publish_ms;
    int64_t archive_ms = archive_deadline_ms(&coordinator->archive);
    if (archive_ms < deadline_ms)
        deadline_ms = archive_ms;
    /* Far enough for a thread with nothing to do, near enough for the clock's arithmetic. */
    int64_t far_ms = clock_mono_ms() + 3600 * 1000;
    return deadline_ms < far_ms ? deadline_ms : far_ms;
}

static void serve_message(struct coordinator *coordinator, struct message *message)
{
    __atomic_sub_fetch(&coordinator->counts.mailbox, 1, __ATOMIC_RELAXED);
    if (message->kind == MESSAGE_EVENT)
        serve_event(coordinator, &message->event);
    else
        serve_query(coordinator, &message->query);
    finish_message(message);
}

static void serve_refused_calls(struct coordinator *coordinator)
{
    while (coordinator->refused_calls.count > 0) {
        struct coord_event event = {
            .kind = COORD_EVENT_KAFKA,
            .kafka = coordinator->refused_calls.items[--coordinator->refused_calls.count]};
        serve_event(coordinator, &event);
    }
}

static void *run(void *context)
{
    struct coordinator *coordinator = context;
    begin(coordinator);
    for (;;) {
        struct message *message =
            mailbox_receive(coordinator->mailbox, next_deadline_ms(coordinator));
        if (message != NULL)
            serve_message(coordinator, message);
        else if (__atomic_load_n(&coordinator->stop, __ATOMIC_ACQUIRE))
            return NULL;
        serve_refused_calls(coordinator);
        int64_t now_ms = clock_mono_ms();
        if (!coordinator->loaded && now_ms >= coordinator->load_ms)
            load_again(coordinator);
        if (coordinator->loaded && now_ms >= coordinator->wake_ms)
            tick(coordinator);
        archive_tick(&coordinator->archive, now_ms);
        publish_if_due(coordinator);
    }
}

/* ---- posting */

static bool post(struct coordinator *coordinator, struct message *message)
{
    __atomic_add_fetch(&coordinator->counts.mailbox, 1, __ATOMIC_RELAXED);
    if (mailbox_post(coordinator->mailbox, message))
        return true;
    __atomic_sub_fetch(&coordinator->counts.mailbox, 1, __ATOMIC_RELAXED);
    count(&coordinator->counts.refused);
    free(message);
    return false;
}

bool coordinator_post(struct coordinator *coordinator, struct coord_event *event)
{
    struct message *message = mem_calloc(1, sizeof(*message));
    message->kind = MESSAGE_EVENT;
    message->event = *event;
    if (!post(coordinator, message))
        return false;
    *event = (struct coord_event){.kind = COORD_EVENT_TICK};
    return true;
}

bool coordinator_ask(struct coordinator *coordinator, struct archive_query *query)
{
    struct message *message = mem_calloc(1, sizeof(*message));
    message->kind = MESSAGE_QUERY;
    message->query = *query;
    if (!post(coordinator, message))
        return false;
    *query = (struct archive_query){0};
    return true;
}

void coordinator_deliver(void *context, struct kafka_result *result)
{
    struct coordinator *coordinator = context;
    struct message *message = mem_calloc(1, sizeof(*message));
    message->kind = MESSAGE_EVENT;
    message->event.kind = COORD_EVENT_KAFKA;
    message->event.kafka = *result;
    free(result);
    __atomic_add_fetch(&coordinator->counts.mailbox, 1, __ATOMIC_RELAXED);
    if (mailbox_post_reserved(coordinator->mailbox, message))
        return;
    __atomic_sub_fetch(&coordinator->counts.mailbox, 1, __ATOMIC_RELAXED);
    finish_message(message); /* we are stopping: the operation is repeated after the next start */
}

/* ---- life */

enum err_code coordinator_create(const struct coordinator_config *config,
                                 struct coordinator **ret_coordinator, struct err *reterr)
{
    _Static_assert(KAFKA_CALLS_MAX < MAILBOX_CAPACITY, "every result has a place");
    struct coordinator *coordinator = mem_calloc(1, sizeof(*coordinator));
    coordinator->config = *config;
    coordinator->commit_times = commit_times_empty;
    metrics_handoffs_init(&coordinator->handoffs);
    coordinator->load_backoff_ms = LOAD_BACKOFF_MS;
    coordinator->wake_ms = INT64_MAX;
    coordinator->mailbox = mailbox_create(MAILBOX_CAPACITY, finish_message);
    uint64_t seed;
    rng_bytes(&seed, sizeof(seed));
    rng_init(&coordinator->rng, seed);
    cluster_init(&coordinator->cluster, config->core);
    enum err_code code = store_open(config->database, &coordinator->store, reterr);
    if (code == ERR_NONE) {
        if (config->retention.events > 0)
            store_retain(coordinator->store, config->retention);
        archive_init(&coordinator->archive, coordinator->store, config->core.poll_wait_ms_max,
                     answer, coordinator);
        coordinator->archive.complete = complete;
        coordinator->archive.backup_dir = config->backup_dir;
        code = store_load(coordinator->store, &coordinator->cluster, reterr);
    }
    if (code != ERR_NONE) {
        coordinator_destroy(coordinator);
        return code;
    }
    *ret_coordinator = coordinator;
    return ERR_NONE;
}

enum err_code coordinator_start(struct coordinator *coordinator, struct kafka *kafka,
                                struct err *reterr)
{
    coordinator->kafka = kafka;
    int rc = pthread_create(&coordinator->thread, NULL, run, coordinator);
    if (rc != 0)
        return err_set(reterr, ERR_IO, "can not start a thread: %s", strerrordesc_np(rc));
    (void)pthread_setname_np(coordinator->thread, "owner");
    coordinator->started = true;
    return ERR_NONE;
}

void coordinator_stop(struct coordinator *coordinator)
{
    if (coordinator == NULL || !coordinator->started)
        return;
    __atomic_store_n(&coordinator->stop, true, __ATOMIC_RELEASE);
    mailbox_close(coordinator->mailbox);
    pthread_join(coordinator->thread, NULL);
    coordinator->started = false;
}

void coordinator_destroy(struct coordinator *coordinator)
{
    if (coordinator == NULL)
        return;
    coordinator_stop(coordinator);
    archive_finish(&coordinator->archive);
    for (size_t i = 0; i < coordinator->refused_calls.count; i++)
        kafka_result_finish(&coordinator->refused_calls.items[i]);
    free(coordinator->refused_calls.items);
    publish_clear(&coordinator->dirty);
    recovery_log_finish(&coordinator->recovery_log);
    cluster_finish(&coordinator->cluster);
    store_close(coordinator->store);
    mailbox_destroy(coordinator->mailbox);
    free(coordinator);
}

bool coordinator_working(const struct coordinator *coordinator)
{
    return __atomic_load_n(&coordinator->working, __ATOMIC_ACQUIRE);
}

void coordinator_count(const struct coordinator *coordinator, struct coordinator_counts *ret_counts)
{
    const struct coordinator_counts *counts = &coordinator->counts;
    ret_counts->mailbox = __atomic_load_n(&counts->mailbox, __ATOMIC_RELAXED);
    ret_counts->refused = __atomic_load_n(&counts->refused, __ATOMIC_RELAXED);
    ret_counts->calls_refused = __atomic_load_n(&counts->calls_refused, __ATOMIC_RELAXED);
    ret_counts->steps = __atomic_load_n(&counts->steps, __ATOMIC_RELAXED);
    ret_counts->commit_failures = __atomic_load_n(&counts->commit_failures, __ATOMIC_RELAXED);
    ret_counts->publications = __atomic_load_n(&counts->publications, __ATOMIC_RELAXED);
}

const struct prom_histogram *coordinator_commit_times(const struct coordinator *coordinator)
{
    return &coordinator->commit_times;
}

const struct metrics_handoffs *coordinator_handoffs(const struct coordinator *coordinator)
{
    return &coordinator->handoffs;
}

#ifdef BATON_TEST_HOOKS
struct store *coordinator_store(struct coordinator *coordinator)
{
    assert(!coordinator->started);
    return coordinator->store;
}
#endif
