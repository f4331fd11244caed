/*
 * What the agent shows of itself: a view that the control thread makes now and then and that does
 * not change afterwards, and its text in Prometheus' format. Any thread may read a view.
 */
#ifndef BATON_AGENT_METRICS_H
#define BATON_AGENT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/coordinator_link.h"
#include "agent/snapshot_serve.h"
#include "agent/task_table.h"
#include "api/types.h"
#include "common/strbuf.h"

struct metrics_view {
    struct agent_report report;
    struct link_counts link;
    struct task_table_counts tasks; /* when the report was collected */
    struct snapshot_serve_counts snapshots;
    bool ready;
    const char *reason; /* static text: why it is not ready */
    int64_t capacity;
    int64_t started_at; /* wall ms */
};

void metrics_view_destroy(struct metrics_view *view); /* frees it; NULL is fine */

void metrics_print(const struct metrics_view *view, const char *librdkafka, struct strbuf *buf);

#endif
