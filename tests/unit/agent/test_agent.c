#include "agent/agent.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/codec.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "tests/unit/agent/fake_coordinator.h"
#include "tests/unit/agent/fake_tasks.h"
#include "tests/unit/agent/store_fixture.h"

#define WELCOME   FAKE_WELCOME
#define DOCUMENT  FAKE_DOCUMENT
#define TASK_TEXT FAKE_TASK
#define TWO_TASKS FAKE_TASK("0") "," FAKE_TASK("1")
#define PROBLEM   FAKE_PROBLEM

static struct fake_coordinator *fake;
static struct endpoint *endpoint;
static struct agent_options options;
static struct opts_kafka kafka;
static struct agent *agent;
static struct agent_config config;
static pthread_t thread;
static enum agent_end end;

static char state_dir[64];

static void setup(void)
{
    struct err err;
    snprintf(state_dir, sizeof(state_dir), "/tmp/baton-agent-XXXXXX");
    cr_assert_not_null(mkdtemp(state_dir));
    log_set_level(LOG_LEVEL_ERROR);
    cr_assert_eq(http_client_global_init(NULL), ERR_NONE);
    fake_tasks_reset();
    fake_tasks_willing = true;
    fake = fake_create();
    cr_assert_eq(endpoint_start("127.0.0.1:0", NULL, &endpoint, &err), ERR_NONE);
    options = (struct agent_options){.agent_id = (char *)"a1",
                                     .coordinator = (char *)fake_url(fake),
                                     .tags = (char *)"zone=b",
                                     .state_dir = state_dir,
                                     .capacity = 5,
                                     .max_learners = 3,
                                     .stop_timeout_ms = 10000};
    config = (struct agent_config){.options = &options,
                                   .kafka = &kafka,
                                   .ops = &fake_task_ops,
                                   .endpoint = endpoint,
                                   .address = "http://h:7421",
                                   .boot_id = "boot",
                                   .link = agent_link_defaults()};
    config.link.retry_min_ms = 10;
    config.link.retry_max_ms = 40;
    config.link.in_use_ms = 200;
}

static void teardown(void)
{
    agent_destroy(agent);
    endpoint_destroy(endpoint);
    fake_destroy(fake);
    http_client_global_finish();
    fixture_remove_tree(state_dir);
}

TestSuite(agent, .init = setup, .fini = teardown, .timeout = 60);

static void script(enum fake_route route, unsigned status, const char *body)
{
    fake_script(fake, route, (struct fake_answer){.status = status, .body = body});
}

/* A coordinator that wants two tasks and nothing else. */
static void script_two_tasks(void)
{
    script(FAKE_REGISTER, 200, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17", TWO_TASKS));
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    script(FAKE_DEREGISTER, 204, NULL);
}

static void *thread_main(void *arg)
{
    (void)arg;
    end = agent_run(agent);
    return NULL;
}

static void start(void)
{
    agent = agent_create(&config);
    cr_assert_eq(pthread_create(&thread, NULL, thread_main, NULL), 0);
}

static enum agent_end wait_end(void)
{
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return end;
}

/* The agent's report number `number`; free with schema_free. */
static struct agent_report report_at(size_t number)
{
    struct agent_report report;
    struct codec_faults faults = {0};
    const char *body = fake_body(fake, FAKE_REPORT, number);
    cr_assert_eq(codec_decode(&schema_agent_report, body, strlen(body), &report, &faults, NULL),
                 ERR_NONE, "%s", body);
    return report;
}

/* The first report from `*number` on that has `count` tasks, all in `state`; *number is its. */
static void wait_report(size_t *number, size_t count, enum task_state state)
{
    for (;; ++*number) {
        struct agent_report report = report_at(*number);
        size_t found = 0;
        for (size_t i = 0; i < report.tasks.count; i++)
            found += report.tasks.items[i].state == state;
        bool done = report.tasks.count == count && found == count;
        schema_free(&schema_agent_report, &report);
        if (done)
            return;
    }
}

static unsigned ask(const char *path)
{
    struct http_client *client = http_client_create("test");
    struct http_answer answer = {0};
    struct err err;
    char *url = mem_printf("http://%s%s", endpoint_address(endpoint), path);
    struct http_request request = {.method = "GET",
                                   .url = url,
                                   .connect_ms = 20000,
                                   .total_ms = 20000,
                                   .answer_bytes_max = 1 << 20};
    cr_assert_eq(http_client_request(client, &request, &answer, &err), ERR_NONE, "%s", err.text);
    unsigned status = answer.status;
    http_answer_finish(&answer);
    http_client_destroy(client);
    free(url);
    return status;
}

static bool wait_ready(void)
{
    int64_t until_ms = clock_mono_ms() + 10000;
    while (ask("/readyz") != 200) {
        if (clock_mono_ms() > until_ms)
            return false;
    }
    return true;
}

Test(agent, works_by_its_document_and_leaves_in_order)
{
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    cr_assert(wait_ready());
    size_t number = 1;
    wait_report(&number, 2, TASK_STATE_ACTIVE);
    struct agent_report report = report_at(number);
    cr_assert_eq(report.version.start, 3);
    cr_assert_eq(report.version.decision, 17);
    cr_assert_not(report.stopping);
    schema_free(&schema_agent_report, &report);
    cr_assert_not_null(strstr(fake_body(fake, FAKE_REGISTER, 1),
                              "\"tags\":[{\"name\":\"zone\",\"value\":\"b\"}]"));

    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    /* Goal: closed tasks are told of, "stopping" is said last and once, then it signs off. */
    size_t count = fake_count(fake, FAKE_REPORT), stopping = 0;
    for (number = 1; number <= count; number++) {
        report = report_at(number);
        stopping += report.stopping;
        if (number == count) {
            cr_assert(report.stopping);
            cr_assert_eq(report.tasks.count, 2);
            cr_assert_eq(report.tasks.items[0].state, TASK_STATE_CLOSED);
        }
        schema_free(&schema_agent_report, &report);
    }
    cr_assert_eq(stopping, 1);
    cr_assert_eq(fake_count(fake, FAKE_DEREGISTER), 1);
    cr_assert_geq(fake_time_ms(fake, FAKE_DEREGISTER, 1), fake_time_ms(fake, FAKE_REPORT, count));
    cr_assert_eq(fake_tasks_joined, 2);
}

/* A state on its disk makes it the better target of what it knows. */
Test(agent, tells_of_the_states_on_its_disk)
{
    char directory[128];
    struct store_fixture fixture;
    fixture_init(&fixture);
    snprintf(directory, sizeof(directory), "%s/orders/3", state_dir);
    fixture.config.directory = directory;
    fixture.identity.job_incarnation = FAKE_JOB;
    fixture_open(&fixture, STORE_FRESH);
    fixture_checkpoint(&fixture, 77);
    fixture_close(&fixture);
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();
    cr_assert(fake_wait(fake, FAKE_REGISTER, 1));
    cr_assert_not_null(strstr(fake_body(fake, FAKE_REGISTER, 1),
                              "\"max_learners\":3,\"tags\":[{\"name\":\"zone\",\"value\":\"b\"}],"
                              "\"kept\":[{\"job\":\"orders\",\"job_incarnation\":\"" FAKE_JOB
                              "\",\"processor\":3,\"learned\":[{\"topic\":0,\"partition\":0,"
                              "\"offset\":77}]}]"),
                       "%s", fake_body(fake, FAKE_REGISTER, 1));
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    fixture_finish(&fixture);
}

Test(agent, is_not_ready_and_runs_nothing_before_its_first_document)
{
    script(FAKE_REGISTER, 200, WELCOME);
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 200, .body = DOCUMENT("3.17", "")});
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    script(FAKE_DEREGISTER, 204, NULL);
    start();

    cr_assert_eq(ask("/readyz"), 503);
    fake_listen(fake);
    cr_assert(fake_wait(fake, FAKE_POLL, 1));
    cr_assert_eq(ask("/readyz"), 503);
    cr_assert_eq(ask("/healthz"), 200);
    fake_release(fake);
    /* An empty document is one: there is nothing to do and that is well known. */
    cr_assert(wait_ready());
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert_eq(fake_task_count, 0);
}

Test(agent, reports_at_its_interval_and_at_once_when_a_task_says_so)
{
    script(FAKE_REGISTER, 200, FAKE_WELCOME_OF(FAKE_CLUSTER, "20s"));
    script(FAKE_POLL, 200, DOCUMENT("3.17", TWO_TASKS));
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    script(FAKE_DEREGISTER, 204, NULL);
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    size_t number = 1;
    wait_report(&number, 2, TASK_STATE_ACTIVE);
    int64_t before_ms = clock_mono_ms();
    fake_task_become(0, TASK_STATE_FENCED, false);
    fake_task_become(1, TASK_STATE_FENCED, false);
    wait_report(&number, 2, TASK_STATE_FENCED);
    cr_assert_lt(clock_mono_ms() - before_ms, 5000);
    agent_stop(agent);
    wait_end();
}

Test(agent, goes_on_while_the_coordinator_is_away)
{
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    for (int i = 0; i < 4; i++)
        script(FAKE_REPORT, 500, "");
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    cr_assert(fake_wait(fake, FAKE_REPORT, 8));
    cr_assert_eq(fake_task_read(0).state, TASK_STATE_ACTIVE);
    cr_assert_not(fake_task_read(0).stopped);
    cr_assert_eq(ask("/readyz"), 200);
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
}

/* What closed is told until a report with it has arrived. */
Test(agent, a_lost_report_loses_nothing)
{
    script(FAKE_REGISTER, 200, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17", TWO_TASKS));
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    script(FAKE_POLL, 200, DOCUMENT("3.18", TASK_TEXT("0")));
    fake_script(fake, FAKE_POLL, (struct fake_answer){.status = 204, .hold = true});
    script(FAKE_REPORT, 500, "");
    script(FAKE_DEREGISTER, 204, NULL);
    fake_listen(fake);
    start();

    cr_assert(fake_wait(fake, FAKE_POLL, 2));
    fake_release(fake);
    cr_assert(fake_wait(fake, FAKE_POLL, 4));
    /* Before: at least one report with the closed task was refused. */
    size_t count = fake_count(fake, FAKE_REPORT);
    cr_assert(fake_wait(fake, FAKE_REPORT, count + 3));
    struct agent_report report = report_at(count + 3);
    cr_assert_eq(report.version.decision, 18);
    cr_assert_eq(report.tasks.count, 2);
    cr_assert_eq(report.tasks.items[1].state, TASK_STATE_CLOSED);
    schema_free(&schema_agent_report, &report);

    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    size_t number = count + 3;
    wait_report(&number, 1, TASK_STATE_ACTIVE);
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
}

Test(agent, a_superseded_agent_closes_its_tasks_and_fails)
{
    script(FAKE_REGISTER, 200, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17", TWO_TASKS));
    fake_script(
        fake, FAKE_POLL,
        (struct fake_answer){.status = 409, .body = PROBLEM("409", "superseded"), .hold = true});
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    cr_assert(fake_wait(fake, FAKE_POLL, 2));
    cr_assert(wait_ready());
    fake_release(fake);
    cr_assert_eq(wait_end(), AGENT_END_FAILED);
    cr_assert_eq(fake_tasks_joined, 2);
    cr_assert_eq(fake_count(fake, FAKE_DEREGISTER), 0);
}

Test(agent, an_id_in_use_ends_it)
{
    script(FAKE_REGISTER, 409, PROBLEM("409", "agent_id_in_use"));
    fake_listen(fake);
    start();
    cr_assert_eq(wait_end(), AGENT_END_FAILED);
}

Test(agent, can_be_stopped_before_it_ever_reached_the_coordinator)
{
    int64_t started_ms = clock_mono_ms();
    start();
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert_lt(clock_mono_ms() - started_ms, 1500);
}

Test(agent, leaves_when_the_coordinator_is_gone)
{
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_script(fake, FAKE_REPORT, (struct fake_answer){.status = 204, .hold = true});
    fake_listen(fake);
    start();

    cr_assert(wait_ready());
    cr_assert(fake_wait(fake, FAKE_REPORT, 2));
    int64_t started_ms = clock_mono_ms();
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert_lt(clock_mono_ms() - started_ms, 6000);
    cr_assert_eq(fake_tasks_joined, 2);
}

/* ---- on_term=drain */

static int64_t drain_timeout_ms = 60000;
static int64_t drain_asked_ms;

static void start_draining(const char *answer)
{
    script_two_tasks();
    /* Held: `answer` is not to be one to a report of before it drains. */
    fake_script(fake, FAKE_REPORT,
                (struct fake_answer){.status = 200, .body = "{\"follow\":[]}", .hold = true});
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    script(FAKE_REPORT, 200, answer);
    fake_listen(fake);
    options.on_term = AGENT_ON_TERM_DRAIN;
    options.drain_timeout_ms = drain_timeout_ms;
    start();
    cr_assert(wait_ready()); /* before its first document it has nothing to drain, and just ends */
    cr_assert(fake_wait(fake, FAKE_REPORT, 1));
    drain_asked_ms = clock_mono_ms();
    agent_stop(agent);
    fake_release(fake);
}

static enum agent_leaving leaving_in(size_t number)
{
    struct agent_report report = report_at(number);
    enum agent_leaving leaving = report.leaving;
    schema_free(&schema_agent_report, &report);
    return leaving;
}

Test(agent, drains_until_others_have_what_it_had)
{
    start_draining("{\"follow\":[],\"safe_to_stop\":true}");
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    size_t count = fake_count(fake, FAKE_REPORT), draining = 0;
    cr_assert_eq(leaving_in(1), AGENT_LEAVING_NO);
    for (size_t i = 2; i < count; i++)
        draining += leaving_in(i) == AGENT_LEAVING_DRAIN;
    cr_assert_gt(draining, 0);
    cr_assert_eq(leaving_in(count), AGENT_LEAVING_RELEASE);
}

Test(agent, works_on_while_it_drains)
{
    start_draining("{\"follow\":[]}");
    size_t number = fake_count(fake, FAKE_REPORT) + 3;
    cr_assert(fake_wait(fake, FAKE_REPORT, number));
    cr_assert_eq(leaving_in(number), AGENT_LEAVING_DRAIN);
    cr_assert_eq(fake_task_read(0).state, TASK_STATE_ACTIVE);
    cr_assert_not(fake_task_read(0).stopped);
    cr_assert_eq(ask("/readyz"), 503);
    agent_stop(agent); /* who asks again does not want to wait */
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert(fake_task_read(0).stopped);
    cr_assert_eq(leaving_in(fake_count(fake, FAKE_REPORT)), AGENT_LEAVING_RELEASE);
}

Test(agent, does_not_wait_where_nobody_can_take_over)
{
    start_draining("{\"follow\":[],\"drain_refused\":true}");
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
}

Test(agent, drains_no_longer_than_its_time)
{
    drain_timeout_ms = 300;
    start_draining("{\"follow\":[]}");
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert_geq(clock_mono_ms() - drain_asked_ms, drain_timeout_ms);
}

Test(agent, release_says_that_it_is_not_to_be_waited_for)
{
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    options.on_term = AGENT_ON_TERM_RELEASE;
    start();
    cr_assert(fake_wait(fake, FAKE_REPORT, 1));
    agent_stop(agent);
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    cr_assert_eq(leaving_in(fake_count(fake, FAKE_REPORT)), AGENT_LEAVING_RELEASE);
}

Test(agent, does_not_wait_for_ever_for_a_task_that_does_not_close)
{
    fake_tasks_willing = false;
    options.stop_timeout_ms = 3000; /* within which one of the two closes */
    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    size_t number = 1;
    wait_report(&number, 2, TASK_STATE_ACTIVE);
    int64_t started_ms = clock_mono_ms();
    agent_stop(agent);
    cr_assert(fake_wait(fake, FAKE_REPORT, number + 1));
    fake_task_become(0, TASK_STATE_CLOSED, true);
    cr_assert_eq(wait_end(), AGENT_END_ABANDONED);
    cr_assert_geq(clock_mono_ms() - started_ms, 3000);
    cr_assert_eq(fake_tasks_joined, 1);
    cr_assert_eq(fake_count(fake, FAKE_DEREGISTER), 1);
    agent = NULL; /* as the header says: not taken apart */
}

/* ---- what systemd hears */

static bool heard(int fd, const char *state)
{
    char text[256];
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    while (poll(&waiting, 1, 10000) == 1) {
        ssize_t bytes = recv(fd, text, sizeof(text) - 1, 0);
        cr_assert_geq(bytes, 0);
        text[bytes] = '\0';
        if (strcmp(text, state) == 0)
            return true;
    }
    return false;
}

Test(agent, tells_systemd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char directory[] = "/tmp/baton-test-XXXXXX", pid[32];
    cr_assert_not_null(mkdtemp(directory));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", directory);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    snprintf(pid, sizeof(pid), "%d", getpid());
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    setenv("WATCHDOG_USEC", "2000000", 1); /* the socket holds ten and loses what comes then */
    setenv("WATCHDOG_PID", pid, 1);

    script_two_tasks();
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();
    cr_assert(heard(fd, "READY=1"));
    cr_assert(heard(fd, "WATCHDOG=1"));
    cr_assert(heard(fd, "WATCHDOG=1"));
    agent_stop(agent);
    cr_assert(heard(fd, "STOPPING=1"));
    cr_assert_eq(wait_end(), AGENT_END_CLEAN);
    close(fd);
    unlink(address.sun_path);
    rmdir(directory);
}
