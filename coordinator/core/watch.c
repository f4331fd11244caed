#include "coordinator/core/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "common/mem.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/creation.h"
#include "coordinator/core/step_internal.h"

/* Retention is said to be a risk from this share of it on: then there is as much time to act. */
#define RETENTION_SHARE 2

struct look {
    const struct job_row *row;
    int64_t now_at;
    const struct job_topics *before;
    struct job_topics found;
};

static int64_t find_since(const struct look *look, const char *code, const char *topic)
{
    for (size_t i = 0; i < look->before->findings.count; i++) {
        const struct job_finding *finding = &look->before->findings.items[i];
        if (strcmp(finding->code, code) == 0 && strcmp(finding->topic, topic) == 0)
            return finding->since_at;
    }
    return look->now_at;
}

/* Takes the detail. */
static void add(struct look *look, const char *code, const char *topic, char *detail)
{
    struct job_topics *found = &look->found;
    found->findings.items = mem_grow(found->findings.items, found->findings.count,
                                     &found->findings.capacity, sizeof(*found->findings.items));
    found->findings.items[found->findings.count++] =
        (struct job_finding){.code = code,
                             .topic = mem_strdup(topic),
                             .detail = detail,
                             .since_at = find_since(look, code, topic)};
}

/* ---- what a topic is */

/* False: there is nothing more to say of it. */
static bool judge_there(struct look *look, const char *role, const struct kafka_topic *topic)
{
    if (topic->name == NULL || topic->exists)
        return topic->name != NULL;
    add(look, "topic_missing", topic->name,
        text_printf("%s \"%s\" does not exist", role, topic->name));
    return false;
}

/* False: it is not the topic that the job reads. */
static bool judge_partitions(struct look *look, const struct kafka_topic *topic)
{
    uint32_t now = topic->partition_count, known = look->row->partitions;
    if (now > known) {
        char *refusal = step_refuse_partitions(look->row, now);
        if (refusal == NULL)
            refusal = rows_text_copy(look->before->adopt_error);
        add(look, "partitions_changed", topic->name,
            text_printf("input \"%s\" has %u partitions, the job reads the first %u: nobody reads "
                        "what is written to the others%s%s",
                        topic->name, now, known, refusal != NULL ? "; " : "",
                        refusal != NULL ? refusal : ""));
        free(refusal);
    }
    if (now < known)
        add(look, "topic_recreated", topic->name,
            text_printf(
                "input \"%s\" has %u partitions, it had %u: topics never lose partitions, so "
                "it was deleted and created again",
                topic->name, now, known));
    return now >= known;
}

/* ---- what a rebuild would need (D3.6) */

static bool needs_history(const struct job_spec *spec)
{
    return spec->stateful && spec->history != HISTORY_RETAINED && spec->standbys == 0;
}

/* "input "x" partition 3: records from 0 to 500 are gone (and of 2 more partitions)", or NULL. */
static char *find_gone(const struct job_row *row, size_t input, const struct kafka_topic *topic)
{
    const struct input_offset *origins = &row->origins.items[input * row->partitions];
    size_t gone = 0, first = 0;
    for (size_t p = 0; p < topic->partitions.count && p < row->partitions; p++) {
        if (topic->partitions.items[p].log_start <= origins[p].offset) /* or it is not known */
            continue;
        if (gone++ == 0)
            first = p;
    }
    if (gone == 0)
        return NULL;
    char more[64] = "";
    if (gone > 1)
        (void)snprintf(more, sizeof(more), ", and such of %zu more partitions", gone - 1);
    return text_printf("input \"%s\" partition %zu: records from %lld to %lld, which the state is "
                       "made of, are gone%s: a state that is lost can not be rebuilt",
                       topic->name, first, (long long)origins[first].offset,
                       (long long)topic->partitions.items[first].log_start, more);
}

static bool retention_is_near(const struct look *look, const struct kafka_topic *topic)
{
    return topic->deletes && topic->retention_ms >= 0 &&
           look->now_at - look->row->created_at >= topic->retention_ms / RETENTION_SHARE;
}

static void judge_history(struct look *look, size_t input, const struct kafka_topic *topic)
{
    const struct job_logic *logic = &look->row->spec.logic;
    char kept[TEXT_BYTES];
    char *gone = find_gone(look->row, input, topic);
    if (gone != NULL) {
        add(look, "retention_risk", topic->name, gone);
    } else if (topic->compacted && !creation_rebuilds_from_latest(logic)) {
        add(look, "retention_risk", topic->name,
            text_printf(
                "input \"%s\" is compacted: a state that is lost can not be rebuilt from "
                "what compaction leaves%s",
                topic->name,
                logic->kind == LOGIC_KIND_BUILTIN ? "" : ", unless the plugin says that it can"));
    } else if (retention_is_near(look, topic)) {
        text_duration(topic->retention_ms, kept);
        add(look, "retention_risk", topic->name,
            text_printf(
                "input \"%s\" keeps records for %s, and the job is older than half of that: "
                "soon a state that is lost can not be rebuilt",
                topic->name, kept));
    }
}

/* ---- all of it */

void watch_judge(const struct job_row *row, const struct kafka_inspection *inspection,
                 int64_t now_at, struct job_topics *topics)
{
    struct look look = {.row = row, .now_at = now_at, .before = topics};
    for (size_t i = 0; i < inspection->inputs.count && i < row->spec.inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        if (judge_there(&look, "input", topic) && judge_partitions(&look, topic) &&
            needs_history(&row->spec))
            judge_history(&look, i, topic);
    }
    (void)judge_there(&look, "output", &inspection->output); /* no more is asked of these two */
    (void)judge_there(&look, "dead letter topic", &inspection->dead_letter);
    cluster_clear_findings(topics);
    free(topics->findings.items);
    topics->findings.items = look.found.findings.items;
    topics->findings.count = look.found.findings.count;
    topics->findings.capacity = look.found.findings.capacity;
}
