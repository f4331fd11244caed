/* Carries out the core's actions (agent/task_act.c), request by request, each with its fate. */
#include <assert.h>

#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

#define KAFKA_TIMEOUT_MS  10000
#define RANGES_TIMEOUT_MS 1000
#define UNSTABLE_PAUSE_MS 20
#define COMMIT_OFFSETS    1 /* stages of a commit; 0: the outputs */
#define COMMIT_END        2

/* ---- the store */

void agent_take_positions(struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        bool exists = task->store != NULL && task->store->exists;
        size_t partition = agent_partition(task, i);

        task->offsets[i] = exists ? task->store->disk.learned[partition] : API_UNKNOWN;
        task->records[i] = exists ? task->store->disk.records[partition] : API_UNKNOWN;
    }
}

static void open_store(struct world *world, struct sim_task *task)
{
    enum store_model_condition condition = STORE_MODEL_FRESH;
    struct task_event *event;

    if (world_chance(world, world->config.fault_permille)) {
        (void)agent_event(task, TASK_EVENT_STORE_FAILED, "store_failed", "it does not open");
        return;
    }
    task->consumer_open = true;
    if (task->store != NULL) {
        condition = store_model_open(task->store);
        task->store_open = true;
    }
    if (condition == STORE_MODEL_KEPT)
        checks_disk(world, task);
    world->tally->of[TALLY_KEPT] += condition == STORE_MODEL_KEPT;
    world->tally->of[TALLY_SET_ASIDE] += condition == STORE_MODEL_SET_ASIDE;
    agent_take_positions(task);
    event = agent_event(task, TASK_EVENT_STORE_OPENED, NULL, "damaged");
    event->offsets = task->offsets;
    event->records = task->records;
    event->set_aside = condition == STORE_MODEL_SET_ASIDE;
}

static void checkpoint(struct world *world, struct sim_task *task)
{
    struct store_position positions[KAFKA_PARTITIONS_MAX];

    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        positions[i] = (struct store_position){API_UNKNOWN, API_UNKNOWN};
    for (size_t i = 0; i < task->core.partition_count; i++)
        positions[agent_partition(task, i)] = (struct store_position){
            task->core.partitions[i].freezing, task->core.partitions[i].records};
    store_model_freeze(task->store, positions,
                       world->now_ms + (world_chance(world, 50) ? world_between(world, 100, 5000)
                                                                : world_between(world, 1, 50)));
    task->flush_running = true;
    task->flush_failed = false;
}

static void drop_state(struct world *world, struct sim_task *task)
{
    struct task_event *event;

    world->tally->of[TALLY_REPAIR]++;
    task->flush_running = false;
    if (task->store_open && world->config.mutation != MUTATION_REPAIR_KEEPS_STATE &&
        !store_model_drop_live(task->store)) {
        (void)agent_event(task, TASK_EVENT_STORE_FAILED, "store_failed", "a checkpoint failed");
        return;
    }
    agent_take_positions(task);
    event = agent_event(task, TASK_EVENT_STATE_DROPPED, NULL, NULL);
    event->offsets = task->offsets;
    event->records = task->records;
}

static void set_aside(struct world *world, struct sim_task *task)
{
    task->flush_running = false;
    if (!task->store_open)
        return;
    world->tally->of[TALLY_SET_ASIDE]++;
    store_model_set_aside(task->store);
    task->store_open = false;
}

static void close_producer(struct world *world, struct sim_task *task)
{
    if (world->config.mutation == MUTATION_PRODUCER_REUSED && !task->producer.fenced &&
        task->core.phase.state == TASK_PHASE_PRODUCER) {
        task->producer.broken = false;
        return;
    }
    task->producer.warm = false;
    task->producer.open = task->producer.fenced = task->producer.broken = false;
    task->producer.count = 0;
}

static void close_all(struct world *world, struct sim_task *task)
{
    close_producer(world, task);
    if (task->store_open)
        store_model_close(task->store);
    task->seed.active = false;
    task->store_open = task->consumer_open = task->assigned = task->flush_running = false;
    (void)agent_event(task, TASK_EVENT_CLOSED, NULL, NULL);
}

static void assign(struct world *world, struct sim_task *task)
{
    if (world_chance(world, world->config.fault_permille / 4)) {
        (void)agent_event(task, TASK_EVENT_ASSIGN_FAILED, "kafka_unreachable", "assign");
        return;
    }
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->next[i] = task->core.partitions[i].position;
    task->assigned = true;
}

/* ---- requests to Kafka */

static int64_t soon(struct world *world)
{
    return world->now_ms +
           (world_chance(world, 100) ? world_between(world, 20, 400) : world_between(world, 0, 8));
}

static enum sim_fate draw_fate(struct world *world, bool late)
{
    if (!world_chance(world, world->config.fault_permille))
        return SIM_FATE_OK;
    switch (world_between(world, 0, late ? 3 : 2)) {
    case 0:
        return SIM_FATE_REFUSED;
    case 1:
        return SIM_FATE_UNHEARD;
    case 2:
        return SIM_FATE_LOST;
    default:
        return SIM_FATE_LATE;
    }
}

static void call(struct world *world, struct sim_task *task, enum task_action action)
{
    struct sim_call *call = &task->call;

    *call = (struct sim_call){.active = true,
                              .action = action,
                              .due_ms = soon(world),
                              .deadline_ms = world->now_ms + KAFKA_TIMEOUT_MS};
    call->fate =
        draw_fate(world, action == TASK_ACTION_COMMIT || action == TASK_ACTION_OPEN_PRODUCER);
    if (action == TASK_ACTION_COMMIT)
        call->fault_stage =
            (int)world_between(world, 0, world->config.exactly_once ? COMMIT_END : COMMIT_OFFSETS);
}

void agent_observe_ranges(struct world *world, struct sim_task *task)
{
    call(world, task, TASK_ACTION_QUERY_RANGES);
    task->core.asked_ms = world->now_ms;
    task->order_held = false;
    task->call.observing = true;
    task->call.deadline_ms = world->now_ms + RANGES_TIMEOUT_MS;
}

static struct kafka_offsets offsets_of(const struct sim_task *task)
{
    struct kafka_offsets offsets;

    for (size_t i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        offsets.of[i].offset = API_UNKNOWN;
    for (size_t i = 0; i < task->core.partition_count; i++) {
        offsets.of[agent_partition(task, i)] =
            (struct task_committed){.offset = task->core.partitions[i].committing,
                                    .stamped = true,
                                    .stamp = task_stamp(&task->core, i)};
    }
    return offsets;
}

/* One request of a commit arrives. */
static enum kafka_reply apply_commit(struct world *world, struct sim_task *task)
{
    struct sim_producer *producer = &task->producer;
    struct kafka_offsets offsets;

    switch (task->call.stage) {
    case COMMIT_OFFSETS:
        checks_commits(world, task);
        offsets = offsets_of(task);
        if (world->config.exactly_once)
            return kafka_send_offsets(&world->kafka, task->processor, producer->epoch, &offsets,
                                      world->now_ms);
        kafka_commit_plain(&world->kafka, task->processor, &offsets);
        return KAFKA_OK;
    case COMMIT_END:
        return kafka_commit_transaction(&world->kafka, task->processor, producer->epoch);
    default:
        return agent_send_outputs(world, task, SIZE_MAX);
    }
}

static void apply_ranges(struct world *world, struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++)
        task->ranges[i] = kafka_range(&world->kafka, agent_partition(task, i));
}

static enum kafka_reply fetch_offsets(struct world *world, const struct sim_task *task,
                                      struct task_committed *ret_committed)
{
    struct task_committed committed[KAFKA_PARTITIONS_MAX];
    uint32_t wanted = 0;
    enum kafka_reply result;

    for (size_t i = 0; i < task->core.partition_count; i++)
        wanted |= (uint32_t)task->core.partitions[i].owned << agent_partition(task, i);
    result = kafka_fetch_offsets(&world->kafka, wanted, committed);
    for (size_t i = 0; i < task->core.partition_count && result == KAFKA_OK; i++)
        ret_committed[i] = committed[agent_partition(task, i)];
    return result;
}

static void apply_init(struct world *world, struct sim_task *task)
{
    checks_init(world, task);
    if (world->config.mutation == MUTATION_T1_BEFORE_INIT) {
        for (size_t i = 0; i < task->core.partition_count; i++)
            task->early[i] = world->kafka.group.of[agent_partition(task, i)];
    }
    if (world->config.mutation == MUTATION_PRODUCER_REUSED && task->producer.open)
        return;
    world->tally->of[TALLY_WARM] += task->producer.warm;
    task->producer.warm = false;
    task->producer.open = true;
    if (world->config.exactly_once)
        task->producer.epoch = kafka_init_producer(&world->kafka, task->processor);
}

/* VERIFY finds that the record is no longer there (its contents never change here). */
static bool is_cut_off(const struct world *world, const struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        if (!task_is_inherited_whole(&task->core.partitions[i]) &&
            task->core.partitions[i].position <
                kafka_range(&world->kafka, agent_partition(task, i)).log_start)
            return true;
    }
    return false;
}

/* The request arrives at Kafka. */
static void apply_call(struct world *world, struct sim_task *task)
{
    struct sim_call *call = &task->call;

    switch (call->action) {
    case TASK_ACTION_QUERY_RANGES:
        apply_ranges(world, task);
        break;
    case TASK_ACTION_VERIFY:
        call->failed = is_cut_off(world, task);
        break;
    case TASK_ACTION_OPEN_PRODUCER:
        apply_init(world, task);
        break;
    case TASK_ACTION_FETCH_COMMITTED:
        call->result = fetch_offsets(world, task, task->committed);
        if (world->config.mutation == MUTATION_T1_BEFORE_INIT &&
            task->core.phase.state == TASK_PHASE_COMMITTED) {
            for (size_t i = 0; i < task->core.partition_count; i++)
                task->committed[i] = task->early[i];
        }
        break;
    default:
        assert(call->action == TASK_ACTION_COMMIT);
        call->result = apply_commit(world, task);
        break;
    }
}

/* Given up by its sender, and on its way all the same. */
static void send_late(struct world *world, struct sim_task *task)
{
    struct kafka_request request = {.processor = task->processor,
                                    .epoch = task->producer.epoch,
                                    .due_ms =
                                        task->call.deadline_ms + world_between(world, 0, 20000),
                                    .kind = KAFKA_REQUEST_INIT};

    if (task->call.action == TASK_ACTION_COMMIT) {
        request.kind = task->call.stage == COMMIT_END ? KAFKA_REQUEST_END : KAFKA_REQUEST_OFFSETS;
        request.offsets = offsets_of(task);
        /* Late outputs are not modelled, and a transaction's offsets can not be. */
        if (task->call.stage == 0 ||
            (task->call.stage == COMMIT_OFFSETS && world->config.exactly_once))
            return;
        world->tally->of[TALLY_COMMIT_LATE]++;
    } else if (!world->config.exactly_once) {
        return;
    }
    kafka_send(&world->kafka, &request);
}

static const struct {
    enum task_event_kind good, fenced, failed;
} answers[] = {
    [TASK_ACTION_QUERY_RANGES] = {TASK_EVENT_RANGES, 0, TASK_EVENT_RANGES_FAILED},
    [TASK_ACTION_VERIFY] = {TASK_EVENT_VERIFIED, 0, TASK_EVENT_VERIFY_FAILED},
    [TASK_ACTION_OPEN_PRODUCER] = {TASK_EVENT_PRODUCER_READY, TASK_EVENT_PRODUCER_FENCED,
                                   TASK_EVENT_PRODUCER_FAILED},
    [TASK_ACTION_FETCH_COMMITTED] = {TASK_EVENT_COMMITTED_READ, 0, TASK_EVENT_COMMITTED_FAILED},
    [TASK_ACTION_COMMIT] = {TASK_EVENT_COMMIT_DONE, TASK_EVENT_COMMIT_FENCED,
                            TASK_EVENT_COMMIT_FAILED},
};

static void count_answer(struct world *world, const struct sim_task *task, bool good)
{
    const struct sim_call *call = &task->call;

    if (call->action == TASK_ACTION_COMMIT && good)
        world->tally->of[TALLY_COMMIT]++;
    if (call->action == TASK_ACTION_COMMIT && call->fate == SIM_FATE_UNHEARD &&
        call->stage == COMMIT_END)
        world->tally->of[TALLY_COMMIT_DONE]++;
    if (call->action == TASK_ACTION_COMMIT && call->fate == SIM_FATE_LOST)
        world->tally->of[TALLY_COMMIT_LOST]++;
    if (call->action == TASK_ACTION_FETCH_COMMITTED && !good)
        world->tally->of[TALLY_HICCUP]++;
}

/* Another init of the same transactional.id came in between: the client may hear of it at once. */
static bool is_overtaken(struct world *world, const struct sim_task *task)
{
    return task->call.action == TASK_ACTION_OPEN_PRODUCER && world->config.exactly_once &&
           task->producer.epoch != world->kafka.transactions[task->processor].epoch &&
           world_between(world, 0, 1) == 0;
}

static void answer(struct world *world, struct sim_task *task, bool good)
{
    struct sim_call call = task->call;
    struct task_event *event;

    count_answer(world, task, good);
    if (good && is_overtaken(world, task))
        call.result = KAFKA_FENCED;
    task->call.active = false;
    if (call.result == KAFKA_FENCED)
        task->producer.fenced = true;
    event = agent_event(task,
                        call.result == KAFKA_FENCED ? answers[call.action].fenced
                        : good                      ? answers[call.action].good
                                                    : answers[call.action].failed,
                        NULL, "the broker said so");
    event->ranges = task->ranges;
    event->committed = task->committed;
}

/* The part of the call that `fate` strikes. */
static void fail_call(struct world *world, struct sim_task *task)
{
    struct sim_call *call = &task->call;

    if (call->struck) {
        if (call->fate == SIM_FATE_LATE)
            send_late(world, task);
        answer(world, task, false);
        return;
    }
    call->struck = true;
    call->due_ms = call->fate == SIM_FATE_REFUSED ? soon(world) : call->deadline_ms;
    if (call->fate == SIM_FATE_UNHEARD)
        apply_call(world, task);
    if (call->result == KAFKA_UNSTABLE)
        call->result = KAFKA_OK;
}

void agent_serve_call(struct world *world, struct sim_task *task)
{
    struct sim_call *call = &task->call;
    int last_stage = call->action != TASK_ACTION_COMMIT ? 0
                     : world->config.exactly_once       ? COMMIT_END
                                                        : COMMIT_OFFSETS;

    if (call->fate != SIM_FATE_OK && (call->stage == call->fault_stage)) {
        fail_call(world, task);
        return;
    }
    if (!call->applied) {
        apply_call(world, task);
        call->applied = true;
        call->due_ms = soon(world);
        if (call->result != KAFKA_UNSTABLE)
            return;
        /* The client asks again until its time is up. */
        world->tally->of[TALLY_UNSTABLE]++;
        call->applied = false;
        call->result = KAFKA_OK;
        call->due_ms = world->now_ms + UNSTABLE_PAUSE_MS;
        if (call->due_ms >= call->deadline_ms)
            answer(world, task, false);
        return;
    }
    if (call->result == KAFKA_FENCED || call->failed || call->stage == last_stage) {
        answer(world, task, call->result == KAFKA_OK && !call->failed);
        return;
    }
    call->stage++;
    call->applied = false;
    call->due_ms = soon(world);
}

/* ---- dispatch */

static bool needs_flush_end(enum task_action action)
{
    return action == TASK_ACTION_DROP_STATE || action == TASK_ACTION_SET_ASIDE ||
           action == TASK_ACTION_CLOSE;
}

void agent_act(struct world *world, struct sim_task *task, enum task_action action)
{
    world_trace(world, "agent %zu task %u:     %s", task->agent, task->processor,
                agent_action_name(action));
    if (needs_flush_end(action) && task->store_open && task->store->flush == STORE_MODEL_RUNNING) {
        task->waits_for_flush = true; /* again when it has ended */
        task->action_next--;
        return;
    }
    task->waits_for_flush = false;
    switch (action) {
    case TASK_ACTION_OPEN_STORE:
        open_store(world, task);
        break;
    case TASK_ACTION_SEED:
        agent_seed_start(world, task);
        break;
    case TASK_ACTION_CANCEL_SEED:
        agent_seed_cancel(world, task);
        break;
    case TASK_ACTION_QUERY_RANGES:
    case TASK_ACTION_VERIFY:
    case TASK_ACTION_OPEN_PRODUCER:
    case TASK_ACTION_FETCH_COMMITTED:
    case TASK_ACTION_COMMIT:
        call(world, task, action);
        break;
    case TASK_ACTION_ASSIGN:
        assign(world, task);
        break;
    case TASK_ACTION_CHECKPOINT:
        checkpoint(world, task);
        break;
    case TASK_ACTION_CLOSE_PRODUCER:
        close_producer(world, task);
        break;
    case TASK_ACTION_DROP_STATE:
        drop_state(world, task);
        break;
    case TASK_ACTION_SET_ASIDE:
        set_aside(world, task);
        break;
    case TASK_ACTION_UNASSIGN:
        task->assigned = false;
        break;
    case TASK_ACTION_FORGET:
        agent_forget(world, task);
        break;
    case TASK_ACTION_CLOSE:
        close_all(world, task);
        break;
    case TASK_ACTION_WARM_PRODUCER:
        world->tally->of[TALLY_CAUGHT_UP]++;
        task->producer.warm = !world_chance(world, world->config.fault_permille);
        break;
    case TASK_ACTION_REPORT:
        task->report_due_ms = 0;
        break;
    }
}
