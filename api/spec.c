#include "api/spec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define BUILTIN_VERSION "1"

/* In step with the agent's built-in logics. */
static const char *const builtins[] = {"count", "sum", "latest", "dedup"};

void spec_complete(struct job_spec *spec)
{
    if (spec->logic.kind == LOGIC_KIND_BUILTIN && spec->logic.version == NULL)
        spec->logic.version = mem_strdup(BUILTIN_VERSION);
}

static bool is_input(const struct job_spec *spec, const char *topic)
{
    for (size_t i = 0; i < spec->inputs.count; i++)
        if (strcmp(spec->inputs.items[i], topic) == 0)
            return true;
    return false;
}

static void check_topics(const struct job_spec *spec, struct codec_faults *faults)
{
    for (size_t i = 1; i < spec->inputs.count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(spec->inputs.items[i], spec->inputs.items[j]) != 0)
                continue;
            char *pointer = mem_printf("/inputs/%zu", i);
            codec_faults_add(faults, pointer, "must differ from the other inputs, \"%s\" is there",
                             spec->inputs.items[i]);
            free(pointer);
            break;
        }
    }
    if (spec->output != NULL && is_input(spec, spec->output))
        codec_faults_add(faults, "/output",
                         "must not be one of the inputs: the job would process its own outputs");
    if (spec->inputs.count > 1 && spec->stateful && spec->interleaving == INTERLEAVING_NONE)
        codec_faults_add(faults, "/interleaving",
                         "must be \"any\" with more than one input: state is rebuilt by replaying "
                         "the topics, and a replay can not repeat the order in which records of "
                         "different topics met; say \"any\" only when that order does not matter "
                         "to the logic");
}

/* Log lines, metrics and stock tools show it; Kafka itself takes anything. */
static void check_group(const struct job_spec *spec, struct codec_faults *faults)
{
    for (const char *at = spec->group_id; *at != '\0'; at++) {
        if ((unsigned char)*at >= 0x20 && *at != 0x7f)
            continue;
        codec_faults_add(faults, "/group_id", "must not hold control characters");
        return;
    }
}

static void check_builtin(const struct job_logic *logic, bool stateful, struct codec_faults *faults)
{
    bool known = false;
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        known = known || strcmp(builtins[i], logic->name) == 0;
    if (!known)
        codec_faults_add(faults, "/logic/name",
                         "must be one of \"count\", \"sum\", \"latest\", \"dedup\" for a built-in, "
                         "not \"%s\"",
                         logic->name);
    if (logic->version == NULL || strcmp(logic->version, BUILTIN_VERSION) != 0)
        codec_faults_add(faults, "/logic/version",
                         "must be \"" BUILTIN_VERSION "\" for a built-in, or absent");
    if (!stateful)
        codec_faults_add(faults, "/stateful",
                         "must be true for a built-in: all of them keep state");
}

static void check_logic(const struct job_spec *spec, struct codec_faults *faults)
{
    switch (spec->logic.kind) {
    case LOGIC_KIND_BUILTIN:
        check_builtin(&spec->logic, spec->stateful, faults);
        break;
    case LOGIC_KIND_PLUGIN:
        /* The two are parts of the file's name, <name>-<version>.so. */
        if (spec->logic.version == NULL)
            codec_faults_add(faults, "/logic/version", "is required for a plugin");
        else if (!schema_name_valid(spec->logic.version))
            codec_faults_add(faults, "/logic/version",
                             "must be 1 to 63 characters a-z, 0-9, \".\", \"_\" and \"-\" that "
                             "start with a letter or digit, for a plugin");
        break;
    case LOGIC_KIND_EXEC:
        codec_faults_add(faults, "/logic/kind",
                         "\"exec\" is not available in this version; use a plugin");
        break;
    }
}

static void check_errors(const struct job_spec *spec, struct codec_faults *faults)
{
    const char *topic = spec->dead_letter_topic;
    bool dead_letters = spec->on_error == ON_ERROR_DEAD_LETTER;
    if (dead_letters && topic == NULL)
        codec_faults_add(faults, "/dead_letter_topic",
                         "is required with \"on_error\": \"dead_letter\"");
    if (!dead_letters && topic != NULL)
        codec_faults_add(faults, "/dead_letter_topic",
                         "is used only with \"on_error\": \"dead_letter\"; leave it out otherwise");
    if (topic != NULL && is_input(spec, topic))
        codec_faults_add(faults, "/dead_letter_topic",
                         "must not be one of the inputs: the job would process its own refusals");
    if (topic != NULL && spec->output != NULL && strcmp(topic, spec->output) == 0)
        codec_faults_add(faults, "/dead_letter_topic",
                         "must differ from the output: readers could not tell the two apart");
}

static void check_counts(const struct job_spec *spec, struct codec_faults *faults)
{
    if (spec->max_processors != 0 && spec->max_processors < spec->processors)
        codec_faults_add(faults, "/max_processors",
                         "must be 0 or at least `processors` (%u), not %u", spec->processors,
                         spec->max_processors);
}

/* Settings that contradict each other, or that would be ignored in silence. */
static void check_settings(const struct job_spec *spec, struct codec_faults *faults)
{
    if (spec->start == START_COMMITTED && spec->reset_offsets)
        codec_faults_add(faults, "/reset_offsets",
                         "contradicts \"start\": \"committed\": one keeps the group's offsets, the "
                         "other overwrites them");
    if (!spec->stateful && spec->state_ttl_ms > 0)
        codec_faults_add(faults, "/state_ttl", "has no meaning with \"stateful\": false");
    if (spec->provenance && spec->output == NULL)
        codec_faults_add(faults, "/provenance",
                         "needs an output topic: it adds headers to the outputs");
}

enum err_code spec_check(const struct job_spec *spec, struct codec_faults *reterr_faults)
{
    size_t before = reterr_faults->count;
    bool was_full = codec_faults_full(reterr_faults);
    check_topics(spec, reterr_faults);
    check_group(spec, reterr_faults);
    check_logic(spec, reterr_faults);
    check_errors(spec, reterr_faults);
    check_counts(spec, reterr_faults);
    check_settings(spec, reterr_faults);
    return reterr_faults->count > before || was_full ? ERR_INVALID : ERR_NONE;
}

/* ---- what can not change */

static const char advice_recreate[] =
    "delete the job (its committed offsets stay) and create it anew: with \"start\": \"committed\" "
    "its state is rebuilt from what the topics hold and outputs go on where they stopped; with "
    "\"reset_offsets\": true all records are processed again";
static const char advice_creation[] =
    "it says how a job is created and can not be changed afterwards; send the value that the job "
    "was created with";

static const struct {
    const char *field;
    const char *advice;
} advices[] = {
    {"inputs", advice_recreate},
    {"output", advice_recreate},
    {"group_id", "the job's progress is kept under it; delete the job and create one with the new "
                 "group, where it starts as `start` says"},
    {"logic", advice_recreate},
    {"delivery", advice_recreate},
    {"stateful", advice_recreate},
    {"processors",
     "it is the number at creation, from which the placement of keys is computed; POST "
     ".../expansions makes more"},
    {"initial_partitions", advice_creation},
    {"partitioner", advice_creation},
    {"start", advice_creation},
    {"reset_offsets", advice_creation},
    {"interleaving", advice_creation},
    {"state_ttl", advice_recreate},
};

const char *spec_immutable_advice(const struct schema_field *field)
{
    assert(field->immutable);
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
        if (strcmp(advices[i].field, field->name) == 0)
            return advices[i].advice;
    assert(false && "every immutable field has an advice");
    return NULL;
}
