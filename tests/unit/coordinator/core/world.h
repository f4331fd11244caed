/*
 * A coordinator's core with everything around it played by the test: clock, Kafka, agents, the
 * shell.
 *
 * world_step runs one event and checks, each time, what must hold after any step: the invariants of
 * cluster_check; that the recorded changes alone give the same durable state (the fold); that no
 * epoch, event or document version repeats or goes back; that each request is answered once; that
 * the step does not ask to be called again at once for ever.
 */
#ifndef BATON_TESTS_COORDINATOR_CORE_WORLD_H
#define BATON_TESTS_COORDINATOR_CORE_WORLD_H

#include "common/strbuf.h"
#include "coordinator/core/step.h"

#define WORLD_TIMEOUT_MS 10000 /* agent_timeout */
#define WORLD_WAIT_MS    25000 /* poll_wait_ms_max */
#define WORLD_ACTOR      "api test"

struct world {
    struct cluster cluster;
    struct cluster fold;  /* what the recorded changes make of an empty cluster */
    struct update update; /* of the last step */
    int64_t now_ms;
    int64_t now_at;
    uint64_t random;
    uint64_t requests; /* handed out */
    uint64_t uuids;
    uint64_t epoch_max; /* highest that a placement ever had */
    uint64_t event_max;
    struct {
        uint64_t *items;
        size_t count, capacity;
    } open; /* requests without an answer so far */
    struct {
        struct kafka_call *items;
        size_t count, capacity;
    } calls;             /* made and not answered yet, oldest first */
    struct strbuf trace; /* what all updates said, in text */
    void (*stored)(struct world *world, const struct update *update); /* NULL: nobody looks */
    void *context;                                                    /* of `stored` */
};

void world_init(struct world *world); /* an empty database, started */
/* As the store loaded it, which is taken; then started. `stored` sees every update from the first
 * on. */
void world_init_from(struct world *world, struct cluster *loaded,
                     void (*stored)(struct world *world, const struct update *update),
                     void *context);
void world_finish(struct world *world);

/* The coordinator's process dies and comes back with what was durable; requests and calls under way
 * are gone. */
void world_restart(struct world *world);
/* Takes the event, whose update can not be stored: memory is dropped and loaded again. */
void world_lose_step(struct world *world, struct coord_event event);

/* Takes the event. */
void world_step(struct world *world, struct coord_event event);
/* An event of the kind at the world's time with a request of its own; the caller fills in the rest.
 */
struct coord_event world_event(struct world *world, enum coord_event_kind kind, const char *name);
/* The client of a waiting request goes away. */
void world_gone(struct world *world, uint64_t request);

/* ---- time */

/* Time passes, with the ticks that the core asks for. */
void world_pass(struct world *world, int64_t ms);

/* ---- answers */

/* The answer to the newest request, which the last update must hold. */
const struct answer *world_answer(const struct world *world);
void world_expect_status(const struct world *world, uint32_t status);
/* It is a problem body of this code; returns it. */
const struct problem_body *world_expect_problem(const struct world *world, const char *code);
/* The last update has no answer. */
void world_expect_none(const struct world *world);
const struct answer *world_find_answer(const struct world *world,
                                       uint64_t request); /* NULL: none */

/* ---- jobs and Kafka */

/* "orders" to "counts", logic count, 4 processors, murmur2, group "group-<name>". */
struct job_spec world_spec(const char *name);
/* Takes the spec. */
void world_put(struct world *world, const char *name, struct job_spec spec);
void world_delete(struct world *world, const char *name);

/* What Kafka says to an INSPECT when all is well: log start 0, end 100, nothing committed, the
 * group is unknown. */
struct kafka_inspection world_inspection(const struct kafka_call *call, uint32_t partitions);
/* Takes the result; answers the oldest call. */
void world_reply(struct world *world, struct kafka_result result);
void world_reply_inspection(struct world *world, struct kafka_inspection inspection);
/* As a healthy broker does; topics have 8 partitions. */
void world_reply_well(struct world *world);
void world_reply_all_well(struct world *world);
void world_reply_failed(struct world *world, const char *detail, bool refused);

/* Puts the job and serves its calls until it runs. */
struct job *world_create(struct world *world, const char *name);
struct job *world_create_spec(struct world *world, const char *name, struct job_spec spec);

/* ---- agents */

/* Incarnations are numbers here. */
void world_uuid(uint64_t number, char ret_text[API_UUID_BYTES + 1]);
void world_register(struct world *world, const char *agent_id, uint64_t incarnation);
struct agent_registration world_registration(const char *agent_id, uint64_t incarnation);
/* What an agent that is here would say, with its document, if it registered now. */
struct agent_registration world_registration_of(const struct world *world, const char *agent_id);
void world_deregister(struct world *world, const char *agent_id, uint64_t incarnation);
void world_forget(struct world *world, const char *agent_id);
/* Returns the request's number. */
uint64_t world_poll(struct world *world, const char *agent_id, uint64_t incarnation,
                    struct document_version after, int64_t wait_ms);
/*
 * All that the agent's document wants, in this state, from the registered incarnation. ACTIVE: as
 * it is when all went well, with learners caught up and what is to be released released.
 */
struct agent_report world_report_of(const struct world *world, const char *agent_id,
                                    enum task_state state);
/* Takes the report. */
void world_send_report(struct world *world, const char *agent_id, struct agent_report report);
void world_report(struct world *world, const char *agent_id, enum task_state state);
/* The registered agents that this names report ACTIVE in turn until nothing changes any more. */
void world_calm_down(struct world *world, const char *const *agent_ids);
/* Time passes while these agents report ACTIVE twice a second; the list ends with NULL. */
void world_pass_reporting(struct world *world, int64_t ms, const char *const *agent_ids);

/* ---- looking */

/* Only what is durable counts. */
void world_check_same(const struct cluster *a, const struct cluster *b);
/* A copy of what is durable: what a load from the store gives. */
void world_copy(struct cluster *ret_copy, const struct cluster *from);

const struct placement_row *world_placement(const struct world *world, const char *job,
                                            uint32_t processor);
/* How many events of the kind the last update has. */
size_t world_count_events(const struct world *world, const char *kind);
size_t world_count_changes(const struct world *world, enum change_kind kind);
/* Processors of the job that the agent owns. */
size_t world_count_owned(const struct world *world, const char *job, const char *agent_id);
/* How many events of the kind the trace has, that is since the start. */
size_t world_count_traced(const struct world *world, const char *kind);

#endif
