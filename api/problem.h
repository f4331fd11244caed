/*
 * The one list of codes that users meet: problem bodies of the HTTP API (RFC 9457) and named
 * problems of jobs (D3.12). docs/operations.md has a section for each, and a test holds the two
 * equal. Pure; any thread.
 */
#ifndef BATON_API_PROBLEM_H
#define BATON_API_PROBLEM_H

#include <stdbool.h>

#include "api/codec_faults.h"
#include "api/types.h"

struct problem_entry {
    const char *code;
    uint32_t status;                /* HTTP status when it answers a request; 0: never does */
    bool of_job;                    /* may be a named problem of a job */
    enum problem_severity severity; /* when it is one */
    const char *title;
    const char *action; /* what to do */
};

/* Never NULL: an unknown code is our own mistake. problem_lookup is for codes that a peer sent. */
const struct problem_entry *problem_find(const char *code);
const struct problem_entry *problem_lookup(const char *code); /* NULL: unknown */
const struct problem_entry *problem_at(size_t index);         /* NULL past the end: to list them */

/*
 * A body for `code`: title, type and status from the list; detail is formatted, cut at
 * API_TEXT_BYTES_MAX. Free with schema_free(&schema_problem_body).
 */
void problem_body(struct problem_body *ret_body, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Moves the faults into the body's errors; `faults` is empty afterwards. */
void problem_take_faults(struct problem_body *body, struct codec_faults *faults);

#endif
