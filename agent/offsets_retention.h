/*
 * How long Kafka keeps the committed offsets of a group that has no members, as a job's never has:
 * the brokers' offsets.retention.minutes. What is not committed again by then is forgotten (D3.7).
 */
#ifndef BATON_AGENT_OFFSETS_RETENTION_H
#define BATON_AGENT_OFFSETS_RETENTION_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

#include "common/err.h"

/*
 * Asks all brokers that are there, at the same time, for `timeout_ms` at most twice over: it is a
 * group's coordinator whose setting counts, and any of them can be one. Gives the least that one
 * has said, in ms, above 0. Any thread. ERR_UNAVAILABLE: none has; the client's user may lack
 * DescribeConfigs on the cluster.
 */
enum err_code offsets_retention_ask(rd_kafka_t *client, int timeout_ms, int64_t *ret_retention_ms,
                                    struct err *reterr) MUSTCHECK;

#endif
