/*
 * The crashes that are noted on this agent's disk, for its reports: what other agents are to know
 * before they come to the same record (D3.8). A file gets a line only when the process ends, and
 * goes when its task has passed the record: what is there at the start is listed again then.
 */
#ifndef BATON_AGENT_CRASH_LIST_H
#define BATON_AGENT_CRASH_LIST_H

#include <stddef.h>

#include "api/types.h"

/* Of all <state_dir>/<job>/<processor>.crashes the last ones in a row, at most API_TASKS_MAX, by
 * job and record; free each with schema_crash_note, and the list. NULL: none. */
struct crash_note *crash_list(const char *state_dir, size_t *ret_count);

/* The same, in place of what the registration has. */
void crash_list_renew(const char *state_dir, struct agent_registration *registration);
void crash_list_log(const struct agent_registration *registration);
void crash_list_copy(const struct agent_registration *registration, struct agent_report *report);

#endif
