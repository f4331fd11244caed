/* KAFKA_CALL_FENCE: shuts out every producer that was initialised with a transactional.id before.
 */
#include <string.h>

#include "common/clock.h"
#include "coordinator/kafka_private.h"

#define FENCE_LIMIT_MS 30000 /* of one id */
#define INIT_SLICE_MS  1000

static enum err_code fail_init(struct err *reterr, rd_kafka_error_t *error, const char *id)
{
    enum err_code code =
        kafka_fail(reterr, rd_kafka_error_code(error), "%s: %s", id, rd_kafka_error_string(error));
    if (reterr != NULL && rd_kafka_error_is_retriable(error)) {
        reterr->retriable = true;
        reterr->code = code = ERR_UNAVAILABLE;
    }
    rd_kafka_error_destroy(error);
    return code;
}

/* A call that timed out goes on in librdkafka; the next one waits for the same answer. */
static enum err_code init_producer(struct kafka *kafka, rd_kafka_t *producer, const char *id,
                                   int64_t deadline_ms, struct err *reterr)
{
    for (;;) {
        int64_t left_ms = deadline_ms - clock_mono_ms();
        int slice_ms = left_ms < 1 ? 1 : left_ms < INIT_SLICE_MS ? (int)left_ms : INIT_SLICE_MS;
        rd_kafka_error_t *error = rd_kafka_init_transactions(producer, slice_ms);
        if (error == NULL)
            return ERR_NONE;
        bool again = rd_kafka_error_is_retriable(error) && !kafka_stopping(kafka) &&
                     clock_mono_ms() < deadline_ms;
        bool waited = rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__TIMED_OUT;
        if (!again || (!waited && !kafka_backoff(kafka, deadline_ms)))
            return fail_init(reterr, error, id);
        rd_kafka_error_destroy(error);
    }
}

enum err_code kafka_init_transactions(struct kafka *kafka, const char *transactional_id,
                                      int64_t deadline_ms, struct err *reterr)
{
    const struct kafka_property properties[] = {{"transactional.id", transactional_id},
                                                {"debug", "feature"}};
    rd_kafka_t *producer = NULL;
    enum err_code code =
        kafka_client_create(kafka, kafka->options, RD_KAFKA_PRODUCER, properties,
                            sizeof(properties) / sizeof(properties[0]), &producer, reterr);
    if (code != ERR_NONE)
        return code;
    code = init_producer(kafka, producer, transactional_id, deadline_ms, reterr);
    rd_kafka_destroy(producer);
    return code;
}

void kafka_fence(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    struct err err;
    for (size_t i = 0; i < call->transactional_ids.count; i++) {
        enum err_code code = kafka_init_transactions(kafka, call->transactional_ids.items[i],
                                                     clock_mono_ms() + FENCE_LIMIT_MS, &err);
        if (code != ERR_NONE) {
            kafka_result_fail(result, &err);
            return;
        }
    }
}
