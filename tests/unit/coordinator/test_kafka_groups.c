/* What a list of groups says of those of jobs. librdkafka's mock cluster has none, so it is made up
 * here; that brokers say it is tested by tests/system/test_migrate.py. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "coordinator/kafka_private.h"

static char client[] = "app-1", host[] = "/10.0.0.1", stable[] = "Stable", empty[] = "Empty";
static char a[] = "a", b[] = "b", c[] = "c", foreign[] = "foreign";

static struct rd_kafka_group_member_info members[2] = {
    {.client_id = client, .client_host = host},
    {.client_id = client, .client_host = host},
};

Test(kafka_groups, one_answer_for_all_is_told_apart)
{
    struct rd_kafka_group_info groups[] = {
        {.group = foreign, .state = stable, .members = members, .member_cnt = 2},
        {.group = c, .state = stable, .members = members, .member_cnt = 2},
        {.group = a, .state = empty},
        {.group = b, .err = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED},
        {.group = c, .state = empty}, /* of a broker that has it no more */
    };
    const struct rd_kafka_group_list list = {.groups = groups, .group_cnt = 5};
    const char *ids[] = {"a", "b", "c", "none"};
    struct kafka_described items[4];
    kafka_groups_take(&list, ids, 4, items);
    cr_assert(items[0].listed && items[0].members == 0 && items[0].who == NULL);
    cr_assert_eq(items[0].state, RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY);
    cr_assert_eq(items[1].code, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    cr_assert_eq(items[2].members, 2);
    cr_assert_str_eq(items[2].who, "app-1 at 10.0.0.1, app-1 at 10.0.0.1");
    cr_assert_not(items[3].listed);
    cr_assert_eq(items[3].state, RD_KAFKA_CONSUMER_GROUP_STATE_DEAD);
    cr_assert_eq(items[3].code, RD_KAFKA_RESP_ERR_NO_ERROR);
    free(items[2].who);
}

Test(kafka_groups, no_list_says_nothing_of_any)
{
    const char *ids[] = {"a"};
    struct kafka_described item = {.members = 7};
    kafka_groups_take(NULL, ids, 1, &item);
    cr_assert(!item.listed && item.members == 0);
}
