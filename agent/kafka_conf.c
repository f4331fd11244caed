#include "agent/kafka_conf.h"

#include "common/logger.h"

static enum err_code set(rd_kafka_conf_t *conf, const char *name, const char *value, bool optional,
                         struct err *reterr)
{
    char text[256];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, text, sizeof(text));

    if (result == RD_KAFKA_CONF_OK || (optional && result == RD_KAFKA_CONF_UNKNOWN))
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID, "kafka.%s: %s", name, text);
}

static enum err_code set_items(rd_kafka_conf_t *conf, const struct kafka_conf_item *items,
                               size_t count, bool owned, struct err *reterr)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i].owned != owned)
            continue;
        if (set(conf, items[i].name, items[i].value, items[i].optional, reterr) != ERR_NONE)
            return ERR_INVALID;
    }
    return ERR_NONE;
}

/* librdkafka's threads. Syslog levels: 3 and below are errors, 4 warnings, 5 and 6 informational.
 */
static void write_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    enum log_level as = level <= 3 ? LOG_LEVEL_WARN : level <= 6 ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;

    log_write(as, "kafka_client", LOG_STR("client", rd_kafka_name(client)),
              LOG_STR("facility", facility), LOG_STR("text", text), LOG_END);
}

enum err_code kafka_conf_create(const struct kafka_conf_item *items, size_t count,
                                const struct opts_kafka *kafka, rd_kafka_conf_t **ret_conf,
                                struct err *reterr)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    rd_kafka_conf_set_log_cb(conf, write_log);
    if (set_items(conf, items, count, false, reterr) != ERR_NONE)
        goto fail;
    for (size_t i = 0; i < kafka->count; i++) {
        if (set(conf, kafka->items[i].name, kafka->items[i].value, false, reterr) != ERR_NONE)
            goto fail;
    }
    if (set_items(conf, items, count, true, reterr) != ERR_NONE)
        goto fail;
    *ret_conf = conf;
    return ERR_NONE;
fail:
    rd_kafka_conf_destroy(conf);
    return ERR_INVALID;
}

enum err_code kafka_conf_client(rd_kafka_type_t type, rd_kafka_conf_t *conf,
                                rd_kafka_t **ret_client, struct err *reterr)
{
    char text[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof(text));

    if (client == NULL) {
        rd_kafka_conf_destroy(conf); /* a failed rd_kafka_new leaves it with the caller */
        return err_set(reterr, ERR_KAFKA, "Kafka client: %s", text);
    }
    *ret_client = client;
    return ERR_NONE;
}
