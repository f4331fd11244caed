/* States that earlier runs left: <state_dir>/<job>/<processor>/data.mdb. */
#include "agent/store_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/schema.h"
#include "common/mem.h"

struct listing {
    const char *boot_id;
    const struct store_kept_visitor *visitor;
    const char *job; /* the directory's name */
};

static void skip(const struct listing *listing, const char *directory, const char *reason)
{
    listing->visitor->skipped(listing->visitor->arg, directory, reason);
}

bool store_read_processor(const char *name, uint32_t *ret_processor)
{
    char text[16];
    char *end;
    const unsigned long number = strtoul(name, &end, 10);

    if (number >= API_PARTITIONS_MAX || *end != '\0')
        return false;
    (void)snprintf(text, sizeof(text), "%lu", number); /* fits */
    if (strcmp(text, name) != 0)
        return false;
    *ret_processor = (uint32_t)number;
    return true;
}

/* It is where its task would look for it, and says what a coordinator can understand. */
static enum err_code judge_place(const struct listing *listing, const struct store_meta *meta,
                                 uint32_t processor, struct err *reterr)
{
    if (strcmp(meta->job, listing->job) != 0 || meta->processor != processor)
        return err_set(reterr, ERR_FOREIGN, "it is the state of processor %u of job %s",
                       meta->processor, meta->job);
    if (!schema_uuid_valid(meta->job_incarnation))
        return err_set(reterr, ERR_FOREIGN, "'%s' is no incarnation of a job",
                       meta->job_incarnation);
    return ERR_NONE;
}

static enum err_code read_state(const struct listing *listing, const char *directory,
                                uint32_t processor, struct store_meta *ret_meta, struct err *reterr)
{
    char *path = store_dir_path(directory, STORE_DATA_FILE);
    struct store_meta meta = {0};
    enum err_code code = store_judge_suspect(directory, reterr);

    if (code == ERR_NONE)
        code = store_check_meta(path, &meta, reterr);
    free(path);
    if (code == ERR_NONE)
        code = judge_place(listing, &meta, processor, reterr);
    if (code == ERR_NONE)
        code = store_judge_trust(&meta, listing->boot_id, reterr);
    if (code == ERR_NONE)
        *ret_meta = meta;
    else
        store_meta_finish(&meta);
    return code;
}

static void visit_state(const struct listing *listing, const char *directory, const char *name)
{
    struct store_meta meta;
    struct err error = {0};
    uint32_t processor;
    enum err_code code;

    if (!store_read_processor(name, &processor))
        return;
    code = read_state(listing, directory, processor, &meta, &error);
    if (code == ERR_NOT_FOUND)
        return; /* an opening that was interrupted */
    if (code != ERR_NONE) {
        skip(listing, directory, error.text);
        return;
    }
    if (meta.sequence > 0)
        listing->visitor->found(listing->visitor->arg,
                                &(struct store_kept){.job = meta.job,
                                                     .job_incarnation = meta.job_incarnation,
                                                     .processor = processor,
                                                     .positions = meta.positions,
                                                     .position_count = meta.position_count});
    store_meta_finish(&meta);
}

/* Calls visit with the path and the name of whatever is in the directory. */
static void walk(const struct listing *listing, const char *directory,
                 void (*visit)(const struct listing *listing, const char *path, const char *name))
{
    DIR *open = opendir(directory);
    struct dirent *entry;

    if (open == NULL) {
        if (errno != ENOENT && errno != ENOTDIR)
            skip(listing, directory, strerror(errno));
        return;
    }
    while ((entry = readdir(open)) != NULL) {
        char *path;

        if (entry->d_name[0] == '.')
            continue;
        path = store_dir_path(directory, entry->d_name);
        visit(listing, path, entry->d_name);
        free(path);
    }
    (void)closedir(open); /* only read from */
}

static void visit_job(const struct listing *listing, const char *directory, const char *name)
{
    struct listing of_job = *listing;

    if (!schema_name_valid(name))
        return;
    of_job.job = name;
    walk(&of_job, directory, visit_state);
}

void store_list_kept(const char *state_dir, const char *boot_id,
                     const struct store_kept_visitor *visitor)
{
    const struct listing listing = {.boot_id = boot_id, .visitor = visitor};

    walk(&listing, state_dir, visit_job);
}
