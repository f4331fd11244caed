#include "api/protocol.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/mem.h"

#define WORDS_BYTES 64

struct protocol_range protocol_own(void)
{
    struct protocol_range range = PROTOCOL_RANGE_OURS;
#ifdef BATON_TEST_HOOKS
    const char *text = getenv("BATON_PROTOCOL");
    if (text != NULL && sscanf(text, "%u-%u", &range.minimum, &range.version) != 2)
        assert(!"BATON_PROTOCOL is not minimum-version");
#endif
    return range;
}

static bool is_range(struct protocol_range range)
{
    return range.minimum >= 1 && range.minimum <= range.version;
}

uint32_t protocol_choose(struct protocol_range agent, struct protocol_range coordinator)
{
    assert(is_range(coordinator));
    uint32_t highest = agent.version < coordinator.version ? agent.version : coordinator.version;
    uint32_t lowest = agent.minimum > coordinator.minimum ? agent.minimum : coordinator.minimum;
    return is_range(agent) && lowest <= highest ? highest : 0;
}

static void spell(struct protocol_range range, char *ret_words)
{
    if (range.minimum == range.version)
        (void)snprintf(ret_words, WORDS_BYTES, "version %u", range.version);
    else
        (void)snprintf(ret_words, WORDS_BYTES, "versions %u to %u", range.minimum, range.version);
}

char *protocol_refusal(const char *agent_id, const char *agent_version, struct protocol_range agent,
                       struct protocol_range coordinator)
{
    assert(protocol_choose(agent, coordinator) == 0);
    char its[WORDS_BYTES], ours[WORDS_BYTES];
    spell(agent, its);
    spell(coordinator, ours);
    const char *software = agent_version == NULL ? "" : " of baton ";
    agent_version = agent_version == NULL ? "" : agent_version;
    if (!is_range(agent))
        return mem_printf("agent %s%s%s says that it speaks %s of the agent protocol, which is no "
                          "range; this coordinator speaks %s",
                          agent_id, software, agent_version, its, ours);
    return mem_printf("agent %s%s%s speaks %s of the agent protocol, this coordinator %s: upgrade "
                      "the %s",
                      agent_id, software, agent_version, its, ours,
                      agent.version < coordinator.minimum ? "agent" : "coordinator");
}
