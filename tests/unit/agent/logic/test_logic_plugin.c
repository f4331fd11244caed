#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/logic_private.h"
#include "folder.h"
#include "rig.h"

#define SOURCE "tests/unit/agent/logic/plugins/probe.c"

/* Compiles the probe with one macro (or NULL) as probe-1.so. */
static void make_probe(const struct folder *folder, const char *name, const char *macro)
{
    const char *const arguments[] = {SOURCE, "-I.", macro, NULL};

    folder_compile(folder, name, arguments);
}

static struct logic_spec spec_in(const struct folder *folder)
{
    return (struct logic_spec){.kind = LOGIC_KIND_PLUGIN,
                               .name = "probe",
                               .version = "1",
                               .plugin_dir = folder->path,
                               .has_output = true};
}

static struct logic *create(const struct folder *folder)
{
    struct logic_spec spec = spec_in(folder);
    struct logic *logic = NULL;
    struct err err;

    cr_assert_eq(logic_create(&spec, &logic, &err), ERR_NONE, "%s", err.text);
    return logic;
}

static void assert_says(struct logic *logic, const char *expected)
{
    struct rig rig;

    rig_start(&rig, logic);
    cr_assert_str_eq(rig_send(&rig, "k", "v"), expected);
    rig_finish(&rig); /* and the logic with it */
}

static void assert_refused(const struct folder *folder, enum err_code code, const char *part)
{
    struct logic_spec spec = spec_in(folder);
    struct logic *logic = NULL;
    struct err err;

    cr_assert_eq(logic_create(&spec, &logic, &err), code, "%s", err.text);
    cr_assert_null(logic);
    cr_assert_not_null(strstr(err.text, part), "\"%s\" lacks \"%s\"", err.text, part);
    /* Goal: the operator reads the path of the plugin, not the loader's. */
    cr_assert_not_null(strstr(err.text, folder->path), "%s", err.text);
    cr_assert_null(strstr(err.text, "/proc/"), "%s", err.text);
}

/* ---- it works -------------------------------------------------------------------------------- */

Test(logic_plugin, is_loaded_once_and_each_logic_is_an_instance_of_its_own)
{
    struct folder folder;
    struct logic *first, *second;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    first = create(&folder);
    second = create(&folder);
    cr_assert_eq(logic_processor(first), logic_processor(second));
    cr_assert_str_eq(logic_processor(first)->name, "probe");
    assert_says(second, "k=probe:2;");
    assert_says(first, "k=probe:1;");
    assert_says(create(&folder), "k=probe:3;"); /* still loaded, though no instance was left */
    folder_remove(&folder);
}

Test(logic_plugin, several_plugins_do_not_get_each_others_code)
{
    struct folder folder, other;
    struct logic *first, *second;

    /* Goal: same name, other file. The loader knows files by path, and these come to it by
     * descriptor. */
    folder_create(&folder);
    folder_create(&other);
    make_probe(&folder, "probe-1.so", NULL);
    make_probe(&other, "probe-1.so", "-DPROBE_TAG=\"other\"");
    first = create(&folder);
    second = create(&other);
    assert_says(second, "k=other:1;");
    assert_says(first, "k=probe:1;");
    folder_remove(&folder);
    folder_remove(&other);
}

Test(logic_plugin, a_file_moved_into_place_is_taken_by_new_logics_only)
{
    struct folder folder;
    struct logic *old;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    old = create(&folder);
    make_probe(&folder, "probe-1.so", "-DPROBE_TAG=\"new\"");
    assert_says(create(&folder), "k=new:1;");
    assert_says(old, "k=probe:1;");
    folder_remove(&folder);
}

static void *create_in_thread(void *arg)
{
    struct logic *logic = create(arg);

    logic_destroy(logic);
    return NULL;
}

Test(logic_plugin, tasks_may_create_theirs_at_the_same_time)
{
    pthread_t threads[8];
    struct folder folder;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, create_in_thread, &folder), 0);
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    assert_says(create(&folder), "k=probe:9;"); /* one image counted them all */
    folder_remove(&folder);
}

Test(logic_plugin, its_refusal_of_a_config_reaches_the_operator)
{
    struct folder folder;
    struct logic_spec spec;
    struct logic *logic = NULL;
    struct err err;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    spec = spec_in(&folder);
    spec.config = "{\"a\":1}";
    cr_assert_eq(logic_create(&spec, &logic, &err), ERR_INVALID);
    cr_assert_str_eq(err.text, "logic.config: probe 1 refuses it: takes no keys");
    folder_remove(&folder);
}

/* ---- files that are not to be trusted -------------------------------------------------------- */

Test(logic_plugin, nothing_there)
{
    struct folder folder, nowhere = {.path = "/nonexistent/plugins"};
    struct logic_spec spec;
    struct logic *logic = NULL;
    struct err err;

    folder_create(&folder);
    assert_refused(&folder, ERR_NOT_FOUND, "/probe-1.so does not exist: put the plugin there");
    assert_refused(&nowhere, ERR_NOT_FOUND, "does not exist");
    spec = spec_in(&folder);
    spec.plugin_dir = "";
    cr_assert_eq(logic_create(&spec, &logic, &err), ERR_NOT_FOUND);
    cr_assert_not_null(strstr(err.text, "no plugin_dir"));
    folder_remove(&folder);
}

Test(logic_plugin, only_a_regular_file_will_do, .timeout = 20)
{
    struct folder folder;

    folder_create(&folder);
    make_probe(&folder, "elsewhere.so", NULL);
    cr_assert_eq(symlink("elsewhere.so", folder_path(&folder, "probe-1.so")), 0);
    assert_refused(&folder, ERR_INVALID, "is a symbolic link: put the file itself there");
    cr_assert_eq(unlink(folder_path(&folder, "probe-1.so")), 0);

    cr_assert_eq(mkdir(folder_path(&folder, "probe-1.so"), 0755), 0);
    assert_refused(&folder, ERR_INVALID, "is not a regular file");
    cr_assert_eq(rmdir(folder_path(&folder, "probe-1.so")), 0);

    cr_assert_eq(mkfifo(folder_path(&folder, "probe-1.so"), 0644), 0);
    assert_refused(&folder, ERR_INVALID, "is not a regular file"); /* and does not hang */
    folder_remove(&folder);
}

Test(logic_plugin, a_file_or_folder_that_others_can_write_is_refused)
{
    static const mode_t bad[] = {0775, 0757, 0666, 0620, 0602};
    struct folder folder;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(chmod(folder_path(&folder, "probe-1.so"), bad[i]), 0);
        assert_refused(&folder, ERR_INVALID, "/probe-1.so can be written by other users");
    }
    cr_assert_eq(chmod(folder_path(&folder, "probe-1.so"), 0444), 0);
    cr_assert_eq(chmod(folder.path, 01777), 0);
    assert_refused(&folder, ERR_INVALID, "can be written by other users (mode 777): chmod go-w");
    cr_assert_eq(chmod(folder.path, 0755), 0);
    assert_says(create(&folder), "k=probe:1;");
    folder_remove(&folder);
}

Test(logic_plugin, a_file_or_folder_of_another_user_is_refused)
{
    struct folder folder;

    if (geteuid() != 0)
        cr_skip_test("only root can give files away");
    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    cr_assert_eq(chown(folder_path(&folder, "probe-1.so"), 12345, 0), 0);
    assert_refused(&folder, ERR_INVALID, "/probe-1.so belongs to user 12345");
    cr_assert_eq(chown(folder_path(&folder, "probe-1.so"), 0, 0), 0);
    cr_assert_eq(chown(folder.path, 12345, 0), 0);
    assert_refused(&folder, ERR_INVALID, "belongs to user 12345");
    cr_assert_eq(chown(folder.path, 0, 0), 0);
    assert_says(create(&folder), "k=probe:1;");
    folder_remove(&folder);
}

Test(logic_plugin, an_overwritten_file_is_not_mistaken_for_what_was_loaded)
{
    struct folder folder;
    struct logic *logic;
    FILE *file;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", NULL);
    logic = create(&folder);
    file = fopen(folder_path(&folder, "probe-1.so"), "ab");
    cr_assert_not_null(file);
    cr_assert_eq(fputc('x', file), 'x');
    cr_assert_eq(fclose(file), 0);
    assert_refused(&folder, ERR_CONFLICT, "was overwritten while this agent had it loaded");
    assert_says(logic, "k=probe:1;");
    folder_remove(&folder);
}

/* ---- files that are no plugin ---------------------------------------------------------------- */

Test(logic_plugin, a_file_that_is_no_shared_object)
{
    struct folder folder;
    FILE *file;

    folder_create(&folder);
    for (int round = 0; round < 3; round++) { /* failing does not use anything up or stick */
        file = fopen(folder_path(&folder, "probe-1.so"), "wb");
        cr_assert_not_null(file);
        cr_assert_geq(fputs("#!/bin/sh\n", file), 0);
        cr_assert_eq(fclose(file), 0);
        assert_refused(&folder, ERR_UNSUPPORTED, "/probe-1.so can not be loaded: ");
    }
    make_probe(&folder, "probe-1.so", NULL);
    assert_says(create(&folder), "k=probe:1;");
    folder_remove(&folder);
}

Test(logic_plugin, a_plugin_with_a_symbol_that_nobody_defines)
{
    struct folder folder;

    folder_create(&folder);
    make_probe(&folder, "probe-1.so", "-DPROBE_UNDEFINED");
    assert_refused(&folder, ERR_UNSUPPORTED,
                   "can not be loaded: undefined symbol: probe_undefined");
    folder_remove(&folder);
}

Test(logic_plugin, what_its_entry_says_is_checked)
{
    static const struct {
        const char *macro, *part;
    } cases[] = {
        {"-DPROBE_ENTRY=another_name", "does not export baton_processor_entry"},
        {"-DPROBE_ANSWER=0", "baton_processor_entry() returned NULL"},
        {"-DPROBE_ABI=2", "is built for processor ABI 2, this agent has 1: rebuild it"},
        {"-DPROBE_FLAGS=6", "sets flags (0x6) that this agent does not know"},
        {"-DPROBE_NAME=\"probes\"", "says it is \"probes\" version \"1\": name the file"},
        {"-DPROBE_NAME=0", "says it is \"\" version \"1\""},
        {"-DPROBE_VERSION=\"1.0\"", "says it is \"probe\" version \"1.0\""},
        {"-DPROBE_VERSION=0", "says it is \"probe\" version \"\""},
        {"-DPROBE_CREATE=0", "create, process and destroy must all be set"},
        {"-DPROBE_PROCESS=0", "create, process and destroy must all be set"},
        {"-DPROBE_DESTROY=0", "create, process and destroy must all be set"},
    };
    struct folder folder;

    folder_create(&folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_probe(&folder, "probe-1.so", cases[i].macro);
        assert_refused(&folder, ERR_UNSUPPORTED, cases[i].part);
        assert_refused(&folder, ERR_UNSUPPORTED,
                       cases[i].part); /* also when it is loaded already */
    }
    folder_remove(&folder);
}
