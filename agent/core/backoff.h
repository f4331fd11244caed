/*
 * The pause before the next try: doubles from `min_ms` to `max_ms`, with jitter so that many agents
 * that lost the same coordinator do not come back in step. Pure: randomness comes from the caller.
 * Owned by one thread.
 */
#ifndef BATON_AGENT_CORE_BACKOFF_H
#define BATON_AGENT_CORE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t min_ms, max_ms; /* 1 <= min <= max */
    int64_t most_ms;        /* what max_ms was at first */
    int64_t next_ms;        /* before jitter; 0: the next failure is the first in a row */
};

void backoff_init(struct backoff *backoff, int64_t min_ms, int64_t max_ms);

/* Of agent_timeout: a coordinator that is back hears of an agent before it calls it lost. */
#define BACKOFF_SHARE 4

/* No pause is longer from now on, or than `min_ms` if that is more; never longer than at first. */
void backoff_limit(struct backoff *backoff, int64_t max_ms);

/* After a failure: how long to wait, between half and all of the doubled pause, never below 1 ms.
 */
int64_t backoff_next_ms(struct backoff *backoff, uint64_t random);

/* After a success. */
void backoff_reset(struct backoff *backoff);

#endif
