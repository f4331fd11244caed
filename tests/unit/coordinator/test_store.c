/* The store keeps everything, or says why not. */
#include "coordinator/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/schema.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/rng.h"
#include "coordinator/core/rows.h"
#include "tests/unit/coordinator/core/world.h"
#include "tests/unit/coordinator/store_fixture.h"

static struct store_fixture fixture;

static void setup(void)
{
    store_fixture_init(&fixture);
}

static void teardown(void)
{
    store_fixture_finish(&fixture);
}

TestSuite(store, .init = setup, .fini = teardown);

/* ---- a world whose updates go to a store */

static void commit(struct world *world, const struct update *update)
{
    struct err err;
    enum err_code code = store_commit(world->context, update, &err);
    cr_assert_eq(code, ERR_NONE, "%s", err.text);
    store_fixture_check(world->context, &world->cluster);
}

static void begin(struct world *world, struct store *store)
{
    struct cluster loaded;
    store_fixture_load(store, &loaded);
    world_init_from(world, &loaded, commit, store);
}

/* The process ends and another takes over. */
static void reopen(struct world *world)
{
    store_close(world->context);
    world->context = store_fixture_open(&fixture);
    struct cluster loaded;
    store_fixture_load(world->context, &loaded);
    world_check_same(&loaded, &world->cluster);
    cluster_finish(&loaded);
}

static void end(struct world *world)
{
    store_close(world->context);
    world_finish(world);
}

/* ---- round trip */

Test(store, fresh_database_gets_a_cluster_of_its_own_and_keeps_it)
{
    struct cluster first, second;
    struct store *store = store_fixture_open(&fixture);
    store_fixture_load(store, &first);
    cr_assert(schema_uuid_valid(first.meta.cluster));
    store_close(store);
    store = store_fixture_open(&fixture);
    store_fixture_load(store, &second);
    cr_assert_str_eq(first.meta.cluster, second.meta.cluster);
    store_close(store);
    cluster_finish(&first);
    cluster_finish(&second);
}

/* Texts that SQL, JSON and C might trip over. */
#define ODD_TEXT "it's; DROP TABLE \"agents\" -- \xc3\xa9\xe2\x82\xac %s"

static struct job_spec odd_spec(void)
{
    struct job_spec spec = world_spec("odd");
    spec.inputs.items = mem_realloc(spec.inputs.items, 2, sizeof(char *));
    spec.inputs.items[spec.inputs.count++] = mem_strdup("payments");
    spec.interleaving = INTERLEAVING_ANY;
    free(spec.group_id);
    spec.group_id = mem_strdup("it's; DROP TABLE \"jobs\" -- \xc3\xa9\xe2\x82\xac");
    free(spec.logic.config);
    spec.logic.config = mem_strdup("{\"a\":[1,{\"b\":\"\\u0001\\\"\"}]}");
    spec.partitioner = PARTITIONER_AUTO;
    spec.on_error = ON_ERROR_DEAD_LETTER;
    spec.dead_letter_topic = mem_strdup("letters");
    return spec;
}

static void create_odd(struct world *world)
{
    world_put(world, "odd", odd_spec());
    struct kafka_inspection inspection = world_inspection(&world->calls.items[0], 8);
    inspection.inputs.items[0].deletes = true;
    inspection.inputs.items[1].compacted = true;
    for (size_t i = 0; i < 8; i++)
        inspection.inputs.items[1].partitions.items[i].log_start = 10 + (int64_t)i;
    world_reply_inspection(world, inspection);
    cr_assert_eq(cluster_job(&world->cluster, "odd")->row.warnings.count, 2);
    reopen(world);
    world_reply_failed(world, "no broker answers", false);
    reopen(world);
    world_pass(world, 1000);
    while (world->calls.count > 0)
        world_reply_well(world);
}

static void register_tagged(struct world *world)
{
    struct coord_event event = world_event(world, COORD_EVENT_AGENT_REGISTER, NULL);
    event.registration = world_registration("a1", 1);
    rows_text_set(&event.registration.address, "http://host:1234");
    event.registration.tags.items = mem_calloc(2, sizeof(struct tag));
    event.registration.tags.count = 2;
    event.registration.tags.items[0] = (struct tag){mem_strdup("zone"), mem_strdup("b")};
    event.registration.tags.items[1] = (struct tag){mem_strdup("disk"), mem_strdup("")};
    world_step(world, event);
}

static void set_eligibility(struct world *world, bool schedulable, const char *reason)
{
    struct coord_event event = world_event(world, COORD_EVENT_ELIGIBILITY, "a1");
    event.eligibility.schedulable = schedulable;
    event.eligibility.reason = reason != NULL ? mem_strdup(reason) : NULL;
    world_step(world, event);
    world_expect_status(world, 200);
}

static void drain(struct world *world, int64_t deadline_ms, enum drain_deadline on_deadline,
                  bool until_restart, const char *reason)
{
    struct coord_event event = world_event(world, COORD_EVENT_DRAIN, "a1");
    event.drain = (struct drain_request){.deadline_ms = deadline_ms,
                                         .on_deadline = on_deadline,
                                         .until_restart = until_restart,
                                         .reason = reason != NULL ? mem_strdup(reason) : NULL};
    world_step(world, event);
    world_expect_status(world, 202);
}

static const struct agent_drain *drain_of(const struct world *world)
{
    return &cluster_agent(&world->cluster, "a1")->row.drain;
}

static void report_progress(struct world *world, int64_t t1, size_t partitions)
{
    struct agent_report report = world_report_of(world, "a1", TASK_STATE_ACTIVE);
    for (size_t i = 0; i < report.tasks.count; i++) {
        struct task_report *task = &report.tasks.items[i];
        task->progress.items = mem_calloc(partitions, sizeof(struct partition_progress));
        task->progress.count = partitions;
        for (size_t p = 0; p < partitions; p++)
            task->progress.items[p] = (struct partition_progress){
                .partition = (uint32_t)p, .t0 = 0, .t1 = t1, .t2 = API_UNKNOWN};
    }
    world_send_report(world, "a1", report);
    world_pass(world, 500);
}

static void report_failure(struct world *world)
{
    struct agent_report report = world_report_of(world, "a1", TASK_STATE_FAILED);
    world_send_report(world, "a1", report);
}

Test(store, everything_comes_back_as_it_was)
{
    struct world world;
    begin(&world, store_fixture_open(&fixture));
    create_odd(&world);
    reopen(&world);
    register_tagged(&world);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->row.eligibility.changed_at, API_UNKNOWN);
    reopen(&world);
    set_eligibility(&world, false, "it's a \"disk\"; --");
    reopen(&world);
    set_eligibility(&world, true, NULL);
    reopen(&world);
    report_progress(&world, 7, 2);
    reopen(&world);
    cr_assert_eq(cluster_job(&world.cluster, "odd")->processors.items[1].stored.count, 2);
    world_pass(&world, 9000);
    report_progress(&world, 9, 1); /* fewer than before: the old rows go */
    world_pass(&world, 1000);
    cr_assert_eq(cluster_job(&world.cluster, "odd")->processors.items[1].stored.count, 1);
    reopen(&world);
    report_failure(&world);
    cr_assert_not_null(world_placement(&world, "odd", 0)->trouble);
    reopen(&world);
    struct job_spec spec = odd_spec();
    spec.commit_interval_ms = 250;
    world_put(&world, "odd", spec);
    world_expect_status(&world, 200);
    reopen(&world);
    world_register(&world, "a2", 2);
    world_deregister(&world, "a2", 2);
    world_forget(&world, "a2");
    world_pass(&world, WORLD_TIMEOUT_MS);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->row.state, AGENT_STATE_LOST);
    reopen(&world);
    world_delete(&world, "odd");
    world_reply_failed(&world, "not now", false);
    reopen(&world);
    world_pass(&world, 1000);
    world_reply_well(&world);
    cr_assert_eq(world.cluster.jobs.count, 0);
    reopen(&world);
    end(&world);
}

/* reopen compares all that is loaded; what is asserted here is that there was something to lose. */
Test(store, drain_comes_back_as_it_was)
{
    static const char *const both[] = {"a1", "a2", NULL};
    struct world world;
    begin(&world, store_fixture_open(&fixture));
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    world_report(&world, "a1", TASK_STATE_ACTIVE);
    world_register(&world, "a2", 2);
    reopen(&world);
    drain(&world, 60000, DRAIN_DEADLINE_FORCE, true, ODD_TEXT);
    cr_assert_str_eq(drain_of(&world)->reason, ODD_TEXT);
    cr_assert_eq(drain_of(&world)->processors, 4);
    cr_assert_eq(drain_of(&world)->deadline_at, world.now_at + 60000);
    reopen(&world);
    drain(&world, 1000, DRAIN_DEADLINE_CANCEL, false, "");
    reopen(&world);
    world_pass(&world, 1000);
    cr_assert_eq(drain_of(&world)->state, DRAIN_STATE_CANCELLED);
    cr_assert_str_eq(drain_of(&world)->error, "its deadline has passed");
    reopen(&world);
    drain(&world, 2000, DRAIN_DEADLINE_FORCE, false, NULL);
    cr_assert_null(drain_of(&world)->error);
    reopen(&world);
    world_pass_reporting(&world, 1000, (const char *const[]){"a1", NULL});
    world_restart(&world);
    cr_assert_eq(cluster_agent(&world.cluster, "a1")->drain_deadline_ms, world.now_ms + 1000);
    world_pass(&world, 2000);
    cr_assert(drain_of(&world)->overdue);
    cr_assert_eq(world_count_owned(&world, "j1", "a1"), 0);
    reopen(&world);
    world_calm_down(&world, both);
    cr_assert_eq(drain_of(&world)->state, DRAIN_STATE_DRAINED);
    cr_assert_neq(drain_of(&world)->ended_at, API_UNKNOWN);
    reopen(&world);
    struct coord_event event = world_event(&world, COORD_EVENT_DRAIN_CANCEL, "a1");
    event.reason = mem_strdup(ODD_TEXT);
    world_step(&world, event);
    cr_assert_eq(drain_of(&world)->state, DRAIN_STATE_CANCELLED);
    cr_assert_not_null(strstr(drain_of(&world)->error, ODD_TEXT));
    reopen(&world);
    end(&world);
}

Test(store, restarted_coordinator_goes_on_where_the_old_one_was)
{
    struct world world;
    begin(&world, store_fixture_open(&fixture));
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    uint64_t epoch = world.cluster.meta.epoch, start = world.cluster.meta.start_number;
    struct store *store = world.context;
    world_finish(&world);
    store_close(store);
    begin(&world, store_fixture_open(&fixture));
    cr_assert_eq(world.cluster.meta.start_number, start + 1);
    cr_assert_eq(world.cluster.meta.epoch, epoch);
    cr_assert_str_eq(world_placement(&world, "j1", 0)->agent, "a1");
    end(&world);
}

Test(store, update_without_changes_touches_nothing)
{
    struct store *store = store_fixture_open(&fixture);
    struct cluster cluster;
    store_fixture_load(store, &cluster);
    uint64_t before = store_statements(store);
    cr_assert_eq(store_commit(store, &(struct update){0}, NULL), ERR_NONE);
    cr_assert_eq(store_statements(store), before);
    store_close(store);
    cluster_finish(&cluster);
}

/* ---- every statement fails once (D6: memory dropped, loaded again) */

struct bench {
    struct store *store;
    struct cluster cluster;
    struct cluster committed; /* what the store must hold */
    int64_t now_ms;
    uint64_t failures;
    struct update update;
};

static void copy_committed(struct bench *bench)
{
    cluster_finish(&bench->committed);
    world_copy(&bench->committed, &bench->cluster);
}

static bool same_meta(const struct cluster *a, const struct cluster *b)
{
    return a->meta.decision == b->meta.decision && a->meta.start_number == b->meta.start_number;
}

/* Memory is not trusted any more. In doubt the update is there as a whole, or not at all. */
static void reload(struct bench *bench, bool in_doubt)
{
    struct cluster lost = bench->cluster;
    store_fixture_load(bench->store, &bench->cluster);
    if (in_doubt && same_meta(&bench->cluster, &lost))
        world_check_same(&bench->cluster, &lost);
    else
        world_check_same(&bench->cluster, &bench->committed);
    cluster_finish(&lost);
    copy_committed(bench);
}

/* False: it failed, and the memory is as it was loaded again. Takes the event. */
static bool try_step(struct bench *bench, struct coord_event event, bool in_doubt)
{
    struct err err;
    event.now_ms = ++bench->now_ms;
    event.now_at = INT64_C(1700000000000) + bench->now_ms;
    world_uuid((uint64_t)bench->now_ms, event.uuid);
    update_finish(&bench->update);
    coord_step(&bench->cluster, &event, &bench->update);
    coord_event_finish(&event);
    if (store_commit(bench->store, &bench->update, &err) == ERR_NONE) {
        copy_committed(bench);
        return true;
    }
    cr_assert_eq(err.code, ERR_IO, "%s", err.text);
    bench->failures++;
    reload(bench, in_doubt);
    return false;
}

static struct kafka_call *first_call(struct bench *bench)
{
    cr_assert_eq(bench->update.calls.count, 1);
    return &bench->update.calls.items[0];
}

static struct coord_event make_event(struct bench *bench, int number)
{
    struct coord_event event = {0};
    switch (number) {
    case 0:
        event.kind = COORD_EVENT_START;
        break;
    case 1:
        event.kind = COORD_EVENT_AGENT_REGISTER;
        event.registration = world_registration("a1", 1);
        break;
    case 2:
        event.kind = COORD_EVENT_JOB_PUT;
        event.name = mem_strdup("j1");
        event.spec = world_spec("j1");
        event.request = 1;
        break;
    case 3:
        event.kind = COORD_EVENT_KAFKA;
        event.kafka.id = first_call(bench)->id;
        event.kafka.inspection = world_inspection(first_call(bench), 8);
        break;
    default:
        event.kind = COORD_EVENT_JOB_DELETE;
        event.name = mem_strdup("j1");
        break;
    }
    return event;
}

#define BENCH_EVENTS 5

/*
 * Start, register, put, create, delete; on a failure: start again, and from the put on what was
 * lost. Returns how many statements it ran.
 */
static uint64_t run_bench(const char *path, uint64_t fail_at, enum store_failure failure)
{
    struct bench bench = {.now_ms = 1000};
    struct err err;
    (void)unlink(path);
    cr_assert_eq(store_open(path, &bench.store, &err), ERR_NONE, "%s", err.text);
    store_fixture_load(bench.store, &bench.cluster);
    copy_committed(&bench);
    uint64_t before = store_statements(bench.store);
    store_fail_at(bench.store, fail_at, failure);
    for (int number = 0; number < BENCH_EVENTS; number++) {
        if (try_step(&bench, make_event(&bench, number), failure == STORE_FAILURE_AFTER))
            continue;
        cr_assert(try_step(&bench, make_event(&bench, 0), false), "it fails once");
        const struct job *job = cluster_job(&bench.cluster, "j1");
        /* A creation goes on from its PUT; what was in doubt and done is not done again. */
        if (number == 3)
            number = job != NULL ? 3 : 1;
        else if (number != 4 || (job != NULL && job->row.state != JOB_STATE_DELETING))
            number--;
    }
    uint64_t statements = store_statements(bench.store) - before;
    cr_assert_eq(bench.failures, fail_at != 0 ? 1 : 0, "statement %" PRIu64, fail_at);
    cr_assert_eq(cluster_job(&bench.cluster, "j1")->row.state, JOB_STATE_DELETING);
    update_finish(&bench.update);
    store_close(bench.store);

    /* And after the process: the same. */
    struct cluster loaded;
    cr_assert_eq(store_open(path, &bench.store, &err), ERR_NONE, "%s", err.text);
    store_fixture_load(bench.store, &loaded);
    world_check_same(&loaded, &bench.committed);
    store_close(bench.store);
    cluster_finish(&loaded);
    cluster_finish(&bench.cluster);
    cluster_finish(&bench.committed);
    return statements;
}

static void fail_each(enum store_failure failure)
{
    uint64_t statements = run_bench(fixture.path, 0, failure);
    cr_assert_gt(statements, 40);
    for (uint64_t n = 1; n <= statements; n++)
        (void)run_bench(fixture.path, n, failure);
}

Test(store, each_statement_may_fail_without_effect, .timeout = 100)
{
    fail_each(STORE_FAILURE_BEFORE);
}

Test(store, each_statement_may_fail_after_its_effect, .timeout = 100)
{
    fail_each(STORE_FAILURE_AFTER);
}

Test(store, reading_may_fail_and_says_so)
{
    struct world world;
    begin(&world, store_fixture_open(&fixture));
    world_register(&world, "a1", 1);
    world_create(&world, "j1");
    struct store *store = world.context;
    uint64_t before = store_statements(store);
    store_fixture_check(store, &world.cluster);
    uint64_t statements = store_statements(store) - before;
    cr_assert_geq(statements, 6);
    for (uint64_t n = 1; n <= statements; n++) {
        struct cluster cluster;
        struct err err;
        cluster_init(&cluster, world.cluster.config);
        store_fail_at(store, n, STORE_FAILURE_BEFORE);
        cr_assert_eq(store_load(store, &cluster, &err), ERR_IO, "statement %" PRIu64, n);
        cr_assert_not_null(strstr(err.text, fixture.path));
        cluster_finish(&cluster);
        store_fixture_check(store, &world.cluster); /* and then not */
    }
    end(&world);
}

/* ---- kill -9 */

/* Commits for ever, and says each decision that is committed. */
static void commit_for_ever(int out)
{
    struct store *store;
    struct cluster cluster;
    struct err err;
    if (store_open(fixture.path, &store, &err) != ERR_NONE)
        _exit(1);
    store_fixture_load(store, &cluster);
    for (int64_t now_ms = 1;; now_ms++) {
        struct coord_event event = {.kind = now_ms == 1 ? COORD_EVENT_START
                                                        : COORD_EVENT_AGENT_REGISTER,
                                    .now_ms = now_ms,
                                    .now_at = now_ms};
        if (now_ms > 1) {
            char id[32];
            (void)snprintf(id, sizeof(id), "a%" PRId64, now_ms % 50);
            event.registration = world_registration(id, 1);
            event.registration.capacity = (uint32_t)(1 + now_ms % 100);
            event.registration.max_learners = (uint32_t)(now_ms % 7);
        }
        struct update update = {0};
        coord_step(&cluster, &event, &update);
        coord_event_finish(&event);
        if (store_commit(store, &update, &err) != ERR_NONE)
            _exit(2);
        update_finish(&update);
        uint64_t decision = cluster.meta.decision;
        if (write(out, &decision, sizeof(decision)) != sizeof(decision))
            _exit(3);
    }
}

/* The last decision that the process said before it was killed. */
static uint64_t kill_in_the_midst(int64_t after_us)
{
    int ends[2];
    uint64_t decision = 0, said;
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        commit_for_ever(ends[1]);
    (void)close(ends[1]);
    int64_t end_us = 0;
    while (read(ends[0], &said, sizeof(said)) == sizeof(said)) {
        decision = said;
        if (end_us == 0)
            end_us = clock_mono_us() + after_us;
        else if (clock_mono_us() >= end_us)
            break;
    }
    (void)kill(pid, SIGKILL);
    /* What it said before the kill reached it. */
    while (read(ends[0], &said, sizeof(said)) == sizeof(said))
        decision = said;
    (void)close(ends[0]);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ended by itself: %d",
              status);
    return decision;
}

Test(store, what_was_committed_survives_kill_9, .timeout = 100)
{
    struct rng rng;
    rng_init(&rng, 9);
    uint64_t before = 0;
    for (int round = 0; round < 20; round++) {
        uint64_t said = kill_in_the_midst((int64_t)rng_below(&rng, 40000));
        struct store *store = store_fixture_open(&fixture);
        struct cluster cluster;
        store_fixture_load(store, &cluster); /* which checks it */
        cr_assert_geq(cluster.meta.decision, said, "round %d: a decision is lost", round);
        cr_assert_leq(cluster.meta.decision, said + 1, "round %d", round);
        cr_assert_gt(cluster.meta.decision, before);
        before = cluster.meta.decision;
        store_close(store);
        cluster_finish(&cluster);
    }
}

/* Killed while the database is made: what is left is no database yet, or a whole one. */
Test(store, making_of_a_database_survives_kill_9, .timeout = 100)
{
    struct rng rng;
    rng_init(&rng, 10);
    for (int round = 0; round < 30; round++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            struct store *store;
            _exit(store_open(fixture.path, &store, NULL) == ERR_NONE ? 0 : 1);
        }
        int64_t end_us = clock_mono_us() + (int64_t)rng_below(&rng, 12000);
        while (clock_mono_us() < end_us)
            ;
        (void)kill(pid, SIGKILL);
        cr_assert_eq(waitpid(pid, NULL, 0), pid);
        struct store *store = store_fixture_open(&fixture);
        struct cluster cluster;
        store_fixture_load(store, &cluster);
        store_close(store);
        cluster_finish(&cluster);
        store_fixture_finish(&fixture);
        store_fixture_init(&fixture);
    }
}
