#include "tests/sim/kafka_admin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/stamp.h"
#include "common/mem.h"
#include "tests/sim/world.h"

void admin_post(struct world *world, struct kafka_call *call)
{
    struct sim_admin *admin = &world->admin;

    /* An answer to a call of an earlier run must not be taken for that of a later one. */
    if (call->id <= admin->last_id && world->config.mutation != MUTATION_VERSION_NOT_DURABLE)
        checks_fail(world, "call %llu to Kafka is made twice", (unsigned long long)call->id);
    admin->last_id = call->id;
    assert(admin->count < ADMIN_CALLS_MAX);
    if (admin->count == 0)
        admin->due_ms = world->now_ms + world_between(world, 0, 30);
    admin->calls[admin->count++] = *call;
    *call = (struct kafka_call){0};
}

/* ---- what the calls do */

static void describe_topic(const char *name, struct kafka_topic *ret_topic)
{
    if (name != NULL)
        *ret_topic = (struct kafka_topic){
            .name = mem_strdup(name), .exists = true, .partition_count = 1, .retention_ms = -1};
}

static void inspect(const struct world *world, const struct kafka_call *call,
                    struct kafka_inspection *ret_inspection)
{
    const struct kafka_model *kafka = &world->kafka;
    struct kafka_topic input = {.name = mem_strdup(call->inputs.items[0]),
                                .exists = true,
                                .partition_count = (uint32_t)kafka->partition_count,
                                .deletes = world->config.truncates,
                                .retention_ms = world->config.truncates ? 60000 : -1};

    input.partitions.items = mem_calloc(kafka->partition_count, sizeof(*input.partitions.items));
    input.partitions.count = kafka->partition_count;
    for (size_t i = 0; i < kafka->partition_count; i++) {
        struct task_range range = kafka_range(kafka, i);

        input.partitions.items[i] =
            (struct kafka_partition){.log_start = range.log_start,
                                     .stable_end = range.stable_end,
                                     .end = range.end,
                                     .committed = kafka->group.of[i].offset};
    }
    *ret_inspection = (struct kafka_inspection){.transactions_supported = true};
    ret_inspection->inputs.items = mem_memdup(&input, sizeof(input));
    ret_inspection->inputs.count = 1;
    describe_topic(call->output, &ret_inspection->output);
    describe_topic(call->dead_letter, &ret_inspection->dead_letter);
}

static void commit_starts(struct world *world, const struct kafka_call *call)
{
    for (size_t i = 0; i < call->offsets.count; i++) {
        const struct kafka_offset *offset = &call->offsets.items[i];
        struct task_committed committed = {.offset = offset->offset};

        committed.stamped = stamp_parse(offset->metadata, &committed.stamp);
        assert(committed.stamped);
        world->kafka.partitions[offset->partition].origin = offset->offset;
        checks_start(world, offset->partition, offset->offset);
        world->kafka.group.of[offset->partition] = committed;
    }
    checks_started(world);
}

static void read_back(const struct world *world, struct kafka_result *result)
{
    size_t count = world->kafka.partition_count;

    result->committed.items = mem_calloc(count, sizeof(*result->committed.items));
    result->committed.count = count;
    for (size_t i = 0; i < count; i++) {
        const struct task_committed *held = &world->kafka.group.of[i];
        struct kafka_offset *offset = &result->committed.items[i];
        char text[STAMP_TEXT_BYTES];

        *offset = (struct kafka_offset){.partition = (uint32_t)i, .offset = held->offset};
        if (!held->stamped)
            continue;
        stamp_format(&held->stamp, text);
        offset->metadata = mem_strdup(text);
    }
}

static void fence(struct world *world, const struct kafka_call *call)
{
    for (size_t i = 0; i < call->transactional_ids.count; i++)
        (void)kafka_init_producer(&world->kafka, (uint32_t)i);
}

static void list_members(struct world *world, const struct kafka_call *call,
                         struct kafka_result *result)
{
    uint32_t members = guests_count(world);

    world->guests = (struct sim_guests){.call = call->id, .members = members};
    result->groups.items = mem_calloc(call->groups.count, sizeof(*result->groups.items));
    result->groups.count = call->groups.count;
    for (size_t i = 0; i < call->groups.count; i++)
        result->groups.items[i] =
            (struct kafka_group){.group_id = mem_strdup(call->groups.items[i]),
                                 .members = members,
                                 .who = members > 0 ? mem_strdup("a guest") : NULL};
}

static void carry_out(struct world *world, const struct kafka_call *call,
                      struct kafka_result *result)
{
    world_trace(world, "kafka: call %llu of kind %d", (unsigned long long)call->id,
                (int)call->kind);
    switch (call->kind) {
    case KAFKA_CALL_INSPECT:
    case KAFKA_CALL_TOPICS:
        inspect(world, call, &result->inspection);
        return;
    case KAFKA_CALL_COMMIT:
        commit_starts(world, call);
        read_back(world, result);
        return;
    case KAFKA_CALL_STAMPS:
        read_back(world, result);
        return;
    case KAFKA_CALL_SAMPLE:
        result->sample = (struct kafka_sample){.keyed = 10, .murmur2 = 10, .crc32 = 4, .both = 4};
        return;
    case KAFKA_CALL_FENCE:
        fence(world, call);
        return;
    case KAFKA_CALL_GROUPS:
        list_members(world, call, result);
        return;
    case KAFKA_CALL_CREATE_PARTITIONS:
        if (call->partitions > world->kafka.partition_count) {
            kafka_grow(&world->kafka, call->partitions);
            world->old_until_ms = world->now_ms + world_between(world, 0, 1500);
        }
        inspect(world, call, &result->inspection);
        return;
    case KAFKA_CALL_CLAIM: /* of jobs that start elsewhere than this world's */
    case KAFKA_CALL_COUNT:
        break;
    }
    assert(!"a kind of call");
}

/* ---- turns */

static void arrive(struct world *world)
{
    struct sim_admin *admin = &world->admin;
    const struct kafka_call *call = &admin->calls[0];
    bool fails = world_chance(world, world->config.fault_permille * 2);

    admin->result = (struct kafka_result){.id = call->id, .kind = call->kind};
    world->tally->of[TALLY_CALL]++;
    world->tally->of[TALLY_CALL_FAILED] += fails;
    /* The answer of a call that was done can be lost as well. */
    if (!fails || world_between(world, 0, 1) == 0)
        carry_out(world, call, &admin->result);
    if (fails) {
        uint64_t id = call->id;
        enum kafka_call_kind kind = call->kind;

        kafka_result_finish(&admin->result);
        admin->result = (struct kafka_result){
            .id = id, .kind = kind, .failed = true, .detail = mem_strdup("the broker said no")};
        /* What there is now is told even so (KAFKA_CALL_COMMIT). */
        if (kind == KAFKA_CALL_COMMIT && world_between(world, 0, 1) == 0)
            read_back(world, &admin->result);
    }
    admin->arrived = true;
    admin->due_ms = world->now_ms + (world_chance(world, 50) ? world_between(world, 0, 20000)
                                                             : world_between(world, 0, 30));
}

static void drop_first(struct sim_admin *admin)
{
    kafka_call_finish(&admin->calls[0]);
    admin->count--;
    memmove(&admin->calls[0], &admin->calls[1], admin->count * sizeof(admin->calls[0]));
    admin->arrived = false;
}

bool admin_turn(struct world *world)
{
    struct sim_admin *admin = &world->admin;

    if (admin->count == 0 || world->host.paused || world->now_ms < admin->due_ms)
        return false;
    if (!admin->arrived) {
        arrive(world);
        return true;
    }
    guests_before_end(world, &admin->result);
    host_deliver(world, &admin->result);
    drop_first(admin);
    admin->due_ms = world->now_ms + world_between(world, 0, 30);
    return true;
}

int64_t admin_due_ms(const struct world *world)
{
    const struct sim_admin *admin = &world->admin;

    return admin->count == 0 || world->host.paused ? INT64_MAX : admin->due_ms;
}

void admin_crash(struct world *world)
{
    struct sim_admin *admin = &world->admin;

    kafka_result_finish(&admin->result);
    while (admin->count > 0)
        drop_first(admin);
}
