/*
 * librdkafka's configuration as the agent uses it: what the operator passes through (kafka.*), and
 * what baton owns and refuses to be given. Any thread.
 */
#ifndef BATON_AGENT_KAFKA_CONF_H
#define BATON_AGENT_KAFKA_CONF_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/opts.h"

struct kafka_conf_item {
    const char *name;
    const char *value;
    bool optional; /* not known to every librdkafka that baton runs on: left out there */
    bool owned;    /* baton's own, set last: the operator can not change it. Else a default that
                      kafka.* overrides */
};

/*
 * Defaults first, then `kafka`, then what is owned. Logs of the client go to common/logger.h.
 * ERR_INVALID names the key. The caller owns the conf until it is given to rd_kafka_new.
 */
enum err_code kafka_conf_create(const struct kafka_conf_item *items, size_t count,
                                const struct opts_kafka *kafka, rd_kafka_conf_t **ret_conf,
                                struct err *reterr) MUSTCHECK;

/* Creates the client and takes `conf` in any case. */
enum err_code kafka_conf_client(rd_kafka_type_t type, rd_kafka_conf_t *conf,
                                rd_kafka_t **ret_client, struct err *reterr) MUSTCHECK;

#endif
