/* Carries out the core's actions, each answered by an event. Blocking calls have limits. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store_seed.h"
#include "agent/task_private.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

#define KAFKA_TIMEOUT_MS   10000
#define FLUSH_RETRY_MS     1000
#define RANGES_SOON_MS     400
#define RANGES_ORDER_MS    20   /* records wait for the answer */
#define RANGES_INTERVAL_MS 2000 /* log start and ends, for lag and for problems of the topic */

static void log_problem(const struct task_thread *thread, const char *event, const char *text)
{
    log_warn(event, LOG_STR("job", thread->job.name),
             LOG_INT("processor", thread->desired.processor),
             LOG_INT("epoch", thread->core.epoch_working), LOG_STR("error", text), LOG_END);
}

/* ---- opening */

static enum err_code open_consumer(struct task_thread *thread, struct err *reterr)
{
    const struct consumer_config config = {
        .kafka = thread->context->kafka,
        .client_id = thread->client_id,
        .group_id = thread->job.spec.group_id,
        .topics = thread->job.spec.inputs.items,
        .topic_count = thread->job.spec.inputs.count,
        .partitions = thread->core.partitions,
        .partition_count = thread->core.partition_count,
        .wake = task_thread_wake,
        .wake_arg = thread,
    };
    enum err_code code;

    if (thread->consumer != NULL)
        return ERR_NONE;
    code = consumer_create(&config, &thread->consumer, reterr);
    if (code == ERR_NONE)
        task_watch_anew(thread);
    return code;
}

static void close_consumer(struct task_thread *thread)
{
    observer_unwatch(thread->watch);
    thread->watch = NULL;
    consumer_destroy(thread->consumer);
    thread->consumer = NULL;
    for (size_t i = 0; i < thread->core.partition_count; i++)
        task_read_note(thread, i, NULL);
}

static enum err_code open_logic(struct task_thread *thread, struct err *reterr)
{
    const struct job_spec *spec = &thread->job.spec;
    enum err_code code;
    const struct logic_spec logic = {
        .kind = spec->logic.kind,
        .name = spec->logic.name,
        .version = spec->logic.version,
        .config = spec->logic.config,
        .plugin_dir = thread->context->options->plugin_dir,
        .has_output = spec->output != NULL,
    };

    if (thread->logic != NULL)
        return ERR_NONE;
    code = logic_create(&logic, &thread->logic, reterr);
    if (code == ERR_NONE)
        task_crash_open(thread);
    return code;
}

void task_act_describe_store(const struct task_thread *thread, struct store_config *ret_config,
                             struct store_identity *ret_identity)
{
    const struct agent_options *options = thread->context->options;

    *ret_config = (struct store_config){
        .directory = thread->directory,
        .cache_bytes_max = options->cache_bytes,
        .map_bytes_max = options->state_bytes_max,
        .sync = options->state_sync,
        .state_ttl_ms = thread->job.spec.state_ttl_ms,
        .owners = task_garbage_owners(thread),
    };
    *ret_identity = (struct store_identity){
        .cluster = thread->context->cluster,
        .job = thread->job.name,
        .job_incarnation = thread->job.incarnation,
        .processor = thread->desired.processor,
        .logic = thread->logic_id,
        .boot_id = thread->context->boot_id,
    };
}

enum err_code task_act_open_state(struct task_thread *thread, enum store_condition *ret_condition,
                                  char *ret_reason, struct err *reterr)
{
    struct store_config config;
    struct store_identity identity;

    task_act_describe_store(thread, &config, &identity);
    return store_open(&config, &identity, task_thread_wake, thread, &thread->store, ret_condition,
                      ret_reason, reterr);
}

/* Puts the lineage and thread->offsets where the store stands; API_UNKNOWN where it knows nothing.
 */
static void take_positions(struct task_thread *thread)
{
    size_t count = 0;
    const struct store_position *positions =
        thread->store == NULL ? NULL : store_positions(thread->store, &count);

    for (size_t i = 0; i < thread->core.partition_count; i++) {
        const struct task_partition *partition = &thread->core.partitions[i];
        struct store_position *lineage = &thread->lineage[i];

        thread->offsets[i] = API_UNKNOWN;
        lineage->record_time_ms = lineage->last_offset = lineage->records = API_UNKNOWN;
        lineage->last_fingerprint = 0;
        for (size_t k = 0; k < count; k++) {
            if (positions[k].topic != partition->topic ||
                positions[k].partition != partition->partition)
                continue;
            *lineage = positions[k];
            thread->offsets[i] = positions[k].next_offset;
        }
        thread->records[i] = lineage->records;
        thread->core.partitions[i].met = lineage->last_offset;
    }
}

/* How long ago the state was written. A clock that was put back says nothing. */
static int64_t age_of(struct task_thread *thread)
{
    int64_t written_ms = thread->store == NULL ? API_UNKNOWN : store_written_ms(thread->store);
    int64_t now_ms = clock_wall_ms();

    return written_ms == API_UNKNOWN || written_ms > now_ms ? API_UNKNOWN : now_ms - written_ms;
}

struct task_event *task_act_opened(struct task_thread *thread, enum task_event_kind kind,
                                   const char *reason)
{
    struct task_event *event;

    take_positions(thread);
    task_seed_offer(thread);
    event = task_thread_event(thread, kind, NULL, reason);
    event->offsets = thread->offsets;
    event->records = thread->records;
    event->state_age_ms = age_of(thread);
    event->rebuilds_from_latest =
        (logic_processor(thread->logic)->flags & BATON_PROCESSOR_REBUILD_FROM_LATEST) != 0;
    return event;
}

static void open_store(struct task_thread *thread)
{
    enum store_condition condition = STORE_FRESH;
    char reason[ERR_TEXT_BYTES] = "";
    struct err err;

    if (open_logic(thread, &err) != ERR_NONE) {
        task_thread_event(thread, TASK_EVENT_STORE_FAILED, "logic_missing", err.text)->fatal = true;
        return;
    }
    if (open_consumer(thread, &err) != ERR_NONE) {
        task_thread_event(thread, TASK_EVENT_STORE_FAILED, "kafka_unreachable", err.text);
        return;
    }
    if (thread->job.spec.stateful &&
        task_act_open_state(thread, &condition, reason, &err) != ERR_NONE) {
        (void)task_thread_event(thread, TASK_EVENT_STORE_FAILED, "store_failed", err.text);
        return;
    }
    if (condition == STORE_SET_ASIDE)
        log_problem(thread, "state_set_aside", reason);
    /* Of a run that was killed, and whose state may never be fetched again. It is only in the way
     * of the disk's other users. */
    if (thread->job.spec.stateful && thread->fetch == NULL &&
        store_seed_clear(thread->directory, &err) != ERR_NONE)
        log_problem(thread, "seed_not_removed", err.text);
    task_act_opened(thread, TASK_EVENT_STORE_OPENED, reason)->set_aside =
        condition == STORE_SET_ASIDE;
}

static void take_ranges(struct task_thread *thread)
{
    struct task_event *event;
    enum err_code code;
    struct err err;

    if (!observer_take(thread->watch, &code, thread->ranges, thread->policies, &err))
        return;
    thread->ranges_out = false;
    if (code == ERR_NONE) {
        consumer_answered(thread->consumer);
        thread->ranges_ms = clock_mono_ms();
        event = task_thread_event(thread, TASK_EVENT_RANGES, NULL, NULL);
        event->ranges = thread->ranges;
        event->policies = task_wants_policy(&thread->core) ? thread->policies : NULL;
    } else if (code == ERR_NOT_FOUND && thread->core.assigned) {
        /* Also when the topic is there again soon, it is another one: look before reading on. */
        (void)task_thread_event(thread, TASK_EVENT_POSITION_LOST, "topic_missing", err.text);
    } else {
        (void)task_thread_event(thread, TASK_EVENT_RANGES_FAILED,
                                code == ERR_NOT_FOUND ? "topic_missing" : "kafka_unreachable",
                                err.text);
    }
}

void task_act_serve_ranges(struct task_thread *thread, int64_t now_ms)
{
    if (thread->watch == NULL)
        return;
    take_ranges(thread);
    if (task_awaits_ranges(&thread->core) && thread->ranges_due_ms > now_ms + RANGES_SOON_MS)
        thread->ranges_due_ms = now_ms + RANGES_SOON_MS;
    /* A question that is asked anew before it is answered would never be. */
    if (thread->order_held && !thread->ranges_out &&
        now_ms >= thread->core.asked_ms + RANGES_ORDER_MS)
        thread->ranges_due_ms = now_ms;
    if (thread->core.assigned && now_ms >= thread->ranges_due_ms) {
        task_asks_ranges(&thread->core, now_ms);
        observer_ask(thread->watch, false);
        thread->ranges_out = true;
        thread->ranges_due_ms =
            now_ms + (task_awaits_ranges(&thread->core) ? RANGES_SOON_MS : RANGES_INTERVAL_MS);
    }
}

/* ---- activation */

static enum err_code make_producer(struct task_thread *thread, struct err *reterr)
{
    const struct job_spec *spec = &thread->job.spec;
    const struct producer_config config = {
        .kafka = thread->context->kafka,
        .client_id = thread->client_id,
        .transactional_id =
            spec->delivery == DELIVERY_EXACTLY_ONCE ? thread->transactional_id : NULL,
        .output = spec->output,
        .dead_letter = spec->dead_letter_topic,
        .provenance = spec->provenance,
    };

    return thread->producer != NULL ? ERR_NONE
                                    : producer_create(&config, &thread->producer, reterr);
}

/* It connects by itself. Nothing is sent that a fence would notice. */
static void warm_producer(struct task_thread *thread)
{
    struct err err;

    HOOK_HERE(thread, "warm");
    if (make_producer(thread, &err) != ERR_NONE)
        log_problem(thread, "producer_not_warm", err.text);
}

static void open_producer(struct task_thread *thread)
{
    struct err err;
    enum err_code code = make_producer(thread, &err);

    if (code == ERR_NONE)
        code = producer_init(thread->producer, KAFKA_TIMEOUT_MS, &err);
    if (code == ERR_NONE) {
        (void)task_thread_event(thread, TASK_EVENT_PRODUCER_READY, NULL, NULL);
        return;
    }
    log_problem(thread, "producer_init_failed", err.text);
    if (code == ERR_FENCED)
        (void)task_thread_event(thread, TASK_EVENT_PRODUCER_FENCED, NULL, err.text);
    else
        (void)task_thread_event(thread, TASK_EVENT_PRODUCER_FAILED,
                                code == ERR_INVALID ? "output_failed" : "kafka_unreachable",
                                err.text);
}

static void fetch_committed(struct task_thread *thread)
{
    struct err err;
    enum err_code code =
        consumer_committed(thread->consumer, KAFKA_TIMEOUT_MS, thread->committed, &err);

    if (code == ERR_NONE)
        task_thread_event(thread, TASK_EVENT_COMMITTED_READ, NULL, NULL)->committed =
            thread->committed;
    else
        (void)task_thread_event(thread, TASK_EVENT_COMMITTED_FAILED,
                                code == ERR_CONFLICT ? "blocked_by_open_transaction"
                                : code == ERR_KAFKA  ? "kafka_unauthorized"
                                                     : "kafka_unreachable",
                                err.text);
}

static void assign(struct task_thread *thread)
{
    struct err err;

    for (size_t i = 0; i < thread->core.partition_count; i++)
        thread->offsets[i] = task_verify_start_of(&thread->core.partitions[i]);
    if (consumer_assign(thread->consumer, thread->offsets, &err) != ERR_NONE)
        (void)task_thread_event(thread, TASK_EVENT_ASSIGN_FAILED, "kafka_unreachable", err.text);
}

/* ---- commits */

void task_act_producer_error(struct task_thread *thread, enum task_event_kind kind,
                             const struct err *err)
{
    const char *code = NULL; /* a transaction that failed: it is repeated */

    if (err->code == ERR_FENCED)
        kind = TASK_EVENT_COMMIT_FENCED;
    else if (err->code == ERR_NOT_FOUND)
        code = "topic_missing";
    else if (err->code == ERR_INVALID || kind == TASK_EVENT_OUTPUT_FAILED)
        code = "output_failed";
    task_thread_event(thread, kind, code, err->text)->fatal =
        err->code == ERR_NOT_FOUND || err->code == ERR_INVALID;
}

static void commit(struct task_thread *thread)
{
    rd_kafka_topic_partition_list_t *list;
    enum err_code code;
    struct err err;

    HOOK_HERE_OF(thread, "commit_before");
    list = consumer_commit_list(thread->consumer, &thread->core);
    code =
        producer_commit(thread->producer, list, thread->job.spec.group_id, KAFKA_TIMEOUT_MS, &err);
    rd_kafka_topic_partition_list_destroy(list);
    if (code == ERR_NONE && thread->job.spec.delivery == DELIVERY_AT_LEAST_ONCE)
        code = consumer_commit(thread->consumer, &thread->core, KAFKA_TIMEOUT_MS, &err);
    if (code == ERR_NONE) {
        HOOK_HERE_OF(thread, "commit_after");
        thread->counters.commits++;
        (void)task_thread_event(thread, TASK_EVENT_COMMIT_DONE, NULL, NULL);
        return;
    }
    thread->counters.aborts++;
    log_problem(thread, code == ERR_FENCED ? "fenced" : "commit_failed", err.text);
    task_act_producer_error(thread, TASK_EVENT_COMMIT_FAILED, &err);
}

static void checkpoint(struct task_thread *thread)
{
    bool frozen;

    HOOK_HERE(thread, "checkpoint_before");
    for (size_t i = 0; i < thread->core.partition_count; i++) {
        thread->lineage[i].next_offset = thread->core.partitions[i].freezing;
        thread->lineage[i].records = thread->core.partitions[i].records;
        thread->lineage[i].whole = task_is_inherited_whole(&thread->core.partitions[i]);
    }
    frozen = store_freeze(thread->store, thread->lineage, thread->core.partition_count);
    assert(frozen); /* the core asks for one at a time */
    thread->flush_running = true;
    thread->flush_failed = false;
}

void task_act_serve_store(struct task_thread *thread, int64_t now_ms)
{
    struct err err;

    if (!thread->flush_running)
        return;
    switch (store_flush_state(thread->store, &err)) {
    case STORE_FLUSH_RUNNING:
        return;
    case STORE_FLUSH_IDLE:
        HOOK_HERE(thread, "checkpoint_after");
        thread->flush_running = false;
        (void)task_thread_event(thread, TASK_EVENT_CHECKPOINTED, NULL, NULL);
        return;
    case STORE_FLUSH_FAILED:
        break;
    }
    if (!thread->flush_failed) {
        log_problem(thread, "checkpoint_failed", err.text);
        if (err.code == ERR_CORRUPT)
            (void)task_thread_event(thread, TASK_EVENT_STORE_CORRUPT, NULL, err.text);
        else
            task_thread_event(thread, TASK_EVENT_CHECKPOINT_FAILED, "store_failed", err.text)
                ->fatal = err.fatal;
        thread->flush_retry_ms = now_ms + FLUSH_RETRY_MS;
    } else if (now_ms >= thread->flush_retry_ms) {
        thread->flush_retry_ms = now_ms + FLUSH_RETRY_MS;
        store_flush_retry(thread->store);
    }
    thread->flush_failed = true;
}

static void drop_state(struct task_thread *thread)
{
    struct task_event *event;
    struct err err;

    thread->flush_running = false;
    if (thread->store != NULL && store_drop_live(thread->store, &err) != ERR_NONE) {
        (void)task_thread_event(thread, TASK_EVENT_STORE_FAILED, "store_failed", err.text);
        return;
    }
    take_positions(thread);
    event = task_thread_event(thread, TASK_EVENT_STATE_DROPPED, NULL, NULL);
    event->offsets = thread->offsets;
    event->records = thread->records;
}

/* ---- closing */

static void close_producer(struct task_thread *thread)
{
    producer_destroy(thread->producer);
    thread->producer = NULL;
}

static void set_aside(struct task_thread *thread)
{
    struct err err;

    thread->flush_running = false;
    if (thread->store == NULL)
        return;
    log_problem(thread, "state_set_aside", thread->core.detail);
    task_seed_withdraw(thread);
    if (store_set_aside(thread->store, thread->core.detail, &err) != ERR_NONE)
        log_problem(thread, "set_aside_failed", err.text);
    thread->store = NULL;
}

static void close_all(struct task_thread *thread)
{
    close_producer(thread);
    close_consumer(thread);
    task_seed_close(thread);
    task_seed_withdraw(thread);
    store_close(thread->store);
    thread->store = NULL;
    thread->flush_running = false;
    logic_destroy(thread->logic);
    crash_file_destroy(thread->crashes);
    thread->crashes = NULL;
    thread->crash_noted = false;
    thread->crashed_count = 0;
    thread->logic = NULL;
    (void)task_thread_event(thread, TASK_EVENT_CLOSED, NULL, NULL);
}

void task_act(struct task_thread *thread, enum task_action action)
{
    switch (action) {
    case TASK_ACTION_OPEN_STORE:
        open_store(thread);
        break;
    case TASK_ACTION_QUERY_RANGES:
        task_asks_ranges(&thread->core, clock_mono_ms());
        observer_ask(thread->watch, task_wants_policy(&thread->core));
        thread->ranges_out = true;
        break;
    case TASK_ACTION_SEED:
        task_seed_start(thread);
        break;
    case TASK_ACTION_CANCEL_SEED:
        task_seed_cancel(thread);
        break;
    case TASK_ACTION_VERIFY:
        task_verify(thread);
        break;
    case TASK_ACTION_WARM_PRODUCER:
        warm_producer(thread);
        break;
    case TASK_ACTION_OPEN_PRODUCER:
        open_producer(thread);
        break;
    case TASK_ACTION_FETCH_COMMITTED:
        fetch_committed(thread);
        break;
    case TASK_ACTION_ASSIGN:
        assign(thread);
        break;
    case TASK_ACTION_COMMIT:
        commit(thread);
        break;
    case TASK_ACTION_CHECKPOINT:
        checkpoint(thread);
        break;
    case TASK_ACTION_CLOSE_PRODUCER:
        close_producer(thread);
        break;
    case TASK_ACTION_DROP_STATE:
        drop_state(thread);
        break;
    case TASK_ACTION_SET_ASIDE:
        set_aside(thread);
        break;
    case TASK_ACTION_UNASSIGN:
        if (thread->consumer != NULL)
            consumer_unassign(thread->consumer);
        break;
    case TASK_ACTION_FORGET:
        HOOK_HERE(thread, "split");
        task_split_forget(thread);
        break;
    case TASK_ACTION_CLOSE:
        close_all(thread);
        break;
    case TASK_ACTION_REPORT:
        thread->report_due_ms = 0; /* with the end of this turn */
        break;
    }
}
