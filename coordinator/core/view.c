#include "coordinator/core/view.h"

#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"

void view_pause(const struct hold *hold, struct pause_view *ret_view)
{
    *ret_view = (struct pause_view){
        .paused = hold->on,
        .reason = rows_text_copy(hold->reason),
        .actor = rows_text_copy(hold->actor),
        .changed_at = hold->changed_at,
    };
}

void view_skip(const struct job_row *job, const struct skip_row *row, struct skip_view *ret_view)
{
    *ret_view = (struct skip_view){
        .topic = rows_text_copy(job->spec.inputs.items[row->topic]),
        .partition = row->partition,
        .offset = row->offset,
        .processor = row->processor,
        .reason = rows_text_copy(row->reason),
        .actor = rows_text_copy(row->actor),
        .skipped_at = row->skipped_at,
    };
}

void view_maintenance(const struct maintenance_row *row, struct maintenance_view *ret_view)
{
    *ret_view = (struct maintenance_view){
        .enabled = row->hold.on,
        .reason = rows_text_copy(row->hold.reason),
        .actor = rows_text_copy(row->hold.actor),
        .changed_at = row->hold.changed_at,
    };
}

void view_job(const struct job_row *row, struct job_view *ret_view)
{
    *ret_view = (struct job_view){
        .name = mem_strdup(row->name),
        .incarnation = mem_strdup(row->incarnation),
        .state = row->state,
        .generation = row->generation,
        .created_at = row->created_at,
        .operation = row->operation != 0 ? view_operation_name(row->operation) : NULL,
    };
    view_pause(&row->pause, &ret_view->pause);
    schema_copy(&schema_job_spec, &ret_view->spec, &row->spec);
    ret_view->warnings.items = mem_calloc(row->warnings.count, sizeof(char *));
    for (size_t i = 0; i < row->warnings.count; i++)
        ret_view->warnings.items[i] = mem_strdup(row->warnings.items[i]);
    ret_view->warnings.count = row->warnings.count;
}

void view_eligibility(const struct agent_row *row, struct eligibility_view *ret_view)
{
    const struct agent_eligibility *eligibility = &row->eligibility;
    *ret_view = (struct eligibility_view){
        .schedulable = !eligibility->cordoned,
        .reason = rows_text_copy(eligibility->reason),
        .actor = rows_text_copy(eligibility->actor),
        .changed_at = eligibility->changed_at,
    };
}

static void add_left(const struct processor *processor, struct drain_view *view)
{
    const struct handoff *handoff = processor->handoff;
    struct drain_left_view *left = &view->left.items[view->left.count++];
    *left = (struct drain_left_view){
        .job = mem_strdup(processor->placement.job),
        .processor = processor->placement.processor,
        .handoff = API_UNKNOWN,
        .waiting = rows_text_copy(processor->waits),
        .lag_records = API_UNKNOWN,
        .eta_ms = API_UNKNOWN,
    };
    if (handoff == NULL)
        return;
    left->handoff = (int64_t)handoff->row.id;
    left->target = mem_strdup(handoff->row.target);
    left->state = mem_strdup(schema_enum_name(schema_names_handoff_state, (int)handoff->row.state));
}

/* It has the processor, or has its state while nobody else has finished with it; or is about to get
 * it. */
static bool is_left(const struct processor *processor, const char *agent_id)
{
    const struct handoff *handoff = processor->handoff;
    return rows_text_equal(processor->placement.agent, agent_id) ||
           (handoff != NULL && (strcmp(handoff->row.source, agent_id) == 0 ||
                                strcmp(handoff->row.target, agent_id) == 0));
}

static void list_left(const struct cluster *cluster, const char *agent_id, struct drain_view *view)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->jobs.count; i++)
        for (size_t p = 0; p < cluster->jobs.items[i]->processors.count; p++)
            count += is_left(&cluster->jobs.items[i]->processors.items[p], agent_id);
    view->left.items = mem_calloc(count, sizeof(*view->left.items));
    for (size_t i = 0; i < cluster->jobs.count; i++)
        for (size_t p = 0; p < cluster->jobs.items[i]->processors.count; p++)
            if (is_left(&cluster->jobs.items[i]->processors.items[p], agent_id))
                add_left(&cluster->jobs.items[i]->processors.items[p], view);
}

void view_drain(const struct cluster *cluster, const struct agent *agent,
                struct drain_view *ret_view)
{
    const struct agent_drain *drain = &agent->row.drain;
    *ret_view = (struct drain_view){
        .agent = mem_strdup(agent->row.agent_id),
        .state = drain->state,
        .safe_to_stop = drain->asked && drain->state == DRAIN_STATE_DRAINED,
        .deadline_ms = drain->deadline_ms,
        .on_deadline = drain->on_deadline,
        .until_restart = drain->until_restart,
        .overdue = drain->overdue,
        .reason = rows_text_copy(drain->reason),
        .actor = rows_text_copy(drain->actor),
        .error = rows_text_copy(drain->error),
        .started_at = drain->started_at,
        .deadline_at = drain->deadline_at,
        .ended_at = drain->ended_at,
        .processors = drain->processors,
        .eta_ms = API_UNKNOWN,
    };
    if (drain->state == DRAIN_STATE_DRAINING)
        list_left(cluster, agent->row.agent_id, ret_view);
}

void view_handoff(const struct handoff_row *row, struct handoff_view *ret_view)
{
    *ret_view = (struct handoff_view){
        .id = row->id,
        .kind = row->kind,
        .job = mem_strdup(row->job),
        .processor = row->processor,
        .parent = row->parent,
        .state = row->state,
        .forced = row->forced,
        .source = mem_strdup(row->source),
        .target = mem_strdup(row->target),
        .source_epoch = row->source_epoch,
        .target_epoch = row->target_epoch,
        .operation = row->operation != 0 ? view_operation_name(row->operation) : NULL,
        .reason = mem_strdup(row->reason),
        .error = rows_text_copy(row->error),
        .lag_records = API_UNKNOWN,
        .learned_records = API_UNKNOWN,
        .target_records = API_UNKNOWN,
        .replay_records = API_UNKNOWN,
        .eta_ms = API_UNKNOWN,
        .started_at = row->started_at,
        .changed_at = row->changed_at,
        .learning_ms = row->spent_ms[HANDOFF_STATE_LEARNING],
        .caught_up_ms = row->spent_ms[HANDOFF_STATE_CAUGHT_UP],
        .releasing_ms = row->spent_ms[HANDOFF_STATE_RELEASING],
        .released_ms = row->spent_ms[HANDOFF_STATE_RELEASED],
        .activating_ms = row->spent_ms[HANDOFF_STATE_ACTIVATING],
        .output_gap_ms = row->output_gap_ms,
    };
    ret_view->partitions.items =
        mem_memdup(row->partitions.items, row->partitions.count * sizeof(uint32_t));
    ret_view->partitions.count = row->partitions.count;
}
