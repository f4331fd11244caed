#include "agent/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/http_client.h"
#include "agent/kafka_conf.h"
#include "api/schema.h"
#include "common/mem.h"
#include "common/utf8.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

const char *const agent_on_term_names[] = {"leave", "drain", "release", NULL};
static const char *const log_level_names[] = {"debug", "info", "warn", "error", NULL};

#define FIELD(member)            .name = #member, .offset = offsetof(struct agent_options, member)
#define FIELD_OF(option, member) .name = (option), .offset = offsetof(struct agent_options, member)

const struct opts_entry agent_options_table[] = {
    {FIELD(agent_id), .type = OPTS_STRING, .fallback = "", .min = 0, .max = API_NAME_BYTES_MAX,
     .help = "Name of this agent, unique in the cluster and the same after a restart: letters, "
             "digits, '.', '_' and '-'. Empty: the host's name."},
    {FIELD(coordinator), .type = OPTS_STRING, .fallback = "http://127.0.0.1:7420", .min = 1,
     .max = 1024, .help = "Address of the coordinator, http:// or https://."},
    {FIELD(state_dir), .type = OPTS_STRING, .fallback = "/var/lib/baton/agent", .min = 1,
     .max = 1024,
     .help = "Directory of the local state. It belongs to this agent alone and should be on a "
             "local disk."},
    {FIELD(plugin_dir), .type = OPTS_STRING, .fallback = "", .min = 0, .max = 1024,
     .help = "Directory of logic plugins, <name>-<version>.so. Empty: no plugins are loaded."},
    {FIELD(listen), .type = OPTS_STRING, .fallback = "127.0.0.1:7421", .min = 1, .max = 255,
     .help =
         "host:port for /healthz, /readyz, /metrics, /version and snapshots. Port 0 takes a free "
         "one. Other agents must reach it to learn from snapshots."},
    {FIELD(advertise), .type = OPTS_STRING, .fallback = "", .min = 0, .max = 240,
     .help = "host:port at which other agents and people reach it, when that is not where it "
             "listens. Empty: as it listens; the host's name when that is all addresses."},
    {FIELD(tags), .type = OPTS_STRING, .fallback = "", .min = 0, .max = 8192,
     .help = "Properties of the host for placement, as name=value with commas between them, like "
             "zone=a,rack=7."},
    {FIELD(capacity), .type = OPTS_INT, .fallback = "64", .min = 1, .max = API_TASKS_MAX,
     .help = "Most tasks that the agent takes."},
    {FIELD(max_learners), .type = OPTS_INT, .fallback = "4", .min = 0, .max = API_TASKS_MAX,
     .help = "Most tasks that learn on the agent at a time; what it is to get beyond that waits. "
             "Learners read as fast as they can, which the tasks beside them feel. 0: no limit."},
    {FIELD(cache_bytes), .type = OPTS_BYTES, .fallback = "64MiB", .min = 64 * KIB, .max = 64 * GIB,
     .help = "Changes of one task's state that are held in memory before a checkpoint is made "
             "early. A task can take twice this while a checkpoint is written."},
    {FIELD(state_bytes_max), .type = OPTS_BYTES, .fallback = "64GiB", .min = 16 * MIB,
     .max = 16384 * GIB,
     .help = "Largest state of one task on disk. Only addresses are reserved, not disk space."},
    {FIELD(state_sync), .type = OPTS_BOOL, .fallback = "true",
     .help = "Wait at each checkpoint until the disk has it. With false a crash of the host (not "
             "of the agent) makes the state be rebuilt."},
    {FIELD_OF("checkpoint_interval", checkpoint_interval_ms), .type = OPTS_DURATION,
     .fallback = "1s", .min = 100, .max = 600000,
     .help = "Time between two checkpoints of the state. After a crash what came since the last "
             "one is replayed."},
    {FIELD_OF("state_retention", state_retention_ms), .type = OPTS_DURATION, .fallback = "1d",
     .min = 0, .max = INT64_C(365) * 86400000,
     .help = "States of jobs and processors that this agent does not have any more, and those that "
             "were set aside, are removed when they have not been used for so long. 0: never."},
    {FIELD(snapshots_max), .type = OPTS_INT, .fallback = "2", .min = 1, .max = 64,
     .help =
         "Snapshots of states that the agent sends to others at a time; more wait. Others learn "
         "from them what the topics no longer hold."},
    {FIELD(snapshot_rate), .type = OPTS_BYTES, .fallback = "0", .min = 0, .max = 1024 * GIB,
     .help = "Most bytes a second that they are sent with, all together, to leave disk, processor "
             "and network to the tasks. 0: no limit."},
    {FIELD_OF("stop_timeout", stop_timeout_ms), .type = OPTS_DURATION, .fallback = "30s", .min = 0,
     .max = 3600000,
     .help = "How long a stop (SIGTERM) may wait for tasks to commit and to write their state."},
    {FIELD(on_term), .type = OPTS_CHOICE, .fallback = "leave", .choices = agent_on_term_names,
     .help =
         "What SIGTERM does. leave: commit, write the state, end; the tasks wait for this agent "
         "to come back for the job's rejoin_grace. drain: work on until other agents have learned "
         "and taken over what it has, then end; a second SIGTERM ends it at once like release. "
         "release: like leave, but others take over without waiting."},
    {FIELD_OF("drain_timeout", drain_timeout_ms), .type = OPTS_DURATION, .fallback = "10m",
     .min = 0, .max = 86400000,
     .help = "With on_term=drain: how long that may take; what is left then is released. Raise the "
             "supervisor's own limit (TimeoutStopSec, terminationGracePeriodSeconds) above it."},
    {FIELD(log_level), .type = OPTS_CHOICE, .fallback = "info", .choices = log_level_names,
     .help = "Least important events that are logged."},
};
const size_t agent_options_count = COUNT_OF(agent_options_table);

/* What baton sets itself because its promises rest on it, and why, as the operator reads it. */
static const struct {
    const char *name;
    const char *reason;
} kafka_refusals[] = {
    {"group.id", "it is the job's group_id"},
    {"group.instance.id", "baton assigns partitions itself and joins no group"},
    {"transactional.id", "baton names its producers, the name is the fence"},
    {"enable.auto.commit", "offsets are committed with the outputs"},
    {"auto.commit.enable", "offsets are committed with the outputs"},
    {"enable.auto.offset.store", "offsets are committed with the outputs"},
    {"auto.offset.reset", "a missing offset must be an error and not a silent jump"},
    {"enable.partition.eof", "baton needs it to know when it has caught up"},
    {"isolation.level", "inputs are read committed"},
    {"check.crcs", "damaged records must not get into the state"},
    {"allow.auto.create.topics", "a mistyped topic must not be created"},
    {"enable.idempotence", "outputs must not be lost or doubled"},
    {"enable.gapless.guarantee", "baton aborts the transaction instead"},
    {"acks", "outputs must not be lost"},
    {"request.required.acks", "outputs must not be lost"},
    {"partitioner", "outputs are placed as Java's producers do"},
    {"delivery.report.only.error", "baton counts on it"},
};

const char *agent_options_kafka_refusal(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kafka_refusals); i++) {
        if (strcmp(name, kafka_refusals[i].name) == 0)
            return kafka_refusals[i].reason;
    }
    return NULL;
}

/* ---- tags */

void tag_list_finish(struct tag_list *tags)
{
    for (size_t i = 0; i < tags->count; i++) {
        free(tags->items[i].name);
        free(tags->items[i].value);
    }
    free(tags->items);
    *tags = (struct tag_list){0};
}

static enum err_code add_tag(struct tag_list *tags, const char *text, size_t bytes,
                             struct err *reterr)
{
    const char *equals = memchr(text, '=', bytes);
    size_t name_bytes = equals == NULL ? 0 : (size_t)(equals - text);
    size_t value_bytes = equals == NULL ? 0 : bytes - name_bytes - 1;

    if (tags->count == API_TAGS_MAX)
        return err_set(reterr, ERR_LIMIT, "at most %d tags are allowed", API_TAGS_MAX);
    if (equals == NULL || name_bytes == 0 || name_bytes > 63 || value_bytes > 255 ||
        !utf8_valid(text, bytes))
        return err_set(reterr, ERR_INVALID,
                       "\"%.*s\" is not of the form name=value with a name of 1 to 63 bytes and a "
                       "value of at most 255",
                       bytes > 60 ? 60 : (int)bytes, text);
    for (size_t i = 0; i < tags->count; i++) {
        if (strlen(tags->items[i].name) == name_bytes &&
            memcmp(tags->items[i].name, text, name_bytes) == 0)
            return err_set(reterr, ERR_INVALID, "%s is given twice", tags->items[i].name);
    }
    tags->items = mem_realloc(tags->items, tags->count + 1, sizeof(*tags->items));
    tags->items[tags->count++] = (struct tag){
        .name = mem_printf("%.*s", (int)name_bytes, text),
        .value = mem_printf("%.*s", (int)value_bytes, equals + 1),
    };
    return ERR_NONE;
}

enum err_code agent_options_tags(const char *text, struct tag_list *ret_tags, struct err *reterr)
{
    struct tag_list tags = {0};
    enum err_code code = ERR_NONE;

    while (code == ERR_NONE && *text != '\0') {
        size_t bytes = strcspn(text, ",");
        code = add_tag(&tags, text, bytes, reterr);
        text += bytes;
        if (code == ERR_NONE && text[0] == ',' && text[1] == '\0')
            code = err_set(reterr, ERR_INVALID, "it ends with a comma");
        text += *text == ',';
    }
    if (code == ERR_NONE)
        *ret_tags = tags;
    else
        tag_list_finish(&tags);
    return code;
}

/* ---- checks */

static enum err_code check_agent_id(struct agent_options *options, struct err *reterr)
{
    char host[256] = "";
    bool is_given = options->agent_id[0] != '\0';

    if (!is_given) {
        if (gethostname(host, sizeof(host) - 1) != 0)
            host[0] = '\0';
        free(options->agent_id);
        options->agent_id = mem_strdup(host);
    }
    if (schema_agent_id_valid(options->agent_id))
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID,
                   "agent_id: %s\"%.80s\" is not of the form [a-zA-Z0-9][a-zA-Z0-9._-]{0,62}%s",
                   is_given ? "" : "the host's name ", options->agent_id,
                   is_given ? "" : ": give the agent a name");
}

static enum err_code check_coordinator(struct agent_options *options, struct err *reterr)
{
    char *base;
    if (http_client_check_url(options->coordinator, &base, reterr) != ERR_NONE)
        return err_prefix(reterr, "coordinator: %.200s", options->coordinator);
    free(options->coordinator);
    options->coordinator = base;
    return ERR_NONE;
}

static enum err_code check_advertise(const struct agent_options *options, struct err *reterr)
{
    char *url = mem_printf("http://%s", options->advertise), *base = NULL;
    enum err_code code = ERR_NONE;

    if (options->advertise[0] != '\0')
        code = http_client_check_url(url, &base, reterr);
    if (code != ERR_NONE)
        (void)err_prefix(reterr, "advertise: %.200s", options->advertise); /* the code stays */
    free(base);
    free(url);
    return code;
}

static enum err_code check_plugin_dir(const struct agent_options *options, struct err *reterr)
{
    struct stat status;
    const char *path = options->plugin_dir;

    if (path[0] == '\0')
        return ERR_NONE;
    if (stat(path, &status) != 0)
        return err_set(reterr, ERR_IO, "plugin_dir: %.300s: %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return err_set(reterr, ERR_INVALID, "plugin_dir: %.300s is not a directory", path);
    if (access(path, R_OK | X_OK) != 0)
        return err_set(reterr, ERR_IO, "plugin_dir: %.300s: %s", path, strerror(errno));
    return ERR_NONE;
}

static enum err_code check_brokers(rd_kafka_conf_t *conf, struct err *reterr)
{
    char text[16];
    size_t bytes = sizeof(text);
    rd_kafka_conf_res_t result = rd_kafka_conf_get(conf, "bootstrap.servers", text, &bytes);

    /* The length counts the NUL. */
    if (result == RD_KAFKA_CONF_OK && bytes > 1)
        return ERR_NONE;
    return err_set(reterr, ERR_INVALID,
                   "kafka.bootstrap.servers: is required: the brokers' addresses, like "
                   "broker1:9092,broker2:9092");
}

/* Makes a client and throws it away: only then librdkafka looks at properties that exclude each
 * other and at certificate files. Idempotence is what our producers add. */
static enum err_code check_kafka(const struct opts_kafka *kafka, struct err *reterr)
{
    static const struct kafka_conf_item items[] = {
        {"client.id", "baton-check", false, false},
        {"enable.idempotence", "true", false, true},
        {"log_level", "0", false, true},
    };
    rd_kafka_conf_t *conf;
    rd_kafka_t *client;

    for (size_t i = 0; i < kafka->count; i++) {
        const char *reason = agent_options_kafka_refusal(kafka->items[i].name);
        if (reason != NULL)
            return err_set(reterr, ERR_INVALID, "kafka.%s: can not be set: %s",
                           kafka->items[i].name, reason);
    }
    if (kafka_conf_create(items, COUNT_OF(items), kafka, &conf, reterr) != ERR_NONE)
        return ERR_INVALID;
    if (check_brokers(conf, reterr) != ERR_NONE) {
        rd_kafka_conf_destroy(conf);
        return ERR_INVALID;
    }
    if (kafka_conf_client(RD_KAFKA_PRODUCER, conf, &client, reterr) != ERR_NONE) {
        (void)err_prefix(reterr, "kafka.*"); /* the code stays */
        return ERR_INVALID;
    }
    rd_kafka_destroy(client);
    return ERR_NONE;
}

enum err_code agent_options_check(struct agent_options *options, const struct opts_kafka *kafka,
                                  struct err *reterr)
{
    struct tag_list tags;
    enum err_code code = check_agent_id(options, reterr);

    if (code == ERR_NONE)
        code = check_coordinator(options, reterr);
    if (code == ERR_NONE) {
        code = agent_options_tags(options->tags, &tags, reterr);
        if (code == ERR_NONE)
            tag_list_finish(&tags);
        else
            (void)err_prefix(reterr, "tags"); /* the code stays */
    }
    if (code == ERR_NONE)
        code = check_advertise(options, reterr);
    if (code == ERR_NONE)
        code = check_plugin_dir(options, reterr);
    if (code == ERR_NONE)
        code = check_kafka(kafka, reterr);
    return code;
}
