#include "coordinator/core/creation.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "common/hash/linhash.h"
#include "common/mem.h"
#include "common/strbuf.h"

/* A text about many partitions names this many of them. */
#define PARTITIONS_NAMED 10

/* How the warning of a count that is not a doubled one begins, and no other. */
#define GROWTH_WARNING "partitions ("

static void add_fault(struct creation_verdict *verdict, const char *code, const char *pointer,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

static void add_fault(struct creation_verdict *verdict, const char *code, const char *pointer,
                      const char *format, ...)
{
    char text[API_TEXT_BYTES_MAX + 1];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* a longer text is cut */
    va_end(args);
    if (verdict->code == NULL)
        verdict->code = code;
    codec_faults_add(&verdict->faults, pointer, "%s", text);
}

static void add_warning(struct creation_verdict *verdict, char *text)
{
    verdict->warnings.items = mem_grow(verdict->warnings.items, verdict->warnings.count,
                                       &verdict->warnings.capacity, sizeof(char *));
    verdict->warnings.items[verdict->warnings.count++] = text;
}

static void set_unknown(struct creation_verdict *verdict, char *text)
{
    if (verdict->unknown == NULL)
        verdict->unknown = text;
    else
        free(text);
}

/* ---- topics and counts */

static void judge_input(const struct kafka_topic *topic, size_t index,
                        struct creation_verdict *verdict)
{
    char pointer[32];
    (void)snprintf(pointer, sizeof(pointer), "/inputs/%zu", index); /* it fits */
    if (!topic->exists)
        add_fault(verdict, "topic_unknown", pointer, "topic \"%s\" does not exist", topic->name);
    else if (topic->partition_count > API_PARTITIONS_MAX)
        add_fault(verdict, "invalid_request", pointer,
                  "topic \"%s\" has %u partitions; a job may have at most %d", topic->name,
                  topic->partition_count, API_PARTITIONS_MAX);
    else if (topic->partition_count == 0)
        set_unknown(verdict,
                    mem_printf("Kafka did not say how many partitions \"%s\" has", topic->name));
}

/* The common number of partitions; 0 when there is none to judge by. */
static uint32_t judge_partition_counts(const struct kafka_inspection *inspection,
                                       struct creation_verdict *verdict)
{
    const struct kafka_topic *first = NULL;
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        if (!topic->exists || topic->partition_count == 0)
            continue;
        if (first == NULL)
            first = topic;
        if (topic->partition_count == first->partition_count)
            continue;
        add_fault(verdict, "partition_counts_differ", "/inputs",
                  "\"%s\" has %u partitions, \"%s\" has %u: co-partitioned inputs need the same "
                  "number",
                  first->name, first->partition_count, topic->name, topic->partition_count);
        return 0;
    }
    return first != NULL ? first->partition_count : 0;
}

static bool doubles_to(uint32_t initial, uint32_t now)
{
    return now >= initial &&
           linhash_split_pointer((struct linhash_size){.initial = initial, .now = now}) == 0;
}

static void judge_counts(const struct job_spec *spec, uint32_t partitions,
                         struct creation_verdict *verdict)
{
    if (partitions == 0)
        return;
    if (spec->processors > partitions)
        add_fault(verdict, "too_many_processors", "/processors",
                  "%u processors, but the inputs have %u partitions", spec->processors, partitions);
    if (spec->initial_partitions > partitions)
        add_fault(verdict, "invalid_request", "/initial_partitions",
                  "must be at most the number of partitions today (%u), not %u: topics never lose "
                  "partitions",
                  partitions, spec->initial_partitions);
    if (spec->initial_partitions != 0 && spec->initial_partitions < partitions &&
        !doubles_to(spec->processors, spec->initial_partitions))
        add_fault(verdict, "invalid_request", "/initial_partitions",
                  "must be processors (%u) times a power of two when the topics have been expanded "
                  "since, not %u: else a key's records are spread over processors; choose other "
                  "processors",
                  spec->processors, spec->initial_partitions);
}

static void judge_outputs(const struct kafka_inspection *inspection,
                          struct creation_verdict *verdict)
{
    if (inspection->output.name != NULL && !inspection->output.exists)
        add_fault(verdict, "output_unknown", "/output", "topic \"%s\" does not exist",
                  inspection->output.name);
    if (inspection->dead_letter.name != NULL && !inspection->dead_letter.exists)
        add_fault(verdict, "topic_unknown", "/dead_letter_topic", "topic \"%s\" does not exist",
                  inspection->dead_letter.name);
}

/* ---- offsets and group */

static void judge_known(const struct kafka_inspection *inspection, struct creation_verdict *verdict)
{
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        if (!topic->exists)
            continue;
        if (topic->partitions.count != topic->partition_count) {
            set_unknown(verdict,
                        mem_printf("Kafka did not say the offsets of \"%s\"", topic->name));
            continue;
        }
        for (size_t p = 0; p < topic->partitions.count; p++) {
            const struct kafka_partition *partition = &topic->partitions.items[p];
            if (partition->log_start >= 0 && partition->end >= partition->log_start)
                continue;
            set_unknown(verdict, mem_printf("Kafka did not say the offsets of \"%s\" partition %zu",
                                            topic->name, p));
            break;
        }
    }
}

static void judge_group(const struct job_spec *spec, const struct kafka_inspection *inspection,
                        struct creation_verdict *verdict)
{
    size_t committed = 0, all = 0;
    /* With its offsets the job waits for them to leave. */
    if (inspection->group_members > 0 && spec->start != START_COMMITTED)
        add_fault(verdict, "group_has_members", "/group_id",
                  "group \"%s\" has %u members (state %s)%s%s", spec->group_id,
                  inspection->group_members,
                  inspection->group_state != NULL ? inspection->group_state : "unknown",
                  inspection->group_who != NULL ? ": " : "",
                  inspection->group_who != NULL ? inspection->group_who : "");
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        all += topic->partitions.count;
        for (size_t p = 0; p < topic->partitions.count; p++)
            committed += topic->partitions.items[p].committed != API_UNKNOWN;
    }
    if (committed > 0 && spec->start != START_COMMITTED && !spec->reset_offsets)
        add_fault(verdict, "group_has_offsets", "/group_id",
                  "group \"%s\" has committed offsets for %zu of the inputs' %zu partitions",
                  spec->group_id, committed, all);
}

/* "no committed offset for partitions 1, 2 and 7 more of \"orders\"", or what is wrong with those
 * there are. */
static void judge_committed_of(const struct kafka_topic *topic, struct creation_verdict *verdict)
{
    struct strbuf missing = {0};
    size_t missing_count = 0;
    for (size_t p = 0; p < topic->partitions.count; p++) {
        const struct kafka_partition *partition = &topic->partitions.items[p];
        int64_t committed = partition->committed;
        if (committed == API_UNKNOWN) {
            if (missing_count++ < PARTITIONS_NAMED)
                strbuf_printf(&missing, "%s%zu", missing_count > 1 ? ", " : "", p);
        } else if (partition->log_start >= 0 && partition->end >= partition->log_start &&
                   (committed < partition->log_start || committed > partition->end)) {
            add_fault(verdict, "offsets_missing", "/start",
                      "\"%s\" partition %zu is committed at %lld, but the topic holds %lld to %lld",
                      topic->name, p, (long long)committed, (long long)partition->log_start,
                      (long long)partition->end);
        }
    }
    if (missing_count > PARTITIONS_NAMED)
        strbuf_printf(&missing, " and %zu more", missing_count - PARTITIONS_NAMED);
    if (missing_count > 0)
        add_fault(verdict, "offsets_missing", "/start",
                  "no committed offset of \"%s\" for partitions %s", topic->name,
                  strbuf_text(&missing));
    strbuf_finish(&missing);
}

static void judge_delivery(const struct job_spec *spec, const struct kafka_inspection *inspection,
                           struct creation_verdict *verdict)
{
    if (spec->delivery == DELIVERY_EXACTLY_ONCE && !inspection->transactions_supported)
        add_fault(verdict, "broker_too_old", "/delivery",
                  "exactly_once needs brokers from 2.5 on; these say: %s",
                  inspection->broker_detail != NULL ? inspection->broker_detail : "nothing");
}

/* ---- warnings */

bool creation_rebuilds_from_latest(const struct job_logic *logic)
{
    return logic->kind == LOGIC_KIND_BUILTIN && strcmp(logic->name, "latest") == 0;
}

static void warn_of_retention(const struct kafka_topic *topic, struct creation_verdict *verdict)
{
    char duration[TEXT_BYTES] = "a limited number of bytes";
    if (topic->retention_ms >= 0)
        text_duration(topic->retention_ms, duration);
    add_warning(verdict, mem_printf("input \"%s\" keeps records for %s only: with standbys 0 and "
                                    "history \"full\", state that is lost can not be rebuilt once "
                                    "records since the job's start are gone",
                                    topic->name, duration));
}

static void warn_of_compaction(const struct job_spec *spec, const struct kafka_topic *topic,
                               struct creation_verdict *verdict)
{
    const char *unless = spec->logic.kind == LOGIC_KIND_BUILTIN
                             ? ""
                             : ", unless the plugin declares that it rebuilds from the latest";
    add_warning(verdict,
                mem_printf("input \"%s\" is compacted: state that is lost can not be rebuilt from "
                           "what compaction leaves%s",
                           topic->name, unless));
}

static void warn_of_history(const struct job_spec *spec, const struct kafka_inspection *inspection,
                            struct creation_verdict *verdict)
{
    if (!spec->stateful || spec->history == HISTORY_RETAINED || spec->standbys > 0)
        return;
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        const struct kafka_topic *topic = &inspection->inputs.items[i];
        if (topic->deletes)
            warn_of_retention(topic, verdict);
        if (topic->compacted && !creation_rebuilds_from_latest(&spec->logic))
            warn_of_compaction(spec, topic, verdict);
    }
}

/* It begins with what tells it from the others. Free(); NULL: no need. */
static char *warn_of_growth(uint32_t partitions_initial, uint32_t partitions)
{
    if (doubles_to(partitions_initial, partitions))
        return NULL;
    return mem_printf(GROWTH_WARNING "%u) are not initial_partitions (%u) times a power of two: "
                                     "only producers with the linear-hashing partitioner place "
                                     "keys so that they have one processor",
                      partitions, partitions_initial);
}

void creation_warn_anew(struct job_row *row)
{
    size_t kept = 0;
    for (size_t i = 0; i < row->warnings.count; i++) {
        char *text = row->warnings.items[i];
        if (strncmp(text, GROWTH_WARNING, strlen(GROWTH_WARNING)) == 0)
            free(text);
        else
            row->warnings.items[kept++] = text;
    }
    row->warnings.count = kept;
    char *warning = warn_of_growth(row->partitions_initial, row->partitions);
    if (warning == NULL)
        return;
    row->warnings.items = mem_realloc(row->warnings.items, kept + 1, sizeof(*row->warnings.items));
    row->warnings.items[row->warnings.count++] = warning;
}

static void warn_of_counts(uint32_t processors_initial, uint32_t partitions_initial,
                           uint32_t partitions, struct creation_verdict *verdict)
{
    if (!doubles_to(processors_initial, partitions_initial))
        add_warning(verdict,
                    mem_printf("initial partitions (%u) are not processors (%u) times a power of "
                               "two: adding partitions would move keys between processors, so it "
                               "will be refused",
                               partitions_initial, processors_initial));
    char *count = warn_of_growth(partitions_initial, partitions);
    if (count != NULL)
        add_warning(verdict, count);
}

/* ---- the verdict */

static int64_t start_of(enum start start, const struct kafka_partition *partition)
{
    switch (start) {
    case START_EARLIEST:
        return partition->log_start;
    case START_LATEST:
        return partition->end;
    case START_COMMITTED:
        return partition->committed;
    }
    assert(!"a start");
    return API_UNKNOWN;
}

static void fill_offsets(const struct job_spec *spec, const struct kafka_inspection *inspection,
                         struct creation_verdict *verdict)
{
    size_t count = inspection->inputs.count * verdict->partitions, at = 0;
    verdict->origins.items = mem_calloc(count, sizeof(struct input_offset));
    verdict->starts.items = mem_calloc(count, sizeof(struct input_offset));
    for (size_t i = 0; i < inspection->inputs.count; i++) {
        for (size_t p = 0; p < verdict->partitions; p++) {
            const struct kafka_partition *partition =
                &inspection->inputs.items[i].partitions.items[p];
            int64_t origin = spec->start == START_LATEST ? partition->end : partition->log_start;
            verdict->origins.items[at] = (struct input_offset){
                .topic = (uint32_t)i, .partition = (uint32_t)p, .offset = origin};
            verdict->starts.items[at++] =
                (struct input_offset){.topic = (uint32_t)i,
                                      .partition = (uint32_t)p,
                                      .offset = start_of(spec->start, partition)};
        }
    }
    verdict->origins.count = at;
    verdict->starts.count = at;
}

/* Of topics with partitions that were added before the job: from here on producers are expected to
 * know of them. */
static void fill_ends(const struct kafka_inspection *inspection, struct creation_verdict *verdict)
{
    if (verdict->partitions == verdict->partitions_initial)
        return;
    size_t count = inspection->inputs.count * verdict->partitions;
    verdict->ends.items = mem_calloc(count, sizeof(struct input_offset));
    for (uint32_t i = 0; i < inspection->inputs.count; i++)
        for (uint32_t p = 0; p < verdict->partitions; p++)
            verdict->ends.items[verdict->ends.count++] =
                (struct input_offset){i, p, inspection->inputs.items[i].partitions.items[p].end};
}

void creation_judge(const struct job_spec *spec, const struct kafka_inspection *inspection,
                    struct creation_verdict *ret_verdict)
{
    struct creation_verdict *verdict = ret_verdict;
    *verdict = (struct creation_verdict){0};
    if (inspection->inputs.count != spec->inputs.count)
        set_unknown(verdict, mem_strdup("Kafka did not describe all input topics"));
    for (size_t i = 0; i < inspection->inputs.count; i++)
        judge_input(&inspection->inputs.items[i], i, verdict);
    uint32_t partitions = judge_partition_counts(inspection, verdict);
    judge_counts(spec, partitions, verdict);
    judge_outputs(inspection, verdict);
    judge_delivery(spec, inspection, verdict);
    judge_group(spec, inspection, verdict);
    if (spec->start == START_COMMITTED)
        for (size_t i = 0; i < inspection->inputs.count; i++)
            judge_committed_of(&inspection->inputs.items[i], verdict);
    judge_known(inspection, verdict);
    if (verdict->code != NULL || verdict->unknown != NULL)
        return;
    verdict->partitions = partitions;
    verdict->partitions_initial =
        spec->initial_partitions != 0 ? spec->initial_partitions : partitions;
    fill_offsets(spec, inspection, verdict);
    fill_ends(inspection, verdict);
    warn_of_history(spec, inspection, verdict);
    warn_of_counts(spec->processors, verdict->partitions_initial, partitions, verdict);
}

void creation_judge_update(const struct job_spec *spec, const struct job_row *row,
                           const struct kafka_inspection *inspection,
                           struct creation_verdict *ret_verdict)
{
    *ret_verdict = (struct creation_verdict){0};
    judge_outputs(inspection, ret_verdict);
    if (ret_verdict->code != NULL)
        return;
    warn_of_history(spec, inspection, ret_verdict);
    warn_of_counts(row->processors_initial, row->partitions_initial, row->partitions, ret_verdict);
}

void creation_finish(struct creation_verdict *verdict)
{
    codec_faults_finish(&verdict->faults);
    free(verdict->unknown);
    for (size_t i = 0; i < verdict->warnings.count; i++)
        free(verdict->warnings.items[i]);
    free(verdict->warnings.items);
    free(verdict->origins.items);
    free(verdict->starts.items);
    free(verdict->ends.items);
    *verdict = (struct creation_verdict){0};
}

/* ---- the partitioner */

enum effective_partitioner creation_partitioner(const struct kafka_sample *sample,
                                                char **ret_reason)
{
    unsigned long long keyed = sample->keyed, murmur2 = sample->murmur2, crc32 = sample->crc32;
    if (keyed == 0) {
        *ret_reason = mem_strdup("there was no record with a key to tell by");
        return EFFECTIVE_PARTITIONER_UNDETERMINED;
    }
    if (murmur2 == keyed && crc32 == keyed) {
        *ret_reason = mem_printf("all %llu sampled records lie where murmur2 puts them, and where "
                                 "crc32 does",
                                 keyed);
        return EFFECTIVE_PARTITIONER_UNDETERMINED;
    }
    if (murmur2 == keyed || crc32 == keyed) {
        *ret_reason = mem_printf("all %llu sampled records lie where %s puts them", keyed,
                                 murmur2 == keyed ? "murmur2" : "crc32");
        return murmur2 == keyed ? EFFECTIVE_PARTITIONER_MURMUR2 : EFFECTIVE_PARTITIONER_CRC32;
    }
    *ret_reason = mem_printf("of %llu sampled records murmur2 explains %llu and crc32 %llu: no "
                             "single rule places the keys",
                             keyed, murmur2, crc32);
    return EFFECTIVE_PARTITIONER_OPAQUE;
}
