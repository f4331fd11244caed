/*
 * Options of a daemon as one table: name, type, unit, default, range. The help text, the sample
 * file and the reference in docs/ are printed from the table (`--help`,
 * `--print-options=sample|markdown`), so they can not disagree with it.
 *
 * Sources, later wins: defaults; the file given by `--config FILE`; `--name=value` or `--name
 * value` on the command line. The file has `name = value` lines like Kafka's own .properties files:
 * `#` or `!` starts a comment only as the first non-blank character, white space around name and
 * value is cut, the value is taken as it is otherwise (no quoting, no continuation, no inline
 * comments: passwords may hold any character). Lines are at most 64 KiB, the file at most 1 MiB.
 * Names that start with "kafka." need no entry: they are collected in order, for librdkafka to
 * judge.
 *
 * A name given twice in the file, an unknown name, a value out of range or of the wrong type is an
 * error that names the file, the line and the key, and says what is allowed. Why not a library:
 * Debian's inih cuts lines at 200 bytes and takes " ;" as a comment; libconfuse and libconfig need
 * quoting that breaks pasted Kafka properties.
 */
#ifndef BATON_COMMON_OPTS_H
#define BATON_COMMON_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

enum opts_type {
    OPTS_STRING,   /* char *, never NULL after opts_parse; min..max is its length in bytes */
    OPTS_INT,      /* int64_t */
    OPTS_DURATION, /* int64_t milliseconds; text is a whole number with ms, s, m, h or d ("30s") */
    OPTS_BYTES,    /* int64_t; text is a whole number, optionally with KiB, MiB or GiB */
    OPTS_BOOL,     /* bool; "true" or "false" */
    OPTS_CHOICE    /* int, index into `choices` */
};

struct opts_entry {
    const char *name;
    enum opts_type type;
    size_t offset;              /* of the field in the caller's options struct */
    const char *fallback;       /* default, as text; NULL: required */
    int64_t min, max;           /* inclusive; in the type's unit */
    const char *const *choices; /* NULL-terminated, for OPTS_CHOICE */
    bool secret;                /* never printed */
    const char *help;           /* one or two sentences */
};

struct opts_kafka { /* the kafka.* properties, without the prefix, later ones win */
    struct {
        char *name, *value;
    } * items;
    size_t count;
};

enum opts_outcome { OPTS_RUN, OPTS_EXIT /* help, version or a listing was printed: exit 0 */ };

/*
 * Fills `ret_options` (caller's struct, zeroed before) and `ret_kafka`. `program` and `version` are
 * for --help and
 * --version, which go to `out`. On failure everything set so far is freed; opts_finish is fine
 * after any outcome. A kafka.* property of the command line takes the file's out of the list and
 * comes after all of the file's, since librdkafka has aliases of which the last one set wins. At
 * most 1000 of them.
 */
enum err_code opts_parse(const struct opts_entry *table, size_t count, const char *program,
                         const char *version, int argc, char **argv, FILE *out, void *ret_options,
                         struct opts_kafka *ret_kafka, enum opts_outcome *ret_outcome,
                         struct err *reterr) MUSTCHECK;
void opts_finish(const struct opts_entry *table, size_t count, void *options,
                 struct opts_kafka *kafka);

/* "250ms", "10s", "5m", "2h", "7d": whole numbers, one unit, no sign; false when it is not of that
 * form or overflows. */
bool opts_duration_parse(const char *text, int64_t *ret_ms);

#endif
