/* Up to where a processor's nearest ancestors count: "[[0,4,1000,990],[1,4,70,-1]]". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/store_internal.h"

char *store_print_bounds(const struct placement_row *row)
{
    struct strbuf text = {0};
    if (row->bounds.count == 0)
        return NULL;
    for (size_t i = 0; i < row->bounds.count; i++) {
        const struct ancestor_bound *bound = &row->bounds.items[i];
        strbuf_printf(&text, "%s[%u,%u,%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "[", bound->topic,
                      bound->partition, bound->offset, bound->records);
    }
    strbuf_printf(&text, "]");
    return strbuf_take(&text);
}

/* One "[0,4,1000,990]"; NULL: it is none. */
static const char *parse_one(const char *text, struct ancestor_bound *ret_bound)
{
    int bytes = 0;
    struct ancestor_bound bound;
    if (sscanf(text, "[%" SCNu32 ",%" SCNu32 ",%" SCNd64 ",%" SCNd64 "]%n", &bound.topic,
               &bound.partition, &bound.offset, &bound.records, &bytes) != 4 ||
        bytes == 0 || bound.topic >= API_INPUTS_MAX || bound.partition >= API_PARTITIONS_MAX ||
        bound.offset < 0 || bound.records < API_UNKNOWN)
        return NULL;
    *ret_bound = bound;
    return text + bytes;
}

bool store_parse_bounds(const char *text, struct placement_row *row)
{
    size_t capacity = 0;
    bool valid = *text == '\0' || *text == '[';
    const char *at = text;
    while (valid && *at != '\0' && strcmp(at, "]") != 0) {
        struct ancestor_bound bound;
        const char *end = parse_one(at + 1, &bound); /* behind '[' at first, then ',' */
        valid = end != NULL && (*end == ',' || strcmp(end, "]") == 0);
        if (!valid)
            break;
        row->bounds.items = mem_grow(row->bounds.items, row->bounds.count, &capacity,
                                     sizeof(struct ancestor_bound));
        row->bounds.items[row->bounds.count++] = bound;
        at = end;
    }
    if (!valid)
        free(row->bounds.items);
    return valid;
}
