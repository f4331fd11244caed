/* Pages of events and operations, and how much of them is kept. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"
#include "coordinator/store.h"
#include "tests/unit/coordinator/store_fixture.h"

static struct store_fixture fixture;
static struct store *store;
static struct cluster cluster;

static void setup(void)
{
    store_fixture_init(&fixture);
    store = store_fixture_open(&fixture);
    store_fixture_load(store, &cluster);
}

static void teardown(void)
{
    store_close(store);
    cluster_finish(&cluster);
    store_fixture_finish(&fixture);
}

TestSuite(store_history, .init = setup, .fini = teardown);

static void commit(struct update *update)
{
    struct err err;
    enum err_code code = store_commit(store, update, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    update_finish(update);
}

static void add_events(uint64_t first, uint64_t last)
{
    struct update update = {0};
    for (uint64_t id = first; id <= last; id++) {
        struct change change = {
            .kind = CHANGE_EVENT,
            .event = {.id = id,
                      .at = (int64_t)id * 1000,
                      .kind = mem_strdup("something"),
                      .job = mem_strdup(id % 3 == 0 ? "j3" : "other"),
                      .processor = (int64_t)id % 7,
                      .agent = mem_strdup("a1"),
                      .operation = mem_printf("op-%llu", (unsigned long long)id),
                      .actor = mem_strdup("api test"),
                      .detail = mem_printf("it's \"%llu\"", (unsigned long long)id)}};
        update_change(&update, &cluster, &change);
    }
    commit(&update);
}

static struct event_page events(uint64_t after, const char *job, uint32_t limit)
{
    struct event_page page;
    struct err err;
    struct store_event_query query = {.after = after, .job = job, .limit = limit};
    enum err_code code = store_events(store, query, &page, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    return page;
}

Test(store_history, events_come_back_as_they_were)
{
    add_events(1, 1);
    struct event_page page = events(0, NULL, 10);
    cr_assert_eq(page.items.count, 1);
    cr_assert_null(page.next);
    const struct event_view *event = &page.items.items[0];
    cr_assert_eq(event->id, 1);
    cr_assert_eq(event->at, 1000);
    cr_assert_str_eq(event->kind, "something");
    cr_assert_str_eq(event->job, "other");
    cr_assert_eq(event->processor, 1);
    cr_assert_str_eq(event->agent, "a1");
    cr_assert_str_eq(event->operation, "op-1");
    cr_assert_str_eq(event->actor, "api test");
    cr_assert_str_eq(event->detail, "it's \"1\"");
    schema_free(&schema_event_page, &page);
}

Test(store_history, events_without_a_job_keep_their_gaps)
{
    struct update update = {0};
    struct change change = {.kind = CHANGE_EVENT,
                            .event = {.id = 1,
                                      .at = 5,
                                      .kind = mem_strdup("coordinator_started"),
                                      .processor = API_UNKNOWN,
                                      .actor = mem_strdup("coordinator"),
                                      .detail = mem_strdup("")}};
    update_change(&update, &cluster, &change);
    commit(&update);
    struct event_page page = events(0, NULL, 10);
    const struct event_view *event = &page.items.items[0];
    cr_assert_null(event->job);
    cr_assert_null(event->agent);
    cr_assert_null(event->operation);
    cr_assert_eq(event->processor, API_UNKNOWN, "not 0");
    schema_free(&schema_event_page, &page);
}

/* Goal: the newest, in order, and none past `after` or of another job. */
Test(store_history, last_events_are_the_newest_in_order)
{
    static const struct {
        uint64_t after;
        const char *job;
        uint32_t limit;
        size_t count;
        uint64_t first, step;
    } cases[] = {
        {0, NULL, 3, 3, 8, 1}, {0, NULL, 10, 10, 1, 1}, {0, NULL, 99, 10, 1, 1},
        {8, NULL, 5, 2, 9, 1}, {10, NULL, 5, 0, 0, 0},  {0, "j3", 2, 2, 6, 3},
        {0, "j3", 9, 3, 3, 3}, {3, "j3", 9, 2, 6, 3},   {0, "no", 5, 0, 0, 0},
    };
    add_events(1, 10);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct store_event_query query = {
            .after = cases[i].after, .job = cases[i].job, .limit = cases[i].limit, .last = true};
        struct event_page page;
        struct err err;
        cr_assert_eq(store_events(store, query, &page, &err), ERR_NONE);
        cr_assert_eq(page.items.count, cases[i].count, "case %zu: %zu", i, page.items.count);
        for (size_t e = 0; e < page.items.count; e++)
            cr_assert_eq(page.items.items[e].id, cases[i].first + e * cases[i].step, "case %zu", i);
        cr_assert_null(page.next);
        schema_free(&schema_event_page, &page);
    }
}

/* Follows the cursors through all pages; returns how many events there were. */
static size_t follow_events(const char *job, uint32_t limit)
{
    uint64_t after = 0;
    size_t count = 0;
    for (;;) {
        struct event_page page = events(after, job, limit);
        cr_assert_leq(page.items.count, limit);
        for (size_t i = 0; i < page.items.count; i++) {
            cr_assert_gt(page.items.items[i].id, after);
            cr_assert(job == NULL || strcmp(page.items.items[i].job, job) == 0);
            after = page.items.items[i].id;
            count++;
        }
        bool last = page.next == NULL;
        cr_assert(last || strtoull(page.next, NULL, 10) == after);
        cr_assert(last || page.items.count == limit);
        schema_free(&schema_event_page, &page);
        if (last)
            return count;
    }
}

Test(store_history, event_pages_join_without_gap_or_overlap)
{
    add_events(1, 90);
    static const uint32_t limits[] = {1, 7, 30, 89, 90, 91, 1000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        cr_assert_eq(follow_events(NULL, limits[i]), 90);
        cr_assert_eq(follow_events("j3", limits[i]), 30);
        cr_assert_eq(follow_events("nobody's", limits[i]), 0);
    }
    struct event_page page = events(UINT64_MAX, NULL, 10);
    cr_assert_eq(page.items.count, 0);
    schema_free(&schema_event_page, &page);
}

Test(store_history, oldest_events_go_and_the_newest_stay)
{
    store_retain(store, (struct store_retention){.events = 100, .operations = 100});
    for (uint64_t first = 1; first <= 500; first += 10)
        add_events(first, first + 9);
    struct event_page page = events(0, NULL, 1000);
    cr_assert_eq(page.items.count, 100);
    cr_assert_eq(page.items.items[0].id, 401);
    cr_assert_eq(page.items.items[99].id, 500);
    schema_free(&schema_event_page, &page);
}

/* Times of events are in the order of their numbers. */
Test(store_history, old_events_go_by_their_age)
{
    struct event_page page;
    int64_t newest_at;
    add_events(1, 30);
    page = events(0, NULL, 1000);
    newest_at = page.items.items[29].at;
    cr_assert_gt(newest_at, page.items.items[9].at);
    store_retain(store, (struct store_retention){.events = 1000,
                                                 .operations = 100,
                                                 .age_ms = newest_at - page.items.items[9].at});
    schema_free(&schema_event_page, &page);
    add_events(31, 31);
    page = events(0, NULL, 1000);
    cr_assert_geq(page.items.items[0].id, 10, "%llu is too old",
                  (unsigned long long)page.items.items[0].id);
    cr_assert_leq(page.items.items[0].id, 12);
    cr_assert_eq(page.items.items[page.items.count - 1].id, 31);
    schema_free(&schema_event_page, &page);
}

Test(store_history, lowered_limit_is_reached_in_small_slices)
{
    add_events(1, 500);
    store_retain(store, (struct store_retention){.events = 50, .operations = 100});
    uint64_t next = 501;
    size_t count = 500;
    for (int round = 0; round < 40 && count > 50; round++, next++) {
        add_events(next, next);
        struct event_page page = events(0, NULL, 1000);
        cr_assert_geq(page.items.count + 20, count, "a slice of %zu is not small",
                      count - page.items.count);
        count = page.items.count;
        cr_assert_eq(page.items.items[count - 1].id, next);
        schema_free(&schema_event_page, &page);
    }
    cr_assert_eq(count, 50);
}

/* ---- operations */

static void put_operation(uint64_t id, enum operation_state state)
{
    struct update update = {0};
    struct change change = {
        .kind = CHANGE_OPERATION,
        .operation = {.id = id,
                      .kind = id % 2 == 0 ? OPERATION_KIND_DELETE_JOB : OPERATION_KIND_CREATE_JOB,
                      .job = mem_strdup(id % 3 == 0 ? "j3" : "other"),
                      .job_incarnation = mem_strdup("00000000-0000-4000-8000-000000000001"),
                      .state = state,
                      .step = OPERATION_STEP_FENCE,
                      .reason = mem_strdup("because"),
                      .error = id % 5 == 0 ? mem_strdup("why not") : NULL,
                      .created_at = 10,
                      .updated_at = 20}};
    update_change(&update, &cluster, &change);
    commit(&update);
}

static struct operation_page operations(struct store_operation_query query)
{
    struct operation_page page;
    struct err err;
    enum err_code code = store_operations(store, query, &page, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    return page;
}

Test(store_history, one_operation_comes_back_as_it_was)
{
    put_operation(5, OPERATION_STATE_RUNNING);
    put_operation(5, OPERATION_STATE_FAILED);
    struct operation_view view;
    struct err err;
    cr_assert_eq(store_operation(store, 5, &view, &err), ERR_NONE);
    cr_assert_str_eq(view.id, "op-5");
    cr_assert_str_eq(view.kind, "create_job");
    cr_assert_eq(view.state, OPERATION_STATE_FAILED);
    cr_assert_str_eq(view.reason, "because");
    cr_assert_str_eq(view.error, "why not");
    cr_assert_eq(view.updated_at, 20);
    schema_free(&schema_operation_view, &view);
    cr_assert_eq(store_operation(store, 6, &view, &err), ERR_NOT_FOUND);
    cr_assert_eq(store_operation(store, UINT64_MAX, &view, &err), ERR_NOT_FOUND);
}

Test(store_history, operation_pages_go_from_the_newest_down_and_filter)
{
    for (uint64_t id = 1; id <= 30; id++)
        put_operation(id, id > 25 ? OPERATION_STATE_RUNNING : OPERATION_STATE_SUCCEEDED);
    struct operation_page page = operations((struct store_operation_query){.limit = 10});
    cr_assert_eq(page.items.count, 10);
    cr_assert_str_eq(page.items.items[0].id, "op-30");
    cr_assert_str_eq(page.next, "21");
    schema_free(&schema_operation_page, &page);

    page = operations((struct store_operation_query){.limit = 20, .before = 21});
    cr_assert_eq(page.items.count, 20);
    cr_assert_str_eq(page.items.items[0].id, "op-20");
    cr_assert_null(page.next);
    schema_free(&schema_operation_page, &page);

    page = operations((struct store_operation_query){.limit = 20, .job = "j3"});
    cr_assert_eq(page.items.count, 10);
    schema_free(&schema_operation_page, &page);

    page = operations((struct store_operation_query){
        .limit = 20, .job = "j3", .only_state = true, .state = OPERATION_STATE_RUNNING});
    cr_assert_eq(page.items.count, 2); /* 27 and 30 */
    schema_free(&schema_operation_page, &page);

    page = operations((struct store_operation_query){
        .limit = 20, .only_state = true, .state = OPERATION_STATE_CANCELLED});
    cr_assert_eq(page.items.count, 0);
    schema_free(&schema_operation_page, &page);
}

Test(store_history, oldest_finished_operations_go_and_unfinished_never)
{
    store_retain(store, (struct store_retention){.events = 100, .operations = 20});
    put_operation(1, OPERATION_STATE_RUNNING);
    for (uint64_t id = 2; id <= 60; id++)
        put_operation(id, OPERATION_STATE_SUCCEEDED);
    struct operation_page page = operations((struct store_operation_query){.limit = 100});
    cr_assert_eq(page.items.count, 21);
    cr_assert_str_eq(page.items.items[19].id, "op-41");
    cr_assert_str_eq(page.items.items[20].id, "op-1");
    schema_free(&schema_operation_page, &page);
}

Test(store_history, pages_say_when_they_can_not_be_read)
{
    struct event_page event_page;
    struct operation_page operation_page;
    struct operation_view view;
    struct err err;
    add_events(1, 3);
    put_operation(1, OPERATION_STATE_RUNNING);
    store_fail_at(store, 1, STORE_FAILURE_BEFORE);
    cr_assert_eq(store_events(store, (struct store_event_query){.limit = 5}, &event_page, &err),
                 ERR_IO);
    store_fail_at(store, 1, STORE_FAILURE_BEFORE);
    cr_assert_eq(
        store_operations(store, (struct store_operation_query){.limit = 5}, &operation_page, &err),
        ERR_IO);
    store_fail_at(store, 1, STORE_FAILURE_BEFORE);
    cr_assert_eq(store_operation(store, 1, &view, &err), ERR_IO);
    cr_assert_eq(follow_events(NULL, 2), 3);
}
