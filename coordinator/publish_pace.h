/*
 * When the view for readers is published anew: pure, on the times that it is given.
 *
 * Observations wait up to 100 ms. Decisions are published at once, but after a pause of four times
 * the work that the view before took, so that publishing never keeps the owner thread busy. An
 * answer to a client of the API waits for no pause: who reads after it finds the decisions that it
 * tells of, its own and those before, as the end of an operation that it waited for.
 */
#ifndef BATON_COORDINATOR_PUBLISH_PACE_H
#define BATON_COORDINATOR_PUBLISH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/update.h"

struct publish_pace { /* all zero: nothing was published yet */
    bool urgent;      /* a decision waits to be published */
    int64_t published_ms, took_ms;
};

/* Looks at what a step did. True: it is to be published now, before its answers are given. */
bool publish_pace_see(struct publish_pace *pace, const struct update *update);

/* When what waits is to be published, on the clock of the times given. */
int64_t publish_pace_due_ms(const struct publish_pace *pace);

/* `took_ms`: of the thread's own time, for what the machine stands still is no work. */
void publish_pace_done(struct publish_pace *pace, int64_t took_ms, int64_t now_ms);

#endif
