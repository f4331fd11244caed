#include "tests/unit/common/opts_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

static const char *const colors[] = {"red", "green", "blue", NULL};

const struct opts_entry opts_fixture_table[OPTS_FIXTURE_COUNT] = {
    {.name = "state_dir",
     .type = OPTS_STRING,
     .offset = offsetof(struct options, state_dir),
     .min = 1,
     .max = 4096,
     .help = "Where the state is kept."},
    {.name = "title",
     .type = OPTS_STRING,
     .offset = offsetof(struct options, title),
     .fallback = "baton",
     .min = 0,
     .max = 8,
     .help = "What the page | window is called."},
    {.name = "token",
     .type = OPTS_STRING,
     .offset = offsetof(struct options, token),
     .fallback = "default-secret",
     .min = 4,
     .max = 64,
     .secret = true,
     .help = "What clients must know."},
    {.name = "port",
     .type = OPTS_INT,
     .offset = offsetof(struct options, port),
     .fallback = "8080",
     .min = 1,
     .max = 65535,
     .help = "Port to listen on."},
    {.name = "offset",
     .type = OPTS_INT,
     .offset = offsetof(struct options, offset),
     .fallback = "0",
     .min = INT64_MIN,
     .max = INT64_MAX,
     .help = "Any number."},
    {.name = "poll_timeout",
     .type = OPTS_DURATION,
     .offset = offsetof(struct options, poll_timeout_ms),
     .fallback = "500ms",
     .min = 0,
     .max = 3600000,
     .help = "How long to wait for an answer before the next question is asked, whatever it is."},
    {.name = "cache",
     .type = OPTS_BYTES,
     .offset = offsetof(struct options, cache_bytes),
     .fallback = "64MiB",
     .min = 1024,
     .max = INT64_C(1) << 40,
     .help = "Memory for the cache."},
    {.name = "verbose",
     .type = OPTS_BOOL,
     .offset = offsetof(struct options, verbose),
     .fallback = "false",
     .help = "Say more."},
    {.name = "color",
     .type = OPTS_CHOICE,
     .offset = offsetof(struct options, color),
     .fallback = "green",
     .choices = colors,
     .help = "Of the page."},
};

static void write_file(struct run *run, const void *content, size_t bytes)
{
    snprintf(run->file, sizeof(run->file), "/tmp/test_opts_XXXXXX");
    int fd = mkstemp(run->file);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, content, bytes), bytes);
    close(fd);
}

static void run_args(struct run *run, const char *const *args)
{
    char *argv[40] = {"test"};
    int argc = 1;
    size_t bytes;
    FILE *out = open_memstream(&run->printed, &bytes);

    if (run->file[0] != '\0') {
        argv[argc++] = "--config";
        argv[argc++] = run->file;
    }
    for (; *args != NULL; args++)
        argv[argc++] = (char *)*args;
    run->outcome = (enum opts_outcome)77;
    run->err.code = ERR_NONE;
    run->code = opts_parse(opts_fixture_table, OPTS_FIXTURE_COUNT, "baton-test", "1.2.3", argc,
                           argv, out, &run->options, &run->kafka, &run->outcome, &run->err);
    fclose(out);
    cr_assert_eq(run->err.code, run->code); /* filled on failure, left alone on success */
}

struct run *run_opts_bytes(const void *content, size_t bytes, const char *const *args)
{
    struct run *run = mem_calloc(1, sizeof(*run));
    if (content != NULL)
        write_file(run, content, bytes);
    run_args(run, args);
    return run;
}

struct run *run_opts(const char *content, const char *const *args)
{
    return run_opts_bytes(content, content == NULL ? 0 : strlen(content), args);
}

void run_finish(struct run *run)
{
    opts_finish(opts_fixture_table, OPTS_FIXTURE_COUNT, &run->options, &run->kafka);
    cr_assert_null(run->options.state_dir);
    cr_assert_eq(run->kafka.count, 0);
    if (run->file[0] != '\0')
        cr_assert_eq(unlink(run->file), 0);
    free(run->printed);
    free(run);
}

void assert_runs(const struct run *run)
{
    cr_assert_eq(run->code, ERR_NONE, "%s", run->err.text);
    cr_assert_eq(run->outcome, OPTS_RUN);
    cr_assert_str_eq(run->printed, "");
}

void assert_fails(const char *content, const char *const *args, enum err_code code,
                  const char *expected)
{
    struct run *run = run_opts(content, args);
    const char *at = run->file[0] != '\0' ? strstr(run->err.text, run->file) : NULL;
    char *text = at == NULL ? mem_strdup(run->err.text)
                            : mem_printf("%.*sFILE%s", (int)(at - run->err.text), run->err.text,
                                         at + strlen(run->file));

    cr_assert_eq(run->code, code, "code %s: %s", err_name(run->code), run->err.text);
    cr_assert_str_eq(text, expected, "it says: %s", text);
    cr_assert_eq(run->outcome, 77);
    cr_assert_null(run->options.title);
    cr_assert_null(run->kafka.items);
    free(text);
    run_finish(run);
}
