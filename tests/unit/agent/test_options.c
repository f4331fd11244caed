#include "agent/options.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

#define ARGUMENTS_MAX 12

static struct agent_options options;
static struct opts_kafka kafka;

/* Parses and checks; the options stay for the caller to look at when that succeeds. */
static enum err_code load(struct err *reterr, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {(char *)"baton-agent"};
    int argc = 1;
    enum opts_outcome outcome;

    for (; arguments[argc - 1] != NULL; argc++)
        argv[argc] = (char *)arguments[argc - 1];
    options = (struct agent_options){0};
    kafka = (struct opts_kafka){0};
    enum err_code code =
        opts_parse(agent_options_table, agent_options_count, "baton-agent", "0.1.0", argc, argv,
                   stdout, &options, &kafka, &outcome, reterr);
    if (code != ERR_NONE)
        return code;
    cr_assert_eq(outcome, OPTS_RUN);
    code = agent_options_check(&options, &kafka, reterr);
    if (code != ERR_NONE)
        opts_finish(agent_options_table, agent_options_count, &options, &kafka);
    return code;
}

static void unload(void)
{
    opts_finish(agent_options_table, agent_options_count, &options, &kafka);
}

#define LOAD(...) load(&err, (const char *const[]){__VA_ARGS__, NULL})
#define BROKERS   "--kafka.bootstrap.servers=127.0.0.1:1"

Test(agent_options, defaults)
{
    struct err err;
    char host[256] = "";
    cr_assert_eq(LOAD(BROKERS), ERR_NONE, "%s", err.text);

    gethostname(host, sizeof(host) - 1);
    cr_assert_str_eq(options.agent_id, host);
    cr_assert_str_eq(options.coordinator, "http://127.0.0.1:7420");
    cr_assert_str_eq(options.state_dir, "/var/lib/baton/agent");
    cr_assert_str_eq(options.listen, "127.0.0.1:7421");
    cr_assert_str_eq(options.plugin_dir, "");
    cr_assert_eq(options.capacity, 64);
    cr_assert_eq(options.cache_bytes, 64 << 20);
    cr_assert_eq(options.state_bytes_max, INT64_C(64) << 30);
    cr_assert(options.state_sync);
    cr_assert_eq(options.checkpoint_interval_ms, 1000);
    cr_assert_eq(options.stop_timeout_ms, 30000);
    cr_assert_str_eq(agent_on_term_names[options.on_term], "leave");
    unload();
}

Test(agent_options, what_was_given_is_taken)
{
    struct err err;
    cr_assert_eq(LOAD(BROKERS, "--agent_id=Host-7.example", "--coordinator=https://c:1/x/",
                      "--plugin_dir=/", "--tags=zone=a,rack=", "--kafka.linger.ms=1"),
                 ERR_NONE, "%s", err.text);
    cr_assert_str_eq(options.agent_id, "Host-7.example");
    cr_assert_str_eq(options.coordinator, "https://c:1/x");
    cr_assert_eq(kafka.count, 2);
    unload();
}

/* Each refusal names the option. */
Test(agent_options, refusals)
{
    static const struct {
        const char *argument;
        const char *text;
    } table[] = {
        {"--agent_id=-a", "agent_id: \"-a\" is not of the form"},
        {"--agent_id=a b", "agent_id: \"a b\" is not of the form"},
        {"--coordinator=127.0.0.1:7420", "coordinator: 127.0.0.1:7420: "},
        {"--coordinator=ftp://c", "coordinator: ftp://c: it must begin with http:// or https://"},
        {"--plugin_dir=/nowhere/at/all", "plugin_dir: /nowhere/at/all: No such file or directory"},
        {"--plugin_dir=/etc/passwd", "plugin_dir: /etc/passwd is not a directory"},
        {"--tags=zone", "tags: \"zone\" is not of the form name=value"},
        {"--tags=zone=a,", "tags: it ends with a comma"},
        {"--tags=zone=a,zone=b", "tags: zone is given twice"},
        {"--capacity=0", "capacity"},
        {"--checkpoint_interval=99ms", "checkpoint_interval"},
        {"--stop_timeout=2h", "stop_timeout"},
        {"--on_term=stop", "on_term"},
        {"--kafka.no.such=1", "kafka.no.such: No such configuration property"},
        {"--kafka.linger.ms=soon", "kafka.linger.ms: Invalid value"},
        {"--kafka.bootstrap.servers=", "kafka.bootstrap.servers: is required"},
        {"--kafka.max.in.flight=10", "kafka.*: Kafka client: "},
        {"--kafka.security.protocol=tls", "kafka.security.protocol: Invalid value"},
        {"--kafka.group.id=mine", "kafka.group.id: can not be set: it is the job's group_id"},
        {"--kafka.acks=1", "kafka.acks: can not be set: outputs must not be lost"},
        {"--kafka.auto.offset.reset=latest", "kafka.auto.offset.reset: can not be set"},
        {"--kafka.transactional.id=x", "kafka.transactional.id: can not be set"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct err err = {0};
        cr_assert_neq(LOAD(BROKERS, table[i].argument), ERR_NONE, "%s", table[i].argument);
        cr_assert_not_null(strstr(err.text, table[i].text), "%s", err.text);
    }
}

Test(agent_options, brokers_are_required)
{
    struct err err;
    cr_assert_eq(LOAD("--agent_id=a1"), ERR_INVALID);
    cr_assert_not_null(strstr(err.text, "kafka.bootstrap.servers"));
    /* librdkafka's older name for it is as good. */
    cr_assert_eq(LOAD("--kafka.metadata.broker.list=127.0.0.1:1"), ERR_NONE, "%s", err.text);
    unload();
}

Test(agent_options, certificate_files_are_looked_at)
{
    struct err err;
    cr_assert_eq(LOAD(BROKERS, "--kafka.security.protocol=ssl", "--kafka.ssl.ca.location=/nowhere"),
                 ERR_INVALID);
    cr_assert_not_null(strstr(err.text, "ssl.ca.location"), "%s", err.text);
}

Test(agent_options, a_broker_that_is_not_there_does_not_hold_the_check)
{
    struct err err;
    int64_t started_ms = clock_mono_ms();
    cr_assert_eq(LOAD(BROKERS), ERR_NONE);
    cr_assert_lt(clock_mono_ms() - started_ms, 3000);
    unload();
}

/* Whatever the consumers and producers set as their own must not be offered to the operator. */
Test(agent_options, owned_properties_are_refused)
{
    static const char *const owned[] = {
        "group.id",          "enable.auto.commit",   "enable.auto.offset.store",
        "auto.offset.reset", "enable.partition.eof", "allow.auto.create.topics",
        "check.crcs",        "isolation.level",      "acks",
        "partitioner",       "enable.idempotence",   "delivery.report.only.error",
        "transactional.id",
    };
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        cr_assert_not_null(agent_options_kafka_refusal(owned[i]), "%s", owned[i]);
    cr_assert_null(agent_options_kafka_refusal("bootstrap.servers"));
    cr_assert_null(agent_options_kafka_refusal("sasl.password"));
}

Test(agent_options, tags)
{
    struct tag_list tags = {0};
    struct err err;
    cr_assert_eq(agent_options_tags("", &tags, &err), ERR_NONE);
    cr_assert_eq(tags.count, 0);
    cr_assert_eq(agent_options_tags("zone=a,rack=,x=y=z", &tags, &err), ERR_NONE);
    cr_assert_eq(tags.count, 3);
    cr_assert_str_eq(tags.items[0].name, "zone");
    cr_assert_str_eq(tags.items[0].value, "a");
    cr_assert_str_eq(tags.items[1].value, "");
    cr_assert_str_eq(tags.items[2].value, "y=z");
    tag_list_finish(&tags);

    cr_assert_eq(agent_options_tags("=a", &tags, &err), ERR_INVALID);
    cr_assert_eq(agent_options_tags(",", &tags, &err), ERR_INVALID);
    cr_assert_eq(agent_options_tags("a=1,,b=2", &tags, &err), ERR_INVALID);
    cr_assert_eq(agent_options_tags("a=\xff", &tags, &err), ERR_INVALID);
    char *long_name = mem_printf("%064d=1", 0);
    cr_assert_eq(agent_options_tags(long_name, &tags, &err), ERR_INVALID);
    cr_assert_eq(agent_options_tags(long_name + 1, &tags, &err), ERR_NONE);
    tag_list_finish(&tags);
    free(long_name);

    char many[1024] = "";
    for (int i = 0; i <= API_TAGS_MAX; i++)
        snprintf(many + strlen(many), sizeof(many) - strlen(many), "%st%d=1", i == 0 ? "" : ",", i);
    cr_assert_eq(agent_options_tags(many, &tags, &err), ERR_LIMIT);
    *strrchr(many, ',') = '\0';
    cr_assert_eq(agent_options_tags(many, &tags, &err), ERR_NONE);
    cr_assert_eq(tags.count, API_TAGS_MAX);
    tag_list_finish(&tags);
}
