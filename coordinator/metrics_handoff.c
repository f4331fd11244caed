#include "coordinator/metrics_handoff.h"

#include "api/schema.h"

/* From a release that costs a commit to a rebuild that takes an hour. */
static const struct prom_histogram empty = {
    .limits_us = {5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 10000000,
                  60000000, 600000000, 3600000000},
};

void metrics_handoffs_init(struct metrics_handoffs *metrics)
{
    *metrics = (struct metrics_handoffs){.output_gap = empty};
    for (int state = 0; state < HANDOFF_PHASES; state++)
        metrics->phases[state] = empty;
}

static void count(uint64_t *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static void see(struct metrics_handoffs *metrics, const struct handoff_row *row)
{
    if (row->state == HANDOFF_STATE_CANCELLED)
        count(&metrics->cancelled);
    else if (row->state == HANDOFF_STATE_FAILED)
        count(&metrics->failed);
    else if (row->state == HANDOFF_STATE_DONE)
        count(&metrics->done);
    else
        return;
    if (row->forced)
        count(&metrics->forced);
    if (row->state != HANDOFF_STATE_DONE)
        return;
    for (int state = 0; state < HANDOFF_PHASES; state++)
        if (row->spent_ms[state] != API_UNKNOWN)
            prom_histogram_observe(&metrics->phases[state], row->spent_ms[state] * 1000);
    if (row->output_gap_ms != API_UNKNOWN)
        prom_histogram_observe(&metrics->output_gap, row->output_gap_ms * 1000);
}

void metrics_handoffs_see(struct metrics_handoffs *metrics, const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++)
        if (update->changes.items[i].kind == CHANGE_HANDOFF)
            see(metrics, &update->changes.items[i].handoff);
}

static void print_count(struct strbuf *buf, const char *result, const uint64_t *counter)
{
    prom_sample_int(buf, "baton_handoffs_total", PROM_LABELS({"result", result}),
                    (int64_t)__atomic_load_n(counter, __ATOMIC_RELAXED));
}

void metrics_handoffs_print(struct strbuf *buf, const struct metrics_handoffs *metrics)
{
    prom_family(buf, "baton_handoffs_total", PROM_TYPE_COUNTER,
                "Hand-overs that have ended since the process started, by result.");
    print_count(buf, "done", &metrics->done);
    print_count(buf, "cancelled", &metrics->cancelled);
    print_count(buf, "failed", &metrics->failed);
    prom_family(buf, "baton_handoffs_forced_total", PROM_TYPE_COUNTER,
                "Those of them whose source was not waited for.");
    prom_sample_int(buf, "baton_handoffs_forced_total", NULL,
                    (int64_t)__atomic_load_n(&metrics->forced, __ATOMIC_RELAXED));
    prom_family(buf, "baton_handoff_phase_seconds", PROM_TYPE_HISTOGRAM,
                "Time that finished hand-overs spent in each state.");
    for (int state = 0; state < HANDOFF_PHASES; state++)
        prom_histogram_print(buf, "baton_handoff_phase_seconds",
                             PROM_LABELS({"phase", schema_names_handoff_state[state]}),
                             &metrics->phases[state]);
    prom_family(buf, "baton_handoff_output_gap_seconds", PROM_TYPE_HISTOGRAM,
                "Time from the word to the source to stop until the target's first commit was "
                "reported.");
    prom_histogram_print(buf, "baton_handoff_output_gap_seconds", NULL, &metrics->output_gap);
}
