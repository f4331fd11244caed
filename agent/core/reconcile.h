/*
 * What has to be done so that the tasks that an agent has become the tasks that its document names
 * (D6: agents are level-triggered). A pure function of the document and of the slots, one slot a
 * task; agent/task_table.c keeps the slots and carries the actions out. Owned by the control
 * thread.
 *
 *             START                    STOP, or the document has another incarnation
 *   (none) ----------> RUNNING ---------------------------------------> STOPPING
 *             START       |  ^                                              |
 *   DOWN ------^          |  '-- DESIRE: told something new                 | the thread ended
 *    |  ^-----------------+-------------------------------------------------'
 *    |   the thread ended (by itself: released, or closed because what it was told can not
 *    |   change in a running task), or could not be started
 *    '--REMOVE--> (none): the document does not name it any more; its state directory stays
 *
 * A slot is known by job, job incarnation and processor, and there is one at most of each. The
 * state directory is known by job and processor alone, so among slots that differ only in the
 * incarnation at most one has a thread (RUNNING, STOPPING): a task that was dropped and named again
 * while it still closes is started when its old thread has ended, not before.
 */
#ifndef BATON_AGENT_CORE_RECONCILE_H
#define BATON_AGENT_CORE_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "common/err.h"

enum reconcile_state {
    RECONCILE_RUNNING,  /* a thread works by `job` and `task` */
    RECONCILE_STOPPING, /* its thread was told to stop and has not ended */
    RECONCILE_DOWN      /* no thread */
};

struct reconcile_slot {             /* borrowed */
    const struct document_job *job; /* what it was last told */
    const struct document_task *task;
    enum reconcile_state state;
    int64_t retry_ms; /* DOWN: not started again before */
    bool spent; /* DOWN: it ended FENCED, or released what it owned: never active again under the
                   epoch of `task`. It stays, for its report, until the document drops it, has
                   a higher epoch or makes it a learner. */
};

enum reconcile_kind { RECONCILE_STOP, RECONCILE_REMOVE, RECONCILE_DESIRE, RECONCILE_START };

#define RECONCILE_NONE SIZE_MAX

struct reconcile_action {
    enum reconcile_kind kind;
    size_t slot; /* index in the slots; START: of a DOWN slot to use again, or RECONCILE_NONE for a
                    new one */
    size_t task; /* DESIRE, START: index in document->tasks */
    size_t job;  /* DESIRE, START: index in document->jobs */
};

struct reconcile_actions { /* in the order in which to carry them out: STOP and REMOVE come first */
    struct reconcile_action *items;
    size_t count, capacity;
};

/* NULL document: nothing is wanted (the agent stops). The document was accepted by reconcile_check.
 */
void reconcile_compute(const struct agent_document *document, const struct reconcile_slot *slots,
                       size_t slot_count, int64_t now_ms, struct reconcile_actions *ret_actions);
void reconcile_actions_finish(struct reconcile_actions *actions);

/* Earliest retry_ms of a slot that waits for it; INT64_MAX when none does. */
int64_t reconcile_wake_ms(const struct reconcile_slot *slots, size_t slot_count, int64_t now_ms);

/*
 * What JSON's form can not say: every task's job is there, no job and no task is named twice,
 * processors and partitions are in range, S1 and S2 ascend and S1 lies in S2. ERR_PROTOCOL with the
 * place.
 */
enum err_code reconcile_check(const struct agent_document *document, struct err *reterr) MUSTCHECK;

/* All of `part` is in `whole`; both ascend. */
bool reconcile_is_subset(const struct uint_list *part, const struct uint_list *whole);

/* -1, 0, 1 as `a` is older than, the same as, newer than `b` (D6: the coordinator's start, then its
 * decision). */
int reconcile_version_compare(struct document_version a, struct document_version b);

#endif
