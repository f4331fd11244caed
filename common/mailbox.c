#include "common/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/mem.h"

#define CAPACITY_MAX 1000000

struct slot {
    void *message;
    bool reserved;
};

struct mailbox {
    void (*drop)(void *message);
    size_t capacity; /* of posts, and the same again of reserved posts */

    pthread_mutex_t lock; /* protects all below; nothing is called under it */
    pthread_cond_t changed;
    struct slot *slots; /* a ring of 2 x capacity */
    size_t first;
    size_t count;          /* of both kinds */
    size_t count_reserved; /* of these */
    bool closed;
    bool woken;
};

/* pthread calls on our own valid objects fail only by our own mistake, or without memory at
 * creation. */
static void check(int rc)
{
    assert(rc == 0);
}

struct mailbox *mailbox_create(size_t capacity, void (*drop)(void *message))
{
    assert(capacity >= 1);
    assert(capacity <= CAPACITY_MAX);
    struct mailbox *mailbox = mem_calloc(1, sizeof(*mailbox));
    mailbox->drop = drop;
    mailbox->capacity = capacity;
    mailbox->slots = mem_calloc(2 * capacity, sizeof(*mailbox->slots));

    pthread_condattr_t attr;
    check(pthread_condattr_init(&attr));
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    check(pthread_cond_init(&mailbox->changed, &attr));
    check(pthread_condattr_destroy(&attr));
    check(pthread_mutex_init(&mailbox->lock, NULL));
    return mailbox;
}

/* Under the lock, with a message queued. */
static void *take_first(struct mailbox *mailbox)
{
    struct slot slot = mailbox->slots[mailbox->first];
    mailbox->first = (mailbox->first + 1) % (2 * mailbox->capacity);
    mailbox->count--;
    if (slot.reserved)
        mailbox->count_reserved--;
    return slot.message;
}

void mailbox_destroy(struct mailbox *mailbox)
{
    if (mailbox == NULL)
        return;
    /* No other thread is left, so the lock is not needed and drop may do what it likes. */
    while (mailbox->count > 0) {
        void *message = take_first(mailbox);
        if (mailbox->drop != NULL)
            mailbox->drop(message);
    }
    check(pthread_cond_destroy(&mailbox->changed));
    check(pthread_mutex_destroy(&mailbox->lock));
    free(mailbox->slots);
    free(mailbox);
}

/* Under the lock, with room. */
static void put_last(struct mailbox *mailbox, void *message, bool reserved)
{
    size_t index = (mailbox->first + mailbox->count) % (2 * mailbox->capacity);
    mailbox->slots[index] = (struct slot){.message = message, .reserved = reserved};
    mailbox->count++;
    if (reserved)
        mailbox->count_reserved++;
}

bool mailbox_post(struct mailbox *mailbox, void *message)
{
    assert(message != NULL);
    check(pthread_mutex_lock(&mailbox->lock));
    bool accepted =
        !mailbox->closed && mailbox->count - mailbox->count_reserved < mailbox->capacity;
    if (accepted)
        put_last(mailbox, message, false);
    check(pthread_mutex_unlock(&mailbox->lock));
    if (accepted)
        check(pthread_cond_signal(&mailbox->changed));
    return accepted;
}

bool mailbox_post_reserved(struct mailbox *mailbox, void *message)
{
    assert(message != NULL);
    check(pthread_mutex_lock(&mailbox->lock));
    bool accepted = !mailbox->closed;
    if (accepted) {
        assert(mailbox->count_reserved < mailbox->capacity);
        put_last(mailbox, message, true);
    }
    check(pthread_mutex_unlock(&mailbox->lock));
    if (accepted)
        check(pthread_cond_signal(&mailbox->changed));
    return accepted;
}

void *mailbox_receive(struct mailbox *mailbox, int64_t deadline_mono_ms)
{
    if (deadline_mono_ms < 0)
        deadline_mono_ms = 0;
    struct timespec deadline = {.tv_sec = (time_t)(deadline_mono_ms / 1000),
                                .tv_nsec = (long)(deadline_mono_ms % 1000) * 1000000};
    void *message = NULL;
    int rc = 0;

    check(pthread_mutex_lock(&mailbox->lock));
    while (mailbox->count == 0 && !mailbox->woken && !mailbox->closed && rc == 0)
        rc = pthread_cond_timedwait(&mailbox->changed, &mailbox->lock, &deadline);
    assert(rc == 0 || rc == ETIMEDOUT);
    if (mailbox->count > 0)
        message = take_first(mailbox);
    mailbox->woken = false;
    check(pthread_mutex_unlock(&mailbox->lock));
    return message;
}

void mailbox_wake(struct mailbox *mailbox)
{
    check(pthread_mutex_lock(&mailbox->lock));
    mailbox->woken = true;
    check(pthread_mutex_unlock(&mailbox->lock));
    check(pthread_cond_signal(&mailbox->changed));
}

void mailbox_close(struct mailbox *mailbox)
{
    check(pthread_mutex_lock(&mailbox->lock));
    mailbox->closed = true;
    check(pthread_mutex_unlock(&mailbox->lock));
    check(pthread_cond_signal(&mailbox->changed));
}
