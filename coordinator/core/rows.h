/*
 * The durable rows as values: copy, compare, free. Internal to coordinator/core; pure.
 *
 * `ret_copy` is memory that owns nothing yet. Finishing a zeroed row is fine.
 */
#ifndef BATON_COORDINATOR_CORE_ROWS_H
#define BATON_COORDINATOR_CORE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/core/update.h"

void rows_copy_job(struct job_row *ret_copy, const struct job_row *row);
void rows_copy_placement(struct placement_row *ret_copy, const struct placement_row *row);
void rows_copy_agent(struct agent_row *ret_copy, const struct agent_row *row);
void rows_copy_operation(struct operation_row *ret_copy, const struct operation_row *row);
void rows_copy_handoff(struct handoff_row *ret_copy, const struct handoff_row *row);
void rows_copy_arrival(struct arrival_row *ret_copy, const struct arrival_row *row);
void rows_copy_skip(struct skip_row *ret_copy, const struct skip_row *row);
bool rows_operation_equal(const struct operation_row *a, const struct operation_row *b);

/* Those of windows are in cluster_window.c. */
void rows_copy_window(struct window_row *ret_copy, const struct window_row *row);
void rows_finish_window(struct window_row *row);
bool rows_window_equal(const struct window_row *a, const struct window_row *b);

void rows_copy_standby(struct standby_row *ret_copy, const struct standby_row *row);
void rows_copy_hold(struct hold *ret_copy, const struct hold *hold);

void rows_finish_hold(struct hold *hold);
void rows_finish_job(struct job_row *row);
void rows_finish_placement(struct placement_row *row);
void rows_finish_agent(struct agent_row *row);
void rows_finish_operation(struct operation_row *row);
void rows_finish_handoff(struct handoff_row *row);
void rows_finish_arrival(struct arrival_row *row);
void rows_finish_skip(struct skip_row *row);
void rows_finish_standby(struct standby_row *row);

/* T0, T1 and T2 of both are the same, for the same partitions in the same order. */
bool rows_offsets_equal(const struct input_offset *a, size_t a_count, const struct input_offset *b,
                        size_t b_count);
bool rows_progress_equal(const struct partition_progress *a, size_t a_count,
                         const struct partition_progress *b, size_t b_count);

/* NULL is a value of its own: equal to itself, and copied as NULL. */
char *rows_text_copy(const char *text);
bool rows_text_equal(const char *a, const char *b);
/* Frees *text, then puts a copy of `value` there, which may be *text itself. */
void rows_text_set(char **text, const char *value);

#endif
