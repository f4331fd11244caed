/*
 * Speed of the store as a stateful job uses it: for each record a get and a put of a counter in
 * decimal text, with checkpoints as the cache fills. Prints one line a case; asserts what it
 * counted.
 *
 *   bench_store DIRECTORY [RECORDS [KEYS]]
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/store.h"
#include "common/clock.h"
#include "common/mem.h"

#define CACHE_BYTES (INT64_C(64) * 1024 * 1024)

struct bench {
    struct store *store;
    uint64_t records; /* so far */
    uint64_t checkpoints, waited_us;
};

static struct store *open_store(const char *directory, enum store_condition *ret_condition)
{
    const struct store_config config = {.directory = directory,
                                        .cache_bytes_max = CACHE_BYTES,
                                        .map_bytes_max = INT64_C(16) * 1024 * 1024 * 1024};
    const struct store_identity identity = {.cluster = "c",
                                            .job = "j",
                                            .job_incarnation = "i",
                                            .logic = "builtin/count/1",
                                            .boot_id = "b"};
    struct store *store = NULL;
    struct err error = {0};
    char reason[ERR_TEXT_BYTES] = "";

    if (store_open(&config, &identity, NULL, NULL, &store, ret_condition, reason, &error) !=
        ERR_NONE) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return store;
}

static void wait_flush(struct bench *bench)
{
    const int64_t start_us = clock_mono_us();
    struct err error = {0};

    if (store_flush_wait(bench->store, INT64_MAX, &error) != ERR_NONE) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    bench->waited_us += (uint64_t)(clock_mono_us() - start_us);
}

static void checkpoint(struct bench *bench)
{
    const struct store_position position = {.next_offset = (int64_t)bench->records};

    wait_flush(bench);
    if (!store_freeze(bench->store, &position, 1))
        abort();
    bench->checkpoints++;
}

static void count_record(struct bench *bench, uint64_t number)
{
    char key[32], text[24];
    const void *value = NULL;
    size_t bytes = 0;
    uint64_t count = 0;
    struct err error = {0};
    const int key_bytes = snprintf(key, sizeof(key), "customer-%010" PRIu64, number);
    const struct store_row row = {.key = key, .key_bytes = (size_t)key_bytes};
    enum err_code code = store_get(bench->store, row, INT64_MIN, &value, &bytes, &error);

    assert(code == ERR_NONE || code == ERR_NOT_FOUND);
    for (size_t i = 0; code == ERR_NONE && i < bytes; i++)
        count = count * 10 + (uint64_t)(((const char *)value)[i] - '0');
    bytes = (size_t)snprintf(text, sizeof(text), "%" PRIu64, count + 1);
    store_put(bench->store, row, 0, text, bytes);
    bench->records++;
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* `multiplier` spreads consecutive records over the keys. */
static void run(struct bench *bench, const char *name, uint64_t records, uint64_t keys)
{
    const double start = (double)clock_mono_us() / 1e6;
    const double cpu_start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    double took, cpu;

    bench->checkpoints = 0;
    bench->waited_us = 0;
    for (uint64_t i = 0; i < records; i++) {
        count_record(bench, i * UINT64_C(2654435761) % keys);
        if (store_is_full(bench->store))
            checkpoint(bench);
    }
    checkpoint(bench);
    wait_flush(bench);
    took = (double)clock_mono_us() / 1e6 - start;
    cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    printf("%-28s %9.0f upserts/s  %5.2f s  cpu %5.2f s  %3" PRIu64 " checkpoints, waited %.2f s\n",
           name, (double)records / took, took, cpu, bench->checkpoints,
           (double)bench->waited_us / 1e6);
}

int main(int argc, char **argv)
{
    const uint64_t records = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    const uint64_t keys = argc > 3 ? strtoull(argv[3], NULL, 10) : 500000;
    struct bench bench = {0};
    enum store_condition condition;
    uint64_t rows, bytes;
    int64_t start_us;

    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [RECORDS [KEYS]]\n", argv[0]);
        return 1;
    }
    bench.store = open_store(argv[1], &condition);
    run(&bench, "distinct keys, empty store", records, records);
    run(&bench, "the same keys again", records, records);
    run(&bench, "hot keys", 4 * records, keys);
    store_size(bench.store, &rows, &bytes);
    printf("rows %" PRIu64 ", file %" PRIu64 " bytes\n", rows, bytes);
    store_close(bench.store);
    start_us = clock_mono_us();
    bench.store = open_store(argv[1], &condition);
    printf("opened and checked in %.3f s (%s)\n", (double)(clock_mono_us() - start_us) / 1e6,
           condition == STORE_KEPT ? "kept" : "not kept");
    store_close(bench.store);
    return condition == STORE_KEPT ? 0 : 1;
}
