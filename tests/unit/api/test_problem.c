#include "api/problem.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"

Test(problem, every_entry_is_complete)
{
    const struct problem_entry *entry;
    size_t i = 0;
    for (; (entry = problem_at(i)) != NULL; i++) {
        cr_assert(schema_name_valid(entry->code), "%s", entry->code);
        cr_assert_eq(problem_find(entry->code), entry, "%s is there twice", entry->code);
        cr_assert_eq(problem_lookup(entry->code), entry);
        cr_assert(entry->status == 0 || (entry->status >= 400 && entry->status <= 599));
        cr_assert(entry->status != 0 || entry->of_job, "%s is used nowhere", entry->code);
        cr_assert_gt(strlen(entry->title), 10);
        cr_assert_leq(strlen(entry->title), 80, "%s", entry->code);
        cr_assert_neq(entry->title[strlen(entry->title) - 1], '.', "%s", entry->code);
        cr_assert_gt(strlen(entry->action), 20, "%s", entry->code);
        cr_assert_leq(strlen(entry->action), API_TEXT_BYTES_MAX);
        cr_assert_eq(entry->action[strlen(entry->action) - 1], '.', "%s", entry->code);
    }
    cr_assert_gt(i, 50);
    cr_assert_null(problem_at(i + 1));
}

Test(problem, a_peers_code_may_be_unknown)
{
    cr_assert_null(problem_lookup("from_a_newer_agent"));
    cr_assert_null(problem_lookup(""));
}

Test(problem, our_own_code_may_not, .signal = SIGABRT)
{
    (void)problem_find("from_a_newer_agent");
}

Test(problem, body)
{
    struct problem_body body;
    problem_body(&body, "job_not_found", "job \"%s\" does not exist", "orders");
    cr_assert_str_eq(body.type, "urn:baton:problem:job_not_found");
    cr_assert_str_eq(body.title, "There is no such job");
    cr_assert_eq(body.status, 404);
    cr_assert_str_eq(body.detail, "job \"orders\" does not exist");
    cr_assert_str_eq(body.code, "job_not_found");
    cr_assert_eq(body.errors.count, 0);
    schema_free(&schema_problem_body, &body);
}

Test(problem, a_code_that_answers_no_request_makes_no_body, .signal = SIGABRT)
{
    struct problem_body body;
    problem_body(&body, "record_failed", "x");
}

Test(problem, a_long_detail_is_cut)
{
    char text[API_TEXT_BYTES_MAX + 2];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct problem_body body;
    problem_body(&body, "internal", "%s", text);
    cr_assert_eq(strlen(body.detail), API_TEXT_BYTES_MAX);
    cr_assert_str_eq(body.detail + API_TEXT_BYTES_MAX - 4, "x...");
    schema_free(&schema_problem_body, &body);

    text[API_TEXT_BYTES_MAX] = '\0'; /* just fits */
    problem_body(&body, "internal", "%s", text);
    cr_assert_str_eq(body.detail, text);
    schema_free(&schema_problem_body, &body);
}

Test(problem, faults_move_into_the_body)
{
    struct codec_faults faults = {0};
    codec_faults_add(&faults, "/a", "must be b");
    struct problem_body body;
    problem_body(&body, "invalid_request", "x");
    problem_take_faults(&body, &faults);
    cr_assert_eq(faults.count, 0);
    cr_assert_null(faults.items);
    cr_assert_eq(body.errors.count, 1);
    cr_assert_str_eq(body.errors.items[0].pointer, "/a");
    cr_assert_str_eq(body.errors.items[0].detail, "must be b");
    schema_free(&schema_problem_body, &body);
}
