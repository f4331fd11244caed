/*
 * The sending end of snapshots (D8): the copies that this agent has and would give, to whom, and
 * the transfers under way.
 *
 *   task threads  --offer, permit, withdraw-->  snapshot_serve  <--page-- HTTP threads
 *
 * A transfer is a session: its first page opens a view of the task's last checkpoint
 * (agent/store_view.h), further ones are asked for by number, each at most twice in a row, so one
 * that was lost on the way is asked for again without beginning anew. The task is not paused and
 * does not notice, but for the disk and the processor, which the receiver is told to leave alone
 * between two pages when there is a rate limit. A session ends with its last page, when nothing was
 * asked of it for SNAPSHOT_IDLE_MS, when it is older than SNAPSHOT_AGE_MS (its view keeps pages of
 * the data file from being used again), when its task closes, or when its right is withdrawn.
 *
 * Who may read: whoever says a token that the coordinator has put into this agent's document, which
 * the receiver has in its own. It is as secret as the network is: there is no TLS. What such a
 * token opens is the agent's own document's to say as well: all of the state, or the part of it
 * that a split takes away.
 *
 * Any thread, but for what is said below.
 */
#ifndef BATON_AGENT_SNAPSHOT_SERVE_H
#define BATON_AGENT_SNAPSHOT_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"

#define SNAPSHOT_IDLE_MS    15000
#define SNAPSHOT_AGE_MS     600000
#define SNAPSHOT_PAGE_BYTES ((size_t)256 * 1024)

struct snapshot_serve;
struct store_part;
struct store_share;

struct snapshot_limits {
    unsigned transfers_max;  /* at a time, >= 1; more are told to wait */
    int64_t bytes_per_s_max; /* of all together; 0: no limit */
};

struct snapshot_serve *snapshot_serve_create(const struct snapshot_limits *limits);
/* No task offers anything any more. NULL is fine. */
void snapshot_serve_destroy(struct snapshot_serve *serve);

struct snapshot_key { /* whose state; borrowed */
    const char *job, *incarnation;
    uint32_t processor;
};

/* The task's thread: its store is open. Takes the share. It is offered until it is withdrawn. */
void snapshot_serve_offer(struct snapshot_serve *serve, const struct snapshot_key *key,
                          struct store_share *share);
void snapshot_serve_withdraw(struct snapshot_serve *serve, const struct snapshot_key *key);
/* The task's thread: these tokens, and no others, may read it; whether it is offered or not. */
void snapshot_serve_permit(struct snapshot_serve *serve, const struct snapshot_key *key,
                           const char *const *tokens, size_t count);

/* Likewise, but these may read no more than that part, as if it were the state of its processor.
 * Copied. */
void snapshot_serve_permit_part(struct snapshot_serve *serve, const struct snapshot_key *key,
                                const struct store_part *part, const char *const *tokens,
                                size_t count);

struct snapshot_request {
    struct snapshot_key key;
    const char *token;
    uint64_t session; /* 0: a new one, of which `number` is 0 */
    uint64_t number;  /* of the page */
};

/*
 * Fills `buf` with the page. ERR_FENCED: the token does not open it. ERR_NOT_FOUND: the agent has
 * no such state, or none that saw a checkpoint, yet. ERR_LIMIT: too many transfers. ERR_STALE: the
 * session has ended, begin anew. ERR_CORRUPT: the state is damaged.
 */
enum err_code snapshot_serve_page(struct snapshot_serve *serve,
                                  const struct snapshot_request *request, int64_t now_ms,
                                  struct strbuf *buf, struct err *reterr) MUSTCHECK;

/* Ends sessions whose time is over. Call every second or so. */
void snapshot_serve_expire(struct snapshot_serve *serve, int64_t now_ms);

struct snapshot_serve_counts {
    uint64_t transfers; /* now */
    uint64_t begun, completed, expired, refused;
    uint64_t bytes; /* of all pages, those that were asked for again among them */
    uint64_t rows;  /* of transfers that were completed */
};
void snapshot_serve_count(struct snapshot_serve *serve, struct snapshot_serve_counts *ret_counts);

/* Equal, in a time that does not tell where they differ. */
bool snapshot_token_equal(const char *a, const char *b);

#endif
