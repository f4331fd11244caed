#include <criterion/criterion.h>
#include <math.h>

#include "common/prom.h"

static void expect(struct strbuf *buf, const char *text)
{
    cr_assert_str_eq(strbuf_text(buf), text);
    strbuf_finish(buf);
}

Test(prom, writes_families_and_samples)
{
    struct strbuf buf = {0};
    prom_family(&buf, "baton_jobs", PROM_TYPE_GAUGE, "Jobs by state.\nC:\\");
    prom_sample_int(&buf, "baton_jobs", NULL, 3);
    prom_sample_int(&buf, "baton_jobs", PROM_LABELS({"state", "running"}, {"job", "a"}), -1);
    expect(&buf, "# HELP baton_jobs Jobs by state.\\nC:\\\\\n"
                 "# TYPE baton_jobs gauge\n"
                 "baton_jobs 3\n"
                 "baton_jobs{state=\"running\",job=\"a\"} -1\n");
}

/* Goal: any text is a good label value. */
Test(prom, escapes_label_values)
{
    struct strbuf buf = {0};
    prom_sample_int(&buf, "m", PROM_LABELS({"a", "q\"b\\n\nl"}, {"b", NULL}, {"c", "\xC3\xA9"}), 1);
    expect(&buf, "m{a=\"q\\\"b\\\\n\\nl\",b=\"\",c=\"\xC3\xA9\"} 1\n");
}

Test(prom, writes_doubles)
{
    struct strbuf buf = {0};
    prom_sample_double(&buf, "m", NULL, 0.1);
    prom_sample_double(&buf, "m", NULL, 12345678.25);
    prom_sample_double(&buf, "m", NULL, NAN);
    prom_sample_double(&buf, "m", NULL, -INFINITY);
    expect(&buf, "m 0.1\nm 12345678.25\nm NaN\nm -Inf\n");
}

/* Goal: buckets are cumulative, limits inclusive, in seconds. */
Test(prom, prints_histograms)
{
    struct prom_histogram histogram = {.limits_us = {1000, 2500, 1000000}};
    static const int64_t values[] = {0, 1000, 1001, 2500, 999999, 3000000};
    for (size_t i = 0; i < 6; i++)
        prom_histogram_observe(&histogram, values[i]);
    struct strbuf buf = {0};
    prom_histogram_print(&buf, "m_seconds", PROM_LABELS({"db", "x"}), &histogram);
    expect(&buf, "m_seconds_bucket{db=\"x\",le=\"0.001\"} 2\n"
                 "m_seconds_bucket{db=\"x\",le=\"0.0025\"} 4\n"
                 "m_seconds_bucket{db=\"x\",le=\"1\"} 5\n"
                 "m_seconds_bucket{db=\"x\",le=\"+Inf\"} 6\n"
                 "m_seconds_sum{db=\"x\"} 4.0045\n"
                 "m_seconds_count{db=\"x\"} 6\n");
}
