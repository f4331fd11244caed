#include "coordinator/core/view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/text.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"

#define OPERATION_PREFIX "op-"

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
    schema_copy(&schema_job_spec, &ret_view->spec, &row->spec);
    ret_view->warnings.items = mem_calloc(row->warnings.count, sizeof(char *));
    for (size_t i = 0; i < row->warnings.count; i++)
        ret_view->warnings.items[i] = mem_strdup(row->warnings.items[i]);
    ret_view->warnings.count = row->warnings.count;
}

const char *view_operation_kind(enum operation_kind kind)
{
    switch (kind) {
    case OPERATION_KIND_CREATE_JOB:
        return "create_job";
    case OPERATION_KIND_DELETE_JOB:
        return "delete_job";
    case OPERATION_KIND_MOVE:
        return "move";
    case OPERATION_KIND_REBALANCE:
        return "rebalance";
    }
    assert(!"a kind of operation");
    return NULL;
}

bool view_operation_finished(enum operation_state state)
{
    return state == OPERATION_STATE_SUCCEEDED || state == OPERATION_STATE_FAILED ||
           state == OPERATION_STATE_CANCELLED;
}

static const char *step_text(enum operation_step step)
{
    switch (step) {
    case OPERATION_STEP_COMMIT_STARTS:
        return "committing the start offsets to the group";
    case OPERATION_STEP_SAMPLE:
        return "reading samples to find the partitioner";
    case OPERATION_STEP_CLOSE_TASKS:
        return "waiting until the agents have closed the job's tasks";
    case OPERATION_STEP_FENCE:
        return "shutting out producers of the job";
    case OPERATION_STEP_QUEUE:
        return "waiting until the processor's present hand-over has ended";
    case OPERATION_STEP_HAND_OVER:
        return "waiting for the hand-over, see /v1/handoffs";
    case OPERATION_STEP_EVEN_OUT:
        return "waiting until the job's processors are spread evenly, see /v1/handoffs";
    case OPERATION_STEP_END:
        return "done";
    }
    assert(!"a step");
    return NULL;
}

void view_operation(const struct operation_row *row, struct operation_view *ret_view)
{
    *ret_view = (struct operation_view){
        .id = view_operation_name(row->id),
        .kind = mem_strdup(view_operation_kind(row->kind)),
        .job = mem_strdup(row->job),
        .state = row->state,
        .step = mem_strdup(row->state == OPERATION_STATE_CANCELLED ? "cancelled"
                                                                   : step_text(row->step)),
        .reason = rows_text_copy(row->reason),
        .error = rows_text_copy(row->error),
        .created_at = row->created_at,
        .updated_at = row->updated_at,
    };
}

void view_handoff(const struct handoff_row *row, struct handoff_view *ret_view)
{
    *ret_view = (struct handoff_view){
        .id = row->id,
        .kind = row->kind,
        .job = mem_strdup(row->job),
        .processor = row->processor,
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

char *view_operation_name(uint64_t id)
{
    return mem_printf(OPERATION_PREFIX "%llu", (unsigned long long)id);
}

bool view_operation_parse(const char *text, uint64_t *ret_id)
{
    size_t prefix = strlen(OPERATION_PREFIX);
    if (strncmp(text, OPERATION_PREFIX, prefix) != 0)
        return false;
    uint64_t id;
    if (!text_uint_parse(text + prefix, INT64_MAX, &id) || id == 0)
        return false;
    *ret_id = id;
    return true;
}
