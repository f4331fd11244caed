#include "coordinator/publish_pace.h"

#include <stddef.h>

#include "api/schema.h"

#define PERIOD_MS 100 /* of observations */
#define SHARE     4   /* pause after a view, in times of the work it took */

static bool is_decision(const struct update *update)
{
    for (size_t i = 0; i < update->changes.count; i++) {
        if (update->changes.items[i].kind != CHANGE_OBSERVATION &&
            update->changes.items[i].kind != CHANGE_META)
            return true;
    }
    return false;
}

/* An agent acts on what its answer says, and reads no view. */
static bool is_for_agent(const struct schema_type *type)
{
    return type == &schema_agent_welcome || type == &schema_agent_document ||
           type == &schema_report_answer;
}

/* An answer without a body tells of the step's own changes, or is an agent's poll without news. */
static bool answers_client(const struct update *update, bool decision)
{
    for (size_t i = 0; i < update->answers.count; i++) {
        const struct answer *each = &update->answers.items[i];
        if (each->status < 300 && !is_for_agent(each->type) && (decision || each->type != NULL))
            return true;
    }
    return false;
}

bool publish_pace_see(struct publish_pace *pace, const struct update *update)
{
    bool decision = is_decision(update);
    pace->urgent = pace->urgent || decision;
    return pace->urgent && answers_client(update, decision);
}

int64_t publish_pace_due_ms(const struct publish_pace *pace)
{
    int64_t pause_ms = pace->took_ms * SHARE;
    if (!pace->urgent && pause_ms < PERIOD_MS)
        pause_ms = PERIOD_MS;
    return pace->published_ms + pause_ms;
}

void publish_pace_done(struct publish_pace *pace, int64_t took_ms, int64_t now_ms)
{
    *pace = (struct publish_pace){.published_ms = now_ms, .took_ms = took_ms};
}
