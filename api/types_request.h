/*
 * What operators ask for, beside jobs, and what became of it. Part of api/types.h, whose rules
 * hold.
 */
#ifndef BATON_API_TYPES_REQUEST_H
#define BATON_API_TYPES_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uint_list {
    uint32_t *items;
    size_t count;
};

/* In what follows `plan` is the id of a plan that the request must still come to, or NULL. */

/* POST /v1/jobs/{job}/moves */
struct move_request {
    uint32_t processor;
    char *agent; /* target; NULL: the planner chooses */
    char *reason;
    char *plan;
};

/* POST /v1/jobs/{job}/rebalance */
struct rebalance_request {
    char *reason;
    char *plan;
};

/* POST /v1/jobs/{job}/expansions: one of the two counts, API_UNKNOWN being the other. */
struct expansion_request {
    int64_t processors;
    int64_t partitions;
    bool dry_run; /* only say what it would take */
    char *reason;
};

/* Of a job, or of the planner for all jobs (maintenance), as PUT .../pause, .../resume and
 * /v1/maintenance left it. */
struct pause_view {
    bool paused;
    char *reason;       /* given with the last change, or NULL, as the next */
    char *actor;        /* who made it */
    int64_t changed_at; /* since when it is so; API_UNKNOWN: always */
};

/* PUT /v1/jobs/{job}/pause and /resume */
struct pause_request {
    char *reason;
};

struct maintenance_view {
    bool enabled;
    char *reason; /* as in pause_view, as the next two */
    char *actor;
    int64_t changed_at;
};

/* PUT /v1/maintenance */
struct maintenance_request {
    bool enabled;
    char *reason;
};

/* POST /v1/jobs/{job}/skips */
struct skip_request {
    char *topic; /* name of one of the inputs */
    uint32_t partition;
    int64_t offset;
    char *reason;
};

/* A record that somebody has said to pass: no task ever gives it to the logic. */
struct skip_view {
    char *topic;
    uint32_t partition;
    int64_t offset;
    uint32_t processor; /* that it stopped */
    char *reason;       /* given by the caller, or NULL */
    char *actor;        /* who said so */
    int64_t skipped_at;
};

enum offsets_action {
    OFFSETS_ACTION_ACCEPT, /* go on from what Kafka has */
    OFFSETS_ACTION_RESTORE /* go on from what the job had committed, as far as baton knows */
};

/* POST /v1/jobs/{job}/offsets */
struct offsets_request {
    enum offsets_action action;
    struct uint_list processors; /* empty: all that wait for it */
    bool dry_run;
    char *reason;
};

struct offset_choice_view {
    uint32_t processor;
    char *topic;
    uint32_t partition;
    int64_t found;  /* committed in Kafka; API_UNKNOWN: nothing */
    int64_t offset; /* that it goes on from */
    int64_t t2;     /* of the owner's state; API_UNKNOWN */
};

struct offsets_view { /* the answer */
    bool dry_run;
    struct {
        struct offset_choice_view *items;
        size_t count;
    } offsets;
};

/* POST /v1/backups: a copy of the coordinator's database */
struct backup_view {
    char *file; /* path on the coordinator's host */
    uint64_t bytes;
    int64_t started_at;
    int64_t took_ms;
};

/* Whether an agent may receive processors, by somebody's word; kept for its id, not for a start. */
struct eligibility_view {
    bool schedulable;
    char *reason;       /* given by the caller, or NULL, as the next */
    char *actor;        /* who said so */
    int64_t changed_at; /* API_UNKNOWN: nobody ever said anything */
};

/* PUT /v1/agents/{agent}/eligibility */
struct eligibility_request {
    bool schedulable;
    char *reason;
    char *plan;
};

/* What is done with what an agent that is to leave has still when its time is over. */
enum drain_deadline {
    DRAIN_DEADLINE_FORCE, /* whoever has learned most of it takes it over at once */
    DRAIN_DEADLINE_CANCEL /* it stays, and the agent with it */
};

/* PUT /v1/agents/{agent}/drain */
struct drain_request {
    int64_t deadline_ms; /* from now on; API_UNKNOWN: none */
    enum drain_deadline on_deadline;
    bool until_restart; /* it ends when the agent starts anew */
    char *reason;
    char *plan;
};

/* A processor that an agent which is to leave has not given away yet. */
struct drain_left_view {
    char *job;
    uint32_t processor;
    int64_t handoff;     /* number of the hand-over under way; API_UNKNOWN: none */
    char *target;        /* agent that gets it, or NULL, as the next three */
    char *state;         /* of the hand-over */
    char *waiting;       /* what it waits for, for a person */
    char *stuck;         /* code of the problem that keeps it */
    int64_t lag_records; /* that the target has still to learn; API_UNKNOWN, as the next */
    int64_t eta_ms;      /* until the target has caught up */
};

struct drain_view {
    char *agent;
    enum drain_state { DRAIN_STATE_DRAINING, DRAIN_STATE_DRAINED, DRAIN_STATE_CANCELLED } state;
    bool safe_to_stop;   /* nothing is lost, and nothing pauses, when the agent is stopped now */
    int64_t deadline_ms; /* as it was asked for; API_UNKNOWN: none */
    enum drain_deadline on_deadline;
    bool until_restart;
    bool overdue; /* the deadline has passed, and what was left was forced */
    char *reason; /* or NULL */
    char *actor;
    char *error; /* why it was cancelled, or NULL */
    int64_t started_at;
    int64_t deadline_at; /* API_UNKNOWN: none */
    int64_t ended_at;    /* API_UNKNOWN: not yet */
    uint32_t processors; /* that it had when it was asked to leave */
    int64_t eta_ms;      /* of the slowest; API_UNKNOWN: of some it is not known */
    struct {
        struct drain_left_view *items;
        size_t count;
    } left;
};

#endif
