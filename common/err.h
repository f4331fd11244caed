/*
 * The error that travels up: a code, a text for a person, and what the caller needs to know to go
 * on.
 *
 * A function that can fail returns `enum err_code` (ERR_NONE is 0) and fills the `reterr`
 * out-parameter on failure only; on success it leaves it untouched. Callers add context by
 * prefixing the text on the way up (err_prefix). The shell logs an error once, where it is handled.
 * `reterr` may be NULL for callers that only want the code.
 */
#ifndef BATON_COMMON_ERR_H
#define BATON_COMMON_ERR_H

#include <stdbool.h>

#define MUSTCHECK __attribute__((warn_unused_result))

enum err_code {
    ERR_NONE = 0,
    ERR_INVALID, /* bad input: says which field or key and what is allowed */
    ERR_NOT_FOUND,
    ERR_CONFLICT, /* the present state forbids it */
    ERR_STALE,    /* a precondition (ETag, version, epoch) is no longer true */
    ERR_LIMIT,    /* over a stated limit */
    ERR_IO,       /* disk or socket */
    ERR_CORRUPT,  /* stored data fails its checksum or its format */
    ERR_FOREIGN,  /* stored data belongs to another cluster, job or incarnation */
    ERR_LOCKED,   /* another process holds it */
    ERR_TIMEOUT,
    ERR_UNAVAILABLE, /* a peer or a broker can not be reached now */
    ERR_KAFKA,       /* the broker or the client library refused */
    ERR_FENCED,      /* a newer producer or epoch is at work: stop, produce nothing */
    ERR_HISTORY,     /* records that are needed are no longer in the topic */
    ERR_UNSUPPORTED, /* the peer, broker or library is too old or lacks it */
    ERR_PROTOCOL,    /* a peer's message is not of the agreed form */
    ERR_LOGIC,       /* the job's logic returned an error for a record */
    ERR_INTERNAL     /* our own mistake, survived */
};

#define ERR_TEXT_BYTES 512

struct err {
    enum err_code code;
    bool retriable; /* the same call may succeed later */
    bool fatal;     /* the object (producer, store, ...) is unusable: destroy it */
    bool abort_txn; /* the open Kafka transaction must be given up */
    int detail;     /* errno, SQLite or librdkafka code of the cause; 0 when there is none */
    /* UTF-8 (what is not becomes '?'), cut at a whole character when too long; ends with "..."
     * then. */
    char text[ERR_TEXT_BYTES];
};

/* Sets all of *reterr (flags false, detail 0); returns `code`. The text may be formatted from
 * reterr's own text. */
enum err_code err_set(struct err *reterr, enum err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Puts "<formatted>: " before the text; returns the code in *reterr. Without a reterr the code is
 * not known here: the answer is ERR_INTERNAL then, so a caller that allows NULL keeps and returns
 * its own code.
 */
enum err_code err_prefix(struct err *reterr, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A code's stable name in lower case with underscores ("not_found"); used in logs, never NULL. */
const char *err_name(enum err_code code);

#endif
