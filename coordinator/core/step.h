/*
 * The coordinator's decisions: coord_step(cluster, event) -> update. Pure: everything that it knows
 * of the world comes inside the event (time, identities, Kafka's answers). The shell
 * (coordinator/coordinator.c) carries the update out.
 *
 * After every load, also the one after a failed commit, COORD_EVENT_START comes first. Requests
 * that waited (polls, waits for operations, PUTs that wait for the broker) are gone with the memory
 * that was dropped: the shell answers them 503.
 *
 * Every request is answered exactly once: by the update of its own event, or by a later one at the
 * latest when the deadline that the step gave it has passed (`wake_ms` asks for that tick).
 * The shell ticks when wake_ms is reached even while other events are queued: observations are
 * stored in ticks alone.
 */
#ifndef BATON_COORDINATOR_CORE_STEP_H
#define BATON_COORDINATOR_CORE_STEP_H

#include "coordinator/core/update.h"

enum coord_event_kind {
    COORD_EVENT_START,            /* first after loading: raises start_number, resumes operations */
    COORD_EVENT_TICK,             /* time has passed (wake_ms of an earlier update) */
    COORD_EVENT_JOB_PUT,          /* name, spec (checked by api/spec.h), if_match, if_none_match */
    COORD_EVENT_JOB_DELETE,       /* name, if_match, reason */
    COORD_EVENT_AGENT_REGISTER,   /* registration */
    COORD_EVENT_AGENT_DEREGISTER, /* name, incarnation */
    COORD_EVENT_AGENT_FORGET,     /* name, reason */
    COORD_EVENT_ELIGIBILITY,      /* name, eligibility */
    COORD_EVENT_DRAIN,            /* name, drain */
    COORD_EVENT_DRAIN_CANCEL,     /* name, reason */
    COORD_EVENT_PAUSE,            /* name, reason */
    COORD_EVENT_RESUME,           /* name, reason */
    COORD_EVENT_MAINTENANCE,      /* maintenance */
    COORD_EVENT_SKIP,             /* name, skip */
    COORD_EVENT_OFFSETS,          /* name, offsets */
    COORD_EVENT_POLL,             /* name, incarnation, after, wait_ms */
    COORD_EVENT_REPORT,           /* name, report */
    COORD_EVENT_OPERATION_WAIT, /* operation, wait_ms; 404 when it is no longer in memory: the store
                                   may have it */
    COORD_EVENT_OPERATION_CANCEL, /* operation */
    COORD_EVENT_MOVE,             /* name, move */
    COORD_EVENT_REBALANCE,        /* name, reason, plan */
    COORD_EVENT_EXPAND,           /* name, expansion */
    COORD_EVENT_PLAN,             /* plan_request: what it would move; nothing is done */
    COORD_EVENT_HANDOFF_CANCEL,   /* handoff; 404 when it has ended: the store may have it */
    COORD_EVENT_REQUEST_GONE,     /* request: its client went away; forget it, answer nothing */
    COORD_EVENT_KAFKA             /* kafka */
};

/* Owns its payload; the step may take from it; coord_event_finish frees the rest. */
struct coord_event {
    enum coord_event_kind kind;
    int64_t now_ms;                /* monotonic, above 0 */
    int64_t now_at;                /* wall */
    uint64_t random;               /* for jitter */
    char uuid[API_UUID_BYTES + 1]; /* a fresh one, for a thing that this event may create; in every
                                      event: a job is created by the broker's answer */
    uint64_t request;              /* to answer; 0: nobody waits */
    char *actor;                   /* who asks: "api 127.0.0.1", "agent a1"; may be NULL */
    char *name;                    /* job or agent id, by kind */
    uint64_t if_match;             /* generation; 0: no condition; UINT64_MAX: "*" (must exist) */
    bool if_none_match;            /* JOB_PUT: must not exist */
    char *incarnation;             /* POLL, DEREGISTER */
    char *reason;
    char *plan; /* REBALANCE: id of the plan that it is to come to; the others have it in theirs */
    uint64_t operation;
    uint64_t handoff;
    int64_t wait_ms; /* POLL, OPERATION_WAIT */
    struct document_version after;
    union {
        struct job_spec spec;
        struct agent_registration registration;
        struct agent_report report;
        struct move_request move;
        struct eligibility_request eligibility;
        struct drain_request drain;
        struct maintenance_request maintenance;
        struct skip_request skip;
        struct offsets_request offsets;
        struct plan_request plan_request;
        struct expansion_request expansion;
        struct kafka_result kafka;
    };
};

void coord_event_finish(struct coord_event *event);

/* `ret_update` is zeroed by the caller and always filled in; the cluster has the changes applied
 * already. */
void coord_step(struct cluster *cluster, struct coord_event *event, struct update *ret_update);

#endif
