#include "coordinator/core/update.h"

#include <stdlib.h>

#include "api/schema.h"
#include "common/mem.h"

void update_change(struct update *update, struct cluster *cluster, struct change *change)
{
    update->changes.items = mem_grow(update->changes.items, update->changes.count,
                                     &update->changes.capacity, sizeof(struct change));
    update->changes.items[update->changes.count++] = *change;
    struct change copy;
    change_copy(&copy, change);
    *change = (struct change){0};
    cluster_apply(cluster, &copy);
}

static void finish_offsets(struct kafka_offset *offsets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(offsets[i].metadata);
    free(offsets);
}

static void finish_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

void kafka_call_finish(struct kafka_call *call)
{
    free(call->job);
    free(call->group_id);
    finish_texts(call->inputs.items, call->inputs.count);
    free(call->output);
    free(call->dead_letter);
    finish_offsets(call->offsets.items, call->offsets.count);
    finish_texts(call->transactional_ids.items, call->transactional_ids.count);
    finish_texts(call->groups.items, call->groups.count);
    *call = (struct kafka_call){0};
}

static void finish_topic(struct kafka_topic *topic)
{
    free(topic->name);
    for (size_t i = 0; i < topic->partitions.count; i++)
        free(topic->partitions.items[i].metadata);
    free(topic->partitions.items);
}

void kafka_result_finish(struct kafka_result *result)
{
    struct kafka_inspection *inspection = &result->inspection;
    free(result->job);
    free(result->detail);
    for (size_t i = 0; i < inspection->inputs.count; i++)
        finish_topic(&inspection->inputs.items[i]);
    free(inspection->inputs.items);
    finish_topic(&inspection->output);
    finish_topic(&inspection->dead_letter);
    free(inspection->broker_detail);
    free(inspection->group_who);
    free(inspection->group_state);
    finish_offsets(result->committed.items, result->committed.count);
    for (size_t i = 0; i < result->groups.count; i++) {
        free(result->groups.items[i].group_id);
        free(result->groups.items[i].who);
        free(result->groups.items[i].error);
    }
    free(result->groups.items);
    *result = (struct kafka_result){0};
}

void answer_finish(struct answer *answer)
{
    if (answer->body != NULL)
        schema_free(answer->type, answer->body);
    free(answer->body);
    free(answer->location);
    *answer = (struct answer){0};
}

void update_finish(struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++)
        change_finish(&update->changes.items[i]);
    free(update->changes.items);
    for (size_t i = 0; i < update->calls.count; i++)
        kafka_call_finish(&update->calls.items[i]);
    free(update->calls.items);
    for (size_t i = 0; i < update->answers.count; i++)
        answer_finish(&update->answers.items[i]);
    free(update->answers.items);
    *update = (struct update){0};
}
