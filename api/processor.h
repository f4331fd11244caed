/*
 * The C interface of a job's logic (installed as <baton/processor.h>). Licence: Apache-2.0.
 *
 * A plugin is a shared object in the agent's plugin folder, `<plugin_dir>/<name>-<version>.so`,
 * that exports
 *
 *     const struct baton_processor *baton_processor_entry(void);
 *
 * The built-in logics are written against this same interface.
 *
 * The contract, which exactly-once rests on:
 *   - process() is a deterministic function of (state of the record's key, record, config). No
 *     clock, no randomness, no I/O, no memory of earlier records outside the state. The state is
 *     rebuilt on other hosts by calling process() again for the same records, with the outputs
 *     discarded.
 *   - State belongs to the record's key. get/put/delete/iterate see only rows of that key.
 *   - An error returned by process() is part of the function: it repeats in every replay. The
 *     agent undoes the state changes and outputs of that call, then follows the job's `on_error`
 *     (halt, skip, dead_letter).
 *   - process() of one instance is called by one thread at a time; several instances live in one
 *     process (one a task), so no mutable globals without a lock.
 */
#ifndef BATON_PROCESSOR_H
#define BATON_PROCESSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BATON_PROCESSOR_ABI 1

/*
 * Limits; calls over them return BATON_PROCESSOR_LIMIT and change nothing. What one process() call
 * puts, deletes and emits counts together, with BATON_CALL_OVERHEAD_BYTES for each of these calls
 * and for each header.
 */
#define BATON_SUBKEY_BYTES_MAX      1024
#define BATON_STATE_VALUE_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define BATON_OUTPUT_BYTES_MAX                                                                     \
    ((size_t)64 * 1024 * 1024) /* key, value and own headers of one output */
#define BATON_CALL_BYTES_MAX      ((size_t)256 * 1024 * 1024)
#define BATON_CALL_OVERHEAD_BYTES 64

enum baton_status {
    BATON_PROCESSOR_OK = 0,
    BATON_PROCESSOR_NOT_FOUND = 1, /* get: no such row */
    BATON_PROCESSOR_STOP = 2,      /* an iteration's visitor wants no more rows */
    BATON_PROCESSOR_ERROR = -1,    /* the logic refuses this record; the text says why */
    BATON_PROCESSOR_LIMIT = -2,    /* argument over a limit, or null where that is not allowed */
    BATON_PROCESSOR_IO = -3        /* the state can not be read: return it, the task stops */
};

struct baton_bytes {
    const void *data; /* NULL means null (not empty): a tombstone value, an absent key */
    size_t bytes;
};

struct baton_header {
    const char *name;
    struct baton_bytes value;
};

struct baton_record {
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* of the record, as Kafka stores it; -1 when it has none */
    struct baton_bytes key;
    struct baton_bytes value;
    const struct baton_header *headers;
    size_t header_count;
};

/*
 * An output. NULL headers and header_count 0: the input's headers are passed on; for none at all
 * let `headers` point to anything and header_count be 0. Timestamp is always the input's. Copied by
 * emit, like the arguments of put and del.
 */
struct baton_output {
    struct baton_bytes key;   /* data NULL: no key */
    struct baton_bytes value; /* data NULL: a tombstone */
    const struct baton_header *headers;
    size_t header_count;
};

/*
 * What process() may call, only during the call, in its own thread, with the context it was given;
 * otherwise they return ERROR and do nothing. `subkey` separates rows of one key (bytes 0: the main
 * row). A pointer handed out by get is valid until the next call on the context and may be an
 * argument of that; one handed to a visitor until it returns. They are not aligned for anything but
 * bytes, and never NULL for a row that is there. After IO every further call returns IO.
 */
struct baton_context;
struct baton_operations {
    enum baton_status (*get)(struct baton_context *context, struct baton_bytes subkey,
                             struct baton_bytes *ret_value);
    /* A value may be empty but not null: del removes a row. */
    enum baton_status (*put)(struct baton_context *context, struct baton_bytes subkey,
                             struct baton_bytes value);
    /* OK when there was none. */
    enum baton_status (*del)(struct baton_context *context, struct baton_bytes subkey);
    /*
     * All rows of the key in the order of their subkeys (bytewise), with the changes of this call.
     * The visitor must not call the context; it returns OK to go on, STOP to end (iterate returns
     * OK), or another status that iterate returns.
     */
    enum baton_status (*iterate)(struct baton_context *context,
                                 enum baton_status (*visit)(void *arg, struct baton_bytes subkey,
                                                            struct baton_bytes value),
                                 void *arg);
    /* ERROR when the job has no output topic: then the record fails, whatever process() returns. */
    enum baton_status (*emit)(struct baton_context *context, const struct baton_output *output);
};
struct baton_context {
    const struct baton_operations *operations;
};

/* What a plugin exports; the attribute is for builds with -fvisibility=hidden. */
#define BATON_PROCESSOR_EXPORT __attribute__((visibility("default")))

struct baton_processor {
    uint32_t abi;        /* BATON_PROCESSOR_ABI */
    uint32_t flags;      /* BATON_PROCESSOR_* bits below */
    const char *name;    /* must equal the file's name part */
    const char *version; /* must equal the file's version part and the job's logic.version */

    /*
     * Makes an instance from `config`, the job's logic.config as compact JSON text ("{}" when
     * absent). On failure returns ERROR and writes a text (NUL-terminated, cut to `error_bytes`)
     * that says which config key is wrong and what is allowed. An instance may be NULL when the
     * logic needs none; destroy then gets NULL.
     */
    enum baton_status (*create)(const char *config, void **ret_instance, char *error,
                                size_t error_bytes);
    enum baton_status (*process)(void *instance, const struct baton_record *record,
                                 struct baton_context *context, char *error, size_t error_bytes);
    void (*destroy)(void *instance);
};

/*
 * The newest record of a key suffices to rebuild its state, so compacted topics are complete
 * history (as for `latest`).
 */
#define BATON_PROCESSOR_REBUILD_FROM_LATEST UINT32_C(1)

/* Defined by a plugin, not by the agent. May be called more than once; always returns the same. */
BATON_PROCESSOR_EXPORT const struct baton_processor *baton_processor_entry(void);

#ifdef __cplusplus
}
#endif

#endif
