#include "agent/expiry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store.h"
#include "agent/task_table.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

/* After the first document, and between two looks; less where states are kept for less. */
#define PAUSE_MS_MAX (10 * 60000)

struct wanted {
    char *job;
    uint32_t processor;
};

struct expiry {
    const char *state_dir;
    int64_t age_ms, pause_ms;
    int64_t due_ms; /* 0: not known yet */
    bool running;
    atomic_bool ended;
    pthread_t thread;
    struct { /* as of the begin of the look; what is new since then is locked, or not old */
        struct wanted *items;
        size_t count, capacity;
    } wanted;
};

struct expiry *expiry_create(const char *state_dir, int64_t age_ms)
{
    struct expiry *expiry = mem_calloc(1, sizeof(*expiry));

    expiry->state_dir = state_dir;
    expiry->age_ms = age_ms;
    expiry->pause_ms = age_ms < PAUSE_MS_MAX ? age_ms : PAUSE_MS_MAX;
    atomic_init(&expiry->ended, false);
    return expiry;
}

static void forget_wanted(struct expiry *expiry)
{
    for (size_t i = 0; i < expiry->wanted.count; i++)
        free(expiry->wanted.items[i].job);
    expiry->wanted.count = 0;
}

static void join(struct expiry *expiry)
{
    (void)pthread_join(expiry->thread, NULL); /* it is joinable, and joined once */
    expiry->running = false;
    forget_wanted(expiry);
}

void expiry_destroy(struct expiry *expiry)
{
    if (expiry == NULL)
        return;
    if (expiry->running)
        join(expiry);
    free(expiry->wanted.items);
    free(expiry);
}

/* ---- in the thread */

static bool is_wanted(void *arg, const char *job, uint32_t processor)
{
    const struct expiry *expiry = arg;

    for (size_t i = 0; i < expiry->wanted.count; i++)
        if (expiry->wanted.items[i].processor == processor &&
            strcmp(expiry->wanted.items[i].job, job) == 0)
            return true;
    return false;
}

static void note_dropped(void *arg, const char *directory, int64_t idle_ms, uint64_t bytes)
{
    const struct expiry *expiry = arg;

    log_info("state_dropped", LOG_STR("state", directory), LOG_INT("unused_ms", idle_ms),
             LOG_INT("bytes", bytes), LOG_INT("state_retention_ms", expiry->age_ms), LOG_END);
}

static void note_failed(void *arg, const char *directory, const char *reason)
{
    (void)arg;
    log_warn("state_not_dropped", LOG_STR("state", directory), LOG_STR("detail", reason), LOG_END);
}

static void *look(void *arg)
{
    struct expiry *expiry = arg;
    const struct store_expire order = {.state_dir = expiry->state_dir,
                                       .now_at = clock_wall_ms(),
                                       .age_ms = expiry->age_ms,
                                       .wanted = is_wanted,
                                       .dropped = note_dropped,
                                       .failed = note_failed,
                                       .arg = expiry};

    store_expire(&order);
    atomic_store(&expiry->ended, true);
    return NULL;
}

/* ---- */

static void note_wanted(void *arg, const char *job, uint32_t processor)
{
    struct expiry *expiry = arg;

    expiry->wanted.items = mem_grow(expiry->wanted.items, expiry->wanted.count,
                                    &expiry->wanted.capacity, sizeof(struct wanted));
    expiry->wanted.items[expiry->wanted.count++] =
        (struct wanted){.job = mem_strdup(job), .processor = processor};
}

static void begin(struct expiry *expiry, const struct task_table *table)
{
    int result;

    task_table_list(table, note_wanted, expiry);
    atomic_store(&expiry->ended, false);
    result = pthread_create(&expiry->thread, NULL, look, expiry);
    expiry->running = result == 0;
    if (result == 0)
        return;
    log_warn("state_not_dropped", LOG_STR("detail", strerror(result)), LOG_END);
    forget_wanted(expiry);
}

void expiry_step(struct expiry *expiry, const struct task_table *table, int64_t now_ms)
{
    if (expiry->running && atomic_load(&expiry->ended))
        join(expiry);
    if (expiry->due_ms == 0)
        expiry->due_ms = now_ms + expiry->pause_ms;
    if (expiry->running || now_ms < expiry->due_ms)
        return;
    expiry->due_ms = now_ms + expiry->pause_ms;
    begin(expiry, table);
}
