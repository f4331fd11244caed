#include "agent/kafka_conf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct kafka_conf_item items[] = {
    {"linger.ms", "7", false, false},
    {"client.id", "from-baton", false, false},
    {"isolation.level", "read_committed", false, true},
    {"fetch.no.such.property", "1", true, false},
    {"no.such.property.either", "1", true, true},
};

static enum err_code create(const struct opts_kafka *kafka, rd_kafka_conf_t **ret_conf,
                            struct err *reterr)
{
    return kafka_conf_create(items, sizeof(items) / sizeof(items[0]), kafka, ret_conf, reterr);
}

static struct opts_kafka one(const char *name, const char *value)
{
    struct opts_kafka kafka = {.count = 1};

    kafka.items = malloc(sizeof(*kafka.items));
    kafka.items[0].name = (char *)(uintptr_t)name;
    kafka.items[0].value = (char *)(uintptr_t)value;
    return kafka;
}

static void assert_value(const rd_kafka_conf_t *conf, const char *name, const char *expected)
{
    char value[256];
    size_t size = sizeof(value);

    cr_assert_eq(rd_kafka_conf_get(conf, name, value, &size), RD_KAFKA_CONF_OK);
    cr_assert_str_eq(value, expected);
}

Test(kafka_conf, defaults_hold_where_the_operator_says_nothing)
{
    struct opts_kafka kafka = {0};
    rd_kafka_conf_t *conf;

    cr_assert_eq(create(&kafka, &conf, NULL), ERR_NONE);
    assert_value(conf, "linger.ms", "7");
    assert_value(conf, "client.id", "from-baton");
    rd_kafka_conf_destroy(conf);
}

Test(kafka_conf, the_operator_wins_over_defaults_and_not_over_what_is_owned)
{
    struct opts_kafka kafka = one("client.id", "from-operator");
    struct opts_kafka owned = one("isolation.level", "read_uncommitted");
    rd_kafka_conf_t *conf;

    cr_assert_eq(create(&kafka, &conf, NULL), ERR_NONE);
    assert_value(conf, "client.id", "from-operator");
    rd_kafka_conf_destroy(conf);
    cr_assert_eq(create(&owned, &conf, NULL), ERR_NONE);
    assert_value(conf, "isolation.level", "read_committed");
    rd_kafka_conf_destroy(conf);
    free(kafka.items);
    free(owned.items);
}

Test(kafka_conf, names_the_property_that_librdkafka_does_not_know)
{
    struct opts_kafka kafka = one("lingering.ms", "1");
    rd_kafka_conf_t *conf;
    struct err err;

    cr_assert_eq(create(&kafka, &conf, &err), ERR_INVALID);
    cr_assert(strstr(err.text, "kafka.lingering.ms") != NULL, "%s", err.text);
    free(kafka.items);
}

Test(kafka_conf, names_the_property_whose_value_is_wrong)
{
    struct opts_kafka kafka = one("security.protocol", "carrier_pigeon");
    rd_kafka_conf_t *conf;
    struct err err;

    cr_assert_eq(create(&kafka, &conf, &err), ERR_INVALID);
    cr_assert(strstr(err.text, "kafka.security.protocol") != NULL, "%s", err.text);
    free(kafka.items);
}

Test(kafka_conf, passes_on_why_a_client_can_not_be_made)
{
    struct opts_kafka kafka = one("transaction.timeout.ms", "1000");
    rd_kafka_conf_t *conf;
    rd_kafka_t *client;
    struct err err;

    cr_assert_eq(create(&kafka, &conf, NULL), ERR_NONE);
    /* A message may not wait longer than its transaction: found only when all is put together. */
    cr_assert_eq(rd_kafka_conf_set(conf, "transactional.id", "t", NULL, 0), RD_KAFKA_CONF_OK);
    cr_assert_eq(rd_kafka_conf_set(conf, "message.timeout.ms", "5000", NULL, 0), RD_KAFKA_CONF_OK);
    cr_assert_eq(kafka_conf_client(RD_KAFKA_PRODUCER, conf, &client, &err), ERR_KAFKA);
    cr_assert(strstr(err.text, "message.timeout.ms") != NULL, "%s", err.text);
    free(kafka.items);
}

Test(kafka_conf, makes_a_client)
{
    struct opts_kafka kafka = {0};
    rd_kafka_conf_t *conf;
    rd_kafka_t *client;

    cr_assert_eq(create(&kafka, &conf, NULL), ERR_NONE);
    cr_assert_eq(kafka_conf_client(RD_KAFKA_CONSUMER, conf, &client, NULL), ERR_NONE);
    rd_kafka_destroy(client);
}
