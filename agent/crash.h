/*
 * Logic that crashes takes the agent's process with it, again and again if a record is the cause:
 * the agent starts anew, replays, meets the record. This remembers at which record the process
 * ended, so that a task that would only end it once more stops there (S31). Other agents are told
 * of it by way of the coordinator (agent/crash_list.h), and count it with their own.
 *
 * The record is a line in a file beside the task's state, `<processor>.crashes`, written by the
 * signal's handler while the thread is inside of process(). A kill -9, a crash of anything else,
 * and an exit() of the logic write none. Nothing is written while all is well: what a record costs
 * is the noting of its place in memory. The file goes when a commit has passed the record.
 *
 * Any thread may use it for tasks of its own; crash_install is called once, by main, before there
 * are threads.
 */
#ifndef BATON_AGENT_CRASH_H
#define BATON_AGENT_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* So many crashes at one record are enough, in a row on one agent, and of all agents together. */
#define CRASHES_MAX 3

struct crash_place { /* of a record */
    uint32_t topic, partition;
    int64_t offset;
};

struct crash_file; /* of one task */

/* SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are noted, then end the process as ever. */
void crash_install(void);

/* In a thread that runs logic, first: a logic that uses up its stack is noted, too. */
void crash_thread_begin(void);

/*
 * `directory`: of the task's state; its parent is made if it is not there. `incarnation` is the
 * job's; `build` tells one build of the logic from another (crash_build), whose crashes begin to
 * count anew. Both are copied.
 */
struct crash_file *crash_file_create(const char *directory, const char *incarnation,
                                     const char *build);
void crash_file_destroy(struct crash_file *file); /* NULL is fine */

/* How many crashes in a row this build of the logic has had at one record, the last ones; 0: none.
 */
uint32_t crash_file_count(const struct crash_file *file, struct crash_place *ret_place);

/* The record of the last crash of this job's logic, of any build. False: there is none. */
bool crash_file_noted(const struct crash_file *file, struct crash_place *ret_place);
/* The record has been passed: the file goes, durably. Only in the thread that is inside of the
 * logic at other times. */
enum err_code crash_file_forget(const struct crash_file *file, struct err *reterr) MUSTCHECK;

const char *crash_file_build(const struct crash_file *file); /* as its lines have it; borrowed */

/* The last crashes in a row of whatever logic is noted in the file at `path`, with its incarnation
 * and build, which the caller frees. False: there are none. */
bool crash_file_last(const char *path, char **ret_incarnation, char **ret_build,
                     struct crash_place *ret_place, uint32_t *ret_count);

/* What is at this path: a digest of the file, the same on every host; "builtin" for NULL, "" when
 * it can not be told. free() */
char *crash_build(const char *path);

/* The calling thread is about to be inside of the logic with this record, and is out of it again.
 * Not nested. */
void crash_enter(const struct crash_file *file, struct crash_place place);
void crash_leave(void);

#endif
