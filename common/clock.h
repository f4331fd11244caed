/*
 * Time for the shells. Monotonic time for durations and deadlines, wall time only for people and
 * for record timestamps. The cores never call these: time comes to them inside events.
 */
#ifndef BATON_COMMON_CLOCK_H
#define BATON_COMMON_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_thread_ms(void); /* that the calling thread has worked: it stands still with it */
int64_t clock_wall_ms(void);   /* milliseconds since 1970-01-01T00:00:00Z */

/* "2026-11-29T18:12:03.123Z"; `text` has room for 25 bytes. */
#define CLOCK_TEXT_BYTES 25
void clock_format(int64_t wall_ms, char text[CLOCK_TEXT_BYTES]);

#endif
