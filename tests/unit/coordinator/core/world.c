#include "tests/unit/coordinator/core/world.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/unit/coordinator/core/world_check.h"

#define PARTITIONS 8

/* ---- steps */

struct coord_event world_event(struct world *world, enum coord_event_kind kind, const char *name)
{
    struct coord_event event = {
        .kind = kind,
        .now_ms = world->now_ms,
        .now_at = world->now_at,
        .random = world->random,
        .actor = mem_strdup(WORLD_ACTOR),
        .name = name != NULL ? mem_strdup(name) : NULL,
    };
    world_uuid(++world->uuids + UINT64_C(0xf00000000), event.uuid);
    if (kind == COORD_EVENT_START || kind == COORD_EVENT_TICK || kind == COORD_EVENT_KAFKA) {
        free(event.actor);
        event.actor = NULL;
        return event;
    }
    event.request = ++world->requests;
    world->open.items =
        mem_grow(world->open.items, world->open.count, &world->open.capacity, sizeof(uint64_t));
    world->open.items[world->open.count++] = event.request;
    return event;
}

/* Calls leave the update for the broker that the test plays. */
static void take_calls(struct world *world)
{
    for (size_t i = 0; i < world->update.calls.count; i++) {
        world->calls.items = mem_grow(world->calls.items, world->calls.count,
                                      &world->calls.capacity, sizeof(struct kafka_call));
        world->calls.items[world->calls.count++] = world->update.calls.items[i];
    }
    world->update.calls.count = 0;
}

void world_step(struct world *world, struct coord_event event)
{
    struct world_documents documents = world_list_documents(&world->cluster);
    uint64_t decision = world->cluster.meta.decision;
    struct update copied;
    bool tried = world_try_copy(world, &event, &copied);
    update_finish(&world->update);
    coord_step(&world->cluster, &event, &world->update);
    if (tried)
        world_check_copy(world, &copied);
    world_trace_update(world, &event);
    const char *broken = cluster_check(&world->cluster);
    cr_assert_null(broken, "%s", broken);
    world_check_changes(world);
    world_check_same(&world->cluster, &world->fold);
    world_check_answers(world);
    world_check_cordons(&world->cluster);
    world_check_documents(&world->cluster, &documents);
    if (world->cluster.meta.decision != decision)
        cr_assert(world->update.publish, "a decision that nobody sees");
    if (event.kind == COORD_EVENT_TICK && world->update.changes.count == 0)
        cr_assert_gt(world->update.wake_ms, event.now_ms, "a tick for nothing, again and again");
    if (world->stored != NULL)
        world->stored(world, &world->update);
    take_calls(world);
    coord_event_finish(&event);
}

void world_gone(struct world *world, uint64_t request)
{
    world_close_request(world, request);
    world_step(world, (struct coord_event){.kind = COORD_EVENT_REQUEST_GONE,
                                           .now_ms = world->now_ms,
                                           .now_at = world->now_at,
                                           .request = request});
}

/* ---- life */

static const struct coord_config config = {.protocol = PROTOCOL_RANGE_OURS,
                                           .agent_timeout_ms = WORLD_TIMEOUT_MS,
                                           .report_interval_ms = 500,
                                           .poll_wait_ms_max = WORLD_WAIT_MS};

void world_init(struct world *world)
{
    *world = (struct world){.now_ms = 1000000, .now_at = INT64_C(1700000000000)};
    cluster_init(&world->cluster, config);
    cluster_init(&world->fold, config);
    world_uuid(0, world->cluster.meta.cluster);
    world->fold.meta = world->cluster.meta;
    world_step(world, world_event(world, COORD_EVENT_START, NULL));
}

void world_init_from(struct world *world, struct cluster *loaded,
                     void (*stored)(struct world *world, const struct update *update),
                     void *context)
{
    *world = (struct world){.now_ms = 1000000,
                            .now_at = INT64_C(1700000000000),
                            .epoch_max = loaded->meta.epoch,
                            .event_max = loaded->meta.event_id,
                            .cluster = *loaded,
                            .stored = stored,
                            .context = context};
    *loaded = (struct cluster){0};
    world_copy(&world->fold, &world->cluster);
    world_step(world, world_event(world, COORD_EVENT_START, NULL));
}

static void drop_calls(struct world *world)
{
    for (size_t i = 0; i < world->calls.count; i++)
        kafka_call_finish(&world->calls.items[i]);
    world->calls.count = 0;
}

void world_finish(struct world *world)
{
    drop_calls(world);
    free(world->calls.items);
    free(world->open.items);
    update_finish(&world->update);
    cluster_finish(&world->cluster);
    cluster_finish(&world->fold);
    strbuf_finish(&world->trace);
}

void world_copy(struct cluster *ret_copy, const struct cluster *from)
{
    struct cluster *cluster = ret_copy;
    cluster_init(cluster, config);
    world_copy_change(cluster, &(struct change){.kind = CHANGE_META, .meta = from->meta});
    for (size_t i = 0; i < from->agents.count; i++)
        world_copy_change(
            cluster, &(struct change){.kind = CHANGE_AGENT, .agent = from->agents.items[i]->row});
    for (size_t i = 0; i < from->jobs.count; i++) {
        const struct job *job = from->jobs.items[i];
        world_copy_change(cluster, &(struct change){.kind = CHANGE_JOB, .job = job->row});
        for (size_t p = 0; p < job->processors.count; p++) {
            const struct processor *processor = &job->processors.items[p];
            world_copy_change(cluster, &(struct change){.kind = CHANGE_PLACEMENT,
                                                        .placement = processor->placement});
            if (processor->stored_at == API_UNKNOWN)
                continue;
            struct change observation = {.kind = CHANGE_OBSERVATION,
                                         .observation = {.job = job->row.name,
                                                         .processor = (uint32_t)p,
                                                         .at = processor->stored_at}};
            observation.observation.progress.items = processor->stored.items;
            observation.observation.progress.count = processor->stored.count;
            world_copy_change(cluster, &observation);
        }
    }
    world_copy_change(
        cluster, &(struct change){.kind = CHANGE_MAINTENANCE, .maintenance = from->maintenance});
    for (size_t i = 0; i < from->jobs.count; i++)
        for (size_t a = 0; a < from->jobs.items[i]->arrivals.count; a++)
            world_copy_change(cluster,
                              &(struct change){.kind = CHANGE_ARRIVAL,
                                               .arrival = from->jobs.items[i]->arrivals.items[a]});
    for (size_t i = 0; i < from->jobs.count; i++)
        for (size_t s = 0; s < from->jobs.items[i]->skips.count; s++)
            world_copy_change(
                cluster,
                &(struct change){.kind = CHANGE_SKIP, .skip = from->jobs.items[i]->skips.items[s]});
    for (size_t i = 0; i < from->jobs.count; i++)
        for (size_t k = 0; k < from->jobs.items[i]->windows.count; k++)
            world_copy_change(
                cluster, &(struct change){.kind = CHANGE_WINDOW,
                                          .window = from->jobs.items[i]->windows.items[k].row});
    for (size_t i = 0; i < from->jobs.count; i++)
        world_copy_standbys(cluster, from->jobs.items[i]);
    for (size_t i = 0; i < from->handoffs.count; i++)
        world_copy_change(cluster, &(struct change){.kind = CHANGE_HANDOFF,
                                                    .handoff = from->handoffs.items[i]->row});
    for (size_t i = 0; i < from->operations.count; i++)
        world_copy_change(cluster, &(struct change){.kind = CHANGE_OPERATION,
                                                    .operation = from->operations.items[i]->row});
}

void world_lose_step(struct world *world, struct coord_event event)
{
    struct update lost = {0};
    coord_step(&world->cluster, &event, &lost);
    update_finish(&lost);
    coord_event_finish(&event);
    world_restart(world);
}

void world_restart(struct world *world)
{
    struct coord_config kept = world->cluster.config;
    cluster_finish(&world->cluster);
    world_copy(&world->cluster, &world->fold);
    world->cluster.config = kept;
    world->open.count = 0;
    drop_calls(world);
    world_step(world, world_event(world, COORD_EVENT_START, NULL));
}

/* ---- time */

static void tick(struct world *world)
{
    world_step(world, world_event(world, COORD_EVENT_TICK, NULL));
}

void world_pass(struct world *world, int64_t ms)
{
    int64_t end_ms = world->now_ms + ms;
    for (int ticks = 0; world->update.wake_ms <= end_ms; ticks++) {
        cr_assert_lt(ticks, 100000, "ticks without end");
        int64_t step_ms = world->update.wake_ms - world->now_ms;
        if (step_ms > 0) {
            world->now_ms += step_ms;
            world->now_at += step_ms;
        }
        tick(world);
    }
    world->now_at += end_ms - world->now_ms;
    world->now_ms = end_ms;
}

/* ---- answers */

const struct answer *world_find_answer(const struct world *world, uint64_t request)
{
    for (size_t i = 0; i < world->update.answers.count; i++)
        if (world->update.answers.items[i].request == request)
            return &world->update.answers.items[i];
    return NULL;
}

const struct answer *world_answer(const struct world *world)
{
    const struct answer *answer = world_find_answer(world, world->requests);
    cr_assert_not_null(answer, "the newest request has no answer");
    return answer;
}

void world_expect_status(const struct world *world, uint32_t status)
{
    const struct answer *answer = world_answer(world);
    const struct problem_body *problem = answer->type == &schema_problem_body ? answer->body : NULL;
    cr_assert_eq(answer->status, status, "status %u %s: %s", answer->status,
                 problem != NULL ? problem->code : "", problem != NULL ? problem->detail : "");
}

const struct problem_body *world_expect_problem(const struct world *world, const char *code)
{
    const struct answer *answer = world_answer(world);
    cr_assert_eq(answer->type, &schema_problem_body, "status %u is no problem", answer->status);
    const struct problem_body *problem = answer->body;
    cr_assert_str_eq(problem->code, code, "%s: %s", problem->code, problem->detail);
    cr_assert_eq(answer->status, problem->status);
    return problem;
}

void world_expect_none(const struct world *world)
{
    cr_assert_eq(world->update.answers.count, 0);
}

/* ---- jobs */

struct job_spec world_spec(const char *name)
{
    struct job_spec spec;
    schema_default(&schema_job_spec, &spec);
    spec.inputs.items = mem_calloc(1, sizeof(char *));
    spec.inputs.items[0] = mem_strdup("orders");
    spec.inputs.count = 1;
    spec.output = mem_strdup("counts");
    spec.group_id = mem_printf("group-%s", name);
    spec.logic.name = mem_strdup("count");
    spec.logic.version = mem_strdup("1");
    spec.processors = 4;
    spec.partitioner = PARTITIONER_MURMUR2;
    return spec;
}

void world_put(struct world *world, const char *name, struct job_spec spec)
{
    struct coord_event event = world_event(world, COORD_EVENT_JOB_PUT, name);
    event.spec = spec;
    world_step(world, event);
}

void world_delete(struct world *world, const char *name)
{
    world_step(world, world_event(world, COORD_EVENT_JOB_DELETE, name));
}

static void describe_topic(const char *name, uint32_t partitions, struct kafka_topic *ret_topic)
{
    *ret_topic = (struct kafka_topic){.name = mem_strdup(name),
                                      .exists = true,
                                      .partition_count = partitions,
                                      .retention_ms = -1};
}

struct kafka_inspection world_inspection(const struct kafka_call *call, uint32_t partitions)
{
    struct kafka_inspection inspection = {.transactions_supported = true};
    inspection.inputs.items = mem_calloc(call->inputs.count, sizeof(struct kafka_topic));
    inspection.inputs.count = call->inputs.count;
    for (size_t i = 0; i < call->inputs.count; i++) {
        struct kafka_topic *topic = &inspection.inputs.items[i];
        describe_topic(call->inputs.items[i], partitions, topic);
        topic->partitions.items = mem_calloc(partitions, sizeof(struct kafka_partition));
        topic->partitions.count = partitions;
        for (uint32_t p = 0; p < partitions; p++)
            topic->partitions.items[p] =
                (struct kafka_partition){.stable_end = 100, .end = 100, .committed = API_UNKNOWN};
    }
    if (call->output != NULL)
        describe_topic(call->output, partitions, &inspection.output);
    if (call->dead_letter != NULL)
        describe_topic(call->dead_letter, partitions, &inspection.dead_letter);
    return inspection;
}

void world_reply(struct world *world, struct kafka_result result)
{
    cr_assert_gt(world->calls.count, 0, "no call is under way");
    struct kafka_call call = world->calls.items[0];
    world->calls.count--;
    memmove(&world->calls.items[0], &world->calls.items[1],
            world->calls.count * sizeof(struct kafka_call));
    struct coord_event event = world_event(world, COORD_EVENT_KAFKA, NULL);
    event.kafka = result;
    event.kafka.id = call.id;
    event.kafka.kind = call.kind;
    kafka_call_finish(&call);
    world_step(world, event);
}

void world_reply_inspection(struct world *world, struct kafka_inspection inspection)
{
    world_reply(world, (struct kafka_result){.inspection = inspection});
}

/* Each partition was committed at `offset`, and is so again with the wanted metadata. */
static void world_claimed(const struct kafka_call *call, int64_t offset,
                          struct kafka_result *ret_result)
{
    ret_result->committed.items = mem_calloc(call->offsets.count, sizeof(struct kafka_offset));
    ret_result->committed.count = call->offsets.count;
    for (size_t i = 0; i < call->offsets.count; i++) {
        ret_result->committed.items[i] = call->offsets.items[i];
        ret_result->committed.items[i].offset = offset;
        ret_result->committed.items[i].metadata = mem_strdup(call->offsets.items[i].metadata);
    }
}

void world_reply_well(struct world *world)
{
    cr_assert_gt(world->calls.count, 0, "no call is under way");
    const struct kafka_call *call = &world->calls.items[0];
    struct kafka_result result = {0};
    switch (call->kind) {
    case KAFKA_CALL_INSPECT:
    case KAFKA_CALL_TOPICS:
        result.inspection = world_inspection(call, PARTITIONS);
        break;
    case KAFKA_CALL_CREATE_PARTITIONS:
        result.inspection = world_inspection(call, call->partitions);
        break;
    case KAFKA_CALL_COMMIT:
        result.committed.items = mem_calloc(call->offsets.count, sizeof(struct kafka_offset));
        result.committed.count = call->offsets.count;
        for (size_t i = 0; i < call->offsets.count; i++) {
            result.committed.items[i] = call->offsets.items[i];
            result.committed.items[i].metadata = mem_strdup(call->offsets.items[i].metadata);
        }
        break;
    case KAFKA_CALL_SAMPLE:
        result.sample = (struct kafka_sample){.keyed = 90, .murmur2 = 90, .crc32 = 12, .both = 12};
        break;
    case KAFKA_CALL_GROUPS: /* nobody is in any */
        result.groups.items = mem_calloc(call->groups.count, sizeof(struct kafka_group));
        for (size_t i = 0; i < call->groups.count; i++)
            result.groups.items[i].group_id = mem_strdup(call->groups.items[i]);
        result.groups.count = call->groups.count;
        break;
    case KAFKA_CALL_CLAIM:
        world_claimed(call, 0, &result);
        break;
    case KAFKA_CALL_FENCE:
    case KAFKA_CALL_STAMPS: /* nothing is committed */
    case KAFKA_CALL_COUNT:
        break;
    }
    world_reply(world, result);
}

void world_reply_all_well(struct world *world)
{
    while (world->calls.count > 0)
        world_reply_well(world);
}

void world_reply_failed(struct world *world, const char *detail, bool refused)
{
    world_reply(world, (struct kafka_result){
                           .failed = true, .refused = refused, .detail = mem_strdup(detail)});
}

struct job *world_create_spec(struct world *world, const char *name, struct job_spec spec)
{
    world_put(world, name, spec);
    world_reply_all_well(world);
    struct job *job = cluster_job(&world->cluster, name);
    cr_assert_not_null(job);
    cr_assert_eq(job->row.state, JOB_STATE_RUNNING);
    return job;
}

struct job *world_create(struct world *world, const char *name)
{
    return world_create_spec(world, name, world_spec(name));
}

/* ---- agents */

void world_uuid(uint64_t number, char ret_text[API_UUID_BYTES + 1])
{
    (void)snprintf(ret_text, API_UUID_BYTES + 1, "00000000-0000-4000-8000-%012" PRIx64,
                   number & UINT64_C(0xffffffffffff));
}

struct agent_registration world_registration(const char *agent_id, uint64_t incarnation)
{
    char uuid[API_UUID_BYTES + 1];
    world_uuid(incarnation, uuid);
    return (struct agent_registration){
        .agent_id = mem_strdup(agent_id),
        .incarnation = mem_strdup(uuid),
        .protocol = API_PROTOCOL_VERSION,
        .protocol_minimum = API_PROTOCOL_MINIMUM,
        .version = mem_strdup("1.0"),
        .address = mem_printf("http://%s:7421", agent_id),
        .capacity = 100,
    };
}

struct agent_registration world_registration_of(const struct world *world, const char *agent_id)
{
    const struct agent *agent = cluster_agent(&world->cluster, agent_id);
    struct agent_registration said = world_registration(agent_id, 0);
    struct agent_document document;
    free(said.incarnation);
    said.incarnation = mem_strdup(agent->row.incarnation);
    cluster_document(&world->cluster, agent, &document);
    said.cluster = mem_strdup(world->cluster.meta.cluster);
    said.document = document.version;
    said.jobs.items = document.jobs.items;
    said.jobs.count = document.jobs.count;
    said.tasks.items = document.tasks.items;
    said.tasks.count = document.tasks.count;
    return said;
}

void world_register(struct world *world, const char *agent_id, uint64_t incarnation)
{
    struct coord_event event = world_event(world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration(agent_id, incarnation);
    world_step(world, event);
}

void world_deregister(struct world *world, const char *agent_id, uint64_t incarnation)
{
    char uuid[API_UUID_BYTES + 1];
    world_uuid(incarnation, uuid);
    struct coord_event event = world_event(world, COORD_EVENT_AGENT_DEREGISTER, agent_id);
    event.incarnation = mem_strdup(uuid);
    world_step(world, event);
}

void world_forget(struct world *world, const char *agent_id)
{
    world_step(world, world_event(world, COORD_EVENT_AGENT_FORGET, agent_id));
}

uint64_t world_poll(struct world *world, const char *agent_id, uint64_t incarnation,
                    struct document_version after, int64_t wait_ms)
{
    char uuid[API_UUID_BYTES + 1];
    world_uuid(incarnation, uuid);
    struct coord_event event = world_event(world, COORD_EVENT_POLL, agent_id);
    event.incarnation = mem_strdup(uuid);
    event.after = after;
    event.wait_ms = wait_ms;
    world_step(world, event);
    return world->requests;
}

/* What a healthy agent has made of the task after a while. */
static void carry_out_task(const struct document_task *task, struct task_report *report)
{
    if (task->role != TASK_ROLE_ACTIVE) {
        report->state = TASK_STATE_CAUGHT_UP;
        report->caught_up_lag = 0;
    } else if (task->release) {
        report->state = TASK_STATE_CLOSED;
        report->released = true;
    }
    report->split = task->split_handoff;
}

struct agent_report world_report_of(const struct world *world, const char *agent_id,
                                    enum task_state state)
{
    const struct agent *agent = cluster_agent(&world->cluster, agent_id);
    cr_assert_not_null(agent);
    struct agent_document document;
    cluster_document(&world->cluster, agent, &document);
    struct agent_report report = {.incarnation = mem_strdup(agent->row.incarnation),
                                  .version = document.version};
    report.tasks.items = mem_calloc(document.tasks.count, sizeof(struct task_report));
    report.tasks.count = document.tasks.count;
    for (size_t i = 0; i < document.tasks.count; i++) {
        const struct document_task *task = &document.tasks.items[i];
        report.tasks.items[i] = (struct task_report){
            .job = mem_strdup(task->job),
            .job_incarnation = mem_strdup(cluster_job(&world->cluster, task->job)->row.incarnation),
            .processor = task->processor,
            .role = task->role,
            .state = state,
            .epoch = task->epoch,
            .handoff = task->handoff,
            .caught_up_lag = API_UNKNOWN,
        };
        if (state == TASK_STATE_ACTIVE)
            carry_out_task(task, &report.tasks.items[i]);
    }
    schema_free(&schema_agent_document, &document);
    return report;
}

void world_send_report(struct world *world, const char *agent_id, struct agent_report report)
{
    struct coord_event event = world_event(world, COORD_EVENT_REPORT, agent_id);
    event.report = report;
    world_step(world, event);
}

void world_report(struct world *world, const char *agent_id, enum task_state state)
{
    world_send_report(world, agent_id, world_report_of(world, agent_id, state));
}

void world_calm_down(struct world *world, const char *const *agent_ids)
{
    uint64_t before;
    int rounds = 0;
    do {
        before = world->cluster.meta.decision;
        for (size_t i = 0; agent_ids[i] != NULL; i++)
            world_report(world, agent_ids[i], TASK_STATE_ACTIVE);
        cr_assert_lt(++rounds, 1000, "it never comes to rest");
    } while (world->cluster.meta.decision != before);
}

void world_pass_reporting(struct world *world, int64_t ms, const char *const *agent_ids)
{
    for (int64_t passed_ms = 0; passed_ms < ms; passed_ms += 500) {
        world_pass(world, 500);
        for (size_t i = 0; agent_ids[i] != NULL; i++)
            world_report(world, agent_ids[i], TASK_STATE_ACTIVE);
    }
}

/* ---- looking */

const struct placement_row *world_placement(const struct world *world, const char *job,
                                            uint32_t processor)
{
    const struct job *found = cluster_job(&world->cluster, job);
    cr_assert_not_null(found);
    cr_assert_lt(processor, found->processors.count);
    return &found->processors.items[processor].placement;
}
