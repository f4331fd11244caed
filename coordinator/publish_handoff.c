/* A hand-over as readers see it: how far its target is, and what it waits for. Owner thread. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/core/handoff.h"
#include "coordinator/publish_learner.h"

/* The target owns it, and can not go on (D3.6): who has the state is waited for. */
static char *explain_activating(const struct task_report *report, const struct handoff_view *view)
{
    if (report == NULL || report->state != TASK_STATE_FAILED)
        return text_printf("the target shuts out older producers and makes its first commit");
    if (view->kind == HANDOFF_KIND_SPLIT)
        return text_printf("the target has failed (%s: %s), and tries again",
                           report->problems.count > 0 ? report->problems.items[0].code : "it fails",
                           report->problems.count > 0 ? report->problems.items[0].detail : "");
    return text_printf("the target has failed (%s: %s); agent %s gets it again when it is back",
                       report->problems.count > 0 ? report->problems.items[0].code : "it fails",
                       report->problems.count > 0 ? report->problems.items[0].detail : "",
                       view->source);
}

/* A split that is being released: only the owner of its parent moves it, whoever that becomes. */
static char *explain_split(const struct cluster *cluster, const struct handoff_row *row,
                           const char **ret_stuck)
{
    const struct job *job = cluster_job(cluster, row->job);
    const struct processor *parent = &job->processors.items[row->parent];
    const char *agent_id = parent->placement.agent;
    const struct agent *owner = agent_id != NULL ? cluster_agent(cluster, agent_id) : NULL;
    const struct task_report *report = cluster_report(cluster, parent);
    *ret_stuck = NULL;
    if (job->row.pause.on)
        return text_printf("the job is paused: the partitions are committed when it is resumed");
    if (cluster_is_held(job)) {
        *ret_stuck = job->row.group.hold == GROUP_HOLD_FROZEN ? "group_intruded" : "group_awaited";
        return text_printf("others are in the job's group: the partitions are committed when they "
                           "have left");
    }
    if (owner == NULL || owner->row.state != AGENT_STATE_ALIVE || report == NULL) {
        *ret_stuck = "source_not_heard";
        return text_printf("the owner of processor %u is not heard of: it commits the partitions "
                           "that go when it is, and when it is lost, its next owner does",
                           parent->placement.processor);
    }
    if (report->state == TASK_STATE_ACTIVE)
        return text_printf("the source commits the partitions that go; when it is lost, its next "
                           "owner does");
    const char *code = publish_stuck(report);
    *ret_stuck = code;
    return text_printf("processor %u is %s on agent %s%s%s%s%s%s: it commits the partitions that "
                       "go when it is active",
                       parent->placement.processor,
                       schema_enum_name(schema_names_task_state, (int)report->state), agent_id,
                       code != NULL ? " (" : "", code != NULL ? code : "", code != NULL ? ": " : "",
                       code != NULL ? publish_detail(report, code) : "", code != NULL ? ")" : "");
}

/* A split waits for settle windows as well, and its operation knows. */
static char *explain_caught_up(const struct cluster *cluster, const struct handoff_row *row)
{
    const struct operation *operation = cluster_operation(cluster, row->operation);
    if (row->kind == HANDOFF_KIND_SPLIT && operation != NULL && operation->row.error != NULL)
        return text_printf("the target has caught up; %s", publish_obstacle(&operation->row));
    return text_printf("the target has caught up; the source is not active, or about to leave");
}

static char *explain(const struct cluster *cluster, const struct handoff_row *row,
                     const struct task_report *report, const struct handoff_view *view)
{
    switch (view->state) {
    case HANDOFF_STATE_LEARNING: /* the learner itself says */
        break;
    case HANDOFF_STATE_CAUGHT_UP:
        return explain_caught_up(cluster, row);
    case HANDOFF_STATE_RELEASING:
        return text_printf("the source commits and stops"); /* splits: explain_split */
    case HANDOFF_STATE_RELEASED:
        return text_printf("agent %s has not reported that it begins", view->target);
    case HANDOFF_STATE_ACTIVATING:
        return explain_activating(report, view);
    case HANDOFF_STATE_DONE:
    case HANDOFF_STATE_CANCELLED:
    case HANDOFF_STATE_FAILED:
        return NULL;
    }
    assert(!"a state of a hand-over");
    return NULL;
}

void publish_complete_handoff(const struct cluster *cluster, const struct handoff *handoff,
                              struct handoff_view *view)
{
    const struct job *job = cluster_job(cluster, handoff->row.job);
    const struct processor *processor = &job->processors.items[handoff->row.processor];
    const struct task_report *report = handoff_before_release(handoff->row.state)
                                           ? cluster_learner_report(cluster, processor)
                                           : cluster_report(cluster, processor);
    struct learner_view learner = {.agent = view->target};
    publish_measure_learner(cluster, processor, report, &learner);
    view->learned_records = learner.learned_records;
    view->target_records = learner.target_records;
    view->lag_records = learner.lag_records;
    view->replay_records = learner.replay_records;
    view->replayed_per_s = learner.replayed_per_s;
    view->incoming_per_s = learner.incoming_per_s;
    view->eta_ms = learner.eta_ms;
    free(view->waiting);
    free(view->stuck);
    if (view->state == HANDOFF_STATE_LEARNING) {
        publish_explain_learner(cluster, processor, report, &learner);
        view->stuck = learner.stuck;
        view->waiting = learner.waiting;
        return;
    }
    const char *stuck = publish_stuck(report);
    view->waiting =
        view->state == HANDOFF_STATE_RELEASING && handoff->row.kind == HANDOFF_KIND_SPLIT
            ? explain_split(cluster, &handoff->row, &stuck)
            : explain(cluster, &handoff->row, report, view);
    view->stuck = stuck != NULL ? mem_strdup(stuck) : NULL;
}
