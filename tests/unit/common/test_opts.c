#include "common/opts.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "tests/unit/common/opts_fixture.h"

/* ---- sources ---- */

Test(opts, defaults)
{
    struct run *run = run_opts(NULL, ARGS("--state_dir=/s"));
    assert_runs(run);
    cr_assert_str_eq(run->options.state_dir, "/s");
    cr_assert_str_eq(run->options.title, "baton");
    cr_assert_str_eq(run->options.token, "default-secret");
    cr_assert_eq(run->options.port, 8080);
    cr_assert_eq(run->options.offset, 0);
    cr_assert_eq(run->options.poll_timeout_ms, 500);
    cr_assert_eq(run->options.cache_bytes, 64 << 20);
    cr_assert_not(run->options.verbose);
    cr_assert_eq(run->options.color, COLOR_GREEN);
    cr_assert_eq(run->kafka.count, 0);
    run_finish(run);
}

Test(opts, file_wins_over_defaults_and_command_line_over_file)
{
    struct run *run = run_opts("state_dir = /from/file\nport = 1\ntitle = file\nverbose = true\n",
                               ARGS("--port", "2", "--title=line", "--color=blue", "--port=3"));
    assert_runs(run);
    cr_assert_str_eq(run->options.state_dir, "/from/file");
    cr_assert_eq(run->options.port, 3);
    cr_assert_str_eq(run->options.title, "line");
    cr_assert(run->options.verbose);
    cr_assert_eq(run->options.color, COLOR_BLUE);
    run_finish(run);
}

/* As Kafka's own .properties files: white space, comments, and values as they stand. */
Test(opts, file_format)
{
    struct run *run = run_opts("# a comment\n"
                               "! another = one\n"
                               "\n"
                               " \t \n"
                               "  \t# not at the margin\n"
                               "\t state_dir\t=  /a b/#c ! d;\"e\"  \t\n"
                               "title=\n"
                               "token = =a=b\\\n"
                               "port=9\r\n"
                               "color =\x0b red \x0c",
                               ARGS());
    assert_runs(run);
    cr_assert_str_eq(run->options.state_dir, "/a b/#c ! d;\"e\"");
    cr_assert_str_eq(run->options.title, "");
    cr_assert_str_eq(run->options.token, "=a=b\\");
    cr_assert_eq(run->options.port, 9);
    cr_assert_eq(run->options.color, COLOR_RED);
    run_finish(run);
}

Test(opts, an_empty_file_is_fine)
{
    struct run *run = run_opts("", ARGS("--state_dir=/s"));
    assert_runs(run);
    run_finish(run);
}

/* ---- kafka.* ---- */

static void assert_kafka(const struct run *run, size_t index, const char *name, const char *value)
{
    cr_assert_lt(index, run->kafka.count);
    cr_assert_str_eq(run->kafka.items[index].name, name);
    cr_assert_str_eq(run->kafka.items[index].value, value);
}

Test(opts, kafka_properties_are_collected_in_order)
{
    struct run *run = run_opts("state_dir = /s\n"
                               "kafka.sasl.password = p#;!\"'\\ = \xff\xfe {x}\n"
                               "kafka.bootstrap.servers = a:1\n"
                               "kafka.empty =\n",
                               ARGS("--kafka.client.id=c"));
    assert_runs(run);
    cr_assert_eq(run->kafka.count, 4);
    assert_kafka(run, 0, "sasl.password", "p#;!\"'\\ = \xff\xfe {x}");
    assert_kafka(run, 1, "bootstrap.servers", "a:1");
    assert_kafka(run, 2, "empty", "");
    assert_kafka(run, 3, "client.id", "c");
    run_finish(run);
}

Test(opts, kafka_properties_of_the_command_line_come_last)
{
    struct run *run = run_opts("state_dir = /s\nkafka.a = 1\nkafka.b = 2\n",
                               ARGS("--kafka.a=3", "--kafka.c=4", "--kafka.a", "5"));
    assert_runs(run);
    cr_assert_eq(run->kafka.count, 3);
    assert_kafka(run, 0, "b", "2");
    assert_kafka(run, 1, "c", "4");
    assert_kafka(run, 2, "a", "5");
    run_finish(run);
}

Test(opts, kafka_properties_are_limited)
{
    struct strbuf content = {0};
    strbuf_puts(&content, "state_dir = /s\n");
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&content, "kafka.p%d = %d\n", i, i);
    struct run *run = run_opts(strbuf_text(&content), ARGS());
    assert_runs(run);
    cr_assert_eq(run->kafka.count, 1000);
    assert_kafka(run, 999, "p999", "999");
    run_finish(run);

    strbuf_puts(&content, "kafka.more = 1\n");
    assert_fails(strbuf_text(&content), ARGS(), ERR_LIMIT,
                 "FILE:1002: kafka.more: more than 1000 kafka.* properties");
    strbuf_finish(&content);
}

/* ---- errors of the file ---- */

Test(opts, errors_name_file_line_and_key)
{
    assert_fails("state_dir = /s\n\n# c\nport = 0\n", ARGS(), ERR_INVALID,
                 "FILE:4: port: must be a whole number from 1 to 65535, not \"0\"");
    assert_fails("port = 0", ARGS("--port=1", "--state_dir=/s"), ERR_INVALID,
                 "FILE:1: port: must be a whole number from 1 to 65535, not \"0\"");
    assert_fails("state_dir = /s\nport = 1\nport = 1\n", ARGS(), ERR_INVALID,
                 "FILE:3: port: is given twice in this file");
    assert_fails("kafka.a = 1\nkafka.b = 1\nkafka.a = 1\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:3: kafka.a: is given twice in this file");
    assert_fails("kafka. = 1\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:1: kafka.: a property's name must follow \"kafka.\"");
    assert_fails(" = 1\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:1: expected a name before \"=\"");
    assert_fails("state_dir = /s\nport: 1\n", ARGS(), ERR_INVALID,
                 "FILE:2: expected \"name = value\"");
}

Test(opts, unknown_names_are_refused_with_a_guess)
{
    assert_fails("prot = 1\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:1: prot: there is no such option; did you mean port?");
    assert_fails("Port = 1\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:1: Port: there is no such option; did you mean port?");
    assert_fails(NULL, ARGS("--poll-timeout-ms=1"), ERR_INVALID,
                 "--poll-timeout-ms: there is no such option; did you mean poll_timeout?");
    assert_fails(NULL, ARGS("--bootstrap.servers=a:1"), ERR_INVALID,
                 "--bootstrap.servers: there is no such option; see --help");
    /* What only the command line has is not an option of the file. */
    assert_fails("config = /other\n", ARGS("--state_dir=/s"), ERR_INVALID,
                 "FILE:1: config: there is no such option; see --help");
}

Test(opts, nul_bytes_are_refused)
{
    struct run *run = run_opts_bytes("state_dir = /s\ntitle = a\0b\n", 27, ARGS());
    char expected[100];
    snprintf(expected, sizeof(expected), "%s:2: the line holds a NUL byte", run->file);
    cr_assert_eq(run->code, ERR_INVALID);
    cr_assert_str_eq(run->err.text, expected);
    run_finish(run);
}

Test(opts, long_lines_are_refused)
{
    struct strbuf content = {0};
    char *fill = mem_calloc(1, 65536 + 1);

    /* Goal: a line of exactly 64 KiB is taken, one byte more is not. */
    memset(fill, 'x', 65536);
    strbuf_puts(&content, "state_dir = /s\n");
    strbuf_printf(&content, "kafka.x=%.*s\n", 65536 - 8, fill);
    struct run *run = run_opts(strbuf_text(&content), ARGS());
    assert_runs(run);
    cr_assert_eq(strlen(run->kafka.items[0].value), 65536 - 8);
    run_finish(run);

    strbuf_printf(&content, "kafka.y=%.*s", 65536 - 7, fill);
    assert_fails(strbuf_text(&content), ARGS(), ERR_LIMIT,
                 "FILE:3: the line has more than 65536 bytes");
    strbuf_clear(&content);
    strbuf_printf(&content, "%.*s = 1", 257, fill);
    assert_fails(strbuf_text(&content), ARGS(), ERR_LIMIT,
                 "FILE:1: the name has more than 256 bytes");
    free(fill);
    strbuf_finish(&content);
}

Test(opts, long_files_are_refused)
{
    size_t limit = (size_t)1 << 20;
    char *content = mem_calloc(1, limit + 2);

    for (size_t i = 0; i < limit; i++)
        content[i] = i % 64 == 63 ? '\n' : '#';
    struct run *run = run_opts(content, ARGS("--state_dir=/s"));
    assert_runs(run);
    run_finish(run);
    content[limit] = '#';
    assert_fails(content, ARGS("--state_dir=/s"), ERR_LIMIT,
                 "the configuration file FILE has more than 1048576 bytes");
    free(content);
}

Test(opts, unreadable_files_are_named)
{
    struct run *run = run_opts(NULL, ARGS("--state_dir=/s", "--config=/no/such/file"));
    cr_assert_eq(run->code, ERR_IO);
    cr_assert_eq(run->err.detail, ENOENT);
    cr_assert_str_eq(run->err.text, "can not read the configuration file /no/such/file: No such "
                                    "file or directory");
    run_finish(run);
    run = run_opts(NULL, ARGS("--state_dir=/s", "--config", "/"));
    cr_assert_eq(run->code, ERR_IO);
    cr_assert_eq(run->err.detail, EISDIR);
    run_finish(run);
}

/* ---- errors of the command line ---- */

Test(opts, malformed_arguments_are_refused)
{
    assert_fails(NULL, ARGS("--state_dir=/s", "secret"), ERR_INVALID,
                 "argument 2 is not of the form --name=value; see --help");
    assert_fails(NULL, ARGS("-p"), ERR_INVALID,
                 "argument 1 is not of the form --name=value; see --help");
    assert_fails(NULL, ARGS("--"), ERR_INVALID,
                 "argument 1 is not of the form --name=value; see --help");
    assert_fails(NULL, ARGS("--=1"), ERR_INVALID,
                 "argument 1 is not of the form --name=value; see --help");
    assert_fails(NULL, ARGS(""), ERR_INVALID,
                 "argument 1 is not of the form --name=value; see --help");
    assert_fails(NULL, ARGS("--port"), ERR_INVALID, "--port needs a value: --port=value");
    assert_fails(NULL, ARGS("--port", "--verbose=true"), ERR_INVALID,
                 "--port needs a value: --port=value");
    assert_fails(NULL, ARGS("--config=/a", "--config=/b"), ERR_INVALID, "--config: is given twice");
    assert_fails(NULL, ARGS("--help=me"), ERR_INVALID, "--help takes no value");
    assert_fails(NULL, ARGS("--print-options=xml"), ERR_INVALID,
                 "--print-options: must be sample or markdown");
}

Test(opts, a_value_may_look_like_anything_after_the_sign)
{
    struct run *run = run_opts(NULL, ARGS("--state_dir=--x=y", "--title", "-1"));
    assert_runs(run);
    cr_assert_str_eq(run->options.state_dir, "--x=y");
    cr_assert_str_eq(run->options.title, "-1");
    run_finish(run);
}

Test(opts, a_missing_required_option_is_named)
{
    assert_fails("port = 1\n", ARGS(), ERR_INVALID,
                 "state_dir is required: give --state_dir=value or a line \"state_dir = value\" in "
                 "the file of --config");
}

Test(opts, errors_without_details)
{
    char *argv[] = {"test", "--port=0", NULL};
    struct options options = {0};
    struct opts_kafka kafka;
    enum opts_outcome outcome;
    enum err_code code = opts_parse(opts_fixture_table, OPTS_FIXTURE_COUNT, "t", "1", 2, argv,
                                    stdout, &options, &kafka, &outcome, NULL);
    cr_assert_eq(code, ERR_INVALID);
}

/* ---- our own mistakes ---- */

Test(opts, a_default_out_of_range_aborts, .signal = SIGABRT)
{
    struct opts_entry wrong = opts_fixture_table[3];
    char *argv[] = {"test", NULL};
    struct options options = {0};
    struct opts_kafka kafka;
    enum opts_outcome outcome;
    struct err err;
    wrong.fallback = "0";
    cr_assert_eq(opts_parse(&wrong, 1, "t", "1", 1, argv, stdout, &options, &kafka, &outcome, &err),
                 ERR_NONE);
}
