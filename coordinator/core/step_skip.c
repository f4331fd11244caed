/*
 * Records that are passed by somebody's word (D3.8): a durable decision, which every task of the
 * job hears of before it can come to the record.
 *
 * Only a record at which the owner has stopped for good can be passed: then it is certain that it
 * is in nobody's state. Learners stay below T1, and the owner's T1 is not above it; what the owner
 * itself does next needs a new document, which has the skip. (Were any later record allowed, the
 * owner could have processed it between its last report and this decision.) A learner is told no T1
 * above it before it has the skip, too (cluster_knows_skips).
 */
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "coordinator/core/step_internal.h"
#include "coordinator/core/step_job.h"
#include "coordinator/core/view.h"

/* False: answered that the job does not have it. */
static bool find_place(struct step *step, const struct job *job, uint32_t *ret_topic)
{
    const struct skip_request *wish = &step->event->skip;
    uint32_t topic = 0;
    while (topic < job->row.spec.inputs.count &&
           strcmp(job->row.spec.inputs.items[topic], wish->topic) != 0)
        topic++;
    if (topic == job->row.spec.inputs.count) {
        step_problem(step, step->event->request, "skip_refused",
                     "topic \"%s\" is no input of job \"%s\"", wish->topic, job->row.name);
        return false;
    }
    if (wish->partition >= job->row.partitions) {
        step_problem(step, step->event->request, "skip_refused",
                     "partition %u: the inputs of job \"%s\" have %u partitions", wish->partition,
                     job->row.name, job->row.partitions);
        return false;
    }
    *ret_topic = topic;
    return true;
}

static const struct partition_progress *find_progress(const struct task_report *report,
                                                      uint32_t topic, uint32_t partition)
{
    for (size_t i = 0; i < report->progress.count; i++)
        if (report->progress.items[i].topic == topic &&
            report->progress.items[i].partition == partition)
            return &report->progress.items[i];
    return NULL;
}

/* It is not halted there. */
static void refuse(struct step *step, const struct job *job, uint32_t processor, uint32_t topic,
                   const struct task_report *report)
{
    const struct skip_request *wish = &step->event->skip;
    uint64_t request = step->event->request;
    const struct partition_progress *progress =
        report != NULL ? find_progress(report, topic, wish->partition) : NULL;
    if (report == NULL)
        step_problem(step, request, "skip_refused",
                     "processor %u has no owner that reports: whether it is stopped by this record "
                     "is not known",
                     processor);
    else if (progress != NULL && (progress->t1 > wish->offset || progress->t2 > wish->offset))
        step_problem(step, request, "skip_refused",
                     "processor %u is past offset %lld (T1 %lld, T2 %lld): the record is in its "
                     "state and can not be taken out of it",
                     processor, (long long)wish->offset, (long long)progress->t1,
                     (long long)progress->t2);
    else if (report->halted.count > 0)
        step_problem(step, request, "skip_refused",
                     "processor %u is stopped by another record: topic \"%s\" partition %u offset "
                     "%lld",
                     processor, job->row.spec.inputs.items[report->halted.items[0].topic],
                     report->halted.items[0].partition, (long long)report->halted.items[0].offset);
    else
        step_problem(step, request, "skip_refused",
                     "processor %u is not stopped by a record, it is %s: only a record that stops "
                     "it can be passed",
                     processor, schema_enum_name(schema_names_task_state, (int)report->state));
}

static bool is_halted_at(const struct task_report *report, uint32_t topic,
                         const struct skip_request *wish)
{
    return report != NULL && report->state == TASK_STATE_FAILED &&
           report->role == TASK_ROLE_ACTIVE && report->halted.count > 0 &&
           report->halted.items[0].topic == topic &&
           report->halted.items[0].partition == wish->partition &&
           report->halted.items[0].offset == wish->offset;
}

/* True: answered that there are enough. */
static bool is_full(struct step *step, const struct job *job, uint32_t topic, uint32_t partition)
{
    size_t count = cluster_count_skips(job, topic, partition);
    if (count < API_SKIPS_PARTITION_MAX && job->skips.count < API_SKIPS_MAX)
        return false;
    step_problem(step, step->event->request, "limit_reached",
                 "%zu records of this partition and %zu of the job are passed by request, and "
                 "there may be %d and %d: correct the logic, or let \"on_error\" pass what it "
                 "refuses",
                 count, job->skips.count, API_SKIPS_PARTITION_MAX, API_SKIPS_MAX);
    return true;
}

static void answer(struct step *step, const struct job *job, uint32_t status,
                   const struct skip_row *row)
{
    struct skip_view *view = mem_calloc(1, sizeof(*view));
    view_skip(&job->row, row, view);
    step_answer(step, step->event->request, status, &schema_skip_view, view);
}

static void decide(struct step *step, struct job *job, uint32_t topic, uint32_t processor)
{
    const struct coord_event *event = step->event;
    const struct skip_request *wish = &event->skip;
    const char *actor = event->actor != NULL ? event->actor : ACTOR_COORDINATOR;
    struct change change = {.kind = CHANGE_SKIP,
                            .skip = {.job = mem_strdup(job->row.name),
                                     .topic = topic,
                                     .partition = wish->partition,
                                     .offset = wish->offset,
                                     .processor = processor,
                                     .reason = rows_text_copy(wish->reason),
                                     .actor = mem_strdup(actor),
                                     .skipped_at = event->now_at}};
    step_change(step, &change);
    job->skips_decision = step->cluster->meta.decision;
    step_job_renew_documents(step, job);
    step_event(step,
               (struct event_about){.kind = "record_skipped",
                                    .processor = &job->processors.items[processor]},
               "topic %s partition %u offset %lld: %s", wish->topic, wish->partition,
               (long long)wish->offset,
               wish->reason != NULL ? wish->reason : "asked for without a reason");
}

void step_skip(struct step *step)
{
    const struct skip_request *wish = &step->event->skip;
    struct job *job = step_find_job(step);
    uint32_t topic;
    if (job == NULL || !find_place(step, job, &topic))
        return;
    const struct skip_row *known = cluster_skip(job, topic, wish->partition, wish->offset);
    if (known != NULL) { /* said again */
        answer(step, job, 200, known);
        return;
    }
    struct linhash_size size = {.initial = job->row.processors_initial, .now = job->row.processors};
    uint32_t processor = linhash_bucket(wish->partition, size);
    const struct task_report *report =
        cluster_report(step->cluster, &job->processors.items[processor]);
    if (!is_halted_at(report, topic, wish)) {
        refuse(step, job, processor, topic, report);
        return;
    }
    if (is_full(step, job, topic, wish->partition))
        return;
    decide(step, job, topic, processor);
    answer(step, job, 201, cluster_skip(job, topic, wish->partition, wish->offset));
}
