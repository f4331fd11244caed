/*
 * The crashes that are noted on this agent's disk, for its reports: what other agents are to know
 * before they come to the same record (D3.8). A file gets a line only when the process ends, so
 * what is there at the start stays so.
 */
#ifndef BATON_AGENT_CRASH_LIST_H
#define BATON_AGENT_CRASH_LIST_H

#include <stddef.h>

#include "api/types.h"

/* Of all <state_dir>/<job>/<processor>.crashes the last ones in a row, at most API_TASKS_MAX; free
 * each with schema_crash_note, and the list. NULL: none. */
struct crash_note *crash_list(const char *state_dir, size_t *ret_count);

#endif
