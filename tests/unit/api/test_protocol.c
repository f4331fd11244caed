#include "api/protocol.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(protocol, the_highest_common_version_is_spoken)
{
    static const struct {
        struct protocol_range agent, coordinator;
        uint32_t chosen;
    } rows[] = {
        {{1, 1}, {1, 1}, 1}, {{1, 2}, {1, 1}, 1},          {{1, 1}, {1, 2}, 1}, {{1, 2}, {2, 3}, 2},
        {{2, 3}, {1, 2}, 2}, {{1, UINT32_MAX}, {3, 5}, 5}, {{1, 1}, {2, 3}, 0}, {{2, 3}, {1, 1}, 0},
        {{3, 1}, {1, 3}, 0}, {{0, 0}, {1, 1}, 0},          {{0, 1}, {1, 1}, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_eq(protocol_choose(rows[i].agent, rows[i].coordinator), rows[i].chosen, "row %zu",
                     i);
}

static void assert_refused(struct protocol_range agent, struct protocol_range coordinator,
                           const char *version, const char *wanted)
{
    char *text = protocol_refusal("host-1", version, agent, coordinator);
    cr_assert_str_eq(text, wanted);
    free(text);
}

Test(protocol, a_refusal_says_which_side_is_to_be_upgraded)
{
    assert_refused((struct protocol_range){1, 1}, (struct protocol_range){2, 3}, "0.1.0",
                   "agent host-1 of baton 0.1.0 speaks version 1 of the agent protocol, this "
                   "coordinator versions 2 to 3: upgrade the agent");
    assert_refused((struct protocol_range){2, 3}, (struct protocol_range){1, 1}, NULL,
                   "agent host-1 speaks versions 2 to 3 of the agent protocol, this coordinator "
                   "version 1: upgrade the coordinator");
    assert_refused((struct protocol_range){3, 1}, (struct protocol_range){1, 3}, NULL,
                   "agent host-1 says that it speaks versions 3 to 1 of the agent protocol, which "
                   "is no range; this coordinator speaks versions 1 to 3");
}

Test(protocol, test_builds_may_stand_for_other_releases)
{
    cr_assert_eq(protocol_own().version, API_PROTOCOL_VERSION);
    cr_assert_eq(protocol_own().minimum, API_PROTOCOL_MINIMUM);
    cr_assert_eq(setenv("BATON_PROTOCOL", "2-7", 1), 0);
    cr_assert_eq(protocol_own().minimum, 2);
    cr_assert_eq(protocol_own().version, 7);
}
