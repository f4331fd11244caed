#include "agent/metrics.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

static struct partition_progress first_progress[] = {
    {.topic = 0, .partition = 0, .t0 = 0, .t1 = 40, .t2 = 30, .stable_end = 100, .end = 120},
    {.topic = 0, .partition = 1, .t0 = 0, .t1 = 7, .t2 = 7, .stable_end = 7, .end = 7},
};
static struct partition_progress second_progress[] = {
    {.topic = 0, .partition = 2, .t1 = API_UNKNOWN, .t2 = 3, .stable_end = 9, .end = 9},
};
static struct task_problem problems[] = {{.code = (char *)"store_failed", .detail = (char *)"x"}};
static struct task_report tasks[3];

static struct metrics_view a_view(void)
{
    tasks[0] = (struct task_report){.job = (char *)"orders",
                                    .processor = 3,
                                    .state = TASK_STATE_ACTIVE,
                                    .role = TASK_ROLE_ACTIVE,
                                    .epoch = 17,
                                    .caught_up_lag = API_UNKNOWN,
                                    .progress = {first_progress, 2},
                                    .records = 1000,
                                    .outputs = 999,
                                    .replayed = 10,
                                    .skipped_null_key = 1,
                                    .skipped_error = 2,
                                    .dead_lettered = 3,
                                    .commits = 50,
                                    .aborts = 1,
                                    .state_rows = 5,
                                    .state_bytes = 4096};
    tasks[1] = (struct task_report){.job = (char *)"a\"b\\c\nd",
                                    .state = TASK_STATE_FAILED,
                                    .role = TASK_ROLE_ACTIVE,
                                    .caught_up_lag = API_UNKNOWN,
                                    .progress = {second_progress, 1},
                                    .problems = {problems, 1}};
    tasks[2] = (struct task_report){
        .job = (char *)"orders", .processor = 3, .state = TASK_STATE_CLOSED, .epoch = 16};
    return (struct metrics_view){.report = {.version = {3, 17}, .tasks = {tasks, 3}},
                                 .link = {.up = true, .reports = 9, .report_failures = 2},
                                 .tasks = {.wanted = 2, .running = 1, .down = 1},
                                 .snapshots = {.transfers = 1,
                                               .begun = 9,
                                               .completed = 5,
                                               .expired = 3,
                                               .refused = 2,
                                               .bytes = 70000,
                                               .rows = 800},
                                 .ready = true,
                                 .capacity = 64,
                                 .started_at = 1500};
}

static bool has_line(const char *text, const char *line)
{
    size_t bytes = strlen(line);
    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, bytes) == 0 && at[bytes] == '\n')
            return true;
    }
    return false;
}

static const char *const lines[] = {
    "baton_agent_build_info{version=\"" BATON_VERSION "\",librdkafka=\"2.0.2\"} 1",
    "baton_agent_ready 1",
    "baton_agent_stopping 0",
    "baton_agent_coordinator_up 1",
    "baton_agent_coordinator_requests_total{operation=\"report\"} 9",
    "baton_agent_coordinator_failures_total{operation=\"report\"} 2",
    "baton_agent_capacity 64",
    "baton_agent_snapshots_sending 1",
    "baton_agent_snapshots_total{result=\"completed\"} 5",
    "baton_agent_snapshots_total{result=\"expired\"} 3",
    "baton_agent_snapshots_total{result=\"refused\"} 2",
    "baton_agent_snapshot_bytes_total 70000",
    "baton_agent_snapshot_rows_total 800",
    "baton_agent_document_start 3",
    "baton_agent_document_decision 17",
    "baton_agent_tasks{state=\"active\"} 1",
    "baton_agent_tasks{state=\"failed\"} 1",
    "baton_agent_tasks{state=\"fenced\"} 0",
    "baton_agent_tasks_wanted 2",
    "baton_task_state{job=\"orders\",processor=\"3\",role=\"active\",state=\"active\"} 1",
    "baton_task_epoch{job=\"orders\",processor=\"3\"} 17",
    "baton_task_lag_records{job=\"orders\",processor=\"3\"} 60",
    "baton_task_replay_records{job=\"orders\",processor=\"3\"} 10",
    "baton_task_records_total{job=\"orders\",processor=\"3\"} 1000",
    "baton_task_outputs_total{job=\"orders\",processor=\"3\"} 999",
    "baton_task_replayed_total{job=\"orders\",processor=\"3\"} 10",
    "baton_task_skipped_total{job=\"orders\",processor=\"3\",reason=\"null_key\"} 1",
    "baton_task_skipped_total{job=\"orders\",processor=\"3\",reason=\"error\"} 2",
    "baton_task_dead_lettered_total{job=\"orders\",processor=\"3\"} 3",
    "baton_task_commits_total{job=\"orders\",processor=\"3\"} 50",
    "baton_task_aborts_total{job=\"orders\",processor=\"3\"} 1",
    "baton_task_state_rows{job=\"orders\",processor=\"3\"} 5",
    "baton_task_state_bytes{job=\"orders\",processor=\"3\"} 4096",
    "baton_task_released{job=\"orders\",processor=\"3\"} 0",
    "baton_task_problem{job=\"a\\\"b\\\\c\\nd\",processor=\"0\",code=\"store_failed\"} 1",
};

Test(metrics, says_what_there_is)
{
    struct strbuf buf = {0};
    struct metrics_view view = a_view();
    metrics_print(&view, "2.0.2", &buf);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert(has_line(buf.data, lines[i]), "no line %s in\n%s", lines[i], buf.data);
    strbuf_finish(&buf);
}

Test(metrics, what_is_not_known_is_absent_and_not_zero)
{
    struct strbuf buf = {0};
    struct metrics_view view = a_view();
    metrics_print(&view, "2.0.2", &buf);
    cr_assert_null(strstr(buf.data, "baton_task_lag_records{job=\"a\\\"b"));
    cr_assert_null(strstr(buf.data, "baton_task_replay_records{job=\"a\\\"b"));
    strbuf_finish(&buf);

    /* Neither does a task without partitions lag by 0. */
    second_progress[0].t1 = 3;
    tasks[1].progress.count = 0;
    metrics_print(&view, "2.0.2", &buf);
    cr_assert_null(strstr(buf.data, "baton_task_lag_records{job=\"a\\\"b"));
    strbuf_finish(&buf);
}

Test(metrics, a_learner_says_how_far_it_is_behind_and_not_how_far_its_owner_is)
{
    struct strbuf buf = {0};
    struct metrics_view view = a_view();
    tasks[0].role = TASK_ROLE_LEARNER;
    tasks[0].state = TASK_STATE_LEARNING;
    tasks[0].caught_up_lag = 12;
    metrics_print(&view, "2.0.2", &buf);
    cr_assert(
        has_line(buf.data, "baton_task_caught_up_lag_records{job=\"orders\",processor=\"3\"} 12"));
    cr_assert(has_line(buf.data, "baton_task_replay_records{job=\"orders\",processor=\"3\"} 10"));
    cr_assert_null(strstr(buf.data, "baton_task_lag_records{job=\"orders\""));
    strbuf_finish(&buf);
}

/* The format: HELP, TYPE, then the family's samples, each series once, each family once. */
Test(metrics, is_well_formed)
{
    struct strbuf buf = {0};
    struct metrics_view view = a_view();
    char *seen[512];
    size_t seen_count = 0;
    char family[128] = "";
    int samples = 0, families = 0;
    metrics_print(&view, "2.0.2", &buf);

    char *rest = buf.data, *line;
    cr_assert_eq(buf.data[buf.bytes - 1], '\n');
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        if (strncmp(line, "# HELP ", 7) == 0) {
            cr_assert_eq(sscanf(line, "# HELP %127s", family), 1);
            families++;
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char name[128], type[32];
            cr_assert_eq(sscanf(line, "# TYPE %127s %31s", name, type), 2);
            cr_assert_str_eq(name, family);
            bool counter = strcmp(type, "counter") == 0;
            const char *total = strstr(name, "_total");
            cr_assert_eq(counter, total != NULL && total[6] == '\0', "%s", name);
        } else {
            size_t bytes = strcspn(line, "{ ");
            cr_assert_eq(bytes, strlen(family), "%s", line);
            cr_assert_eq(strncmp(line, family, bytes), 0, "%s", line);
            char *value = strrchr(line, ' ');
            cr_assert(isdigit((unsigned char)value[1]), "%s", line);
            *value = '\0';
            samples++;
        }
        for (size_t i = 0; i < seen_count; i++)
            cr_assert_str_neq(seen[i], line);
        cr_assert_lt(seen_count, 512);
        seen[seen_count++] = line;
    }
    cr_assert_gt(families, 20);
    cr_assert_gt(samples, 40);
    strbuf_finish(&buf);
}

Test(metrics, an_agent_without_tasks)
{
    struct strbuf buf = {0};
    struct metrics_view *view = mem_calloc(1, sizeof(*view));
    metrics_print(view, "2.0.2", &buf);
    cr_assert(has_line(buf.data, "baton_agent_ready 0"));
    cr_assert_null(strstr(buf.data, "baton_task_epoch{"));
    metrics_view_destroy(view);
    metrics_view_destroy(NULL);
    strbuf_finish(&buf);
}
