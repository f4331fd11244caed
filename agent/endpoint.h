/*
 * The agent's own HTTP endpoint: /healthz, /readyz, /metrics, /version, and snapshots for agents
 * that may have one (agent/snapshot_serve.h).
 *
 * The HTTP thread answers from the last view that the control thread published, so it answers
 * whatever the tasks and disks are busy with. Healthy: the control thread has shown a sign of life
 * within the last ENDPOINT_BEAT_MS_MAX.
 */
#ifndef BATON_AGENT_ENDPOINT_H
#define BATON_AGENT_ENDPOINT_H

#include <stdint.h>

#include "agent/metrics.h"
#include "common/err.h"

#define ENDPOINT_BEAT_MS_MAX 10000

struct endpoint;
struct snapshot_serve;

/* Listens on "host:port" and serves. `snapshots` is borrowed for its life; NULL: it has none. */
enum err_code endpoint_start(const char *listen, struct snapshot_serve *snapshots,
                             struct endpoint **ret_endpoint, struct err *reterr) MUSTCHECK;
const char *endpoint_address(const struct endpoint *endpoint); /* "127.0.0.1:7421" as bound */

/* Control thread. Takes the view. */
void endpoint_publish(struct endpoint *endpoint, struct metrics_view *view);
/* Control thread: it is alive at this time (clock_mono_ms). */
void endpoint_beat(struct endpoint *endpoint, int64_t now_ms);

void endpoint_destroy(struct endpoint *endpoint); /* stops; NULL is fine */

#endif
