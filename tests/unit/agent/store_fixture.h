/* What the tests of the store share: a directory of its own, short forms of the calls, a reference
 * model. */
#ifndef BATON_TESTS_STORE_FIXTURE_H
#define BATON_TESTS_STORE_FIXTURE_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/store_internal.h"
#include "common/rng.h"

struct store_fixture {
    char root[64];       /* a temporary directory */
    char directory[96];  /* of the state: root/job/3 */
    char data_path[128]; /* of its data.mdb */
    struct store_config config;
    struct store_identity identity;
    struct store *store;
    enum store_condition condition; /* of the last open */
    char reason[ERR_TEXT_BYTES];
};

void fixture_init(struct store_fixture *fixture);
void fixture_finish(struct store_fixture *fixture); /* closes the store and removes the directory */

enum err_code fixture_try_open(struct store_fixture *fixture, struct err *reterr);
void fixture_open(struct store_fixture *fixture, enum store_condition wanted);
void fixture_close(struct store_fixture *fixture);
void fixture_reopen(struct store_fixture *fixture, enum store_condition wanted);

/* Rows of root 0 with the main row's subkey. */
struct store_row fixture_row(const char *key);
void fixture_put(struct store_fixture *fixture, const char *key, const char *value);
/* The value as text, NULL when there is none; valid until the next call. */
const char *fixture_get(struct store_fixture *fixture, const char *key);
/* Freezes at one position with this offset; asserts that it was accepted. */
void fixture_freeze(struct store_fixture *fixture, int64_t next_offset);
void fixture_checkpoint(struct store_fixture *fixture, int64_t next_offset); /* and waits */
int64_t
fixture_offset(struct store_fixture *fixture); /* of the only position; -1 when there is none */

/* Runs `edit` in a write transaction on the closed store's file. */
void fixture_edit(struct store_fixture *fixture,
                  void (*edit)(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg), void *arg);

void fixture_copy_file(const char *from, const char *to);
bool fixture_exists(const char *path);
void fixture_remove_tree(const char *path);

/* ---- model ------------------------------------------------------------------------------------
 *
 * A small universe of rows, with keys and subkeys on both sides of every limit; values are told by
 * a number. What the store should hold is a plain array.
 */
#define MODEL_KEYS    9
#define MODEL_SUBKEYS 8
#define MODEL_ROWS    (MODEL_KEYS * MODEL_SUBKEYS)
#define WHAT_BYTES    (ERR_TEXT_BYTES + 256)

struct model_cell {
    bool there;
    uint32_t number;
    int64_t time_ms;
};

struct model {
    struct model_cell cells[MODEL_ROWS];
};

struct store_row model_row(int index);
/* The bytes that stand for `number`; valid until the next call. */
const void *model_value(uint32_t number, size_t *ret_bytes);
void model_put(struct model *model, struct store *store, int index, uint32_t number,
               int64_t time_ms);
void model_delete(struct model *model, struct store *store, int index);

/*
 * Compares all rows by get and by iterate. ERR_NONE: the same. ERR_CORRUPT: the store said so
 * itself. ERR_INTERNAL: they differ; ret_what says where.
 */
enum err_code model_compare(const struct model *model, struct store *store, int64_t alive_from_ms,
                            char ret_what[WHAT_BYTES]);
void model_assert_equal(const struct model *model, struct store *store, int64_t alive_from_ms);

#endif
