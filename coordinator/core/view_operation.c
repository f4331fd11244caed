/* Operations as people and tools see them, by their rows alone. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "api/text.h"
#include "common/mem.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/view.h"

#define OPERATION_PREFIX "op-"

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
    case OPERATION_KIND_EXPAND_PROCESSORS:
        return "expand_processors";
    case OPERATION_KIND_EXPAND_PARTITIONS:
        return "expand_partitions";
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
    case OPERATION_STEP_RECORD_ENDS:
        return "noting where the partitions end";
    case OPERATION_STEP_CREATE_PARTITIONS:
        return "adding partitions to the input topics";
    case OPERATION_STEP_SPLIT:
        return "splitting processors, one after the other, see /v1/handoffs";
    case OPERATION_STEP_END:
        return "done";
    }
    assert(!"a step");
    return NULL;
}

/* Steps of expand_partitions, in their order; 0: of another kind. */
static int64_t number_of(enum operation_step step)
{
    switch (step) {
    case OPERATION_STEP_SAMPLE:
        return 1;
    case OPERATION_STEP_RECORD_ENDS:
        return 2;
    case OPERATION_STEP_CREATE_PARTITIONS:
        return 3;
    case OPERATION_STEP_COMMIT_STARTS:
    case OPERATION_STEP_END:
        return 4;
    default:
        return 0;
    }
}

static void count_steps(const struct operation_row *row, struct operation_view *view)
{
    view->step_number = view->steps = API_UNKNOWN;
    if (row->kind == OPERATION_KIND_EXPAND_PARTITIONS) {
        view->step_number = number_of(row->step);
        view->steps = number_of(OPERATION_STEP_END);
    } else if (row->kind == OPERATION_KIND_EXPAND_PROCESSORS && row->count_before != API_UNKNOWN &&
               row->count_reached != API_UNKNOWN && row->goal != API_UNKNOWN) {
        view->steps = row->goal - row->count_before;
        view->step_number = row->count_reached - row->count_before + 1;
        if (view->step_number > view->steps)
            view->step_number = view->steps;
    }
}

/* What to do about one that has come to nothing; of one that runs coordinator/publish.h tells. */
static char *advise(const struct operation_row *row)
{
    if (row->state != OPERATION_STATE_FAILED)
        return NULL;
    if (row->kind == OPERATION_KIND_EXPAND_PROCESSORS)
        return mem_printf("What was split stays, and the job works on. See to what the error says, "
                          "then ask for %" PRId64 " processors again.",
                          row->goal);
    if (row->kind == OPERATION_KIND_EXPAND_PARTITIONS)
        return mem_printf("The job works on with the partitions that it knows. See to what the "
                          "error says, then ask for %" PRId64 " partitions again; those that the "
                          "topics have already are tried again every 10 minutes.",
                          row->goal);
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
        .from = row->count_before,
        .to = row->goal,
        .reached = row->count_reached,
        .handoff = API_UNKNOWN,
        .eta_ms = API_UNKNOWN,
        .action = advise(row),
        .actor = rows_text_copy(row->actor),
        .reason = rows_text_copy(row->reason),
        .error = rows_text_copy(row->error),
        .created_at = row->created_at,
        .updated_at = row->updated_at,
    };
    count_steps(row, ret_view);
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
