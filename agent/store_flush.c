/*
 * The flusher thread: writes one checkpoint, or removes a few rows, each time the owner asks.
 *
 *   IDLE --request--> REQUESTED --thread--> RUNNING --thread--> ENDED --take--> IDLE
 */
#include "agent/store_internal.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/hook.h"

/* ---- the thread -------------------------------------------------------------------------------
 */

static void run_work(struct store *store)
{
    struct store_flush_outcome *outcome = &store->flusher.outcome;
    bool removal = store->flusher.work == FLUSH_REMOVAL;
    int code;

    HOOK_AT(removal ? "remove_before" : "flush_before", "%s/%u", store->meta.job,
            store->meta.processor);
    *outcome = (struct store_flush_outcome){0};
    outcome->code = removal ? store_garbage_step(store, &outcome->error)
                            : store_checkpoint_write(store, &outcome->error);
    if (outcome->code != ERR_NONE)
        return;
    code = store_env_file_bytes(store->env, &outcome->file_bytes);
    assert(code == 0); /* fails for NULL only */
}

static void *flusher_main(void *arg)
{
    struct store *store = arg;
    struct store_flusher *flusher = &store->flusher;

    pthread_mutex_lock(&flusher->lock);
    for (;;) {
        while (flusher->phase != FLUSH_REQUESTED && !flusher->stop)
            pthread_cond_wait(&flusher->changed, &flusher->lock);
        if (flusher->phase != FLUSH_REQUESTED)
            break;
        flusher->phase = FLUSH_RUNNING;
        pthread_mutex_unlock(&flusher->lock);
        run_work(store);
        pthread_mutex_lock(&flusher->lock);
        flusher->phase = FLUSH_ENDED;
        pthread_cond_broadcast(&flusher->changed);
        pthread_mutex_unlock(&flusher->lock);
        if (store->wake != NULL)
            store->wake(store->wake_arg);
        pthread_mutex_lock(&flusher->lock);
    }
    pthread_mutex_unlock(&flusher->lock);
    return NULL;
}

static int start_thread(struct store *store)
{
    sigset_t all, old;
    int code;

    /* Signals are for the threads that expect them. */
    (void)sigfillset(&all);
    code = pthread_sigmask(SIG_SETMASK, &all, &old);
    if (code != 0)
        return code;
    code = pthread_create(&store->flusher.thread, NULL, flusher_main, store);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL); /* what was set before can be set again */
    if (code == 0)
        (void)pthread_setname_np(store->flusher.thread, "store-flush"); /* for people */
    return code;
}

enum err_code store_flush_start(struct store *store, struct err *reterr)
{
    struct store_flusher *flusher = &store->flusher;
    pthread_condattr_t attributes;
    int code;

    pthread_mutex_init(&flusher->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&flusher->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    code = start_thread(store);
    if (code != 0) {
        pthread_cond_destroy(&flusher->changed);
        pthread_mutex_destroy(&flusher->lock);
        return err_set(reterr, ERR_IO, "can not start the store's thread: %s", strerror(code));
    }
    flusher->started = true;
    return ERR_NONE;
}

void store_flush_stop(struct store *store)
{
    struct store_flusher *flusher = &store->flusher;

    if (!flusher->started)
        return;
    pthread_mutex_lock(&flusher->lock);
    flusher->stop = true;
    pthread_cond_broadcast(&flusher->changed);
    pthread_mutex_unlock(&flusher->lock);
    pthread_join(flusher->thread, NULL);
    pthread_cond_destroy(&flusher->changed);
    pthread_mutex_destroy(&flusher->lock);
    flusher->started = false;
}

/* ---- the owner's side -------------------------------------------------------------------------
 */

void store_flush_request(struct store *store, enum store_flush_work work)
{
    struct store_flusher *flusher = &store->flusher;

    pthread_mutex_lock(&flusher->lock);
    assert(flusher->phase == FLUSH_IDLE);
    flusher->phase = FLUSH_REQUESTED;
    flusher->work = work;
    pthread_cond_broadcast(&flusher->changed);
    pthread_mutex_unlock(&flusher->lock);
}

bool store_flush_take(struct store *store)
{
    struct store_flusher *flusher = &store->flusher;
    bool ended;

    pthread_mutex_lock(&flusher->lock);
    ended = flusher->phase == FLUSH_ENDED;
    if (ended)
        flusher->phase = FLUSH_IDLE;
    pthread_mutex_unlock(&flusher->lock);
    return ended;
}

bool store_flush_await(struct store *store, int64_t deadline_mono_ms)
{
    const struct timespec until = {.tv_sec = deadline_mono_ms / 1000,
                                   .tv_nsec = deadline_mono_ms % 1000 * 1000000};
    struct store_flusher *flusher = &store->flusher;
    int code = 0;
    bool ended;

    pthread_mutex_lock(&flusher->lock);
    while (code == 0 && (flusher->phase == FLUSH_REQUESTED || flusher->phase == FLUSH_RUNNING)) {
        if (deadline_mono_ms == INT64_MAX)
            code = pthread_cond_wait(&flusher->changed, &flusher->lock);
        else
            code = pthread_cond_timedwait(&flusher->changed, &flusher->lock, &until);
    }
    ended = flusher->phase == FLUSH_ENDED;
    pthread_mutex_unlock(&flusher->lock);
    return ended;
}

#ifdef BATON_TEST_HOOKS
void store_test_fail_flush(struct store *store, int code, unsigned times)
{
    pthread_mutex_lock(&store->flusher.lock);
    store->flusher.fail_code = code;
    store->flusher.fail_times = times;
    pthread_mutex_unlock(&store->flusher.lock);
}

void store_test_hold_flush(struct store *store, bool hold)
{
    pthread_mutex_lock(&store->flusher.lock);
    store->flusher.hold = hold;
    pthread_cond_broadcast(&store->flusher.changed);
    pthread_mutex_unlock(&store->flusher.lock);
}
#endif
