#include "common/mailbox.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "common/rng.h"

#define NOW      0         /* a deadline that has passed */
#define FOR_EVER INT64_MAX /* a test that waits in vain is ended by the runner's time limit */

static int messages[4096]; /* their addresses are what is sent; number i is &messages[i] */

static void assert_received(struct mailbox *mailbox, int number)
{
    int *message = mailbox_receive(mailbox, NOW);
    cr_assert_not_null(message, "message %d is missing", number);
    cr_assert_eq(message - messages, number);
}

static void assert_empty(struct mailbox *mailbox)
{
    cr_assert_null(mailbox_receive(mailbox, NOW));
}

Test(mailbox, is_first_in_first_out)
{
    struct mailbox *mailbox = mailbox_create(3, NULL);
    assert_empty(mailbox);
    for (int i = 0; i < 3; i++)
        cr_assert(mailbox_post(mailbox, &messages[i]));
    for (int i = 0; i < 3; i++)
        assert_received(mailbox, i);
    assert_empty(mailbox);
    mailbox_destroy(mailbox);
}

Test(mailbox, refuses_when_full_and_takes_again)
{
    struct mailbox *mailbox = mailbox_create(2, NULL);
    cr_assert(mailbox_post(mailbox, &messages[0]));
    cr_assert(mailbox_post(mailbox, &messages[1]));
    cr_assert_not(mailbox_post(mailbox, &messages[2]));
    assert_received(mailbox, 0);
    cr_assert(mailbox_post(mailbox, &messages[3]));
    cr_assert_not(mailbox_post(mailbox, &messages[2]));
    assert_received(mailbox, 1);
    assert_received(mailbox, 3);
    mailbox_destroy(mailbox);
}

/* Reserved places and the others do not take from each other, and the order stays that of posting.
 */
Test(mailbox, reserved_places_are_apart)
{
    struct mailbox *mailbox = mailbox_create(2, NULL);
    cr_assert(mailbox_post_reserved(mailbox, &messages[0]));
    cr_assert(mailbox_post(mailbox, &messages[1]));
    cr_assert(mailbox_post(mailbox, &messages[2]));
    cr_assert_not(mailbox_post(mailbox, &messages[9]));
    cr_assert(mailbox_post_reserved(mailbox, &messages[3]));
    /* Goal: a reserved message that is taken out makes room for a reserved one only. */
    assert_received(mailbox, 0);
    cr_assert_not(mailbox_post(mailbox, &messages[9]));
    cr_assert(mailbox_post_reserved(mailbox, &messages[4]));
    for (int i = 1; i <= 4; i++)
        assert_received(mailbox, i);
    assert_empty(mailbox);
    mailbox_destroy(mailbox);
}

Test(mailbox, too_many_reserved_abort, .signal = SIGABRT)
{
    struct mailbox *mailbox = mailbox_create(1, NULL);
    cr_assert(mailbox_post_reserved(mailbox, &messages[0]));
    cr_assert(mailbox_post_reserved(mailbox, &messages[1]));
}

/* Random posts and receives against a plain list, long enough to go round the ring many times. */
Test(mailbox, equals_a_list)
{
    enum { CAPACITY = 3 };
    struct mailbox *mailbox = mailbox_create(CAPACITY, NULL);
    struct {
        int number;
        bool reserved;
    } list[2 * CAPACITY];
    size_t count = 0, count_reserved = 0;
    struct rng rng;

    rng_init(&rng, 3);
    for (int i = 0; i < 4096; i++) {
        bool reserved = rng_below(&rng, 2) == 0;
        if (rng_below(&rng, 5) < 2) {
            if (count == 0) {
                assert_empty(mailbox);
                continue;
            }
            assert_received(mailbox, list[0].number);
            count_reserved -= list[0].reserved;
            count--;
            memmove(&list[0], &list[1], count * sizeof(list[0]));
            continue;
        }
        bool room = (reserved ? count_reserved : count - count_reserved) < CAPACITY;
        if (reserved && !room)
            continue;
        bool accepted = reserved ? mailbox_post_reserved(mailbox, &messages[i])
                                 : mailbox_post(mailbox, &messages[i]);
        cr_assert_eq(accepted, room, "step %d", i);
        if (accepted) {
            list[count].number = i;
            list[count++].reserved = reserved;
            count_reserved += reserved;
        }
    }
    mailbox_destroy(mailbox);
}

Test(mailbox, waits_until_the_deadline)
{
    struct mailbox *mailbox = mailbox_create(1, NULL);
    int64_t deadline_ms = clock_mono_ms() + 30;
    cr_assert_null(mailbox_receive(mailbox, deadline_ms));
    cr_assert_geq(clock_mono_ms(), deadline_ms);
    cr_assert_null(mailbox_receive(mailbox, INT64_MIN));
    mailbox_destroy(mailbox);
}

Test(mailbox, a_wake_is_kept_for_the_next_receive_only, .timeout = 60)
{
    struct mailbox *mailbox = mailbox_create(1, NULL);
    mailbox_wake(mailbox);
    mailbox_wake(mailbox);
    cr_assert_null(mailbox_receive(mailbox, FOR_EVER));
    int64_t deadline_ms = clock_mono_ms() + 30;
    cr_assert_null(mailbox_receive(mailbox, deadline_ms));
    cr_assert_geq(clock_mono_ms(), deadline_ms);
    /* Goal: a message is no reason to wake once more. */
    cr_assert(mailbox_post(mailbox, &messages[0]));
    mailbox_wake(mailbox);
    cr_assert_eq(mailbox_receive(mailbox, FOR_EVER), (void *)&messages[0]);
    deadline_ms = clock_mono_ms() + 30;
    cr_assert_null(mailbox_receive(mailbox, deadline_ms));
    cr_assert_geq(clock_mono_ms(), deadline_ms);
    mailbox_destroy(mailbox);
}

Test(mailbox, a_closed_one_is_drained, .timeout = 60)
{
    struct mailbox *mailbox = mailbox_create(2, NULL);
    cr_assert(mailbox_post(mailbox, &messages[0]));
    cr_assert(mailbox_post_reserved(mailbox, &messages[1]));
    mailbox_close(mailbox);
    cr_assert_not(mailbox_post(mailbox, &messages[2]));
    cr_assert_not(mailbox_post_reserved(mailbox, &messages[3]));
    assert_received(mailbox, 0);
    assert_received(mailbox, 1);
    cr_assert_null(mailbox_receive(mailbox, FOR_EVER));
    cr_assert_null(mailbox_receive(mailbox, FOR_EVER));
    mailbox_destroy(mailbox);
}

static size_t dropped_count;

static void count_drop(void *message)
{
    *(int *)message += 1;
    dropped_count++;
}

Test(mailbox, destroy_drops_what_is_left_once)
{
    struct mailbox *mailbox = mailbox_create(3, count_drop);
    for (int i = 0; i < 3; i++)
        cr_assert(mailbox_post(mailbox, &messages[i]));
    cr_assert_not(mailbox_post(mailbox, &messages[5]));
    cr_assert(mailbox_post_reserved(mailbox, &messages[3]));
    assert_received(mailbox, 0);
    mailbox_destroy(mailbox);
    cr_assert_eq(dropped_count, 3);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(messages[i], i >= 1 && i <= 3, "message %d was dropped %d times", i,
                     messages[i]);
    mailbox_destroy(NULL);
}

#define WRITERS             4
#define MESSAGES_PER_WRITER (4096 / WRITERS)

struct writer {
    pthread_t thread;
    struct mailbox *mailbox;
    int first;
};

static void *post_all(void *context)
{
    struct writer *writer = context;
    for (int i = 0; i < MESSAGES_PER_WRITER; i++) {
        while (!mailbox_post(writer->mailbox, &messages[writer->first + i]))
            (void)sched_yield(); /* full: the owner needs the processor */
    }
    return NULL;
}

/* A small mailbox, so that it is full and empty again and again. Each message arrives once, each
 * writer's in order. */
Test(mailbox, many_writers_lose_nothing, .timeout = 60)
{
    struct mailbox *mailbox = mailbox_create(5, NULL);
    struct writer writers[WRITERS];
    int next[WRITERS] = {0};

    for (int w = 0; w < WRITERS; w++) {
        writers[w] = (struct writer){.mailbox = mailbox, .first = w * MESSAGES_PER_WRITER};
        cr_assert_eq(pthread_create(&writers[w].thread, NULL, post_all, &writers[w]), 0);
    }
    for (int i = 0; i < WRITERS * MESSAGES_PER_WRITER; i++) {
        int *message = mailbox_receive(mailbox, FOR_EVER);
        cr_assert_not_null(message);
        int number = (int)(message - messages);
        int w = number / MESSAGES_PER_WRITER;
        cr_assert_eq(number % MESSAGES_PER_WRITER, next[w]++);
    }
    for (int w = 0; w < WRITERS; w++)
        cr_assert_eq(pthread_join(writers[w].thread, NULL), 0);
    assert_empty(mailbox);
    mailbox_destroy(mailbox);
}

struct pair {
    struct mailbox *to, *back;
};

static void *answer_all(void *context)
{
    struct pair *pair = context;
    void *message;
    while ((message = mailbox_receive(pair->to, FOR_EVER)) != NULL)
        cr_assert(mailbox_post(pair->back, message));
    mailbox_close(pair->back);
    return NULL;
}

/*
 * Two threads that each wait for the other: at nearly every step one is asleep in receive, so a
 * lost wake-up hangs. In the end closing must wake the sleeper.
 */
Test(mailbox, posts_and_closing_wake_a_sleeping_owner, .timeout = 60)
{
    struct pair pair = {mailbox_create(1, NULL), mailbox_create(1, NULL)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, answer_all, &pair), 0);
    for (int i = 0; i < 2000; i++) {
        cr_assert(mailbox_post(pair.to, &messages[i]));
        cr_assert_eq(mailbox_receive(pair.back, FOR_EVER), (void *)&messages[i]);
    }
    mailbox_close(pair.to);
    cr_assert_null(mailbox_receive(pair.back, FOR_EVER));
    cr_assert_eq(pthread_join(thread, NULL), 0);
    mailbox_destroy(pair.to);
    mailbox_destroy(pair.back);
}

static void *wake_back_all(void *context)
{
    struct pair *pair = context;
    for (int i = 0; i < 2000; i++) {
        cr_assert_null(mailbox_receive(pair->to, FOR_EVER));
        mailbox_wake(pair->back);
    }
    return NULL;
}

Test(mailbox, waking_wakes_a_sleeping_owner, .timeout = 60)
{
    struct pair pair = {mailbox_create(1, NULL), mailbox_create(1, NULL)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, wake_back_all, &pair), 0);
    for (int i = 0; i < 2000; i++) {
        mailbox_wake(pair.to);
        cr_assert_null(mailbox_receive(pair.back, FOR_EVER));
    }
    cr_assert_eq(pthread_join(thread, NULL), 0);
    mailbox_destroy(pair.to);
    mailbox_destroy(pair.back);
}
