/*
 * The example plugin, built the way its README says: the source alone, plain C11, with nothing but
 * the installed header. Run by the same code as any plugin.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logic_private.h"
#include "common/mem.h"
#include "common/rng.h"
#include "folder.h"
#include "rig.h"

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int byte;

    cr_assert_not_null(in, "%s", from);
    cr_assert_not_null(out, "%s", to);
    while ((byte = fgetc(in)) != EOF)
        cr_assert_eq(fputc(byte, out), byte);
    cr_assert_eq(fclose(in), 0);
    cr_assert_eq(fclose(out), 0);
}

/* A folder with include/baton/processor.h, as after an installation. */
static void create_installed(struct folder *ret_folder, char *ret_include, size_t bytes)
{
    folder_create(ret_folder);
    cr_assert_eq(mkdir(folder_path(ret_folder, "include"), 0755), 0);
    cr_assert_eq(mkdir(folder_path(ret_folder, "include/baton"), 0755), 0);
    copy_file("api/processor.h", folder_path(ret_folder, "include/baton/processor.h"));
    snprintf(ret_include, bytes, "-I%s", folder_path(ret_folder, "include"));
}

static void build(struct folder *ret_folder)
{
    char include[128];
    char source[128];
    const char *const arguments[] = {
        source, include, "-std=c11", "-pedantic-errors", "-fvisibility=hidden", "-g", "-O1", NULL};

    create_installed(ret_folder, include, sizeof(include));
    snprintf(source, sizeof(source), "%s", folder_path(ret_folder, "sessionize.c"));
    copy_file("examples/plugin/sessionize.c", source);
    folder_compile(ret_folder, "sessionize-1.so", arguments);
}

static enum err_code create(const struct folder *folder, const char *config,
                            struct logic **ret_logic, struct err *reterr)
{
    struct logic_spec spec = {.kind = LOGIC_KIND_PLUGIN,
                              .name = "sessionize",
                              .version = "1",
                              .config = config,
                              .plugin_dir = folder->path,
                              .has_output = true};

    return logic_create(&spec, ret_logic, reterr);
}

static void start(struct rig *rig, struct folder *ret_folder, const char *config)
{
    struct logic *logic = NULL;
    struct err err;

    build(ret_folder);
    cr_assert_eq(create(ret_folder, config, &logic, &err), ERR_NONE, "%s", err.text);
    rig_start(rig, logic);
}

static void finish(struct rig *rig, const struct folder *folder)
{
    rig_finish(rig);
    folder_remove(folder);
}

static const char *send_at(struct rig *rig, const char *key, int64_t timestamp_ms)
{
    struct baton_record record = rig_record(key, "click");

    record.timestamp_ms = timestamp_ms;
    return rig_apply(rig, &record);
}

Test(example_plugin, groups_records_by_time)
{
    struct folder folder;
    struct rig rig;

    start(&rig, &folder, "{\"gap_ms\":100}");
    cr_assert_str_eq(send_at(&rig, "u", 1000), "u={\"session\":1000,\"end\":1000,\"events\":1};");
    cr_assert_str_eq(send_at(&rig, "u", 1100), "u={\"session\":1000,\"end\":1100,\"events\":2};");
    cr_assert_str_eq(send_at(&rig, "u", 1050), "u={\"session\":1000,\"end\":1100,\"events\":3};");
    cr_assert_str_eq(send_at(&rig, "u", 1201), "u={\"session\":1201,\"end\":1201,\"events\":1};");
    cr_assert_str_eq(send_at(&rig, "v", 1100), "v={\"session\":1100,\"end\":1100,\"events\":1};");
    cr_assert_eq(fake_store_rows(rig.store), 3);
    finish(&rig, &folder);
}

Test(example_plugin, a_late_record_moves_a_start_or_joins_two_sessions)
{
    struct folder folder;
    struct rig rig;

    start(&rig, &folder, "{\"gap_ms\":100}");
    send_at(&rig, "u", 1000);
    send_at(&rig, "u", 1200);
    cr_assert_str_eq(send_at(&rig, "u", 950), "u={\"session\":1000,\"merged_into\":950};"
                                              "u={\"session\":950,\"end\":1000,\"events\":2};");
    cr_assert_str_eq(send_at(&rig, "u", 1100), "u={\"session\":1200,\"merged_into\":950};"
                                               "u={\"session\":950,\"end\":1200,\"events\":4};");
    cr_assert_eq(fake_store_rows(rig.store), 1);
    finish(&rig, &folder);
}

Test(example_plugin, keeps_no_more_sessions_than_it_may)
{
    struct folder folder;
    struct rig rig;

    start(&rig, &folder, "{\"gap_ms\":10,\"max_sessions\":2}");
    send_at(&rig, "u", 1000);
    send_at(&rig, "u", 2000);
    send_at(&rig, "u", 3000); /* closes 1000 */
    cr_assert_eq(fake_store_rows(rig.store), 2);
    cr_assert_str_eq(send_at(&rig, "u", 2005), "u={\"session\":2000,\"end\":2005,\"events\":2};");
    send_at(&rig, "u", 500); /* opens and closes itself, being the oldest */
    cr_assert_str_eq(send_at(&rig, "u", 3005), "u={\"session\":3000,\"end\":3005,\"events\":2};");
    cr_assert_str_eq(send_at(&rig, "u", 1000), "u={\"session\":1000,\"end\":1000,\"events\":1};");
    cr_assert_eq(fake_store_rows(rig.store), 2);
    finish(&rig, &folder);
}

Test(example_plugin, refuses_records_without_a_usable_timestamp)
{
    struct folder folder;
    struct rig rig;

    start(&rig, &folder, "{}");
    cr_assert_str_eq(send_at(&rig, "u", -1),
                     "error: sessionize: the record has no usable timestamp");
    cr_assert_str_eq(send_at(&rig, "u", INT64_MAX),
                     "error: sessionize: the record has no usable timestamp");
    cr_assert_str_eq(send_at(&rig, "u", 0), "u={\"session\":0,\"end\":0,\"events\":1};");
    finish(&rig, &folder);
}

Test(example_plugin, names_the_config_key_that_is_wrong)
{
    static const struct {
        const char *config, *part;
    } cases[] = {
        {"{\"gap\":1}", "unknown key \"gap\": there are gap_ms and max_sessions"},
        {"{\"gap_ms\":0}", "gap_ms must be a whole number, 1 to 86400000"},
        {"{\"gap_ms\":86400001}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":-5}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":1.5}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":99999999999999999999}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":\"10\"}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":null,\"max_sessions\":1}", "gap_ms must be a whole number"},
        {"{\"gap_ms\":1,\"max_sessions\":1001}", "max_sessions must be a whole number, 1 to 1000"},
        {"{\"gap_ms\":{\"a\":1}}", "gap_ms must be a whole number"},
        {"[]", "must be an object"},
    };
    static const char *const good[] = {"{}", "{\"gap_ms\":1}", "{\"max_sessions\":1000}",
                                       "{\"gap_ms\":86400000,\"max_sessions\":1}"};
    struct folder folder;
    struct logic *logic = NULL;
    struct err err;

    build(&folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(create(&folder, cases[i].config, &logic, &err), ERR_INVALID);
        cr_assert_not_null(strstr(err.text, cases[i].part), "%s", err.text);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(create(&folder, good[i], &logic, &err), ERR_NONE);
        logic_destroy(logic);
    }
    folder_remove(&folder);
}

/* ---- against an independent account ---------------------------------------------------------- */

#define RECORDS 200
#define GAP     50

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* The sessions of all timestamps, sorted first: what the rows must be whatever order the records
 * came in. */
static char *expected_rows(const int64_t *times, size_t count)
{
    int64_t sorted[RECORDS];
    struct strbuf text = {.data = NULL};
    size_t first = 0;

    memcpy(sorted, times, count * sizeof(sorted[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare_times);
    strbuf_puts(&text, "");
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && sorted[i + 1] - sorted[i] <= GAP)
            continue;
        strbuf_printf(&text, "%" PRId64 " %" PRId64 " %zu\n", sorted[first], sorted[i],
                      i + 1 - first);
        first = i + 1;
    }
    return strbuf_take(&text);
}

static uint64_t load_number(const void *data)
{
    uint64_t number = 0;

    for (int i = 0; i < 8; i++)
        number = number << 8 | ((const unsigned char *)data)[i];
    return number;
}

static bool add_session(void *arg, const void *subkey, size_t subkey_bytes, const void *value,
                        size_t value_bytes)
{
    cr_assert_eq(subkey_bytes, 8);
    cr_assert_eq(value_bytes, 16);
    strbuf_printf(arg, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", load_number(subkey),
                  load_number(value), load_number((const char *)value + 8));
    return true;
}

Test(example_plugin, the_order_of_arrival_does_not_change_the_sessions)
{
    struct folder folder;
    struct rig rig;
    struct rng rng;

    rng_init(&rng, 11);
    start(&rig, &folder, "{\"gap_ms\":50,\"max_sessions\":1000}");
    for (int round = 0; round < 10; round++) {
        const char key[2] = {(char)('a' + round), '\0'};
        struct strbuf rows = {.data = NULL};
        int64_t times[RECORDS];
        char *expected;

        for (size_t i = 0; i < RECORDS; i++) {
            times[i] = (int64_t)rng_below(&rng, 10000);
            cr_assert_null(strstr(send_at(&rig, key, times[i]), "error"));
        }
        strbuf_puts(&rows, "");
        cr_assert_eq(store_iterate(rig.store,
                                   (struct store_row){.root = 3, .key = key, .key_bytes = 1},
                                   INT64_MIN, add_session, &rows, NULL),
                     ERR_NONE);
        expected = expected_rows(times, RECORDS);
        cr_assert_str_eq(strbuf_text(&rows), expected);
        free(expected);
        strbuf_finish(&rows);
    }
    finish(&rig, &folder);
}

/* ---- the header from C++ --------------------------------------------------------------------- */

Test(example_plugin, a_plugin_may_be_written_in_cpp)
{
    static const char source_text[] =
        "#include <baton/processor.h>\n"
        "static baton_status create(const char *, void **ret_instance, char *, size_t)\n"
        "{ *ret_instance = nullptr; return BATON_PROCESSOR_OK; }\n"
        "static baton_status process(void *, const baton_record *record, baton_context *context,\n"
        "                            char *, size_t)\n"
        "{ baton_output output = {record->key, record->value, nullptr, 0};\n"
        "  return context->operations->emit(context, &output); }\n"
        "static void destroy(void *) {}\n"
        "const baton_processor *baton_processor_entry(void)\n"
        "{ static const baton_processor processor = {BATON_PROCESSOR_ABI, 0, \"sessionize\", "
        "\"1\",\n"
        "                                            create, process, destroy};\n"
        "  return &processor; }\n";
    char include[128], source[128];
    const char *const arguments[] = {
        source, include, "-std=c++17", "-pedantic-errors", "-fvisibility=hidden", NULL};
    struct folder folder;
    struct logic *logic = NULL;
    struct rig rig;
    struct err err;
    FILE *file;

    if (!folder_can_compile_cpp())
        cr_skip_test("no C++ compiler here");
    create_installed(&folder, include, sizeof(include));
    snprintf(source, sizeof(source), "%s", folder_path(&folder, "plugin.cpp"));
    file = fopen(source, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(source_text, file), 0);
    cr_assert_eq(fclose(file), 0);
    folder_compile(&folder, "sessionize-1.so", arguments);

    cr_assert_eq(create(&folder, "{}", &logic, &err), ERR_NONE, "%s", err.text);
    rig_start(&rig, logic);
    cr_assert_str_eq(rig_send(&rig, "k", "v"), "k=v;");
    rig_finish(&rig);
    folder_remove(&folder);
}
