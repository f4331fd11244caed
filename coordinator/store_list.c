/* Lists of offsets in one column: "[[0,4,1000,990],[1,4,70,-1]]". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/strbuf.h"
#include "coordinator/store_internal.h"

void store_list_add(struct strbuf *text, size_t numbers, const struct store_list_row *row)
{
    strbuf_printf(text, "%s[%u,%u", text->bytes == 0 ? "[" : ",", row->topic, row->partition);
    for (size_t i = 0; i < numbers; i++)
        strbuf_printf(text, ",%" PRId64, row->numbers[i]);
    strbuf_printf(text, "]");
}

char *store_list_end(struct strbuf *text)
{
    if (text->bytes == 0)
        return NULL;
    strbuf_printf(text, "]");
    return strbuf_take(text);
}

/* Behind one "[0,4,1000,990]"; NULL: it is none. */
static const char *read_row(const char *text, size_t numbers, struct store_list_row *ret_row)
{
    int bytes = 0;
    if (sscanf(text, "[%" SCNu32 ",%" SCNu32 "%n", &ret_row->topic, &ret_row->partition, &bytes) !=
            2 ||
        bytes == 0 || ret_row->topic >= API_INPUTS_MAX || ret_row->partition >= API_PARTITIONS_MAX)
        return NULL;
    text += bytes;
    for (size_t i = 0; i < numbers; i++) {
        bytes = 0;
        if (sscanf(text, ",%" SCNd64 "%n", &ret_row->numbers[i], &bytes) != 1 || bytes == 0)
            return NULL;
        text += bytes;
    }
    return *text == ']' ? text + 1 : NULL;
}

bool store_list_read(const char *text, size_t numbers,
                     bool (*take)(void *arg, const struct store_list_row *row), void *arg)
{
    if (*text != '\0' && *text != '[')
        return false;
    while (*text != '\0' && strcmp(text, "]") != 0) {
        struct store_list_row row = {0};
        text = read_row(text + 1, numbers, &row); /* behind '[' at first, then ',' */
        if (text == NULL || (*text != ',' && strcmp(text, "]") != 0) || !take(arg, &row))
            return false;
    }
    return true;
}
