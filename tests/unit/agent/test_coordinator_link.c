#include "agent/coordinator_link.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "api/schema.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "tests/unit/agent/fake_coordinator.h"

#define INCARNATION   "11111111-1111-4111-8111-111111111111"
#define OTHER_CLUSTER "33333333-3333-4333-8333-333333333333"

#define WELCOME           FAKE_WELCOME
#define DOCUMENT(version) FAKE_DOCUMENT(version, FAKE_TASK("1"))
#define PROBLEM           FAKE_PROBLEM

static struct fake_coordinator *fake;
static struct mailbox *mailbox;
static struct coordinator_link *coordinator;
static struct agent_registration registration;
static struct link_config config;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    cr_assert_eq(http_client_global_init(NULL), ERR_NONE);
    fake = fake_create();
    mailbox = mailbox_create(4, link_message_free);
    registration = (struct agent_registration){.agent_id = (char *)"a1",
                                               .incarnation = (char *)INCARNATION,
                                               .protocol = 2,
                                               .protocol_minimum = 2,
                                               .version = (char *)"0.1.0",
                                               .capacity = 8};
    config = (struct link_config){.api = {.url = fake_url(fake),
                                          .agent_id = "a1",
                                          .incarnation = INCARNATION,
                                          .connect_ms = 20000,
                                          .request_ms = 20000,
                                          .answer_bytes_max = 64 * 1024},
                                  .registration = &registration,
                                  .mailbox = mailbox,
                                  .retry_min_ms = 10,
                                  .retry_max_ms = 40,
                                  .in_use_ms = 300};
}

static void teardown(void)
{
    coordinator_link_destroy(coordinator);
    fake_destroy(fake);
    mailbox_destroy(mailbox);
    http_client_global_finish();
}

TestSuite(coordinator_link, .init = setup, .fini = teardown, .timeout = 60);

static void script(enum fake_route route, unsigned status, const char *body)
{
    fake_script(fake, route, (struct fake_answer){.status = status, .body = body});
}

static void script_hold(enum fake_route route)
{
    fake_script(fake, route, (struct fake_answer){.status = 204, .hold = true});
}

static void start(void)
{
    struct err err;
    coordinator = coordinator_link_create(&config);
    cr_assert_eq(coordinator_link_start(coordinator, &err), ERR_NONE);
}

static struct link_message *receive(enum link_message_kind kind)
{
    struct link_message *message = mailbox_receive(mailbox, clock_mono_ms() + 30000);
    cr_assert_not_null(message);
    cr_assert_eq(message->kind, kind, "kind %d instead of %d", message->kind, kind);
    return message;
}

static void expect(enum link_message_kind kind)
{
    link_message_free(receive(kind));
}

static void expect_version(uint64_t start_number, uint64_t decision)
{
    struct link_message *message = receive(LINK_MESSAGE_ASSIGNMENT);
    cr_assert_eq(message->document.version.start, start_number);
    cr_assert_eq(message->document.version.decision, decision);
    link_message_free(message);
}

static void expect_ended(bool superseded, const char *word)
{
    struct link_message *message = receive(LINK_MESSAGE_ENDED);
    cr_assert_eq(message->ended.superseded, superseded);
    cr_assert_not_null(strstr(message->ended.text, word), "%s", message->ended.text);
    link_message_free(message);
}

static struct link_counts counts(void)
{
    struct link_counts found;
    coordinator_link_count(coordinator, &found);
    return found;
}

static void hand_over_report(uint64_t decision)
{
    struct agent_report report = {.incarnation = mem_strdup(INCARNATION), .version = {3, decision}};
    coordinator_link_report(coordinator, &report);
    cr_assert_null(report.incarnation);
}

/* True and the answer's message freed when the report was answered as it should be. */
static bool is_sent(void)
{
    struct link_message *message = receive(LINK_MESSAGE_REPORTED);
    bool sent = message->reported.sent;
    link_message_free(message);
    return sent;
}

Test(coordinator_link, registers_polls_and_asks_for_what_is_newer)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    script(FAKE_POLL, 200, DOCUMENT("3.18"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    struct link_message *message = receive(LINK_MESSAGE_WELCOME);
    cr_assert_str_eq(message->welcome.cluster, FAKE_CLUSTER);
    cr_assert_eq(message->welcome.report_interval_ms, 100);
    link_message_free(message);

    message = receive(LINK_MESSAGE_ASSIGNMENT);
    cr_assert_eq(message->document.version.decision, 17);
    cr_assert_eq(message->document.tasks.count, 1);
    cr_assert_eq(message->document.tasks.items[0].epoch, 7);
    cr_assert_eq(message->document.jobs.items[0].origins.items[1].offset, 5);
    link_message_free(message);
    expect_version(3, 18);

    struct agent_registration sent;
    struct codec_faults faults = {0};
    const char *body = fake_body(fake, FAKE_REGISTER, 1);
    cr_assert_eq(codec_decode(&schema_agent_registration, body, strlen(body), &sent, &faults, NULL),
                 ERR_NONE);
    cr_assert(schema_equal(&schema_agent_registration, &sent, &registration));
    schema_free(&schema_agent_registration, &sent);

    cr_assert_str_eq(fake_line(fake, FAKE_POLL, 1),
                     "GET /agent/v1/agents/a1/assignment?incarnation=" INCARNATION
                     "&after=0.0&wait=25s");
    cr_assert_str_eq(fake_line(fake, FAKE_POLL, 3),
                     "GET /agent/v1/agents/a1/assignment?incarnation=" INCARNATION
                     "&after=3.18&wait=25s");
    cr_assert(counts().up);
}

Test(coordinator_link, tries_until_the_coordinator_is_there)
{
    script(FAKE_REGISTER, 503, PROBLEM("503", "starting"));
    script(FAKE_REGISTER, 404, "<html>another program</html>");
    script(FAKE_REGISTER, 200, "{}");
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);

    /* Before: connections are refused. Act: after some tries the port listens. */
    start();
    int64_t until_ms = clock_mono_ms() + 10000;
    while (counts().registration_failures < 3 && clock_mono_ms() < until_ms)
        cr_assert_null(mailbox_receive(mailbox, clock_mono_ms() + 5));
    cr_assert_geq(counts().registration_failures, 3);
    cr_assert_not(counts().up);
    fake_listen(fake);

    expect(LINK_MESSAGE_WELCOME);
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 4);
    cr_assert(counts().up);
}

Test(coordinator_link, pauses_grow_between_tries)
{
    config.retry_min_ms = 40;
    config.retry_max_ms = 160;
    script(FAKE_REGISTER, 500, "");
    fake_listen(fake);
    start();

    /* Goal: 40, 80, 160, 160 ms, of each at least half. */
    int64_t first_ms = fake_time_ms(fake, FAKE_REGISTER, 1);
    cr_assert_geq(fake_time_ms(fake, FAKE_REGISTER, 2) - first_ms, 19);
    cr_assert_geq(fake_time_ms(fake, FAKE_REGISTER, 3) - first_ms, 58);
    cr_assert_geq(fake_time_ms(fake, FAKE_REGISTER, 5) - first_ms, 216);
}

Test(coordinator_link, waits_as_long_as_the_coordinator_wishes)
{
    config.retry_max_ms = 1500;
    fake_script(fake, FAKE_REGISTER,
                (struct fake_answer){.status = 503, .header = "retry-After:  1", .body = ""});
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    cr_assert_geq(fake_time_ms(fake, FAKE_REGISTER, 2) - fake_time_ms(fake, FAKE_REGISTER, 1), 990);
}

Test(coordinator_link, a_restarted_agent_outwaits_its_old_self)
{
    config.in_use_ms = 30000;
    script(FAKE_REGISTER, 409, PROBLEM("409", "agent_id_in_use"));
    script(FAKE_REGISTER, 409, PROBLEM("409", "agent_id_in_use"));
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();
    expect(LINK_MESSAGE_WELCOME);
}

Test(coordinator_link, an_id_that_stays_in_use_ends_it)
{
    config.in_use_ms = 2000; /* of which a try takes some 40 */
    script(FAKE_REGISTER, 409, PROBLEM("409", "agent_id_in_use"));
    fake_listen(fake);
    int64_t started_ms = clock_mono_ms();
    start();

    expect_ended(false, "another agent with this id");
    cr_assert_geq(clock_mono_ms() - started_ms, 2000);
    cr_assert_gt(fake_count(fake, FAKE_REGISTER), 2);
}

Test(coordinator_link, no_common_protocol_ends_it_at_the_start)
{
    script(FAKE_REGISTER, 409, PROBLEM("409", "protocol_unsupported"));
    fake_listen(fake);
    start();

    expect_ended(false, "because");
    coordinator_link_stop(coordinator);
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 1);
}

Test(coordinator_link, no_common_protocol_later_keeps_the_tasks)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_REGISTER, 409, PROBLEM("409", "protocol_unsupported"));
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 404, PROBLEM("404", "agent_unknown"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect(LINK_MESSAGE_WELCOME);
    cr_assert_eq(counts().registration_failures, 1);
}

Test(coordinator_link, registers_again_when_it_is_not_known)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    script(FAKE_POLL, 404, PROBLEM("404", "agent_unknown"));
    script(FAKE_POLL, 200, DOCUMENT("4.1"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_version(3, 17);
    expect(LINK_MESSAGE_WELCOME);
    expect_version(4, 1);
    const char *first = fake_body(fake, FAKE_REGISTER, 1);
    const char *again = fake_body(fake, FAKE_REGISTER, 2);
    const char *told = strstr(first, "\"cluster\":null,\"document\":\"0.0\"");
    cr_assert_not_null(told);
    cr_assert_eq(strncmp(first, again, (size_t)(told - first)), 0, "it is the same start");
    told = "\"cluster\":\"" FAKE_CLUSTER "\",\"document\":\"3.17\",\"jobs\":[{";
    cr_assert_not_null(strstr(again, told), "it says what it was told: %s", again);
}

Test(coordinator_link, a_plain_404_is_no_reason_to_register_again)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 404, "<html>not found</html>");
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_version(3, 17);
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 1);
}

Test(coordinator_link, a_superseded_agent_is_told_by_the_poll)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 409, PROBLEM("409", "superseded"));
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_ended(true, "took over");
    coordinator_link_stop(coordinator);
    cr_assert_eq(fake_count(fake, FAKE_POLL), 1);
}

Test(coordinator_link, an_agent_that_was_signed_off_is_told_when_it_registers_again)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_REGISTER, 409, PROBLEM("409", "superseded"));
    script(FAKE_POLL, 404, PROBLEM("404", "agent_unknown"));
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_ended(true, "took over");
}

Test(coordinator_link, a_superseded_agent_is_told_by_the_report)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    script(FAKE_REPORT, 409, PROBLEM("409", "superseded"));
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    hand_over_report(17);
    expect_ended(true, "took over");
    cr_assert_not(is_sent());
}

Test(coordinator_link, reports_and_brings_what_learners_follow)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    script(FAKE_REPORT, 200,
           "{\"follow\":[{\"job\":\"orders\",\"processor\":1,\"committed\":[{\"topic\":0,"
           "\"partition\":1,\"offset\":99}]}]}");
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    hand_over_report(17);
    struct link_message *message = receive(LINK_MESSAGE_REPORTED);
    cr_assert(message->reported.sent);
    cr_assert_eq(message->reported.answer.follow.items[0].committed.items[0].offset, 99);
    link_message_free(message);
    cr_assert_str_eq(fake_line(fake, FAKE_REPORT, 1), "POST /agent/v1/agents/a1/report");

    struct agent_report sent;
    struct codec_faults faults = {0};
    const char *body = fake_body(fake, FAKE_REPORT, 1);
    cr_assert_eq(codec_decode(&schema_agent_report, body, strlen(body), &sent, &faults, NULL),
                 ERR_NONE);
    cr_assert_eq(sent.version.decision, 17);
    schema_free(&schema_agent_report, &sent);
    cr_assert_eq(counts().reports, 1);
}

Test(coordinator_link, a_report_is_tried_once_and_said_to_have_failed)
{
    static const struct fake_answer refusals[] = {
        {.status = 500, .body = ""},
        {.status = 413, .body = PROBLEM("413", "body_too_large")},
        {.status = 200, .body = "[]"},
        {.raw = "nonsense\r\n"},
    };
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    for (size_t i = 0; i < 4; i++)
        fake_script(fake, FAKE_REPORT, refusals[i]);
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    for (size_t i = 0; i < 4; i++) {
        hand_over_report(i);
        cr_assert_not(is_sent(), "answer %zu", i);
        cr_assert_not(counts().up);
    }
    hand_over_report(9);
    cr_assert(is_sent());
    cr_assert(counts().up);
    cr_assert_eq(counts().report_failures, 4);
    cr_assert_eq(fake_count(fake, FAKE_REPORT), 5);
}

Test(coordinator_link, an_unknown_agent_is_told_by_the_report_while_it_polls)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    script(FAKE_REPORT, 404, PROBLEM("404", "agent_unknown"));
    script(FAKE_REPORT, 200, "{\"follow\":[]}");
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    cr_assert(fake_wait(fake, FAKE_POLL, 1));
    hand_over_report(17);
    /* Goal: the held poll does not keep it from registering again. Either message comes first. */
    bool welcome = false, reported = false;
    while (!welcome || !reported) {
        struct link_message *message = mailbox_receive(mailbox, clock_mono_ms() + 10000);
        cr_assert_not_null(message);
        welcome = welcome || message->kind == LINK_MESSAGE_WELCOME;
        reported = reported || message->kind == LINK_MESSAGE_REPORTED;
        link_message_free(message);
    }
    hand_over_report(17);
    cr_assert(is_sent());
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 2);
}

/* Each of these is one failed poll, after which a good document is applied as if nothing was. */
Test(coordinator_link, what_is_no_document_is_refused_and_asked_for_again)
{
    static const struct fake_answer answers[] = {
        {.status = 200, .body = ""},
        {.status = 200, .body = "null"},
        {.status = 200, .body = "{\"version\":\"3.1\""},
        {.status = 200, .body = "{\"version\":3,\"jobs\":[],\"tasks\":[]}"},
        {.status = 200, .body = "{\"version\":\"3.1\",\"jobs\":[],\"tasks\":[],\"more\":1}"},
        {.status = 200,
         .body = "{\"version\":\"3.1\",\"jobs\":[],\"tasks\":[{\"job\":\"orders\","
                 "\"processor\":1,\"role\":\"active\",\"epoch\":7,\"handoff\":0,"
                 "\"owned\":[1],\"read\":[1]}]}"},
        {.status = 302, .header = "Location: http://127.0.0.1:1/", .body = ""},
        {.status = 200, .body = DOCUMENT("3.1"), .padding_bytes = 64 * 1024},
        {.raw = "SSH-2.0-OpenSSH_9.2p1\r\n"},
        {.raw = "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"version\":"},
        {.raw = "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"},
        {.raw = ""},
    };
    size_t count = sizeof(answers) / sizeof(answers[0]);
    script(FAKE_REGISTER, 201, WELCOME);
    for (size_t i = 0; i < count; i++)
        fake_script(fake, FAKE_POLL, answers[i]);
    script(FAKE_POLL, 200, DOCUMENT("3.2"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_version(3, 2);
    /* After a failure it does not wait: it wants to know at once that things are well again. */
    cr_assert_not_null(strstr(fake_line(fake, FAKE_POLL, count + 1), "&after=0.0&wait=0s"));
    cr_assert_not_null(strstr(fake_line(fake, FAKE_POLL, count + 2), "&after=3.2&wait=25s"));
    cr_assert_eq(counts().poll_failures, count);
    cr_assert(counts().up);
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 1);
}

Test(coordinator_link, an_older_document_is_ignored)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    script(FAKE_POLL, 200, DOCUMENT("2.99"));
    script(FAKE_POLL, 200, DOCUMENT("3.16"));
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    script(FAKE_POLL, 200, DOCUMENT("4.1"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    expect_version(3, 17);
    expect_version(4, 1);
    cr_assert_eq(counts().poll_failures, 2);
}

Test(coordinator_link, a_coordinator_that_does_not_wait_is_not_asked_in_a_busy_loop)
{
    config.retry_min_ms = config.retry_max_ms = 50;
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 204, NULL);
    fake_listen(fake);
    start();

    cr_assert(fake_wait(fake, FAKE_POLL, 5));
    cr_assert_geq(fake_time_ms(fake, FAKE_POLL, 5) - fake_time_ms(fake, FAKE_POLL, 1), 4 * 50 - 4);
    cr_assert_eq(counts().poll_failures, 0);
}

Test(coordinator_link, a_slow_answer_is_given_up)
{
    config.api.request_ms = 2000; /* the second answer comes within it */
    fake_script(fake, FAKE_REGISTER,
                (struct fake_answer){.status = 201, .body = WELCOME, .hold = true});
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    fake_listen(fake);
    int64_t started_ms = clock_mono_ms();
    start();

    expect(LINK_MESSAGE_WELCOME);
    cr_assert_eq(counts().registration_failures, 1);
    cr_assert_geq(fake_time_ms(fake, FAKE_REGISTER, 2), started_ms + 2000);
}

Test(coordinator_link, another_cluster_is_not_joined)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_REGISTER, 201, FAKE_WELCOME_OF(OTHER_CLUSTER, "100ms"));
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 404, PROBLEM("404", "agent_unknown"));
    script_hold(FAKE_POLL);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    struct link_message *message = receive(LINK_MESSAGE_WELCOME);
    cr_assert_str_eq(message->welcome.cluster, FAKE_CLUSTER);
    link_message_free(message);
    cr_assert_eq(fake_count(fake, FAKE_REGISTER), 3);
    cr_assert_eq(counts().registration_failures, 1);
}

Test(coordinator_link, a_full_mailbox_loses_no_document)
{
    mailbox_destroy(mailbox);
    mailbox = config.mailbox = mailbox_create(1, link_message_free);
    script(FAKE_REGISTER, 201, WELCOME);
    script(FAKE_POLL, 200, DOCUMENT("3.17"));
    fake_listen(fake);
    start();

    /* Before: the welcome fills the mailbox, and the document was refused by it more than once. */
    cr_assert(fake_wait(fake, FAKE_POLL, 3));
    expect(LINK_MESSAGE_WELCOME);
    expect_version(3, 17);
}

Test(coordinator_link, stops_at_once_whatever_it_waits_for)
{
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    script_hold(FAKE_REPORT);
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    hand_over_report(17);
    cr_assert(fake_wait(fake, FAKE_POLL, 1));
    cr_assert(fake_wait(fake, FAKE_REPORT, 1));
    int64_t started_ms = clock_mono_ms();
    coordinator_link_stop(coordinator);
    cr_assert_lt(clock_mono_ms() - started_ms, 10000);
    cr_assert_not(is_sent());
}

Test(coordinator_link, stops_in_the_pause_between_tries)
{
    config.retry_min_ms = config.retry_max_ms = 60000;
    script(FAKE_REGISTER, 500, "");
    fake_listen(fake);
    start();

    cr_assert(fake_wait(fake, FAKE_REGISTER, 1));
    int64_t started_ms = clock_mono_ms();
    coordinator_link_stop(coordinator);
    cr_assert_lt(clock_mono_ms() - started_ms, 10000);
}

Test(coordinator_link, leaves_by_its_incarnation)
{
    struct err err;
    script(FAKE_REGISTER, 201, WELCOME);
    script_hold(FAKE_POLL);
    script(FAKE_DEREGISTER, 204, NULL);
    script(FAKE_DEREGISTER, 409, PROBLEM("409", "superseded"));
    fake_script(fake, FAKE_DEREGISTER, (struct fake_answer){.status = 204, .hold = true});
    fake_listen(fake);
    start();

    expect(LINK_MESSAGE_WELCOME);
    coordinator_link_stop(coordinator);
    cr_assert_eq(coordinator_link_deregister(coordinator, 20000, &err), ERR_NONE);
    cr_assert_str_eq(fake_line(fake, FAKE_DEREGISTER, 1),
                     "DELETE /agent/v1/agents/a1?incarnation=" INCARNATION);
    cr_assert_eq(coordinator_link_deregister(coordinator, 20000, &err), ERR_UNAVAILABLE);
    cr_assert_not_null(strstr(err.text, "because"));
    cr_assert_eq(coordinator_link_deregister(coordinator, 100, &err), ERR_UNAVAILABLE);
}
