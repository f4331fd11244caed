#include "fake_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

struct fake_bytes {
    void *data;
    size_t bytes;
};

struct fake_row {
    uint32_t root;
    struct fake_bytes key, subkey, value;
    int64_t record_time_ms;
};

struct store {
    struct fake_row *rows; /* in the order of root, key, subkey */
    size_t count, capacity;
    void *handed_out; /* valid until the next call */
    unsigned reads, writes;
    unsigned fail_at; /* value of `reads` that fails; 0: none */
    enum err_code fail_code;
};

struct store *fake_store_create(void)
{
    return mem_calloc(1, sizeof(struct store));
}

static void row_finish(struct fake_row *row)
{
    free(row->key.data);
    free(row->subkey.data);
    free(row->value.data);
}

void fake_store_destroy(struct store *store)
{
    for (size_t i = 0; i < store->count; i++)
        row_finish(&store->rows[i]);
    free(store->rows);
    free(store->handed_out);
    free(store);
}

void fake_store_fail(struct store *store, unsigned read, enum err_code code)
{
    store->fail_at = store->reads + read;
    store->fail_code = code;
}

size_t fake_store_rows(const struct store *store)
{
    return store->count;
}

unsigned fake_store_reads(const struct store *store)
{
    return store->reads;
}

unsigned fake_store_writes(const struct store *store)
{
    return store->writes;
}

static void add_escaped(struct strbuf *text, struct fake_bytes bytes)
{
    for (size_t i = 0; i < bytes.bytes; i++) {
        unsigned char byte = ((const unsigned char *)bytes.data)[i];

        strbuf_printf(text, byte > ' ' && byte < 127 ? "%c" : "\\%02x", byte);
    }
}

char *fake_store_dump(const struct store *store)
{
    struct strbuf text = {.data = NULL};

    strbuf_puts(&text, "");
    for (size_t i = 0; i < store->count; i++) {
        const struct fake_row *row = &store->rows[i];

        strbuf_printf(&text, "%" PRIu32 "/", row->root);
        add_escaped(&text, row->key);
        strbuf_puts(&text, "/");
        add_escaped(&text, row->subkey);
        strbuf_puts(&text, "=");
        add_escaped(&text, row->value);
        strbuf_printf(&text, "@%" PRId64 "\n", row->record_time_ms);
    }
    return strbuf_take(&text);
}

static int compare_bytes(struct fake_bytes a, const void *data, size_t bytes)
{
    size_t common = a.bytes < bytes ? a.bytes : bytes;
    int order = common > 0 ? memcmp(a.data, data, common) : 0;

    return order != 0 ? order : (a.bytes > bytes) - (a.bytes < bytes);
}

static int compare_row(const struct fake_row *row, const struct store_row *wanted)
{
    int order = (row->root > wanted->root) - (row->root < wanted->root);

    if (order == 0)
        order = compare_bytes(row->key, wanted->key, wanted->key_bytes);
    if (order == 0)
        order = compare_bytes(row->subkey, wanted->subkey, wanted->subkey_bytes);
    return order;
}

/* Index of the first row that is not before `wanted`. */
static size_t lower_bound(const struct store *store, const struct store_row *wanted)
{
    size_t low = 0, high = store->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_row(&store->rows[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct fake_row *find(struct store *store, const struct store_row *wanted)
{
    size_t at = lower_bound(store, wanted);

    if (at == store->count || compare_row(&store->rows[at], wanted) != 0)
        return NULL;
    return &store->rows[at];
}

/* Exactly as many bytes as asked for, so that a read past the end is seen. */
static struct fake_bytes copy(const void *data, size_t bytes)
{
    return (struct fake_bytes){.data = mem_memdup(data, bytes), .bytes = bytes};
}

static void begin(struct store *store)
{
    free(store->handed_out);
    store->handed_out = NULL;
}

static enum err_code begin_read(struct store *store, struct err *reterr)
{
    begin(store);
    if (++store->reads == store->fail_at)
        return err_set(reterr, store->fail_code, "the fake store fails read %u", store->reads);
    return ERR_NONE;
}

enum err_code store_get(struct store *store, struct store_row row, int64_t alive_from_ms,
                        const void **ret_value, size_t *ret_bytes, struct err *reterr)
{
    enum err_code code = begin_read(store, reterr);
    struct fake_row *found;

    if (code != ERR_NONE)
        return code;
    found = find(store, &row);
    if (found == NULL || found->record_time_ms < alive_from_ms)
        return ERR_NOT_FOUND;
    store->handed_out = mem_memdup(found->value.data, found->value.bytes);
    *ret_value = store->handed_out;
    *ret_bytes = found->value.bytes;
    return ERR_NONE;
}

void store_put(struct store *store, struct store_row row, int64_t record_time_ms, const void *value,
               size_t bytes)
{
    struct fake_row *found;

    begin(store);
    store->writes++;
    found = find(store, &row);
    if (found == NULL) {
        size_t at = lower_bound(store, &row);

        store->rows = mem_grow(store->rows, store->count, &store->capacity, sizeof(*store->rows));
        memmove(&store->rows[at + 1], &store->rows[at], (store->count - at) * sizeof(*found));
        store->count++;
        found = &store->rows[at];
        *found = (struct fake_row){.root = row.root,
                                   .key = copy(row.key, row.key_bytes),
                                   .subkey = copy(row.subkey, row.subkey_bytes)};
    }
    free(found->value.data);
    found->value = copy(value, bytes);
    found->record_time_ms = record_time_ms;
}

void store_delete(struct store *store, struct store_row row)
{
    struct fake_row *found;

    begin(store);
    store->writes++;
    found = find(store, &row);
    if (found == NULL)
        return;
    row_finish(found);
    store->count--;
    memmove(found, found + 1, (size_t)(&store->rows[store->count] - found) * sizeof(*found));
}

enum err_code store_iterate(struct store *store, struct store_row key, int64_t alive_from_ms,
                            bool (*visit)(void *arg, const void *subkey, size_t subkey_bytes,
                                          const void *value, size_t value_bytes),
                            void *arg, struct err *reterr)
{
    struct store_row first = {.root = key.root, .key = key.key, .key_bytes = key.key_bytes};
    enum err_code code = begin_read(store, reterr);
    bool more = code == ERR_NONE;

    for (size_t at = lower_bound(store, &first); more && at < store->count; at++) {
        const struct fake_row *row = &store->rows[at];
        struct fake_bytes subkey, value;

        if (row->root != key.root || compare_bytes(row->key, key.key, key.key_bytes) != 0)
            break;
        if (row->record_time_ms < alive_from_ms)
            continue;
        subkey = copy(row->subkey.data, row->subkey.bytes);
        value = copy(row->value.data, row->value.bytes);
        more = visit(arg, subkey.data, subkey.bytes, value.data, value.bytes);
        free(subkey.data);
        free(value.data);
    }
    return code;
}
