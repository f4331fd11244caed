#include "common/logger.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/utf8.h"

/*
 * Stands in for stderr. A socket of whole messages: each write(2) arrives as one, so a line that
 * took two writes shows.
 */
static int reader = -1;

static void capture(void)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    reader = ends[0];
}

static size_t next_write(char line[PIPE_BUF + 1])
{
    ssize_t got = recv(reader, line, PIPE_BUF + 1, 0);
    cr_assert_geq(got, 1);
    cr_assert_leq(got, PIPE_BUF);
    line[got] = '\0';
    return (size_t)got;
}

static void assert_nothing_written(void)
{
    char byte;
    cr_assert_eq(recv(reader, &byte, 1, MSG_DONTWAIT), -1);
    cr_assert_eq(errno, EAGAIN);
}

/* Takes the next line and compares what follows the time, which it checks by form. */
static void assert_line(const char *expected)
{
    char line[PIPE_BUF + 1];
    const char *form = "ts=dddd-dd-ddTdd:dd:dd.dddZ ";
    size_t bytes = next_write(line);

    cr_assert_gt(bytes, strlen(form));
    for (size_t i = 0; form[i] != '\0'; i++) {
        bool matches = form[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i];
        cr_assert(matches, "not a time: %s", line);
    }
    cr_assert_str_eq(line + strlen(form), expected);
}

Test(logger, writes_each_kind, .init = capture)
{
    log_info("task_active", LOG_STR("job", "orders"), LOG_INT("processor", 3),
             LOG_INT("epoch", INT64_MIN), LOG_DOUBLE("rate", 1234.5), LOG_BOOL("clean", true),
             LOG_BOOL("first", false), LOG_END);
    assert_line("level=info event=task_active job=orders processor=3 epoch=-9223372036854775808 "
                "rate=1234.5 clean=true first=false\n");
    log_error("stopped", LOG_END);
    assert_line("level=error event=stopped\n");
    log_warn("odd", LOG_DOUBLE("ratio", (double)NAN), LOG_DOUBLE("most", (double)INFINITY),
             LOG_END);
    assert_line("level=warn event=odd ratio=nan most=inf\n");
    assert_nothing_written();
}

/* Arguments of every width arrive: the macros widen them before they go through "...". */
Test(logger, helpers_widen_their_values, .init = capture)
{
    unsigned char small = 200;
    float real = 0.5F;
    log_info("e", LOG_INT("a", small), LOG_INT("b", UINT32_MAX), LOG_DOUBLE("c", real),
             LOG_BOOL("d", 2), LOG_INT("e", -1), LOG_END);
    assert_line("level=info event=e a=200 b=4294967295 c=0.5 d=true e=-1\n");
}

Test(logger, quotes_and_escapes_where_needed, .init = capture)
{
    static const struct {
        const char *value, *written;
    } cases[] = {
        {"plain-1.2_3/x:y", "plain-1.2_3/x:y"},
        {"na\xc3\xafve\xe2\x82\xac", "na\xc3\xafve\xe2\x82\xac"},
        {"", "\"\""},
        {NULL, "null"},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nlevel=error\r\t", "\"line\\nlevel=error\\r\\t\""},
        {"\x1b[31m", "\"\\u001b[31m\""},
        {"del\x7f", "\"del\\u007f\""},
        {"csi\xc2\x9b"
         "x",
         "\"csi\\u009bx\""},
        {"nbsp\xc2\xa0", "nbsp\xc2\xa0"},
        {"\xff"
         "a\xe2\x82",
         "\"\\ufffda\\ufffd\\ufffd\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[200];
        snprintf(expected, sizeof(expected), "level=info event=e value=%s n=1\n", cases[i].written);
        log_info("e", LOG_STR("value", cases[i].value), LOG_INT("n", 1), LOG_END);
        assert_line(expected);
    }
}

Test(logger, drops_lines_below_the_level, .init = capture)
{
    log_debug("e", LOG_END);
    assert_nothing_written();
    log_set_level(LOG_LEVEL_WARN);
    log_info("e", LOG_END);
    assert_nothing_written();
    log_warn("e", LOG_END);
    assert_line("level=warn event=e\n");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("e", LOG_END);
    assert_line("level=debug event=e\n");
}

/* A long text is cut, between characters, and what follows it is still there. */
Test(logger, cuts_a_long_value, .init = capture)
{
    char value[3001];
    char line[PIPE_BUF + 1];
    for (size_t i = 0; i < 3000; i += 3)
        memcpy(value + i, "\xe2\x82\xac", 4);

    log_info("e", LOG_STR("long", value), LOG_INT("after", 7), LOG_END);
    size_t bytes = next_write(line);
    cr_assert(utf8_valid(line, bytes));
    cr_assert_not_null(strstr(line, "...\" after=7\n"));
    cr_assert_lt(bytes, 1200);
    cr_assert_gt(bytes, 1000);
}

/* Pairs that no longer fit are left out whole, and the line says so. */
Test(logger, cuts_a_long_line, .init = capture)
{
    char value[1001];
    char line[PIPE_BUF + 1];
    memset(value, 'v', 1000);
    value[1000] = '\0';

    log_info("e", LOG_STR("a", value), LOG_STR("b", value), LOG_STR("c", value),
             LOG_STR("d", value), LOG_STR("e", value), LOG_INT("f", 1), LOG_END);
    next_write(line);
    cr_assert_not_null(strstr(line, " d=vvv"));
    cr_assert_null(strstr(line, " e="));
    cr_assert_null(strstr(line, " f="));
    cr_assert_str_eq(strrchr(line, 'v'), "v cut=true\n");
    assert_nothing_written();
}

Test(logger, keeps_errno)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cr_assert_geq(full, 0);
    cr_assert_eq(dup2(full, STDERR_FILENO), STDERR_FILENO);
    errno = EBADMSG;
    log_info("e", LOG_END);
    cr_assert_eq(errno, EBADMSG);
}

#define WRITERS          4
#define LINES_PER_WRITER 500

static void *write_lines(void *context)
{
    int writer = *(int *)context;
    char fill[300];
    memset(fill, 'a' + writer, sizeof(fill));
    fill[sizeof(fill) - 1] = '\0';
    for (int i = 0; i < LINES_PER_WRITER; i++)
        log_info("e", LOG_INT("writer", writer), LOG_INT("line", i), LOG_STR("fill", fill),
                 LOG_END);
    return NULL;
}

/* Each write is one whole line, and each writer's lines stay in order. */
Test(logger, lines_of_threads_do_not_mix, .init = capture)
{
    pthread_t threads[WRITERS];
    int ids[WRITERS];
    int next[WRITERS] = {0};

    for (int i = 0; i < WRITERS; i++) {
        ids[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    }
    for (int i = 0; i < WRITERS * LINES_PER_WRITER; i++) {
        char line[PIPE_BUF + 1];
        int writer, number, end = 0;
        char fill[400];
        next_write(line);
        /* The next checks judge the numbers. NOLINTNEXTLINE(cert-err34-c) */
        int fields = sscanf(line, "ts=%*s level=info event=e writer=%d line=%d fill=%399s%n",
                            &writer, &number, fill, &end);
        cr_assert_eq(fields, 3, "%s", line);
        cr_assert_str_eq(line + end, "\n");
        cr_assert(writer >= 0 && writer < WRITERS);
        cr_assert_eq(number, next[writer]++);
        char letter[2] = {(char)('a' + writer), '\0'};
        cr_assert_eq(strlen(fill), 299);
        cr_assert_eq(strspn(fill, letter), 299);
    }
    for (int i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    assert_nothing_written();
}
