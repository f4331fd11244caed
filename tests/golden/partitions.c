#include "tests/golden/partitions.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME "tests/golden/partitions.txt"
#define LINE_MAX  4096

static void parse_bytes(struct golden_key *key, const char *hex)
{
    size_t digits = strcmp(hex, "-") == 0 ? 0 : strlen(hex);
    cr_assert(digits % 2 == 0 && digits / 2 <= GOLDEN_KEY_BYTES_MAX, "%s", hex);
    key->count = digits / 2;
    for (size_t i = 0; i < key->count; i++)
        cr_assert_eq(sscanf(hex + 2 * i, "%2hhx", &key->bytes[i]), 1, "%s", hex);
}

static void parse_line(struct golden_key *key, const char *line)
{
    char hex[LINE_MAX];
    int at, more;

    cr_assert_eq(sscanf(line, "%s %" SCNu32 " %" SCNu32 "%n", hex, &key->murmur2, &key->crc32, &at),
                 3, "%s", line);
    parse_bytes(key, hex);
    for (size_t i = 0; i < GOLDEN_SIZES; i++, at += more)
        cr_assert_eq(sscanf(line + at, " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 "%n",
                            &key->places[i].size.initial, &key->places[i].size.now,
                            &key->places[i].by_murmur2, &key->places[i].by_crc32, &more),
                     4, "%s", line);
    cr_assert_str_eq(line + at, "\n");
}

void golden_each_key(void (*check)(const struct golden_key *key))
{
    FILE *file = fopen(FILE_NAME, "re");
    char line[LINE_MAX];
    struct golden_key key;
    size_t keys = 0;

    cr_assert_not_null(file, "%s: run the tests from the root of the tree", FILE_NAME);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '#')
            continue;
        parse_line(&key, line);
        check(&key);
        keys++;
    }
    cr_assert_eq(fclose(file), 0);
    cr_assert_geq(keys, GOLDEN_KEYS_MIN, "%zu", keys);
}
