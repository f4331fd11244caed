#include "tests/sim/agent_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "tests/sim/world.h"

#define REQUEST_MS         5000
#define REPORT_INTERVAL_MS 500
#define RETRY_MS_MAX       1500
#define IN_USE_MS_MIN      3000

/* ---- names */

const char *agent_name(size_t agent)
{
    static const char *const names[SIM_AGENTS_MAX] = {"a0", "a1", "a2"};

    return names[agent];
}

void agent_incarnation(size_t agent, uint32_t start, char ret_text[API_UUID_BYTES + 1])
{
    (void)snprintf(ret_text, API_UUID_BYTES + 1, "a%07zu-0000-4000-8000-%012u", agent, start);
}

size_t agent_of_name(const char *name)
{
    return (size_t)(name[1] - '0');
}

uint32_t agent_start_of(const char *incarnation)
{
    return (uint32_t)strtoul(incarnation + API_UUID_BYTES - 12, NULL, 10);
}

/* ---- asking */

static struct sim_link *link_of(struct world *world, size_t agent)
{
    return &world->agents[agent].link;
}

static char *incarnation_copy(const struct world *world, size_t agent)
{
    char text[API_UUID_BYTES + 1];

    agent_incarnation(world->agents[agent].identity, world->agents[agent].starts, text);
    return mem_strdup(text);
}

static char *name_copy(const struct world *world, size_t agent)
{
    return mem_strdup(agent_name(world->agents[agent].identity));
}

/* Takes the event. */
static void ask(struct world *world, size_t agent, enum message_kind kind,
                const struct coord_event *event, int64_t wait_ms)
{
    struct sim_link *link = link_of(world, agent);
    struct sim_channel *channel = &link->channels[kind];
    struct message *message = mem_calloc(1, sizeof(*message));

    *channel = (struct sim_channel){.active = true,
                                    .number = ++link->number,
                                    .deadline_ms = world->now_ms + wait_ms + REQUEST_MS};
    *message = (struct message){.kind = kind,
                                .agent = world->agents[agent].identity,
                                .start = world->agents[agent].starts,
                                .number = channel->number,
                                .event = *event};
    network_send(world, message);
}

static void tell_kept(const struct world *world, size_t agent, struct agent_registration *ret_told)
{
    ret_told->kept.items = mem_calloc(KAFKA_PROCESSORS_MAX, sizeof(*ret_told->kept.items));
    for (uint32_t i = 0; i < KAFKA_PROCESSORS_MAX; i++) {
        const struct store_model *disk = &world->agents[agent].disks[i];
        struct kept_state *kept = &ret_told->kept.items[ret_told->kept.count];

        if (!disk->exists)
            continue;
        *kept = (struct kept_state){.job = mem_strdup(WORLD_JOB),
                                    .job_incarnation = mem_strdup(world->incarnation),
                                    .processor = i};
        kept->learned.items = mem_calloc(KAFKA_PARTITIONS_MAX, sizeof(*kept->learned.items));
        for (uint32_t k = 0; k < KAFKA_PARTITIONS_MAX; k++) {
            if (disk->disk.learned[k] != API_UNKNOWN)
                kept->learned.items[kept->learned.count++] =
                    (struct input_offset){.partition = k, .offset = disk->disk.learned[k]};
        }
        ret_told->kept.count++;
    }
}

static void ask_to_register(struct world *world, size_t agent)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_REGISTER};

    event.registration = (struct agent_registration){
        .agent_id = name_copy(world, agent),
        .incarnation = incarnation_copy(world, agent),
        .protocol = API_PROTOCOL_VERSION,
        .protocol_minimum = API_PROTOCOL_MINIMUM,
        .version = mem_strdup("1"),
        .address = mem_printf("http://%s", agent_name(world->agents[agent].identity)),
        .capacity = world->config.capacity,
    };
    if (world->config.tells_kept)
        tell_kept(world, agent, &event.registration);
    ask(world, agent, MESSAGE_REGISTER, &event, 0);
}

static void ask_for_document(struct world *world, size_t agent)
{
    struct coord_event event = {.kind = COORD_EVENT_POLL,
                                .name = name_copy(world, agent),
                                .incarnation = incarnation_copy(world, agent),
                                .after = link_of(world, agent)->after,
                                .wait_ms = world->config.core.poll_wait_ms_max};

    ask(world, agent, MESSAGE_POLL, &event, event.wait_ms);
}

static void report(struct world *world, size_t agent)
{
    struct sim_link *link = link_of(world, agent);
    struct coord_event event = {.kind = COORD_EVENT_REPORT, .name = name_copy(world, agent)};

    event.report = (struct agent_report){.incarnation = incarnation_copy(world, agent),
                                         .version = link->after,
                                         .stopping = link->leaving == LINK_REPORTS};
    agent_collect(world, agent, &event.report);
    link->reported = link->after;
    ask(world, agent, MESSAGE_REPORT, &event, 0);
    link->channels[MESSAGE_REPORT].retry_ms = world->now_ms + REPORT_INTERVAL_MS;
}

static void sign_off(struct world *world, size_t agent)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_DEREGISTER,
                                .name = name_copy(world, agent),
                                .incarnation = incarnation_copy(world, agent)};

    ask(world, agent, MESSAGE_DEREGISTER, &event, 0);
}

/* ---- turns */

static void give_up_waiting(struct world *world, size_t agent)
{
    for (size_t i = 0; i < MESSAGE_KIND_COUNT; i++) {
        struct sim_channel *channel = &link_of(world, agent)->channels[i];

        if (!channel->active || world->now_ms < channel->deadline_ms)
            continue;
        channel->active = false;
        channel->retry_ms = world->now_ms + world_between(world, 100, RETRY_MS_MAX);
    }
}

static bool may_ask(const struct world *world, const struct sim_channel *channel)
{
    return !channel->active && world->now_ms >= channel->retry_ms;
}

static void end(struct world *world, size_t agent)
{
    world->tally->of[TALLY_LEFT]++;
    agent_crash(world, agent);
    world->agents[agent].back_ms = world->now_ms + world_between(world, 0, 20000);
}

/* What was said last has been answered, or given up. */
static void go_on_leaving(struct world *world, size_t agent)
{
    struct sim_link *link = link_of(world, agent);

    switch (link->leaving) {
    case LINK_STAYS:
        return;
    case LINK_STOPS:
        if (!agent_is_idle(world, agent) || link->channels[MESSAGE_REPORT].active)
            return;
        link->leaving = LINK_REPORTS;
        report(world, agent);
        return;
    case LINK_REPORTS:
        if (link->channels[MESSAGE_REPORT].active)
            return;
        link->leaving = LINK_SIGNS_OFF;
        if (link->registered)
            sign_off(world, agent);
        return;
    case LINK_SIGNS_OFF:
        if (!link->channels[MESSAGE_DEREGISTER].active)
            end(world, agent);
        return;
    }
}

void link_start(struct world *world, size_t agent)
{
    *link_of(world, agent) = (struct sim_link){0};
    ask_to_register(world, agent);
}

void link_tend(struct world *world, size_t agent)
{
    struct sim_link *link = link_of(world, agent);

    give_up_waiting(world, agent);
    if (link->ended) {
        if (agent_is_idle(world, agent))
            end(world, agent);
        return;
    }
    if (link->leaving != LINK_STAYS)
        go_on_leaving(world, agent);
    if (!world->agents[agent].alive || link->leaving >= LINK_REPORTS)
        return;
    if (!link->registered) {
        if (may_ask(world, &link->channels[MESSAGE_REGISTER]))
            ask_to_register(world, agent);
        return;
    }
    if (may_ask(world, &link->channels[MESSAGE_POLL]))
        ask_for_document(world, agent);
    if (may_ask(world, &link->channels[MESSAGE_REPORT]))
        report(world, agent);
}

void link_report_now(struct world *world, size_t agent)
{
    link_of(world, agent)->channels[MESSAGE_REPORT].retry_ms = world->now_ms;
}

void link_leave(struct world *world, size_t agent)
{
    struct sim_link *link = link_of(world, agent);

    if (link->leaving != LINK_STAYS)
        return;
    world_trace(world, "agent %zu leaves", agent);
    link->leaving = LINK_STOPS;
    agent_stop_tasks(world, agent);
}

int64_t link_due_ms(const struct world *world, size_t agent)
{
    const struct sim_link *link = &world->agents[agent].link;
    int64_t due_ms = INT64_MAX;

    for (size_t i = 0; i < MESSAGE_KIND_COUNT; i++) {
        const struct sim_channel *channel = &link->channels[i];
        int64_t at_ms = channel->active ? channel->deadline_ms : channel->retry_ms;

        if (!channel->active && i == MESSAGE_DEREGISTER)
            continue;
        if (!channel->active && (i == MESSAGE_REGISTER) == link->registered)
            continue;
        if (at_ms < due_ms)
            due_ms = at_ms;
    }
    return due_ms;
}

/* ---- answers */

static bool is_problem(const struct answer *answer, const char *code)
{
    return answer->type == &schema_problem_body &&
           strcmp(((const struct problem_body *)answer->body)->code, code) == 0;
}

static void take_document(struct world *world, size_t agent, struct answer *answer)
{
    struct sim_link *link = link_of(world, agent);
    struct agent_document *document = answer->body;
    int order = reconcile_version_compare(document->version, link->after);
    struct err err;

    if (reconcile_check(document, &err) != ERR_NONE) {
        checks_fail(world, "a document is refused: %s", err.text);
        return;
    }
    if (world->config.mutation == MUTATION_OLD_DOCUMENT && order < 0)
        order = 1;
    world->tally->of[TALLY_OLD_DOCUMENT] += order < 0;
    if (order <= 0 || link->leaving != LINK_STAYS)
        return;
    link->after = document->version;
    agent_take_document(world, agent, document);
    link_report_now(world, agent);
}

static void take_follow(struct world *world, size_t agent, const struct report_answer *answer)
{
    const struct sim_link *link = link_of(world, agent);

    if (reconcile_version_compare(link->reported, link->after) != 0)
        return;
    for (size_t i = 0; i < answer->follow.count; i++) {
        const struct follow *follow = &answer->follow.items[i];
        int64_t t1[KAFKA_PARTITIONS_MAX];

        for (size_t k = 0; k < KAFKA_PARTITIONS_MAX; k++)
            t1[k] = API_UNKNOWN;
        for (size_t k = 0; k < follow->committed.count; k++)
            t1[follow->committed.items[k].partition] = follow->committed.items[k].offset;
        world->tally->of[TALLY_FOLLOW]++;
        agent_take_follow(world, agent, follow->processor, t1);
    }
}

static void take_success(struct world *world, size_t agent, struct message *message, bool expected)
{
    struct sim_link *link = link_of(world, agent);

    switch (message->kind) {
    case MESSAGE_REGISTER:
        if (!expected)
            return;
        link->registered = true;
        link->in_use_since_ms = 0;
        link_report_now(world, agent);
        return;
    case MESSAGE_POLL:
        if (message->answer.type == &schema_agent_document)
            take_document(world, agent, &message->answer);
        return;
    case MESSAGE_REPORT:
        if (expected)
            agent_delivered(world, agent);
        if (message->answer.type == &schema_report_answer)
            take_follow(world, agent, message->answer.body);
        return;
    default:
        return;
    }
}

/* A restart outwaits its old self; who lives on is another one of the same name. */
static void judge_in_use(struct world *world, size_t agent)
{
    struct sim_link *link = link_of(world, agent);
    int64_t patience_ms = world->config.core.agent_timeout_ms > IN_USE_MS_MIN
                              ? world->config.core.agent_timeout_ms
                              : IN_USE_MS_MIN;

    if (link->in_use_since_ms == 0)
        link->in_use_since_ms = world->now_ms;
    if (world->now_ms - link->in_use_since_ms < patience_ms)
        return;
    world->tally->of[TALLY_IN_USE_FOR_LONG]++;
    link_leave(world, agent);
    link->ended = true;
}

static void take_refusal(struct world *world, size_t agent, const struct answer *answer)
{
    struct sim_link *link = link_of(world, agent);

    if (is_problem(answer, "agent_unknown") && link->registered) {
        world->tally->of[TALLY_UNKNOWN_AGENT]++;
        link->registered = false;
    } else if (is_problem(answer, "superseded")) {
        world->tally->of[TALLY_SUPERSEDED_AGENT]++;
        link_leave(world, agent);
        link->ended = true;
    } else if (is_problem(answer, "agent_id_in_use")) {
        world->tally->of[TALLY_IN_USE]++;
        judge_in_use(world, agent);
    }
}

void link_take(struct world *world, size_t agent, struct message *message)
{
    struct sim_channel *channel = &link_of(world, agent)->channels[message->kind];
    bool expected = channel->active && channel->number == message->number;
    bool good = message->answer.status >= 200 && message->answer.status < 300;

    if (expected)
        channel->active = false;
    if (good)
        take_success(world, agent, message, expected);
    else if (expected)
        take_refusal(world, agent, &message->answer);
    if (expected && !good)
        channel->retry_ms = world->now_ms + world_between(world, 100, RETRY_MS_MAX);
}
