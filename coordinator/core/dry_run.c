#include "coordinator/core/dry_run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"

/* A step that gives something out or takes it back asks for another look at once; each leaves less
 * to do, so this is never reached. */
#define SETTLE_STEPS_MAX 100

#define CAPACITY_DEFAULT 64
#define STANDBYS_MAX     16

/* Who asks on the copy; nobody else waits there. */
#define REQUEST 1

struct trial {
    struct cluster cluster; /* the copy */
    const struct coord_event *event;
    bool changes; /* something durable would */
    char *refused, *refused_detail;
};

/* ---- steps on the copy */

static void note_refusal(struct trial *trial, const struct answer *answer)
{
    if (answer->request != REQUEST || answer->type != &schema_problem_body ||
        trial->refused != NULL)
        return;
    const struct problem_body *problem = answer->body;
    trial->refused = mem_strdup(problem->code);
    trial->refused_detail = rows_text_copy(problem->detail);
}

/* Takes what the event owns. */
static void step(struct trial *trial, struct coord_event *event)
{
    struct update update = {.wake_ms = INT64_MAX};
    event->now_ms = trial->event->now_ms;
    event->now_at = trial->event->now_at;
    event->random = trial->event->random;
    memcpy(event->uuid, trial->event->uuid, sizeof(event->uuid));
    event->actor = rows_text_copy(trial->event->actor);
    coord_step(&trial->cluster, event, &update);
    trial->changes = trial->changes || update.changes.count > 0;
    for (size_t i = 0; i < update.answers.count; i++)
        note_refusal(trial, &update.answers.items[i]);
    update_finish(&update);
    coord_event_finish(event);
}

static void settle(struct trial *trial)
{
    for (int i = 0; i < SETTLE_STEPS_MAX && trial->cluster.place_ms <= trial->event->now_ms; i++) {
        struct coord_event tick = {.kind = COORD_EVENT_TICK};
        step(trial, &tick);
    }
}

static void begin(struct trial *trial, const struct cluster *cluster,
                  const struct coord_event *event)
{
    *trial = (struct trial){.event = event};
    cluster_copy(&trial->cluster, cluster);
}

static void finish(struct trial *trial)
{
    cluster_finish(&trial->cluster);
    free(trial->refused);
    free(trial->refused_detail);
}

/* ---- changes, as the requests that would make them */

static void ask_agent(struct trial *trial, enum planned_change change, const char *agent_id)
{
    struct coord_event event = {.request = REQUEST, .name = mem_strdup(agent_id)};
    if (change == PLANNED_CHANGE_DRAIN) {
        event.kind = COORD_EVENT_DRAIN;
        schema_default(&schema_drain_request, &event.drain);
    } else {
        event.kind = COORD_EVENT_ELIGIBILITY;
        schema_default(&schema_eligibility_request, &event.eligibility);
        event.eligibility.schedulable = change == PLANNED_CHANGE_UNCORDON;
    }
    step(trial, &event);
}

static void ask_agents(struct trial *trial, const struct plan_request *request)
{
    for (size_t i = 0; i < request->agents.count && trial->refused == NULL; i++)
        ask_agent(trial, request->change, request->agents.items[i]);
}

static void add_agent(struct trial *trial, const char *agent_id, uint32_t number, uint32_t capacity)
{
    struct coord_event event = {.kind = COORD_EVENT_AGENT_REGISTER, .request = REQUEST};
    schema_default(&schema_agent_registration, &event.registration);
    event.registration.agent_id = mem_strdup(agent_id);
    event.registration.incarnation = mem_printf("00000000-0000-4000-8000-%012x", number);
    event.registration.protocol = trial->cluster.config.protocol.version;
    event.registration.protocol_minimum = trial->cluster.config.protocol.minimum;
    event.registration.version = mem_strdup("-");
    event.registration.capacity = capacity;
    step(trial, &event);
}

static void add_agents(struct trial *trial, const struct plan_request *request)
{
    int64_t count = request->count != API_UNKNOWN ? request->count : 1;
    int64_t capacity = request->capacity != API_UNKNOWN ? request->capacity : CAPACITY_DEFAULT;
    for (uint32_t number = 1; count > 0 && trial->refused == NULL; number++) {
        char *agent_id = mem_printf("new-%u", number);
        if (cluster_agent(&trial->cluster, agent_id) == NULL) {
            add_agent(trial, agent_id, number, (uint32_t)capacity);
            count--;
        }
        free(agent_id);
    }
}

static void rebalance(struct trial *trial, const struct plan_request *request)
{
    struct coord_event event = {
        .kind = COORD_EVENT_REBALANCE, .request = REQUEST, .name = mem_strdup(request->job)};
    step(trial, &event);
}

static void move(struct trial *trial, const struct plan_request *request)
{
    struct coord_event event = {
        .kind = COORD_EVENT_MOVE, .request = REQUEST, .name = mem_strdup(request->job)};
    event.move.processor = (uint32_t)request->processor;
    event.move.agent = rows_text_copy(request->target);
    step(trial, &event);
}

/* As a PUT of the spec, which Kafka is asked about first, would leave it. */
static void set_standbys(struct trial *trial, const struct plan_request *request)
{
    struct job *job = cluster_job(&trial->cluster, request->job);
    if (job == NULL) {
        trial->refused = mem_strdup("job_not_found");
        trial->refused_detail = mem_printf("there is no job \"%s\"", request->job);
        return;
    }
    job->row.spec.standbys = (uint32_t)request->standbys;
    trial->cluster.place_ms = trial->event->now_ms;
}

static void make_change(struct trial *trial, const struct plan_request *request)
{
    switch (request->change) {
    case PLANNED_CHANGE_DRAIN:
    case PLANNED_CHANGE_CORDON:
    case PLANNED_CHANGE_UNCORDON:
        ask_agents(trial, request);
        return;
    case PLANNED_CHANGE_ADD_AGENTS:
        add_agents(trial, request);
        return;
    case PLANNED_CHANGE_REBALANCE:
        rebalance(trial, request);
        return;
    case PLANNED_CHANGE_MOVE:
        move(trial, request);
        return;
    case PLANNED_CHANGE_STANDBYS:
        set_standbys(trial, request);
        return;
    case PLANNED_CHANGE_COUNT:
        break;
    }
    assert(!"a change");
}

/* ---- a request */

#define IN(change) (1U << (change))

/* Which changes take the field, and which can not do without. */
static const struct {
    const char *name;
    unsigned taken, needed;
    const char *stray, *missing;
} fields[] = {
    {"/agents", IN(PLANNED_CHANGE_DRAIN) | IN(PLANNED_CHANGE_CORDON) | IN(PLANNED_CHANGE_UNCORDON),
     IN(PLANNED_CHANGE_DRAIN) | IN(PLANNED_CHANGE_CORDON) | IN(PLANNED_CHANGE_UNCORDON),
     "only drain, cordon and uncordon take agents", "name at least one agent"},
    {"/job", IN(PLANNED_CHANGE_REBALANCE) | IN(PLANNED_CHANGE_MOVE) | IN(PLANNED_CHANGE_STANDBYS),
     IN(PLANNED_CHANGE_REBALANCE) | IN(PLANNED_CHANGE_MOVE) | IN(PLANNED_CHANGE_STANDBYS),
     "only rebalance, move and standbys take a job", "name the job"},
    {"/target", IN(PLANNED_CHANGE_MOVE), 0, "only move takes a target", NULL},
    {"/processor", IN(PLANNED_CHANGE_MOVE), IN(PLANNED_CHANGE_MOVE), "only move takes a processor",
     "name the processor, by its number"},
    {"/count", IN(PLANNED_CHANGE_ADD_AGENTS), 0, "only add_agents takes a count", NULL},
    {"/capacity", IN(PLANNED_CHANGE_ADD_AGENTS), 0, "only add_agents takes a capacity", NULL},
    {"/standbys", IN(PLANNED_CHANGE_STANDBYS), IN(PLANNED_CHANGE_STANDBYS),
     "only standbys takes standbys", "say how many standbys each processor shall have"},
};

static bool is_given(const struct plan_request *request, size_t field)
{
    const bool given[] = {request->agents.count > 0,       request->job != NULL,
                          request->target != NULL,         request->processor != API_UNKNOWN,
                          request->count != API_UNKNOWN,   request->capacity != API_UNKNOWN,
                          request->standbys != API_UNKNOWN};
    static_assert(sizeof(given) / sizeof(given[0]) == sizeof(fields) / sizeof(fields[0]), "each");
    return given[field];
}

static bool is_within(int64_t value, int64_t min, int64_t max)
{
    return value == API_UNKNOWN || (value >= min && value <= max);
}

static const char *find_range_fault(const struct plan_request *request, const char **ret_detail)
{
    if (!is_within(request->processor, 0, API_PARTITIONS_MAX - 1)) {
        *ret_detail = "must be from 0 to 9999";
        return "/processor";
    }
    if (!is_within(request->count, 1, API_PLAN_AGENTS_MAX)) {
        *ret_detail = "must be from 1 to 100";
        return "/count";
    }
    if (!is_within(request->capacity, 1, API_TASKS_MAX)) {
        *ret_detail = "must be from 1 to 10000";
        return "/capacity";
    }
    if (!is_within(request->standbys, 0, STANDBYS_MAX)) {
        *ret_detail = "must be from 0 to 16";
        return "/standbys";
    }
    return NULL;
}

const char *dry_run_find_fault(const struct plan_request *request, const char **ret_detail)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        bool given = is_given(request, i);
        if (given && (fields[i].taken & IN(request->change)) == 0) {
            *ret_detail = fields[i].stray;
            return fields[i].name;
        }
        if (!given && (fields[i].needed & IN(request->change)) != 0) {
            *ret_detail = fields[i].missing;
            return fields[i].name;
        }
    }
    return find_range_fault(request, ret_detail);
}

/* ---- the answer */

/* Those that learn at a time, each taking the next one when it is done. */
static int64_t count_lanes(const struct plan_moves *moves)
{
    int64_t lanes = 0;
    for (size_t i = 0; i < moves->count; i++)
        lanes += !moves->items[i].waits && moves->items[i].eta_ms != 0;
    return lanes > 0 ? lanes : 1;
}

static int64_t estimate_end(const struct plan_moves *moves)
{
    size_t count = (size_t)count_lanes(moves);
    int64_t *lanes = mem_calloc(count, sizeof(int64_t));
    int64_t end_ms = 0;
    for (size_t i = 0; i < moves->count && end_ms >= 0; i++) {
        size_t first = 0;
        for (size_t lane = 1; lane < count; lane++)
            if (lanes[lane] < lanes[first])
                first = lane;
        if (moves->items[i].eta_ms < 0 ||
            __builtin_add_overflow(lanes[first], moves->items[i].eta_ms, &lanes[first]))
            end_ms = API_UNKNOWN;
        else if (lanes[first] > end_ms)
            end_ms = lanes[first];
    }
    free(lanes);
    return end_ms;
}

static int64_t add(int64_t sum, int64_t more)
{
    int64_t total;
    return sum < 0 || more < 0 || __builtin_add_overflow(sum, more, &total) ? API_UNKNOWN : total;
}

static void sum_up(const struct plan_moves *moves, struct plan_view *view)
{
    view->records = view->state_bytes = 0;
    for (size_t i = 0; i < moves->count; i++) {
        view->records = add(view->records, moves->items[i].records);
        view->state_bytes = add(view->state_bytes, moves->items[i].state_bytes);
    }
    view->eta_ms = estimate_end(moves);
}

/* One request carries it out, which may name the plan. */
static bool is_one_request(const struct plan_request *request)
{
    switch (request->change) {
    case PLANNED_CHANGE_DRAIN:
    case PLANNED_CHANGE_CORDON:
    case PLANNED_CHANGE_UNCORDON:
        return request->agents.count == 1;
    case PLANNED_CHANGE_REBALANCE:
    case PLANNED_CHANGE_MOVE:
        return true;
    default:
        return false;
    }
}

void dry_run(const struct cluster *cluster, const struct coord_event *event,
             const struct plan_request *request, struct plan_view *ret_view)
{
    struct trial trial;
    struct plan_moves moves = {0};
    *ret_view = (struct plan_view){.change = request->change};
    begin(&trial, cluster, event);
    make_change(&trial, request);
    if (trial.refused == NULL) {
        settle(&trial);
        dry_run_compare(cluster, &trial.cluster, &moves);
    }
    sum_up(&moves, ret_view);
    if (trial.refused == NULL && is_one_request(request)) {
        char id[API_PLAN_ID_BYTES + 1];
        dry_run_hash(&moves, id);
        ret_view->plan = mem_strdup(id);
    }
    ret_view->refused = trial.refused;
    ret_view->refused_detail = trial.refused_detail;
    trial.refused = trial.refused_detail = NULL;
    ret_view->moves.items = moves.items;
    ret_view->moves.count = moves.count;
    finish(&trial);
}

/* ---- a request that names its plan */

static void copy_event(const struct coord_event *event, struct coord_event *ret_copy)
{
    *ret_copy = (struct coord_event){
        .kind = event->kind,
        .request = REQUEST,
        .name = rows_text_copy(event->name),
        .reason = rows_text_copy(event->reason),
    };
    if (event->kind == COORD_EVENT_DRAIN)
        schema_copy(&schema_drain_request, &ret_copy->drain, &event->drain);
    else if (event->kind == COORD_EVENT_ELIGIBILITY)
        schema_copy(&schema_eligibility_request, &ret_copy->eligibility, &event->eligibility);
    else if (event->kind == COORD_EVENT_MOVE)
        schema_copy(&schema_move_request, &ret_copy->move, &event->move);
    else
        assert(event->kind == COORD_EVENT_REBALANCE);
}

static void forget_plan(struct coord_event *event)
{
    char **plan = step_plan_of(event);
    free(*plan);
    *plan = NULL;
}

bool dry_run_identify(const struct cluster *cluster, const struct coord_event *event,
                      char ret_id[API_PLAN_ID_BYTES + 1])
{
    struct trial trial;
    struct coord_event copy;
    begin(&trial, cluster, event);
    copy_event(event, &copy);
    forget_plan(&copy);
    step(&trial, &copy);
    bool counts = trial.changes && trial.refused == NULL;
    if (counts) {
        struct plan_moves moves;
        settle(&trial);
        dry_run_compare(cluster, &trial.cluster, &moves);
        dry_run_hash(&moves, ret_id);
        dry_run_finish_moves(&moves);
    }
    finish(&trial);
    return counts;
}
