#include "agent/crash_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "agent/crash.h"
#include "api/schema.h"
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
    *ret_count = list.count;
    return list.items;
}
