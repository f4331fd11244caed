/*
 * Text in Prometheus' exposition format (version 0.0.4): families with HELP and TYPE, then their
 * samples.
 *
 * The caller writes a family's head once and all its samples right after it, as the format wants.
 * Names are the program's own (asserted); label values may be any text and are escaped. Pure, but
 * for prom_histogram_observe, which any thread may call while another prints.
 */
#ifndef BATON_COMMON_PROM_H
#define BATON_COMMON_PROM_H

#include <stddef.h>
#include <stdint.h>

#include "common/strbuf.h"

#define PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prom_type { PROM_TYPE_COUNTER, PROM_TYPE_GAUGE, PROM_TYPE_HISTOGRAM };

struct prom_label {
    const char *name;
    const char *value; /* NULL is "" */
};

#define PROM_LABELS_MAX 8

struct prom_labels { /* {NULL} ends it early */
    struct prom_label items[PROM_LABELS_MAX];
};

#define PROM_LABELS(...) (&(const struct prom_labels){{__VA_ARGS__}})

void prom_family(struct strbuf *buf, const char *name, enum prom_type type, const char *help);
/* `labels` may be NULL. */
void prom_sample_int(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                     int64_t value);
void prom_sample_double(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                        double value);

#define PROM_BUCKETS_MAX 16

struct prom_histogram {                  /* of durations; zero-initialised but for the limits */
    int64_t limits_us[PROM_BUCKETS_MAX]; /* ascending upper limits; 0 ends them */
    uint64_t counts[PROM_BUCKETS_MAX + 1];
    uint64_t sum_us;
};

void prom_histogram_observe(struct prom_histogram *histogram, int64_t value_us);
/* All samples of the histogram, in seconds; the family's name has no suffix. */
void prom_histogram_print(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                          const struct prom_histogram *histogram);

#endif
