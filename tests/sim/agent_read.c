/* The hot path (agent/task_read.c): records through the logic, which counts by key. */
#include <assert.h>

#include "common/mem.h"
#include "tests/sim/agent_model.h"
#include "tests/sim/world.h"

/* ---- outputs */

static void emit(struct sim_task *task, size_t index, const struct kafka_item *item, uint32_t value)
{
    struct sim_producer *producer = &task->producer;

    producer->queue =
        mem_grow(producer->queue, producer->count, &producer->capacity, sizeof(*producer->queue));
    producer->queue[producer->count++] =
        (struct kafka_output){.partition = (uint32_t)agent_partition(task, index),
                              .offset = item->offset,
                              .key = item->key,
                              .value = value,
                              .epoch = task->core.epoch_working};
}

enum kafka_reply agent_send_outputs(struct world *world, struct sim_task *task, size_t most)
{
    struct sim_producer *producer = &task->producer;
    size_t sent = 0;
    enum kafka_reply result = KAFKA_OK;

    for (; sent < producer->count && sent < most && result == KAFKA_OK; sent++) {
        if (world->config.exactly_once)
            result = kafka_produce(&world->kafka, task->processor, producer->epoch,
                                   &producer->queue[sent], world->now_ms);
        else
            kafka_produce_plain(&world->kafka, &producer->queue[sent]);
    }
    for (size_t i = sent; i < producer->count; i++)
        producer->queue[i - sent] = producer->queue[i];
    producer->count -= sent;
    return result;
}

/* The client's own thread sends what it has, and learns what becomes of it. */
void agent_poll_producer(struct world *world, struct sim_task *task)
{
    struct sim_producer *producer = &task->producer;

    if (!producer->open || !task_may_output(&task->core))
        return;
    if (!producer->fenced && world_between(world, 0, 2) == 0)
        producer->fenced =
            agent_send_outputs(world, task, (size_t)world_between(world, 0, 8)) == KAFKA_FENCED;
    if (!producer->fenced && producer->count > 0 &&
        world_chance(world, world->config.fault_permille / 8))
        producer->broken = true;
    if (producer->fenced)
        (void)agent_event(task, TASK_EVENT_COMMIT_FENCED, NULL, "the producer is fenced");
    else if (producer->broken)
        (void)agent_event(task, TASK_EVENT_OUTPUT_FAILED, NULL, "an output was not delivered");
}

/* ---- records */

static bool refuse(struct sim_task *task, size_t index, int64_t offset)
{
    struct task_event *event =
        agent_event(task, TASK_EVENT_RECORD_REFUSED, "record_failed", "poison");

    event->index = index;
    event->offset = offset;
    return false;
}

void agent_use_bounds(const struct world *world, struct sim_task *task)
{
    for (size_t i = 0; i < task->core.partition_count; i++) {
        int64_t bound = task->inbox.bounds[agent_partition(task, i)];

        if (bound != API_UNKNOWN && world->config.mutation == MUTATION_BOUND_IGNORED)
            bound = kafka_range(&world->kafka, agent_partition(task, i)).stable_end;
        task_tell_bound(&task->core, i, bound, task->inbox.bound_records[agent_partition(task, i)]);
    }
}

static uint32_t place_of(const struct world *world, const struct sim_task *task, size_t index,
                         const struct kafka_item *item)
{
    return kafka_place(&world->kafka, agent_partition(task, index), item->key,
                       task->map.partitions.now);
}

static enum task_verdict judge(const struct world *world, const struct sim_task *task, size_t index,
                               const struct kafka_item *item)
{
    enum task_verdict verdict;

    if (task->map.partitions.now == task->map.partitions.initial)
        return TASK_VERDICT_APPLY;
    verdict = task_judge_key(&task->core, index, &task->map, place_of(world, task, index, item),
                             item->offset);
    if ((world->config.mutation == MUTATION_KEYS_UNFILTERED && verdict == TASK_VERDICT_PASS) ||
        (world->config.mutation == MUTATION_LEFT_KEYS_TAKEN && verdict == TASK_VERDICT_MISROUTED))
        return TASK_VERDICT_APPLY;
    return verdict;
}

/* Of a record that was applied, or is another's (agent/task_read.c). */
static void meet_old(const struct world *world, struct sim_task *task, size_t index,
                     const struct kafka_item *item, bool silent)
{
    const struct task_partition *partition = &task->core.partitions[index];

    if (task->map.partitions.now == task->map.partitions.initial || !partition->window.told ||
        item->offset < partition->window.end ||
        place_of(world, task, index, item) == partition->partition)
        return;
    if (silent)
        task_meet_old_again(&task->core, index);
    else if (task_meet_old(&task->core, index, world->now_ms, world->now_ms))
        task->report_due_ms = 0;
}

/* False: an event says why it was not applied. */
static bool apply(struct world *world, struct sim_task *task, size_t index,
                  const struct kafka_item *item, bool silent)
{
    uint32_t value = 0;

    if (task_is_skipped(&task->core, index, item->offset)) {
        world->tally->of[TALLY_SKIPPED]++;
        return true;
    }
    if (silent)
        checks_given(world, task, agent_partition(task, index), item->offset);
    if (item->poison) {
        if (silent || task->skip_poison)
            return true;
        world->tally->of[TALLY_REFUSED]++;
        return refuse(task, index, item->offset);
    }
    if (task->store != NULL && task->store->damaged && world_between(world, 0, 3) == 0) {
        (void)agent_event(task, TASK_EVENT_STORE_CORRUPT, NULL, "a row's checksum");
        return false;
    }
    if (task->store != NULL && world_chance(world, world->config.fault_permille / 16)) {
        (void)agent_event(task, TASK_EVENT_STORE_FAILED, "store_failed", "a row can not be read");
        return false;
    }
    if (task->store != NULL)
        value = store_model_apply(task->store, agent_partition(task, index), item->key);
    if (silent && world->config.mutation != MUTATION_OUTPUT_IN_REPLAY)
        return true;
    emit(task, index, item, value);
    if (!world_chance(world, world->config.fault_permille / 16))
        return true;
    (void)agent_event(task, TASK_EVENT_OUTPUT_FAILED, "output_failed", "the queue stayed full");
    return false;
}

static bool work_record(struct world *world, struct sim_task *task, size_t index,
                        const struct kafka_item *item)
{
    bool silent = !task_may_output(&task->core);
    enum task_verdict verdict = judge(world, task, index, item);

    task_progress(&task->core, index, item->offset, world->now_ms);
    if (verdict == TASK_VERDICT_APPLY && !apply(world, task, index, item, silent))
        return false;
    if (verdict == TASK_VERDICT_MISROUTED && !silent)
        world_trace(world, "agent %zu task %u: partition %zu offset %lld is of a key that has left",
                    task->agent, task->processor, agent_partition(task, index),
                    (long long)item->offset);
    world->tally->of[TALLY_MISROUTED] += verdict == TASK_VERDICT_MISROUTED && !silent;
    world->tally->of[TALLY_INHERITED] +=
        verdict == TASK_VERDICT_APPLY && task_is_inherited(&task->core.partitions[index]);
    world->tally->of[silent ? TALLY_REPLAYED : TALLY_APPLIED]++;
    task_progress(&task->core, index, item->offset + 1, world->now_ms);
    task_count_record(&task->core, index);
    meet_old(world, task, index, item, silent);
    return true;
}

static bool is_held(const struct world *world, struct sim_task *task, size_t index, int64_t needed)
{
    int64_t limit = task_limit(&task->core, index);

    if (needed <= limit)
        return false;
    task->order_held = task->order_held || task_awaits_order(&task->core, index);
    task_progress(&task->core, index, limit, world->now_ms);
    return true;
}

static void work_item(struct world *world, struct sim_task *task, size_t index)
{
    int64_t position = task->core.partitions[index].position;
    struct kafka_item item =
        kafka_read(&world->kafka, agent_partition(task, index), task->next[index]);

    switch (item.kind) {
    case KAFKA_ITEM_LOST:
        world->tally->of[TALLY_LOST]++;
        agent_event(task, TASK_EVENT_POSITION_LOST, "history_lost", "out of range")->index = index;
        return;
    case KAFKA_ITEM_END:
        if (item.offset > position) {
            if (is_held(world, task, index, item.offset))
                return;
            task_progress(&task->core, index, item.offset, world->now_ms);
        }
        task->next[index] = item.offset;
        return;
    case KAFKA_ITEM_RECORD:
        if (item.offset >= position) {
            if (is_held(world, task, index, item.offset + 1) ||
                !work_record(world, task, index, &item))
                return;
            task->worked = true;
        }
        task->next[index] = item.offset + 1;
        return;
    }
}

/* One item of any partition; now and then nothing has been fetched yet. */
void agent_read(struct world *world, struct sim_task *task)
{
    size_t index = (size_t)world_between(world, 0, (int64_t)task->core.partition_count - 1);

    assert(task->assigned);
    task->read_left--;
    if (world_chance(world, 100) || task_is_inherited_whole(&task->core.partitions[index]))
        return;
    work_item(world, task, index);
    if (task->store != NULL && task->store->dirty >= world->config.cache_records &&
        task->event_count == 0) {
        world->tally->of[TALLY_FULL]++;
        (void)agent_event(task, TASK_EVENT_FULL, NULL, NULL);
    }
}
