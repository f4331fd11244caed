/* Who is in groups: KAFKA_CALL_GROUPS, and a part of KAFKA_CALL_INSPECT. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/kafka_private.h"

#define GROUPS_LIMIT_MS     3000 /* others wait for it, and it comes again soon */
#define DESCRIBE_TIMEOUT_MS 3000
#define MEMBERS_NAMED       5

/*
 * Of more groups all there are in the cluster are asked for at once. One by one costs each broker
 * a list of its groups for each, so 100 groups took 113 ms against 1 ms for all (one broker, 100
 * groups); of few groups the descriptions of strangers' would be the larger part.
 */
#define ONE_BY_ONE_MAX 8

/* ---- one answer of the broker */

/* "app-1 at 10.0.0.1, app-2 at 10.0.0.2 and 3 more"; NULL: nobody. */
static char *name_members(const struct rd_kafka_group_info *group)
{
    struct strbuf text = {0};
    int count = group->member_cnt;
    for (int i = 0; i < count && i < MEMBERS_NAMED; i++) {
        const char *client = group->members[i].client_id;
        const char *host = group->members[i].client_host;
        if (host != NULL && host[0] == '/') /* as Java prints an address without a name */
            host++;
        strbuf_printf(&text, "%s%s at %s", i > 0 ? ", " : "", client != NULL ? client : "a client",
                      host != NULL ? host : "an unknown host");
    }
    if (count > MEMBERS_NAMED)
        strbuf_printf(&text, " and %d more", count - MEMBERS_NAMED);
    return count > 0 ? strbuf_take(&text) : NULL;
}

static void read_described(const struct rd_kafka_group_info *group,
                           struct kafka_described *ret_described)
{
    *ret_described =
        (struct kafka_described){.state = RD_KAFKA_CONSUMER_GROUP_STATE_DEAD, .listed = true};
    if (group->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (group->err != RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND)
            ret_described->code = group->err;
        return; /* not found: not one of the classic protocol */
    }
    ret_described->members = (uint32_t)group->member_cnt;
    ret_described->who = name_members(group);
    if (group->state != NULL)
        ret_described->state = rd_kafka_consumer_group_state_code(group->state);
}

static void drop_described(struct kafka_described *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].who);
        items[i] = (struct kafka_described){.code = RD_KAFKA_RESP_ERR__BAD_MSG};
    }
}

void kafka_groups_take(const struct rd_kafka_group_list *list, const char **ids, size_t count,
                       struct kafka_described *items)
{
    for (size_t i = 0; i < count; i++)
        items[i] = (struct kafka_described){.state = RD_KAFKA_CONSUMER_GROUP_STATE_DEAD};
    for (int g = 0; list != NULL && g < list->group_cnt; g++)
        for (size_t i = 0; i < count; i++)
            if (!items[i].listed && strcmp(list->groups[g].group, ids[i]) == 0)
                read_described(&list->groups[g], &items[i]);
}

/*
 * The Admin API's DescribeConsumerGroups would ask for just these groups at once, but it goes to
 * the groups' coordinators, and librdkafka (2.0.2) gives such a request up badly: see
 * kafka_admin_end. This comes every few seconds, when brokers are away and coordinators move, too.
 * So the older call is used: it asks all brokers what groups they have, and describes one (`only`),
 * or all there are (NULL).
 */
static rd_kafka_resp_err_t describe(struct kafka *kafka, const char *only, const char **ids,
                                    size_t count, struct kafka_described *items)
{
    const struct rd_kafka_group_list *list = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_list_groups(kafka->client, only, &list, DESCRIBE_TIMEOUT_MS);
    if (code == RD_KAFKA_RESP_ERR__PARTIAL) /* it may be of the broker that did not answer */
        code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    kafka_groups_take(list, ids, count, items);
    if (list != NULL)
        rd_kafka_group_list_destroy(list);
    return code;
}

/* Each group gets its own code; what comes back is of the question as a whole. */
static rd_kafka_resp_err_t describe_groups(struct kafka *kafka, const char **ids, size_t count,
                                           struct kafka_described *items)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    drop_described(items, count);
    if (count > ONE_BY_ONE_MAX)
        return describe(kafka, NULL, ids, count, items);
    for (size_t i = 0; i < count && code == RD_KAFKA_RESP_ERR_NO_ERROR && !kafka_stopping(kafka);
         i++)
        code = describe(kafka, ids[i], &ids[i], 1, &items[i]);
    return code;
}

/* ---- groups that a description of the classic protocol does not find */

static bool is_nothing(rd_kafka_consumer_group_state_t state)
{
    return state == RD_KAFKA_CONSUMER_GROUP_STATE_DEAD ||
           state == RD_KAFKA_CONSUMER_GROUP_STATE_UNKNOWN;
}

static bool is_to_be_listed(const struct kafka_described *described)
{
    return described->code == RD_KAFKA_RESP_ERR_NO_ERROR && described->listed &&
           described->members == 0 && is_nothing(described->state);
}

/*
 * Groups of the newer consumer protocol (KIP-848) are "dead" or not found to the description that
 * librdkafka 2.0.2 asks for, but they are in the list of groups, with their state. Their members
 * can not be counted then: one stands for all.
 */
static void take_listed(const rd_kafka_ConsumerGroupListing_t *listing, const char **ids,
                        size_t count, struct kafka_described *items)
{
    const char *id = rd_kafka_ConsumerGroupListing_group_id(listing);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(ids[i], id) != 0 || !is_to_be_listed(&items[i]))
            continue;
        items[i].state = rd_kafka_ConsumerGroupListing_state(listing);
        if (is_nothing(items[i].state) || items[i].state == RD_KAFKA_CONSUMER_GROUP_STATE_EMPTY)
            continue;
        items[i].members = 1;
        items[i].who = mem_strdup("members of the newer consumer protocol");
    }
}

static rd_kafka_resp_err_t list_groups(struct kafka *kafka, const char **ids, size_t count,
                                       struct kafka_described *items)
{
    struct kafka_admin admin = kafka_admin_begin(kafka, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS);
    rd_kafka_ListConsumerGroups(kafka->client, admin.options, admin.queue);
    rd_kafka_resp_err_t code;
    rd_kafka_event_t *event = kafka_admin_await(&admin, &code);
    if (event != NULL) {
        const rd_kafka_ListConsumerGroups_result_t *result =
            rd_kafka_event_ListConsumerGroups_result(event);
        size_t found = 0;
        const rd_kafka_error_t **errors = rd_kafka_ListConsumerGroups_result_errors(result, &found);
        if (found > 0) /* a broker did not say: its groups are unknown */
            code = rd_kafka_error_code(errors[0]);
        const rd_kafka_ConsumerGroupListing_t **groups =
            rd_kafka_ListConsumerGroups_result_valid(result, &found);
        for (size_t i = 0; i < found; i++)
            take_listed(groups[i], ids, count, items);
        rd_kafka_event_destroy(event);
    }
    kafka_admin_end(&admin, code);
    return code;
}

/* ---- both */

static rd_kafka_resp_err_t ask_once(struct kafka *kafka, const char **ids, size_t count,
                                    struct kafka_described *items)
{
    bool unlisted = false;
    rd_kafka_resp_err_t code = describe_groups(kafka, ids, count, items);
    for (size_t i = 0; i < count && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        unlisted = unlisted || is_to_be_listed(&items[i]);
    if (unlisted)
        code = list_groups(kafka, ids, count, items);
    for (size_t i = 0; i < count && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        if (kafka_retriable(items[i].code))
            code = items[i].code;
    return code;
}

/* Without an error each item has its answer, or a code that says why not. */
static rd_kafka_resp_err_t ask(struct kafka *kafka, const char **ids, size_t count,
                               int64_t deadline_ms, struct kafka_described *items)
{
    rd_kafka_resp_err_t code;
    do
        code = ask_once(kafka, ids, count, items);
    while (kafka_retriable(code) && kafka_backoff(kafka, deadline_ms));
    return code;
}

enum err_code kafka_ask_group(struct kafka *kafka, const char *group_id, int64_t deadline_ms,
                              struct kafka_group *ret_group, char **ret_state, struct err *reterr)
{
    struct kafka_described described = {0};
    rd_kafka_resp_err_t code = ask(kafka, &group_id, 1, deadline_ms, &described);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = described.code;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        free(described.who);
        return kafka_fail(reterr, code, "description of group %s", group_id);
    }
    *ret_group = (struct kafka_group){
        .group_id = mem_strdup(group_id), .members = described.members, .who = described.who};
    *ret_state = is_nothing(described.state)
                     ? NULL
                     : mem_strdup(rd_kafka_consumer_group_state_name(described.state));
    return ERR_NONE;
}

/* ---- calls */

static void keep_group(const char *group_id, struct kafka_described *described,
                       struct kafka_group *ret_group)
{
    *ret_group = (struct kafka_group){.group_id = mem_strdup(group_id)};
    if (described->code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        ret_group->members = described->members;
        ret_group->who = described->who;
        return;
    }
    free(described->who);
    ret_group->error =
        mem_printf("description of group %s: %s (%s)", group_id, rd_kafka_err2str(described->code),
                   rd_kafka_err2name(described->code));
}

void kafka_groups(struct kafka *kafka, const struct kafka_call *call, struct kafka_result *result)
{
    size_t count = call->groups.count;
    struct kafka_described *items = mem_calloc(count, sizeof(*items));
    const char **ids = mem_calloc(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = call->groups.items[i];
    rd_kafka_resp_err_t code = ask(kafka, ids, count, clock_mono_ms() + GROUPS_LIMIT_MS, items);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        result->groups.items = mem_calloc(count, sizeof(*result->groups.items));
        result->groups.count = count;
        for (size_t i = 0; i < count; i++)
            keep_group(ids[i], &items[i], &result->groups.items[i]);
    } else {
        struct err err;
        (void)kafka_fail(&err, code, "description of the groups of all jobs"); /* err has it */
        kafka_result_fail(result, &err);
        drop_described(items, count);
    }
    free(ids);
    free(items);
}
