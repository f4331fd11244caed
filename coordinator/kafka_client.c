#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "common/logger.h"
#include "common/mem.h"
#include "coordinator/kafka_private.h"

/* librdkafka's threads. A broker that can not be reached is LOG_ERR there; it goes on by itself. */
static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    const struct kafka *kafka = client == NULL ? NULL : rd_kafka_opaque(client);
    if (kafka != NULL && kafka_versions_see(kafka->versions, facility, text))
        return;
    enum log_level as = level <= LOG_ERR      ? LOG_LEVEL_WARN
                        : level <= LOG_NOTICE ? LOG_LEVEL_INFO
                                              : LOG_LEVEL_DEBUG;
    log_write(as, "kafka_client", LOG_STR("facility", facility), LOG_STR("text", text), LOG_END);
}

/* librdkafka's threads. What went wrong is in the log already, by on_log; without this callback it
 * would be there twice. */
static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque)
{
    (void)client;
    (void)code;
    (void)reason;
    (void)opaque;
}

static enum err_code set(rd_kafka_conf_t *conf, const char *name, const char *value,
                         struct err *reterr)
{
    char text[256];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) == RD_KAFKA_CONF_OK)
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID, "kafka.%s: %s", name, text);
}

static enum err_code check_bootstrap(const rd_kafka_conf_t *conf, struct err *reterr)
{
    char value[8];
    size_t bytes = sizeof(value);
    if (rd_kafka_conf_get(conf, "bootstrap.servers", NULL, &bytes) == RD_KAFKA_CONF_OK && bytes > 1)
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID,
                   "kafka.bootstrap.servers: is required: addresses of some brokers, as host:port "
                   "separated by commas");
}

/* Ours over the operator's, but for `debug`, where ours is added: what they want to see is theirs
 * to say. */
static enum err_code set_owned(rd_kafka_conf_t *conf, const struct opts_kafka *options,
                               const struct kafka_property *property, struct err *reterr)
{
    const char *asked = NULL;
    for (size_t i = 0; i < options->count; i++) {
        if (strcmp(options->items[i].name, property->name) == 0)
            asked = options->items[i].value;
    }
    if (strcmp(property->name, "debug") != 0 || asked == NULL || asked[0] == '\0')
        return set(conf, property->name, property->value, reterr);
    char *both = mem_printf("%s,%s", asked, property->value);
    enum err_code code = set(conf, property->name, both, reterr);
    free(both);
    return code;
}

enum err_code kafka_client_create(struct kafka *kafka, const struct opts_kafka *options,
                                  rd_kafka_type_t type, const struct kafka_property *properties,
                                  size_t property_count, rd_kafka_t **ret_client,
                                  struct err *reterr)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_opaque(conf, kafka);
    enum err_code code = set(conf, "client.id", "baton-coordinator", reterr);
    for (size_t i = 0; i < options->count && code == ERR_NONE; i++)
        code = set(conf, options->items[i].name, options->items[i].value, reterr);
    if (code == ERR_NONE)
        code = check_bootstrap(conf, reterr);
    for (size_t i = 0; i < property_count && code == ERR_NONE; i++)
        code = set_owned(conf, options, &properties[i], reterr);
    if (code != ERR_NONE) {
        rd_kafka_conf_destroy(conf);
        return code;
    }

    char text[256];
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof(text));
    if (client == NULL) {
        rd_kafka_conf_destroy(conf); /* is the caller's when it fails */
        return err_set(reterr, ERR_INVALID, "kafka.*: %s", text);
    }
    *ret_client = client;
    return ERR_NONE;
}
