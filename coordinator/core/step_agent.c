/* Agents: registration, leaving, being lost and coming back, and the polls for their documents. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/step_recovery.h"

/* Calls visit for each processor that the agent owns. */
static void for_each_owned(struct step *step, struct agent *agent,
                           void (*visit)(struct step *step, struct processor *processor,
                                         struct agent *agent))
{
    const struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        struct job *job = cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++) {
            const char *owner = job->processors.items[p].placement.agent;
            if (owner != NULL && strcmp(owner, agent->row.agent_id) == 0)
                visit(step, &job->processors.items[p], agent);
        }
    }
}

static void mark_seen(struct step *step, struct agent *agent)
{
    agent->seen_ms = step->event->now_ms;
    agent->seen_at = step->event->now_at;
}

static void set_state(struct step *step, struct agent *agent, enum agent_state state)
{
    struct change change = step_agent_change(agent);
    change.agent.state = state;
    step_change(step, &change);
    agent->gone_ms = state == AGENT_STATE_ALIVE ? 0 : step->event->now_ms;
}

static void come_back(struct step *step, struct agent *agent)
{
    step_note_return(step, agent);
    set_state(step, agent, AGENT_STATE_ALIVE);
    step_event(step, (struct event_about){"agent_returned", .agent = agent->row.agent_id},
               "the same incarnation is heard of again");
    step->place = true;
}

static void answer_superseded(struct step *step, uint64_t request, const struct agent *agent)
{
    if (agent->row.state == AGENT_STATE_STOPPED)
        step_problem(step, request, "superseded",
                     "agent %s has left; a new start registers with a new incarnation",
                     agent->row.agent_id);
    else
        step_problem(step, request, "superseded",
                     "agent %s is registered with another incarnation, %s", agent->row.agent_id,
                     agent->row.incarnation);
}

struct agent *step_heard(struct step *step, const char *agent_id, const char *incarnation)
{
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    if (agent == NULL) {
        step_problem(step, step->event->request, "agent_unknown", "agent %s is not registered",
                     agent_id);
        return NULL;
    }
    if (strcmp(agent->row.incarnation, incarnation) != 0 ||
        agent->row.state == AGENT_STATE_STOPPED) {
        answer_superseded(step, step->event->request, agent);
        return NULL;
    }
    const struct protocol_range own = step->cluster->config.protocol;
    if (agent->row.protocol < own.minimum || agent->row.protocol > own.version) {
        /* This coordinator is of another release than the one that welcomed it. It keeps its tasks,
         * and learns from the registration whether there is another version that both speak. */
        step_problem(step, step->event->request, "agent_unknown",
                     "agent %s was welcomed with version %u of the agent protocol, which this "
                     "coordinator does not speak: it is to register anew",
                     agent_id, agent->row.protocol);
        return NULL;
    }
    mark_seen(step, agent);
    if (agent->row.state == AGENT_STATE_LOST)
        come_back(step, agent);
    return agent;
}

/* ---- polls */

/* At most one waits for each agent. */
static bool find_poll(const struct cluster *cluster, const char *agent_id, size_t *ret_index)
{
    for (size_t i = 0; i < cluster->polls.count; i++) {
        if (strcmp(cluster->polls.items[i].agent_id, agent_id) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

void step_poll(struct step *step)
{
    struct cluster *cluster = step->cluster;
    const struct coord_event *event = step->event;
    if (step_recovery_doubt_heard(step, event->incarnation, event->after, 0))
        return;
    const struct agent *agent = step_heard(step, event->name, event->incarnation);
    if (agent == NULL)
        return;
    size_t index;
    if (find_poll(cluster, agent->row.agent_id, &index)) {
        step_answer(step, cluster->polls.items[index].request, 204, NULL, NULL);
        cluster_remove_poll(cluster, index);
    }
    int64_t wait_ms = event->wait_ms;
    if (wait_ms > cluster->config.poll_wait_ms_max)
        wait_ms = cluster->config.poll_wait_ms_max;
    cluster->polls.items = mem_grow(cluster->polls.items, cluster->polls.count,
                                    &cluster->polls.capacity, sizeof(struct waiting_poll));
    cluster->polls.items[cluster->polls.count++] =
        (struct waiting_poll){.request = event->request,
                              .agent_id = mem_strdup(agent->row.agent_id),
                              .after = event->after,
                              .deadline_ms = event->now_ms + wait_ms};
}

void step_answer_polls(struct step *step)
{
    struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->polls.count;) {
        const struct waiting_poll *poll = &cluster->polls.items[i];
        const struct agent *agent = cluster_agent(cluster, poll->agent_id);
        assert(agent != NULL); /* who leaves is answered then */
        struct document_version version = cluster_document_version(cluster, agent);
        if (cluster_compare_versions(version, poll->after) > 0) {
            struct agent_document *document = mem_calloc(1, sizeof(*document));
            cluster_document(cluster, agent, document);
            step_answer(step, poll->request, 200, &schema_agent_document, document);
        } else if (step->event->now_ms >= poll->deadline_ms) {
            step_answer(step, poll->request, 204, NULL, NULL);
        } else {
            i++;
            continue;
        }
        cluster_remove_poll(cluster, i);
    }
}

/* The poll of an agent that is no longer who it was when it asked. */
static void end_poll(struct step *step, const struct agent *agent)
{
    size_t index;
    if (!find_poll(step->cluster, agent->row.agent_id, &index))
        return;
    answer_superseded(step, step->cluster->polls.items[index].request, agent);
    cluster_remove_poll(step->cluster, index);
}

/* ---- registration */

static struct protocol_range range_of(const struct agent_registration *registration)
{
    return (struct protocol_range){registration->protocol_minimum, registration->protocol};
}

static uint32_t chosen_protocol(const struct step *step,
                                const struct agent_registration *registration)
{
    return protocol_choose(range_of(registration), step->cluster->config.protocol);
}

static bool speaks_our_protocol(struct step *step)
{
    const struct agent_registration *registration = &step->event->registration;
    if (chosen_protocol(step, registration) != 0)
        return true;
    char *why = protocol_refusal(registration->agent_id, registration->version,
                                 range_of(registration), step->cluster->config.protocol);
    step_problem(step, step->event->request, "protocol_unsupported", "%s", why);
    free(why);
    return false;
}

/*
 * Whether another process may be at work under this id. One that was not heard of in this run may
 * be, too, until it had the time to say so.
 */
static bool is_held(const struct step *step, const struct agent *agent)
{
    const struct cluster *cluster = step->cluster;
    int64_t since_ms =
        agent->seen_ms > cluster->listening_ms ? agent->seen_ms : cluster->listening_ms;
    return agent->row.state == AGENT_STATE_ALIVE &&
           step->event->now_ms < since_ms + AGENT_ID_HELD_MS;
}

void step_agent_row(const struct step *step, struct agent_registration *registration,
                    const struct agent *known, struct agent_row *ret_row)
{
    static const struct agent_eligibility fresh = {.changed_at = API_UNKNOWN};
    const struct agent_eligibility *eligibility = known != NULL ? &known->row.eligibility : &fresh;
    static const struct agent_drain not_asked = {.deadline_ms = API_UNKNOWN,
                                                 .started_at = API_UNKNOWN,
                                                 .deadline_at = API_UNKNOWN,
                                                 .ended_at = API_UNKNOWN};
    const struct agent_drain *drain = known != NULL ? &known->row.drain : &not_asked;
    *ret_row = (struct agent_row){
        .agent_id = rows_text_copy(registration->agent_id),
        .incarnation = rows_text_copy(registration->incarnation),
        .state = AGENT_STATE_ALIVE,
        .version = rows_text_copy(registration->version),
        .address = rows_text_copy(registration->address),
        .protocol = chosen_protocol(step, registration),
        .capacity = registration->capacity,
        .max_learners = registration->max_learners,
        .registered_at = step->event->now_at,
        .eligibility = *eligibility,
        .drain = *drain,
    };
    ret_row->eligibility.reason = rows_text_copy(eligibility->reason);
    ret_row->eligibility.actor = rows_text_copy(eligibility->actor);
    ret_row->drain.reason = rows_text_copy(drain->reason);
    ret_row->drain.actor = rows_text_copy(drain->actor);
    ret_row->drain.error = rows_text_copy(drain->error);
    ret_row->tags.items = registration->tags.items;
    ret_row->tags.count = registration->tags.count;
    registration->tags.items = NULL;
    registration->tags.count = 0;
}

/*
 * The new incarnation must not go by an epoch of the old one, which may still be at work somewhere:
 * whatever the agent owns gets a new epoch before the new incarnation gets its first document (D6).
 */
static void raise_epoch(struct step *step, struct processor *processor, struct agent *agent)
{
    step_give(step, processor, agent, processor->placement.trouble,
              "its agent came back with a new incarnation");
    step_event(step,
               (struct event_about){"processor_assigned", .processor = processor,
                                    .agent = agent->row.agent_id, .actor = ACTOR_COORDINATOR},
               "epoch %llu: %s", (unsigned long long)processor->placement.epoch,
               processor->placement.reason);
}

static void register_start(struct step *step, struct change *change)
{
    const struct agent *known = cluster_agent(step->cluster, change->agent.agent_id);
    char *agent_id = mem_strdup(change->agent.agent_id);
    if (known != NULL)
        end_poll(step, known);
    step_change(step, change);
    struct agent *agent = cluster_agent(step->cluster, agent_id);
    step_event(step, (struct event_about){"agent_registered", .agent = agent_id},
               "%s, capacity %u, version %s, incarnation %s",
               known != NULL ? "a new start" : "a new agent", agent->row.capacity,
               agent->row.version, agent->row.incarnation);
    step_renew_document(step, agent);
    for_each_owned(step, agent, raise_epoch);
    step_standbys_of_new_start(step, agent);
    step_note_new_start(step, agent);
    free(agent_id);
}

/* The same start again: its first answer was lost, or it was lost itself. Nothing that it owns
 * changes. */
static void register_again(struct step *step, struct agent *agent, struct change *change)
{
    change->agent.registered_at = agent->row.registered_at;
    struct change present = step_agent_change(agent);
    bool lost = agent->row.state == AGENT_STATE_LOST;
    if (change_equal(&present, change))
        change_finish(change);
    else
        step_change(step, change);
    change_finish(&present);
    if (lost)
        step_event(step, (struct event_about){"agent_returned", .agent = agent->row.agent_id},
                   "the same incarnation registered again");
}

static void answer_welcome(struct step *step, uint32_t protocol)
{
    const struct cluster *cluster = step->cluster;
    struct agent_welcome *welcome = mem_calloc(1, sizeof(*welcome));
    *welcome = (struct agent_welcome){
        .cluster = mem_strdup(cluster->meta.cluster),
        .protocol = protocol,
        .agent_timeout_ms = cluster->config.agent_timeout_ms,
        .report_interval_ms = cluster->config.report_interval_ms,
        .poll_wait_ms = cluster->config.poll_wait_ms_max,
    };
    step_answer(step, step->event->request, 200, &schema_agent_welcome, welcome);
}

static bool may_register(struct step *step, const struct agent *known)
{
    const struct agent_registration *registration = &step->event->registration;
    uint64_t request = step->event->request;
    if (!speaks_our_protocol(step))
        return false;
    if (known == NULL) {
        if (step->cluster->agents.count < API_AGENTS_MAX)
            return true;
        step_problem(step, request, "limit_reached", "there are %zu agents, the most is %d",
                     step->cluster->agents.count, API_AGENTS_MAX);
        return false;
    }
    if (strcmp(known->row.incarnation, registration->incarnation) == 0) {
        if (known->row.state != AGENT_STATE_STOPPED)
            return true;
        answer_superseded(step, request, known);
        return false;
    }
    if (!is_held(step, known))
        return true;
    step_problem(step, request, "agent_id_in_use",
                 "agent %s was heard of within the last %d s, with another incarnation, %s",
                 known->row.agent_id, AGENT_ID_HELD_MS / 1000, known->row.incarnation)
        ->retry_after_s = 1;
    return false;
}

/* The highest of an owner among what it was told. */
static uint64_t highest_epoch(const struct agent_registration *registration)
{
    uint64_t epoch = 0;
    for (size_t i = 0; i < registration->tasks.count; i++)
        if (registration->tasks.items[i].epoch > epoch)
            epoch = registration->tasks.items[i].epoch;
    return epoch;
}

void step_agent_register(struct step *step)
{
    struct agent_registration *registration = &step->event->registration;
    struct agent *agent = cluster_agent(step->cluster, registration->agent_id);
    if (step_recovery_is_foreign(step)) {
        /* By the welcome it finds out, and says so in its own log. It does not follow it. */
        if (speaks_our_protocol(step))
            answer_welcome(step, chosen_protocol(step, registration));
        return;
    }
    if (step_recovery_doubt(step, registration->agent_id, registration->document,
                            highest_epoch(registration)) ||
        !may_register(step, agent))
        return;
    struct change change = {.kind = CHANGE_AGENT};
    step_agent_row(step, registration, agent, &change.agent);
    if (agent != NULL && strcmp(agent->row.incarnation, registration->incarnation) == 0)
        register_again(step, agent, &change);
    else
        register_start(step, &change);
    agent = cluster_agent(step->cluster, registration->agent_id);
    step_note_return(step, agent);
    mark_seen(step, agent);
    agent->gone_ms = 0;
    cluster_clear_kept(agent);
    agent->kept.items = registration->kept.items;
    agent->kept.count = agent->kept.capacity = registration->kept.count;
    registration->kept.items = NULL;
    registration->kept.count = 0;
    step_take_crashes(step, agent, registration->crashes.items, registration->crashes.count);
    registration->crashes.items = NULL;
    registration->crashes.count = 0;
    step_lost_is_back(step, agent);
    step->place = true;
    answer_welcome(step, agent->row.protocol);
}

/* ---- leaving */

void step_agent_deregister(struct step *step)
{
    const struct coord_event *event = step->event;
    struct agent *agent = cluster_agent(step->cluster, event->name);
    if (agent == NULL) {
        step_problem(step, event->request, "agent_unknown", "agent %s is not registered",
                     event->name);
        return;
    }
    if (strcmp(agent->row.incarnation, event->incarnation) != 0) {
        answer_superseded(step, event->request, agent);
        return;
    }
    mark_seen(step, agent);
    if (agent->row.state != AGENT_STATE_STOPPED) {
        set_state(step, agent, AGENT_STATE_STOPPED);
        step_event(step, (struct event_about){"agent_stopped", .agent = agent->row.agent_id},
                   "it left; its processors wait for it");
        step->place = true;
    }
    end_poll(step, agent);
    step_answer(step, event->request, 204, NULL, NULL);
}

static void take_from_forgotten(struct step *step, struct processor *processor, struct agent *agent)
{
    char *reason = mem_printf("no owner; agent %s was forgotten", agent->row.agent_id);
    step_take_away(step, processor, reason);
    step_event(step,
               (struct event_about){"processor_unassigned", .processor = processor,
                                    .agent = agent->row.agent_id},
               "%s", reason);
    free(reason);
}

void step_agent_forget(struct step *step)
{
    const struct coord_event *event = step->event;
    struct agent *agent = cluster_agent(step->cluster, event->name);
    if (agent == NULL) {
        step_problem(step, event->request, "agent_not_found", "there is no agent %s", event->name);
        return;
    }
    if (cluster_agent_alive(step->cluster, agent, event->now_ms)) {
        step_problem(step, event->request, "agent_still_owns", "agent %s is alive; stop it first",
                     event->name);
        return;
    }
    size_t index;
    if (find_poll(step->cluster, event->name, &index)) {
        step_problem(step, step->cluster->polls.items[index].request, "agent_unknown",
                     "agent %s was forgotten", event->name);
        cluster_remove_poll(step->cluster, index);
    }
    step_handoff_forget_agent(step, agent);
    for_each_owned(step, agent, take_from_forgotten);
    struct change change = {.kind = CHANGE_AGENT_REMOVED,
                            .agent = {.agent_id = mem_strdup(event->name)}};
    step_change(step, &change);
    step_event(step, (struct event_about){"agent_forgotten", .agent = event->name}, "%s",
               event->reason != NULL ? event->reason : "asked for without a reason");
    step->place = true;
    step_answer(step, event->request, 204, NULL, NULL);
}

/* ---- time */

void step_find_lost(struct step *step)
{
    struct cluster *cluster = step->cluster;
    for (size_t i = 0; i < cluster->agents.count; i++) {
        struct agent *agent = cluster->agents.items[i];
        if (agent->row.state != AGENT_STATE_ALIVE ||
            cluster_agent_alive(cluster, agent, step->event->now_ms))
            continue;
        set_state(step, agent, AGENT_STATE_LOST);
        step_event(step,
                   (struct event_about){"agent_lost", .agent = agent->row.agent_id,
                                        .actor = ACTOR_COORDINATOR},
                   "not heard of for %lld ms", (long long)cluster->config.agent_timeout_ms);
        step->place = true;
    }
}
