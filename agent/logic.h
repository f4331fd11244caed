/*
 * The logic of one task: finds it (built-in or plugin), holds its instance, and runs it on one record with undo.
 *
 * Owned and called by the task's thread. The plugin folder is the agent's own: names and versions are checked against
 * [a-z0-9][a-z0-9._-]{0,63} before a path is built, the file must be a regular file owned by root or the agent's user and
 * not writable by others.
 *
 * logic_apply gathers the state changes and outputs of one process() call and hands them on only when the call succeeded,
 * so an error leaves no trace in the state.
 */
#ifndef BATON_AGENT_LOGIC_H
#define BATON_AGENT_LOGIC_H

#include <stdbool.h>

#include "api/processor.h"
#include "common/err.h"

struct logic;
struct store;

enum logic_kind { LOGIC_BUILTIN, LOGIC_PLUGIN };

struct logic_spec {
    enum logic_kind kind;
    const char *name;
    const char *version;
    const char *config;     /* JSON text */
    const char *plugin_dir; /* may be NULL for built-ins */
};

/* ERR_NOT_FOUND, ERR_UNSUPPORTED (ABI, version), ERR_INVALID (config) with a text for the operator. */
enum err_code logic_create(const struct logic_spec *spec, struct logic **ret_logic, struct err *reterr) MUSTCHECK;
void logic_destroy(struct logic *logic);
const struct baton_processor *logic_processor(const struct logic *logic);

/* Versions of the built-ins: NULL when there is no built-in of that name. */
const struct baton_processor *logic_builtin(const char *name);

struct logic_sink { /* where outputs go; not called while replaying */
    void (*emit)(void *arg, const struct baton_record *record, const struct baton_output *output);
    void *arg;
};

struct logic_place {
    uint32_t root;          /* root partition of the record's partition: prefix of its rows (store.h) */
    int64_t record_time_ms; /* the partition's record time (max timestamp so far, this record's included) */
    int64_t state_ttl_ms;   /* 0: none */
};

/*
 * Applies one record to `store` and, when `sink` is not NULL, hands its outputs on in order.
 * ERR_LOGIC: the logic refused the record, nothing was changed. ERR_IO/ERR_CORRUPT: the store failed, stop the task.
 */
enum err_code logic_apply(struct logic *logic, struct store *store, struct logic_place place,
                          const struct baton_record *record, const struct logic_sink *sink, struct err *reterr) MUSTCHECK;

#endif
