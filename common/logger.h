/*
 * One event per line in logfmt, to stderr: `ts=2026-11-29T18:12:03.123Z level=info
 * event=task_active job=orders processor=3 epoch=17 ...`. Only shells log; core and common code do
 * not. Never log the contents of records or secrets.
 *
 * Any thread may call; a line is written with one write(2) of at most PIPE_BUF (4096) bytes, so
 * lines never mix. A text over 1024 bytes is cut and ends with "..."; pairs that do not fit into
 * the line are left out, it ends with cut=true then. Nothing is allocated; errno is kept.
 *
 * Usage: log_info("task_active", LOG_STR("job", job), LOG_INT("processor", p), LOG_INT("epoch",
 * epoch), LOG_END); The helpers below expand to (key, kind, value) triples. Values are quoted and
 * escaped where logfmt needs it.
 */
#ifndef BATON_COMMON_LOGGER_H
#define BATON_COMMON_LOGGER_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

enum log_kind { LOG_KIND_END, LOG_KIND_STR, LOG_KIND_INT, LOG_KIND_DOUBLE, LOG_KIND_BOOL };

#define LOG_STR(key, value)    (key), (int)LOG_KIND_STR, (const char *)(value)
#define LOG_INT(key, value)    (key), (int)LOG_KIND_INT, (int64_t)(value)
#define LOG_DOUBLE(key, value) (key), (int)LOG_KIND_DOUBLE, (double)(value)
#define LOG_BOOL(key, value)   (key), (int)LOG_KIND_BOOL, (int)(value)
#define LOG_END                ((const char *)0)

/* Lines below `level` are dropped. Call before the first thread starts; default is info. */
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *event, ...);

#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

#endif
