#include "agent/crash_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "agent/crash.h"
#include "api/schema.h"
#include "common/logger.h"
#include "common/mem.h"

#define SUFFIX ".crashes"

struct list {
    struct crash_note *items;
    size_t count, capacity;
};

static void add(struct list *list, const char *job, const char *path)
{
    struct crash_place place;
    char *incarnation, *build;
    uint32_t count;

    if (list->count == API_TASKS_MAX ||
        !crash_file_last(path, &incarnation, &build, &place, &count))
        return;
    if (!schema_uuid_valid(incarnation) || place.topic >= API_INPUTS_MAX ||
        place.partition >= API_PARTITIONS_MAX || strlen(build) > API_BUILD_BYTES) {
        free(incarnation); /* nobody could tell what it is of */
        free(build);
        return;
    }
    list->items = mem_grow(list->items, list->count, &list->capacity, sizeof(struct crash_note));
    list->items[list->count++] = (struct crash_note){.job = mem_strdup(job),
                                                     .job_incarnation = incarnation,
                                                     .build = build,
                                                     .topic = place.topic,
                                                     .partition = place.partition,
                                                     .offset = place.offset,
                                                     .count = count};
}

static void visit_job(struct list *list, const char *directory, const char *job)
{
    DIR *open = opendir(directory);
    struct dirent *entry;

    if (open == NULL)
        return; /* the store says what is wrong with it */
    while ((entry = readdir(open)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        char *path;

        if (bytes <= strlen(SUFFIX) || strcmp(entry->d_name + bytes - strlen(SUFFIX), SUFFIX) != 0)
            continue;
        path = mem_printf("%s/%s", directory, entry->d_name);
        add(list, job, path);
        free(path);
    }
    (void)closedir(open); /* only read from */
}

/* The same files make the same list, whatever order they are found in. */
static int compare(const void *left, const void *right)
{
    const struct crash_note *a = left, *b = right;
    int order = strcmp(a->job, b->job);

    if (order == 0)
        order = strcmp(a->job_incarnation, b->job_incarnation);
    if (order == 0)
        order = (a->topic > b->topic) - (a->topic < b->topic);
    if (order == 0)
        order = (a->partition > b->partition) - (a->partition < b->partition);
    if (order == 0)
        order = (a->offset > b->offset) - (a->offset < b->offset);
    return order != 0 ? order : strcmp(a->build, b->build);
}

struct crash_note *crash_list(const char *state_dir, size_t *ret_count)
{
    struct list list = {0};
    DIR *open = opendir(state_dir);
    struct dirent *entry;

    while (open != NULL && (entry = readdir(open)) != NULL) {
        char *directory;

        if (!schema_name_valid(entry->d_name))
            continue;
        directory = mem_printf("%s/%s", state_dir, entry->d_name);
        visit_job(&list, directory, entry->d_name);
        free(directory);
    }
    if (open != NULL)
        (void)closedir(open); /* only read from */
    if (list.count > 1)
        qsort(list.items, list.count, sizeof(*list.items), compare);
    *ret_count = list.count;
    return list.items;
}

void crash_list_renew(const char *state_dir, struct agent_registration *registration)
{
    for (size_t i = 0; i < registration->crashes.count; i++)
        schema_free(&schema_crash_note, &registration->crashes.items[i]);
    free(registration->crashes.items);
    registration->crashes.items = crash_list(state_dir, &registration->crashes.count);
}

void crash_list_log(const struct agent_registration *registration)
{
    for (size_t i = 0; i < registration->crashes.count; i++) {
        const struct crash_note *note = &registration->crashes.items[i];

        log_warn("logic_has_crashed", LOG_STR("job", note->job), LOG_INT("topic", note->topic),
                 LOG_INT("partition", note->partition), LOG_INT("offset", note->offset),
                 LOG_INT("crashes", note->count), LOG_END);
    }
}

void crash_list_copy(const struct agent_registration *registration, struct agent_report *report)
{
    size_t count = registration->crashes.count;

    report->crashes.items = mem_calloc(count, sizeof(*report->crashes.items));
    report->crashes.count = count;
    for (size_t i = 0; i < count; i++)
        schema_copy(&schema_crash_note, &report->crashes.items[i], &registration->crashes.items[i]);
}
