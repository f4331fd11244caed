/*
 * What the brokers say they can do, by host and port.
 *
 * librdkafka asks every broker for its versions of the protocol's requests and has no call that
 * tells them, but it logs them one by one with `debug=feature` ("ApiKey OffsetFetch (9) Versions
 * 0..8"). Our log callback hands those lines to kafka_versions_see. Any thread.
 */
#ifndef BATON_COORDINATOR_KAFKA_VERSIONS_H
#define BATON_COORDINATOR_KAFKA_VERSIONS_H

#include <stdbool.h>

struct kafka_versions;

struct kafka_versions *kafka_versions_create(void);
void kafka_versions_destroy(struct kafka_versions *versions); /* NULL is fine */

/* True when the line was one of those: it need not be logged. */
bool kafka_versions_see(struct kafka_versions *versions, const char *facility, const char *text);

enum kafka_capability {
    KAFKA_CAPABILITY_UNKNOWN, /* no broker has said anything yet */
    KAFKA_CAPABILITY_YES,     /* all brokers that were asked */
    KAFKA_CAPABILITY_NO       /* at least one lacks it */
};

/*
 * Transactions that carry offsets with metadata and stable reads of them: Kafka 2.5 and newer
 * (KIP-447). `ret_detail` (free()) says for people what was found, whichever the answer.
 */
enum kafka_capability kafka_versions_transactions(struct kafka_versions *versions,
                                                  char **ret_detail);

#endif
