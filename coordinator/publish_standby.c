/* How far standbys are. */
#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/publish_learner.h"

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : mem_strdup(text);
}

static void fill(const struct cluster *cluster, const struct job *job,
                 const struct processor *processor, const struct standby *standby,
                 struct standby_view *view)
{
    const struct standby_row *row = &standby->row;
    const struct task_report *report = cluster_standby_report(cluster, standby);
    const struct agent *agent = cluster_agent(cluster, row->agent);
    struct learner_view learner = {.agent = row->agent};
    publish_measure_learner(cluster, processor, report, &learner);
    publish_explain_learner(cluster, processor, report, &learner);
    *view = (struct standby_view){
        .agent = mem_strdup(row->agent),
        .zone = copy_text(cluster_agent_zone(agent)),
        .state = mem_strdup(report == NULL
                                ? "assigned"
                                : schema_enum_name(schema_names_task_state, (int)report->state)),
        .ready = agent->row.state == AGENT_STATE_ALIVE &&
                 cluster_standby_ready(cluster, job, processor, standby),
        .lag_records = cluster_standby_lag(cluster, job, processor, standby).most,
        .replay_records = learner.replay_records,
        .eta_ms = learner.eta_ms,
        .replayed_per_s = learner.replayed_per_s,
        .stuck = learner.stuck,
        .waiting = learner.waiting,
        .reported_at = report != NULL ? standby->observed.received_at : API_UNKNOWN,
        .reason = mem_strdup(row->reason),
        .started_at = row->started_at,
    };
    if (!view->ready)
        return;
    free(view->stuck);
    free(view->waiting);
    view->stuck = view->waiting = NULL;
}

void publish_list_standbys(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, struct processor_view *view)
{
    size_t count = processor->standbys.count;
    if (count == 0)
        return;
    view->standbys.items = mem_calloc(count, sizeof(*view->standbys.items));
    for (size_t i = 0; i < count; i++)
        fill(cluster, job, processor, &processor->standbys.items[i],
             &view->standbys.items[view->standbys.count++]);
}
