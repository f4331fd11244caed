/* What must hold of the coordinator. */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/step_internal.h" /* HANDOFF_RETRY_MS */
#include "tests/sim/world.h"

struct checks_told *checks_epoch(struct checks *checks, uint64_t epoch)
{
    size_t count = checks->told.count;

    if (epoch >= count) {
        size_t wanted = (size_t)epoch * 2 + 64;

        checks->told.items = mem_realloc(checks->told.items, wanted, sizeof(*checks->told.items));
        memset(&checks->told.items[count], 0, (wanted - count) * sizeof(*checks->told.items));
        checks->told.count = wanted;
    }
    return &checks->told.items[epoch];
}

static bool is_mutated(const struct world *world)
{
    return world->config.mutation != MUTATION_NONE;
}

static void check_cluster(struct world *world, const char *when)
{
    const char *broken = cluster_check(&world->host.cluster);

    if (broken != NULL)
        checks_fail(world, "coordinator, %s: %s", when, broken);
}

void checks_loaded(struct world *world)
{
    const struct job *job = host_job(world);

    check_cluster(world, "loading");
    for (size_t i = 0; i < WORLD_AGENTS; i++)
        world->checks.contacts[i].gone_ms = world->now_ms;
    if (job != NULL)
        memcpy(world->incarnation, job->row.incarnation, sizeof(world->incarnation));
}

/* ---- before a step */

static int agent_index(const char *name)
{
    return name != NULL ? (int)agent_of_name(name) : -1;
}

static bool is_asked_for(const struct world *world, uint64_t id)
{
    const struct operation *operation = cluster_operation(&world->host.cluster, id);

    return operation != NULL && operation->row.kind == OPERATION_KIND_MOVE;
}

struct checks_owner checks_describe(const struct world *world, const struct processor *processor)
{
    const struct placement_row *placement = &processor->placement;
    struct checks_owner owner = {.agent = agent_index(placement->agent),
                                 .epoch = placement->epoch,
                                 .source = -1,
                                 .target = -1};

    if (placement->agent_incarnation != NULL)
        owner.start = agent_start_of(placement->agent_incarnation);
    owner.activated = placement->activated;
    owner.standbys = checks_list_standbys(processor);
    if (processor->handoff != NULL) {
        const struct handoff_row *row = &processor->handoff->row;

        owner.handoff = row->id;
        owner.state = row->state;
        owner.source = agent_index(row->source);
        owner.target = agent_index(row->target);
        owner.forced = row->forced;
        owner.asked = is_asked_for(world, row->operation);
    }
    return owner;
}

static const char *sender_of(const struct coord_event *event, const char **ret_incarnation)
{
    switch (event->kind) {
    case COORD_EVENT_AGENT_REGISTER:
        *ret_incarnation = event->registration.incarnation;
        return event->registration.agent_id;
    case COORD_EVENT_AGENT_DEREGISTER:
    case COORD_EVENT_POLL:
        *ret_incarnation = event->incarnation;
        return event->name;
    case COORD_EVENT_REPORT:
        *ret_incarnation = event->report.incarnation;
        return event->name;
    default:
        return NULL;
    }
}

static const struct agent *registered(const struct world *world, size_t agent)
{
    return cluster_agent(&world->host.cluster, agent_name(agent));
}

void checks_before_step(struct world *world, struct coord_event *event)
{
    const struct job *job = host_job(world);
    const char *incarnation = NULL;
    const char *sender = sender_of(event, &incarnation);

    for (size_t i = 0; i < KAFKA_PROCESSORS_MAX; i++)
        world->checks.before[i] =
            job != NULL && i < job->processors.count
                ? checks_describe(world, &job->processors.items[i])
                : (struct checks_owner){.agent = -1, .source = -1, .target = -1};
    checks_before_drain(world);
    checks_before_plan(world, event);
    world->checks.processors = job != NULL ? job->row.processors : 0;
    world->checks.superseded = false;
    if (sender != NULL && event->kind != COORD_EVENT_AGENT_REGISTER) {
        const struct agent *agent = registered(world, agent_of_name(sender));

        world->checks.superseded =
            agent == NULL || strcmp(agent->row.incarnation, incarnation) != 0;
    }
}

/* ---- after a step */

static void note_heard(struct world *world, const struct coord_event *event)
{
    const char *incarnation;
    const char *sender = sender_of(event, &incarnation);
    size_t index;
    const struct agent *agent;
    struct checks_contact *contact;

    if (sender == NULL || world->checks.superseded)
        return;
    index = agent_of_name(sender);
    agent = registered(world, index);
    contact = &world->checks.contacts[index];
    if (agent == NULL || strcmp(agent->row.incarnation, incarnation) != 0 ||
        (agent->row.state != AGENT_STATE_ALIVE && event->kind != COORD_EVENT_AGENT_DEREGISTER))
        return;
    contact->start = agent_start_of(incarnation);
    contact->heard_ms = world->now_ms;
}

static void check_refused(struct world *world, const struct coord_event *event,
                          const struct update *update)
{
    if (!world->checks.superseded)
        return;
    for (size_t i = 0; i < update->answers.count; i++) {
        const struct answer *answer = &update->answers.items[i];

        if (answer->request == event->request && answer->status < 400)
            checks_fail(world, "a message of an earlier start of its agent is answered %u",
                        answer->status);
    }
}

static bool is_answered(const struct update *update, uint64_t request)
{
    for (size_t i = 0; i < update->answers.count; i++) {
        if (update->answers.items[i].request == request)
            return true;
    }
    return false;
}

static void check_answers(struct world *world, const struct update *update)
{
    for (size_t i = 0; i < world->host.waiting_count; i++) {
        const struct sim_request *request = &world->host.waiting[i];

        if (request->deadline_ms != 0 && request->deadline_ms <= world->now_ms &&
            !is_answered(update, request->id))
            checks_fail(world, "request %llu of kind %d is not answered in time",
                        (unsigned long long)request->id, (int)request->event);
    }
}

/* Lost is who was not heard for the whole timeout, by a coordinator that listened. */
static void check_agents(struct world *world)
{
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        struct checks_contact *contact = &world->checks.contacts[i];
        const struct agent *agent = registered(world, i);
        int64_t since_ms =
            contact->heard_ms > world->host.loaded_ms ? contact->heard_ms : world->host.loaded_ms;

        if (agent == NULL || agent->row.state == AGENT_STATE_ALIVE) {
            contact->gone_ms = 0;
            continue;
        }
        if (contact->gone_ms != 0)
            continue;
        contact->gone_ms = world->now_ms;
        if (agent->row.state == AGENT_STATE_LOST &&
            world->now_ms - since_ms < world->config.core.agent_timeout_ms)
            checks_fail(world, "agent %zu is called lost, but it was heard %lld ms ago", i,
                        (long long)(world->now_ms - since_ms));
    }
}

static void check_change_of_hands(struct world *world, uint32_t processor,
                                  const struct checks_owner *before,
                                  const struct checks_owner *after, const struct update *update)
{
    bool released = before->handoff == after->handoff && before->state == HANDOFF_STATE_RELEASING &&
                    after->handoff != 0 && !after->forced;
    bool given_back = after->handoff != before->handoff && before->handoff != 0 &&
                      !handoff_before_release(before->state) && before->source == after->agent;

    if (given_back)
        return; /* the target has failed, and said so */
    if (!released) {
        checks_taken(world, processor, before, after, update);
        return;
    }
    world->tally->of[TALLY_RELEASED]++;
    if (world->checks.released[processor] < before->epoch)
        checks_fail(world, "processor %u: a release of epoch %llu is believed, but nobody said so",
                    processor, (unsigned long long)before->epoch);
}

/* Its stamp shuts out everybody before it: only then may others rely on it. */
static void check_activation(struct world *world, uint32_t processor, uint64_t epoch)
{
    struct checks *checks = &world->checks;

    if (epoch > checks->believed[processor])
        checks->believed[processor] = epoch;
    for (size_t i = 0; i < world->kafka.partition_count && world->config.exactly_once; i++) {
        if (kafka_processor_of(&world->kafka, i) == processor && checks->stamped[i] < epoch &&
            !checks_is_untouched(world, i))
            checks_fail(world,
                        "processor %u is taken for active under epoch %llu, but partition "
                        "%zu has the stamp of %llu",
                        processor, (unsigned long long)epoch, i,
                        (unsigned long long)checks->stamped[i]);
    }
}

/* The map has a processor more: Kafka must have said so before. */
static void check_split(struct world *world, const struct job *job, uint32_t processor)
{
    struct linhash_size size = {job->row.processors_initial, job->row.processors};

    if (world->checks.processors == 0 || processor < world->checks.processors)
        return;
    world->tally->of[TALLY_SPLIT]++;
    for (size_t i = 0; i < world->kafka.partition_count; i++) {
        if (linhash_bucket((uint32_t)i, size) == processor &&
            kafka_processor_of(&world->kafka, i) != processor)
            checks_fail(world, "processor %u is there, but partition %zu is still that of %u",
                        processor, i, kafka_processor_of(&world->kafka, i));
    }
}

static void check_owner(struct world *world, uint32_t processor, const struct checks_owner *after,
                        const struct update *update)
{
    const struct checks_owner *before = &world->checks.before[processor];

    if (after->epoch < before->epoch)
        checks_fail(world, "processor %u goes back from epoch %llu to %llu", processor,
                    (unsigned long long)before->epoch, (unsigned long long)after->epoch);
    if (after->epoch == before->epoch && after->agent >= 0 && before->agent >= 0 &&
        after->agent != before->agent)
        checks_fail(world, "processor %u changes hands under epoch %llu", processor,
                    (unsigned long long)after->epoch);
    if (before->agent >= 0 && after->agent >= 0 && before->agent != after->agent)
        check_change_of_hands(world, processor, before, after, update);
    if (after->activated && (!before->activated || before->epoch != after->epoch))
        check_activation(world, processor, after->epoch);
}

void checks_after_step(struct world *world, const struct coord_event *event,
                       const struct update *update)
{
    const struct job *job = host_job(world);

    check_refused(world, event, update);
    check_answers(world, update);
    note_heard(world, event);
    check_agents(world);
    for (uint32_t i = 0; job != NULL && i < job->processors.count; i++) {
        struct checks_owner after = checks_describe(world, &job->processors.items[i]);

        check_split(world, job, i);
        check_owner(world, i, &after, update);
    }
    checks_after_drain(world, event, update);
    checks_after_plan(world, event, update);
    guests_after_step(world, event);
    if (job != NULL)
        memcpy(world->incarnation, job->row.incarnation, sizeof(world->incarnation));
    if (!is_mutated(world) || world->config.mutation == MUTATION_END_NOT_DURABLE)
        check_cluster(world, "after a step");
}

/* ---- what is told */

static uint64_t mix(uint64_t content, uint64_t value)
{
    return (content ^ value) * UINT64_C(1099511628211);
}

static uint64_t content_of(const struct agent_document *document)
{
    uint64_t content = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < document->jobs.count; i++)
        content = mix(content, (uint64_t)document->jobs.items[i].spec.on_error);
    for (size_t i = 0; i < document->tasks.count; i++) {
        const struct document_task *task = &document->tasks.items[i];

        content = mix(content, task->processor);
        content = mix(content, (uint64_t)task->role);
        content = mix(content, task->epoch);
        content = mix(content, task->handoff);
        content = mix(content, task->release);
        content = mix(content, task->split_handoff);
        content = mix(content, task->owned.count);
    }
    return content;
}

static void check_version(struct world *world, const struct sim_request *request,
                          const struct agent_document *document)
{
    struct checks_contact *contact = &world->checks.contacts[request->asker];
    uint64_t content = content_of(document);
    int order = cluster_compare_versions(document->version, contact->version);

    if (order < 0)
        checks_fail(world, "agent %zu is told version %llu.%llu after %llu.%llu", request->asker,
                    (unsigned long long)document->version.start,
                    (unsigned long long)document->version.decision,
                    (unsigned long long)contact->version.start,
                    (unsigned long long)contact->version.decision);
    if (order == 0 && content != contact->content)
        checks_fail(world, "agent %zu is told two documents of version %llu.%llu", request->asker,
                    (unsigned long long)document->version.start,
                    (unsigned long long)document->version.decision);
    contact->version = document->version;
    contact->content = content;
}

/* One epoch is for one start of one agent, for one processor. */
static void check_epoch(struct world *world, const struct sim_request *request,
                        const struct document_task *task)
{
    struct checks_told *told = checks_epoch(&world->checks, task->epoch);

    if (told->told && (told->agent != request->asker || told->start != request->start ||
                       told->processor != task->processor))
        checks_fail(world,
                    "epoch %llu is told to agent %zu, start %u, processor %u; it was told to agent "
                    "%zu, start %u, processor %u",
                    (unsigned long long)task->epoch, request->asker, request->start,
                    task->processor, told->agent, told->start, told->processor);
    told->told = true;
    told->agent = request->asker;
    told->start = request->start;
    told->processor = task->processor;
}

static void check_durable(struct world *world, const struct sim_request *request,
                          const struct document_task *task)
{
    const struct durable_model *durable = &world->durable;
    const struct placement_row *placement = durable_placement(durable, task->job, task->processor);
    const struct handoff_row *handoff = durable_handoff(durable, task->handoff);
    bool owned = placement != NULL && placement->agent != NULL &&
                 agent_of_name(placement->agent) == request->asker &&
                 agent_start_of(placement->agent_incarnation) == request->start &&
                 placement->epoch == task->epoch;
    bool learned = handoff != NULL && agent_of_name(handoff->target) == request->asker &&
                   agent_start_of(handoff->target_incarnation) == request->start &&
                   handoff_before_release(handoff->state);

    if (task->role == TASK_ROLE_ACTIVE && !owned)
        checks_fail(world,
                    "agent %zu is told to own processor %u under epoch %llu, which is not "
                    "durable",
                    request->asker, task->processor, (unsigned long long)task->epoch);
    learned = learned && task->role == TASK_ROLE_LEARNER;
    if (task->role != TASK_ROLE_ACTIVE && !learned && !checks_is_standby(world, request, task))
        checks_fail(world, "agent %zu is told to learn processor %u, which is not durable",
                    request->asker, task->processor);
    if (task->split_handoff != 0) {
        const struct handoff_row *split = durable_handoff(durable, task->split_handoff);

        if (split == NULL || split->state != HANDOFF_STATE_RELEASING ||
            split->target_epoch != task->split_epoch)
            checks_fail(world, "agent %zu is told to split processor %u, which is not durable",
                        request->asker, task->processor);
    }
    if (task->release && (handoff == NULL || handoff->state != HANDOFF_STATE_RELEASING))
        checks_fail(world, "agent %zu is told to release processor %u, which is not durable",
                    request->asker, task->processor);
}

void checks_told(struct world *world, const struct sim_request *request,
                 const struct answer *answer)
{
    const struct agent_document *document = answer->body;
    const struct agent_row *agent = durable_agent(&world->durable, agent_name(request->asker));

    if (answer->type != &schema_agent_document)
        return;
    world->tally->of[TALLY_DOCUMENT]++;
    if (agent == NULL || agent_start_of(agent->incarnation) != request->start)
        checks_fail(world, "start %u of agent %zu is told what another one shall do",
                    request->start, request->asker);
    check_version(world, request, document);
    for (size_t i = 0; i < document->tasks.count; i++) {
        const struct document_task *task = &document->tasks.items[i];

        check_durable(world, request, task);
        if (task->role == TASK_ROLE_ACTIVE)
            check_epoch(world, request, task);
    }
}

void checks_accepted(struct world *world, size_t agent, const struct agent_document *document)
{
    struct document_version present = world->agents[agent].document.version;

    if (reconcile_version_compare(document->version, present) <= 0)
        checks_fail(world, "agent %zu goes back from document %llu.%llu to %llu.%llu", agent,
                    (unsigned long long)present.start, (unsigned long long)present.decision,
                    (unsigned long long)document->version.start,
                    (unsigned long long)document->version.decision);
}

/* ---- what has become durable */

static const struct {
    const char *kind;
    enum tally_kind tally;
    bool stirs; /* it may make another plan of the old one */
} event_kinds[] = {
    {"agent_registered", TALLY_REGISTERED, true},
    {"agent_lost", TALLY_AGENT_LOST, true},
    {"agent_returned", TALLY_AGENT_RETURNED, true},
    {"agent_stopped", TALLY_AGENT_STOPPED, true},
    {"agent_forgotten", TALLY_FORGOTTEN, true},
    {"agent_cordoned", TALLY_CORDONED, true},
    {"agent_uncordoned", TALLY_UNCORDONED, true},
    {"drain_requested", TALLY_DRAIN, true},
    {"drain_changed", TALLY_DRAIN_CHANGED, true},
    {"drain_done", TALLY_DRAIN_DONE, false},
    {"expansion_done", TALLY_EXPANDED, false},
    {"settle_window_closed", TALLY_WINDOW_CLOSED, false},
    {"drain_cancelled", TALLY_DRAIN_CANCELLED, true},
    {"drain_overdue", TALLY_DRAIN_OVERDUE, true},
    {"coordinator_started", TALLY_HOST_START, true},
    {"handoff_started", TALLY_HANDOFF, false},
    {"handoff_releasing", TALLY_RELEASING, false},
    {"handoff_forced", TALLY_FORCED, true},
    {"handoff_done", TALLY_HANDOFF_DONE, true},
    {"handoff_cancelled", TALLY_CANCEL, false},
    {"handoff_failed", TALLY_HANDOFF_FAILED, true},
    {"job_created", TALLY_JOB_CREATED, true},
    {"job_running", TALLY_JOB_RUNNING, true},
    {"job_updated", TALLY_RESPEC, true},
    {"job_deleted", TALLY_JOB_DELETED, true},
    {"move_requested", TALLY_MOVE, true},
    {"operation_cancelled", TALLY_OPERATION_CANCEL, true},
    {"operation_waiting", TALLY_OPERATION_RETRY, false},
    {"processor_given_back", TALLY_GIVE_BACK, true},
    {"processor_refenced", TALLY_RAISE, true},
    {"processor_failed", TALLY_PROCESSOR_FAILED, true},
    {"processor_recovered", TALLY_RECOVERED, true},
    {"expansion_requested", TALLY_EXPANSION, true},
    {"rebalance_requested", TALLY_REBALANCE, true},
    {"record_skipped", TALLY_SKIP, true},
    {"standby_started", TALLY_STANDBY, false},
    {"standby_ended", TALLY_STANDBY_ENDED, false},
};

static void note_event(struct world *world, const struct event_view *event)
{
    struct checks_storm *storm = &world->checks.storm;

    world_trace(world, "coordinator: %s%s%s: %s", event->kind, event->agent != NULL ? " " : "",
                event->agent != NULL ? event->agent : "", event->detail);
    for (size_t i = 0; i < sizeof(event_kinds) / sizeof(event_kinds[0]); i++) {
        if (strcmp(event_kinds[i].kind, event->kind) != 0)
            continue;
        world->tally->of[event_kinds[i].tally]++;
        storm->stirs += event_kinds[i].stirs;
    }
    checks_note_drain(world, event);
}

/* Its own words (coordinator/core/plan_even.c, step_place.c). */
static bool is_taken_back(const struct handoff_row *row)
{
    return row->error != NULL && (strncmp(row->error, "superseded: a newcomer", 22) == 0 ||
                                  strncmp(row->error, "it is not wanted any more", 25) == 0);
}

static void note_handoff(struct world *world, const struct handoff_row *row)
{
    struct checks_storm *storm = &world->checks.storm;

    if (row->id > storm->handoff) {
        storm->handoff = row->id;
        storm->planned += row->planned && !row->forced;
        world->tally->of[row->operation != 0 ? TALLY_HANDOFF_ASKED : TALLY_HANDOFF_PLANNED]++;
    }
    if (row->state != HANDOFF_STATE_CANCELLED)
        return;
    storm->taken_back += is_taken_back(row);
    storm->cancelled += !is_taken_back(row);
    world->tally->of[TALLY_TAKEN_BACK] += is_taken_back(row);
}

/* D5: no move without an arrival, a leaver, a loss or a request; nothing endless. One that came to
 * nothing is tried again after a while. */
static void check_storm(struct world *world)
{
    const struct checks_storm *storm = &world->checks.storm;
    uint64_t processors = world->kafka.processor_count;
    uint64_t retries = (uint64_t)(world->now_ms / HANDOFF_RETRY_MS) + 1;

    if (retries > storm->cancelled)
        retries = storm->cancelled;
    if (storm->planned > (storm->stirs + retries) * processors)
        checks_fail(world, "%llu planned hand-overs, but only %llu things happened",
                    (unsigned long long)storm->planned, (unsigned long long)storm->stirs);
    if (storm->taken_back > (storm->stirs + storm->cancelled) * processors)
        checks_fail(world, "the planner takes hand-overs back %llu times, and %llu things happened",
                    (unsigned long long)storm->taken_back, (unsigned long long)storm->stirs);
}

void checks_committed(struct world *world, const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];

        if (change->kind == CHANGE_EVENT)
            note_event(world, &change->event);
        else if (change->kind == CHANGE_HANDOFF)
            note_handoff(world, &change->handoff);
        else if (change->kind == CHANGE_OBSERVATION)
            world->tally->of[TALLY_OBSERVATION]++;
    }
    check_storm(world);
}

/* ---- the end */

bool checks_is_even(const struct world *world)
{
    const struct job *job = host_job(world);
    size_t loads[WORLD_AGENTS] = {0}, most = 0, least = SIZE_MAX;

    for (size_t i = 0; i < job->processors.count; i++)
        loads[agent_of_name(job->processors.items[i].placement.agent)]++;
    for (size_t i = 0; i < WORLD_AGENTS; i++) {
        if (world->agents[i].lost || checks_is_leaving(world, i))
            continue;
        most = loads[i] > most ? loads[i] : most;
        least = loads[i] < least ? loads[i] : least;
    }
    return most <= least + 1;
}
