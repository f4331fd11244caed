#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/kafka_versions.h"

/* As librdkafka logs them: 2.0.2 and current ones alike. */
static void see(struct kafka_versions *versions, const char *broker, int key, int highest)
{
    char text[200];
    snprintf(text, sizeof(text), "[thrd:%s/bootstrap]: %s/1:   ApiKey Name (%d) Versions 0..%d",
             broker, broker, key, highest);
    cr_assert(kafka_versions_see(versions, "APIVERSION", text));
}

static void see_broker(struct kafka_versions *versions, const char *broker, int offset_fetch)
{
    see(versions, broker, 9, offset_fetch);
    see(versions, broker, 22, 5);
    see(versions, broker, 28, 5);
}

static void expect(struct kafka_versions *versions, enum kafka_capability wanted, const char *says)
{
    char *detail = NULL;
    cr_assert_eq(kafka_versions_transactions(versions, &detail), wanted, "%s", detail);
    cr_assert_not_null(strstr(detail, says), "%s", detail);
    free(detail);
}

/* Goal: nobody asked is not the same as nobody can. */
Test(kafka_versions, is_unknown_at_first)
{
    struct kafka_versions *versions = kafka_versions_create();
    expect(versions, KAFKA_CAPABILITY_UNKNOWN, "0 brokers");
    kafka_versions_destroy(versions);
}

Test(kafka_versions, knows_new_and_old_brokers)
{
    struct kafka_versions *versions = kafka_versions_create();
    see_broker(versions, "a:9092", 7);
    expect(versions, KAFKA_CAPABILITY_YES, "1 brokers");
    see_broker(versions, "b:9092", 6); /* Kafka 2.4 */
    expect(versions, KAFKA_CAPABILITY_NO, "b:9092 offers OffsetFetch up to version 6, 7 is needed");
    see_broker(versions, "b:9092", 8); /* upgraded: asked again at its next connection */
    expect(versions, KAFKA_CAPABILITY_YES, "2 brokers");
    see(versions, "c:9092", 9, 7); /* one that does not know the others at all */
    expect(versions, KAFKA_CAPABILITY_NO, "c:9092 does not offer InitProducerId");
    kafka_versions_destroy(versions);
}

/* Goal: other lines are left to the log, and strange ones change nothing. */
Test(kafka_versions, passes_other_lines_by)
{
    struct kafka_versions *versions = kafka_versions_create();
    cr_assert_not(kafka_versions_see(versions, "FAIL", "a:9092/1:   ApiKey X (9) Versions 0..1"));
    static const char *const strange[] = {"",
                                          "ApiKey",
                                          "ApiKey X (9)",
                                          "ApiKey X (9) Versions 7",
                                          "ApiKey X (9) Versions 0..9",
                                          "[thrd: ApiKey X (9"};
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
        cr_assert(kafka_versions_see(versions, "APIVERSION", strange[i]));
    expect(versions, KAFKA_CAPABILITY_UNKNOWN, "0 brokers");
    kafka_versions_destroy(versions);
}
