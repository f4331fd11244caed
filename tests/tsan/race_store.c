/*
 * The store's two threads at work at the same time, for ThreadSanitizer (Criterion does not run
 * under it): reads, puts, iterations and all the questions about checkpoints while the flusher
 * writes, fails, is retried, and the map grows. Ends with 0 when the content is right; the
 * sanitizer says the rest.
 *
 *   race_store DIRECTORY
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/store_internal.h"
#include "common/clock.h"

#define KEYS   2000
#define ROUNDS 60

static int woken;

static void wake(void *arg)
{
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static struct store *open_store(const char *directory)
{
    const struct store_config config = {.directory = directory,
                                        .cache_bytes_max = 1024 * 1024,
                                        .map_bytes_max = INT64_C(1024) * 1024 * 1024,
                                        .state_ttl_ms = 1000000};
    const struct store_identity identity = {
        .cluster = "c", .job = "j", .job_incarnation = "i", .logic = "l", .boot_id = "b"};
    struct store *store = NULL;
    enum store_condition condition;
    char reason[ERR_TEXT_BYTES];
    struct err error = {0};

    if (store_open(&config, &identity, wake, &woken, &store, &condition, reason, &error) !=
        ERR_NONE)
        fprintf(stderr, "%s\n", error.text);
    return store;
}

static bool visit(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                  size_t value_bytes)
{
    (void)subkey;
    (void)subkey_bytes;
    *(uint64_t *)arg += value_bytes > 0 ? *(const unsigned char *)value : 0;
    return true;
}

static bool count_key(struct store *store, int number, int round, uint64_t *seen)
{
    char key[32];
    const uint64_t count = (uint64_t)round + 1;
    struct store_row row = {.key = key, .subkey = &number, .subkey_bytes = number % 3 == 0 ? 4 : 0};
    const void *value = NULL;
    size_t bytes = 0;
    uint64_t before = 0;
    enum err_code code;

    row.key_bytes = (size_t)snprintf(key, sizeof(key), "key-%d", number);
    code = store_get(store, row, INT64_MIN, &value, &bytes, NULL);
    if (code == ERR_NONE)
        memcpy(&before, value, sizeof(before));
    if (before != count - 1) {
        fprintf(stderr, "key %d: %" PRIu64 " in round %d\n", number, before, round);
        return false;
    }
    store_put(store, row, round, &count, sizeof(count));
    return number % 50 != 0 || store_iterate(store, row, INT64_MIN, visit, seen, NULL) == ERR_NONE;
}

static void ask_everything(struct store *store, const struct store_position *position)
{
    uint64_t rows, bytes;
    size_t count;
    struct err error;

    (void)store_positions(store, &count);
    store_size(store, &rows, &bytes);
    if (store_flush_state(store, &error) == STORE_FLUSH_FAILED)
        store_flush_retry(store);
    (void)!store_freeze(store, position, 1);
}

static bool run_round(struct store *store, int round, uint64_t *seen)
{
    const struct store_position position = {.next_offset = round, .record_time_ms = round};

    if (round % 7 == 3)
        store_test_fail_flush(store, 5 /* EIO */, 1);
    for (int number = 0; number < KEYS; number++) {
        if (!count_key(store, number, round, seen))
            return false;
        if (number % 400 == 0)
            ask_everything(store, &position);
    }
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seen = 0;
    int rounds = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 1;
    }
    for (int opens = 0; opens < 3; opens++) {
        struct store *store = open_store(argv[1]);
        const struct store_position position = {.next_offset = rounds};
        struct err error;

        if (store == NULL)
            return 1;
        for (int end = rounds + ROUNDS / 3; rounds < end; rounds++) {
            if (!run_round(store, rounds, &seen))
                return 1;
        }
        store_test_fail_flush(store, 0, 0);
        while (!store_freeze(store, &position, 1)) {
            if (store_flush_wait(store, clock_mono_ms() + 60000, &error) != ERR_NONE)
                store_flush_retry(store);
        }
        if (opens == 1) {
            store_put(store, (struct store_row){.key = "x", .key_bytes = 1}, 0, "x", 1);
            if (store_drop_live(store, &error) != ERR_NONE)
                return 1;
        }
        store_close(store);
    }
    printf("woken %d times, saw %" PRIu64 "\n", __atomic_load_n(&woken, __ATOMIC_SEQ_CST), seen);
    return 0;
}
