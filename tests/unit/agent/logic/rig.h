/* A logic, a fake store and a record of the outputs: what nearly every test of logic needs. */
#ifndef BATON_TESTS_RIG_H
#define BATON_TESTS_RIG_H

#include "agent/logic.h"
#include "common/strbuf.h"
#include "fake_store.h"

struct rig {
    struct store *store;
    struct logic *logic;
    struct logic_place place; /* root 3, time 1000, no ttl at first */
    bool replaying;           /* no sink */
    struct strbuf outputs;    /* of the last record: "key=value;", headers as
                                 "key=value[name:value,];", null as "~" */
    struct err err;           /* of the last failure */
};

void rig_start(struct rig *rig, struct logic *logic);
/* The same for a built-in of version 1; fails the test when it can not be created. */
void rig_start_builtin(struct rig *rig, const char *name, const char *config);
void rig_finish(struct rig *rig);

/* NULL is null. Topic "in", partition 1, offset 7, timestamp 1000. */
struct baton_bytes rig_bytes(const char *text);
struct baton_record rig_record(const char *key, const char *value);

/* Applies a record; the text of its outputs, or "error: <text>" (valid until the next call). */
const char *rig_apply(struct rig *rig, const struct baton_record *record);
const char *rig_send(struct rig *rig, const char *key, const char *value);

#endif
