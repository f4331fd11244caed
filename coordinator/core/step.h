/*
 * The coordinator's decisions: coord_step(cluster, event) -> update. Pure: everything that it knows
 * of the world comes inside the event (time, identities, Kafka's answers). The shell
 * (coordinator/coordinator.c) carries the update out.
 */
#ifndef BATON_COORDINATOR_CORE_STEP_H
#define BATON_COORDINATOR_CORE_STEP_H

#include "coordinator/core/update.h"

enum coord_event_kind {
    COORD_EVENT_START, /* first after loading: raises start_number, resumes operations */
    COORD_EVENT_TICK,  /* time has passed (wake_ms of an earlier update) */
    COORD_EVENT_JOB_PUT,
    COORD_EVENT_JOB_DELETE,
    COORD_EVENT_AGENT_REGISTER,
    COORD_EVENT_AGENT_DEREGISTER,
    COORD_EVENT_AGENT_FORGET,
    COORD_EVENT_POLL,
    COORD_EVENT_REPORT,
    COORD_EVENT_OPERATION_WAIT,
    COORD_EVENT_OPERATION_CANCEL,
    COORD_EVENT_REQUEST_GONE, /* the client of a waiting request went away: forget it, answer
                                 nothing */
    COORD_EVENT_KAFKA
};

struct coord_event { /* owns its payload; the step may take from it; coord_event_finish frees the
                        rest */
    enum coord_event_kind kind;
    int64_t now_ms;                /* monotonic */
    int64_t now_at;                /* wall */
    uint64_t random;               /* for jitter */
    char uuid[API_UUID_BYTES + 1]; /* a fresh one, for a thing that this event may create */
    uint64_t request;              /* to answer; 0: nobody waits */
    char *actor;                   /* who asks: "api 127.0.0.1", "agent a1"; may be NULL */
    char *name;                    /* job or agent id, by kind */
    uint64_t if_match;  /* JOB_PUT: generation; 0: no condition; UINT64_MAX: "*" (must exist) */
    bool if_none_match; /* JOB_PUT: must not exist */
    char *incarnation;  /* POLL, DEREGISTER */
    char *reason;
    uint64_t operation;
    int64_t wait_ms; /* POLL, OPERATION_WAIT */
    struct document_version after;
    union {
        struct job_spec spec;
        struct agent_registration registration;
        struct agent_report report;
        struct kafka_result kafka;
    };
};

void coord_event_finish(struct coord_event *event);

/* `ret_update` is zeroed by the caller and always filled in; the cluster has the changes applied
 * already. */
void coord_step(struct cluster *cluster, struct coord_event *event, struct update *ret_update);

#endif
