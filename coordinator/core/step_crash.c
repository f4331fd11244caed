/* What agents say of logic that has ended them (coordinator/core/cluster_crash.c). */
#include <stdlib.h>

#include "api/schema.h"
#include "coordinator/core/step_internal.h"

static bool is_among(const struct crash_note *note, const struct crash_note *notes, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found = found || schema_equal(&schema_crash_note, note, &notes[i]);
    return found;
}

/* In whatever order they are told of. */
static bool are_known(const struct agent *agent, const struct crash_note *notes, size_t count)
{
    bool same = agent->crashes.count == count;
    for (size_t i = 0; same && i < count; i++)
        same = is_among(&notes[i], agent->crashes.items, count) &&
               is_among(&agent->crashes.items[i], notes, count);
    return same;
}

/* Whoever owns what this is about hears of it. */
static void renew_concerned(struct step *step, const struct crash_note *note)
{
    const struct job *job = cluster_job(step->cluster, note->job);
    for (size_t p = 0; job != NULL && p < job->processors.count; p++) {
        const char *owner = job->processors.items[p].placement.agent;
        struct agent *agent = owner != NULL ? cluster_agent(step->cluster, owner) : NULL;
        if (agent != NULL && cluster_crash_concerns(job, note, (uint32_t)p))
            step_renew_document(step, agent);
    }
}

static void say(struct step *step, const struct agent *agent, const struct crash_note *note)
{
    const struct job *job = cluster_job(step->cluster, note->job);
    const char *topic = job != NULL && note->topic < job->row.spec.inputs.count
                            ? job->row.spec.inputs.items[note->topic]
                            : "?";
    step_event(step,
               (struct event_about){.kind = "logic_crash_noted",
                                    .job = job != NULL ? note->job : NULL,
                                    .agent = agent->row.agent_id},
               "its logic has ended the agent's process %u times in a row at topic \"%s\" "
               "partition %u offset %lld",
               note->count, topic, note->partition, (long long)note->offset);
}

/* What is new is an event: documents change by decisions that are written down. */
static void say_news(struct step *step, const struct agent *agent, const struct crash_note *notes,
                     size_t count)
{
    bool news = false;
    for (size_t i = 0; i < count; i++) {
        if (is_among(&notes[i], agent->crashes.items, agent->crashes.count))
            continue;
        say(step, agent, &notes[i]);
        news = true;
    }
    if (!news)
        step_event(
            step, (struct event_about){.kind = "logic_crash_cleared", .agent = agent->row.agent_id},
            "crashes of logic that it told of are not on its disk any more");
}

void step_take_crashes(struct step *step, struct agent *agent, struct crash_note *notes,
                       size_t count)
{
    if (are_known(agent, notes, count)) {
        for (size_t i = 0; i < count; i++)
            schema_free(&schema_crash_note, &notes[i]);
        free(notes);
        return;
    }
    say_news(step, agent, notes, count);
    for (size_t i = 0; i < agent->crashes.count; i++)
        renew_concerned(step, &agent->crashes.items[i]);
    cluster_clear_crashes(agent);
    agent->crashes.items = notes;
    agent->crashes.count = count;
    for (size_t i = 0; i < count; i++)
        renew_concerned(step, &notes[i]);
}

static void is_back(struct step *step, struct processor *processor, const struct agent *agent)
{
    struct agent *owner = processor->placement.agent != NULL
                              ? cluster_agent(step->cluster, processor->placement.agent)
                              : NULL;
    for (size_t i = 0; i < CLUSTER_LOST_MAX; i++) {
        if (!rows_text_equal(processor->lost[i], agent->row.agent_id))
            continue;
        rows_text_set(&processor->lost[i], NULL);
        if (owner != NULL)
            step_renew_document(step, owner);
    }
}

void step_lost_is_back(struct step *step, const struct agent *agent)
{
    for (size_t i = 0; i < step->cluster->jobs.count; i++) {
        struct job *job = step->cluster->jobs.items[i];
        for (size_t p = 0; p < job->processors.count; p++)
            is_back(step, &job->processors.items[p], agent);
    }
}
