/*
 * A bounded queue of pointers from many threads to one owner thread.
 *
 * The owner is the only one that receives. A message belongs to the mailbox from a successful post
 * until it is received; what is left when the mailbox is destroyed goes through `drop`. Posting
 * never blocks: a full mailbox refuses, and the sender answers its own client with "busy" (HTTP
 * 503) or retries later.
 *
 * Internally one mutex and one condition variable on the monotonic clock. Nothing may be called
 * under the lock.
 */
#ifndef BATON_COMMON_MAILBOX_H
#define BATON_COMMON_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mailbox;

/* capacity: 1..1,000,000 messages. drop may be NULL when messages own nothing. */
struct mailbox *mailbox_create(size_t capacity, void (*drop)(void *message));
void mailbox_destroy(struct mailbox *mailbox); /* NULL is fine; no other thread may still use it */

/* Any thread. False when full or closed: the message, never NULL, still belongs to the caller. */
bool mailbox_post(struct mailbox *mailbox, void *message) __attribute__((warn_unused_result));

/*
 * Any thread: takes a place that mailbox_post can not use, so that results of work which the owner
 * itself asked for are never refused (up to capacity further messages; more is the owner's mistake
 * and asserted). False only when closed.
 */
bool mailbox_post_reserved(struct mailbox *mailbox, void *message)
    __attribute__((warn_unused_result));

/*
 * Owner. Waits until a message is there or `deadline_mono_ms` (clock_mono_ms time) has passed; NULL
 * then. A closed mailbox with nothing queued does not wait, so that draining until NULL ends.
 */
void *mailbox_receive(struct mailbox *mailbox, int64_t deadline_mono_ms);

/* Any thread: makes the owner's present or next mailbox_receive return at once (with NULL when
 * nothing is queued). */
void mailbox_wake(struct mailbox *mailbox);

/* Any thread: posts are refused from now on; what is queued can still be received. */
void mailbox_close(struct mailbox *mailbox);

#endif
