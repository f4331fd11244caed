#include "tests/unit/agent/fake_tasks.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

struct task_thread fake_tasks[FAKE_TASKS_MAX];
size_t fake_task_count, fake_tasks_joined;
bool fake_tasks_refuse, fake_tasks_willing;

static const struct task_thread_context *context_last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all of the above */

void fake_tasks_reset(void)
{
    fake_task_count = fake_tasks_joined = 0;
    fake_tasks_refuse = fake_tasks_willing = false;
}

static enum err_code fake_start(const struct task_thread_context *context,
                                const struct document_job *job, const struct document_task *task,
                                struct task_thread **ret_thread, struct err *reterr)
{
    pthread_mutex_lock(&lock);
    context_last = context;
    if (fake_tasks_refuse) {
        pthread_mutex_unlock(&lock);
        return err_set(reterr, ERR_IO, "no more threads");
    }
    for (size_t i = 0; i < fake_task_count; i++) {
        if (fake_tasks[i].processor == task->processor && strcmp(fake_tasks[i].job, job->name) == 0)
            assert(fake_tasks[i].ended); /* it holds the lock of the state directory */
    }
    assert(fake_task_count < FAKE_TASKS_MAX);
    struct task_thread *thread = &fake_tasks[fake_task_count++];
    *thread = (struct task_thread){
        .processor = task->processor, .epoch = task->epoch, .state = TASK_STATE_ACTIVE};
    snprintf(thread->job, sizeof(thread->job), "%s", job->name);
    snprintf(thread->incarnation, sizeof(thread->incarnation), "%s", job->incarnation);
    *ret_thread = thread;
    pthread_mutex_unlock(&lock);
    return ERR_NONE;
}

static void fake_desire(struct task_thread *thread, const struct document_job *job,
                        const struct document_task *task)
{
    pthread_mutex_lock(&lock);
    assert(strcmp(thread->job, job->name) == 0);
    thread->epoch = task->epoch;
    thread->desires++;
    pthread_mutex_unlock(&lock);
}

static void fake_follow(struct task_thread *thread, const struct input_offset *committed,
                        size_t count)
{
    pthread_mutex_lock(&lock);
    assert(committed != NULL || count == 0);
    thread->follows++;
    pthread_mutex_unlock(&lock);
}

static void fake_stop(struct task_thread *thread)
{
    pthread_mutex_lock(&lock);
    assert(!thread->stopped);
    thread->stopped = true;
    if (fake_tasks_willing) {
        thread->state = TASK_STATE_CLOSED;
        thread->ended = true;
    }
    pthread_mutex_unlock(&lock);
}

static bool fake_ended(const struct task_thread *thread)
{
    pthread_mutex_lock(&lock);
    bool ended = thread->ended;
    pthread_mutex_unlock(&lock);
    return ended;
}

static void fake_join(struct task_thread *thread)
{
    pthread_mutex_lock(&lock);
    assert(thread->ended);
    fake_tasks_joined++;
    pthread_mutex_unlock(&lock);
}

static void fake_report(struct task_thread *thread, struct task_report *ret_report)
{
    schema_default(&schema_task_report, ret_report);
    pthread_mutex_lock(&lock);
    ret_report->job = mem_strdup(thread->job);
    ret_report->job_incarnation = mem_strdup(thread->incarnation);
    ret_report->processor = thread->processor;
    ret_report->epoch = thread->epoch;
    ret_report->state = thread->state;
    ret_report->released = thread->released;
    pthread_mutex_unlock(&lock);
}

const struct task_ops fake_task_ops = {fake_start, fake_desire, fake_follow, fake_stop,
                                       fake_ended, fake_join,   fake_report};

struct task_thread fake_task_read(size_t index)
{
    struct task_thread copy = {0};
    pthread_mutex_lock(&lock);
    if (index < fake_task_count)
        copy = fake_tasks[index];
    pthread_mutex_unlock(&lock);
    return copy;
}

void fake_task_become(size_t index, enum task_state state, bool ended)
{
    pthread_mutex_lock(&lock);
    assert(index < fake_task_count);
    fake_tasks[index].state = state;
    fake_tasks[index].ended = ended;
    const struct task_thread_context *context = context_last;
    pthread_mutex_unlock(&lock);
    context->changed(context->arg);
}
