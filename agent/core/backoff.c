#include "agent/core/backoff.h"

#include <assert.h>

void backoff_init(struct backoff *backoff, int64_t min_ms, int64_t max_ms)
{
    assert(min_ms >= 1);
    assert(max_ms >= min_ms);
    *backoff = (struct backoff){.min_ms = min_ms, .max_ms = max_ms, .most_ms = max_ms};
}

void backoff_limit(struct backoff *backoff, int64_t max_ms)
{
    backoff->max_ms = max_ms > backoff->min_ms ? max_ms : backoff->min_ms;
    if (backoff->max_ms > backoff->most_ms)
        backoff->max_ms = backoff->most_ms;
    if (backoff->next_ms > backoff->max_ms)
        backoff->next_ms = backoff->max_ms;
}

int64_t backoff_next_ms(struct backoff *backoff, uint64_t random)
{
    int64_t pause_ms = backoff->next_ms == 0 ? backoff->min_ms : backoff->next_ms;
    backoff->next_ms = pause_ms > backoff->max_ms / 2 ? backoff->max_ms : pause_ms * 2;

    /* Half of it is certain, so that a row of small random numbers does not make a busy loop. */
    int64_t certain_ms = (pause_ms + 1) / 2;
    uint64_t choices = (uint64_t)(pause_ms - certain_ms) + 1;
    return certain_ms + (int64_t)(random % choices);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->next_ms = 0;
}
