/*
 * Stands in for agent/task_thread.c in tests of the control side: tasks without threads that do
 * what the test says. Asserts what every caller owes the real one: one task at most that has not
 * ended of a job and processor, no stop twice, join only after the end.
 */
#ifndef BATON_TESTS_FAKE_TASKS_H
#define BATON_TESTS_FAKE_TASKS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/task_table.h"

#define FAKE_TASKS_MAX 64

struct task_thread {
    char job[64], incarnation[64];
    uint32_t processor;
    uint64_t epoch;
    bool stopped, ended, released;
    enum task_state state;
    int desires, follows;
};

extern const struct task_ops fake_task_ops;

/* In the order in which they were started. Where the table belongs to another thread, only through
 * the functions below. */
extern struct task_thread fake_tasks[FAKE_TASKS_MAX];
extern size_t fake_task_count, fake_tasks_joined;
extern bool fake_tasks_refuse;  /* starts fail */
extern bool fake_tasks_willing; /* a stopped task is closed at once */

void fake_tasks_reset(void);
struct task_thread fake_task_read(size_t index); /* zero when it was not started */
/* It changes its state, ends or not, and says so through its context. */
void fake_task_become(size_t index, enum task_state state, bool ended);

#endif
