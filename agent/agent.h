/*
 * The control thread: owns the tasks (agent/task_table.h), hears the coordinator through the link,
 * reports, shows itself on the endpoint, and stops in order.
 *
 *   poll thread    --WELCOME, ASSIGNMENT, ENDED-->  mailbox --> control thread (agent_run)
 *   report thread  --REPORTED, ENDED------------>      |             | start, desire, follow, stop
 *   task threads   --changed: flag and wake----->      |             v
 *   signal thread  --agent_stop: flag and wake-->      '         task threads
 *
 * Life, by agent_phase in agent.c:
 *
 *   JOINING     not registered, or no document was applied yet: nothing runs, for assignments are
 *               never kept on disk. Not ready.
 *   WORKING     tasks are as the last document says; with the coordinator away, for as long as it
 *               takes.
 *   DRAINING    asked to stop, with on_term=drain: it works on, and hands over what it has, until
 *               it has nothing, nobody could take it, drain_timeout has passed, or it is asked
 *               again.
 *   STOPPING    nothing is wanted: tasks finish their batch, commit, write their state, close.
 *   LEAVING     all have closed, or stop_timeout has passed: one last report says so.
 *   ENDED       then the agent signs off and agent_run returns.
 */
#ifndef BATON_AGENT_AGENT_H
#define BATON_AGENT_AGENT_H

#include <stdint.h>

#include "agent/coordinator_link.h"
#include "agent/endpoint.h"
#include "agent/options.h"
#include "agent/task_table.h"
#include "common/err.h"

struct agent;
struct observer;
struct snapshot_serve;

struct agent_config {                    /* all borrowed for the agent's life */
    const struct agent_options *options; /* accepted by agent_options_check */
    const struct opts_kafka *kafka;
    const struct task_ops *ops;
    struct endpoint *endpoint;
    const char *address; /* URL of the endpoint for others, or NULL */
    const char *boot_id;
    struct snapshot_serve *snapshots; /* what tasks give to others; NULL: nothing */
    struct observer *observer;        /* of log starts and ends; tests without tasks have none */
    struct link_config link;          /* timings and limits; the rest is filled in */
};

/* The timings and limits that the daemon uses. */
struct link_config agent_link_defaults(void);

struct agent *agent_create(const struct agent_config *config);

enum agent_end {
    AGENT_END_CLEAN,    /* asked to stop, everything is closed */
    AGENT_END_FAILED,   /* it could not go on; what it had is closed. Logged */
    AGENT_END_ABANDONED /* tasks did not close within stop_timeout and still run: end the process
                           without taking anything apart. Logged */
};

/* On the thread that is to be the control thread; once. */
enum agent_end agent_run(struct agent *agent);

/* Any thread: agent_run shall return. Called again, it does not wait for others to take over. */
void agent_stop(struct agent *agent);

void agent_destroy(struct agent *agent); /* not after AGENT_END_ABANDONED; NULL is fine */

#endif
