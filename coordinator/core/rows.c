#include "coordinator/core/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

/* ---- texts and lists */

char *rows_text_copy(const char *text)
{
    return text != NULL ? mem_strdup(text) : NULL;
}

bool rows_text_equal(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

void rows_text_set(char **text, const char *value)
{
    char *copy = rows_text_copy(value);
    free(*text);
    *text = copy;
}

static void *items_copy(const void *items, size_t count, size_t bytes)
{
    return count > 0 ? mem_memdup(items, count * bytes) : NULL;
}

bool rows_offsets_equal(const struct input_offset *a, size_t a_count, const struct input_offset *b,
                        size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++)
        if (a[i].topic != b[i].topic || a[i].partition != b[i].partition ||
            a[i].offset != b[i].offset)
            return false;
    return true;
}

bool rows_progress_equal(const struct partition_progress *a, size_t a_count,
                         const struct partition_progress *b, size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++)
        if (a[i].topic != b[i].topic || a[i].partition != b[i].partition || a[i].t0 != b[i].t0 ||
            a[i].t1 != b[i].t1 || a[i].t2 != b[i].t2)
            return false;
    return true;
}

/* ---- holds */

void rows_copy_hold(struct hold *ret_copy, const struct hold *hold)
{
    *ret_copy = *hold;
    ret_copy->reason = rows_text_copy(hold->reason);
    ret_copy->actor = rows_text_copy(hold->actor);
}

void rows_finish_hold(struct hold *hold)
{
    free(hold->reason);
    free(hold->actor);
    *hold = (struct hold){0};
}

static bool hold_equal(const struct hold *a, const struct hold *b)
{
    return a->on == b->on && rows_text_equal(a->reason, b->reason) &&
           rows_text_equal(a->actor, b->actor) && a->changed_at == b->changed_at;
}

/* ---- jobs */

void rows_copy_job(struct job_row *ret_copy, const struct job_row *row)
{
    *ret_copy = *row;
    ret_copy->name = rows_text_copy(row->name);
    ret_copy->incarnation = rows_text_copy(row->incarnation);
    ret_copy->partitioner_reason = rows_text_copy(row->partitioner_reason);
    rows_copy_hold(&ret_copy->pause, &row->pause);
    schema_copy(&schema_job_spec, &ret_copy->spec, &row->spec);
    ret_copy->warnings.items = mem_calloc(row->warnings.count, sizeof(char *));
    for (size_t i = 0; i < row->warnings.count; i++)
        ret_copy->warnings.items[i] = mem_strdup(row->warnings.items[i]);
    ret_copy->origins.items =
        items_copy(row->origins.items, row->origins.count, sizeof(*row->origins.items));
    ret_copy->starts.items =
        items_copy(row->starts.items, row->starts.count, sizeof(*row->starts.items));
}

void rows_finish_job(struct job_row *row)
{
    free(row->name);
    free(row->incarnation);
    free(row->partitioner_reason);
    rows_finish_hold(&row->pause);
    schema_free(&schema_job_spec, &row->spec);
    for (size_t i = 0; i < row->warnings.count; i++)
        free(row->warnings.items[i]);
    free(row->warnings.items);
    free(row->origins.items);
    free(row->starts.items);
    *row = (struct job_row){0};
}

static bool warnings_equal(const struct job_row *a, const struct job_row *b)
{
    if (a->warnings.count != b->warnings.count)
        return false;
    for (size_t i = 0; i < a->warnings.count; i++)
        if (strcmp(a->warnings.items[i], b->warnings.items[i]) != 0)
            return false;
    return true;
}

static bool job_equal(const struct job_row *a, const struct job_row *b)
{
    return rows_text_equal(a->name, b->name) && rows_text_equal(a->incarnation, b->incarnation) &&
           a->state == b->state && a->generation == b->generation &&
           a->created_at == b->created_at && schema_equal(&schema_job_spec, &a->spec, &b->spec) &&
           a->partitions_initial == b->partitions_initial && a->partitions == b->partitions &&
           a->processors_initial == b->processors_initial && a->processors == b->processors &&
           a->map_version == b->map_version && a->partitioner == b->partitioner &&
           rows_text_equal(a->partitioner_reason, b->partitioner_reason) &&
           a->operation == b->operation && hold_equal(&a->pause, &b->pause) &&
           a->group.hold == b->group.hold && a->group.since_at == b->group.since_at &&
           warnings_equal(a, b) &&
           rows_offsets_equal(a->origins.items, a->origins.count, b->origins.items,
                              b->origins.count) &&
           rows_offsets_equal(a->starts.items, a->starts.count, b->starts.items, b->starts.count);
}

/* ---- placements */

void rows_copy_placement(struct placement_row *ret_copy, const struct placement_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->agent = rows_text_copy(row->agent);
    ret_copy->agent_incarnation = rows_text_copy(row->agent_incarnation);
    ret_copy->trouble = rows_text_copy(row->trouble);
    ret_copy->reason = rows_text_copy(row->reason);
    ret_copy->paused_t1.items =
        items_copy(row->paused_t1.items, row->paused_t1.count, sizeof(*row->paused_t1.items));
    ret_copy->chosen.items =
        items_copy(row->chosen.items, row->chosen.count, sizeof(*row->chosen.items));
    ret_copy->bounds.items =
        items_copy(row->bounds.items, row->bounds.count, sizeof(*row->bounds.items));
}

void rows_finish_placement(struct placement_row *row)
{
    free(row->job);
    free(row->agent);
    free(row->agent_incarnation);
    free(row->trouble);
    free(row->reason);
    free(row->paused_t1.items);
    free(row->chosen.items);
    free(row->bounds.items);
    *row = (struct placement_row){0};
}

static bool choices_equal(const struct placement_row *a, const struct placement_row *b)
{
    if (a->chosen.count != b->chosen.count)
        return false;
    for (size_t i = 0; i < a->chosen.count; i++) {
        const struct chosen_offset *left = &a->chosen.items[i], *right = &b->chosen.items[i];
        if (left->topic != right->topic || left->partition != right->partition ||
            left->found != right->found || left->offset != right->offset)
            return false;
    }
    return true;
}

static bool bounds_equal(const struct placement_row *a, const struct placement_row *b)
{
    if (a->bounds.count != b->bounds.count)
        return false;
    for (size_t i = 0; i < a->bounds.count; i++) {
        const struct ancestor_bound *left = &a->bounds.items[i], *right = &b->bounds.items[i];
        if (left->topic != right->topic || left->partition != right->partition ||
            left->offset != right->offset || left->records != right->records)
            return false;
    }
    return true;
}

static bool placement_equal(const struct placement_row *a, const struct placement_row *b)
{
    return rows_text_equal(a->job, b->job) && a->processor == b->processor &&
           rows_text_equal(a->agent, b->agent) &&
           rows_text_equal(a->agent_incarnation, b->agent_incarnation) && a->epoch == b->epoch &&
           a->activated == b->activated && a->settled == b->settled && a->handoff == b->handoff &&
           rows_text_equal(a->trouble, b->trouble) && rows_text_equal(a->reason, b->reason) &&
           a->changed_at == b->changed_at &&
           rows_offsets_equal(a->paused_t1.items, a->paused_t1.count, b->paused_t1.items,
                              b->paused_t1.count) &&
           choices_equal(a, b) && bounds_equal(a, b);
}

/* ---- agents */

void rows_copy_agent(struct agent_row *ret_copy, const struct agent_row *row)
{
    *ret_copy = *row;
    ret_copy->agent_id = rows_text_copy(row->agent_id);
    ret_copy->incarnation = rows_text_copy(row->incarnation);
    ret_copy->version = rows_text_copy(row->version);
    ret_copy->address = rows_text_copy(row->address);
    ret_copy->tags.items = mem_calloc(row->tags.count, sizeof(struct tag));
    for (size_t i = 0; i < row->tags.count; i++)
        schema_copy(&schema_tag, &ret_copy->tags.items[i], &row->tags.items[i]);
    ret_copy->eligibility.reason = rows_text_copy(row->eligibility.reason);
    ret_copy->eligibility.actor = rows_text_copy(row->eligibility.actor);
    ret_copy->drain.reason = rows_text_copy(row->drain.reason);
    ret_copy->drain.actor = rows_text_copy(row->drain.actor);
    ret_copy->drain.error = rows_text_copy(row->drain.error);
}

void rows_finish_agent(struct agent_row *row)
{
    free(row->agent_id);
    free(row->incarnation);
    free(row->version);
    free(row->address);
    for (size_t i = 0; i < row->tags.count; i++)
        schema_free(&schema_tag, &row->tags.items[i]);
    free(row->tags.items);
    free(row->eligibility.reason);
    free(row->eligibility.actor);
    free(row->drain.reason);
    free(row->drain.actor);
    free(row->drain.error);
    *row = (struct agent_row){0};
}

static bool eligibility_equal(const struct agent_eligibility *a, const struct agent_eligibility *b)
{
    return a->cordoned == b->cordoned && rows_text_equal(a->reason, b->reason) &&
           rows_text_equal(a->actor, b->actor) && a->changed_at == b->changed_at;
}

static bool drain_equal(const struct agent_drain *a, const struct agent_drain *b)
{
    return a->asked == b->asked && a->state == b->state && a->on_deadline == b->on_deadline &&
           a->until_restart == b->until_restart && a->overdue == b->overdue &&
           a->processors == b->processors && rows_text_equal(a->reason, b->reason) &&
           rows_text_equal(a->actor, b->actor) && rows_text_equal(a->error, b->error) &&
           a->deadline_ms == b->deadline_ms && a->started_at == b->started_at &&
           a->deadline_at == b->deadline_at && a->ended_at == b->ended_at;
}

static bool agent_equal(const struct agent_row *a, const struct agent_row *b)
{
    if (a->tags.count != b->tags.count)
        return false;
    for (size_t i = 0; i < a->tags.count; i++)
        if (!schema_equal(&schema_tag, &a->tags.items[i], &b->tags.items[i]))
            return false;
    return rows_text_equal(a->agent_id, b->agent_id) &&
           rows_text_equal(a->incarnation, b->incarnation) && a->state == b->state &&
           rows_text_equal(a->version, b->version) && rows_text_equal(a->address, b->address) &&
           a->protocol == b->protocol && a->capacity == b->capacity &&
           a->max_learners == b->max_learners && a->registered_at == b->registered_at &&
           eligibility_equal(&a->eligibility, &b->eligibility) && drain_equal(&a->drain, &b->drain);
}

/* ---- hand-overs */

void rows_copy_handoff(struct handoff_row *ret_copy, const struct handoff_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->job_incarnation = rows_text_copy(row->job_incarnation);
    ret_copy->partitions.items =
        items_copy(row->partitions.items, row->partitions.count, sizeof(uint32_t));
    ret_copy->source = rows_text_copy(row->source);
    ret_copy->source_incarnation = rows_text_copy(row->source_incarnation);
    ret_copy->target = rows_text_copy(row->target);
    ret_copy->target_incarnation = rows_text_copy(row->target_incarnation);
    ret_copy->reason = rows_text_copy(row->reason);
    ret_copy->error = rows_text_copy(row->error);
}

void rows_finish_handoff(struct handoff_row *row)
{
    free(row->job);
    free(row->job_incarnation);
    free(row->partitions.items);
    free(row->source);
    free(row->source_incarnation);
    free(row->target);
    free(row->target_incarnation);
    free(row->reason);
    free(row->error);
    *row = (struct handoff_row){0};
}

static bool handoff_ends_equal(const struct handoff_row *a, const struct handoff_row *b)
{
    return rows_text_equal(a->source, b->source) &&
           rows_text_equal(a->source_incarnation, b->source_incarnation) &&
           a->source_epoch == b->source_epoch && rows_text_equal(a->target, b->target) &&
           rows_text_equal(a->target_incarnation, b->target_incarnation) &&
           a->target_epoch == b->target_epoch;
}

static bool handoff_times_equal(const struct handoff_row *a, const struct handoff_row *b)
{
    return a->started_at == b->started_at && a->changed_at == b->changed_at &&
           a->stopped_at == b->stopped_at && a->output_gap_ms == b->output_gap_ms &&
           memcmp(a->spent_ms, b->spent_ms, sizeof(a->spent_ms)) == 0;
}

static bool handoff_equal(const struct handoff_row *a, const struct handoff_row *b)
{
    return a->id == b->id && a->kind == b->kind && rows_text_equal(a->job, b->job) &&
           rows_text_equal(a->job_incarnation, b->job_incarnation) &&
           a->processor == b->processor && a->parent == b->parent &&
           a->partitions.count == b->partitions.count &&
           (a->partitions.count == 0 || memcmp(a->partitions.items, b->partitions.items,
                                               a->partitions.count * sizeof(uint32_t)) == 0) &&
           a->state == b->state && a->forced == b->forced && a->planned == b->planned &&
           a->operation == b->operation && rows_text_equal(a->reason, b->reason) &&
           rows_text_equal(a->error, b->error) && handoff_ends_equal(a, b) &&
           handoff_times_equal(a, b);
}

void rows_copy_arrival(struct arrival_row *ret_copy, const struct arrival_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->agent = rows_text_copy(row->agent);
    ret_copy->incarnation = rows_text_copy(row->incarnation);
    ret_copy->refused = rows_text_copy(row->refused);
    ret_copy->refused_detail = rows_text_copy(row->refused_detail);
}

void rows_finish_arrival(struct arrival_row *row)
{
    free(row->job);
    free(row->agent);
    free(row->incarnation);
    free(row->refused);
    free(row->refused_detail);
    *row = (struct arrival_row){0};
}

static bool arrival_equal(const struct arrival_row *a, const struct arrival_row *b)
{
    return rows_text_equal(a->job, b->job) && rows_text_equal(a->agent, b->agent) &&
           rows_text_equal(a->incarnation, b->incarnation) && a->open == b->open &&
           rows_text_equal(a->refused, b->refused) &&
           rows_text_equal(a->refused_detail, b->refused_detail) &&
           a->refused_processor == b->refused_processor && a->refused_at == b->refused_at;
}

void rows_copy_standby(struct standby_row *ret_copy, const struct standby_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->agent = rows_text_copy(row->agent);
    ret_copy->agent_incarnation = rows_text_copy(row->agent_incarnation);
    ret_copy->reason = rows_text_copy(row->reason);
}

void rows_finish_standby(struct standby_row *row)
{
    free(row->job);
    free(row->agent);
    free(row->agent_incarnation);
    free(row->reason);
    *row = (struct standby_row){0};
}

static bool standby_equal(const struct standby_row *a, const struct standby_row *b)
{
    return rows_text_equal(a->job, b->job) && a->processor == b->processor &&
           rows_text_equal(a->agent, b->agent) &&
           rows_text_equal(a->agent_incarnation, b->agent_incarnation) &&
           rows_text_equal(a->reason, b->reason) && a->started_at == b->started_at;
}

/* ---- skips */

void rows_copy_skip(struct skip_row *ret_copy, const struct skip_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->reason = rows_text_copy(row->reason);
    ret_copy->actor = rows_text_copy(row->actor);
}

void rows_finish_skip(struct skip_row *row)
{
    free(row->job);
    free(row->reason);
    free(row->actor);
    *row = (struct skip_row){0};
}

static bool skip_equal(const struct skip_row *a, const struct skip_row *b)
{
    return rows_text_equal(a->job, b->job) && a->topic == b->topic &&
           a->partition == b->partition && a->offset == b->offset && a->processor == b->processor &&
           rows_text_equal(a->reason, b->reason) && rows_text_equal(a->actor, b->actor) &&
           a->skipped_at == b->skipped_at;
}

/* ---- observations */

static void copy_observation(struct observation_row *ret_copy, const struct observation_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->progress.items =
        items_copy(row->progress.items, row->progress.count, sizeof(*row->progress.items));
}

static bool observation_equal(const struct observation_row *a, const struct observation_row *b)
{
    return rows_text_equal(a->job, b->job) && a->processor == b->processor && a->at == b->at &&
           rows_progress_equal(a->progress.items, a->progress.count, b->progress.items,
                               b->progress.count);
}

/* ---- changes */

static bool meta_equal(const struct meta_row *a, const struct meta_row *b)
{
    return strcmp(a->cluster, b->cluster) == 0 && a->start_number == b->start_number &&
           a->decision == b->decision && a->epoch == b->epoch && a->event_id == b->event_id &&
           a->operation_id == b->operation_id && a->handoff_id == b->handoff_id;
}

void change_copy(struct change *ret_copy, const struct change *change)
{
    *ret_copy = *change;
    switch (change->kind) {
    case CHANGE_META:
        return;
    case CHANGE_JOB:
    case CHANGE_JOB_REMOVED:
        rows_copy_job(&ret_copy->job, &change->job);
        return;
    case CHANGE_PLACEMENT:
        rows_copy_placement(&ret_copy->placement, &change->placement);
        return;
    case CHANGE_AGENT:
    case CHANGE_AGENT_REMOVED:
        rows_copy_agent(&ret_copy->agent, &change->agent);
        return;
    case CHANGE_OPERATION:
        rows_copy_operation(&ret_copy->operation, &change->operation);
        return;
    case CHANGE_HANDOFF:
        rows_copy_handoff(&ret_copy->handoff, &change->handoff);
        return;
    case CHANGE_ARRIVAL:
        rows_copy_arrival(&ret_copy->arrival, &change->arrival);
        return;
    case CHANGE_STANDBY:
    case CHANGE_STANDBY_REMOVED:
        rows_copy_standby(&ret_copy->standby, &change->standby);
        return;
    case CHANGE_MAINTENANCE:
        rows_copy_hold(&ret_copy->maintenance.hold, &change->maintenance.hold);
        return;
    case CHANGE_SKIP:
        rows_copy_skip(&ret_copy->skip, &change->skip);
        return;
    case CHANGE_WINDOW:
        rows_copy_window(&ret_copy->window, &change->window);
        return;
    case CHANGE_EVENT:
        schema_copy(&schema_event_view, &ret_copy->event, &change->event);
        return;
    case CHANGE_OBSERVATION:
        copy_observation(&ret_copy->observation, &change->observation);
        return;
    }
    assert(!"a kind of change");
}

bool change_equal(const struct change *a, const struct change *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case CHANGE_META:
        return meta_equal(&a->meta, &b->meta);
    case CHANGE_JOB:
    case CHANGE_JOB_REMOVED:
        return job_equal(&a->job, &b->job);
    case CHANGE_PLACEMENT:
        return placement_equal(&a->placement, &b->placement);
    case CHANGE_AGENT:
    case CHANGE_AGENT_REMOVED:
        return agent_equal(&a->agent, &b->agent);
    case CHANGE_OPERATION:
        return rows_operation_equal(&a->operation, &b->operation);
    case CHANGE_HANDOFF:
        return handoff_equal(&a->handoff, &b->handoff);
    case CHANGE_ARRIVAL:
        return arrival_equal(&a->arrival, &b->arrival);
    case CHANGE_STANDBY:
    case CHANGE_STANDBY_REMOVED:
        return standby_equal(&a->standby, &b->standby);
    case CHANGE_MAINTENANCE:
        return hold_equal(&a->maintenance.hold, &b->maintenance.hold);
    case CHANGE_SKIP:
        return skip_equal(&a->skip, &b->skip);
    case CHANGE_WINDOW:
        return rows_window_equal(&a->window, &b->window);
    case CHANGE_EVENT:
        return schema_equal(&schema_event_view, &a->event, &b->event);
    case CHANGE_OBSERVATION:
        return observation_equal(&a->observation, &b->observation);
    }
    assert(!"a kind of change");
    return false;
}

void change_finish(struct change *change)
{
    switch (change->kind) {
    case CHANGE_META:
        break;
    case CHANGE_JOB:
    case CHANGE_JOB_REMOVED:
        rows_finish_job(&change->job);
        break;
    case CHANGE_PLACEMENT:
        rows_finish_placement(&change->placement);
        break;
    case CHANGE_AGENT:
    case CHANGE_AGENT_REMOVED:
        rows_finish_agent(&change->agent);
        break;
    case CHANGE_OPERATION:
        rows_finish_operation(&change->operation);
        break;
    case CHANGE_HANDOFF:
        rows_finish_handoff(&change->handoff);
        break;
    case CHANGE_ARRIVAL:
        rows_finish_arrival(&change->arrival);
        break;
    case CHANGE_STANDBY:
    case CHANGE_STANDBY_REMOVED:
        rows_finish_standby(&change->standby);
        break;
    case CHANGE_MAINTENANCE:
        rows_finish_hold(&change->maintenance.hold);
        break;
    case CHANGE_SKIP:
        rows_finish_skip(&change->skip);
        break;
    case CHANGE_WINDOW:
        rows_finish_window(&change->window);
        break;
    case CHANGE_EVENT:
        schema_free(&schema_event_view, &change->event);
        break;
    case CHANGE_OBSERVATION:
        free(change->observation.job);
        free(change->observation.progress.items);
        break;
    }
    *change = (struct change){0};
}
