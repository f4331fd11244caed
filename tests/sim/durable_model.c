#include "tests/sim/durable_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/core/handoff.h"

#define CLUSTER_UUID "c1c1c1c1-0000-4000-8000-000000000001"

static bool is_same_key(const struct change *a, const struct change *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case CHANGE_META:
        return true;
    case CHANGE_JOB:
        return strcmp(a->job.name, b->job.name) == 0;
    case CHANGE_PLACEMENT:
        return strcmp(a->placement.job, b->placement.job) == 0 &&
               a->placement.processor == b->placement.processor;
    case CHANGE_AGENT:
        return strcmp(a->agent.agent_id, b->agent.agent_id) == 0;
    case CHANGE_OPERATION:
        return a->operation.id == b->operation.id;
    case CHANGE_HANDOFF:
        return a->handoff.id == b->handoff.id;
    case CHANGE_MAINTENANCE:
        return true;
    case CHANGE_SKIP:
        return strcmp(a->skip.job, b->skip.job) == 0 && a->skip.topic == b->skip.topic &&
               a->skip.partition == b->skip.partition && a->skip.offset == b->skip.offset;
    case CHANGE_WINDOW:
        return strcmp(a->window.job, b->window.job) == 0 &&
               a->window.window.topic == b->window.window.topic &&
               a->window.window.partition == b->window.window.partition;
    case CHANGE_ARRIVAL:
        return strcmp(a->arrival.job, b->arrival.job) == 0 &&
               strcmp(a->arrival.agent, b->arrival.agent) == 0;
    case CHANGE_STANDBY:
        return strcmp(a->standby.job, b->standby.job) == 0 &&
               a->standby.processor == b->standby.processor &&
               strcmp(a->standby.agent, b->standby.agent) == 0;
    case CHANGE_OBSERVATION:
        return strcmp(a->observation.job, b->observation.job) == 0 &&
               a->observation.processor == b->observation.processor;
    default:
        return false;
    }
}

static void remove_row(struct durable_model *durable, size_t index)
{
    change_finish(&durable->rows[index]);
    durable->rows[index] = durable->rows[--durable->count];
}

static void put_row(struct durable_model *durable, const struct change *change)
{
    for (size_t i = 0; i < durable->count; i++) {
        if (!is_same_key(&durable->rows[i], change))
            continue;
        change_finish(&durable->rows[i]);
        change_copy(&durable->rows[i], change);
        return;
    }
    durable->rows =
        mem_grow(durable->rows, durable->count, &durable->capacity, sizeof(*durable->rows));
    change_copy(&durable->rows[durable->count++], change);
}

/* The name of the job that a row is a part of; NULL: of none. */
static const char *job_of(const struct change *row)
{
    switch (row->kind) {
    case CHANGE_JOB:
        return row->job.name;
    case CHANGE_PLACEMENT:
        return row->placement.job;
    case CHANGE_ARRIVAL:
        return row->arrival.job;
    case CHANGE_STANDBY:
        return row->standby.job;
    case CHANGE_SKIP:
        return row->skip.job;
    case CHANGE_WINDOW:
        return row->window.job;
    case CHANGE_OBSERVATION:
        return row->observation.job;
    default:
        return NULL;
    }
}

static void remove_job(struct durable_model *durable, const char *name)
{
    for (size_t i = durable->count; i-- > 0;) {
        const char *job = job_of(&durable->rows[i]);

        if (job != NULL && strcmp(job, name) == 0)
            remove_row(durable, i);
    }
}

static void remove_agent(struct durable_model *durable, const char *agent_id)
{
    for (size_t i = durable->count; i-- > 0;) {
        const struct change *row = &durable->rows[i];

        if ((row->kind == CHANGE_AGENT && strcmp(row->agent.agent_id, agent_id) == 0) ||
            (row->kind == CHANGE_ARRIVAL && strcmp(row->arrival.agent, agent_id) == 0) ||
            (row->kind == CHANGE_STANDBY && strcmp(row->standby.agent, agent_id) == 0))
            remove_row(durable, i);
    }
}

static void end_handoff(struct durable_model *durable, uint64_t id)
{
    for (size_t i = durable->count; i-- > 0;) {
        if (durable->rows[i].kind == CHANGE_HANDOFF && durable->rows[i].handoff.id == id)
            remove_row(durable, i);
    }
}

static void remove_standby(struct durable_model *durable, const struct standby_row *gone)
{
    struct change key = {.kind = CHANGE_STANDBY, .standby = *gone};

    for (size_t i = durable->count; i-- > 0;) {
        if (is_same_key(&durable->rows[i], &key))
            remove_row(durable, i);
    }
}

/* Of the database before it was written. */
static const struct meta_row *meta_of(const struct durable_model *durable)
{
    assert(durable->count > 0);
    assert(durable->rows[0].kind == CHANGE_META); /* it was the first, and is never removed */
    return &durable->rows[0].meta;
}

static void put_meta(struct durable_model *durable, const struct change *change,
                     enum mutation mutation)
{
    struct change row = *change;

    if (mutation == MUTATION_VERSION_NOT_DURABLE) {
        row.meta.start_number = meta_of(durable)->start_number;
        row.meta.decision = meta_of(durable)->decision;
    }
    if (mutation == MUTATION_EPOCH_NOT_DURABLE)
        row.meta.epoch = meta_of(durable)->epoch;
    if (mutation == MUTATION_START_NOT_RAISED)
        row.meta.start_number = meta_of(durable)->start_number;
    put_row(durable, &row);
}

static void commit_change(struct durable_model *durable, const struct change *change,
                          enum mutation mutation)
{
    switch (change->kind) {
    case CHANGE_EVENT:
        return;
    case CHANGE_META:
        put_meta(durable, change, mutation);
        return;
    case CHANGE_JOB_REMOVED:
        remove_job(durable, change->job.name);
        return;
    case CHANGE_AGENT_REMOVED:
        remove_agent(durable, change->agent.agent_id);
        return;
    case CHANGE_STANDBY_REMOVED:
        remove_standby(durable, &change->standby);
        return;
    case CHANGE_HANDOFF:
        if (!handoff_ended(change->handoff.state))
            put_row(durable, change);
        else if (mutation != MUTATION_END_NOT_DURABLE)
            end_handoff(durable, change->handoff.id);
        return;
    default:
        put_row(durable, change);
        return;
    }
}

void durable_open(struct durable_model *durable)
{
    struct change first = {.kind = CHANGE_META, .meta = {.cluster = CLUSTER_UUID}};

    put_row(durable, &first);
}

void durable_commit(struct durable_model *durable, const struct update *update,
                    enum mutation mutation)
{
    for (size_t i = 0; i < update->changes.count; i++)
        commit_change(durable, &update->changes.items[i], mutation);
}

void durable_load(const struct durable_model *durable, struct cluster *cluster)
{
    static const enum change_kind order[] = {CHANGE_META,        CHANGE_JOB,       CHANGE_AGENT,
                                             CHANGE_PLACEMENT,   CHANGE_OPERATION, CHANGE_HANDOFF,
                                             CHANGE_OBSERVATION, CHANGE_ARRIVAL,   CHANGE_STANDBY,
                                             CHANGE_MAINTENANCE, CHANGE_SKIP,      CHANGE_WINDOW};

    for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
        for (size_t i = 0; i < durable->count; i++) {
            struct change copy;

            if (durable->rows[i].kind != order[k])
                continue;
            change_copy(&copy, &durable->rows[i]);
            cluster_apply(cluster, &copy);
        }
    }
}

void durable_close(struct durable_model *durable)
{
    while (durable->count > 0)
        remove_row(durable, durable->count - 1);
    free(durable->rows);
    *durable = (struct durable_model){0};
}

/* ---- reading */

const struct placement_row *durable_placement(const struct durable_model *durable, const char *job,
                                              uint32_t processor)
{
    for (size_t i = 0; i < durable->count; i++) {
        const struct change *row = &durable->rows[i];

        if (row->kind == CHANGE_PLACEMENT && row->placement.processor == processor &&
            strcmp(row->placement.job, job) == 0)
            return &row->placement;
    }
    return NULL;
}

const struct agent_row *durable_agent(const struct durable_model *durable, const char *agent_id)
{
    for (size_t i = 0; i < durable->count; i++) {
        const struct change *row = &durable->rows[i];

        if (row->kind == CHANGE_AGENT && strcmp(row->agent.agent_id, agent_id) == 0)
            return &row->agent;
    }
    return NULL;
}

const struct handoff_row *durable_handoff(const struct durable_model *durable, uint64_t id)
{
    for (size_t i = 0; i < durable->count; i++) {
        const struct change *row = &durable->rows[i];

        if (row->kind == CHANGE_HANDOFF && row->handoff.id == id)
            return &row->handoff;
    }
    return NULL;
}

bool durable_skips(const struct durable_model *durable, uint32_t partition, int64_t offset)
{
    for (size_t i = 0; i < durable->count; i++) {
        const struct change *row = &durable->rows[i];

        if (row->kind == CHANGE_SKIP && row->skip.partition == partition &&
            row->skip.offset == offset)
            return true;
    }
    return false;
}

const struct standby_row *durable_standby(const struct durable_model *durable, const char *job,
                                          uint32_t processor, const char *agent_id)
{
    for (size_t i = 0; i < durable->count; i++) {
        const struct change *row = &durable->rows[i];

        if (row->kind == CHANGE_STANDBY && row->standby.processor == processor &&
            strcmp(row->standby.job, job) == 0 && strcmp(row->standby.agent, agent_id) == 0)
            return &row->standby;
    }
    return NULL;
}
