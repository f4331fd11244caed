/* Settle windows as readers see them. j1 has 8 partitions, of which 16 are made. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "coordinator/publish_job.h"
#include "tests/unit/coordinator/core/world.h"

static struct world world;

static void setup(void)
{
    world_init(&world);
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
}

static void teardown(void)
{
    world_finish(&world);
}

TestSuite(publish_window, .init = setup, .fini = teardown);

static struct job *job(void)
{
    return cluster_job(&world.cluster, "j1");
}

/* As an expansion leaves it, at that time. */
static void open(uint32_t partition, int64_t opened_at)
{
    struct job *of = job();
    of->windows.items = mem_grow(of->windows.items, of->windows.count, &of->windows.capacity,
                                 sizeof(*of->windows.items));
    of->windows.items[of->windows.count++] = (struct window){
        .row = {.job = mem_strdup("j1"),
                .window = {.partition = partition, .number = 1, .fence = API_UNKNOWN},
                .opened_at = opened_at,
                .closed_at = API_UNKNOWN,
                .old_at = API_UNKNOWN}};
}

static struct job_status sum(void)
{
    struct job_status status = {0};
    publish_sum_windows(job(), &status);
    return status;
}

Test(publish_window, tells_when_the_first_can_be_closed)
{
    int64_t settle_ms = job()->row.spec.settle_ms;
    struct job_status status = sum();
    cr_assert_eq(status.windows_close_at, API_UNKNOWN, "there is none");
    open(0, 1000);
    open(1, 2000);
    job()->windows.items[0].row.old_at = 5000;
    job()->windows.items[0].row.old_records = 3;
    status = sum();
    cr_assert_eq(status.windows_open, 2);
    cr_assert_eq(status.windows_stale, 0);
    cr_assert_eq(status.old_records, 3);
    cr_assert_eq(status.old_at, 5000);
    cr_assert_eq(status.windows_close_at, 2000 + settle_ms, "of the one that met none");
    job()->windows.items[1].more = 1; /* not stored yet */
    job()->windows.items[1].more_at = 9000;
    status = sum();
    cr_assert_eq(status.old_records, 4);
    cr_assert_eq(status.old_at, 9000);
    cr_assert_eq(status.windows_close_at, 5000 + settle_ms);
}

Test(publish_window, of_one_that_is_closed_or_can_not_be_nothing_is_foretold)
{
    open(0, 1000);
    job()->row.partitioner = EFFECTIVE_PARTITIONER_UNDETERMINED;
    cr_assert_eq(sum().windows_close_at, API_UNKNOWN, "no owner knows old-count records");
    job()->row.partitioner = EFFECTIVE_PARTITIONER_CRC32;
    cr_assert_neq(sum().windows_close_at, API_UNKNOWN);
    job()->windows.items[0].row.window.fence = 77;
    cr_assert_eq(sum().windows_close_at, API_UNKNOWN);
    cr_assert_eq(sum().windows_open, 0);
}

Test(publish_window, a_partition_shows_its_own)
{
    open(3, 1000);
    job()->windows.items[0].row.stale = true;
    struct partition_view view = {.partition = 3};
    publish_fill_window(job(), 0, &view);
    cr_assert_str_eq(view.window, "open");
    cr_assert(view.window_stale);
    cr_assert_eq(view.window_at, 1000);
    cr_assert_eq(view.window_closes_at, 1000 + job()->row.spec.settle_ms);
    cr_assert_eq(view.fence, API_UNKNOWN);
    free(view.window);
    struct partition_view other = {.partition = 4};
    publish_fill_window(job(), 0, &other);
    cr_assert_null(other.window);
    cr_assert_not(other.window_stale);
    cr_assert_eq(other.window_closes_at, API_UNKNOWN);
    cr_assert_eq(other.old_records, API_UNKNOWN);
}
