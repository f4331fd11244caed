/*
 * What the coordinator knows, in memory: the durable part (a fold of the changes of
 * coordinator/core/update.h) and the observations (what agents report), which may be lost at any
 * time.
 *
 * Owned by the owner thread alone. Pure data: no clock, no I/O. Times named *_ms are the owner's
 * monotonic clock, as it came inside events; times named *_at are wall time for people.
 *
 * Invariants (checked by cluster_check, which tests and the simulator call after every step):
 *   - a placement exists for every processor 0..M-1 of a job; `agent` is NULL while unassigned,
 *     else it names an agent that is here, with the incarnation that it is registered under;
 *   - only processors of a job in state RUNNING or DELETING have an owner;
 *   - epochs are handed out from `epoch`, never twice, never lower than one handed out before;
 *   - counts never shrink: N >= N0, M >= M0, N >= M; N0 and M0 never change;
 *   - every input partition has exactly one origin (T0) and one start, in the same order;
 *   - an operation that is not finished belongs to a job that exists and that names it;
 *   - no two jobs have the same group;
 *   - a processor has at most one hand-over that has not ended. Until it is RELEASED the placement
 *     is the source's, under the epoch that the hand-over names; from then on it is the target's;
 *   - a processor of a stateful job that runs has at most spec.standbys standbys, on agents that
 *     are here, by their present incarnations; none on its owner's agent, none on that of the
 *     target of its hand-over, and no two on one;
 *   - settle windows are of partitions of jobs that were expanded, in order, none twice;
 *   - there is at most one split of a job before its release. Its source is the owner of the
 *     parent, whoever that becomes; the epoch of the new processor is handed out when the source is
 *     told;
 *   - skips are of partitions that the job has, in order, none twice, within their limits.
 */
#ifndef BATON_COORDINATOR_CORE_CLUSTER_H
#define BATON_COORDINATOR_CORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/protocol.h"
#include "api/types.h"
#include "common/fsm.h"
#include "coordinator/core/durable.h"
#include "coordinator/core/recovery.h"

/* ---- observations */

/*
 * The last report of a placement's owner about the processor. The placement may have changed since:
 * what speaks for it now is cluster_report's answer alone; the rest is an observation, to show and
 * to store.
 */
struct processor_observed {
    bool known; /* a report for the present incarnation of the job is here */
    char *agent;
    char *agent_incarnation;
    struct task_report report;
    uint64_t
        serial; /* agent.reports when it came: lower than now when the newest does not list it */
    int64_t received_ms;
    int64_t received_at;
    int64_t stored_ms; /* when its offsets were last written to the store; 0: never in this run */
};

/* ---- in memory */

struct handoff { /* one that has not ended */
    struct handoff_row row;
    struct fsm fsm;     /* its state, and since when in this run's clock */
    int64_t begun_ms;   /* when it started, in this run's clock; of an earlier run: its start */
    int64_t stop_ms;    /* stopped_at in this run's clock; 0: it was in an earlier run */
    int64_t failing_ms; /* since when the learner fails again and again; 0: it does not */
};

struct standby {
    struct standby_row row;
    struct processor_observed observed; /* what its agent says of it */
    bool ready;                         /* by its newest report: see cluster_standby_ready */
    bool learned;                       /* it was once, in this start of its agent */
};

/* Why a processor has fewer standbys than its job wants, by the newest plan. */
enum standby_lack {
    STANDBY_LACK_NONE,
    STANDBY_LACK_AGENT, /* no other agent may have one */
    STANDBY_LACK_SLOT,  /* one may, when others there have learned */
    STANDBY_LACK_TARGET /* none: the target of its hand-over is in the place of one */
};

/* As many as crashes at one record are enough. */
#define CLUSTER_LOST_MAX 3

struct processor {
    struct placement_row placement;
    struct processor_observed observed;
    struct handoff *handoff;           /* borrowed from cluster.handoffs; NULL: none */
    struct processor_observed learner; /* of the hand-over's target, while it is not the owner */
    int64_t handoff_retry_ms;   /* after one was cancelled: earliest time of the planner's next */
    int64_t handoff_backoff_ms; /* before that; doubles until one is done */
    char *avoid;                /* agent that its last hand-over came to nothing on; NULL: none */
    struct {
        struct standby *items;
        size_t count, capacity;
    } standbys; /* by agent */
    enum standby_lack standby_lack;
    int64_t standby_lack_at; /* since when it is STANDBY_LACK_AGENT; 0: it is not */
    char *waits; /* why a hand-over that is owed has not begun, by the newest plan; NULL: none is */
    char *waits_for;      /* agent that it is owed to, or NULL */
    uint32_t waits_order; /* in which the newest plan wants those that wait to begin; from 0 on */
    int64_t untaken_at;   /* since when nobody can take it, whose owner is to leave; 0: not so */
    struct {
        struct partition_progress *items;
        size_t count;
    } stored;          /* T0, T1 and T2 as they were last stored, also by an earlier run */
    int64_t stored_at; /* API_UNKNOWN: never */
    struct {
        struct partition_progress *items;
        size_t count;
    } told;                  /* of the last report of an owner that knew its T1; this run's */
    uint64_t seeds;          /* cluster_digest_seeds as the holders were told last; 0: never */
    int64_t active_since_ms; /* 0: the owner does not report it active */
    int64_t fence_retry_ms;  /* earliest time at which a FENCED rightful owner gets a new epoch */
    int64_t fence_backoff_ms;
    char
        *lost[CLUSTER_LOST_MAX]; /* owners that it was taken from because they were lost, the last
                                    ones, and have not been back; NULL: no more (cluster_crash.c) */
};

/* What Kafka's description of the topics says is wrong with a job that runs: see watch.h. */
struct job_finding {
    const char *code; /* a static text */
    char *topic;
    char *detail;
    int64_t since_at;
};

struct job_topics {
    uint64_t call;     /* id of the Kafka call under way; 0: none */
    int64_t due_ms;    /* of the next one */
    int64_t adopt_ms;  /* partitions that others have added are not adopted before */
    char *adopt_error; /* why they could not be; NULL: nobody has tried */
    struct {
        struct job_finding *items;
        size_t count, capacity;
    } findings; /* of the last answer */
};

/* What Kafka's description of the group says: see group.h. */
struct job_group {
    bool known; /* a look of this run has told */
    uint32_t members;
    char *who;            /* they, for people; NULL: there are none */
    uint32_t empty_looks; /* in a row that found none, and began after the hold did */
    uint64_t from_call;   /* looks up to this one began before it did */
    char *error;          /* why the last look told nothing; NULL: it did */
    int64_t failing_at;   /* since when looks tell nothing; 0: the last one did */
    uint64_t claim;       /* id of the call under way that puts our stamp on the offsets; 0: none */
    char *claim_error;    /* why the last one failed; NULL: it did not */
};

struct window {
    struct window_row row;
    uint64_t epoch;    /* of the owner that reported last, */
    uint64_t reported; /* ... and how many old-count records it had met */
    uint64_t more;     /* of them the row does not have so many yet */
    int64_t more_at;   /* when the last of those was met */
    int64_t stored_ms;
};

struct job {
    struct job_row row;
    struct job_topics topics;
    struct job_group group;
    struct {
        struct processor *items; /* they stay where they are while M grows: M <= N */
        size_t count, capacity;
    } processors;            /* 0..M-1 */
    int64_t expand_retry_ms; /* earliest time at which it grows by itself */
    bool nascent; /* items[M] is there as well: what a split makes, until it is released */
    struct {
        struct arrival_row *items;
        size_t count, capacity;
    } arrivals; /* by agent; at most one of an agent */
    struct {
        struct skip_row *items;
        size_t count, capacity;
    } skips; /* by topic, partition, offset */
    struct {
        struct window *items;
        size_t count, capacity;
    } windows;               /* by topic, partition */
    uint64_t skips_decision; /* of this run's last one; 0: none. Learners follow no T1 before they
                                work by a document of this run that has it */
    bool even;               /* by a plan of this run nobody is owed anything of it */
    double replayed_per_s;   /* of one processor, as who learned last reported it; 0: not known */
};

struct stray_task { /* in an agent's last report, although its placement is another agent's or
                       nobody's */
    char *job;
    char *job_incarnation;
    uint32_t processor;
    enum task_state state;
    uint64_t epoch;
};

struct agent {
    struct agent_row row;
    int64_t seen_ms; /* last register, poll or report; 0: not since this start of the coordinator */
    int64_t seen_at;
    struct document_version applied;
    uint64_t document_decision; /* decision that last changed its document */
    uint64_t reports;           /* received in this run */
    int64_t gone_ms;       /* since when it is called lost or stopped, in this run; 0: it is not */
    bool stopping;         /* it says that it is on its way out: it gets nothing new */
    uint32_t takeovers;    /* absences in a row in which others took its processors over */
    int64_t taken_over_ms; /* gone_ms of the last of them; 0: none in this run */
    int64_t newcomer_from_ms;  /* earliest time at which it is owed anything (D5) */
    int64_t drain_deadline_ms; /* deadline_at of its drain in this run's clock; 0: none */
    struct {
        struct kept_state *items;
        size_t count, capacity;
    } kept; /* states on its disk: as it registered with them, or left them since */
    struct {
        struct crash_note *items;
        size_t count;
    } crashes; /* of logic, that ended its processes, by its last report (cluster_crash.c) */
    struct {
        struct stray_task *items;
        size_t count, capacity;
    } strays;
};

struct operation {
    struct operation_row row;
    uint64_t call;    /* id of the Kafka call under way; 0: none */
    int64_t retry_ms; /* earliest time of the next call */
    int64_t backoff_ms;
    uint64_t decision; /* delete_job: owners must work by a document of this start that is not
                          older; 0 after a restart, where any of the new start will do */
};

struct waiting_poll { /* an assignment request that waits for its document to change */
    uint64_t request;
    char *agent_id;
    struct document_version after;
    int64_t deadline_ms;
};

struct waiting_operation { /* GET /v1/operations/{id}?wait= */
    uint64_t request;
    uint64_t operation;
    int64_t deadline_ms;
};

/* A PUT that waits for the broker's answers; lost on a restart, the client repeats it. */
struct pending_creation {
    uint64_t request;
    uint64_t call;
    char *name;
    struct job_spec spec;
    char *actor;
    uint64_t generation; /* of the job that it changes; 0: it creates one */
    int64_t deadline_ms;
};

struct coord_config {
    struct protocol_range protocol; /* that this coordinator speaks with agents */
    int64_t agent_timeout_ms;
    int64_t report_interval_ms;
    int64_t poll_wait_ms_max;
    int64_t topics_interval_ms; /* topics of a job are looked at so often; 0: never */
    uint8_t seed_secret[32];    /* of this run, random: tokens of snapshots are made with it */
    int64_t groups_interval_ms; /* the groups of all jobs; 0: never, nothing is held for them */
    bool verify;                /* Kafka's stamps are read before anything is decided */
    bool recover;               /* the database is lost or old: see recovery.h */
};

struct cluster {
    struct coord_config config;
    struct meta_row meta;
    struct maintenance_row maintenance;
    struct {
        struct job **items;
        size_t count, capacity;
    } jobs; /* by name */
    struct {
        struct agent **items;
        size_t count, capacity;
    } agents; /* by id */
    struct {
        struct operation **items;
        size_t count, capacity;
    } operations; /* by id; finished ones: the newest 1,000 */
    struct {
        struct handoff **items;
        size_t count, capacity;
    } handoffs; /* those that have not ended, by id */
    struct {
        struct waiting_poll *items;
        size_t count, capacity;
    } polls;
    struct {
        struct waiting_operation *items;
        size_t count, capacity;
    } operation_waits;
    struct {
        struct pending_creation *items;
        size_t count, capacity;
    } creations;
    uint64_t call;        /* highest Kafka call id; starts at start_number << 32, so an answer to a
                             call from before a reload is nobody's */
    uint64_t topics_call; /* id of the look at topics under way, one at a time; 0: none */
    int64_t topics_ms;    /* when the next may be due; INT64_MAX: none is */
    uint64_t groups_call; /* id of the look at groups under way; 0: none */
    int64_t groups_ms;    /* when the next is due; INT64_MAX: no job runs */
    int64_t listening_ms; /* since when it hears agents without a gap: the start, or the end of a
                             stall; nobody is called lost before listening_ms + agent_timeout */
    int64_t place_ms;     /* when time alone may change the plan; INT64_MAX: never */
    int64_t observations_ms; /* when the next observations may have to be stored; INT64_MAX: none */
    int64_t wake_ms;         /* what the last step asked for */
    struct recovery recovery;
};

void cluster_init(struct cluster *cluster, struct coord_config config);
void cluster_finish(struct cluster *cluster);
/* All of it (cluster_copy.c) but for requests that wait; to be finished on its own. */
void cluster_copy(struct cluster *ret_copy, const struct cluster *cluster);

struct job *cluster_job(const struct cluster *cluster, const char *name); /* NULL: none */
struct agent *cluster_agent(const struct cluster *cluster, const char *agent_id);
struct operation *cluster_operation(const struct cluster *cluster, uint64_t id);
struct handoff *cluster_handoff(const struct cluster *cluster, uint64_t id); /* not ended */
/* The rebalance of the job that is under way: its number, or 0. */
uint64_t cluster_rebalance_of(const struct cluster *cluster, const struct job *job);
const struct arrival_row *cluster_arrival(const struct job *job, const char *agent_id);
/* This start of the agent can not rebuild states of the job. */
bool cluster_is_refused(const struct job *job, const struct agent *agent);
/*
 * It is registered, neither stopped nor lost, and was seen within the agent timeout (or the
 * coordinator has not listened for that long yet).
 */
bool cluster_agent_alive(const struct cluster *cluster, const struct agent *agent, int64_t now_ms);

/* Its owners put nothing out and commit nothing: it is paused, or others are in its group. */
bool cluster_is_held(const struct job *job);

/* It may get processors that it does not have, as far as people have a say in it. */
bool cluster_agent_schedulable(const struct agent *agent);
/* It is to give away what it has, or has done so. */
bool cluster_agent_leaving(const struct agent *agent);
/* Why it is not schedulable, for "agent a1 is ..."; a static text. */
const char *cluster_say_unschedulable(const struct agent *agent);

/*
 * What the placement's owner, by incarnation and epoch, says in its newest report, or NULL: the
 * only report that counts as the placement's state (D4). Borrowed until the next step.
 */
const struct task_report *cluster_report(const struct cluster *cluster,
                                         const struct processor *processor);

/* The same for the hand-over's target while it learns, or NULL. */
const struct task_report *cluster_learner_report(const struct cluster *cluster,
                                                 const struct processor *processor);

/*
 * T1 as the processor's owner committed it, for a learner: one vector of one commit, of the owner's
 * newest report (D3.3). False when that is older than CLUSTER_FOLLOW_MS or than the hand-over (a
 * learner that has learned nothing could be caught up with it), or there is none: then nothing is
 * known. Free with schema_free(&schema_follow).
 */
#define CLUSTER_FOLLOW_MS 2000
bool cluster_follow(const struct cluster *cluster, const struct job *job, uint32_t processor,
                    int64_t now_ms, struct follow *ret_follow);

/* The standby that the agent has of it, or NULL. */
struct standby *cluster_standby(const struct processor *processor, const char *agent_id);
/* What its agent says of it in its newest report, or NULL. Borrowed until the next step. */
const struct task_report *cluster_standby_report(const struct cluster *cluster,
                                                 const struct standby *standby);
/*
 * How far its state is behind the T1 that the owner reported last, or that was stored of it: most
 * records of a partition, and of all. Both API_UNKNOWN when it is not known, or when the standby
 * does not work. The report itself does not say so any more when the owner is gone for a while.
 */
struct standby_lag {
    int64_t most, sum;
};
struct standby_lag cluster_standby_lag(const struct cluster *cluster, const struct job *job,
                                       const struct processor *processor,
                                       const struct standby *standby);
/* Its state is as good as the owner's, but for the job's acceptable_lag. */
bool cluster_standby_ready(const struct cluster *cluster, const struct job *job,
                           const struct processor *processor, const struct standby *standby);

/* The skip of the record, or NULL. */
const struct skip_row *cluster_skip(const struct job *job, uint32_t topic, uint32_t partition,
                                    int64_t offset);
size_t cluster_count_skips(const struct job *job, uint32_t topic, uint32_t partition);
/* The settle window of the partition, or NULL. */
struct window *cluster_window(const struct job *job, uint32_t topic, uint32_t partition);
/* The agent works by a document that has all skips of the job: it may be told how far its owners
 * are. */
bool cluster_knows_skips(const struct cluster *cluster, const struct job *job,
                         const struct agent *agent);

/* Of its tag "zone", or NULL. */
const char *cluster_agent_zone(const struct agent *agent);

/* How many tasks each agent has to find room for, by its index: learners are among them, standbys
 * are not, which give way. free() */
uint32_t *cluster_count_tasks(const struct cluster *cluster);
/* The hand-over, or NULL, has a learner on its target. */
bool cluster_is_learning(const struct job *job, const struct handoff *handoff);

/* S1 and S2 of a processor by the job's map (D2): ascending; caller frees items. */
void cluster_owned_partitions(const struct job *job, uint32_t processor,
                              struct uint_list *ret_owned);
void cluster_read_partitions(const struct job *job, uint32_t processor, struct uint_list *ret_read);

/* ---- splits (cluster_split.c) */

/* What the split under way makes, before its release; NULL: there is none. */
struct processor *cluster_nascent(const struct job *job);
/* The processor that this one was split from, or is; itself: from none. */
uint32_t cluster_parent(const struct job *job, uint32_t processor);
/* So many processors need nothing of those that they were split from: what is left of their rows
 * there may go. Each of them has been active once. */
uint32_t cluster_settled(const struct job *job);
/* The first that this one is being, or was, split into and that has never been active since: the
 * parent may be the only one that has its state. NULL: there is none. */
struct processor *cluster_split_child(const struct job *job, uint32_t parent);
/* N0 = M0 * 2^j: partitions and processors have one tree, and no key changes its processor when
 * partitions are added (D2). Elsewhere nothing is inherited: what lies in a partition is its
 * owner's. */
bool cluster_keeps_keys(const struct job *job);
/* Its partitions have ancestors that another processor keeps: those of its parent's number, at
 * least. */
bool cluster_inherits(const struct job *job, uint32_t processor);
/* Of S2 without S1, as far as they are decided; by topic, then partition; heap. */
struct ancestor_bound *cluster_list_bounds(const struct job *job, uint32_t processor,
                                           size_t *ret_count);
/* The split before its release that takes partitions of this processor, or NULL. */
struct handoff *cluster_split_of(const struct job *job, uint32_t processor);

/* (start_number, document_decision): the version of what cluster_document gives. */
struct document_version cluster_document_version(const struct cluster *cluster,
                                                 const struct agent *agent);
/* Below 0, 0, above 0: a is older than, the same as, newer than b. */
int cluster_compare_versions(struct document_version a, struct document_version b);

/* The desired tasks of one agent (D6); free with schema_free(&schema_agent_document). */
void cluster_document(const struct cluster *cluster, const struct agent *agent,
                      struct agent_document *ret_document);

/* Who may have a snapshot from whom, in the agent's task of the processor. */
void cluster_describe_seeds(const struct cluster *cluster, const struct job *job,
                            const struct processor *processor, const struct agent *agent,
                            struct document_task *task);
/* It has never been active, and somebody can give it what the split took away from its parent. */
bool cluster_parent_gives(const struct cluster *cluster, const struct job *job,
                          const struct processor *processor);
/* Where the logic has crashed other agents, in the agent's task if it is the owner's. */
void cluster_describe_crashes(const struct cluster *cluster, const struct job *job,
                              const struct agent *agent, struct document_task *task);
/* The record is of a partition that the processor owns. */
bool cluster_crash_concerns(const struct job *job, const struct crash_note *note,
                            uint32_t processor);
void cluster_clear_crashes(struct agent *agent);
/* The processor was taken from a lost owner; it has worked for a while since. */
void cluster_note_lost(struct processor *processor, const char *agent_id);
void cluster_forget_lost(struct processor *processor);
/* Changes when what cluster_describe_seeds says does, of any agent. */
uint64_t cluster_digest_seeds(const struct cluster *cluster, const struct job *job,
                              const struct processor *processor);

/* "baton.<cluster>.<job>.<incarnation>.<processor>" (D3.1) is built in one place: free(). */
char *cluster_transactional_id(const struct cluster *cluster, const struct job *job,
                               uint32_t processor);

/* NULL when every invariant holds, else a static text that names the broken one. */
const char *cluster_check(const struct cluster *cluster);

#endif
