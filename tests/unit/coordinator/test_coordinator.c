/* The owner thread on a real store that fails when told to; Kafka is never reached. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/coordinator.h"
#include "tests/unit/coordinator/store_rig.h"

#define INCARNATION_1 "5c4b8a3e-7d52-4f0e-9a51-0f6f4b3c2d1e"
#define INCARNATION_2 "6c4b8a3e-7d52-4f0e-9a51-0f6f4b3c2d1e"
#define ANSWERS       5000

struct play {
    char folder[40];
    char database[60];
    struct opts_kafka kafka_options;
    struct kafka *kafka;
    struct publisher *publisher;
    struct coordinator *coordinator;
    struct store *store;
    uint64_t requests;

    pthread_mutex_t lock; /* protects what the owner thread tells: the answers */
    pthread_cond_t answered;
    struct {
        uint32_t status;           /* 0: none yet */
        char code[64];             /* of a problem */
        bool cordon_was_published; /* a1 was cordoned in the view when the answer came */
        size_t events;             /* of an event page */
    } answers[ANSWERS];
    size_t answer_count;
    uint64_t fail_after; /* request whose answer makes the store fail once, at the next statement */
    uint64_t hold_at;    /* request whose answer holds the owner thread until `release` */
    sem_t held, release;
};

static void note_answer(struct play *play, const struct answer *answer)
{
    cr_assert_lt(answer->request, ANSWERS);
    cr_assert_eq(play->answers[answer->request].status, 0, "answered twice");
    const struct view *view = publish_acquire(play->publisher);
    const struct agent_view *a1 = view == NULL ? NULL : view_find_agent(view, "a1");
    play->answers[answer->request].cordon_was_published =
        a1 != NULL && !a1->eligibility.schedulable;
    publish_release(view);
    if (answer->type == &schema_problem_body)
        snprintf(play->answers[answer->request].code, sizeof(play->answers[0].code), "%s",
                 ((const struct problem_body *)answer->body)->code);
    if (answer->type == &schema_event_page)
        play->answers[answer->request].events =
            ((const struct event_page *)answer->body)->items.count;
    play->answers[answer->request].status = answer->status;
    play->answer_count++;
}

static void on_answer(void *context, struct answer *answer)
{
    struct play *play = context;
    uint64_t request = answer->request;
    pthread_mutex_lock(&play->lock);
    note_answer(play, answer);
    if (request == play->fail_after)
        store_fail_at(play->store, 1, STORE_FAILURE_BEFORE);
    pthread_cond_broadcast(&play->answered);
    pthread_mutex_unlock(&play->lock);
    if (request == play->hold_at) {
        sem_post(&play->held);
        sem_wait(&play->release);
    }
    if (answer->body != NULL)
        schema_free(answer->type, answer->body);
    free(answer->body);
    free(answer->location);
    *answer = (struct answer){0};
}

static void open_coordinator(struct play *play)
{
    struct err err = {0};
    struct coordinator_config config = {
        .database = play->database,
        .core = {.protocol = PROTOCOL_RANGE_OURS,
                 .agent_timeout_ms = 10000,
                 .report_interval_ms = 500,
                 .groups_interval_ms = 1000,
                 .poll_wait_ms_max = 60000},
        .publisher = play->publisher,
        .answer = on_answer,
        .context = play,
    };
    cr_assert_eq(coordinator_create(&config, &play->coordinator, &err), ERR_NONE, "%s", err.text);
    play->store = coordinator_store(play->coordinator);
}

static void start_coordinator(struct play *play)
{
    struct err err = {0};
    cr_assert_eq(coordinator_start(play->coordinator, play->kafka, &err), ERR_NONE, "%s", err.text);
}

/* With no database yet. */
static struct play *prepare(void)
{
    struct play *play = mem_calloc(1, sizeof(*play));
    struct err err = {0};
    snprintf(play->folder, sizeof(play->folder), "/tmp/baton-coordinator-XXXXXX");
    cr_assert_not_null(mkdtemp(play->folder));
    snprintf(play->database, sizeof(play->database), "%s/c.db", play->folder);
    play->fail_after = play->hold_at = UINT64_MAX;
    pthread_mutex_init(&play->lock, NULL);
    pthread_cond_init(&play->answered, NULL);
    sem_init(&play->held, 0, 0);
    sem_init(&play->release, 0, 0);
    play->publisher = publisher_create();
    play->kafka_options.items = mem_calloc(1, sizeof(*play->kafka_options.items));
    play->kafka_options.count = 1;
    play->kafka_options.items[0].name = mem_strdup("bootstrap.servers");
    play->kafka_options.items[0].value = mem_strdup("127.0.0.1:1");
    cr_assert_eq(kafka_create(&play->kafka_options, &play->kafka, &err), ERR_NONE, "%s", err.text);
    return play;
}

static struct play *begin(void)
{
    struct play *play = prepare();
    open_coordinator(play);
    return play;
}

static void end(struct play *play)
{
    static const char *const files[] = {"c.db", "c.db-wal", "c.db-shm", "c.db-journal"};
    coordinator_destroy(play->coordinator);
    kafka_destroy(play->kafka);
    publisher_destroy(play->publisher);
    free(play->kafka_options.items[0].name);
    free(play->kafka_options.items[0].value);
    free(play->kafka_options.items);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[80];
        snprintf(path, sizeof(path), "%s/%s", play->folder, files[i]);
        (void)unlink(path);
    }
    cr_assert_eq(rmdir(play->folder), 0);
    free(play);
}

static uint64_t post(struct play *play, struct coord_event event)
{
    event.request = ++play->requests;
    cr_assert(coordinator_post(play->coordinator, &event));
    return play->requests;
}

static struct coord_event registration(const char *agent_id, const char *incarnation)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_REGISTER};
    schema_default(&schema_agent_registration, &event.registration);
    event.registration.agent_id = mem_strdup(agent_id);
    event.registration.incarnation = mem_strdup(incarnation);
    event.registration.version = mem_strdup("1");
    event.registration.protocol = event.registration.protocol_minimum = API_PROTOCOL_VERSION;
    event.registration.capacity = 4;
    return event;
}

static struct coord_event poll_of(const char *agent_id, const char *incarnation)
{
    return (struct coord_event){.kind = COORD_EVENT_POLL,
                                .name = mem_strdup(agent_id),
                                .incarnation = mem_strdup(incarnation),
                                .after = {.start = 1000},
                                .wait_ms = 60000};
}

/* Waits for the answer. */
static void expect(struct play *play, uint64_t request, uint32_t status, const char *code)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 20;
    pthread_mutex_lock(&play->lock);
    while (play->answers[request].status == 0)
        cr_assert_eq(pthread_cond_timedwait(&play->answered, &play->lock, &deadline), 0,
                     "no answer to request %llu", (unsigned long long)request);
    pthread_mutex_unlock(&play->lock);
    cr_assert_eq(play->answers[request].status, status, "%u %s", play->answers[request].status,
                 play->answers[request].code);
    cr_assert_str_eq(play->answers[request].code, code);
}

/* The next answer, whosever it is, or a moment. */
static void wait_for_any(struct play *play)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 20000000;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    pthread_mutex_lock(&play->lock);
    (void)pthread_cond_timedwait(&play->answered, &play->lock, &deadline);
    pthread_mutex_unlock(&play->lock);
}

/* The store failed once: it is loaded again. */
static bool is_published(const struct play *play)
{
    const struct view *view = publish_acquire(play->publisher);
    publish_release(view);
    return view != NULL;
}

/* It works a moment before the first view is there. */
static void expect_recovery(struct play *play)
{
    for (int i = 0; i < 500 && (!coordinator_working(play->coordinator) || !is_published(play));
         i++)
        wait_for_any(play);
    cr_assert(coordinator_working(play->coordinator));
    cr_assert(is_published(play));
}

static uint32_t status_of(struct play *play, uint64_t request)
{
    pthread_mutex_lock(&play->lock);
    uint32_t status = play->answers[request].status;
    pthread_mutex_unlock(&play->lock);
    return status;
}

static struct coord_event cordon_of(const char *agent_id)
{
    struct coord_event event = {.kind = COORD_EVENT_ELIGIBILITY, .name = mem_strdup(agent_id)};
    schema_default(&schema_eligibility_request, &event.eligibility);
    event.eligibility.schedulable = false;
    return event;
}

/* Goal: what was answered is durable and already published; a second start finds it. */
Test(coordinator, commits_publishes_answers, .timeout = 60)
{
    struct play *play = begin();
    start_coordinator(play);
    uint64_t request = post(play, registration("a1", INCARNATION_1));
    expect(play, request, 200, "");
    request = post(play, cordon_of("a1"));
    expect(play, request, 200, "");
    cr_assert(play->answers[request].cordon_was_published);
    cr_assert(coordinator_working(play->coordinator));
    coordinator_destroy(play->coordinator);

    open_coordinator(play);
    start_coordinator(play);
    request = post(play, poll_of("a1", INCARNATION_2));
    expect(play, request, 409, "superseded"); /* it knows the agent, by the other incarnation */
    const struct view *view = publish_acquire(play->publisher);
    cr_assert_eq(view->start_number, 2);
    publish_release(view);
    end(play);
}

/* Goal: a commit that fails happened not at all: who asked and who waited hear 503, the next
 * request finds what was before. */
Test(coordinator, drops_memory_when_a_commit_fails, .timeout = 60)
{
    struct play *play = begin();
    start_coordinator(play);
    expect(play, post(play, registration("a1", INCARNATION_1)), 200, "");
    uint64_t waiting = post(play, poll_of("a1", INCARNATION_1));
    play->fail_after = play->requests + 1;
    expect(play,
           post(play, (struct coord_event){.kind = COORD_EVENT_OPERATION_CANCEL, .operation = 9}),
           404, "operation_not_found"); /* its answer breaks the store */
    uint64_t failing = post(play, registration("a2", INCARNATION_2));
    expect(play, failing, 503, "store_failed");
    expect(play, waiting, 503, "store_failed");

    expect_recovery(play);
    const struct view *view = publish_acquire(play->publisher);
    cr_assert_null(view_find_agent(view, "a2"));
    cr_assert_not_null(view_find_agent(view, "a1"));
    publish_release(view);
    expect(play, post(play, registration("a2", INCARNATION_2)), 200, "");
    struct coordinator_counts counts;
    coordinator_count(play->coordinator, &counts);
    cr_assert_eq(counts.commit_failures, 1);
    end(play);
}

/* Goal: the very first commit may fail, too: it is tried again, and nobody is answered 200 before.
 */
Test(coordinator, survives_a_failing_start, .timeout = 60)
{
    struct play *play = begin();
    store_fail_at(play->store, 1, STORE_FAILURE_BEFORE);
    start_coordinator(play);
    expect_recovery(play);
    expect(play, post(play, registration("a1", INCARNATION_1)), 200, "");
    end(play);
}

static bool is_shown(const struct play *play, const char *agent_id)
{
    const struct view *view = publish_acquire(play->publisher);
    bool shown = view != NULL && view_find_agent(view, agent_id) != NULL;
    publish_release(view);
    return shown;
}

/* The n-th statement fails; a registration goes on. */
static void fail_at(uint64_t statement, enum store_failure failure)
{
    struct play *play = begin();
    store_fail_at(play->store, statement, failure);
    start_coordinator(play);
    uint64_t request = post(play, registration("a1", INCARNATION_1));
    for (int i = 0; i < 500 && status_of(play, request) == 0; i++)
        wait_for_any(play);
    expect_recovery(play);
    bool promised = status_of(play, request) == 200;
    /* What is promised to an agent is published soon, not before the answer. */
    for (int i = 0; i < 500 && promised && !is_shown(play, "a1"); i++)
        wait_for_any(play);
    bool there = is_shown(play, "a1");
    cr_assert(promised || play->answers[request].status == 503);
    cr_assert(there || !promised, "statement %llu", (unsigned long long)statement);
    /* Only a commit that was done and said that it had failed may be there without a promise. */
    if (failure == STORE_FAILURE_BEFORE)
        cr_assert_eq(there, promised, "statement %llu", (unsigned long long)statement);
    end(play);
}

/* Goal: at whichever statement a commit fails, memory is what the store has afterwards. */
Test(coordinator, memory_follows_the_store, .timeout = 120)
{
    for (uint64_t statement = 1; statement <= 14; statement++) {
        fail_at(statement, STORE_FAILURE_BEFORE);
        fail_at(statement, STORE_FAILURE_AFTER);
    }
}

static uint64_t ask(struct play *play, struct archive_query query)
{
    query.request = ++play->requests;
    cr_assert(coordinator_ask(play->coordinator, &query));
    return play->requests;
}

/* Goal: events are waited for, by job if wanted; a client that has gone waits no more. */
Test(coordinator, answers_waiting_events, .timeout = 60)
{
    struct play *play = begin();
    start_coordinator(play);
    uint64_t first = ask(play, (struct archive_query){.kind = ARCHIVE_QUERY_EVENTS, .limit = 10});
    expect(play, first, 200, "");
    cr_assert_eq(play->answers[first].events, 1); /* the start */
    struct archive_query wait = {
        .kind = ARCHIVE_QUERY_EVENTS, .limit = 10, .after = 1, .wait_ms = 60000};
    uint64_t any = ask(play, wait);
    uint64_t gone = ask(play, wait);
    wait.job = mem_strdup("orders");
    uint64_t of_job = ask(play, wait);
    wait.job = NULL;
    wait.wait_ms = 50;
    uint64_t short_one = ask(play, wait);
    expect(play, short_one, 200, "");
    cr_assert_eq(play->answers[short_one].events, 0);

    struct coord_event event = {.kind = COORD_EVENT_REQUEST_GONE, .request = gone};
    cr_assert(coordinator_post(play->coordinator, &event));
    expect(play, post(play, registration("a1", INCARNATION_1)), 200, "");
    expect(play, any, 200, "");
    cr_assert_eq(play->answers[any].events, 1);
    cr_assert_eq(play->answers[gone].status, 0);
    cr_assert_eq(play->answers[of_job].status, 0);
    end(play);
}

Test(coordinator, finds_no_operation, .timeout = 60)
{
    struct play *play = begin();
    start_coordinator(play);
    struct archive_query query = {.kind = ARCHIVE_QUERY_OPERATION, .operation = 7};
    expect(play, ask(play, query), 404, "operation_not_found");
    struct coord_event event = {
        .kind = COORD_EVENT_OPERATION_WAIT, .operation = 7, .wait_ms = 60000};
    expect(play, post(play, event), 404, "operation_not_found");
    uint64_t page = ask(play, (struct archive_query){.kind = ARCHIVE_QUERY_OPERATIONS, .limit = 5});
    expect(play, page, 200, "");
    end(play);
}

/* Goal: the mailbox is bounded: who comes too late is told so, and everything that was accepted is
 * answered, also by a stop. */
Test(coordinator, refuses_when_the_mailbox_is_full, .timeout = 120)
{
    struct play *play = begin();
    play->hold_at = 1;
    start_coordinator(play);
    struct coord_event event = {.kind = COORD_EVENT_OPERATION_CANCEL, .operation = 9};
    (void)post(play, event);
    cr_assert_eq(sem_wait(&play->held), 0);
    uint64_t accepted = 0;
    for (;;) {
        struct coord_event next = event;
        next.request = play->requests + 1;
        if (!coordinator_post(play->coordinator, &next))
            break;
        play->requests++;
        accepted++;
    }
    cr_assert_eq(accepted, 4096);
    struct coordinator_counts counts;
    coordinator_count(play->coordinator, &counts);
    cr_assert_eq(counts.refused, 1);
    cr_assert_eq(counts.mailbox, 4096);

    /* Kafka's results have places of their own. */
    struct kafka_result *result = mem_calloc(1, sizeof(*result));
    result->id = 1;
    coordinator_deliver(play->coordinator, result);
    sem_post(&play->release);
    coordinator_stop(play->coordinator);
    cr_assert_eq(play->answer_count, accepted + 1);
    coordinator_count(play->coordinator, &counts);
    cr_assert_eq(counts.mailbox, 0);
    end(play);
}

static void drop_result(void *context, struct kafka_result *result)
{
    (void)context;
    kafka_result_finish(result);
    free(result);
}

/* Goal: calls that the Kafka thread does not take are failed calls: of a job (its topics) and of
 * all jobs (their groups). It takes none any more when the daemon stops. */
Test(coordinator, goes_on_when_kafka_takes_no_call, .timeout = 60)
{
    struct play *play = prepare();
    struct store_rig rig;
    struct err err;
    store_rig_init_job(&rig);
    store_rig_leave(&rig, play->database);
    cr_assert_eq(kafka_start(play->kafka, drop_result, NULL, &err), ERR_NONE, "%s", err.text);
    kafka_stop(play->kafka);
    open_coordinator(play);
    start_coordinator(play);
    expect(play, post(play, (struct coord_event){.kind = COORD_EVENT_OPERATION_CANCEL}), 404,
           "operation_not_found");
    struct coordinator_counts counts;
    coordinator_count(play->coordinator, &counts);
    cr_assert_geq(counts.calls_refused, 1);
    end(play);
}
