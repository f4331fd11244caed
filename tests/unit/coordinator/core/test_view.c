#include "coordinator/core/view.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "api/schema.h"

Test(view, operation_names_parse_back_and_nothing_else_does)
{
    static const struct {
        const char *text;
        bool valid;
        uint64_t id;
    } rows[] = {
        {"op-1", true, 1},   {"op-9223372036854775807", true, INT64_MAX},
        {"op-0", false, 0},  {"op-", false, 0},
        {"op-01", false, 0}, {"op-9223372036854775808", false, 0},
        {"op--1", false, 0}, {"op-1 ", false, 0},
        {"1", false, 0},     {"", false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t id = 77;
        cr_assert_eq(view_operation_parse(rows[i].text, &id), rows[i].valid, "\"%s\"",
                     rows[i].text);
        cr_assert_eq(id, rows[i].valid ? rows[i].id : 77, "\"%s\"", rows[i].text);
    }
    char *name = view_operation_name(42);
    cr_assert_str_eq(name, "op-42");
    free(name);
}

Test(view, every_step_of_an_operation_has_words)
{
    for (int step = 0; step <= OPERATION_STEP_END; step++) {
        struct operation_row row = {.id = 1,
                                    .kind = OPERATION_KIND_DELETE_JOB,
                                    .job = (char *)"j1",
                                    .state = OPERATION_STATE_RUNNING,
                                    .step = (enum operation_step)step};
        struct operation_view view;
        view_operation(&row, &view);
        cr_assert_str_eq(view.id, "op-1");
        cr_assert_str_eq(view.kind, "delete_job");
        cr_assert_str_not_empty(view.step);
        cr_assert_null(view.error);
        schema_free(&schema_operation_view, &view);
    }
}
