#include "agent/task_thread.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/task_private.h"
#include "api/schema.h"
#include "common/clock.h"
#include "common/hash/linhash.h"
#include "common/logger.h"
#include "common/mem.h"

/* A replay of that many takes some seconds; the state of a few keys less. */
#define SEED_RECORDS_MIN 1000000
#define WAIT_MS_MAX      100 /* callbacks of the clients are served at least this often */

void task_thread_wake(void *arg)
{
    struct task_thread *thread = arg;
    const uint64_t one = 1;
    ssize_t written = write(thread->wake_fd, &one, sizeof(one));

    (void)written; /* a full counter is awake already */
}

void task_thread_wait(struct task_thread *thread, int64_t deadline_ms)
{
    struct pollfd poll_fd = {.fd = thread->wake_fd, .events = POLLIN};
    int64_t left_ms = deadline_ms - clock_mono_ms();
    uint64_t count;
    ssize_t taken;

    if (left_ms > WAIT_MS_MAX)
        left_ms = WAIT_MS_MAX;
    if (left_ms > 0)
        (void)poll(&poll_fd, 1,
                   (int)left_ms); /* a signal or an error only makes the turn come early */
    taken = read(thread->wake_fd, &count, sizeof(count));
    (void)taken; /* nothing to take when time was up */
}

struct task_event *task_thread_event(struct task_thread *thread, enum task_event_kind kind,
                                     const char *code, const char *detail)
{
    struct task_event_slot *slot;

    assert(thread->event_count < TASK_EVENTS_MAX);
    slot = &thread->events[(thread->event_next + thread->event_count++) % TASK_EVENTS_MAX];
    *slot = (struct task_event_slot){.event = {.kind = kind, .now_ms = clock_mono_ms()}};
    if (code != NULL) {
        (void)snprintf(slot->code, sizeof(slot->code), "%s", code);
        slot->event.code = slot->code;
    }
    if (detail != NULL) {
        (void)snprintf(slot->detail, sizeof(slot->detail), "%s", detail);
        slot->event.detail = slot->detail;
    }
    return &slot->event;
}

static void log_phase(struct task_thread *thread)
{
    enum task_phase phase = (enum task_phase)thread->core.phase.state;
    bool bad = phase == TASK_PHASE_FAILED || phase == TASK_PHASE_FENCED;

    if (thread->reported_phase == phase)
        return;
    if (thread->core.trailing && (phase == TASK_PHASE_COMMITTED || phase == TASK_PHASE_REPLAY))
        return; /* each second it looks at what others commit: it is PAUSED for people, too */
    thread->reported_phase = phase;
    log_write(bad ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "task_phase", LOG_STR("job", thread->job.name),
              LOG_INT("processor", thread->desired.processor),
              LOG_INT("epoch", thread->core.epoch_working),
              LOG_STR("phase", task_phase_name(phase)), LOG_STR("problem", thread->core.code),
              LOG_STR("detail", thread->core.detail), LOG_END);
    HOOK_HERE(thread, "phase");
}

/* Gives one event to the core and carries out what it asks for; answers are queued as events. */
static void step(struct task_thread *thread, const struct task_event *event)
{
    struct task_actions actions;

    task_step(&thread->core, event, &actions);
    log_phase(thread);
    for (size_t i = 0; i < actions.count; i++)
        task_act(thread, actions.items[i]);
    thread->wake_ms = actions.wake_ms;
}

/* A stop goes before the answers that wait: one of them might begin something that takes long. */
static void serve_stop(struct task_thread *thread)
{
    struct task_event event = {.kind = TASK_EVENT_STOP};
    bool stop;

    pthread_mutex_lock(&thread->lock);
    stop = thread->inbox.stop;
    thread->inbox.stop = false;
    pthread_mutex_unlock(&thread->lock);
    if (!stop)
        return;
    event.now_ms = clock_mono_ms();
    step(thread, &event);
}

static void drain_events(struct task_thread *thread)
{
    while (thread->event_count > 0) {
        serve_stop(thread);
        struct task_event_slot slot = thread->events[thread->event_next];

        if (slot.event.code != NULL)
            slot.event.code = slot.code;
        if (slot.event.detail != NULL)
            slot.event.detail = slot.detail;
        thread->event_next = (thread->event_next + 1) % TASK_EVENTS_MAX;
        thread->event_count--;
        slot.event.now_ms = clock_mono_ms();
        step(thread, &slot.event);
    }
}

/* ---- inbox */

/* What is fixed when a task, or its producer, is made. A learner becomes active in place, no task
 * ever becomes a learner again: it commits and closes, and another one begins with its state. */
static bool needs_restart(const struct task_thread *thread, const struct document_job *job,
                          const struct document_task *task)
{
    const struct job_spec *now = &thread->job.spec, *then = &job->spec;

    return (thread->desired.role == TASK_ROLE_ACTIVE && task->role != TASK_ROLE_ACTIVE) ||
           now->provenance != then->provenance || now->history != then->history ||
           (now->dead_letter_topic == NULL) != (then->dead_letter_topic == NULL) ||
           (now->dead_letter_topic != NULL &&
            strcmp(now->dead_letter_topic, then->dead_letter_topic) != 0);
}

static struct task_desired desired_of(const struct document_job *job,
                                      const struct document_task *task)
{
    bool learner = task->role != TASK_ROLE_ACTIVE;
    enum task_seed seed = TASK_SEED_NONE;

    if (task->sources.count > 0 && job->spec.seed != SEED_REPLAY)
        seed = job->spec.seed == SEED_SNAPSHOT ? TASK_SEED_FIRST : TASK_SEED_AUTO;
    return (struct task_desired){.epoch = learner ? 0 : task->epoch,
                                 .handoff = task->handoff,
                                 .learner = learner,
                                 .release = !learner && task->release,
                                 .split = {.handoff = learner ? 0 : task->split_handoff,
                                           .processor = task->split_processor,
                                           .epoch = task->split_epoch},
                                 .paused = !learner && job->paused,
                                 .frozen = !learner && job->frozen,
                                 .waiting = !learner && job->waiting,
                                 .seed = seed};
}

static void stop_for_another(struct task_thread *thread, struct document_job *job,
                             struct document_task *task)
{
    (void)task_thread_event(thread, TASK_EVENT_STOP, NULL, NULL);
    schema_free(&schema_document_job, job);
    schema_free(&schema_document_task, task);
}

/* Back into the inbox, unless something newer is there. */
static void put_back(struct task_thread *thread, struct document_job *job,
                     struct document_task *task)
{
    bool newer;

    pthread_mutex_lock(&thread->lock);
    newer = thread->inbox.desired;
    if (!newer) {
        thread->inbox.job = *job;
        thread->inbox.task = *task;
        thread->inbox.desired = true;
    }
    pthread_mutex_unlock(&thread->lock);
    if (newer) {
        schema_free(&schema_document_job, job);
        schema_free(&schema_document_task, task);
    }
}

/* Takes job and task. What can not change in a running task closes it, and the control thread
 * starts it anew. */
static void take_desired(struct task_thread *thread, struct document_job *job,
                         struct document_task *task)
{
    bool respec = !schema_equal(&schema_job_spec, &job->spec, &thread->job.spec);
    struct task_desired desired = desired_of(job, task);
    enum task_grow_result grown = TASK_GROW_DONE;
    struct task_event *event;

    if (!needs_restart(thread, job, task) && !task_split_same_sets(thread, task))
        grown = task_grow_possible(thread, &desired, task) ? task_grow_try(thread, job, task)
                                                           : TASK_GROW_IMPOSSIBLE;
    if (grown == TASK_GROW_LATER) {
        put_back(thread, job, task);
        return;
    }
    if (grown == TASK_GROW_IMPOSSIBLE || needs_restart(thread, job, task) ||
        !task_split_same_sets(thread, task)) {
        stop_for_another(thread, job, task);
        return;
    }
    event = task_thread_event(thread, TASK_EVENT_DESIRED, NULL, NULL);
    event->desired = desired;
    event->offsets = task_told_rested(thread, task);
    event->chosen = task_told_chosen(thread, task);
    event->restart =
        respec || !task_told_same_skips(task, &thread->desired) || task_crash_is_news(thread, task);
    thread->core.config.commit_interval_ms = job->spec.commit_interval_ms;
    thread->core.config.acceptable_lag = job->spec.acceptable_lag;
    thread->core.config.settle_ms = task_told_settle_ms(job);
    thread->core.config.hold_descendants = task_told_holds_descendants(job);
    schema_free(&schema_document_job, &thread->job);
    schema_free(&schema_document_task, &thread->desired);
    thread->job = *job;
    thread->desired = *task;
    task_told_skips(thread);
    task_told_windows(thread);
    task_told_bounds(thread);
    task_split_told(thread);
    task_garbage_told(thread);
    task_seed_permit(thread);
}

/* Whole as it came: what it does not name stays unknown, never what was told before. */
static void take_followed(struct task_thread *thread, const struct input_offset *committed,
                          size_t count)
{
    task_told_offsets(thread, committed, count, thread->followed);
    task_thread_event(thread, TASK_EVENT_FOLLOW, NULL, NULL)->offsets = thread->followed;
}

static void serve_inbox(struct task_thread *thread)
{
    struct document_job job;
    struct document_task task;
    struct input_offset *followed;
    size_t followed_count;
    bool desired;

    pthread_mutex_lock(&thread->lock);
    desired = thread->inbox.desired && clock_mono_ms() >= thread->grow_retry_ms;
    job = thread->inbox.job;
    task = thread->inbox.task;
    followed = thread->inbox.followed;
    followed_count = thread->inbox.followed_count;
    thread->inbox.desired = thread->inbox.desired && !desired;
    thread->inbox.followed = NULL;
    pthread_mutex_unlock(&thread->lock);
    if (desired)
        take_desired(thread, &job, &task);
    if (followed != NULL)
        take_followed(thread, followed, followed_count);
    free(followed);
    serve_stop(thread);
    drain_events(thread);
}

void task_thread_desire(struct task_thread *thread, const struct document_job *job,
                        const struct document_task *task)
{
    struct document_job job_copy, old_job;
    struct document_task task_copy, old_task;
    bool old;

    schema_copy(&schema_document_job, &job_copy, job);
    schema_copy(&schema_document_task, &task_copy, task);
    pthread_mutex_lock(&thread->lock);
    old = thread->inbox.desired;
    old_job = thread->inbox.job;
    old_task = thread->inbox.task;
    thread->inbox.job = job_copy;
    thread->inbox.task = task_copy;
    thread->inbox.desired = true;
    pthread_mutex_unlock(&thread->lock);
    if (old) {
        schema_free(&schema_document_job, &old_job);
        schema_free(&schema_document_task, &old_task);
    }
    task_thread_wake(thread);
}

void task_thread_follow(struct task_thread *thread, const struct input_offset *committed,
                        size_t count)
{
    struct input_offset *copy = mem_calloc(count + 1, sizeof(*copy)), *old;

    for (size_t i = 0; i < count; i++)
        copy[i] = committed[i];
    pthread_mutex_lock(&thread->lock);
    old = thread->inbox.followed;
    thread->inbox.followed = copy;
    thread->inbox.followed_count = count;
    pthread_mutex_unlock(&thread->lock);
    free(old);
    task_thread_wake(thread);
}

void task_thread_stop(struct task_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->inbox.stop = true;
    pthread_mutex_unlock(&thread->lock);
    task_thread_wake(thread);
}

bool task_thread_ended(const struct task_thread *thread)
{
    return atomic_load(&thread->ended);
}

/* ---- the loop */

static void serve_clients(struct task_thread *thread, int64_t now_ms)
{
    struct err err;

    if (thread->consumer != NULL)
        thread->brokers_down = consumer_poll(thread->consumer);
    if (thread->consumer != NULL && consumer_strayed(thread->consumer))
        (void)task_thread_event(thread, TASK_EVENT_POSITION_LOST, "kafka_unreachable",
                                "the Kafka client delivered a record past its partition's queue");
    /* Of a producer that is only warm, the init will tell. */
    if (thread->producer != NULL && producer_poll(thread->producer, &err) != ERR_NONE &&
        task_may_output(&thread->core))
        task_act_producer_error(thread, TASK_EVENT_OUTPUT_FAILED, &err);
    task_act_serve_ranges(thread, now_ms);
    drain_events(thread);
}

static bool is_done(const struct task_thread *thread)
{
    return thread->core.phase.state == TASK_PHASE_CLOSED && thread->consumer == NULL &&
           thread->store == NULL;
}

static void turn(struct task_thread *thread)
{
    struct task_event tick = {.kind = TASK_EVENT_TICK};
    bool worked = false, cleared;
    int64_t now_ms;

    serve_inbox(thread);
    task_act_serve_store(thread, clock_mono_ms());
    task_garbage_serve(thread, clock_mono_ms());
    task_seed_serve(thread);
    drain_events(thread);
    if (task_may_read(&thread->core)) {
        worked = task_read_round(thread);
        drain_events(thread);
    }
    serve_clients(thread, clock_mono_ms());
    task_set_offsets_retention(&thread->core,
                               observer_offsets_retention_ms(thread->context->observer));
    now_ms = tick.now_ms = clock_mono_ms();
    step(thread, &tick);
    drain_events(thread);
    task_crash_serve(thread);
    task_report_publish(thread, now_ms);
    cleared = task_take_cleared(&thread->core);
    if (cleared)
        HOOK_HERE(thread, "gate_open");
    if (!cleared && !worked && !is_done(thread))
        task_thread_wait(thread, thread->wake_ms);
}

static void *run(void *arg)
{
    struct task_thread *thread = arg;
    struct task_event *start;

    crash_thread_begin();
    log_info("task_opening", LOG_STR("job", thread->job.name),
             LOG_INT("processor", thread->desired.processor),
             LOG_INT("epoch", thread->desired.epoch),
             LOG_STR("transactional_id", thread->transactional_id),
             LOG_STR("state", thread->directory), LOG_END);
    task_seed_permit(thread);
    start = task_thread_event(thread, TASK_EVENT_START, NULL, NULL);
    start->offsets = task_told_rested(thread, &thread->desired);
    start->chosen = task_told_chosen(thread, &thread->desired);
    drain_events(thread);
    while (!is_done(thread))
        turn(thread);
    task_seed_end(thread);
    thread->report_due_ms = 0;
    task_report_publish(thread, clock_mono_ms());
    atomic_store(&thread->ended, true);
    thread->context->changed(thread->context->arg);
    return NULL;
}

/* ---- making and ending */

/* S2 over all input topics, by topic then partition, with T0. */
static enum err_code make_core(struct task_thread *thread, struct err *reterr)
{
    const struct document_job *job = &thread->job;
    const struct uint_list *read = &thread->desired.read;
    size_t count = job->spec.inputs.count * read->count;
    struct task_partition *partitions;
    struct task_config config = {
        .processor = thread->desired.processor,
        .parent = thread->desired.processor < job->processors_initial
                      ? thread->desired.processor
                      : linhash_parent(thread->desired.processor, job->processors_initial),
        .exactly_once = job->spec.delivery == DELIVERY_EXACTLY_ONCE,
        .stateful = job->spec.stateful,
        .history_retained = job->spec.history == HISTORY_RETAINED,
        .acceptable_lag = job->spec.acceptable_lag,
        .seed_records_min = SEED_RECORDS_MIN,
        .partitions_initial = job->partitions_initial,
        .hold_descendants = task_told_holds_descendants(job),
        .settle_ms = task_told_settle_ms(job),
        .commit_interval_ms = job->spec.commit_interval_ms,
        .checkpoint_interval_ms = thread->context->options->checkpoint_interval_ms,
    };
    struct task_desired desired;

    if (count == 0)
        return err_set(reterr, ERR_PROTOCOL, "the coordinator gave no partitions to read");
    partitions = mem_calloc(count, sizeof(*partitions));
    for (size_t i = 0; i < count; i++) {
        uint32_t topic = (uint32_t)(i / read->count), partition = read->items[i % read->count];
        int64_t origin = task_told_origin(job, topic, partition);

        if (origin == API_UNKNOWN) {
            free(partitions);
            return err_set(reterr, ERR_PROTOCOL,
                           "the coordinator gave no origin (T0) for input %u partition %u", topic,
                           partition);
        }
        partitions[i] =
            (struct task_partition){.topic = topic,
                                    .partition = partition,
                                    .owned = task_told_holds(&thread->desired.owned, partition),
                                    .t0 = origin};
    }
    (void)snprintf(config.incarnation, sizeof(config.incarnation), "%s", job->incarnation);
    desired = desired_of(job, &thread->desired);
    task_init(&thread->core, &config, &desired, partitions, count, clock_mono_ms());
    return ERR_NONE;
}

static void make_names(struct task_thread *thread)
{
    const struct job_logic *logic = &thread->job.spec.logic;
    const struct agent_options *options = thread->context->options;
    static const char *const kinds[] = {"builtin", "plugin", "exec"};

    thread->directory =
        mem_printf("%s/%s/%u", options->state_dir, thread->job.name, thread->desired.processor);
    thread->logic_id = mem_printf("%s/%s/%s", kinds[logic->kind], logic->name, logic->version);
    thread->client_id = mem_printf("baton-%s-%s-%u", options->agent_id, thread->job.name,
                                   thread->desired.processor);
    thread->transactional_id =
        mem_printf("baton.%s.%s.%s.%u", thread->context->cluster, thread->job.name,
                   thread->job.incarnation, thread->desired.processor);
}

static void make_scratch(struct task_thread *thread)
{
    size_t count = thread->core.partition_count;

    thread->lineage = mem_calloc(count, sizeof(*thread->lineage));
    thread->offsets = mem_calloc(count, sizeof(*thread->offsets));
    thread->records = mem_calloc(count, sizeof(*thread->records));
    thread->policies = mem_calloc(count, sizeof(*thread->policies));
    thread->followed = mem_calloc(count, sizeof(*thread->followed));
    thread->rested = mem_calloc(count, sizeof(*thread->rested));
    thread->chosen = mem_calloc(count, sizeof(*thread->chosen));
    thread->ranges = mem_calloc(count, sizeof(*thread->ranges));
    thread->failing = mem_calloc(count, sizeof(*thread->failing));
    thread->committed = mem_calloc(count, sizeof(*thread->committed));
    for (size_t i = 0; i < count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];

        thread->lineage[i].topic = partition->topic;
        thread->lineage[i].partition = partition->partition;
        thread->lineage[i].root =
            linhash_root(partition->partition, thread->job.partitions_initial);
    }
    task_told_skips(thread);
    task_told_windows(thread);
    task_told_bounds(thread);
    task_split_told(thread);
}

static void destroy(struct task_thread *thread)
{
    if (thread->wake_fd >= 0)
        (void)close(thread->wake_fd); /* an eventfd has nothing to write back */
    if (thread->inbox.desired) {
        schema_free(&schema_document_job, &thread->inbox.job);
        schema_free(&schema_document_task, &thread->inbox.task);
    }
    free(thread->inbox.followed);
    pthread_mutex_destroy(&thread->lock);
    schema_free(&schema_task_report, &thread->report);
    schema_free(&schema_document_job, &thread->job);
    schema_free(&schema_document_task, &thread->desired);
    task_finish(&thread->core);
    free(thread->directory);
    free(thread->logic_id);
    free(thread->client_id);
    free(thread->transactional_id);
    free(thread->lineage);
    free(thread->offsets);
    free(thread->records);
    free(thread->policies);
    free(thread->followed);
    free(thread->rested);
    free(thread->chosen);
    free(thread->ranges);
    free(thread->failing); /* closing has freed the texts */
    free(thread->committed);
    free(thread->headers);
    free(thread);
}

enum err_code task_thread_start(const struct task_thread_context *context,
                                const struct document_job *job, const struct document_task *task,
                                struct task_thread **ret_thread, struct err *reterr)
{
    struct task_thread *thread = mem_calloc(1, sizeof(*thread));
    enum err_code code;
    int error;

    thread->context = context;
    thread->reported_phase = -1;
    (void)pthread_mutex_init(&thread->lock,
                             NULL); /* never fails with default attributes on Linux */
    schema_copy(&schema_document_job, &thread->job, job);
    schema_copy(&schema_document_task, &thread->desired, task);
    make_names(thread);
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->wake_fd < 0) {
        code = err_set(reterr, ERR_IO, "eventfd: %s", strerror(errno));
        goto fail;
    }
    code = make_core(thread, reterr);
    if (code != ERR_NONE)
        goto fail;
    make_scratch(thread);
    task_report_fill(thread, &thread->report);
    error = pthread_create(&thread->thread, NULL, run, thread);
    if (error != 0) {
        code = err_set(reterr, ERR_IO, "starting a task's thread: %s", strerror(error));
        goto fail;
    }
    *ret_thread = thread;
    return ERR_NONE;
fail:
    destroy(thread);
    return code;
}

void task_thread_join(struct task_thread *thread)
{
    int error = pthread_join(thread->thread, NULL);

    assert(error == 0);
    destroy(thread);
}
