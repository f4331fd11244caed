#include "common/prom.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char *const type_names[] = {
    [PROM_TYPE_COUNTER] = "counter",
    [PROM_TYPE_GAUGE] = "gauge",
    [PROM_TYPE_HISTOGRAM] = "histogram",
};

static bool name_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return name[0] != '\0' && strchr(letters, name[0]) != NULL && name[strspn(name, all)] == '\0';
}

/* Backslash and newline are escaped everywhere, quotes in label values only. */
static void add_escaped(struct strbuf *buf, const char *text, bool quotes)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            strbuf_puts(buf, "\\\\");
        else if (*text == '\n')
            strbuf_puts(buf, "\\n");
        else if (*text == '"' && quotes)
            strbuf_puts(buf, "\\\"");
        else
            strbuf_add(buf, text, 1);
    }
}

void prom_family(struct strbuf *buf, const char *name, enum prom_type type, const char *help)
{
    assert(name_valid(name));
    strbuf_printf(buf, "# HELP %s ", name);
    add_escaped(buf, help, false);
    strbuf_printf(buf, "\n# TYPE %s %s\n", name, type_names[type]);
}

static void add_label(struct strbuf *buf, const char *name, const char *value, bool *first)
{
    assert(name_valid(name));
    strbuf_puts(buf, *first ? "{" : ",");
    *first = false;
    strbuf_printf(buf, "%s=\"", name);
    add_escaped(buf, value == NULL ? "" : value, true);
    strbuf_puts(buf, "\"");
}

/* The name with `suffix`, the labels, and "le" as one more label unless it is NULL. */
static void add_head(struct strbuf *buf, const char *name, const char *suffix,
                     const struct prom_labels *labels, const char *le)
{
    assert(name_valid(name));
    bool first = true;
    strbuf_puts(buf, name);
    strbuf_puts(buf, suffix);
    for (size_t i = 0; labels != NULL && i < PROM_LABELS_MAX; i++) {
        if (labels->items[i].name == NULL)
            break;
        add_label(buf, labels->items[i].name, labels->items[i].value, &first);
    }
    if (le != NULL)
        add_label(buf, "le", le, &first);
    if (!first)
        strbuf_puts(buf, "}");
}

void prom_sample_int(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                     int64_t value)
{
    add_head(buf, name, "", labels, NULL);
    strbuf_printf(buf, " %" PRId64 "\n", value);
}

static void add_double(struct strbuf *buf, double value)
{
    if (isnan(value))
        strbuf_puts(buf, "NaN");
    else if (isinf(value))
        strbuf_puts(buf, value > 0 ? "+Inf" : "-Inf");
    else
        strbuf_printf(buf, "%.15g", value);
}

void prom_sample_double(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                        double value)
{
    add_head(buf, name, "", labels, NULL);
    strbuf_puts(buf, " ");
    add_double(buf, value);
    strbuf_puts(buf, "\n");
}

static size_t bucket_count(const struct prom_histogram *histogram)
{
    size_t count = 0;
    while (count < PROM_BUCKETS_MAX && histogram->limits_us[count] > 0)
        count++;
    return count;
}

void prom_histogram_observe(struct prom_histogram *histogram, int64_t value_us)
{
    size_t count = bucket_count(histogram);
    size_t index = 0;
    while (index < count && value_us > histogram->limits_us[index])
        index++;
    __atomic_add_fetch(&histogram->counts[index], 1, __ATOMIC_RELAXED);
    if (value_us > 0)
        __atomic_add_fetch(&histogram->sum_us, (uint64_t)value_us, __ATOMIC_RELAXED);
}

void prom_histogram_print(struct strbuf *buf, const char *name, const struct prom_labels *labels,
                          const struct prom_histogram *histogram)
{
    size_t count = bucket_count(histogram);
    uint64_t total = 0;
    for (size_t i = 0; i <= count; i++) {
        struct strbuf le = {0};
        if (i < count)
            strbuf_printf(&le, "%.9g", (double)histogram->limits_us[i] / 1e6);
        else
            strbuf_puts(&le, "+Inf");
        total += __atomic_load_n(&histogram->counts[i], __ATOMIC_RELAXED);
        add_head(buf, name, "_bucket", labels, strbuf_text(&le));
        strbuf_printf(buf, " %" PRIu64 "\n", total);
        strbuf_finish(&le);
    }
    uint64_t sum_us = __atomic_load_n(&histogram->sum_us, __ATOMIC_RELAXED);
    add_head(buf, name, "_sum", labels, NULL);
    strbuf_printf(buf, " %.9g\n", (double)sum_us / 1e6);
    add_head(buf, name, "_count", labels, NULL);
    strbuf_printf(buf, " %" PRIu64 "\n", total);
}
