#include "agent/core/reconcile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

/* Positions of an array's elements in the order of their keys, for binary search: with 10,000 tasks
 * a search of all slots for each would stop the control thread for seconds. */
struct order {
    size_t *items;
    size_t count;
};

struct compare_context {
    const struct agent_document *document;
    const struct reconcile_slot *slots;
};

static int place_compare(const char *job_a, uint32_t processor_a, const char *job_b,
                         uint32_t processor_b)
{
    int by_job = strcmp(job_a, job_b);
    if (by_job != 0)
        return by_job;
    return (processor_a > processor_b) - (processor_a < processor_b);
}

static int tasks_compare(const void *a, const void *b, void *arg)
{
    const struct document_task *tasks =
        ((const struct compare_context *)arg)->document->tasks.items;
    const struct document_task *task_a = &tasks[*(const size_t *)a];
    const struct document_task *task_b = &tasks[*(const size_t *)b];
    return place_compare(task_a->job, task_a->processor, task_b->job, task_b->processor);
}

static int jobs_compare(const void *a, const void *b, void *arg)
{
    const struct document_job *jobs = ((const struct compare_context *)arg)->document->jobs.items;
    return strcmp(jobs[*(const size_t *)a].name, jobs[*(const size_t *)b].name);
}

static int slots_compare(const void *a, const void *b, void *arg)
{
    const struct reconcile_slot *slots = ((const struct compare_context *)arg)->slots;
    const struct document_task *task_a = slots[*(const size_t *)a].task;
    const struct document_task *task_b = slots[*(const size_t *)b].task;
    return place_compare(task_a->job, task_a->processor, task_b->job, task_b->processor);
}

static struct order order_create(size_t count, int (*compare)(const void *, const void *, void *),
                                 struct compare_context *context)
{
    struct order order = {.items = mem_calloc(count + 1, sizeof(*order.items)), .count = count};
    for (size_t i = 0; i < count; i++)
        order.items[i] = i;
    if (count > 1)
        qsort_r(order.items, count, sizeof(*order.items), compare, context);
    return order;
}

static size_t find_job(const struct agent_document *document, const struct order *jobs,
                       const char *name)
{
    size_t low = 0, high = jobs->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(document->jobs.items[jobs->items[middle]].name, name);
        if (order == 0)
            return jobs->items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return RECONCILE_NONE;
}

static size_t find_task(const struct agent_document *document, const struct order *tasks,
                        const char *job, uint32_t processor)
{
    size_t low = 0, high = tasks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct document_task *task = &document->tasks.items[tasks->items[middle]];
        int order = place_compare(task->job, task->processor, job, processor);
        if (order == 0)
            return tasks->items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return RECONCILE_NONE;
}

/* The first position in `order` whose slot is not below (job, processor). */
static size_t slots_lower_bound(const struct reconcile_slot *slots, const struct order *order,
                                const char *job, uint32_t processor)
{
    size_t low = 0, high = order->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct document_task *task = slots[order->items[middle]].task;
        if (place_compare(task->job, task->processor, job, processor) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_action(struct reconcile_actions *actions, struct reconcile_action action)
{
    actions->items =
        mem_grow(actions->items, actions->count, &actions->capacity, sizeof(*actions->items));
    actions->items[actions->count++] = action;
}

static bool is_same_incarnation(const struct reconcile_slot *slot, const struct document_job *job)
{
    return strcmp(slot->job->incarnation, job->incarnation) == 0;
}

static bool is_told(const struct reconcile_slot *slot, const struct document_job *job,
                    const struct document_task *task)
{
    return schema_equal(&schema_document_task, slot->task, task) &&
           schema_equal(&schema_document_job, slot->job, job);
}

static void drop_slot(const struct reconcile_slot *slots, size_t index,
                      struct reconcile_actions *actions)
{
    if (slots[index].state == RECONCILE_RUNNING)
        add_action(actions, (struct reconcile_action){.kind = RECONCILE_STOP,
                                                      .slot = index,
                                                      .task = RECONCILE_NONE,
                                                      .job = RECONCILE_NONE});
    else if (slots[index].state == RECONCILE_DOWN)
        add_action(actions, (struct reconcile_action){.kind = RECONCILE_REMOVE,
                                                      .slot = index,
                                                      .task = RECONCILE_NONE,
                                                      .job = RECONCILE_NONE});
}

/* A fenced epoch is over for this agent whoever was right: the coordinator gives a new one when it
 * is still the owner. So is one that was released: it was told so, and is believed. Other failures
 * are tried again in their time, and at once when what is wanted has changed. */
static bool may_start(const struct reconcile_slot *slot, const struct document_job *job,
                      const struct document_task *task, int64_t now_ms)
{
    if (slot->spent && task->role == TASK_ROLE_ACTIVE && task->epoch <= slot->task->epoch)
        return false;
    return now_ms >= slot->retry_ms || !is_told(slot, job, task);
}

static void compute_task(const struct agent_document *document, const struct reconcile_slot *slots,
                         const struct order *order, struct reconcile_action place, int64_t now_ms,
                         struct reconcile_actions *actions)
{
    const struct document_task *task = &document->tasks.items[place.task];
    const struct document_job *job = &document->jobs.items[place.job];
    bool busy = false;

    for (size_t i = slots_lower_bound(slots, order, task->job, task->processor); i < order->count;
         i++) {
        const struct reconcile_slot *slot = &slots[order->items[i]];
        if (place_compare(slot->task->job, slot->task->processor, task->job, task->processor) != 0)
            break;
        busy = busy || slot->state != RECONCILE_DOWN;
        if (is_same_incarnation(slot, job)) {
            assert(place.slot == RECONCILE_NONE);
            place.slot = order->items[i];
        }
    }

    const struct reconcile_slot *own = place.slot == RECONCILE_NONE ? NULL : &slots[place.slot];
    if (own != NULL && own->state == RECONCILE_RUNNING) {
        place.kind = RECONCILE_DESIRE;
        if (!is_told(own, job, task))
            add_action(actions, place);
    } else if (!busy && (own == NULL || may_start(own, job, task, now_ms))) {
        place.kind = RECONCILE_START;
        add_action(actions, place);
    }
}

static const struct agent_document nothing;

void reconcile_compute(const struct agent_document *document, const struct reconcile_slot *slots,
                       size_t slot_count, int64_t now_ms, struct reconcile_actions *ret_actions)
{
    if (document == NULL)
        document = &nothing;
    struct compare_context context = {.document = document, .slots = slots};
    struct order jobs = order_create(document->jobs.count, jobs_compare, &context);
    struct order tasks = order_create(document->tasks.count, tasks_compare, &context);
    struct order order = order_create(slot_count, slots_compare, &context);

    *ret_actions = (struct reconcile_actions){0};
    for (size_t i = 0; i < slot_count; i++) {
        const struct document_task *task = slots[i].task;
        size_t job = find_job(document, &jobs, task->job);
        if (find_task(document, &tasks, task->job, task->processor) == RECONCILE_NONE ||
            !is_same_incarnation(&slots[i], &document->jobs.items[job]))
            drop_slot(slots, i, ret_actions);
    }
    for (size_t i = 0; i < document->tasks.count; i++) {
        size_t job = find_job(document, &jobs, document->tasks.items[i].job);
        assert(job != RECONCILE_NONE);
        struct reconcile_action place = {.slot = RECONCILE_NONE, .task = i, .job = job};
        compute_task(document, slots, &order, place, now_ms, ret_actions);
    }

    free(order.items);
    free(tasks.items);
    free(jobs.items);
}

void reconcile_actions_finish(struct reconcile_actions *actions)
{
    free(actions->items);
    *actions = (struct reconcile_actions){0};
}

int64_t reconcile_wake_ms(const struct reconcile_slot *slots, size_t slot_count, int64_t now_ms)
{
    int64_t wake_ms = INT64_MAX;
    for (size_t i = 0; i < slot_count; i++) {
        /* A spent one waits for another epoch, unless it is to learn by now. */
        bool over = slots[i].spent && slots[i].task->role == TASK_ROLE_ACTIVE;
        if (slots[i].state == RECONCILE_DOWN && !over && slots[i].retry_ms > now_ms &&
            slots[i].retry_ms < wake_ms)
            wake_ms = slots[i].retry_ms;
    }
    return wake_ms;
}

/* ---- acceptance of a document */

static enum err_code check_list(const struct uint_list *list, uint32_t partitions, const char *name,
                                struct err *reterr)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] >= partitions)
            return err_set(reterr, ERR_PROTOCOL, "%s: partition %u of a job with %u", name,
                           list->items[i], partitions);
        if (i > 0 && list->items[i] <= list->items[i - 1])
            return err_set(reterr, ERR_PROTOCOL, "%s: partitions do not ascend", name);
    }
    return ERR_NONE;
}

bool reconcile_is_subset(const struct uint_list *part, const struct uint_list *whole)
{
    size_t at = 0;
    for (size_t i = 0; i < part->count; i++) {
        while (at < whole->count && whole->items[at] < part->items[i])
            at++;
        if (at == whole->count || whole->items[at] != part->items[i])
            return false;
    }
    return true;
}

static enum err_code check_split(const struct document_task *task, const struct document_job *job,
                                 struct err *reterr)
{
    if (check_list(&task->split_partitions, job->partitions, "split_partitions", reterr) !=
        ERR_NONE)
        return ERR_PROTOCOL;
    if (!reconcile_is_subset(&task->split_partitions, &task->owned) ||
        task->split_partitions.count == 0 || task->split_partitions.count == task->owned.count)
        return err_set(reterr, ERR_PROTOCOL, "a split of partitions that are not a part of S1");
    if (task->split_processor != job->processors || task->split_epoch == 0)
        return err_set(reterr, ERR_PROTOCOL, "a split for processor %u of a job with %u",
                       task->split_processor, job->processors);
    return ERR_NONE;
}

static enum err_code check_task(const struct document_task *task, const struct document_job *job,
                                struct err *reterr)
{
    /* One more than there are: it is learned before it is there. */
    if (task->processor >= job->processors + (task->role == TASK_ROLE_LEARNER ? 1 : 0))
        return err_set(reterr, ERR_PROTOCOL, "processor %u of a job with %u", task->processor,
                       job->processors);
    if (check_list(&task->owned, job->partitions, "owned", reterr) != ERR_NONE ||
        check_list(&task->read, job->partitions, "read", reterr) != ERR_NONE)
        return ERR_PROTOCOL;
    if (!reconcile_is_subset(&task->owned, &task->read))
        return err_set(reterr, ERR_PROTOCOL, "owned partitions that are not in the read set");
    if (task->role == TASK_ROLE_ACTIVE && task->epoch == 0)
        return err_set(reterr, ERR_PROTOCOL, "an active task without an epoch");
    return task->split_handoff == 0 ? ERR_NONE : check_split(task, job, reterr);
}

/* They are looked up by their order. */
static enum err_code check_windows(const struct document_job *job, struct err *reterr)
{
    for (size_t i = 0; i < job->windows.count; i++) {
        const struct settle_window *window = &job->windows.items[i], *before = window - 1;

        if (window->topic >= job->spec.inputs.count || window->partition >= job->partitions)
            return err_set(reterr, ERR_PROTOCOL, "a settle window of topic %u, partition %u",
                           window->topic, window->partition);
        if (i > 0 && (window->topic < before->topic ||
                      (window->topic == before->topic && window->partition <= before->partition)))
            return err_set(reterr, ERR_PROTOCOL, "settle windows do not ascend");
    }
    return ERR_NONE;
}

static enum err_code check_job(const struct document_job *job, struct err *reterr)
{
    for (size_t i = 0; i < job->origins.count; i++) {
        const struct input_offset *origin = &job->origins.items[i];
        if (origin->topic >= job->spec.inputs.count || origin->partition >= job->partitions)
            return err_set(reterr, ERR_PROTOCOL, "an origin of topic %u, partition %u",
                           origin->topic, origin->partition);
    }
    if (job->partitions_initial == 0 || job->partitions < job->partitions_initial)
        return err_set(reterr, ERR_PROTOCOL, "%u partitions that were %u", job->partitions,
                       job->partitions_initial);
    if (job->processors_initial == 0 || job->processors < job->processors_initial)
        return err_set(reterr, ERR_PROTOCOL, "%u processors that were %u", job->processors,
                       job->processors_initial);
    return check_windows(job, reterr);
}

static enum err_code check_jobs(const struct agent_document *document, const struct order *jobs,
                                struct err *reterr)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const struct document_job *job = &document->jobs.items[jobs->items[i]];
        if (i > 0 && strcmp(document->jobs.items[jobs->items[i - 1]].name, job->name) == 0)
            return err_set(reterr, ERR_PROTOCOL, "job %s: named twice", job->name);
        if (check_job(job, reterr) != ERR_NONE)
            return err_prefix(reterr, "job %s", job->name);
    }
    return ERR_NONE;
}

static enum err_code check_tasks(const struct agent_document *document, const struct order *jobs,
                                 const struct order *tasks, struct err *reterr)
{
    for (size_t i = 0; i < tasks->count; i++) {
        const struct document_task *task = &document->tasks.items[tasks->items[i]];
        size_t job = find_job(document, jobs, task->job);
        if (job == RECONCILE_NONE)
            return err_set(reterr, ERR_PROTOCOL, "task %s/%u: its job is not in the document",
                           task->job, task->processor);
        if (i > 0) {
            const struct document_task *before = &document->tasks.items[tasks->items[i - 1]];
            if (place_compare(before->job, before->processor, task->job, task->processor) == 0)
                return err_set(reterr, ERR_PROTOCOL, "task %s/%u: named twice", task->job,
                               task->processor);
        }
        if (check_task(task, &document->jobs.items[job], reterr) != ERR_NONE)
            return err_prefix(reterr, "task %s/%u", task->job, task->processor);
    }
    return ERR_NONE;
}

enum err_code reconcile_check(const struct agent_document *document, struct err *reterr)
{
    struct err err = {0}; /* reterr may be NULL, err_prefix wants one */
    struct compare_context context = {.document = document};
    struct order jobs = order_create(document->jobs.count, jobs_compare, &context);
    struct order tasks = order_create(document->tasks.count, tasks_compare, &context);

    enum err_code code = check_jobs(document, &jobs, &err);
    if (code == ERR_NONE)
        code = check_tasks(document, &jobs, &tasks, &err);
    if (code != ERR_NONE && reterr != NULL)
        *reterr = err;

    free(tasks.items);
    free(jobs.items);
    return code;
}

int reconcile_version_compare(struct document_version a, struct document_version b)
{
    if (a.start != b.start)
        return a.start < b.start ? -1 : 1;
    return (a.decision > b.decision) - (a.decision < b.decision);
}
