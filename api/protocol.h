/*
 * Versions of the agent protocol. Each side speaks a range of them, and the two work together by
 * the highest version that both speak; without one they refuse each other, and the text says which
 * of them is to be upgraded.
 *
 * A version is raised by what a side of the version before would not understand: another meaning,
 * a field that must not be passed over, a value that is new. Who speaks more than the other writes
 * all but the registration by the version that was chosen. A registration comes before that: it is
 * written by the lowest version that its sender speaks, and may have more fields than that one; a
 * coordinator that does not speak the sender's highest version passes over what it does not know.
 */
#ifndef BATON_API_PROTOCOL_H
#define BATON_API_PROTOCOL_H

#include <stdint.h>

#include "api/types.h"

struct protocol_range {
    uint32_t minimum, version; /* both are spoken */
};

/* An initialiser. */
#define PROTOCOL_RANGE_OURS                                                                        \
    {                                                                                              \
        .minimum = API_PROTOCOL_MINIMUM, .version = API_PROTOCOL_VERSION                           \
    }

/* That range; in test builds BATON_PROTOCOL=minimum-version in the environment stands for
 * it, so that releases can meet that are not there yet. */
struct protocol_range protocol_own(void);

/* The version that the two will speak, 0: none. */
uint32_t protocol_choose(struct protocol_range agent, struct protocol_range coordinator);

/* Why there is none, and what to do; free(). `agent_version`: of its software, NULL: not known. */
char *protocol_refusal(const char *agent_id, const char *agent_version, struct protocol_range agent,
                       struct protocol_range coordinator);

#endif
