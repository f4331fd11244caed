#include "coordinator/archive_backup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/schema.h"
#include "common/clock.h"
#include "common/logger.h"
#include "common/mem.h"
#include "coordinator/store_backup.h"

struct archive_backup {
    uint64_t request;
    struct store_backup *running;
    char *path;
    int64_t started_at, started_ms;
};

static void answer(struct archive *archive, uint64_t request, const char *code, const char *detail)
{
    struct answer problem = archive_problem(request, code, detail);
    archive->answer(archive->context, &problem);
}

/* The time to the millisecond, so that names are in the order of copies. */
static char *make_path(const char *folder, int64_t now_at)
{
    char text[32];
    struct tm parts;
    time_t seconds = (time_t)(now_at / 1000);
    (void)gmtime_r(&seconds, &parts); /* fails in years beyond the clock's */
    (void)strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &parts);
    return mem_printf("%s/coordinator-%s.%03dZ.db", folder, text, (int)(now_at % 1000));
}

void archive_backup_ask(struct archive *archive, uint64_t request)
{
    struct err err;
    int64_t now_at = clock_wall_ms();
    if (archive->backup_dir == NULL || archive->backup_dir[0] == '\0') {
        answer(archive, request, "backups_disabled",
               "the coordinator's option backup_dir is not set");
        return;
    }
    if (archive->backup != NULL) {
        answer(archive, request, "busy", "another backup is under way");
        return;
    }
    struct archive_backup *backup = mem_calloc(1, sizeof(*backup));
    *backup = (struct archive_backup){.request = request,
                                      .path = make_path(archive->backup_dir, now_at),
                                      .started_at = now_at,
                                      .started_ms = clock_mono_ms()};
    archive->backup = backup;
    if (store_backup_begin(archive->store, backup->path, &backup->running, &err) == ERR_NONE)
        return;
    log_error("backup_failed", LOG_STR("detail", err.text), LOG_END);
    answer(archive, request, "backup_failed", err.text);
    archive_backup_finish(archive);
}

static void answer_done(struct archive *archive, int64_t bytes)
{
    const struct archive_backup *backup = archive->backup;
    struct backup_view *view = mem_calloc(1, sizeof(*view));
    *view = (struct backup_view){.file = mem_strdup(backup->path),
                                 .bytes = (uint64_t)bytes,
                                 .started_at = backup->started_at,
                                 .took_ms = clock_mono_ms() - backup->started_ms};
    log_info("backup_done", LOG_STR("file", view->file), LOG_INT("bytes", bytes),
             LOG_INT("took_ms", view->took_ms), LOG_END);
    struct answer done = {
        .request = backup->request, .status = 201, .type = &schema_backup_view, .body = view};
    archive->answer(archive->context, &done);
}

void archive_backup_tick(struct archive *archive)
{
    struct archive_backup *backup = archive->backup;
    bool done = false;
    int64_t bytes = 0;
    struct err err;
    if (backup == NULL)
        return;
    if (store_backup_step(backup->running, &done, &bytes, &err) != ERR_NONE) {
        log_error("backup_failed", LOG_STR("detail", err.text), LOG_END);
        answer(archive, backup->request, "backup_failed", err.text);
        archive_backup_finish(archive);
    } else if (done) {
        answer_done(archive, bytes);
        archive_backup_finish(archive);
    }
}

void archive_backup_finish(struct archive *archive)
{
    struct archive_backup *backup = archive->backup;
    if (backup == NULL)
        return;
    store_backup_end(backup->running);
    free(backup->path);
    free(backup);
    archive->backup = NULL;
}
