/*
 * Committed offsets that are not the job's, or are gone: the owner waits (D3.4), and somebody
 * chooses what it goes on from.
 *
 *   accept    what Kafka has. Above T2 the records up to there are learned and not put out; below
 *             it exactly_once rebuilds the state up to there and puts out again what follows.
 *   restore   what the job had committed, as far as it is known: T1 as it was told last, and not
 *             less than T2, which is never above T1 when a task is at rest (D3.2).
 *
 * The choice is a durable decision about what was found, kept with the placement and part of the
 * owner's document under a new epoch. Kafka is changed by the owner alone, by its first commit in
 * an activation (D3.1), so a commit that is late, of whatever earlier owner, is fenced off as ever;
 * an activation that does not come so far begins again by the same document, on this agent or the
 * next. What Kafka says then decides: an offset that is not the one that was found is nobody's
 * choice, and is waited at again. It is over when an owner is active.
 */
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/step_internal.h"

/* ---- what is known of T1 */

static const struct partition_progress *find_progress(const struct partition_progress *items,
                                                      size_t count,
                                                      const struct input_offset *place)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].topic == place->topic && items[i].partition == place->partition)
            return &items[i];
    return NULL;
}

static bool knows_t1(const struct task_report *report)
{
    for (size_t i = 0; i < report->progress.count; i++)
        if (report->progress.items[i].t1 == API_UNKNOWN)
            return false;
    return report->progress.count > 0;
}

void step_keep_told(struct processor *processor)
{
    struct processor_observed *observed = &processor->observed;
    struct task_report *report = &observed->report;
    if (!observed->known || report->epoch == 0 || !knows_t1(report))
        return;
    free(processor->told.items);
    processor->told.items = report->progress.items;
    processor->told.count = report->progress.count;
    report->progress.items = NULL;
    report->progress.count = 0;
}

void step_note_chosen(struct step *step, const struct processor *processor, struct change *change)
{
    if (processor->placement.chosen.count == 0)
        return;
    free(change->placement.chosen.items);
    change->placement.chosen.items = NULL;
    change->placement.chosen.count = 0;
    step_renew_document(step, cluster_agent(step->cluster, processor->placement.agent));
}

static int64_t higher(int64_t a, int64_t b) /* API_UNKNOWN is below all */
{
    return a > b ? a : b;
}

static int64_t known_t1(const struct processor *processor, const struct task_report *report,
                        const struct input_offset *place)
{
    const struct partition_progress *now =
        find_progress(report->progress.items, report->progress.count, place);
    const struct partition_progress *told =
        find_progress(processor->told.items, processor->told.count, place);
    const struct partition_progress *stored =
        find_progress(processor->stored.items, processor->stored.count, place);
    int64_t t1 = now != NULL ? now->t2 : API_UNKNOWN;
    if (told != NULL)
        t1 = higher(t1, told->t1);
    return stored != NULL ? higher(t1, stored->t1) : t1;
}

/* ---- choosing */

struct choice {
    struct offsets_view *view;
    size_t capacity;
};

/* The owner waits for it, and says so. */
static const struct task_report *find_waiting(const struct step *step,
                                              const struct processor *processor)
{
    const struct task_report *report = cluster_report(step->cluster, processor);
    return report != NULL && report->state == TASK_STATE_FAILED &&
                   report->role == TASK_ROLE_ACTIVE && report->found.count > 0
               ? report
               : NULL;
}

/* Why the offset can not be taken; NULL: it can. free() */
static char *find_fault(const struct job *job, const struct partition_progress *now,
                        const struct offset_choice_view *chosen, enum offsets_action action)
{
    if (chosen->offset == API_UNKNOWN)
        return text_printf(action == OFFSETS_ACTION_ACCEPT
                               ? "Kafka has no committed offset that could be accepted: restore it"
                               : "nothing is known of what was committed");
    if (now == NULL)
        return text_printf("the owner does not say how far its state is");
    if (chosen->offset < now->t0)
        return text_printf("%lld is below T0, %lld, where the job's state begins",
                           (long long)chosen->offset, (long long)now->t0);
    if (now->end != API_UNKNOWN && chosen->offset > now->end)
        return text_printf("%lld is past the end of the partition, %lld", (long long)chosen->offset,
                           (long long)now->end);
    if (now->log_start != API_UNKNOWN && chosen->offset < now->log_start)
        return text_printf("%lld is below the start of the log, %lld", (long long)chosen->offset,
                           (long long)now->log_start);
    if (job->row.spec.delivery == DELIVERY_AT_LEAST_ONCE && chosen->offset < now->t2)
        return text_printf("%lld is below T2, %lld, and at_least_once goes on from its state: "
                           "restore instead",
                           (long long)chosen->offset, (long long)now->t2);
    return NULL;
}

/* False: answered why not. */
static bool choose(struct step *step, const struct job *job, const struct processor *processor,
                   const struct task_report *report, struct choice *choice)
{
    const struct offsets_request *wish = &step->event->offsets;
    struct offsets_view *view = choice->view;
    for (size_t i = 0; i < report->found.count; i++) {
        const struct input_offset *found = &report->found.items[i];
        if (found->topic >= job->row.spec.inputs.count || found->partition >= job->row.partitions)
            continue;
        const struct partition_progress *now =
            find_progress(report->progress.items, report->progress.count, found);
        view->offsets.items = mem_grow(view->offsets.items, view->offsets.count, &choice->capacity,
                                       sizeof(struct offset_choice_view));
        struct offset_choice_view *chosen = &view->offsets.items[view->offsets.count++];
        *chosen = (struct offset_choice_view){
            .processor = processor->placement.processor,
            .topic = mem_strdup(job->row.spec.inputs.items[found->topic]),
            .partition = found->partition,
            .found = found->offset,
            .offset = wish->action == OFFSETS_ACTION_ACCEPT ? found->offset
                                                            : known_t1(processor, report, found),
            .t2 = now != NULL ? now->t2 : API_UNKNOWN};
        char *fault = find_fault(job, now, chosen, wish->action);
        if (fault == NULL)
            continue;
        step_problem(step, step->event->request, "offsets_refused",
                     "processor %u, topic \"%s\" partition %u: %s", chosen->processor,
                     chosen->topic, chosen->partition, fault);
        free(fault);
        return false;
    }
    return true;
}

/* Of those that were named; false: answered why not. */
static bool choose_named(struct step *step, const struct job *job, struct choice *choice)
{
    const struct uint_list *named = &step->event->offsets.processors;
    for (size_t i = 0; i < named->count; i++) {
        uint32_t number = named->items[i];
        if (number >= job->processors.count) {
            step_problem(step, step->event->request, "processor_not_found",
                         "job \"%s\" has %zu processors: there is no processor %u", job->row.name,
                         job->processors.count, number);
            return false;
        }
        for (size_t k = 0; k < i; k++)
            if (named->items[k] == number) {
                step_problem(step, step->event->request, "offsets_refused",
                             "processor %u is named twice", number);
                return false;
            }
        const struct task_report *report = find_waiting(step, &job->processors.items[number]);
        if (report == NULL) {
            step_problem(step, step->event->request, "offsets_refused",
                         "processor %u does not wait for its committed offsets", number);
            return false;
        }
        if (!choose(step, job, &job->processors.items[number], report, choice))
            return false;
    }
    return true;
}

/* Of all that wait; false: answered why not. */
static bool choose_all(struct step *step, const struct job *job, struct choice *choice)
{
    for (size_t i = 0; i < job->processors.count; i++) {
        const struct task_report *report = find_waiting(step, &job->processors.items[i]);
        if (report != NULL && !choose(step, job, &job->processors.items[i], report, choice))
            return false;
    }
    if (choice->view->offsets.count > 0)
        return true;
    step_problem(step, step->event->request, "offsets_refused",
                 "no processor of job \"%s\" waits for its committed offsets", job->row.name);
    return false;
}

/* ---- carrying it out */

static void add_chosen(const struct job *job, const struct offset_choice_view *view,
                       struct placement_row *row)
{
    uint32_t topic = 0;
    while (strcmp(job->row.spec.inputs.items[topic], view->topic) != 0)
        topic++;
    row->chosen.items[row->chosen.count++] = (struct chosen_offset){
        .topic = topic, .partition = view->partition, .found = view->found, .offset = view->offset};
}

static void say(struct step *step, const struct processor *processor,
                const struct offsets_view *view)
{
    const struct offsets_request *wish = &step->event->offsets;
    struct strbuf text = {0};
    for (size_t i = 0; i < view->offsets.count; i++) {
        const struct offset_choice_view *chosen = &view->offsets.items[i];
        if (chosen->processor != processor->placement.processor)
            continue;
        if (chosen->found == API_UNKNOWN)
            strbuf_printf(&text, "%s partition %u: %lld, where there was none; ", chosen->topic,
                          chosen->partition, (long long)chosen->offset);
        else
            strbuf_printf(&text, "%s partition %u: %lld, where %lld was found; ", chosen->topic,
                          chosen->partition, (long long)chosen->offset, (long long)chosen->found);
    }
    char *list = strbuf_take(&text);
    struct event_about about = {.processor = processor, .agent = processor->placement.agent};
    if (wish->action == OFFSETS_ACTION_ACCEPT)
        about.kind = "offsets_accepted";
    else
        about.kind = "offsets_restored";
    step_event(step, about, "%s%s", list,
               wish->reason != NULL ? wish->reason : "asked for without a reason");
    free(list);
}

static void carry_out(struct step *step, struct job *job, struct processor *processor,
                      const struct offsets_view *view)
{
    struct agent *owner = cluster_agent(step->cluster, processor->placement.agent);
    struct change change = step_placement_change(processor);
    free(change.placement.chosen.items);
    change.placement.chosen.items =
        mem_calloc(view->offsets.count, sizeof(*change.placement.chosen.items));
    change.placement.chosen.count = 0;
    for (size_t i = 0; i < view->offsets.count; i++)
        if (view->offsets.items[i].processor == processor->placement.processor)
            add_chosen(job, &view->offsets.items[i], &change.placement);
    step_change(step, &change);
    say(step, processor, view);
    step_give(step, processor, owner, NULL, "its committed offsets were chosen");
}

static bool is_in(const struct offsets_view *view, uint32_t processor)
{
    for (size_t i = 0; i < view->offsets.count; i++)
        if (view->offsets.items[i].processor == processor)
            return true;
    return false;
}

void step_offsets(struct step *step)
{
    const struct coord_event *event = step->event;
    struct job *job = step_find_job(step);
    if (job == NULL)
        return;
    struct offsets_view *view = mem_calloc(1, sizeof(*view));
    struct choice choice = {.view = view};
    view->dry_run = event->offsets.dry_run;
    bool chosen = event->offsets.processors.count > 0 ? choose_named(step, job, &choice)
                                                      : choose_all(step, job, &choice);
    if (!chosen) {
        schema_free(&schema_offsets_view, view);
        free(view);
        return;
    }
    for (size_t i = 0; i < job->processors.count && !view->dry_run; i++)
        if (is_in(view, (uint32_t)i))
            carry_out(step, job, &job->processors.items[i], view);
    step_answer(step, event->request, 200, &schema_offsets_view, view);
}
