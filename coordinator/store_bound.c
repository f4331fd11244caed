/* Up to where a processor's nearest ancestors count: topic, partition, offset, records. */
#include <stdlib.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/store_internal.h"

char *store_print_bounds(const struct placement_row *row)
{
    struct strbuf text = {0};
    for (size_t i = 0; i < row->bounds.count; i++) {
        const struct ancestor_bound *bound = &row->bounds.items[i];
        store_list_add(&text, 2,
                       &(struct store_list_row){
                           bound->topic, bound->partition, {bound->offset, bound->records}});
    }
    return store_list_end(&text);
}

static bool take_bound(void *arg, const struct store_list_row *read)
{
    struct placement_row *row = arg;
    if (read->numbers[0] < 0 || read->numbers[1] < API_UNKNOWN)
        return false;
    row->bounds.items =
        mem_realloc(row->bounds.items, row->bounds.count + 1, sizeof(*row->bounds.items));
    row->bounds.items[row->bounds.count++] = (struct ancestor_bound){.topic = read->topic,
                                                                     .partition = read->partition,
                                                                     .offset = read->numbers[0],
                                                                     .records = read->numbers[1]};
    return true;
}

bool store_parse_bounds(const char *text, struct placement_row *row)
{
    if (store_list_read(text, 2, take_bound, row))
        return true;
    free(row->bounds.items);
    return false;
}
