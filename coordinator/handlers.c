/* Reads: answered by the HTTP thread from the published view, without the owner thread. */
#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <microhttpd.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "api/protocol.h"
#include "api/text.h"
#include "common/hash/key_map.h"
#include "common/mem.h"
#include "common/prom.h"
#include "coordinator/http_private.h"
#include "coordinator/openapi.h"
#include "coordinator/request.h"

#define TYPE_TEXT "text/plain; charset=utf-8"

static const struct httpd_target *target_of(const struct exchange *exchange)
{
    return &exchange->request->target;
}

/* ---- pages */

struct page {
    uint32_t limit;
    const char *cursor; /* NULL: from the start */
};

static bool read_page(struct exchange *exchange, struct page *ret_page)
{
    struct err err;
    ret_page->cursor = request_parameter(target_of(exchange), "cursor");
    if (request_limit(target_of(exchange), &ret_page->limit, &err) == ERR_NONE)
        return true;
    exchange_problem(exchange, "invalid_query", "%s", err.text);
    return false;
}

static void refuse_cursor(struct exchange *exchange)
{
    exchange_problem(exchange, "invalid_query",
                     "cursor must be `next` of the page before, as it is");
}

/* ---- jobs */

/* Index of the first job whose name is above `name`. */
static size_t first_job_after(const struct view *view, const char *name)
{
    size_t low = 0;
    size_t high = view->jobs.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(view->jobs.items[middle]->job.name, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Items are borrowed from the view: copied by value, not freed. */
static void list_jobs(struct exchange *exchange, const struct view *view)
{
    struct page wanted;
    if (!read_page(exchange, &wanted))
        return;
    if (wanted.cursor != NULL && !schema_name_valid(wanted.cursor)) {
        refuse_cursor(exchange);
        return;
    }
    size_t first = wanted.cursor == NULL ? 0 : first_job_after(view, wanted.cursor);
    size_t count = view->jobs.count - first;
    count = count < wanted.limit ? count : wanted.limit;
    struct job_page page = {0};
    page.items.items = mem_calloc(count, sizeof(*page.items.items));
    page.items.count = count;
    for (size_t i = 0; i < count; i++)
        page.items.items[i] = view->jobs.items[first + i]->job;
    if (first + count < view->jobs.count)
        page.next = page.items.items[count - 1].name;
    exchange_value(exchange, &schema_job_page, &page, 0);
    free(page.items.items);
}

/* NULL: answered that there is none. */
static const struct view_job *find_job(struct exchange *exchange, const struct view *view)
{
    const char *name = exchange->match.parameters[0];
    const struct view_job *job = view_find_job(view, name);
    if (job == NULL)
        exchange_problem(exchange, "job_not_found", "there is no job \"%s\"", name);
    return job;
}

static void list_problems(struct exchange *exchange, const struct view_job *job)
{
    struct problem_page page = {0};
    page.items.items = job->problems.items;
    page.items.count = job->problems.count;
    exchange_value(exchange, &schema_problem_page, &page, 0);
}

static void list_skips(struct exchange *exchange, const struct view_job *job)
{
    struct skip_page page = {0};
    page.items.items = job->skips.items;
    page.items.count = job->skips.count;
    exchange_value(exchange, &schema_skip_page, &page, 0);
}

/* ---- processors */

static void list_processors(struct exchange *exchange, const struct view_job *job)
{
    struct page wanted;
    uint64_t last = 0;
    if (!read_page(exchange, &wanted))
        return;
    if (wanted.cursor != NULL && !text_uint_parse(wanted.cursor, API_PARTITIONS_MAX, &last)) {
        refuse_cursor(exchange);
        return;
    }
    size_t first = wanted.cursor == NULL ? 0 : (size_t)last + 1;
    first = first < job->processors.count ? first : job->processors.count;
    size_t count = job->processors.count - first;
    count = count < wanted.limit ? count : wanted.limit;
    char next[TEXT_BYTES];
    struct processor_page page = {0};
    page.items.items = job->processors.items + first;
    page.items.count = count;
    if (first + count < job->processors.count) {
        (void)snprintf(next, sizeof(next), "%zu", first + count - 1);
        page.next = next;
    }
    exchange_value(exchange, &schema_processor_page, &page, 0);
}

static void get_processor(struct exchange *exchange, const struct view_job *job)
{
    const char *text = exchange->match.parameters[1];
    uint64_t number = 0;
    if (!text_uint_parse(text, API_PARTITIONS_MAX, &number) || number >= job->processors.count)
        exchange_problem(exchange, "processor_not_found",
                         "job \"%s\" has no processor %s; it has %zu, from 0 on", job->job.name,
                         text, job->processors.count);
    else
        exchange_value(exchange, &schema_processor_view, &job->processors.items[number], 0);
}

/* ---- the map */

static struct linhash_size partition_size(const struct view_job *job)
{
    return (struct linhash_size){.initial = job->status.partitions_initial,
                                 .now = job->status.partitions};
}

static struct linhash_size processor_size(const struct view_job *job)
{
    return (struct linhash_size){.initial = job->status.processors_initial,
                                 .now = job->status.processors};
}

static char *agent_of(const struct view_job *job, uint32_t processor)
{
    return processor < job->processors.count ? job->processors.items[processor].agent : NULL;
}

static void get_whole_map(struct exchange *exchange, const struct view_job *job)
{
    struct linhash_size partitions = partition_size(job);
    struct linhash_size processors = processor_size(job);
    struct map_view map = {
        .job = job->job.name,
        .version = job->map_version,
        .partitions_initial = partitions.initial,
        .partitions = partitions.now,
        .partitions_level = linhash_level(partitions),
        .partitions_split_pointer = linhash_split_pointer(partitions),
        .processors_initial = processors.initial,
        .processors = processors.now,
        .processors_level = linhash_level(processors),
        .processors_split_pointer = linhash_split_pointer(processors),
        .partitioner = job->partitioner,
        .partitioner_reason = job->partitioner_reason,
    };
    map.items.count = partitions.now;
    map.items.items = mem_calloc(map.items.count, sizeof(*map.items.items));
    for (uint32_t partition = 0; partition < partitions.now; partition++) {
        uint32_t processor = linhash_bucket(partition, processors);
        map.items.items[partition] = (struct map_partition){
            .partition = partition,
            .processor = processor,
            .agent = agent_of(job, processor),
            .parent = partition < partitions.initial
                          ? API_UNKNOWN
                          : (int64_t)linhash_parent(partition, partitions.initial),
        };
    }
    exchange_value(exchange, &schema_map_view, &map, 0);
    free(map.items.items);
}

/* From the initial bucket to the present one. */
static void fill_path(uint32_t bucket, uint32_t initial, uint32_t path[33], struct uint_list *list)
{
    uint32_t ancestors[32];
    uint32_t count = linhash_ancestors(bucket, initial, ancestors);
    for (uint32_t i = 0; i < count; i++)
        path[i] = ancestors[count - 1 - i];
    path[count] = bucket;
    list->items = path;
    list->count = count + 1;
}

static enum key_hash hash_of(const struct view_job *job)
{
    return job->partitioner == EFFECTIVE_PARTITIONER_MURMUR2 ? KEY_HASH_MURMUR2 : KEY_HASH_CRC32;
}

static void place_key(struct exchange *exchange, const struct view_job *job, const char *key,
                      size_t bytes)
{
    struct key_map map = {
        .hash = hash_of(job),
        .partitions = partition_size(job),
        .processors = processor_size(job),
    };
    uint32_t path[33];
    struct map_key_view view = {
        .job = job->job.name,
        /* As it was asked for. */
        .key = (char *)request_parameter(target_of(exchange), "key"),
        .partitioner = job->partitioner,
        .hash = key_hash(map.hash, key, bytes),
    };
    view.partition = key_partition(&map, key, bytes);
    view.processor = key_processor(&map, view.partition);
    view.agent = agent_of(job, view.processor);
    fill_path(view.partition, job->status.partitions_initial, path, &view.path);
    exchange_value(exchange, &schema_map_key_view, &view, 0);
}

static void get_map(struct exchange *exchange, const struct view_job *job)
{
    char *key = NULL;
    size_t bytes = 0;
    struct err err;
    const char *reason =
        job->partitioner_reason == NULL ? "no samples were taken yet" : job->partitioner_reason;
    if (request_key(target_of(exchange), &key, &bytes, &err) != ERR_NONE)
        exchange_problem(exchange, "invalid_query", "%s", err.text);
    else if (key == NULL)
        get_whole_map(exchange, job);
    else if (job->partitioner == EFFECTIVE_PARTITIONER_UNDETERMINED)
        exchange_problem(exchange, "partitioner_undetermined", "job \"%s\": %s", job->job.name,
                         reason);
    else if (job->partitioner == EFFECTIVE_PARTITIONER_OPAQUE)
        exchange_problem(exchange, "partitioner_opaque", "job \"%s\": %s", job->job.name, reason);
    else if (!key_has_place(hash_of(job), bytes))
        exchange_problem(exchange, "partitioner_opaque",
                         "job \"%s\": producers that place keys by crc32 put the empty one into "
                         "any partition: look up one that is not empty",
                         job->job.name);
    else
        place_key(exchange, job, key, bytes);
    free(key);
}

/* ---- agents */

static void list_agents(struct exchange *exchange, const struct view *view)
{
    struct agent_page page = {0};
    page.items.items = view->agents->items;
    page.items.count = view->agents->count;
    exchange_value(exchange, &schema_agent_page, &page, 0);
}

static void get_drain(struct exchange *exchange, const struct view *view)
{
    const char *agent_id = exchange->match.parameters[0];
    const struct drain_view *drain = view_find_drain(view, agent_id);
    if (view_find_agent(view, agent_id) == NULL)
        exchange_problem(exchange, "agent_not_found", "there is no agent \"%s\"", agent_id);
    else if (drain == NULL)
        exchange_problem(exchange, "drain_not_found", "agent \"%s\" is not asked to leave",
                         agent_id);
    else
        exchange_value(exchange, &schema_drain_view, drain, 0);
}

static void get_agent(struct exchange *exchange, const struct view *view)
{
    const char *agent_id = exchange->match.parameters[0];
    const struct agent_view *agent = view_find_agent(view, agent_id);
    if (agent == NULL)
        exchange_problem(exchange, "agent_not_found", "there is no agent \"%s\"", agent_id);
    else if (exchange->match.route->id == ROUTE_ELIGIBILITY_GET)
        exchange_value(exchange, &schema_eligibility_view, &agent->eligibility, 0);
    else
        exchange_value(exchange, &schema_agent_view, agent, 0);
}

/* ---- the process */

/*
 * Ready means that requests can be served: the store takes changes, and Kafka has answered once, so
 * that addresses and credentials are right. That Kafka is away later does not make it unready: what
 * is stored can be read, agents are told what they own, and a restart or another target of a load
 * balancer would not help; what needs Kafka says so itself.
 */
static void get_readiness(struct exchange *exchange)
{
    static const char *const codes[] = {[RECOVERY_VERIFYING] = "starting",
                                        [RECOVERY_OUTDATED] = "database_outdated",
                                        [RECOVERY_COLLECTING] = "recovering"};
    const struct metrics_sources *sources = &exchange->http->config.sources;
    const struct view *view = publish_acquire(sources->publisher);
    if (view == NULL)
        exchange_problem(exchange, "starting", "the database is being loaded");
    else if (view->recovery != RECOVERY_NONE)
        exchange_problem(exchange, codes[view->recovery], "%s",
                         view->recovery_detail != NULL
                             ? view->recovery_detail
                             : "Kafka is asked whether the database is the newest");
    else if (!coordinator_working(sources->coordinator))
        exchange_problem(exchange, "store_failed", "the database does not take changes");
    else if (!kafka_answered(sources->kafka))
        exchange_problem(exchange, "kafka_unavailable",
                         "no broker of kafka.bootstrap.servers has answered yet");
    else
        exchange_text(exchange, TYPE_TEXT, "ok\n", 3, true);
    publish_release(view);
}

static void get_metrics(struct exchange *exchange)
{
    struct strbuf buf = {0};
    metrics_print(&buf, &exchange->http->config.sources, &exchange->http->requests,
                  exchange->httpd);
    size_t bytes = buf.bytes;
    exchange_text(exchange, PROM_CONTENT_TYPE, strbuf_take(&buf), bytes, false);
}

static void get_version(struct exchange *exchange)
{
    struct version_view version = {
        .version = BATON_VERSION,
        .component = "baton-coordinator",
        .protocol = protocol_own().version,
        .protocol_minimum = protocol_own().minimum,
        .librdkafka = (char *)rd_kafka_version_str(),
        .sqlite = (char *)sqlite3_libversion(),
        .microhttpd = (char *)MHD_get_version(),
    };
    exchange_value(exchange, &schema_version_view, &version, 0);
}

static void get_openapi(struct exchange *exchange)
{
    size_t bytes = 0;
    const char *text = openapi_text(&bytes);
    exchange_text(exchange, "application/json", (char *)text, bytes, true);
}

static void get_file(struct exchange *exchange)
{
    struct web_file file;
    web_file(exchange->match.route->id, &file);
    exchange_file(exchange, &file);
}

/* ---- dispatch */

static void read_job(struct exchange *exchange, const struct view *view)
{
    const struct view_job *job = find_job(exchange, view);
    if (job == NULL)
        return;
    switch ((int)exchange->match.route->id) {
    case ROUTE_JOB_GET:
        exchange_value(exchange, &schema_job_view, &job->job, job->job.generation);
        return;
    case ROUTE_JOB_STATUS:
        exchange_value(exchange, &schema_job_status, &job->status, 0);
        return;
    case ROUTE_JOB_PROBLEMS:
        list_problems(exchange, job);
        return;
    case ROUTE_JOB_SKIPS:
        list_skips(exchange, job);
        return;
    case ROUTE_JOB_PROCESSORS:
        list_processors(exchange, job);
        return;
    case ROUTE_JOB_PROCESSOR:
        get_processor(exchange, job);
        return;
    case ROUTE_JOB_MAP:
        get_map(exchange, job);
        return;
    default:
        assert(!"a route of a job");
    }
}

static void read_view(struct exchange *exchange, const struct view *view)
{
    switch ((int)exchange->match.route->id) {
    case ROUTE_JOBS_LIST:
        list_jobs(exchange, view);
        return;
    case ROUTE_AGENTS_LIST:
        list_agents(exchange, view);
        return;
    case ROUTE_AGENT_GET:
    case ROUTE_ELIGIBILITY_GET:
        get_agent(exchange, view);
        return;
    case ROUTE_DRAIN_GET:
        get_drain(exchange, view);
        return;
    case ROUTE_MAINTENANCE_GET:
        exchange_value(exchange, &schema_maintenance_view, &view->maintenance, 0);
        return;
    default:
        read_job(exchange, view);
    }
}

static bool read_process(struct exchange *exchange)
{
    switch ((int)exchange->match.route->id) {
    case ROUTE_HEALTHZ:
        exchange_text(exchange, TYPE_TEXT, "ok\n", 3, true);
        return true;
    case ROUTE_READYZ:
        get_readiness(exchange);
        return true;
    case ROUTE_METRICS:
        get_metrics(exchange);
        return true;
    case ROUTE_VERSION:
        get_version(exchange);
        return true;
    case ROUTE_OPENAPI:
        get_openapi(exchange);
        return true;
    case ROUTE_DASHBOARD:
    case ROUTE_DASHBOARD_STYLE:
    case ROUTE_DASHBOARD_SCRIPT:
        get_file(exchange);
        return true;
    default:
        return false;
    }
}

bool handlers_is_read(enum route_id id)
{
    switch (id) {
    case ROUTE_JOBS_LIST:
    case ROUTE_JOB_GET:
    case ROUTE_JOB_STATUS:
    case ROUTE_JOB_PROBLEMS:
    case ROUTE_JOB_PROCESSORS:
    case ROUTE_JOB_PROCESSOR:
    case ROUTE_JOB_MAP:
    case ROUTE_AGENTS_LIST:
    case ROUTE_AGENT_GET:
    case ROUTE_ELIGIBILITY_GET:
    case ROUTE_DRAIN_GET:
    case ROUTE_JOB_SKIPS:
    case ROUTE_MAINTENANCE_GET:
    case ROUTE_HEALTHZ:
    case ROUTE_READYZ:
    case ROUTE_METRICS:
    case ROUTE_VERSION:
    case ROUTE_OPENAPI:
    case ROUTE_DASHBOARD:
    case ROUTE_DASHBOARD_STYLE:
    case ROUTE_DASHBOARD_SCRIPT:
        return true;
    case ROUTE_JOB_PUT:
    case ROUTE_JOB_DELETE:
    case ROUTE_AGENT_FORGET:
    case ROUTE_ELIGIBILITY_PUT:
    case ROUTE_DRAIN_PUT:
    case ROUTE_DRAIN_CANCEL:
    case ROUTE_JOB_MOVE:
    case ROUTE_JOB_REBALANCE:
    case ROUTE_JOB_EXPAND:
    case ROUTE_JOB_PAUSE:
    case ROUTE_JOB_RESUME:
    case ROUTE_JOB_SKIP:
    case ROUTE_JOB_OFFSETS:
    case ROUTE_PLAN:
    case ROUTE_MAINTENANCE_PUT:
    case ROUTE_BACKUP:
    case ROUTE_HANDOFFS_LIST:
    case ROUTE_HANDOFF_GET:
    case ROUTE_HANDOFF_CANCEL:
    case ROUTE_OPERATIONS_LIST:
    case ROUTE_OPERATION_GET:
    case ROUTE_OPERATION_CANCEL:
    case ROUTE_EVENTS:
    case ROUTE_AGENT_REGISTER:
    case ROUTE_AGENT_DEREGISTER:
    case ROUTE_AGENT_ASSIGNMENT:
    case ROUTE_AGENT_REPORT:
    case ROUTE_SNAPSHOT: /* the agents' own */
        return false;
    }
    assert(!"a route");
    return false;
}

void handlers_read(struct exchange *exchange)
{
    if (read_process(exchange))
        return;
    const struct view *view = publish_acquire(exchange->http->config.sources.publisher);
    if (view == NULL)
        exchange_problem(exchange, "starting", "the database is being loaded");
    else
        read_view(exchange, view);
    publish_release(view);
}
