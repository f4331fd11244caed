#include "common/clock.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

/* 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: what four digits of a year can say. */
#define WALL_MS_MIN INT64_C(-62167219200000)
#define WALL_MS_MAX INT64_C(253402300799999)

static struct timespec now(clockid_t id)
{
    struct timespec time;
    int rc = clock_gettime(id, &time);
    assert(rc == 0); /* fails only for a clock that does not exist */
    return time;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

int64_t clock_mono_us(void)
{
    struct timespec time = now(CLOCK_MONOTONIC);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

int64_t clock_thread_ms(void)
{
    struct timespec time = now(CLOCK_THREAD_CPUTIME_ID);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int64_t clock_wall_ms(void)
{
    struct timespec time = now(CLOCK_REALTIME);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

void clock_format(int64_t wall_ms, char text[CLOCK_TEXT_BYTES])
{
    if (wall_ms < WALL_MS_MIN)
        wall_ms = WALL_MS_MIN;
    if (wall_ms > WALL_MS_MAX)
        wall_ms = WALL_MS_MAX;

    int64_t seconds = wall_ms / 1000;
    int64_t ms = wall_ms % 1000;
    if (ms < 0) { /* C rounds towards zero, time before 1970 must round down */
        ms += 1000;
        seconds--;
    }
    struct tm tm;
    time_t time = (time_t)seconds;
    struct tm *utc = gmtime_r(&time, &tm);
    assert(utc != NULL); /* fails only for years that do not fit an int */

    /* The remainders change nothing; they show the compiler that the text fits. */
    int length =
        snprintf(text, CLOCK_TEXT_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                 (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)(tm.tm_mon + 1) % 100u,
                 (unsigned)tm.tm_mday % 100u, (unsigned)tm.tm_hour % 100u,
                 (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u, (unsigned)ms % 1000u);
    assert(length == CLOCK_TEXT_BYTES - 1);
}
