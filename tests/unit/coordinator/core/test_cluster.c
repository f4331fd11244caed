#include "coordinator/core/cluster.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/hash/linhash.h"
#include "tests/unit/coordinator/core/world.h"

/* ---- S1 and S2 */

static bool holds(const struct uint_list *list, uint32_t number)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == number)
            return true;
    return false;
}

static void check_ascending(const struct uint_list *list)
{
    for (size_t i = 1; i < list->count; i++)
        cr_assert_lt(list->items[i - 1], list->items[i]);
}

static void check_map(const struct job *job)
{
    const struct job_row *row = &job->row;
    size_t owned_in_all = 0;
    for (uint32_t processor = 0; processor < row->processors; processor++) {
        struct uint_list owned, read;
        cluster_owned_partitions(job, processor, &owned);
        cluster_read_partitions(job, processor, &read);
        check_ascending(&owned);
        check_ascending(&read);
        owned_in_all += owned.count;
        for (size_t i = 0; i < owned.count; i++) {
            cr_assert_eq(
                linhash_bucket(owned.items[i],
                               (struct linhash_size){row->processors_initial, row->processors}),
                processor);
            cr_assert(holds(&read, owned.items[i]));
        }
        for (size_t i = 0; i < read.count; i++) {
            /* A partition is read because it is owned, or because its child is read. */
            bool wanted = holds(&owned, read.items[i]);
            for (size_t c = 0; c < read.count && !wanted; c++)
                wanted = read.items[c] >= row->partitions_initial &&
                         linhash_parent(read.items[c], row->partitions_initial) == read.items[i];
            cr_assert(wanted, "partition %u is read for nothing", read.items[i]);
            if (read.items[i] >= row->partitions_initial && cluster_keeps_keys(job))
                cr_assert(holds(&read, linhash_parent(read.items[i], row->partitions_initial)),
                          "the parent of partition %u is not read", read.items[i]);
        }
        free(owned.items);
        free(read.items);
    }
    cr_assert_eq(owned_in_all, row->partitions, "each partition has one owner");
}

Test(cluster, owned_and_read_partitions_follow_the_maps)
{
    for (uint32_t m0 = 1; m0 <= 5; m0++)
        for (uint32_t m = m0; m <= 12; m++)
            for (uint32_t n0 = 1; n0 <= 12; n0 += 3)
                for (uint32_t n = n0 > m ? n0 : m; n <= 26; n += 3) {
                    struct job job = {.row = {.spec = {.stateful = true},
                                              .processors_initial = m0,
                                              .processors = m,
                                              .partitions_initial = n0,
                                              .partitions = n}};
                    check_map(&job);
                }
}

Test(cluster, limits_do_not_overflow_the_map)
{
    struct job job = {.row = {.spec = {.stateful = true},
                              .processors_initial = 1,
                              .processors = API_PARTITIONS_MAX,
                              .partitions_initial = 1,
                              .partitions = API_PARTITIONS_MAX}};
    struct uint_list owned, read;
    cluster_owned_partitions(&job, API_PARTITIONS_MAX - 1, &owned);
    cluster_read_partitions(&job, API_PARTITIONS_MAX - 1, &read);
    cr_assert_eq(owned.count, 1);
    cr_assert_eq(owned.items[0], API_PARTITIONS_MAX - 1);
    cr_assert_eq(read.items[0], 0); /* the root of all */
    free(owned.items);
    free(read.items);
}

/* ---- documents */

Test(cluster, document_lists_what_the_agent_owns_and_nothing_else)
{
    struct world world;
    world_init(&world);
    world_register(&world, "a1", 1);
    world_register(&world, "a2", 2);
    world_create(&world, "j1");
    struct agent_document document;
    cluster_document(&world.cluster, cluster_agent(&world.cluster, "a1"), &document);
    cr_assert_eq(document.jobs.count, 1);
    cr_assert_str_eq(document.jobs.items[0].name, "j1");
    cr_assert_eq(document.jobs.items[0].partitions, 8);
    cr_assert_eq(document.jobs.items[0].origins.count, 8);
    cr_assert_eq(document.tasks.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct document_task *task = &document.tasks.items[i];
        cr_assert_eq(task->processor, i * 2);
        cr_assert_eq(task->role, TASK_ROLE_ACTIVE);
        cr_assert_eq(task->epoch, world_placement(&world, "j1", task->processor)->epoch);
        cr_assert_eq(task->owned.count, 2);
        cr_assert_eq(task->owned.items[1], task->processor + 4);
        cr_assert_eq(task->read.count, 2);
    }
    schema_free(&schema_agent_document, &document);

    /* A job that is on its way out is in no document. */
    world_delete(&world, "j1");
    cluster_document(&world.cluster, cluster_agent(&world.cluster, "a1"), &document);
    cr_assert_eq(document.jobs.count, 0);
    cr_assert_eq(document.tasks.count, 0);
    schema_free(&schema_agent_document, &document);
    world_finish(&world);
}

Test(cluster, versions_compare_by_start_first)
{
    static const struct {
        struct document_version a, b;
        int order;
    } rows[] = {
        {{1, 5}, {1, 5}, 0},  {{1, 4}, {1, 5}, -1},  {{1, 6}, {1, 5}, 1},
        {{2, 0}, {1, 99}, 1}, {{1, 99}, {2, 0}, -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_eq(cluster_compare_versions(rows[i].a, rows[i].b), rows[i].order);
}

Test(cluster, transactional_id_names_cluster_job_incarnation_and_processor)
{
    struct world world;
    world_init(&world);
    const struct job *job = world_create(&world, "j1");
    char *id = cluster_transactional_id(&world.cluster, job, 3);
    cr_assert_eq(strncmp(id, "baton.00000000-0000-4000-8000-000000000000.j1.", 46), 0, "%s", id);
    cr_assert_eq(strncmp(id + 46, job->row.incarnation, API_UUID_BYTES), 0, "%s", id);
    cr_assert_str_eq(id + 46 + API_UUID_BYTES, ".3");
    free(id);
    world_finish(&world);
}

/* ---- which report speaks for a placement */

Test(cluster, only_the_owners_newest_report_for_the_epoch_counts)
{
    struct world world;
    world_init(&world);
    world_register(&world, "a1", 1);
    struct job *job = world_create(&world, "j1");
    const struct processor *processor = &job->processors.items[0];
    cr_assert_null(cluster_report(&world.cluster, processor), "nothing was reported yet");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_not_null(cluster_report(&world.cluster, processor));

    /* The task is gone from the next report. */
    struct agent_report report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    schema_free(&schema_task_report, &report.tasks.items[0]);
    memmove(&report.tasks.items[0], &report.tasks.items[1],
            --report.tasks.count * sizeof(struct task_report));
    world_send_report(&world, "a1", report);
    cr_assert_null(cluster_report(&world.cluster, processor));
    cr_assert(processor->observed.known, "what it said last stays to be seen");
    cr_assert_not_null(cluster_report(&world.cluster, &job->processors.items[1]));

    /* An older epoch. */
    report = world_report_of(&world, "a1", TASK_STATE_ACTIVE);
    report.tasks.items[0].epoch--;
    world_send_report(&world, "a1", report);
    cr_assert_null(cluster_report(&world.cluster, processor));

    /* Another incarnation of the agent. */
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    cr_assert_not_null(cluster_report(&world.cluster, processor));
    world_pass(&world, 3000);
    world_register(&world, "a1", 2);
    cr_assert_null(cluster_report(&world.cluster, processor));
    world_finish(&world);
}

Test(cluster, check_finds_what_is_broken)
{
    struct world world;
    world_init(&world);
    world_register(&world, "a1", 1);
    struct job *job = world_create(&world, "j1");
    cr_assert_null(cluster_check(&world.cluster));

    struct placement_row *placement = &job->processors.items[0].placement;
    uint64_t epoch = placement->epoch;
    placement->epoch = world.cluster.meta.epoch + 1;
    cr_assert_not_null(cluster_check(&world.cluster));
    placement->epoch = job->processors.items[1].placement.epoch;
    cr_assert_str_eq(cluster_check(&world.cluster), "one epoch was handed out twice");
    placement->epoch = epoch;

    job->row.origins.items[0].offset = API_UNKNOWN;
    cr_assert_not_null(cluster_check(&world.cluster));
    job->row.origins.items[0].offset = 0;

    job->row.state = JOB_STATE_DELETING;
    cr_assert_not_null(cluster_check(&world.cluster), "a deletion has an operation");
    job->row.state = JOB_STATE_RUNNING;

    world.cluster.agents.items[0]->row.incarnation[0] = 'f';
    cr_assert_not_null(cluster_check(&world.cluster), "an epoch of another incarnation");
    world.cluster.agents.items[0]->row.incarnation[0] = '0';
    cr_assert_null(cluster_check(&world.cluster));
    world_finish(&world);
}
