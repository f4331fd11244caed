/* Parts of what metrics_print_view prints. Internal to it; any thread. */
#ifndef BATON_COORDINATOR_METRICS_VIEW_H
#define BATON_COORDINATOR_METRICS_VIEW_H

#include "common/strbuf.h"
#include "coordinator/publish.h"

void metrics_print_operations(struct strbuf *buf, const struct view *view);

#endif
