#include "store_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fixture_init(struct store_fixture *fixture)
{
    *fixture = (struct store_fixture){.root = "/tmp/baton-store-XXXXXX"};
    cr_assert_not_null(mkdtemp(fixture->root));
    snprintf(fixture->directory, sizeof(fixture->directory), "%s/job/3", fixture->root);
    snprintf(fixture->data_path, sizeof(fixture->data_path), "%s/data.mdb", fixture->directory);
    fixture->config = (struct store_config){.directory = fixture->directory,
                                            .cache_bytes_max = 1024 * 1024,
                                            .map_bytes_max = INT64_C(1024) * 1024 * 1024};
    fixture->identity = (struct store_identity){.cluster = "cluster-1",
                                                .job = "orders",
                                                .job_incarnation = "incarnation-1",
                                                .processor = 3,
                                                .logic = "builtin/count/1",
                                                .boot_id = "boot-1"};
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void fixture_remove_tree(const char *path)
{
    cr_assert_eq(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0, "%s", path);
}

void fixture_finish(struct store_fixture *fixture)
{
    if (fixture->store != NULL)
        store_test_hold_flush(fixture->store, false); /* a test may have failed while it was held */
    store_close(fixture->store);
    fixture->store = NULL;
    fixture_remove_tree(fixture->root);
}

enum err_code fixture_try_open(struct store_fixture *fixture, struct err *reterr)
{
    fixture->reason[0] = '\0';
    return store_open(&fixture->config, &fixture->identity, NULL, NULL, &fixture->store,
                      &fixture->condition, fixture->reason, reterr);
}

void fixture_open(struct store_fixture *fixture, enum store_condition wanted)
{
    struct err error = {0};

    cr_assert_eq(fixture_try_open(fixture, &error), ERR_NONE, "%s", error.text);
    cr_assert_eq(fixture->condition, wanted, "condition %d, reason '%s'", fixture->condition,
                 fixture->reason);
}

void fixture_close(struct store_fixture *fixture)
{
    store_close(fixture->store);
    fixture->store = NULL;
}

void fixture_reopen(struct store_fixture *fixture, enum store_condition wanted)
{
    fixture_close(fixture);
    fixture_open(fixture, wanted);
}

struct store_row fixture_row(const char *key)
{
    return (struct store_row){.key = key, .key_bytes = strlen(key)};
}

void fixture_put(struct store_fixture *fixture, const char *key, const char *value)
{
    store_put(fixture->store, fixture_row(key), 0, value, strlen(value));
}

const char *fixture_get(struct store_fixture *fixture, const char *key)
{
    static char text[256];
    const void *value = NULL;
    size_t bytes = 0;
    struct err error = {0};
    enum err_code code =
        store_get(fixture->store, fixture_row(key), INT64_MIN, &value, &bytes, &error);

    if (code == ERR_NOT_FOUND)
        return NULL;
    cr_assert_eq(code, ERR_NONE, "%s", error.text);
    cr_assert_lt(bytes, sizeof(text));
    memcpy(text, value, bytes);
    text[bytes] = '\0';
    return text;
}

void fixture_freeze(struct store_fixture *fixture, int64_t next_offset)
{
    const struct store_position position = {
        .next_offset = next_offset, .record_time_ms = -1, .last_offset = next_offset - 1};

    cr_assert(store_freeze(fixture->store, &position, 1));
}

void fixture_checkpoint(struct store_fixture *fixture, int64_t next_offset)
{
    struct err error = {0};

    fixture_freeze(fixture, next_offset);
    cr_assert_eq(store_flush_wait(fixture->store, INT64_MAX, &error), ERR_NONE, "%s", error.text);
}

int64_t fixture_offset(struct store_fixture *fixture)
{
    size_t count = 0;
    const struct store_position *positions = store_positions(fixture->store, &count);

    cr_assert_leq(count, 1);
    return count == 0 ? -1 : positions[0].next_offset;
}

void fixture_edit(struct store_fixture *fixture,
                  void (*edit)(MDB_txn *txn, MDB_dbi rows, MDB_dbi meta, void *arg), void *arg)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi rows, meta;

    cr_assert_null(fixture->store);
    cr_assert_eq(mdb_env_create(&env), 0);
    cr_assert_eq(mdb_env_set_maxdbs(env, 2), 0);
    cr_assert_eq(mdb_env_set_mapsize(env, 64 * 1024 * 1024), 0);
    cr_assert_eq(mdb_env_open(env, fixture->directory, 0, 0600), 0);
    cr_assert_eq(mdb_txn_begin(env, NULL, 0, &txn), 0);
    cr_assert_eq(mdb_dbi_open(txn, "rows", 0, &rows), 0);
    cr_assert_eq(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    edit(txn, rows, meta, arg);
    cr_assert_eq(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

void fixture_copy_file(const char *from, const char *to)
{
    static char block[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t bytes;

    cr_assert_geq(in, 0);
    cr_assert_geq(out, 0);
    while ((bytes = read(in, block, sizeof(block))) > 0)
        cr_assert_eq(write(out, block, (size_t)bytes), bytes);
    cr_assert_eq(bytes, 0);
    cr_assert_eq(close(in), 0);
    cr_assert_eq(close(out), 0);
}

bool fixture_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- model ------------------------------------------------------------------------------------
 */

#define LONG_KEY_BYTES 9000

static char letters[LONG_KEY_BYTES]; /* "aaa...", what long keys and subkeys start with */

static void fill_letters(void)
{
    if (letters[0] == '\0')
        memset(letters, 'a', sizeof(letters));
}

/* Keys of 0, 1, 3, 256 (the longest plain one), 257 and 9000 bytes; two long ones differ at the
 * end. */
static void name_key(int index, struct store_row *row)
{
    static const size_t lengths[MODEL_KEYS] = {0, 1, 3, 256, 257, 257, 9000, 1, 3};
    static char keys[MODEL_KEYS][LONG_KEY_BYTES];

    fill_letters();
    memcpy(keys[index], letters, lengths[index]);
    if (index == 5)
        keys[index][256] = 'b';
    row->root = index < 7 ? 0 : UINT32_MAX; /* the same keys under another root */
    row->key = keys[index];
    row->key_bytes = lengths[index];
}

/* In bytewise order. Those of 1000 and more bytes start alike, so LMDB does not have them in order.
 */
static void name_subkey(int index, struct store_row *row)
{
    static const size_t lengths[MODEL_SUBKEYS] = {0, 1, 120, 121, 1000, 1023, 1024, 1};
    static char subkeys[MODEL_SUBKEYS][1024];

    fill_letters();
    memcpy(subkeys[index], letters, lengths[index]);
    if (index == 6)
        subkeys[index][1000] = 'b';
    if (index == 7)
        subkeys[index][0] = (char)0xff;
    row->subkey = subkeys[index];
    row->subkey_bytes = lengths[index];
}

struct store_row model_row(int index)
{
    struct store_row row = {0};

    name_key(index / MODEL_SUBKEYS, &row);
    name_subkey(index % MODEL_SUBKEYS, &row);
    return row;
}

/* Lengths 0 to 40,000, so that some lie on several overflow pages; every byte depends on the
 * number. */
const void *model_value(uint32_t number, size_t *ret_bytes)
{
    static const size_t lengths[] = {0, 1, 7, 8, 100, 101, 1500, 2100, 4096, 40000};
    static unsigned char value[40000];
    const size_t bytes = lengths[number % 10];
    struct rng rng;

    rng_init(&rng, number);
    for (size_t i = 0; i < bytes; i++)
        value[i] = (unsigned char)(i % 8 == 0 ? rng_next(&rng) : number >> (i % 4 * 8));
    *ret_bytes = bytes;
    return value;
}

void model_put(struct model *model, struct store *store, int index, uint32_t number,
               int64_t time_ms)
{
    size_t bytes = 0;
    const void *value = model_value(number, &bytes);

    model->cells[index] = (struct model_cell){.there = true, .number = number, .time_ms = time_ms};
    store_put(store, model_row(index), time_ms, value, bytes);
}

void model_delete(struct model *model, struct store *store, int index)
{
    model->cells[index].there = false;
    store_delete(store, model_row(index));
}

static bool is_alive(const struct model_cell *cell, int64_t alive_from_ms)
{
    return cell->there && cell->time_ms >= alive_from_ms;
}

static bool is_value(const struct model_cell *cell, const void *value, size_t bytes)
{
    size_t wanted_bytes = 0;
    const void *wanted = model_value(cell->number, &wanted_bytes);

    return bytes == wanted_bytes && memcmp(value, wanted, bytes) == 0;
}

static enum err_code compare_get(const struct model *model, struct store *store, int index,
                                 int64_t alive_from_ms, char what[WHAT_BYTES])
{
    const struct model_cell *cell = &model->cells[index];
    const void *value = NULL;
    size_t bytes = 0;
    struct err error = {0};
    enum err_code code = store_get(store, model_row(index), alive_from_ms, &value, &bytes, &error);

    if (code == ERR_CORRUPT)
        return code;
    if (code == ERR_NOT_FOUND && !is_alive(cell, alive_from_ms))
        return ERR_NONE;
    if (code == ERR_NONE && is_alive(cell, alive_from_ms) && is_value(cell, value, bytes))
        return ERR_NONE;
    snprintf(what, WHAT_BYTES, "get of row %d: %s, %zu bytes, should be %s %" PRIu32 " %s", index,
             err_name(code), bytes, cell->there ? "there" : "absent", cell->number, error.text);
    return ERR_INTERNAL;
}

struct visiting {
    const struct model *model;
    int64_t alive_from_ms;
    int key, subkey; /* next */
    bool wrong;
};

static bool visit(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                  size_t value_bytes)
{
    struct visiting *visiting = arg;

    for (; visiting->subkey < MODEL_SUBKEYS; visiting->subkey++) {
        const int index = visiting->key * MODEL_SUBKEYS + visiting->subkey;
        const struct model_cell *cell = &visiting->model->cells[index];
        const struct store_row row = model_row(index);

        if (!is_alive(cell, visiting->alive_from_ms))
            continue;
        visiting->subkey++;
        visiting->wrong = row.subkey_bytes != subkey_bytes ||
                          memcmp(row.subkey, subkey, subkey_bytes) != 0 ||
                          !is_value(cell, value, value_bytes);
        return !visiting->wrong;
    }
    visiting->wrong = true; /* one more than there should be */
    return false;
}

static enum err_code compare_iterate(const struct model *model, struct store *store, int key,
                                     int64_t alive_from_ms, char what[WHAT_BYTES])
{
    struct visiting visiting = {.model = model, .alive_from_ms = alive_from_ms, .key = key};
    struct err error = {0};
    enum err_code code = store_iterate(store, model_row(key * MODEL_SUBKEYS), alive_from_ms, visit,
                                       &visiting, &error);
    bool missing = false;

    if (code == ERR_CORRUPT)
        return code;
    for (int subkey = visiting.subkey; subkey < MODEL_SUBKEYS; subkey++)
        missing = missing || is_alive(&model->cells[key * MODEL_SUBKEYS + subkey], alive_from_ms);
    if (code == ERR_NONE && !visiting.wrong && !missing)
        return ERR_NONE;
    snprintf(what, WHAT_BYTES, "iterate of key %d: %s, %s at subkey %d %s", key, err_name(code),
             visiting.wrong ? "wrong" : "missing", visiting.subkey, error.text);
    return ERR_INTERNAL;
}

enum err_code model_compare(const struct model *model, struct store *store, int64_t alive_from_ms,
                            char ret_what[WHAT_BYTES])
{
    enum err_code code = ERR_NONE;

    for (int index = 0; index < MODEL_ROWS && code == ERR_NONE; index++)
        code = compare_get(model, store, index, alive_from_ms, ret_what);
    for (int key = 0; key < MODEL_KEYS && code == ERR_NONE; key++)
        code = compare_iterate(model, store, key, alive_from_ms, ret_what);
    return code;
}

void model_assert_equal(const struct model *model, struct store *store, int64_t alive_from_ms)
{
    char what[WHAT_BYTES] = "";
    enum err_code code = model_compare(model, store, alive_from_ms, what);

    cr_assert_eq(code, ERR_NONE, "%s %s", err_name(code), what);
}
