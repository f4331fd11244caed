/*
 * Drops the states on this agent's disk that nobody uses any more: of jobs and processors that it
 * does not have, and those that were set aside, when they were last used `age_ms` ago. Looks again
 * and again, each time in a thread of its own: files may be large, and the disk slow.
 *
 * Owned by the control thread.
 */
#ifndef BATON_AGENT_EXPIRY_H
#define BATON_AGENT_EXPIRY_H

#include <stdint.h>

struct expiry;
struct task_table;

/* `state_dir` is borrowed; `age_ms` above 0. */
struct expiry *expiry_create(const char *state_dir, int64_t age_ms);
void expiry_destroy(struct expiry *expiry); /* waits for a look under way; NULL is fine */

/*
 * Begins a look when one is due. Call while the coordinator's document is known, in which the table
 * has what the agent shall have: the first look comes some time after that, so that what this agent
 * left when it was stopped can be given back to it before.
 */
void expiry_step(struct expiry *expiry, const struct task_table *table, int64_t now_ms);

#endif
