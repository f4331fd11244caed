#include "coordinator/publish.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"
#include "coordinator/publish_job.h"

struct publisher {
    pthread_mutex_t lock; /* protects `newest`; only references are taken under it */
    struct view *newest;
};

/* ---- references; a part may be shared by many views, so the counts are atomic */

static void reference(size_t *references)
{
    __atomic_add_fetch(references, 1, __ATOMIC_RELAXED);
}

/* True when it was the last one: what was read by others is done being read. */
static bool unreference(size_t *references)
{
    assert(__atomic_load_n(references, __ATOMIC_RELAXED) > 0);
    return __atomic_sub_fetch(references, 1, __ATOMIC_ACQ_REL) == 0;
}

static void release_job(struct view_job *job)
{
    if (unreference(&job->references))
        publish_free_job(job);
}

static void release_agents(struct view_agents *agents)
{
    if (!unreference(&agents->references))
        return;
    for (size_t i = 0; i < agents->count; i++)
        schema_free(&schema_agent_view, &agents->items[i]);
    free(agents->items);
    free(agents);
}

static void release_operations(struct view_operations *operations)
{
    if (!unreference(&operations->references))
        return;
    for (size_t i = 0; i < operations->count; i++)
        schema_free(&schema_operation_view, &operations->items[i]);
    free(operations->items);
    free(operations);
}

static void release_view(struct view *view)
{
    if (view == NULL || !unreference(&view->references))
        return;
    for (size_t i = 0; i < view->jobs.count; i++)
        release_job(view->jobs.items[i]);
    free(view->jobs.items);
    release_agents(view->agents);
    release_operations(view->operations);
    for (size_t i = 0; i < view->running.count; i++)
        schema_free(&schema_operation_view, &view->running.items[i]);
    free(view->running.items);
    for (size_t i = 0; i < view->handoffs.count; i++)
        schema_free(&schema_handoff_view, &view->handoffs.items[i]);
    free(view->handoffs.items);
    for (size_t i = 0; i < view->drains.count; i++)
        schema_free(&schema_drain_view, &view->drains.items[i]);
    free(view->drains.items);
    schema_free(&schema_maintenance_view, &view->maintenance);
    free(view->recovery_detail);
    free(view);
}

struct publisher *publisher_create(void)
{
    struct publisher *publisher = mem_calloc(1, sizeof(*publisher));
    pthread_mutex_init(&publisher->lock, NULL);
    return publisher;
}

void publisher_destroy(struct publisher *publisher)
{
    if (publisher == NULL)
        return;
    release_view(publisher->newest);
    pthread_mutex_destroy(&publisher->lock);
    free(publisher);
}

const struct view *publish_acquire(struct publisher *publisher)
{
    pthread_mutex_lock(&publisher->lock);
    struct view *view = publisher->newest;
    if (view != NULL)
        reference(&view->references);
    pthread_mutex_unlock(&publisher->lock);
    return view;
}

void publish_release(const struct view *view)
{
    release_view((struct view *)view); /* only the count changes */
}

static void swap(struct publisher *publisher, struct view *view)
{
    pthread_mutex_lock(&publisher->lock);
    struct view *before = publisher->newest;
    publisher->newest = view;
    pthread_mutex_unlock(&publisher->lock);
    release_view(before);
}

/* ---- finding */

static int compare_job(const void *name, const void *item)
{
    return strcmp(name, (*(struct view_job *const *)item)->job.name);
}

const struct view_job *view_find_job(const struct view *view, const char *name)
{
    struct view_job **found =
        bsearch(name, view->jobs.items, view->jobs.count, sizeof(struct view_job *), compare_job);
    return found == NULL ? NULL : *found;
}

static int compare_agent(const void *agent_id, const void *item)
{
    return strcmp(agent_id, ((const struct agent_view *)item)->agent_id);
}

static const struct agent_view *find_agent(const struct view_agents *agents, const char *agent_id)
{
    return bsearch(agent_id, agents->items, agents->count, sizeof(*agents->items), compare_agent);
}

const struct agent_view *view_find_agent(const struct view *view, const char *agent_id)
{
    return find_agent(view->agents, agent_id);
}

const struct drain_view *view_find_drain(const struct view *view, const char *agent_id)
{
    for (size_t i = 0; i < view->drains.count; i++) {
        if (strcmp(view->drains.items[i].agent, agent_id) == 0)
            return &view->drains.items[i];
    }
    return NULL;
}

const struct operation_view *view_find_operation(const struct view *view, const char *id)
{
    for (size_t i = 0; i < view->running.count; i++) {
        if (strcmp(view->running.items[i].id, id) == 0)
            return &view->running.items[i];
    }
    for (size_t i = 0; i < view->operations->count; i++) {
        if (strcmp(view->operations->items[i].id, id) == 0)
            return &view->operations->items[i];
    }
    return NULL;
}

/* ---- what has changed */

static bool contains(char *const *items, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(items[i], text) == 0)
            return true;
    }
    return false;
}

static void mark_job(struct publish_dirty *dirty, const char *name)
{
    if (dirty->all || contains(dirty->jobs.items, dirty->jobs.count, name))
        return;
    dirty->jobs.items =
        mem_grow(dirty->jobs.items, dirty->jobs.count, &dirty->jobs.capacity, sizeof(char *));
    dirty->jobs.items[dirty->jobs.count++] = mem_strdup(name);
}

static void mark_agent(struct publish_dirty *dirty, const char *agent_id)
{
    if (dirty->all || contains(dirty->agents.items, dirty->agents.count, agent_id))
        return;
    dirty->agents.items =
        mem_grow(dirty->agents.items, dirty->agents.count, &dirty->agents.capacity, sizeof(char *));
    dirty->agents.items[dirty->agents.count++] = mem_strdup(agent_id);
}

void publish_mark_event(struct publish_dirty *dirty, const struct coord_event *event)
{
    switch (event->kind) {
    case COORD_EVENT_REPORT:
    case COORD_EVENT_POLL:
    case COORD_EVENT_AGENT_DEREGISTER:
    case COORD_EVENT_AGENT_FORGET:
        mark_agent(dirty, event->name);
        break;
    case COORD_EVENT_AGENT_REGISTER:
        mark_agent(dirty, event->registration.agent_id);
        break;
    case COORD_EVENT_START:
        dirty->all = true;
        break;
    case COORD_EVENT_KAFKA: /* may change a job's problems without any row */
        if (event->kafka.job != NULL)
            mark_job(dirty, event->kafka.job);
        break;
    case COORD_EVENT_TICK:
    case COORD_EVENT_JOB_PUT:
    case COORD_EVENT_JOB_DELETE:
    case COORD_EVENT_OPERATION_WAIT:
    case COORD_EVENT_OPERATION_CANCEL:
    case COORD_EVENT_ELIGIBILITY:
    case COORD_EVENT_DRAIN:
    case COORD_EVENT_DRAIN_CANCEL:
    case COORD_EVENT_PAUSE:
    case COORD_EVENT_RESUME:
    case COORD_EVENT_MAINTENANCE:
    case COORD_EVENT_SKIP:
    case COORD_EVENT_OFFSETS:
    case COORD_EVENT_MOVE:
    case COORD_EVENT_REBALANCE:
    case COORD_EVENT_EXPAND:
    case COORD_EVENT_PLAN:
    case COORD_EVENT_HANDOFF_CANCEL:
    case COORD_EVENT_REQUEST_GONE:
        break; /* what they change is in the update */
    }
}

void publish_mark_update(struct publish_dirty *dirty, const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        const struct change *change = &update->changes.items[i];
        switch (change->kind) {
        case CHANGE_JOB:
        case CHANGE_JOB_REMOVED:
            mark_job(dirty, change->job.name);
            break;
        case CHANGE_PLACEMENT:
            mark_job(dirty, change->placement.job);
            if (change->placement.agent != NULL)
                mark_agent(dirty, change->placement.agent);
            break;
        case CHANGE_AGENT:
        case CHANGE_AGENT_REMOVED: /* processors without owner look at all agents */
        case CHANGE_MAINTENANCE:
            dirty->all = true;
            break;
        case CHANGE_OPERATION:
            dirty->operations = true;
            mark_job(dirty, change->operation.job);
            break;
        case CHANGE_HANDOFF:
            mark_job(dirty, change->handoff.job);
            break;
        case CHANGE_SKIP:
            mark_job(dirty, change->skip.job);
            break;
        case CHANGE_WINDOW:
            mark_job(dirty, change->window.job);
            break;
        case CHANGE_STANDBY:
        case CHANGE_STANDBY_REMOVED:
            mark_job(dirty, change->standby.job);
            mark_agent(dirty, change->standby.agent);
            break;
        case CHANGE_META:
        case CHANGE_ARRIVAL:
        case CHANGE_EVENT:
        case CHANGE_OBSERVATION:
            break;
        }
    }
}

bool publish_is_dirty(const struct publish_dirty *dirty)
{
    return dirty->all || dirty->operations || dirty->jobs.count > 0 || dirty->agents.count > 0;
}

void publish_clear(struct publish_dirty *dirty)
{
    for (size_t i = 0; i < dirty->jobs.count; i++)
        free(dirty->jobs.items[i]);
    for (size_t i = 0; i < dirty->agents.count; i++)
        free(dirty->agents.items[i]);
    free(dirty->jobs.items);
    free(dirty->agents.items);
    *dirty = (struct publish_dirty){0};
}

/* ---- building */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool names_dirty_agent(const struct publish_dirty *dirty, const char *agent_id)
{
    return agent_id != NULL && bsearch(&agent_id, dirty->agents.items, dirty->agents.count,
                                       sizeof(char *), compare_texts) != NULL;
}

/* It changed itself, or one of those who have or learn its processors has said something. */
static bool job_is_dirty(const struct publish_dirty *dirty, const struct job *job)
{
    if (dirty->all || contains(dirty->jobs.items, dirty->jobs.count, job->row.name))
        return true;
    for (size_t i = 0; i < job->processors.count + job->nascent && dirty->agents.count > 0; i++) {
        const struct processor *processor = &job->processors.items[i];
        if (names_dirty_agent(dirty, processor->placement.agent) ||
            (processor->handoff != NULL &&
             names_dirty_agent(dirty, processor->handoff->row.target)))
            return true;
        for (size_t s = 0; s < processor->standbys.count; s++)
            if (names_dirty_agent(dirty, processor->standbys.items[s].row.agent))
                return true;
    }
    return false;
}

static void build_jobs(const struct cluster *cluster, const struct view *before,
                       const struct publish_dirty *dirty, int64_t now_ms, struct view *view)
{
    view->jobs.count = cluster->jobs.count;
    view->jobs.items = mem_calloc(cluster->jobs.count, sizeof(struct view_job *));
    for (size_t i = 0; i < cluster->jobs.count; i++) {
        const struct job *job = cluster->jobs.items[i];
        struct view_job *known =
            before == NULL ? NULL : (struct view_job *)view_find_job(before, job->row.name);
        if (known != NULL && !job_is_dirty(dirty, job)) {
            reference(&known->references);
            view->jobs.items[i] = known;
        } else {
            view->jobs.items[i] = publish_make_job(cluster, job, known, now_ms);
        }
    }
}

static struct agent_view *find_view(struct view_agents *agents, const char *agent_id)
{
    return agent_id == NULL ? NULL : (struct agent_view *)find_agent(agents, agent_id);
}

/* Each agent's tasks, and those that it reports active, over all jobs. */
static void count_tasks(const struct cluster *cluster, struct view_agents *agents)
{
    for (size_t j = 0; j < cluster->jobs.count; j++) {
        const struct job *job = cluster->jobs.items[j];
        for (size_t p = 0; p < job->processors.count + job->nascent; p++) {
            const struct processor *processor = &job->processors.items[p];
            const struct handoff *handoff = processor->handoff;
            struct agent_view *learner =
                handoff != NULL && handoff_before_release(handoff->row.state)
                    ? find_view(agents, handoff->row.target)
                    : NULL;
            if (learner != NULL)
                learner->tasks++;
            for (size_t s = 0; s < processor->standbys.count; s++) {
                struct agent_view *holder =
                    find_view(agents, processor->standbys.items[s].row.agent);
                if (holder != NULL)
                    holder->tasks++;
            }
            struct agent_view *view = find_view(agents, processor->placement.agent);
            if (view == NULL)
                continue;
            const struct task_report *report = cluster_report(cluster, processor);
            view->tasks++;
            view->tasks_active += report != NULL && report->state == TASK_STATE_ACTIVE;
        }
    }
}

static void make_agent(const struct cluster *cluster, const struct agent *agent,
                       struct agent_view *view)
{
    const struct agent_row *row = &agent->row;
    *view = (struct agent_view){
        .agent_id = mem_strdup(row->agent_id),
        .incarnation = mem_strdup(row->incarnation),
        .state = row->state,
        .version = mem_strdup(row->version),
        .address = row->address == NULL ? NULL : mem_strdup(row->address),
        .protocol = row->protocol,
        .capacity = row->capacity,
        .max_learners = row->max_learners,
        .registered_at = row->registered_at,
        .seen_at = agent->seen_ms == 0 ? API_UNKNOWN : agent->seen_at,
        .assigned = cluster_document_version(cluster, agent),
        .applied = agent->applied,
    };
    view_eligibility(row, &view->eligibility);
    if (cluster_agent_leaving(agent))
        view->drain = mem_strdup(schema_enum_name(schema_names_drain_state, (int)row->drain.state));
    view->safe_to_stop = cluster_agent_leaving(agent) && row->drain.state == DRAIN_STATE_DRAINED;
    view->tags.count = row->tags.count;
    view->tags.items = mem_calloc(row->tags.count, sizeof(*view->tags.items));
    for (size_t i = 0; i < row->tags.count; i++)
        schema_copy(&schema_tag, &view->tags.items[i], &row->tags.items[i]);
}

static struct view_agents *build_agents(const struct cluster *cluster, const struct view *before,
                                        const struct publish_dirty *dirty)
{
    if (before != NULL && !dirty->all && dirty->agents.count == 0 && dirty->jobs.count == 0) {
        reference(&before->agents->references);
        return before->agents;
    }
    struct view_agents *agents = mem_calloc(1, sizeof(*agents));
    agents->references = 1;
    agents->count = cluster->agents.count;
    agents->items = mem_calloc(agents->count, sizeof(*agents->items));
    for (size_t i = 0; i < agents->count; i++)
        make_agent(cluster, cluster->agents.items[i], &agents->items[i]);
    count_tasks(cluster, agents);
    return agents;
}

static struct view_operations *build_operations(const struct cluster *cluster,
                                                const struct view *before,
                                                const struct publish_dirty *dirty)
{
    if (before != NULL && !dirty->all && !dirty->operations) {
        reference(&before->operations->references);
        return before->operations;
    }
    struct view_operations *operations = mem_calloc(1, sizeof(*operations));
    operations->references = 1;
    operations->count = cluster->operations.count;
    operations->items = mem_calloc(operations->count, sizeof(*operations->items));
    for (size_t i = 0; i < operations->count; i++)
        view_operation(&cluster->operations.items[i]->row, &operations->items[i]);
    return operations;
}

/* Few, and their numbers change with every report: made anew each time, as the next. */
static void build_running(const struct cluster *cluster, struct view *view)
{
    view->running.items = mem_calloc(cluster->operations.count, sizeof(*view->running.items));
    for (size_t i = 0; i < cluster->operations.count; i++) {
        const struct operation *operation = cluster->operations.items[i];
        if (view_operation_finished(operation->row.state))
            continue;
        struct operation_view *running = &view->running.items[view->running.count++];
        view_operation(&operation->row, running);
        publish_complete_operation(cluster, operation, running);
    }
}

static void build_handoffs(const struct cluster *cluster, struct view *view)
{
    view->handoffs.count = cluster->handoffs.count;
    view->handoffs.items = mem_calloc(view->handoffs.count, sizeof(*view->handoffs.items));
    for (size_t i = 0; i < view->handoffs.count; i++) {
        const struct handoff *handoff = cluster->handoffs.items[i];
        view_handoff(&handoff->row, &view->handoffs.items[i]);
        publish_complete_handoff(cluster, handoff, &view->handoffs.items[i]);
    }
}

void publish_build(struct publisher *publisher, const struct cluster *cluster, int64_t now_ms,
                   struct publish_dirty *dirty)
{
    const struct view *before = publisher->newest; /* only this thread changes it */
    struct view *view = mem_calloc(1, sizeof(*view));
    view->references = 1;
    memcpy(view->cluster, cluster->meta.cluster, sizeof(view->cluster));
    view->start_number = cluster->meta.start_number;
    view->decision = cluster->meta.decision;
    view->epoch = cluster->meta.epoch;
    view->event_id = cluster->meta.event_id;
    if (dirty->agents.count > 0)
        qsort(dirty->agents.items, dirty->agents.count, sizeof(char *), compare_texts);
    build_jobs(cluster, before, dirty, now_ms, view);
    view->agents = build_agents(cluster, before, dirty);
    view->operations = build_operations(cluster, before, dirty);
    build_running(cluster, view);
    build_handoffs(cluster, view);
    publish_drains(cluster, &view->drains);
    view_maintenance(&cluster->maintenance, &view->maintenance);
    view->recovery = cluster->recovery.state;
    view->recovery_detail = rows_text_copy(cluster->recovery.detail);
    swap(publisher, view);
    publish_clear(dirty);
}
