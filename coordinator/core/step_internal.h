/*
 * What the parts of coord_step share. Internal to coordinator/core.
 *
 * One `struct step` lives for one event. Handlers (one an event kind) check, decide through
 * step_change and answer; what may follow from a decision (placing, going on with operations,
 * answering those who wait) is done once, at the end of the step.
 */
#ifndef BATON_COORDINATOR_CORE_STEP_INTERNAL_H
#define BATON_COORDINATOR_CORE_STEP_INTERNAL_H

#include "api/text.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/rows.h"
#include "coordinator/core/step.h"

/* An incarnation that was heard of within this time is alive enough to keep its id (D6). */
#define AGENT_ID_HELD_MS 2000

/* Steps of operations that failed are tried again after this time, doubled each time, with jitter.
 */
#define OPERATION_BACKOFF_MS_MIN 250
#define OPERATION_BACKOFF_MS_MAX 30000

/* A deletion that waits longer than this for an agent says for which. */
#define CLOSE_PATIENCE_MS 5000

/* A rightful owner that is fenced gets a new epoch at once, then at these intervals, until it was
 * active for so long. */
#define FENCE_BACKOFF_MS_MIN 1000
#define FENCE_BACKOFF_MS_MAX 30000
#define FENCE_CALM_MS        60000

/* A PUT waits this long for the broker's word on it. */
#define CREATION_WAIT_MS 30000
#define CREATIONS_MAX    64

#define OPERATION_WAITS_MAX 1000

/* Each processor's offsets are stored at most this often, so many in one update, with a pause
 * before the next update. */
#define OBSERVATION_INTERVAL_MS 10000
#define OBSERVATION_ROWS_MAX    64
#define OBSERVATION_PAUSE_MS    10

/* A step that comes this much later than asked for means that the coordinator stood still. */
#define STALL_MS 1000

/* A source that does not release for so long keeps the processor: its output stands still. */
#define RELEASE_PATIENCE_MS 20000

/* After a hand-over came to nothing the planner leaves the processor alone for so long, each time
 * twice as long until one is done. */
#define HANDOFF_RETRY_MS     10000
#define HANDOFF_RETRY_MS_MAX 600000

/* A learner that fails again and again for reasons that may pass has its place for so long. */
#define LEARNER_PATIENCE_MS 300000

/* An agent whose processors were taken over while it was lost is owed its share again as soon as it
 * is back; when that happens again and again, after a pause that doubles, until it stayed for so
 * long. */
#define RETURN_PAUSE_MS_MIN 30000
#define RETURN_PAUSE_MS_MAX (30 * 60000)
#define RETURN_CALM_MS      (60 * 60000)

#define ACTOR_COORDINATOR "coordinator"

struct step {
    struct cluster *cluster;
    struct coord_event *event;
    struct update *update;
    bool decided;
    bool place; /* something without owner may find one now */
};

/* ---- deciding (step.c) */

/* Records the change (taking it) as part of this step's one decision. */
void step_change(struct step *step, struct change *change);

/* The agent's document becomes a new one with this decision. */
void step_renew_document(struct step *step, struct agent *agent);

/* Documents of those who may get a state from each other, where this step changed who they are
 * (step_seed.c). */
void step_renew_seeds(struct step *step);

/* Copies of rows, to be altered and handed to step_change. */
struct change step_job_change(const struct job *job);
struct change step_placement_change(const struct processor *processor);
struct change step_agent_change(const struct agent *agent);
struct change step_operation_change(const struct operation *operation);
struct change step_handoff_change(const struct handoff *handoff);

struct event_about { /* borrowed texts; what is NULL or 0 is left out */
    const char *kind;
    const char *job;
    const struct processor *processor; /* gives the job, too */
    const char *agent;
    uint64_t operation;
    const char *actor; /* NULL: who caused this step */
};
void step_event(struct step *step, struct event_about about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- answering (step.c); a request 0 is nobody's */

struct answer *step_answer(struct step *step, uint64_t request, uint32_t status,
                           const struct schema_type *type, void *body);
struct answer *step_problem(struct step *step, uint64_t request, const char *code,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
void step_answer_job(struct step *step, uint64_t request, uint32_t status, const struct job *job);
void step_answer_operation(struct step *step, uint64_t request, uint32_t status,
                           const struct operation *operation);

/* ---- Kafka (step.c): a new call with an id; what it needs beyond that the caller fills in */
struct kafka_call *step_call(struct step *step, enum kafka_call_kind kind,
                             const struct job_spec *spec, const char *job);
/* The same of no job in particular. */
struct kafka_call *step_call_of_all(struct step *step, enum kafka_call_kind kind);

/* ---- event kinds */

/* The one that the event names, unless it is being deleted; NULL: answered. */
struct job *step_find_job(struct step *step);
void step_job_put(struct step *step);
void step_job_delete(struct step *step);
void step_creation_result(struct step *step, size_t index);
void step_expire_creations(struct step *step);

void step_agent_register(struct step *step);
/* The row takes what it can from the registration, and what holds for the id from what is known
 * (NULL: nothing). */
void step_agent_row(const struct step *step, struct agent_registration *registration,
                    const struct agent *known, struct agent_row *ret_row);
void step_agent_deregister(struct step *step);
void step_agent_forget(struct step *step);
void step_eligibility(struct step *step); /* step_eligibility.c */
void step_poll(struct step *step);
void step_report(struct step *step);
void step_find_lost(struct step *step);
void step_answer_polls(struct step *step);

/*
 * The agent that a message with this incarnation speaks for, marked as seen; back from being lost
 * when it was. NULL when it must not speak: the request is answered then.
 */
struct agent *step_heard(struct step *step, const char *agent_id, const char *incarnation);

void step_operation_wait(struct step *step);
void step_operation_cancel(struct step *step);
void step_operation_result(struct step *step, struct operation *operation);
void step_advance_operations(struct step *step);
void step_answer_operation_waits(struct step *step);
/* The operation as it is now, or that it was dropped from memory when it ended. */
void step_answer_ended(struct step *step, uint64_t request, uint64_t id);

/* A new operation on the job, RUNNING; returns its number. The job row that names it is the
 * caller's to change. `actor`: who asked for it, NULL: who caused this step. */
uint64_t step_start_operation(struct step *step, enum operation_kind kind,
                              enum operation_step first, const struct job_row *row,
                              const char *reason, const char *actor);
void step_enter_operation_step(struct step *step, struct operation *operation,
                               enum operation_step next);
/* What it does now is done again after a while; `error`, which is shown, says why. */
void step_retry_operation(struct step *step, struct operation *operation, const char *error);
/* How far an expansion is has changed: the job has other counts than the operation knows. */
void step_note_reached(struct step *step, const struct operation *operation);
/*
 * Ends it. `error` NULL: none. The operation is not to be touched after that: it may be gone
 * already, when 1,000 newer ones have ended before it. Others that have not ended stay.
 */
void step_end_operation(struct step *step, struct operation *operation, enum operation_state state,
                        const char *error);

/* ---- ownership (step_place.c) */

/* The processor becomes the agent's, under a new epoch. */
void step_give(struct step *step, struct processor *processor, struct agent *agent,
               const char *trouble, const char *reason);
/* The processor has no owner any more. */
void step_take_away(struct step *step, struct processor *processor, const char *reason);
/* Makes a plan and begins what it says. */
void step_place(struct step *step);
/* The agent is owed processors of the job, or is not (any more). */
void step_set_arrival(struct step *step, struct job *job, const struct agent *agent, bool open);

/* ---- arrivals (step_arrival.c) */

struct placing;
struct plan;

/* What the owner had of the job is another agent's now, because it was lost for too long. */
void step_note_taken_over(struct step *step, struct job *job, struct agent *owner);
/* It is heard of again; before its state says so. */
void step_note_return(struct step *step, struct agent *agent);
/* What the agent says of logic that has ended it; takes the notes. */
void step_take_crashes(struct step *step, struct agent *agent, struct crash_note *notes,
                       size_t count);
/* It says itself now what it was lost of. */
void step_lost_is_back(struct step *step, const struct agent *agent);
/* It may receive processors again: to the jobs that it owns nothing of it is a newcomer. */
void step_note_uncordoned(struct step *step, const struct agent *agent);
void step_list_newcomers(const struct step *step, struct placing *placing);
/* What the plan leaves owed to whom. */
void step_note_arrivals(struct step *step, const struct placing *placing, const struct plan *plan);
void step_note_even(struct step *step, const struct placing *placing, const struct plan *plan);

/* ---- hand-overs (step_handoff.c) */

struct handoff_wish {
    struct agent *target;
    bool planned;       /* the planner may take it back */
    uint64_t operation; /* 0: none */
    const char *reason;
};

/* Of a processor that has an owner and no hand-over, to another agent. */
void step_handoff_start(struct step *step, const struct job *job, struct processor *processor,
                        struct handoff_wish wish);
/*
 * Before the release; the source keeps the processor, or gets it back under a new epoch. `again`:
 * the planner need not wait before it tries anew. The hand-over is gone afterwards.
 */
void step_handoff_cancel(struct step *step, struct handoff *handoff, bool again, const char *error);
/*
 * The processor becomes the target's without its owner's steps: the owner is lost, or was
 * forgotten. A hand-over under way goes on with this target, else this is a new one.
 */
void step_handoff_force(struct step *step, const struct job *job, struct processor *processor,
                        struct agent *target, const char *reason);

/* The owner has reported under the placement's epoch. True: there is nothing more to judge. */
bool step_handoff_owner_reported(struct step *step, struct processor *processor);
/* The target has reported its learner. */
void step_handoff_learner_reported(struct step *step, struct processor *processor);
/* The placement got a new epoch, on whatever agent. */
void step_handoff_follow_epoch(struct step *step, struct processor *processor);
/* An agent that is about to be forgotten can not be a target any more. */
void step_handoff_forget_agent(struct step *step, const struct agent *agent);

/* Of the job, all of them, but for a split whose source was told, if that is to be kept. */
void step_cancel_handoffs(struct step *step, const struct job *job, bool keep_told_splits,
                          const char *error);
/* The target has caught up: the source is told to commit and stop. */
void step_handoff_ask_release(struct step *step, struct handoff *handoff);

/* ---- one transition */

/* One from the processor's owner to the target that is about to begin; a split's is altered. */
struct change step_handoff_make_row(struct step *step, const struct job *job,
                                    const struct processor *processor, const struct agent *target);
/* A copy of the row that is in the next state, for the caller to complete. */
struct change step_handoff_begin_move(const struct step *step, const struct handoff *handoff,
                                      enum handoff_state next);
/* Takes the change. NULL: it has ended. */
struct handoff *step_handoff_finish_move(struct step *step, struct change *change);
void step_handoff_say(struct step *step, const struct handoff_row *row, const char *kind,
                      const char *text);
void step_handoff_move(struct step *step, struct handoff *handoff, enum handoff_state next,
                       const char *text);
/* DONE, CANCELLED or FAILED. `error` NULL: none; may be a text of the row. */
void step_handoff_end(struct step *step, struct handoff *handoff, enum handoff_state state,
                      const char *error, const char *text);

/* ---- splits (step_split.c) */

/* Why the parent can not be split now; NULL: it can. A static text. */
const char *step_split_find_obstacle(const struct step *step, const struct job *job,
                                     const struct processor *parent);
/* Of the job's next processor from its parent, which has an owner. */
void step_split_start(struct step *step, struct job *job, const struct agent *target,
                      uint64_t operation, const char *reason);
/* Before the source is told. `again`: what asked for it goes on; else it has failed with this. */
void step_split_cancel(struct step *step, struct handoff *handoff, bool again, const char *error);
/* The parent's owner was told of a split that the database does not know: it goes on. */
void step_split_recovered(struct step *step, const struct job *job, const struct processor *parent,
                          const struct document_task *told);
/* What time and the lives of agents bring, before the release. */
void step_split_advance(struct step *step, struct handoff *handoff);
/* The processor has got an owner, or its owner a new epoch: a split of it goes on with that. */
void step_split_follow_epoch(struct step *step, const struct processor *processor);
/* The owner has reported under the placement's epoch. */
void step_split_source_reported(struct step *step, struct job *job,
                                const struct processor *processor);
/* True: there is nothing more to judge. */
bool step_split_learner_failed(struct step *step, struct handoff *handoff,
                               const struct task_report *report);
bool step_split_target_failed(struct step *step, struct handoff *handoff,
                              const struct task_report *report);

/* ---- ... and time (step_handoff_time.c) */

void step_resume_handoffs(struct step *step);  /* after a start */
void step_advance_handoffs(struct step *step); /* what time and other agents' lives bring */
/* When time alone moves one: INT64_MAX: never. */
int64_t step_handoffs_wake(const struct cluster *cluster);

/* ---- agents that are to leave (step_drain.c) */

void step_drain(struct step *step);
void step_drain_cancel(struct step *step);
/* As the agent itself says in its reports. */
void step_drain_wished(struct step *step, struct agent *agent, enum agent_leaving leaving);
void step_note_new_start(struct step *step, struct agent *agent); /* the agent has registered */
void step_resume_drains(struct step *step);                       /* after a start */
/* After what changes hand-overs and placements. */
void step_advance_drains(struct step *step);
int64_t step_drains_wake(const struct cluster *cluster); /* INT64_MAX: never */

/* ---- refusals (step_refusal.c) */

/* What a failed task reports: the code (NULL: it names nothing), and all of it; free(). */
const char *step_failure_code(const struct task_report *report);
char *step_describe_failure(const struct task_report *report);
/*
 * The hand-over's target reports that it failed. True when that will not pass: the agent is owed
 * nothing of the job any more, and a problem says so, until it starts anew or somebody changes the
 * job or asks for a rebalance.
 */
bool step_refuse(struct step *step, const struct handoff *handoff,
                 const struct task_report *report);
/* The same of a standby. */
bool step_refuse_standby(struct step *step, const struct standby *standby,
                         const struct task_report *report);
/* Whoever was refused may try again. */
void step_forgive(struct step *step, struct job *job);

/* ---- standbys (step_standby.c) */

/* After the plan of owners, which `placing` was made for, is carried out. */
void step_plan_standbys(struct step *step, const struct placing *placing);
/* When time alone ends one; INT64_MAX: never. */
int64_t step_standbys_wake(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor);
/* The agent gets the processor, or learns it to get it: its standby, if it has one, becomes that.
 */
void step_standby_becomes(struct step *step, struct processor *processor,
                          const struct agent *agent);
/* The agent has started anew. */
void step_standbys_of_new_start(struct step *step, const struct agent *agent);
void step_end_standbys(struct step *step, const struct job *job, const char *reason);
/* Its owner has failed. A standby that has the state takes over when the owner can never have it.
 */
void step_standby_rescue(struct step *step, const struct job *job, struct processor *processor);
/* Its agent has reported it. */
void step_standby_reported(struct step *step, const struct job *job, struct processor *processor,
                           struct standby *standby);

/* ---- jobs and planning that people hold back (step_pause.c) */

void step_pause(struct step *step);
void step_resume(struct step *step);
void step_maintenance(struct step *step);
/* The owner reports, under the placement's epoch, that it has stopped for the pause. */
void step_is_paused(struct step *step, const struct job *job, struct processor *processor);
/* It is active under its epoch for the first time; `change` is of its placement, which forgets that
 * it was paused. */
void step_note_active(struct step *step, struct processor *processor, struct change *change);

/* ---- records that are passed by somebody's word (step_skip.c) */

void step_skip(struct step *step);

/* ---- settle windows (step_window.c) */

/* After an expansion: a window of each partition, with its end. */
void step_open_windows(struct step *step, const struct job *job, const struct input_offset *ends,
                       size_t count);
/* Of a job that is created on topics that had grown before. */
void step_open_first_windows(struct step *step, const struct job *job,
                             const struct input_offset *ends, size_t count);
/* As an agent was told of them, where that is newer. */
void step_recover_windows(struct step *step, const struct job *job,
                          const struct document_job *told);
/* The processor's owner has reported under the placement's epoch. */
void step_window_reports(struct step *step, const struct job *job, struct processor *processor);

/* ---- committed offsets that somebody chooses (step_offsets.c) */

void step_offsets(struct step *step);
/* Before a new report is taken in: what the last one knew of T1 is kept. */
void step_keep_told(struct processor *processor);
/* The owner is active; `change` is of its placement, which forgets what was chosen. */
void step_note_chosen(struct step *step, const struct processor *processor, struct change *change);

/* ---- looks ahead (step_plan.c) */

void step_plan(struct step *step);
/* The event is to come to a plan, and would not any more: answered. */
bool step_plan_is_stale(struct step *step);

/* ---- moves that were asked for (step_move.c) */

void step_move(struct step *step);
void step_rebalance(struct step *step);
void step_handoff_cancel_asked(struct step *step);
void step_advance_move(struct step *step, struct operation *operation, struct job *job);
void step_cancel_move(struct step *step, struct operation *operation);
/* The hand-over of the operation has ended like this. */
void step_move_ended(struct step *step, const struct handoff_row *row);
/* Why the target can not begin to learn one more of the job now, a static text; NULL: it can. */
const char *step_move_find_obstacle(const struct cluster *cluster, const struct job *job,
                                    const struct agent *target);
/* The operation says what it waits for. */
void step_move_say_obstacle(struct step *step, const struct operation *operation,
                            const char *obstacle);
/* Ends all moves, rebalances and expansions of the job. */
void step_cancel_moves(struct step *step, const struct job *job, const char *error);

/* ---- more processors, more partitions (step_expand.c) */

void step_expand(struct step *step);
/* The one of the job, of either kind, that has not ended; or NULL. */
struct operation *step_find_expansion(const struct cluster *cluster, const struct job *job);

/* ---- more partitions (step_partitions.c) */

/* Why there can not be so many, as far as the job itself says; NULL: nothing. free() */
char *step_refuse_partitions(const struct job_row *row, int64_t wanted);
void step_expand_partitions(struct step *step, struct job *job); /* as the event asks */
/* The topics have been looked at. */
void step_adopt_partitions(struct step *step, struct job *job,
                           const struct kafka_inspection *inspection);
void step_cancel_partitions(struct step *step, struct operation *operation);
/* The job has as many as the operation wants; windows are open (step_grow.c). */
void step_grow_partitions(struct step *step, struct job *job, const struct operation *operation);
void step_end_expansions(struct step *step, const struct job *job, const char *error);
void step_advance_partitions(struct step *step, struct operation *operation, struct job *job);
void step_partitions_result(struct step *step, struct operation *operation, struct job *job);
void step_advance_expansion(struct step *step, struct operation *operation, struct job *job);
void step_cancel_expansion(struct step *step, struct operation *operation);
/* A split has come to its end. */
void step_expansion_ended(struct step *step, const struct handoff_row *row);
/* Jobs that are to grow by themselves. */
void step_expand_auto(struct step *step);

/* ---- topics of running jobs (step_topics.c) */

void step_topics_due(struct step *step, struct job *job, int64_t due_ms);
void step_look_at_topics(struct step *step);
void step_topics_result(struct step *step);
/* When time alone brings the next look; INT64_MAX: never. */
int64_t step_topics_wake(const struct cluster *cluster);

/* ---- observations (step_report.c) */

void step_store_observations(struct step *step);

#endif
