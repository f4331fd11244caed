/*
 * baton-agent. Starts in this order, and stops in the reverse one:
 *
 *   1. signals are blocked, so that every thread inherits that
 *   2. the HTTP client library; options are read and checked; --help and the like end here
 *   3. the state directory is locked
 *   4. the agent's endpoint listens
 *   5. the Kafka client that all tasks ask for high watermarks
 *   6. a thread takes the signals
 *   7. the control thread's loop, which is this thread's (agent_run)
 *
 * Exit status: 0 asked to stop and everything is closed; 1 anything else, with one line that says
 * why.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/crash.h"
#include "agent/endpoint.h"
#include "agent/http_client.h"
#include "agent/observer.h"
#include "agent/options.h"
#include "agent/snapshot_serve.h"
#include "agent/store.h"
#include "agent/task_thread.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"

#define SIGNAL_ECHO_MS 500

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

struct daemon {
    struct agent_options options;
    struct opts_kafka kafka;
    int lock_fd; /* of the state directory; -1: not locked */
    char boot_id[64];
    struct snapshot_serve *snapshots;
    struct endpoint *endpoint;
    char *address;
    struct observer *observer;
    struct agent *agent;

    sigset_t signals;
    pthread_t signal_thread;
    bool signal_thread_runs;
    atomic_bool through; /* main wants the signal thread to end */
};

static const struct task_ops task_ops_threads = {
    .start = task_thread_start,
    .desire = task_thread_desire,
    .follow = task_thread_follow,
    .stop = task_thread_stop,
    .ended = task_thread_ended,
    .join = task_thread_join,
    .report = task_thread_report,
};

/* ---- signals */

/* The last signal that is taken in order: with on_term=drain there are two, to drain and to stop.
 */
static int orderly_signals(const struct daemon *daemon)
{
    return daemon->options.on_term == AGENT_ON_TERM_DRAIN ? 2 : 1;
}

/* One more signal is a person who does not want to wait: Kafka and the state are safe at any moment
 * (common/mem.h), so it is granted at once. One that comes with the first is its echo: timeout(1)
 * and wrappers that forward what their process group gets as well send two. */
static void *signal_main(void *arg)
{
    struct daemon *daemon = arg;
    int64_t last_ms = 0;
    int taken = 0;
    for (;;) {
        int number;
        int rc = sigwait(&daemon->signals, &number);
        assert(rc == 0);
        if (atomic_load(&daemon->through))
            return NULL;
        int64_t now_ms = clock_mono_ms();
        if (taken > 0 && now_ms - last_ms < SIGNAL_ECHO_MS)
            continue;
        bool in_order = taken < orderly_signals(daemon);
        log_info("signal", LOG_STR("signal", number == SIGTERM ? "SIGTERM" : "SIGINT"),
                 LOG_STR("effect", in_order ? "stopping in order" : "ending at once"), LOG_END);
        if (!in_order)
            _exit(1);
        last_ms = now_ms;
        taken++;
        agent_stop(daemon->agent);
    }
}

static void block_signals(struct daemon *daemon)
{
    sigemptyset(&daemon->signals);
    sigaddset(&daemon->signals, SIGTERM);
    sigaddset(&daemon->signals, SIGINT);
    int rc = pthread_sigmask(SIG_BLOCK, &daemon->signals, NULL);
    assert(rc == 0);
    signal(SIGPIPE, SIG_IGN); /* fails for no valid signal */
}

static enum err_code start_signal_thread(struct daemon *daemon, struct err *reterr)
{
    int rc = pthread_create(&daemon->signal_thread, NULL, signal_main, daemon);
    if (rc != 0)
        return err_set(reterr, ERR_IO, "no thread for signals: %s", strerror(rc));
    daemon->signal_thread_runs = true;
    return ERR_NONE;
}

static void stop_signal_thread(struct daemon *daemon)
{
    if (!daemon->signal_thread_runs)
        return;
    atomic_store(&daemon->through, true);
    pthread_kill(daemon->signal_thread, SIGTERM); /* it has not been joined, so it is there */
    int rc = pthread_join(daemon->signal_thread, NULL);
    assert(rc == 0);
}

/* ---- start */

/* Without it a state that was not closed cleanly is not trusted, which is all that it costs. */
static void read_boot_id(struct daemon *daemon)
{
    FILE *file = fopen(BOOT_ID_FILE, "re");
    if (file == NULL || fgets(daemon->boot_id, sizeof(daemon->boot_id), file) == NULL)
        snprintf(daemon->boot_id, sizeof(daemon->boot_id), "unknown-%d", (int)getpid());
    daemon->boot_id[strcspn(daemon->boot_id, "\n")] = '\0';
    if (file != NULL)
        (void)fclose(file); /* it was only read */
}

/* What others can reach the endpoint by: an address of all interfaces is none, the host's name is.
 */
static char *url_of(const char *address)
{
    char host[256] = "";
    const char *port = strrchr(address, ':');
    bool everywhere = strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
    if (!everywhere || gethostname(host, sizeof(host) - 1) != 0)
        return mem_printf("http://%s", address);
    return mem_printf("http://%s%s", host, port);
}

static enum err_code start(struct daemon *daemon, struct err *reterr)
{
    const struct agent_options *options = &daemon->options;

    enum err_code code =
        store_lock_directory(options->state_dir, options->agent_id, &daemon->lock_fd, reterr);
    if (code != ERR_NONE) /* the option is named once */
        return strncmp(reterr->text, "state_dir", 9) == 0 ? code : err_prefix(reterr, "state_dir");
    daemon->snapshots = snapshot_serve_create(
        &(struct snapshot_limits){.transfers_max = (unsigned)options->snapshots_max,
                                  .bytes_per_s_max = options->snapshot_rate});
    if (endpoint_start(options->listen, daemon->snapshots, &daemon->endpoint, reterr) != ERR_NONE)
        return err_prefix(reterr, "listen");
    daemon->address = options->advertise[0] != '\0' ? mem_printf("http://%s", options->advertise)
                                                    : url_of(endpoint_address(daemon->endpoint));
    log_info("listening", LOG_STR("address", endpoint_address(daemon->endpoint)), LOG_END);

    code = observer_create(&daemon->kafka, options->agent_id, &daemon->observer, reterr);
    if (code != ERR_NONE)
        return code;

    struct agent_config config = {.options = options,
                                  .kafka = &daemon->kafka,
                                  .ops = &task_ops_threads,
                                  .endpoint = daemon->endpoint,
                                  .address = daemon->address,
                                  .boot_id = daemon->boot_id,
                                  .observer = daemon->observer,
                                  .snapshots = daemon->snapshots,
                                  .link = agent_link_defaults()};
    daemon->agent = agent_create(&config);
    return start_signal_thread(daemon, reterr);
}

static void finish(struct daemon *daemon)
{
    stop_signal_thread(daemon);
    agent_destroy(daemon->agent);
    observer_destroy(daemon->observer);
    endpoint_destroy(daemon->endpoint);
    snapshot_serve_destroy(daemon->snapshots);
    free(daemon->address);
    if (daemon->lock_fd >= 0)
        (void)close(daemon->lock_fd); /* a lock has nothing to write back */
}

static int run(struct daemon *daemon)
{
    struct err err;
    if (start(daemon, &err) != ERR_NONE) {
        log_error("not_started", LOG_STR("detail", err.text), LOG_END);
        finish(daemon);
        return 1;
    }
    enum agent_end end = agent_run(daemon->agent);
    if (end == AGENT_END_ABANDONED)
        _exit(1); /* threads still use what finish would take apart */
    finish(daemon);
    log_info("stopped", LOG_STR("agent", daemon->options.agent_id), LOG_END);
    return end == AGENT_END_CLEAN ? 0 : 1;
}

/* ---- options */

/* The status to exit with, or -1 to go on. */
static int load_options(struct daemon *daemon, int argc, char **argv)
{
    enum opts_outcome outcome;
    struct err err;
    enum err_code code =
        opts_parse(agent_options_table, agent_options_count, "baton-agent", BATON_VERSION, argc,
                   argv, stdout, &daemon->options, &daemon->kafka, &outcome, &err);

    if (code == ERR_NONE && outcome == OPTS_EXIT)
        return 0;
    if (code == ERR_NONE) {
        log_set_level((enum log_level)daemon->options.log_level);
        code = agent_options_check(&daemon->options, &daemon->kafka, &err);
        if (code != ERR_NONE)
            opts_finish(agent_options_table, agent_options_count, &daemon->options, &daemon->kafka);
    }
    if (code == ERR_NONE)
        return -1;
    log_error("not_started", LOG_STR("detail", err.text), LOG_END);
    return 1;
}

int main(int argc, char **argv)
{
    struct daemon daemon = {.lock_fd = -1};
    struct err err;

    block_signals(&daemon);
    crash_install();
    if (http_client_global_init(&err) != ERR_NONE) {
        log_error("not_started", LOG_STR("detail", err.text), LOG_END);
        return 1;
    }
    int status = load_options(&daemon, argc, argv);
    if (status < 0) {
        log_info("starting", LOG_STR("version", BATON_VERSION),
                 LOG_STR("agent", daemon.options.agent_id),
                 LOG_STR("coordinator", daemon.options.coordinator),
                 LOG_STR("state_dir", daemon.options.state_dir), LOG_END);
        read_boot_id(&daemon);
        status = run(&daemon);
        opts_finish(agent_options_table, agent_options_count, &daemon.options, &daemon.kafka);
    }
    http_client_global_finish();
    return status;
}
