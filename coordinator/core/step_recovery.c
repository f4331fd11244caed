/*
 * A coordinator whose database may be lost or old (D6, recovery.h): finding out, saying so, and
 * hearing what others know. What is made of that is in step_recovered.c.
 *
 * Somebody knows more than the database when a stamp has a higher epoch than it has handed out, or
 * an agent goes by a document of an earlier start with a later decision or a higher epoch than it
 * held when this start began. Stamps tell of jobs of the same incarnation only: a group may have
 * had another owner before.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/stamp.h"
#include "common/mem.h"
#include "coordinator/core/step_recovery.h"

/* After a call that failed; the second while others decide, who have calls to make, too. */
#define STAMPS_RETRY_MS      1000
#define STAMPS_RETRY_MS_WORK 10000

/* An agent that could not reach the coordinator tries again within five seconds, and once more when
 * it has been told to register anew. */
#define COLLECT_MS_MIN 7000

/* An agent that works for another cluster is said so often, not each time it tries. */
#define FOREIGN_PAUSE_MS 60000

static void finish_stamps(struct recovery_stamps *stamps)
{
    free(stamps->job);
    free(stamps->incarnation);
    free(stamps->committed.items);
    free(stamps->bounds.items);
}

void recovery_finish(struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->agents.count; i++)
        schema_free(&schema_agent_registration, &recovery->agents.items[i].said);
    for (size_t i = 0; i < recovery->stamps.count; i++)
        finish_stamps(&recovery->stamps.items[i]);
    free(recovery->agents.items);
    free(recovery->stamps.items);
    free(recovery->detail);
    *recovery = (struct recovery){0};
}

/* Takes the text. */
static void set_detail(struct step *step, char *detail)
{
    struct recovery *recovery = &step->cluster->recovery;
    step->update->publish = true;
    free(recovery->detail);
    recovery->detail = detail;
}

/* ---- the database is old */

static void answer_outdated(struct step *step, uint64_t request)
{
    step_problem(step, request, "database_outdated", "%s", step->cluster->recovery.detail);
}

/* Nobody who waits is kept waiting for what will not come. */
static void answer_waiting(struct step *step)
{
    struct cluster *cluster = step->cluster;
    while (cluster->polls.count > 0) {
        answer_outdated(step, cluster->polls.items[0].request);
        cluster_remove_poll(cluster, 0);
    }
    while (cluster->operation_waits.count > 0) {
        answer_outdated(step, cluster->operation_waits.items[0].request);
        cluster_remove_operation_wait(cluster, 0);
    }
    while (cluster->creations.count > 0) {
        struct pending_creation creation = cluster_take_creation(cluster, 0);
        answer_outdated(step, creation.request);
        cluster_finish_creation(&creation);
    }
}

/* Takes the text, which says who knows what. */
static void become_outdated(struct step *step, char *evidence)
{
    struct recovery *recovery = &step->cluster->recovery;
    recovery->state = RECOVERY_OUTDATED;
    set_detail(step, text_printf("the database is older than what others know: %s. Put its newest "
                                 "copy in place, or start with --recover",
                                 evidence));
    free(evidence);
    answer_waiting(step);
}

/* A document of this start holds nothing that was not given out by it; one of an earlier start
 * nothing above what the database held when this start began. */
static bool knows_more(const struct cluster *cluster, struct document_version version,
                       uint64_t epoch)
{
    const struct recovery *recovery = &cluster->recovery;
    if (version.start == 0) /* it was told nothing yet */
        return false;
    if (version.start >= cluster->meta.start_number)
        return version.start > cluster->meta.start_number ||
               version.decision > cluster->meta.decision;
    return version.decision > recovery->decision || epoch > recovery->epoch;
}

bool step_recovery_doubt(struct step *step, const char *agent_id, struct document_version version,
                         uint64_t epoch)
{
    const struct cluster *cluster = step->cluster;
    assert(cluster->recovery.state == RECOVERY_NONE);
    if (!cluster->config.verify || !knows_more(cluster, version, epoch))
        return false;
    become_outdated(step,
                    mem_printf("agent %s works by document %llu.%llu with epochs up to %llu, the "
                               "database held decision %llu and epoch %llu",
                               agent_id, (unsigned long long)version.start,
                               (unsigned long long)version.decision, (unsigned long long)epoch,
                               (unsigned long long)cluster->recovery.decision,
                               (unsigned long long)cluster->recovery.epoch));
    answer_outdated(step, step->event->request);
    return true;
}

bool step_recovery_doubt_heard(struct step *step, const char *incarnation,
                               struct document_version version, uint64_t epoch)
{
    const struct cluster *cluster = step->cluster;
    const char *agent_id = step->event->name;
    const struct agent *agent = cluster_agent(cluster, agent_id);
    if (agent == NULL || !cluster->config.verify)
        return false; /* it is told to register, and says more then */
    if (strcmp(agent->row.incarnation, incarnation) == 0)
        return step_recovery_doubt(step, agent_id, version, epoch);
    if (!knows_more(cluster, version, epoch))
        return false;
    step_problem(step, step->event->request, "agent_unknown",
                 "agent %s knows more than this coordinator: it is to register and say of which "
                 "cluster",
                 agent_id);
    return true;
}

bool step_recovery_is_foreign(struct step *step)
{
    struct recovery *recovery = &step->cluster->recovery;
    const struct agent_registration *said = &step->event->registration;
    int64_t now_ms = step->event->now_ms;
    if (said->cluster == NULL || strcmp(said->cluster, step->cluster->meta.cluster) == 0)
        return false;
    if (recovery->foreign_ms == 0 || now_ms >= recovery->foreign_ms + FOREIGN_PAUSE_MS) {
        recovery->foreign_ms = now_ms;
        step_event(step, (struct event_about){"agent_of_other_cluster", .agent = said->agent_id},
                   "it works for cluster %s: if this coordinator has lost its database, start it "
                   "with --recover; else the agent's `coordinator` is wrong",
                   said->cluster);
    }
    return true;
}

/* ---- stamps */

struct recovery_stamps *step_recovery_stamps(const struct cluster *cluster, const char *job,
                                             const char *incarnation)
{
    const struct recovery *recovery = &cluster->recovery;
    for (size_t i = 0; i < recovery->stamps.count; i++) {
        struct recovery_stamps *stamps = &recovery->stamps.items[i];
        if (strcmp(stamps->job, job) == 0 && strcmp(stamps->incarnation, incarnation) == 0)
            return stamps;
    }
    return NULL;
}

static void want_stamps(struct cluster *cluster, const char *job, const char *incarnation)
{
    struct recovery *recovery = &cluster->recovery;
    if (step_recovery_stamps(cluster, job, incarnation) != NULL)
        return;
    recovery->stamps.items = mem_grow(recovery->stamps.items, recovery->stamps.count,
                                      &recovery->stamps.capacity, sizeof(*recovery->stamps.items));
    recovery->stamps.items[recovery->stamps.count++] =
        (struct recovery_stamps){.job = mem_strdup(job), .incarnation = mem_strdup(incarnation)};
}

/* NULL: nobody has the job any more. */
static const struct job_spec *find_spec(const struct cluster *cluster,
                                        const struct recovery_stamps *stamps,
                                        uint32_t *ret_partitions)
{
    const struct job *job = cluster_job(cluster, stamps->job);
    if (job != NULL && strcmp(job->row.incarnation, stamps->incarnation) == 0) {
        *ret_partitions = job->row.partitions;
        return &job->row.spec;
    }
    for (size_t i = 0; i < cluster->recovery.agents.count; i++) {
        const struct agent_registration *said = &cluster->recovery.agents.items[i].said;
        for (size_t j = 0; j < said->jobs.count; j++) {
            const struct document_job *told = &said->jobs.items[j];
            if (strcmp(told->name, stamps->job) != 0 ||
                strcmp(told->incarnation, stamps->incarnation) != 0)
                continue;
            *ret_partitions = told->partitions;
            return &told->spec;
        }
    }
    return NULL;
}

static struct recovery_stamps *find_unread(const struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->stamps.count; i++)
        if (!recovery->stamps.items[i].read)
            return &recovery->stamps.items[i];
    return NULL;
}

/* The next one, one at a time: others wait for Kafka, too. */
static void read_on(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct recovery *recovery = &cluster->recovery;
    struct recovery_stamps *stamps;
    while (recovery->call == 0 && step->event->now_ms >= recovery->retry_ms &&
           (stamps = find_unread(recovery)) != NULL) {
        uint32_t partitions = 0;
        const struct job_spec *spec = find_spec(cluster, stamps, &partitions);
        if (spec == NULL) {
            stamps->read = true;
            continue;
        }
        struct kafka_call *call = step_call(step, KAFKA_CALL_STAMPS, spec, stamps->job);
        call->partitions = partitions;
        recovery->call = call->id;
    }
}

static void keep_stamps(struct recovery_stamps *stamps, const struct kafka_result *result)
{
    stamps->read = true;
    stamps->committed.items =
        mem_calloc(result->committed.count + 1, sizeof(*stamps->committed.items));
    stamps->bounds.items = mem_calloc(result->committed.count + 1, sizeof(*stamps->bounds.items));
    for (size_t i = 0; i < result->committed.count; i++) {
        const struct kafka_offset *held = &result->committed.items[i];
        struct stamp stamp;
        if (held->offset == API_UNKNOWN)
            continue;
        stamps->committed.items[stamps->committed.count++] =
            (struct input_offset){held->topic, held->partition, held->offset};
        if (held->metadata == NULL || !stamp_parse(held->metadata, &stamp) ||
            strcmp(stamp.incarnation, stamps->incarnation) != 0)
            continue;
        stamps->own = stamps->own || stamp.epoch > 0;
        if (stamp.epoch > 0 && stamp.processor >= stamps->processors)
            stamps->processors = stamp.processor + 1;
        if (stamp.epoch > stamps->epoch)
            stamps->epoch = stamp.epoch;
        if (stamp.bound != API_UNKNOWN && stamp.processor == held->partition)
            stamps->bounds.items[stamps->bounds.count++] = (struct recovery_bound){
                stamp.processor, held->topic, stamp.bound, stamp.bound_records};
    }
}

bool step_recovery_result(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct recovery *recovery = &cluster->recovery;
    const struct kafka_result *result = &step->event->kafka;
    if (recovery->call == 0 || result->id != recovery->call)
        return false;
    recovery->call = 0;
    struct recovery_stamps *stamps = find_unread(recovery); /* the one that was asked for */
    assert(stamps != NULL);
    if (result->failed) {
        recovery->retry_ms =
            step->event->now_ms +
            (recovery->state == RECOVERY_NONE ? STAMPS_RETRY_MS_WORK : STAMPS_RETRY_MS);
        return true;
    }
    keep_stamps(stamps, result);
    if (stamps->epoch > cluster->meta.epoch &&
        (recovery->state == RECOVERY_NONE || recovery->state == RECOVERY_VERIFYING))
        become_outdated(step, mem_printf("Kafka's offsets of job %s carry epoch %llu, the highest "
                                         "is %llu",
                                         stamps->job, (unsigned long long)stamps->epoch,
                                         (unsigned long long)cluster->meta.epoch));
    return true;
}

/* ---- agents, while it collects */

static struct recovery_agent *find_agent(const struct recovery *recovery, const char *agent_id)
{
    for (size_t i = 0; i < recovery->agents.count; i++)
        if (strcmp(recovery->agents.items[i].said.agent_id, agent_id) == 0)
            return &recovery->agents.items[i];
    return NULL;
}

/* Takes what the agent says. */
static void hear(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct recovery *recovery = &cluster->recovery;
    struct agent_registration *said = &step->event->registration;
    struct recovery_agent *agent = find_agent(recovery, said->agent_id);
    for (size_t i = 0; i < said->jobs.count; i++)
        want_stamps(cluster, said->jobs.items[i].name, said->jobs.items[i].incarnation);
    if (agent == NULL) {
        recovery->agents.items =
            mem_grow(recovery->agents.items, recovery->agents.count, &recovery->agents.capacity,
                     sizeof(*recovery->agents.items));
        agent = &recovery->agents.items[recovery->agents.count++];
    } else {
        schema_free(&schema_agent_registration, &agent->said);
    }
    *agent = (struct recovery_agent){.said = *said, .heard_ms = step->event->now_ms};
    *said = (struct agent_registration){0};
}

static void answer_recovering(struct step *step)
{
    const char *detail = step->cluster->recovery.detail;
    step_problem(step, step->event->request, "recovering", "%s", detail)->retry_after_s = 1;
}

static void hear_registration(struct step *step)
{
    const struct cluster *cluster = step->cluster;
    if (cluster->jobs.count > 0 && step_recovery_is_foreign(step)) {
        step_problem(step, step->event->request, "recovering",
                     "this coordinator recovers cluster %s, the agent works for another",
                     cluster->meta.cluster);
        return;
    }
    if (find_agent(&cluster->recovery, step->event->registration.agent_id) != NULL ||
        cluster->recovery.agents.count < API_AGENTS_MAX)
        hear(step);
    answer_recovering(step);
}

/* What it knows it says when it registers, so it is told that it has to. */
static void ask_to_register(struct step *step, const char *incarnation)
{
    const struct coord_event *event = step->event;
    const struct recovery_agent *agent = find_agent(&step->cluster->recovery, event->name);
    if (agent != NULL && strcmp(agent->said.incarnation, incarnation) == 0)
        answer_recovering(step);
    else
        step_problem(step, event->request, "agent_unknown",
                     "the coordinator recovers its database: agent %s is to register again",
                     event->name);
}

static void collect(struct step *step)
{
    const struct coord_event *event = step->event;
    switch (event->kind) {
    case COORD_EVENT_AGENT_REGISTER:
        hear_registration(step);
        return;
    case COORD_EVENT_POLL:
    case COORD_EVENT_AGENT_DEREGISTER:
        ask_to_register(step, event->incarnation);
        return;
    case COORD_EVENT_REPORT:
        ask_to_register(step, event->report.incarnation);
        return;
    default:
        answer_recovering(step);
    }
}

/* ---- states */

static bool is_asked(enum coord_event_kind kind)
{
    return kind != COORD_EVENT_TICK && kind != COORD_EVENT_REQUEST_GONE &&
           kind != COORD_EVENT_KAFKA && kind != COORD_EVENT_START;
}

static void serve(struct step *step)
{
    switch (step->cluster->recovery.state) {
    case RECOVERY_VERIFYING:
        step_problem(step, step->event->request, "starting",
                     "Kafka is asked whether the database is the newest")
            ->retry_after_s = 1;
        return;
    case RECOVERY_OUTDATED:
        answer_outdated(step, step->event->request);
        return;
    case RECOVERY_COLLECTING:
        collect(step);
        return;
    case RECOVERY_NONE:
        break;
    }
    assert(!"a state in which others decide");
}

/* Takes the text. */
static void say_what_is_collected(struct step *step, char *obstacle)
{
    const struct recovery *recovery = &step->cluster->recovery;
    bool over = step->event->now_ms >= recovery->deadline_ms;
    char *detail = obstacle != NULL
                       ? obstacle
                       : text_printf("recovering: %s; %zu agents have told what they know so far",
                                     over ? "waiting for Kafka's word on committed offsets"
                                          : "agents have some seconds to tell what they know",
                                     recovery->agents.count);
    if (rows_text_equal(recovery->detail, detail))
        free(detail);
    else
        set_detail(step, detail);
}

static void begin_work(struct step *step)
{
    struct recovery *recovery = &step->cluster->recovery;
    recovery->state = RECOVERY_NONE;
    set_detail(step, NULL);
    step->cluster->listening_ms = step->event->now_ms;
    step_begin_work(step);
}

static void go_on_collecting(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct recovery *recovery = &cluster->recovery;
    char *obstacle = step_recovered_obstacle(cluster);
    bool over = step->event->now_ms >= recovery->deadline_ms && find_unread(recovery) == NULL;
    if (!over || obstacle != NULL) {
        if (over) /* until somebody has removed it */
            recovery->deadline_ms = step->event->now_ms + COLLECT_MS_MIN;
        say_what_is_collected(step, obstacle);
        return;
    }
    step_recovered(step);
    recovery_finish(recovery);
    recovery->decision = cluster->meta.decision;
    recovery->epoch = cluster->meta.epoch;
    cluster->config.recover = false;
    begin_work(step);
}

static void advance(struct step *step)
{
    const struct recovery *recovery = &step->cluster->recovery;
    if (recovery->state == RECOVERY_COLLECTING)
        go_on_collecting(step);
    else if (recovery->state == RECOVERY_VERIFYING &&
             (find_unread(recovery) == NULL || step->event->now_ms >= recovery->deadline_ms))
        begin_work(step);
}

void step_recovery_begin(struct step *step)
{
    struct cluster *cluster = step->cluster;
    struct recovery *recovery = &cluster->recovery;
    int64_t timeout_ms = cluster->config.agent_timeout_ms;
    recovery->state = cluster->config.recover ? RECOVERY_COLLECTING : RECOVERY_VERIFYING;
    recovery->decision = cluster->meta.decision;
    recovery->epoch = cluster->meta.epoch;
    if (cluster->config.recover && timeout_ms < COLLECT_MS_MIN)
        timeout_ms = COLLECT_MS_MIN;
    recovery->deadline_ms = step->event->now_ms + timeout_ms;
    for (size_t i = 0;
         i < cluster->jobs.count && (cluster->config.verify || cluster->config.recover); i++)
        want_stamps(cluster, cluster->jobs.items[i]->row.name,
                    cluster->jobs.items[i]->row.incarnation);
    advance(step);
    read_on(step);
}

void step_recovery(struct step *step)
{
    if (is_asked(step->event->kind))
        serve(step);
    else if (step->event->kind == COORD_EVENT_KAFKA)
        (void)step_recovery_result(step); /* others are of calls that nobody waits for any more */
    if (step->cluster->recovery.state == RECOVERY_OUTDATED)
        return;
    read_on(step);
    advance(step);
}

void step_recovery_verify(struct step *step)
{
    read_on(step);
}

int64_t step_recovery_wake(const struct cluster *cluster)
{
    const struct recovery *recovery = &cluster->recovery;
    int64_t wake_ms = INT64_MAX;
    if (recovery->state == RECOVERY_OUTDATED)
        return wake_ms;
    if (recovery->call == 0 && find_unread(recovery) != NULL)
        wake_ms = recovery->retry_ms;
    bool waits = recovery->state == RECOVERY_VERIFYING ||
                 (recovery->state == RECOVERY_COLLECTING && find_unread(recovery) == NULL);
    if (waits && recovery->deadline_ms < wake_ms)
        wake_ms = recovery->deadline_ms;
    return wake_ms;
}
