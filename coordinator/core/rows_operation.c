/* Rows of operations. */
#include <stdlib.h>

#include "common/mem.h"
#include "coordinator/core/rows.h"

void rows_copy_operation(struct operation_row *ret_copy, const struct operation_row *row)
{
    *ret_copy = *row;
    ret_copy->job = rows_text_copy(row->job);
    ret_copy->job_incarnation = rows_text_copy(row->job_incarnation);
    ret_copy->target = rows_text_copy(row->target);
    ret_copy->actor = rows_text_copy(row->actor);
    ret_copy->reason = rows_text_copy(row->reason);
    ret_copy->error = rows_text_copy(row->error);
    if (row->ends.count > 0)
        ret_copy->ends.items =
            mem_memdup(row->ends.items, row->ends.count * sizeof(*row->ends.items));
}

void rows_finish_operation(struct operation_row *row)
{
    free(row->ends.items);
    free(row->job);
    free(row->job_incarnation);
    free(row->target);
    free(row->actor);
    free(row->reason);
    free(row->error);
    *row = (struct operation_row){0};
}

bool rows_operation_equal(const struct operation_row *a, const struct operation_row *b)
{
    return a->id == b->id && a->kind == b->kind && rows_text_equal(a->job, b->job) &&
           rows_text_equal(a->job_incarnation, b->job_incarnation) && a->state == b->state &&
           a->step == b->step && a->processor == b->processor &&
           rows_text_equal(a->target, b->target) && rows_text_equal(a->reason, b->reason) &&
           rows_text_equal(a->error, b->error) && a->created_at == b->created_at &&
           a->updated_at == b->updated_at && a->goal == b->goal &&
           a->count_before == b->count_before && a->count_reached == b->count_reached &&
           rows_text_equal(a->actor, b->actor) &&
           rows_offsets_equal(a->ends.items, a->ends.count, b->ends.items, b->ends.count);
}
