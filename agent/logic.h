/*
 * The logic of one task: finds it (built-in or plugin), holds its instance, and runs it on one
 * record with undo.
 *
 * Owned and called by the task's thread; several tasks may create theirs at the same time. The
 * plugin folder is the agent's own: names and versions are checked against
 * [a-z0-9][a-z0-9._-]{0,62} before a path is built; the folder and the file (a regular one, no
 * symbolic link) must belong to root or the agent's user and be writable by nobody else. Loaded
 * code stays in memory until the process ends, since it may have started threads; to replace a
 * plugin, move a new file into its place and restart the agent.
 *
 * logic_apply gathers the state changes and outputs of one process() call and hands them on only
 * when the call succeeded, so an error leaves no trace in the state. It allocates nothing once it
 * has warmed up on records of one kind.
 */
#ifndef BATON_AGENT_LOGIC_H
#define BATON_AGENT_LOGIC_H

#include <stdbool.h>

#include "api/processor.h"
#include "api/types.h"
#include "common/err.h"

struct logic;
struct store;

struct logic_spec {
    enum logic_kind kind;
    const char *name;
    const char *version;
    const char *config;     /* JSON text; NULL: "{}" */
    const char *plugin_dir; /* NULL or "": the agent has none */
    bool has_output;        /* false: no output topic; a record that makes the logic emit fails */
};

/*
 * ERR_NOT_FOUND, ERR_UNSUPPORTED (kind, ABI, version), ERR_INVALID (name, config, a file that is
 * not to be trusted), ERR_IO (the file can not be read), ERR_CONFLICT (overwritten while loaded);
 * with a text that tells the operator what to do.
 */
enum err_code logic_create(const struct logic_spec *spec, struct logic **ret_logic,
                           struct err *reterr) MUSTCHECK;
void logic_destroy(struct logic *logic);
const struct baton_processor *logic_processor(const struct logic *logic);

/* Versions of the built-ins: NULL when there is no built-in of that name. */
const struct baton_processor *logic_builtin(const char *name);

/*
 * Where outputs go; not called while replaying. Of an output that passes the input's headers on,
 * `headers` are the record's. Everything is valid until emit returns. emit must not call the logic.
 */
struct logic_sink {
    void (*emit)(void *arg, const struct baton_record *record, const struct baton_output *output);
    void *arg;
};

struct logic_place {
    uint32_t root;          /* root of the record's partition: prefix of its rows (store.h) */
    int64_t record_time_ms; /* of its partition: max timestamp so far, this record's included */
    int64_t state_ttl_ms;   /* 0: none */
};

/*
 * Applies one record to `store` (NULL: a stateless job, whose logic must not touch state) and,
 * when `sink` is not NULL, hands its outputs on in order.
 * ERR_LOGIC: the logic refused the record (or it has no key), nothing was changed; the same in
 * every replay.
 * ERR_IO, ERR_CORRUPT: the store could not be read, whatever the logic made of it: stop the task.
 * Nothing was changed.
 */
enum err_code logic_apply(struct logic *logic, struct store *store, struct logic_place place,
                          const struct baton_record *record, const struct logic_sink *sink,
                          struct err *reterr) MUSTCHECK;

#endif
