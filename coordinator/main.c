/*
 * baton-coordinator. Startup in this order; stopping is its mirror:
 *
 *   options, log, signals -> listening socket -> store (opened, loaded) -> Kafka clients
 *   -> owner thread -> Kafka thread -> HTTP -> "listening", READY=1
 *   ... SIGTERM or SIGINT -> STOPPING=1
 *
 * The socket and the clients come first, so that an address that is taken or a setting that is
 * wrong does not touch the database; nothing is accepted before the end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/protocol.h"
#include "common/listener.h"
#include "common/logger.h"
#include "common/mem.h"
#include "common/rng.h"
#include "common/notify.h"
#include "coordinator/coordinator.h"
#include "coordinator/http.h"
#include "coordinator/kafka.h"
#include "coordinator/options.h"
#include "coordinator/publish.h"

#define PROGRAM            "baton-coordinator"
#define TOPICS_INTERVAL_MS 5000 /* what was done to topics shows so soon */
#define GROUPS_INTERVAL_MS 2000 /* members of groups likewise */

struct daemon {
    struct coordinator_options options;
    struct opts_kafka kafka_options;
    struct listener listener; /* fd -1: not ours (any more) */
    struct publisher *publisher;
    struct http *http;
    struct coordinator *coordinator;
    struct kafka *kafka;
};

static enum err_code check_options(const struct coordinator_options *options, struct err *reterr)
{
    if (options->report_interval_ms * 2 > options->agent_timeout_ms)
        return err_set(reterr, ERR_INVALID,
                       "report_interval: must be at most half of agent_timeout, or one late "
                       "report is a lost agent");
    return ERR_NONE;
}

/* The signals that end us wait for sigwait; threads inherit the mask. */
static void block_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, ret_signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a broken connection is an error of its write */
}

static enum err_code open_listener(struct daemon *daemon, struct err *reterr)
{
    enum err_code code = listener_open(daemon->options.listen, &daemon->listener, reterr);
    if (code != ERR_NONE) {
        (void)err_prefix(reterr, "listen");
        return code;
    }
    if (!daemon->listener.loopback)
        log_warn("listen_not_loopback", LOG_STR("address", daemon->listener.address),
                 LOG_STR("detail", "there is no authentication yet: whoever reaches this address "
                                   "can change and delete jobs"),
                 LOG_END);
    return ERR_NONE;
}

/* A service that is started for the first time has no folder for its database yet. */
static enum err_code make_folder(const char *path, struct err *reterr)
{
    char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');
    enum err_code code = ERR_NONE;
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        if (mkdir(folder, 0750) != 0 && errno != EEXIST)
            code = err_set(reterr, ERR_IO, "can not make the folder %s: %s", folder,
                           strerrordesc_np(errno));
    }
    free(folder);
    return code;
}

static enum err_code open_store(struct daemon *daemon, struct err *reterr)
{
    const struct coordinator_options *options = &daemon->options;
    struct coordinator_config config = {
        .database = options->database,
        .backup_dir = options->backup_dir,
        .core = {.protocol = protocol_own(),
                 .agent_timeout_ms = options->agent_timeout_ms,
                 .report_interval_ms = options->report_interval_ms,
                 .poll_wait_ms_max = options->poll_wait_max_ms,
                 .topics_interval_ms = TOPICS_INTERVAL_MS,
                 .groups_interval_ms = GROUPS_INTERVAL_MS,
                 .verify = true,
                 .recover = options->recover},
        .retention = {.events = (uint64_t)options->history_events,
                      .operations = (uint64_t)options->history_operations,
                      .handoffs = (uint64_t)options->history_handoffs,
                      .age_ms = options->history_age_ms},
        .publisher = daemon->publisher,
        .answer = http_answer,
        .context = daemon->http,
    };
    rng_bytes(config.core.seed_secret, sizeof(config.core.seed_secret));
    enum err_code code = make_folder(options->database, reterr);
    if (code == ERR_NONE)
        code = coordinator_create(&config, &daemon->coordinator, reterr);
    if (code != ERR_NONE)
        (void)err_prefix(reterr, "database");
    return code;
}

static enum err_code start_http(struct daemon *daemon, struct err *reterr)
{
    struct http_config config = {
        .sources = {.coordinator = daemon->coordinator,
                    .kafka = daemon->kafka,
                    .publisher = daemon->publisher},
        .connections_max = (unsigned)daemon->options.http_connections_max,
    };
    struct listener listener = daemon->listener;
    daemon->listener.fd = -1; /* taken, whatever becomes of it */
    return http_start(daemon->http, &config, &listener, reterr);
}

static enum err_code start(struct daemon *daemon, struct err *reterr)
{
    enum err_code code = open_listener(daemon, reterr);
    if (code != ERR_NONE)
        return code;
    daemon->publisher = publisher_create();
    daemon->http = http_create();
    if ((code = kafka_create(&daemon->kafka_options, &daemon->kafka, reterr)) != ERR_NONE)
        return code;
    if ((code = open_store(daemon, reterr)) != ERR_NONE)
        return code;
    if ((code = coordinator_start(daemon->coordinator, daemon->kafka, reterr)) != ERR_NONE)
        return code;
    if ((code = kafka_start(daemon->kafka, coordinator_deliver, daemon->coordinator, reterr)) !=
        ERR_NONE)
        return code;
    return start_http(daemon, reterr);
}

static void stop(struct daemon *daemon)
{
    http_stop(daemon->http);
    kafka_stop(daemon->kafka);
    coordinator_stop(daemon->coordinator);
    kafka_destroy(daemon->kafka);
    coordinator_destroy(daemon->coordinator);
    http_destroy(daemon->http);
    publisher_destroy(daemon->publisher);
    if (daemon->listener.fd >= 0)
        (void)close(daemon->listener.fd);
}

static int serve(struct daemon *daemon, const sigset_t *signals)
{
    struct err err = {0};
    int status = EXIT_FAILURE;
    if (start(daemon, &err) == ERR_NONE) {
        log_info("listening", LOG_STR("address", daemon->listener.address),
                 LOG_STR("version", BATON_VERSION), LOG_END);
        notify_send("READY=1");
        int signal_number = 0;
        (void)sigwait(signals, &signal_number); /* fails only for an invalid set */
        log_info("stopping", LOG_STR("signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"),
                 LOG_END);
        notify_send("STOPPING=1");
        status = EXIT_SUCCESS;
    } else {
        log_error("start_failed", LOG_STR("detail", err.text), LOG_END);
    }
    stop(daemon);
    if (status == EXIT_SUCCESS)
        log_info("stopped", LOG_END);
    return status;
}

int main(int argc, char **argv)
{
    struct daemon daemon = {.listener = {.fd = -1}};
    enum opts_outcome outcome;
    struct err err;
    enum err_code code =
        opts_parse(coordinator_options_table, coordinator_options_count, PROGRAM, BATON_VERSION,
                   argc, argv, stdout, &daemon.options, &daemon.kafka_options, &outcome, &err);
    if (code == ERR_NONE && outcome == OPTS_RUN)
        code = check_options(&daemon.options, &err);
    int status = EXIT_SUCCESS;
    if (code != ERR_NONE) {
        (void)fprintf(stderr, "%s: %s\n", PROGRAM, err.text);
        status = EXIT_FAILURE;
    } else if (outcome == OPTS_RUN) {
        sigset_t signals;
        log_set_level((enum log_level)daemon.options.log_level);
        block_signals(&signals);
        status = serve(&daemon, &signals);
    }
    opts_finish(coordinator_options_table, coordinator_options_count, &daemon.options,
                &daemon.kafka_options);
    return status;
}
