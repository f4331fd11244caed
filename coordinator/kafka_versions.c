#include "coordinator/kafka_versions.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define BROKERS_MAX      1000
#define BROKER_BYTES_MAX 300
#define FACILITY         "APIVERSION"
#define VERSION_UNKNOWN  (-1)

/* The requests that Kafka 2.5 (KIP-447) gave the versions which exactly_once needs. */
static const struct {
    long key;
    const char *name;
    long version;
} needed[] = {
    {9, "OffsetFetch", 7},
    {22, "InitProducerId", 3},
    {28, "TxnOffsetCommit", 3},
};
#define NEEDED_COUNT (sizeof(needed) / sizeof(needed[0]))

struct broker {
    char *address;
    long version[NEEDED_COUNT]; /* highest that it offers */
};

struct kafka_versions {
    pthread_mutex_t lock; /* protects all below; nothing is called under it */
    struct broker *brokers;
    size_t count, capacity;
};

struct kafka_versions *kafka_versions_create(void)
{
    struct kafka_versions *versions = mem_calloc(1, sizeof(*versions));
    pthread_mutex_init(&versions->lock, NULL);
    return versions;
}

void kafka_versions_destroy(struct kafka_versions *versions)
{
    if (versions == NULL)
        return;
    for (size_t i = 0; i < versions->count; i++)
        free(versions->brokers[i].address);
    free(versions->brokers);
    pthread_mutex_destroy(&versions->lock);
    free(versions);
}

/* "[thrd:h:9092/1]: h:9092/1:   ApiKey ..." -> "h:9092", into `address`. */
static bool find_address(const char *text, const char *end, char address[BROKER_BYTES_MAX])
{
    const char *start = text;
    if (*text == '[') {
        start = strstr(text, "]: ");
        if (start == NULL || start >= end)
            return false;
        start += 3;
    }
    size_t bytes = strcspn(start, "/ ");
    if (bytes == 0 || bytes >= BROKER_BYTES_MAX || start + bytes > end)
        return false;
    memcpy(address, start, bytes);
    address[bytes] = '\0';
    return true;
}

/* "ApiKey OffsetFetch (9) Versions 0..8" -> 9 and 8. */
static bool parse_versions(const char *at, long *ret_key, long *ret_highest)
{
    const char *key = strchr(at, '(');
    const char *range = key == NULL ? NULL : strstr(key, ") Versions ");
    const char *dots = range == NULL ? NULL : strstr(range, "..");
    if (dots == NULL)
        return false;
    *ret_key = strtol(key + 1, NULL, 10);
    *ret_highest = strtol(dots + 2, NULL, 10);
    return true;
}

/* Under the lock; NULL when there are too many. */
static struct broker *find_broker(struct kafka_versions *versions, const char *address)
{
    for (size_t i = 0; i < versions->count; i++) {
        if (strcmp(versions->brokers[i].address, address) == 0)
            return &versions->brokers[i];
    }
    if (versions->count == BROKERS_MAX)
        return NULL;
    versions->brokers = mem_grow(versions->brokers, versions->count, &versions->capacity,
                                 sizeof(*versions->brokers));
    struct broker *broker = &versions->brokers[versions->count++];
    broker->address = mem_strdup(address);
    for (size_t i = 0; i < NEEDED_COUNT; i++)
        broker->version[i] = VERSION_UNKNOWN;
    return broker;
}

bool kafka_versions_see(struct kafka_versions *versions, const char *facility, const char *text)
{
    if (strcmp(facility, FACILITY) != 0)
        return false;
    const char *at = strstr(text, "ApiKey ");
    char address[BROKER_BYTES_MAX];
    long key = 0;
    long highest = 0;
    if (at == NULL || !parse_versions(at, &key, &highest) || !find_address(text, at, address))
        return true;
    for (size_t i = 0; i < NEEDED_COUNT; i++) {
        if (needed[i].key != key)
            continue;
        pthread_mutex_lock(&versions->lock);
        struct broker *broker = find_broker(versions, address);
        if (broker != NULL)
            broker->version[i] = highest;
        pthread_mutex_unlock(&versions->lock);
    }
    return true;
}

enum kafka_capability kafka_versions_transactions(struct kafka_versions *versions,
                                                  char **ret_detail)
{
    enum kafka_capability answer = KAFKA_CAPABILITY_UNKNOWN;
    char *detail = NULL;
    size_t asked = 0;
    pthread_mutex_lock(&versions->lock);
    for (size_t b = 0; b < versions->count && answer != KAFKA_CAPABILITY_NO; b++) {
        const struct broker *broker = &versions->brokers[b];
        for (size_t i = 0; i < NEEDED_COUNT; i++) {
            if (broker->version[i] >= needed[i].version)
                continue;
            answer = KAFKA_CAPABILITY_NO;
            detail =
                broker->version[i] == VERSION_UNKNOWN
                    ? mem_printf("broker %s does not offer %s", broker->address, needed[i].name)
                    : mem_printf("broker %s offers %s up to version %ld, %ld is needed",
                                 broker->address, needed[i].name, broker->version[i],
                                 needed[i].version);
            break;
        }
        asked++;
        if (answer == KAFKA_CAPABILITY_UNKNOWN)
            answer = KAFKA_CAPABILITY_YES;
    }
    pthread_mutex_unlock(&versions->lock);
    if (detail == NULL)
        detail = mem_printf("%zu brokers were asked for their protocol versions", asked);
    *ret_detail = detail;
    return answer;
}
