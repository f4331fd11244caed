#include "common/opts_print.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/common/opts_fixture.h"

/* Every way to get a secret wrong, and every way to print. */
Test(opts_print, secrets_are_never_printed)
{
    static const char *const contents[] = {
        "token = abc\nstate_dir = /s\n",
        "tokem = s3cret-value\nstate_dir = /s\n",
        "state_dir = /s\ntoken = s3cret-value\ntoken = s3cret-value\n",
        "state_dir = /s\ns3cret-value\n",
        "state_dir = /s\nkafka.sasl.password = s3cret-value\nkafka.sasl.password = s3cret-value\n",
        "token = s3cret-value/a/text/that/is/longer/than/the/limit/of/64/bytes/allows\n",
    };
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        struct run *run = run_opts(contents[i], ARGS());
        cr_assert_eq(run->code, ERR_INVALID, "case %zu", i);
        cr_assert_null(strstr(run->err.text, "s3cret"), "%s", run->err.text);
        cr_assert_null(strstr(run->err.text, "abc"), "%s", run->err.text);
        run_finish(run);
    }
    assert_fails(NULL, ARGS("--token=abc"), ERR_INVALID, "--token: must be text of 4 to 64 bytes");

    static const char *const prints[] = {"--help", "--print-options=sample",
                                         "--print-options=markdown"};
    for (size_t i = 0; i < sizeof(prints) / sizeof(prints[0]); i++) {
        struct run *run = run_opts(NULL, ARGS("--token=s3cret-value", prints[i]));
        cr_assert_eq(run->outcome, OPTS_EXIT);
        cr_assert_not_null(strstr(run->printed, "token"));
        cr_assert_null(strstr(run->printed, "s3cret"));
        cr_assert_null(strstr(run->printed, "default-secret"));
        run_finish(run);
    }
}

static void assert_prints(const char *argument, const char *expected)
{
    /* Goal: it prints though the required option is missing and the file can not be read. */
    struct run *run = run_opts(NULL, ARGS("--config=/no/such/file", argument));
    cr_assert_eq(run->code, ERR_NONE, "%s", run->err.text);
    cr_assert_eq(run->outcome, OPTS_EXIT);
    cr_assert_str_eq(run->printed, expected);
    run_finish(run);
}

Test(opts_print, prints_the_version)
{
    assert_prints("--version", "baton-test 1.2.3\n");
}

Test(opts_print, prints_help)
{
    assert_prints(
        "--help",
        "Usage: baton-test [--config FILE] [--NAME=VALUE | --NAME VALUE]...\n"
        "\n"
        "  --config FILE\n"
        "        Read \"name = value\" lines from FILE. Options on the command line win\n"
        "        over the file.\n"
        "  --state_dir=text\n"
        "        Where the state is kept. Required: text of 1 to 4096 bytes.\n"
        "  --title=text\n"
        "        What the page | window is called. Default baton; allowed: text of 0 to\n"
        "        8 bytes.\n"
        "  --token=text\n"
        "        What clients must know. Allowed: text of 4 to 64 bytes.\n"
        "  --port=number\n"
        "        Port to listen on. Default 8080; allowed: a whole number from 1 to\n"
        "        65535.\n"
        "  --offset=number\n"
        "        Any number. Default 0; allowed: a whole number from\n"
        "        -9223372036854775808 to 9223372036854775807.\n"
        "  --poll_timeout=duration\n"
        "        How long to wait for an answer before the next question is asked,\n"
        "        whatever it is. Default 500ms; allowed: a whole number with ms, s, m, h\n"
        "        or d, from 0ms to 1h.\n"
        "  --cache=size\n"
        "        Memory for the cache. Default 64MiB; allowed: a whole number of bytes\n"
        "        or with KiB, MiB or GiB, from 1KiB to 1024GiB.\n"
        "  --verbose=bool\n"
        "        Say more. Default false; allowed: true or false.\n"
        "  --color=choice\n"
        "        Of the page. Default green; allowed: red, green or blue.\n"
        "  --kafka.NAME=VALUE\n"
        "        Any property of librdkafka, such as --kafka.security.protocol=ssl.\n"
        "        Passwords belong into the file: others can read the command line.\n"
        "  --print-options=sample|markdown\n"
        "        Print every option as a sample file or as a table, and exit.\n"
        "  --help, --version\n"
        "        Print this text or the version, and exit.\n");
}

Test(opts_print, prints_markdown)
{
    struct run *run = run_opts(NULL, ARGS("--print-options", "markdown"));
    cr_assert_eq(run->outcome, OPTS_EXIT);
    cr_assert_not_null(strstr(run->printed, "| `state_dir` | required | text of 1 to 4096 bytes | "
                                            "Where the state is kept. |\n"));
    cr_assert_not_null(strstr(run->printed, "| `title` | `baton` | text of 0 to 8 bytes | What the "
                                            "page \\| window is called. |\n"));
    size_t lines = 0;
    for (const char *at = run->printed; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_assert_eq(lines, 2 + OPTS_FIXTURE_COUNT + 1);
    run_finish(run);
}

/* The sample is a file that the parser takes, as printed and with every comment sign before an
 * option removed. */
Test(opts_print, the_sample_can_be_read_back)
{
    struct run *printed = run_opts(NULL, ARGS("--print-options=sample"));
    struct run *as_it_is = run_opts(printed->printed, ARGS("--state_dir=/s"));
    assert_runs(as_it_is);
    run_finish(as_it_is);

    char *at = printed->printed;
    while ((at = strstr(at, "\n#")) != NULL) {
        if (at[2] != ' ')
            at[1] = ' ';
        at += 2;
    }
    const char *refused[] = {"state_dir =", "token ="}; /* have no default to show */
    for (size_t i = 0; i < 2; i++) {
        at = strstr(printed->printed, refused[i]);
        cr_assert_not_null(at);
        at[-1] = '#';
    }
    struct run *opened = run_opts(printed->printed, ARGS("--state_dir=/s", "--token=sekrit"));
    assert_runs(opened);
    cr_assert_str_eq(opened->options.title, "baton");
    cr_assert_eq(opened->options.port, 8080);
    cr_assert_eq(opened->options.cache_bytes, 64 << 20);
    cr_assert_eq(opened->options.color, COLOR_GREEN);
    cr_assert_eq(opened->kafka.count, 2);
    cr_assert_str_eq(opened->kafka.items[0].name, "bootstrap.servers"); /* no daemon runs without */
    cr_assert_str_eq(opened->kafka.items[0].value, "broker1:9092,broker2:9092");
    run_finish(opened);
    run_finish(printed);
}

Test(opts_print, an_unwritable_output_is_an_error)
{
    char *argv[] = {"test", "--help", NULL};
    struct options options = {0};
    struct opts_kafka kafka;
    enum opts_outcome outcome;
    struct err err;
    FILE *full = fopen("/dev/full", "we");
    cr_assert_not_null(full);
    enum err_code code = opts_parse(opts_fixture_table, OPTS_FIXTURE_COUNT, "t", "1", 2, argv, full,
                                    &options, &kafka, &outcome, &err);
    cr_assert_eq(code, ERR_IO);
    fclose(full);
}
