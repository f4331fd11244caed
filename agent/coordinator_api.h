/*
 * The agent's side of the agent protocol (D6) as typed calls: builds the request, decodes and
 * checks the answer, and says what it means for the caller. No state and no retries: those are in
 * agent/coordinator_link.h. Each call runs on the thread that owns the client it is given.
 */
#ifndef BATON_AGENT_COORDINATOR_API_H
#define BATON_AGENT_COORDINATOR_API_H

#include <stddef.h>
#include <stdint.h>

#include "agent/http_client.h"
#include "api/types.h"
#include "common/err.h"

enum coordinator_outcome {
    COORDINATOR_OK,
    COORDINATOR_NO_NEWS,     /* poll: nothing newer than `after` within the wait */
    COORDINATOR_FAILED,      /* not reachable, not understood, or "not now": try again later */
    COORDINATOR_INTERRUPTED, /* http_client_interrupt */
    COORDINATOR_UNKNOWN,     /* it does not know this agent: register again */
    COORDINATOR_SUPERSEDED,  /* another incarnation of this agent is registered */
    COORDINATOR_IN_USE,      /* register: another incarnation is alive */
    COORDINATOR_UNSUPPORTED  /* register: no common protocol version */
};

struct coordinator_api { /* borrowed; constant while in use */
    const char *url;     /* without a slash at the end */
    const char *agent_id;
    const char *incarnation;
    int64_t connect_ms;
    int64_t request_ms;      /* whole request, not counting the wait of a poll */
    size_t answer_bytes_max; /* of a body */
};

struct coordinator_failure { /* set unless OK, NO_NEWS or INTERRUPTED */
    char text[ERR_TEXT_BYTES];
    int64_t retry_after_ms; /* as the coordinator wishes; -1: it does not say */
};

enum coordinator_outcome coordinator_api_register(const struct coordinator_api *api,
                                                  struct http_client *client,
                                                  const struct agent_registration *registration,
                                                  struct agent_welcome *ret_welcome,
                                                  struct coordinator_failure *reterr) MUSTCHECK;

/* The document may be of any version: the caller compares it with what it has. */
enum coordinator_outcome coordinator_api_poll(const struct coordinator_api *api,
                                              struct http_client *client,
                                              struct document_version after, int64_t wait_ms,
                                              struct agent_document *ret_document,
                                              struct coordinator_failure *reterr) MUSTCHECK;

enum coordinator_outcome coordinator_api_report(const struct coordinator_api *api,
                                                struct http_client *client,
                                                const struct agent_report *report,
                                                struct report_answer *ret_answer,
                                                struct coordinator_failure *reterr) MUSTCHECK;

enum coordinator_outcome coordinator_api_deregister(const struct coordinator_api *api,
                                                    struct http_client *client,
                                                    struct coordinator_failure *reterr) MUSTCHECK;

#endif
