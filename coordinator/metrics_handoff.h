/*
 * What hand-overs took: durations by state, and how long no output came. Counted by the owner
 * thread as they end, since the process started; any thread prints.
 */
#ifndef BATON_COORDINATOR_METRICS_HANDOFF_H
#define BATON_COORDINATOR_METRICS_HANDOFF_H

#include "common/prom.h"
#include "coordinator/core/update.h"

struct metrics_handoffs {
    struct prom_histogram phases[HANDOFF_PHASES]; /* by state; of those that were done */
    struct prom_histogram output_gap;
    uint64_t done, forced, cancelled, failed; /* atomic; `forced` are among the others */
};

void metrics_handoffs_init(struct metrics_handoffs *metrics);
/* Those that end with this update, which is durable. */
void metrics_handoffs_see(struct metrics_handoffs *metrics, const struct update *update);
void metrics_handoffs_print(struct strbuf *buf, const struct metrics_handoffs *metrics);

#endif
