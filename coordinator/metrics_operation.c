/* The part of the metrics that is about operations, expansions above all. */
#include <string.h>

#include "api/schema.h"
#include "common/prom.h"
#include "coordinator/core/view.h"
#include "coordinator/metrics_view.h"

static void print_running(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_operations_running", PROM_TYPE_GAUGE,
                "Operations that have not ended, by kind.");
    for (int kind = OPERATION_KIND_CREATE_JOB; kind <= OPERATION_KIND_EXPAND_PARTITIONS; kind++) {
        const char *name = view_operation_kind((enum operation_kind)kind);
        int64_t count = 0;
        for (size_t i = 0; i < view->running.count; i++)
            count += strcmp(view->running.items[i].kind, name) == 0;
        prom_sample_int(buf, "baton_operations_running", PROM_LABELS({"kind", name}), count);
    }
}

static void print_expanding(struct strbuf *buf, const struct view *view)
{
    static const char *const kinds[] = {"expand_processors", "expand_partitions"};
    prom_family(buf, "baton_job_expanding", PROM_TYPE_GAUGE,
                "1: an expansion of this kind is under way; else 0.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const char *job = view->jobs.items[j]->job.name;
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            bool running = false;
            for (size_t i = 0; i < view->running.count; i++)
                running = running || (strcmp(view->running.items[i].kind, kinds[k]) == 0 &&
                                      strcmp(view->running.items[i].job, job) == 0);
            prom_sample_int(buf, "baton_job_expanding",
                            PROM_LABELS({"job", job}, {"kind", kinds[k]}), running);
        }
    }
}

/* 0 of a job that is not expanded; no sample while it is not known. */
static void print_splits_left(struct strbuf *buf, const struct view *view)
{
    prom_family(buf, "baton_job_splits_left", PROM_TYPE_GAUGE,
                "Processors that an expansion under way has still to make.");
    for (size_t j = 0; j < view->jobs.count; j++) {
        const char *job = view->jobs.items[j]->job.name;
        int64_t left = 0;
        for (size_t i = 0; i < view->running.count; i++) {
            const struct operation_view *operation = &view->running.items[i];
            if (strcmp(operation->kind, "expand_processors") == 0 &&
                strcmp(operation->job, job) == 0)
                left = operation->to != API_UNKNOWN && operation->reached != API_UNKNOWN
                           ? operation->to - operation->reached
                           : API_UNKNOWN;
        }
        if (left != API_UNKNOWN)
            prom_sample_int(buf, "baton_job_splits_left", PROM_LABELS({"job", job}), left);
    }
}

void metrics_print_operations(struct strbuf *buf, const struct view *view)
{
    print_running(buf, view);
    print_expanding(buf, view);
    print_splits_left(buf, view);
}
