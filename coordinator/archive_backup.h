/*
 * POST /v1/backups: one copy of the database at a time, a slice between two steps of the owner
 * thread, which alone uses this (coordinator/archive.h owns it).
 */
#ifndef BATON_COORDINATOR_ARCHIVE_BACKUP_H
#define BATON_COORDINATOR_ARCHIVE_BACKUP_H

#include "coordinator/archive.h"

/* Begins one, or answers why not. */
void archive_backup_ask(struct archive *archive, uint64_t request);
/* Goes on with the one that is under way, and answers when it has ended. */
void archive_backup_tick(struct archive *archive);
void archive_backup_finish(struct archive *archive);

#endif
