#include "agent/agent.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/backoff.h"
#include "agent/crash_list.h"
#include "agent/expiry.h"
#include "agent/snapshot_serve.h"
#include "agent/store.h"
#include "api/protocol.h"
#include "api/schema.h"
#include "common/clock.h"
#include "common/fsm.h"
#include "common/logger.h"
#include "common/mem.h"
#include "common/notify.h"
#include "common/rng.h"

#define MAILBOX_CAPACITY 64

/* The loop turns at least this often: signs of life, and the ends of tasks that stop. */
#define TURN_MS          1000
#define TURN_STOPPING_MS 50

#define VIEW_MS                500 /* between two views for the endpoint */
#define REPORT_INTERVAL_MS_MIN 50
#define REPORT_INTERVAL_MS_MAX 60000
#define LEAVE_MS               2000 /* for the last report, and again for signing off */

/* Positions of kept states in a registration: some MiB of JSON. */
#define KEPT_POSITIONS_MAX ((size_t)100000)

#define KIB 1024

enum agent_phase {
    PHASE_JOINING,
    PHASE_WORKING,
    PHASE_DRAINING,
    PHASE_STOPPING,
    PHASE_LEAVING,
    PHASE_ENDED
};

static const struct fsm_table phase_table = {
    .name = "agent",
    .state_count = 6,
    .states = {
        [PHASE_JOINING] = {"joining", FSM_BIT(PHASE_WORKING) | FSM_BIT(PHASE_STOPPING)},
        [PHASE_WORKING] = {"working", FSM_BIT(PHASE_DRAINING) | FSM_BIT(PHASE_STOPPING)},
        [PHASE_DRAINING] = {"draining", FSM_BIT(PHASE_STOPPING)},
        [PHASE_STOPPING] = {"stopping", FSM_BIT(PHASE_LEAVING)},
        [PHASE_LEAVING] = {"leaving", FSM_BIT(PHASE_ENDED)},
        [PHASE_ENDED] = {"ended", 0},
    }};

struct agent {
    struct agent_config config;
    struct agent_registration registration;
    char incarnation[UUID_TEXT_BYTES];
    char cluster[API_UUID_BYTES + 1]; /* of the first welcome; the link lets no other through */
    struct task_thread_context context;
    struct task_table *table;
    struct expiry *expiry; /* NULL: states are kept for ever */
    struct mailbox *mailbox;
    struct coordinator_link *link;
    struct fsm phase;
    struct rng rng;
    int64_t started_at;

    atomic_bool tasks_changed; /* set by task threads */
    atomic_bool crash_passed;  /* likewise */
    atomic_int stop_requests;  /* raised by agent_stop */

    bool welcomed;
    bool link_ended; /* no report is answered any more */
    bool failed;     /* AGENT_END_FAILED */
    bool abandoned;
    int64_t phase_deadline_ms; /* of DRAINING, STOPPING and LEAVING */

    bool report_running;
    bool report_is_last; /* the one that runs says "stopping" */
    int64_t report_due_ms;
    int64_t report_interval_ms;
    struct backoff report_backoff;

    int64_t view_due_ms;
    int64_t watchdog_due_ms, watchdog_interval_ms; /* 0: no watchdog */
};

struct link_config agent_link_defaults(void)
{
    return (struct link_config){
        .api = {.connect_ms = 3000, .request_ms = 5000, .answer_bytes_max = (size_t)64 * KIB * KIB},
        .retry_min_ms = 200,
        .retry_max_ms = 5000,
        .in_use_ms = 10000,
    };
}

static void on_task_changed(void *arg)
{
    struct agent *agent = arg;
    atomic_store(&agent->tasks_changed, true);
    mailbox_wake(agent->mailbox);
}

static void on_crash_passed(void *arg)
{
    struct agent *agent = arg;
    atomic_store(&agent->crash_passed, true);
    on_task_changed(agent);
}

void agent_stop(struct agent *agent)
{
    atomic_fetch_add(&agent->stop_requests, 1);
    mailbox_wake(agent->mailbox);
}

/* ---- making */

struct kept_list {
    struct agent_registration *registration;
    size_t capacity, positions;
};

/* What is beyond the limits of a registration is not told: it only costs a better choice. */
static void add_kept(void *arg, const struct store_kept *found)
{
    struct kept_list *list = arg;
    struct agent_registration *registration = list->registration;
    struct kept_state *kept;

    if (registration->kept.count == API_TASKS_MAX ||
        found->position_count > KEPT_POSITIONS_MAX - list->positions)
        return;
    registration->kept.items = mem_grow(registration->kept.items, registration->kept.count,
                                        &list->capacity, sizeof(struct kept_state));
    kept = &registration->kept.items[registration->kept.count++];
    *kept = (struct kept_state){.job = mem_strdup(found->job),
                                .job_incarnation = mem_strdup(found->job_incarnation),
                                .processor = found->processor};
    kept->learned.items = mem_calloc(found->position_count, sizeof(struct input_offset));
    for (size_t i = 0; i < found->position_count; i++) {
        const struct store_position *position = &found->positions[i];
        if (position->topic < API_INPUTS_MAX && position->partition < API_PARTITIONS_MAX)
            kept->learned.items[kept->learned.count++] =
                (struct input_offset){position->topic, position->partition, position->next_offset};
    }
    list->positions += found->position_count;
}

static void note_skipped(void *arg, const char *directory, const char *reason)
{
    (void)arg; /* the same for all */
    log_warn("kept_state_skipped", LOG_STR("state", directory), LOG_STR("detail", reason),
             LOG_STR("effect", "the coordinator is not told of it; a task that opens it sets it "
                               "aside"),
             LOG_END);
}

/* Once, before there are tasks. A registration that is said again later tells of the same T2, which
 * is less than is there by then. */
static void list_kept(struct agent *agent)
{
    struct kept_list list = {.registration = &agent->registration};
    const struct store_kept_visitor visitor = {add_kept, note_skipped, &list};

    store_list_kept(agent->config.options->state_dir, agent->config.boot_id, &visitor);
    log_info("kept_states", LOG_INT("count", agent->registration.kept.count), LOG_END);
    crash_list_renew(agent->config.options->state_dir, &agent->registration);
    crash_list_log(&agent->registration);
}

static void fill_registration(struct agent *agent)
{
    const struct agent_options *options = agent->config.options;
    struct tag_list tags;
    enum err_code code = agent_options_tags(options->tags, &tags, NULL);
    assert(code == ERR_NONE); /* agent_options_check took them */

    agent->registration = (struct agent_registration){
        .agent_id = mem_strdup(options->agent_id),
        .incarnation = mem_strdup(agent->incarnation),
        .protocol = protocol_own().version,
        .protocol_minimum = protocol_own().minimum,
        .version = mem_strdup(BATON_VERSION),
        .address = agent->config.address == NULL ? NULL : mem_strdup(agent->config.address),
        .capacity = (uint32_t)options->capacity,
        .max_learners = (uint32_t)options->max_learners,
        .tags = {tags.items, tags.count},
    };
    list_kept(agent);
}

/* systemd's watchdog, when this process is the one that is watched: half its time. */
static int64_t read_watchdog_interval_ms(void)
{
    const char *pid = getenv("WATCHDOG_PID"), *usec = getenv("WATCHDOG_USEC");
    if (usec == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    long long interval_ms = strtoll(usec, NULL, 10) / 2000;
    return interval_ms > 0 ? interval_ms : 0;
}

struct agent *agent_create(const struct agent_config *config)
{
    struct agent *agent = mem_calloc(1, sizeof(*agent));
    uint64_t seed;

    agent->config = *config;
    atomic_init(&agent->tasks_changed, false);
    atomic_init(&agent->crash_passed, false);
    atomic_init(&agent->stop_requests, 0);
    rng_uuid(agent->incarnation);
    rng_bytes(&seed, sizeof(seed));
    rng_init(&agent->rng, seed);
    fill_registration(agent);
    agent->started_at = clock_wall_ms();
    agent->watchdog_interval_ms = read_watchdog_interval_ms();
    agent->report_interval_ms = REPORT_INTERVAL_MS_MIN;
    backoff_init(&agent->report_backoff, config->link.retry_min_ms, config->link.retry_max_ms);
    fsm_init(&agent->phase, &phase_table, PHASE_JOINING, clock_mono_ms());

    agent->context = (struct task_thread_context){.options = config->options,
                                                  .kafka = config->kafka,
                                                  .cluster = agent->cluster,
                                                  .boot_id = config->boot_id,
                                                  .observer = config->observer,
                                                  .snapshots = config->snapshots,
                                                  .changed = on_task_changed,
                                                  .crash_passed = on_crash_passed,
                                                  .arg = agent};
    agent->table = task_table_create(config->ops, &agent->context);
    if (config->options->state_retention_ms > 0)
        agent->expiry =
            expiry_create(config->options->state_dir, config->options->state_retention_ms);
    agent->mailbox = mailbox_create(MAILBOX_CAPACITY, link_message_free);

    struct link_config link = config->link;
    link.api.url = config->options->coordinator;
    link.api.agent_id = config->options->agent_id;
    link.api.incarnation = agent->incarnation;
    link.registration = &agent->registration;
    link.mailbox = agent->mailbox;
    agent->link = coordinator_link_create(&link);
    return agent;
}

void agent_destroy(struct agent *agent)
{
    if (agent == NULL)
        return;
    coordinator_link_destroy(agent->link);
    task_table_destroy(agent->table);
    expiry_destroy(agent->expiry);
    mailbox_destroy(agent->mailbox);
    schema_free(&schema_agent_registration, &agent->registration);
    free(agent);
}

/* ---- phases */

static bool is_in(const struct agent *agent, enum agent_phase phase)
{
    return agent->phase.state == (int)phase;
}

static void move_to(struct agent *agent, enum agent_phase phase, int64_t now_ms)
{
    const char *before = fsm_state_name(&phase_table, agent->phase.state);
    int64_t spent_ms = fsm_move(&agent->phase, (int)phase, now_ms);
    log_info("agent_phase", LOG_STR("phase", fsm_state_name(&phase_table, (int)phase)),
             LOG_STR("before", before), LOG_INT("after_ms", spent_ms), LOG_END);
    agent->view_due_ms = now_ms;
}

/* What it is told to do still counts. */
static bool takes_tasks(const struct agent *agent)
{
    return is_in(agent, PHASE_JOINING) || is_in(agent, PHASE_WORKING) ||
           is_in(agent, PHASE_DRAINING);
}

static void begin_drain(struct agent *agent, int64_t now_ms)
{
    move_to(agent, PHASE_DRAINING, now_ms);
    agent->phase_deadline_ms = now_ms + agent->config.options->drain_timeout_ms;
    agent->report_due_ms = now_ms;
}

static void begin_stop(struct agent *agent, int64_t now_ms)
{
    if (!takes_tasks(agent))
        return;
    move_to(agent, PHASE_STOPPING, now_ms);
    notify_send("STOPPING=1");
    agent->phase_deadline_ms = now_ms + agent->config.options->stop_timeout_ms;
    task_table_stop(agent->table, now_ms);
    agent->report_due_ms = now_ms;
}

static void begin_leave(struct agent *agent, int64_t now_ms)
{
    if (task_table_count(agent->table).running > 0) {
        agent->abandoned = true;
        log_error("stop_timeout",
                  LOG_INT("stop_timeout_ms", agent->config.options->stop_timeout_ms),
                  LOG_STR("effect", "ending although tasks have not closed"), LOG_END);
        task_table_log_running(agent->table);
    }
    move_to(agent, PHASE_LEAVING, now_ms);
    agent->phase_deadline_ms = now_ms + LEAVE_MS;
    agent->report_due_ms = now_ms;
}

static void end_drain(struct agent *agent, const char *why, int64_t now_ms)
{
    log_info("drain_ended", LOG_STR("detail", why),
             LOG_INT("tasks", task_table_count(agent->table).running), LOG_END);
    begin_stop(agent, now_ms);
}

static void obey_stop(struct agent *agent, int64_t now_ms)
{
    int requests = atomic_load(&agent->stop_requests);
    if (requests > 0 && is_in(agent, PHASE_WORKING) &&
        agent->config.options->on_term == AGENT_ON_TERM_DRAIN && !agent->link_ended)
        begin_drain(agent, now_ms);
    if (requests > 1 && is_in(agent, PHASE_DRAINING))
        end_drain(agent, "asked to stop again", now_ms);
    if (requests > 0 && !is_in(agent, PHASE_DRAINING))
        begin_stop(agent, now_ms);
}

/* What follows from time and from the tasks alone. */
static void advance(struct agent *agent, int64_t now_ms)
{
    obey_stop(agent, now_ms);
    if (is_in(agent, PHASE_DRAINING) && now_ms >= agent->phase_deadline_ms)
        end_drain(agent, "drain_timeout has passed", now_ms);
    if (is_in(agent, PHASE_STOPPING) &&
        (task_table_count(agent->table).running == 0 || now_ms >= agent->phase_deadline_ms))
        begin_leave(agent, now_ms);
    if (is_in(agent, PHASE_LEAVING) &&
        (now_ms >= agent->phase_deadline_ms || agent->link_ended || !agent->welcomed))
        move_to(agent, PHASE_ENDED, now_ms);
}

/* ---- what the link says */

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void on_welcome(struct agent *agent, const struct agent_welcome *welcome, int64_t now_ms)
{
    if (!agent->welcomed)
        snprintf(agent->cluster, sizeof(agent->cluster), "%s", welcome->cluster);
    assert(strcmp(agent->cluster, welcome->cluster) == 0);
    agent->welcomed = true;
    agent->report_interval_ms =
        clamp(welcome->report_interval_ms, REPORT_INTERVAL_MS_MIN, REPORT_INTERVAL_MS_MAX);
    backoff_reset(&agent->report_backoff);
    backoff_limit(&agent->report_backoff, welcome->agent_timeout_ms / BACKOFF_SHARE);
    agent->report_due_ms = now_ms;
}

static void on_assignment(struct agent *agent, struct agent_document *document, int64_t now_ms)
{
    if (!takes_tasks(agent))
        return; /* a stop is not taken back */
    task_table_want(agent->table, document, now_ms);
    /* The poll was answered, so a report that waits after failures may be as well. */
    backoff_reset(&agent->report_backoff);
    agent->report_due_ms = now_ms;
    if (is_in(agent, PHASE_JOINING)) {
        move_to(agent, PHASE_WORKING, now_ms);
        notify_send("READY=1");
    }
}

static void on_reported(struct agent *agent, const struct link_message *message, int64_t now_ms)
{
    assert(agent->report_running);
    agent->report_running = false;
    if (message->reported.sent) {
        task_table_delivered(agent->table);
        task_table_follow(agent->table, &message->reported.answer);
        backoff_reset(&agent->report_backoff);
        if (is_in(agent, PHASE_DRAINING) && message->reported.answer.safe_to_stop)
            end_drain(agent, "others have what it had", now_ms);
        else if (is_in(agent, PHASE_DRAINING) && message->reported.answer.drain_refused)
            end_drain(agent, "no other agent can take what it has", now_ms);
        if (agent->report_is_last && is_in(agent, PHASE_LEAVING))
            move_to(agent, PHASE_ENDED, now_ms);
        return; /* the next was made due when this one was sent, or by what has changed since */
    }
    agent->report_due_ms = now_ms + backoff_next_ms(&agent->report_backoff, rng_next(&agent->rng));
}

static void on_ended(struct agent *agent, const struct link_message *message, int64_t now_ms)
{
    agent->link_ended = true;
    agent->failed = true;
    log_error(message->ended.superseded ? "superseded" : "refused",
              LOG_STR("agent", agent->config.options->agent_id),
              LOG_STR("detail", message->ended.text), LOG_STR("effect", "the agent stops"),
              LOG_END);
    begin_stop(agent, now_ms);
}

static void handle(struct agent *agent, struct link_message *message, int64_t now_ms)
{
    switch (message->kind) {
    case LINK_MESSAGE_WELCOME:
        on_welcome(agent, &message->welcome, now_ms);
        break;
    case LINK_MESSAGE_ASSIGNMENT:
        on_assignment(agent, &message->document, now_ms);
        break;
    case LINK_MESSAGE_REPORTED:
        on_reported(agent, message, now_ms);
        break;
    case LINK_MESSAGE_ENDED:
        on_ended(agent, message, now_ms);
        break;
    }
    link_message_free(message);
}

/* ---- reports and views */

static bool may_report(const struct agent *agent)
{
    return agent->welcomed && !agent->link_ended && !agent->report_running &&
           !is_in(agent, PHASE_ENDED);
}

/* One that works still but shall not was refused already, or its time is over. */
static enum agent_leaving say_leaving(const struct agent *agent)
{
    if (is_in(agent, PHASE_JOINING) || is_in(agent, PHASE_WORKING) ||
        atomic_load(&agent->stop_requests) == 0)
        return AGENT_LEAVING_NO;
    if (is_in(agent, PHASE_DRAINING))
        return AGENT_LEAVING_DRAIN;
    return agent->config.options->on_term == AGENT_ON_TERM_LEAVE ? AGENT_LEAVING_NO
                                                                 : AGENT_LEAVING_RELEASE;
}

static void report(struct agent *agent, int64_t now_ms)
{
    struct agent_report made = {.incarnation = mem_strdup(agent->incarnation),
                                .stopping = is_in(agent, PHASE_LEAVING),
                                .leaving = say_leaving(agent)};
    task_table_collect(agent->table, &made);
    crash_list_copy(&agent->registration, &made);
    task_table_sending(agent->table);
    agent->report_is_last = made.stopping;
    coordinator_link_report(agent->link, &made);
    agent->report_running = true;
    agent->report_due_ms = now_ms + agent->report_interval_ms;
}

static const char *reason_not_ready(const struct agent *agent)
{
    if (is_in(agent, PHASE_WORKING))
        return NULL;
    if (is_in(agent, PHASE_DRAINING))
        return "the agent hands over what it has, to stop then (on_term)";
    if (!is_in(agent, PHASE_JOINING))
        return "the agent is stopping";
    return agent->welcomed ? "the coordinator has not said yet what the agent's tasks are"
                           : "the agent is not registered with the coordinator yet";
}

static void publish(struct agent *agent, int64_t now_ms)
{
    struct metrics_view *view = mem_calloc(1, sizeof(*view));
    view->reason = reason_not_ready(agent);
    view->ready = view->reason == NULL;
    view->capacity = agent->config.options->capacity;
    view->started_at = agent->started_at;
    view->tasks = task_table_count(agent->table);
    view->report.stopping = !takes_tasks(agent);
    task_table_collect(agent->table, &view->report);
    coordinator_link_count(agent->link, &view->link);
    if (agent->config.snapshots != NULL)
        snapshot_serve_count(agent->config.snapshots, &view->snapshots);
    endpoint_publish(agent->config.endpoint, view);
    agent->view_due_ms = now_ms + VIEW_MS;
}

static void show_life(struct agent *agent, int64_t now_ms)
{
    endpoint_beat(agent->config.endpoint, now_ms);
    if (agent->config.snapshots != NULL)
        snapshot_serve_expire(agent->config.snapshots, now_ms);
    if (now_ms >= agent->view_due_ms)
        publish(agent, now_ms);
    if (agent->watchdog_interval_ms > 0 && now_ms >= agent->watchdog_due_ms) {
        notify_send("WATCHDOG=1");
        agent->watchdog_due_ms = now_ms + agent->watchdog_interval_ms;
    }
}

/* ---- the loop */

static void earlier(int64_t *deadline_ms, int64_t other_ms)
{
    if (other_ms < *deadline_ms)
        *deadline_ms = other_ms;
}

static int64_t next_turn_ms(const struct agent *agent, int64_t now_ms)
{
    bool waits_for_tasks = task_table_count(agent->table).stopping > 0;
    int64_t deadline_ms = now_ms + (waits_for_tasks ? TURN_STOPPING_MS : TURN_MS);
    earlier(&deadline_ms, agent->view_due_ms);
    earlier(&deadline_ms, task_table_wake_ms(agent->table));
    if (may_report(agent))
        earlier(&deadline_ms, agent->report_due_ms);
    if (is_in(agent, PHASE_DRAINING) || is_in(agent, PHASE_STOPPING) || is_in(agent, PHASE_LEAVING))
        earlier(&deadline_ms, agent->phase_deadline_ms);
    if (agent->watchdog_interval_ms > 0)
        earlier(&deadline_ms, agent->watchdog_due_ms);
    return deadline_ms;
}

static void turn(struct agent *agent)
{
    struct link_message *message =
        mailbox_receive(agent->mailbox, next_turn_ms(agent, clock_mono_ms()));
    int64_t now_ms = clock_mono_ms();

    for (; message != NULL; message = mailbox_receive(agent->mailbox, 0))
        handle(agent, message, now_ms);
    if (atomic_exchange(&agent->crash_passed, false))
        crash_list_renew(agent->config.options->state_dir, &agent->registration);
    if (atomic_exchange(&agent->tasks_changed, false))
        agent->report_due_ms = now_ms;
    task_table_step(agent->table, now_ms);
    if (agent->expiry != NULL && is_in(agent, PHASE_WORKING))
        expiry_step(agent->expiry, agent->table, now_ms);
    advance(agent, now_ms);
    if (may_report(agent) && now_ms >= agent->report_due_ms)
        report(agent, now_ms);
    show_life(agent, now_ms);
}

static void sign_off(struct agent *agent)
{
    struct err err;
    if (!agent->welcomed || agent->link_ended)
        return;
    if (coordinator_link_deregister(agent->link, LEAVE_MS, &err) != ERR_NONE)
        log_warn("not_signed_off", LOG_STR("detail", err.text),
                 LOG_STR("effect", "the coordinator will call the agent lost"), LOG_END);
    else
        log_info("signed_off", LOG_STR("agent", agent->config.options->agent_id), LOG_END);
}

enum agent_end agent_run(struct agent *agent)
{
    struct err err;
    publish(agent, clock_mono_ms());
    if (coordinator_link_start(agent->link, &err) != ERR_NONE) {
        log_error("not_started", LOG_STR("detail", err.text), LOG_END);
        return AGENT_END_FAILED;
    }
    while (!is_in(agent, PHASE_ENDED))
        turn(agent);
    mailbox_close(agent->mailbox);
    coordinator_link_stop(agent->link);
    sign_off(agent);
    if (agent->abandoned)
        return AGENT_END_ABANDONED;
    return agent->failed ? AGENT_END_FAILED : AGENT_END_CLEAN;
}
