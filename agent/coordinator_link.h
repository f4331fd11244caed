/*
 * The agent's link to the coordinator: keeps the agent registered, holds the long poll of the
 * assignment, sends reports. Retries by itself, for as long as it takes: a coordinator that is away
 * changes nothing for the tasks (D6).
 *
 * Threads: "poll" registers, then polls; "report" sends what it is handed. Each owns its
 * connection. Both post to the control thread's mailbox and read nothing of the control thread's.
 * Calls are the control thread's unless said otherwise.
 *
 *   poll thread:    REGISTERING -- welcome --> POLLING -- document, again -->
 *                        ^  the coordinator does not know us  |
 *                        '------------------------------------'
 *   both threads:   --> ENDED for good: superseded, id in use, no common protocol
 *
 * One line is logged when the coordinator stops to answer as it should, and one when it does so
 * again, not one per try.
 */
#ifndef BATON_AGENT_COORDINATOR_LINK_H
#define BATON_AGENT_COORDINATOR_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/coordinator_api.h"
#include "api/types.h"
#include "common/err.h"
#include "common/mailbox.h"

struct coordinator_link;

enum link_message_kind {
    LINK_MESSAGE_WELCOME,    /* poll thread: the agent is registered, or registered again */
    LINK_MESSAGE_ASSIGNMENT, /* poll thread: a document of a higher version than any before */
    LINK_MESSAGE_REPORTED,   /* report thread: the report was answered, or could not be sent */
    LINK_MESSAGE_ENDED       /* either: the link has given up for good; the agent has to stop */
};

struct link_message { /* free with link_message_free; what was taken out is zeroed by the taker */
    enum link_message_kind kind;
    union {
        struct agent_welcome welcome;
        struct agent_document document;
        struct {
            bool sent; /* else the fields below are empty */
            struct report_answer answer;
        } reported;
        struct {
            bool superseded; /* another incarnation took over: what we do is fenced anyway */
            char text[2 * ERR_TEXT_BYTES]; /* why, and what to do */
        } ended;
    };
};

void link_message_free(void *message); /* a mailbox's drop */

struct link_config {
    struct coordinator_api api;                    /* texts are borrowed for the link's life */
    const struct agent_registration *registration; /* likewise */
    struct mailbox *mailbox;                       /* of struct link_message */
    int64_t retry_min_ms, retry_max_ms;            /* pauses between tries, doubling */
    /* How long to go on when another incarnation is alive, until a welcome tells agent_timeout: a
     * crashed agent that was restarted at once must wait until its old self is not heard any more.
     */
    int64_t in_use_ms;
};

struct coordinator_link *coordinator_link_create(const struct link_config *config);
enum err_code coordinator_link_start(struct coordinator_link *link, struct err *reterr) MUSTCHECK;

/*
 * Takes the report (zeroes it) and answers with one LINK_MESSAGE_REPORTED; until then no other may
 * be handed over. It is tried once: a later one says more. Only after a welcome.
 */
void coordinator_link_report(struct coordinator_link *link, struct agent_report *report);

/* Interrupts both threads and waits for their end: some milliseconds. Safe to call again. */
void coordinator_link_stop(struct coordinator_link *link);

/* After coordinator_link_stop: "I leave". Tried once, for at most timeout_ms. */
enum err_code coordinator_link_deregister(struct coordinator_link *link, int64_t timeout_ms,
                                          struct err *reterr) MUSTCHECK;

void coordinator_link_destroy(struct coordinator_link *link); /* stops; NULL is fine */

struct link_counts { /* since the start */
    bool up;         /* the last try of every kind was answered as it should be */
    uint64_t registrations, registration_failures;
    uint64_t polls, poll_failures;
    uint64_t reports, report_failures;
};
/* Any thread. */
void coordinator_link_count(struct coordinator_link *link, struct link_counts *ret_counts);

#endif
