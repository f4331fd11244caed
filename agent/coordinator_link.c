#include "agent/coordinator_link.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/core/backoff.h"
#include "agent/core/reconcile.h"
#include "agent/core/registration.h"
#include "api/schema.h"
#include "api/text.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "common/rng.h"

#define USER_AGENT "baton-agent/" BATON_VERSION

/* A poll that brings no news this fast would be asked again in a busy loop. */
#define POLL_TOO_FAST_MS 100
#define POLL_WAIT_MS_MAX INT64_C(60000)

/* The coordinator refuses a known id for as long as its holder reported within 2 seconds (D6): a
 * restarted agent has to outwait that whatever agent_timeout says. */
#define IN_USE_MS_MIN INT64_C(3000)

enum channel { CHANNEL_REGISTER, CHANNEL_POLL, CHANNEL_REPORT, CHANNEL_COUNT };

static const char *const channel_names[CHANNEL_COUNT] = {"register", "poll", "report"};

struct coordinator_link {
    struct link_config config;
    struct http_client *poll_client; /* the poll thread's */
    struct http_client
        *report_client; /* the report thread's; after the stop the control thread's */
    pthread_t poll_thread, report_thread;
    bool started; /* control thread */

    /* Protects what is below, up to the poll thread's own. Nothing is called under it. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    bool ended;            /* said LINK_MESSAGE_ENDED */
    uint64_t registration; /* counts welcomes: which one is in force; 0: none yet */
    bool registered;
    bool report_waits; /* `report` is to be sent */
    struct agent_report report;
    bool failing[CHANNEL_COUNT]; /* the last try failed */
    bool away;                   /* as it was logged last */
    uint64_t tries[CHANNEL_COUNT], failures[CHANNEL_COUNT];

    /* The poll thread's own. */
    struct rng rng;
    struct backoff backoff;
    int64_t wait_ms;
    bool polls_fail; /* the last one did */
    int64_t in_use_ms;
    int64_t in_use_since_ms; /* -1: the last registration was not refused for this reason */
    struct document_version after;
    struct agent_document told;       /* of version `after`: its jobs and tasks */
    char cluster[API_UUID_BYTES + 1]; /* of the first welcome; "" before */
    bool is_misfit;                   /* said that the coordinator is not the one that we knew */
};

/* pthread calls on our own valid objects fail only by our own mistake. */
static void check(int rc)
{
    assert(rc == 0);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void lock(struct coordinator_link *link)
{
    check(pthread_mutex_lock(&link->lock));
}

static void unlock(struct coordinator_link *link)
{
    check(pthread_mutex_unlock(&link->lock));
}

void link_message_free(void *message)
{
    struct link_message *self = message;
    if (self == NULL)
        return;
    switch (self->kind) {
    case LINK_MESSAGE_WELCOME:
        schema_free(&schema_agent_welcome, &self->welcome);
        break;
    case LINK_MESSAGE_ASSIGNMENT:
        schema_free(&schema_agent_document, &self->document);
        break;
    case LINK_MESSAGE_REPORTED:
        schema_free(&schema_report_answer, &self->reported.answer);
        break;
    case LINK_MESSAGE_ENDED:
        break;
    }
    free(self);
}

static struct link_message *message_create(enum link_message_kind kind)
{
    struct link_message *message = mem_calloc(1, sizeof(*message));
    message->kind = kind;
    return message;
}

/* ---- what both threads do */

/* Counts a try and logs when the coordinator as a whole is away or back. `failure` may be NULL;
 * `is_away`: it is one of the coordinator and not of this agent. */
static void note_try(struct coordinator_link *link, enum channel channel, const char *failure,
                     bool is_away)
{
    bool away = false;
    lock(link);
    link->tries[channel]++;
    link->failures[channel] += failure != NULL;
    link->failing[channel] = is_away;
    for (int i = 0; i < CHANNEL_COUNT; i++)
        away = away || link->failing[i];
    bool is_changed = away != link->away;
    link->away = away;
    unlock(link);

    if (is_changed && away)
        log_warn("coordinator_away", LOG_STR("coordinator", link->config.api.url),
                 LOG_STR("operation", channel_names[channel]), LOG_STR("detail", failure),
                 LOG_STR("effect", "tasks go on as they are; tried again until it answers"),
                 LOG_END);
    else if (is_changed)
        log_info("coordinator_back", LOG_STR("coordinator", link->config.api.url), LOG_END);
}

static void end(struct coordinator_link *link, bool superseded, const char *text)
{
    lock(link);
    bool first = !link->ended;
    link->ended = true;
    check(pthread_cond_broadcast(&link->changed));
    unlock(link);
    if (!first)
        return;
    struct link_message *message = message_create(LINK_MESSAGE_ENDED);
    message->ended.superseded = superseded;
    snprintf(message->ended.text, sizeof(message->ended.text), "%s", text);
    if (!mailbox_post_reserved(link->config.mailbox, message))
        link_message_free(message); /* closed: the agent is on its way out already */
    http_client_interrupt(link->poll_client);
}

static void end_superseded(struct coordinator_link *link)
{
    char text[ERR_TEXT_BYTES];
    snprintf(text, sizeof(text),
             "another agent registered as agent_id %s and took over (a cloned host, or a second "
             "agent with the same agent_id): give one of them another agent_id",
             link->config.api.agent_id);
    end(link, true, text);
}

/* The registration that the caller used is not known to the coordinator any more. */
static void forget_registration(struct coordinator_link *link, uint64_t registration)
{
    lock(link);
    bool current = link->registered && link->registration == registration;
    if (current)
        link->registered = false;
    unlock(link);
    if (current)
        log_info("agent_unknown", LOG_STR("coordinator", link->config.api.url),
                 LOG_STR("effect", "registering again"), LOG_END);
    if (current)
        http_client_interrupt(link->poll_client);
}

/* ---- poll thread */

/* Waits, or returns at once when the link is stopped. */
static void pause_ms(struct coordinator_link *link, int64_t delay_ms)
{
    struct timespec until;
    check(clock_gettime(CLOCK_MONOTONIC, &until));
    until.tv_sec += delay_ms / 1000;
    until.tv_nsec += delay_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    lock(link);
    while (!link->stopping && !link->ended) {
        if (pthread_cond_timedwait(&link->changed, &link->lock, &until) != 0)
            break;
    }
    unlock(link);
}

/* After a failed try: as long as the coordinator wishes, else longer each time. */
static void pause_after(struct coordinator_link *link, int64_t retry_after_ms)
{
    int64_t delay_ms = backoff_next_ms(&link->backoff, rng_next(&link->rng));
    if (retry_after_ms > delay_ms)
        delay_ms =
            retry_after_ms < link->config.retry_max_ms ? retry_after_ms : link->config.retry_max_ms;
    pause_ms(link, delay_ms);
}

/* It knows less than before, or speaks with us no more. Said apart from coordinator_away, which is
 * said once and has another reason by then: such a coordinator was away before. */
static void note_misfit(struct coordinator_link *link, const char *detail)
{
    if (!link->is_misfit)
        log_warn("coordinator_not_followed", LOG_STR("coordinator", link->config.api.url),
                 LOG_STR("detail", detail), LOG_STR("effect", "tasks go on as they are"), LOG_END);
    link->is_misfit = true;
}

/* The first cluster is the one: the tasks' state, offsets and transactional ids carry its UUID. */
static bool is_our_cluster(struct coordinator_link *link, const struct agent_welcome *welcome,
                           struct coordinator_failure *reterr)
{
    if (link->cluster[0] == '\0')
        snprintf(link->cluster, sizeof(link->cluster), "%s", welcome->cluster);
    if (strcmp(link->cluster, welcome->cluster) == 0) {
        link->is_misfit = false;
        return true;
    }
    snprintf(reterr->text, sizeof(reterr->text),
             "it belongs to cluster %s, but this agent works for cluster %s: did the coordinator "
             "lose its database? To join the new cluster restart this agent",
             welcome->cluster, link->cluster);
    reterr->retry_after_ms = -1;
    note_misfit(link, reterr->text);
    return false;
}

/* Takes the welcome. False when the control thread can not be told now. */
static bool accept_welcome(struct coordinator_link *link, struct agent_welcome *welcome)
{
    link->wait_ms = least(welcome->poll_wait_ms, POLL_WAIT_MS_MAX);
    link->in_use_ms =
        welcome->agent_timeout_ms > IN_USE_MS_MIN ? welcome->agent_timeout_ms : IN_USE_MS_MIN;
    backoff_limit(&link->backoff, welcome->agent_timeout_ms / BACKOFF_SHARE);
    log_info("registered", LOG_STR("coordinator", link->config.api.url),
             LOG_STR("cluster", welcome->cluster), LOG_STR("agent", link->config.api.agent_id),
             LOG_STR("incarnation", link->config.api.incarnation),
             LOG_INT("agent_timeout_ms", welcome->agent_timeout_ms), LOG_END);
    lock(link);
    link->registration++;
    link->registered = true;
    unlock(link);

    struct link_message *message = message_create(LINK_MESSAGE_WELCOME);
    message->welcome = *welcome;
    if (mailbox_post(link->config.mailbox, message))
        return true;
    link_message_free(message);
    lock(link);
    link->registered = false;
    unlock(link);
    return false;
}

/* True when there is no use in going on. */
static bool judge_in_use(struct coordinator_link *link, const struct coordinator_failure *failure)
{
    int64_t now_ms = clock_mono_ms();
    if (link->in_use_since_ms < 0) {
        link->in_use_since_ms = now_ms;
        log_warn("agent_id_in_use", LOG_STR("agent", link->config.api.agent_id),
                 LOG_STR("detail", failure->text), LOG_INT("tries_for_ms", link->in_use_ms),
                 LOG_STR("effect", "waiting: a restart takes the place of its old self"), LOG_END);
    }
    if (now_ms - link->in_use_since_ms < link->in_use_ms)
        return false;

    char text[2 * ERR_TEXT_BYTES];
    snprintf(text, sizeof(text),
             "agent_id %s is in use: another agent with this id reports to the coordinator (%s). "
             "Stop it, or give this one another agent_id",
             link->config.api.agent_id, failure->text);
    end(link, false, text);
    return true;
}

static void register_once(struct coordinator_link *link)
{
    struct agent_welcome welcome;
    struct coordinator_failure failure;
    struct agent_registration registration;
    if (!registration_complete(link->config.registration, link->cluster, &link->told,
                               &registration))
        log_warn("registration_cut", LOG_STR("effect", "no use to a recovery"), LOG_END);
    enum coordinator_outcome outcome = coordinator_api_register(
        &link->config.api, link->poll_client, &registration, &welcome, &failure);
    if (outcome == COORDINATOR_INTERRUPTED)
        return;
    if (outcome == COORDINATOR_OK && !is_our_cluster(link, &welcome, &failure)) {
        schema_free(&schema_agent_welcome, &welcome);
        outcome = COORDINATOR_FAILED;
    }
    note_try(link, CHANNEL_REGISTER, outcome == COORDINATOR_OK ? NULL : failure.text,
             outcome != COORDINATOR_OK && outcome != COORDINATOR_IN_USE);
    if (outcome == COORDINATOR_OK) {
        backoff_reset(&link->backoff);
        link->in_use_since_ms = -1;
        if (!accept_welcome(link, &welcome))
            pause_after(link, -1);
        return;
    }
    if (outcome == COORDINATOR_SUPERSEDED) {
        end_superseded(link);
        return;
    }
    if (outcome == COORDINATOR_IN_USE) {
        if (judge_in_use(link, &failure))
            return;
    } else {
        link->in_use_since_ms = -1;
    }
    /* An agent that already works keeps its tasks when the coordinator becomes too new for it. */
    if (outcome == COORDINATOR_UNSUPPORTED && link->cluster[0] != '\0')
        note_misfit(link, failure.text);
    else if (outcome == COORDINATOR_UNSUPPORTED)
        end(link, false, failure.text);
    pause_after(link, failure.retry_after_ms);
}

/* Takes the document. False when it is none to go by: `failure` says why. */
static bool accept_document(struct coordinator_link *link, struct agent_document *document,
                            bool *ret_news, struct coordinator_failure *failure)
{
    int order = reconcile_version_compare(document->version, link->after);
    char version[TEXT_BYTES], after[TEXT_BYTES];
    text_version(document->version, version);
    text_version(link->after, after);

    *ret_news = false;
    link->is_misfit = link->is_misfit && order < 0;
    if (order > 0) {
        struct link_message *message = message_create(LINK_MESSAGE_ASSIGNMENT);
        struct agent_document told;
        schema_copy(&schema_agent_document, &told, document);
        message->document = *document;
        *document = (struct agent_document){0};
        if (mailbox_post(link->config.mailbox, message)) {
            schema_free(&schema_agent_document, &link->told);
            link->told = told;
            link->after = told.version;
            *ret_news = true;
            return true;
        }
        link_message_free(message); /* it is asked for again */
        schema_free(&schema_agent_document, &told);
        snprintf(failure->text, sizeof(failure->text), "the agent's control thread is busy");
        failure->retry_after_ms = -1;
        return false;
    }
    if (order == 0)
        return true;
    snprintf(failure->text, sizeof(failure->text),
             "its document has version %s, but %s was applied already: ignored. Was an older "
             "database of the coordinator restored?",
             version, after);
    failure->retry_after_ms = -1;
    note_misfit(link, failure->text);
    return false;
}

static void poll_once(struct coordinator_link *link, uint64_t registration)
{
    struct agent_document document = {0};
    struct coordinator_failure failure;
    bool news = false;
    int64_t started_ms = clock_mono_ms();
    int64_t wait_ms = link->polls_fail ? 0 : link->wait_ms; /* to learn at once that it is back */
    enum coordinator_outcome outcome = coordinator_api_poll(
        &link->config.api, link->poll_client, link->after, wait_ms, &document, &failure);

    switch (outcome) {
    case COORDINATOR_INTERRUPTED:
        return;
    case COORDINATOR_UNKNOWN:
        forget_registration(link, registration);
        pause_ms(link, link->config.retry_min_ms);
        return;
    case COORDINATOR_SUPERSEDED:
        end_superseded(link);
        return;
    case COORDINATOR_OK:
        if (!accept_document(link, &document, &news, &failure))
            outcome = COORDINATOR_FAILED;
        schema_free(&schema_agent_document, &document);
        break;
    default:
        break;
    }
    bool answered = outcome == COORDINATOR_OK || outcome == COORDINATOR_NO_NEWS;
    link->polls_fail = !answered;
    note_try(link, CHANNEL_POLL, answered ? NULL : failure.text, !answered);
    if (!answered) {
        pause_after(link, failure.retry_after_ms);
        return;
    }
    backoff_reset(&link->backoff);
    if (!news && clock_mono_ms() - started_ms < POLL_TOO_FAST_MS)
        pause_ms(link, link->config.retry_min_ms);
}

static void *poll_main(void *arg)
{
    struct coordinator_link *link = arg;
    for (;;) {
        /* A stray interrupt costs one more poll. A stop that comes after this line is seen by the
         * request, one that came before it by the next check. */
        http_client_resume(link->poll_client);
        lock(link);
        bool stopping = link->stopping || link->ended;
        bool registered = link->registered;
        uint64_t registration = link->registration;
        unlock(link);
        if (stopping)
            return NULL;
        if (registered)
            poll_once(link, registration);
        else
            register_once(link);
    }
}

/* ---- report thread */

static void report_once(struct coordinator_link *link, struct agent_report *report,
                        uint64_t registration)
{
    struct link_message *message = message_create(LINK_MESSAGE_REPORTED);
    struct coordinator_failure failure;
    enum coordinator_outcome outcome = coordinator_api_report(
        &link->config.api, link->report_client, report, &message->reported.answer, &failure);

    message->reported.sent = outcome == COORDINATOR_OK;
    if (outcome == COORDINATOR_UNKNOWN)
        forget_registration(link, registration);
    else if (outcome == COORDINATOR_SUPERSEDED)
        end_superseded(link);
    else if (outcome != COORDINATOR_INTERRUPTED)
        note_try(link, CHANNEL_REPORT, outcome == COORDINATOR_OK ? NULL : failure.text,
                 outcome != COORDINATOR_OK);
    if (!mailbox_post_reserved(link->config.mailbox, message))
        link_message_free(message);
}

static void *report_main(void *arg)
{
    struct coordinator_link *link = arg;
    for (;;) {
        lock(link);
        while (!link->report_waits && !link->stopping && !link->ended)
            check(pthread_cond_wait(&link->changed, &link->lock));
        bool stopping = link->stopping || link->ended;
        uint64_t registration = link->registration;
        struct agent_report report = {0};
        if (!stopping) {
            report = link->report;
            link->report = (struct agent_report){0};
            link->report_waits = false;
        }
        unlock(link);
        if (stopping)
            return NULL;
        report_once(link, &report, registration);
        schema_free(&schema_agent_report, &report);
    }
}

/* ---- control thread */

struct coordinator_link *coordinator_link_create(const struct link_config *config)
{
    struct coordinator_link *link = mem_calloc(1, sizeof(*link));
    uint64_t seed;

    link->config = *config;
    link->in_use_ms = config->in_use_ms;
    link->in_use_since_ms = -1;
    link->poll_client = http_client_create(USER_AGENT);
    link->report_client = http_client_create(USER_AGENT);
    backoff_init(&link->backoff, config->retry_min_ms, config->retry_max_ms);
    rng_bytes(&seed, sizeof(seed));
    rng_init(&link->rng, seed);

    pthread_condattr_t attr;
    check(pthread_condattr_init(&attr));
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    check(pthread_cond_init(&link->changed, &attr));
    check(pthread_condattr_destroy(&attr));
    check(pthread_mutex_init(&link->lock, NULL));
    return link;
}

enum err_code coordinator_link_start(struct coordinator_link *link, struct err *reterr)
{
    assert(!link->started);
    int rc = pthread_create(&link->poll_thread, NULL, poll_main, link);
    if (rc == 0) {
        rc = pthread_create(&link->report_thread, NULL, report_main, link);
        if (rc == 0) {
            link->started = true;
            return ERR_NONE;
        }
        lock(link);
        link->stopping = true;
        check(pthread_cond_broadcast(&link->changed));
        unlock(link);
        http_client_interrupt(link->poll_client);
        check(pthread_join(link->poll_thread, NULL));
    }
    return err_set(reterr, ERR_IO, "no thread for the link to the coordinator: %s", strerror(rc));
}

void coordinator_link_report(struct coordinator_link *link, struct agent_report *report)
{
    lock(link);
    assert(!link->report_waits);
    assert(link->registration > 0);
    link->report = *report;
    *report = (struct agent_report){0};
    link->report_waits = true;
    check(pthread_cond_broadcast(&link->changed));
    unlock(link);
}

void coordinator_link_stop(struct coordinator_link *link)
{
    lock(link);
    link->stopping = true;
    check(pthread_cond_broadcast(&link->changed));
    unlock(link);
    http_client_interrupt(link->poll_client);
    http_client_interrupt(link->report_client);
    if (!link->started)
        return;
    check(pthread_join(link->poll_thread, NULL));
    check(pthread_join(link->report_thread, NULL));
    link->started = false;
}

enum err_code coordinator_link_deregister(struct coordinator_link *link, int64_t timeout_ms,
                                          struct err *reterr)
{
    assert(!link->started);
    struct coordinator_api api = link->config.api;
    struct coordinator_failure failure;
    api.request_ms = timeout_ms;
    http_client_resume(link->report_client);
    enum coordinator_outcome outcome =
        coordinator_api_deregister(&api, link->report_client, &failure);
    if (outcome == COORDINATOR_OK)
        return ERR_NONE;
    return err_set(reterr, ERR_UNAVAILABLE, "%s: %.400s", api.url, failure.text);
}

void coordinator_link_destroy(struct coordinator_link *link)
{
    if (link == NULL)
        return;
    coordinator_link_stop(link);
    schema_free(&schema_agent_report, &link->report);
    schema_free(&schema_agent_document, &link->told);
    http_client_destroy(link->poll_client);
    http_client_destroy(link->report_client);
    check(pthread_cond_destroy(&link->changed));
    check(pthread_mutex_destroy(&link->lock));
    free(link);
}

void coordinator_link_count(struct coordinator_link *link, struct link_counts *ret_counts)
{
    lock(link);
    *ret_counts = (struct link_counts){
        .up = link->registered && !link->away,
        .registrations = link->tries[CHANNEL_REGISTER],
        .registration_failures = link->failures[CHANNEL_REGISTER],
        .polls = link->tries[CHANNEL_POLL],
        .poll_failures = link->failures[CHANNEL_POLL],
        .reports = link->tries[CHANNEL_REPORT],
        .report_failures = link->failures[CHANNEL_REPORT],
    };
    unlock(link);
}
