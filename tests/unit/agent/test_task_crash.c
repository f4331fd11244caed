/* At which records a task stops because of crashes, and when they are forgotten (S31). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/task_private.h"
#include "common/mem.h"

#define INCARNATION "44444444-4444-4444-8444-444444444444"
#define BUILD       "builtin"
#define OFFSET      17

static char root[] = "/tmp/baton-task-crash-XXXXXX";
static char *path;
static char incarnation[] = INCARNATION, build[] = BUILD, other[] = "a2";
static int passed;
static struct agent_options options = {.agent_id = "a1"};
static struct task_partition partition;
static struct crash_note note;
static struct task_thread task;

static void on_passed(void *arg)
{
    ++*(int *)arg;
}

static const struct task_thread_context context = {
    .options = &options, .crash_passed = on_passed, .arg = &passed};

static void setup(void)
{
    cr_assert_not_null(mkdtemp(root));
    path = mem_printf("%s/0.crashes", root);
    partition = (struct task_partition){.partition = 4, .owned = true, .t1 = API_UNKNOWN};
    note = (struct crash_note){.agent = other, .build = build, .partition = 4, .offset = OFFSET};
    task.context = &context;
    task.directory = mem_printf("%s/0", root);
    task.job.incarnation = incarnation;
    task.job.spec.logic.kind = LOGIC_KIND_BUILTIN;
    task.core.partitions = &partition;
    task.core.partition_count = 1;
    task.desired.crashes.items = &note;
}

static void teardown(void)
{
    crash_file_destroy(task.crashes);
    (void)unlink(path);
    cr_assert_eq(rmdir(root), 0);
    free(task.directory);
    free(path);
}

TestSuite(task_crash, .init = setup, .fini = teardown);

/* The task opens with so many crashes of its own at the record, and of another agent's. */
static void begin(size_t own, uint32_t others)
{
    FILE *file = fopen(path, "we");

    cr_assert_not_null(file);
    for (size_t i = 0; i < own; i++)
        cr_assert_gt(fprintf(file, "c1 " INCARNATION " " BUILD " 0 4 %d\n", OFFSET), 0);
    cr_assert_eq(fclose(file), 0);
    note.count = others;
    task.desired.crashes.count = others > 0;
    task.core.phase.state = TASK_PHASE_ACTIVE;
    crash_file_destroy(task.crashes);
    task_crash_open(&task);
}

static bool refuses(int64_t offset, bool silent)
{
    const size_t before = task.event_count;
    const bool refused = task_crash_refuses(&task, 0, offset, silent);

    cr_assert_eq(task.event_count, before + refused);
    task.event_count = before;
    return refused;
}

Test(task_crash, enough_of_all_agents_stop_at_the_record_alone)
{
    begin(0, 0);
    cr_assert_not(refuses(OFFSET, false));
    begin(1, CRASHES_MAX - 2);
    cr_assert_not(refuses(OFFSET, false));
    begin(1, CRASHES_MAX - 1);
    cr_assert(refuses(OFFSET, false));
    cr_assert_not(refuses(OFFSET - 1, false));
    cr_assert_not(refuses(OFFSET + 1, false));
    begin(0, CRASHES_MAX);
    cr_assert(refuses(OFFSET, false));
}

Test(task_crash, in_a_replay_only_this_agent_s_own_count)
{
    begin(1, CRASHES_MAX);
    cr_assert_not(refuses(OFFSET, true), "the record is behind T1: somebody has passed it");
    begin(CRASHES_MAX, 0);
    cr_assert(refuses(OFFSET, true));
    cr_assert_not(refuses(OFFSET + 1, true));
}

Test(task_crash, are_forgotten_when_a_commit_has_passed_the_record)
{
    begin(2, 0);
    partition.t1 = OFFSET;
    partition.position = OFFSET + 1;
    task_crash_serve(&task);
    cr_assert_eq(access(path, F_OK), 0, "the record is not committed");
    partition.t1 = OFFSET + 1;
    task.core.phase.state = TASK_PHASE_REPLAY;
    task_crash_serve(&task);
    cr_assert_eq(access(path, F_OK), 0, "it was another agent's commit");
    cr_assert_eq(passed, 0);
    task.core.phase.state = TASK_PHASE_ACTIVE;
    task_crash_serve(&task);
    task_crash_serve(&task);
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_eq(passed, 1, "the coordinator is to hear it, once");
    note.count = 1;
    task.desired.crashes.count = 1;
    cr_assert_not(refuses(OFFSET, false));
}

Test(task_crash, of_a_partition_that_is_another_s_now_are_kept)
{
    begin(2, 0);
    partition.partition = 5;
    partition.t1 = partition.position = OFFSET + 1;
    task_crash_serve(&task);
    cr_assert_eq(access(path, F_OK), 0, "this task does not know its T1");
    cr_assert_eq(passed, 0);
}
