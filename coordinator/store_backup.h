/*
 * A copy of the database while it is in use: consistent, as of the moment when it is done. Made in
 * slices by the owner thread, between its steps; what the store commits meanwhile goes into the
 * copy as well, for both are of one connection.
 *
 * The copy is a file of its own beside the ".part" that it grows in; it appears under its name when
 * it is whole and on disk.
 */
#ifndef BATON_COORDINATOR_STORE_BACKUP_H
#define BATON_COORDINATOR_STORE_BACKUP_H

#include "coordinator/store.h"

struct store_backup;

/* ERR_IO: the text names path and reason; ERR_INVALID: there is such a file already. */
enum err_code store_backup_begin(struct store *store, const char *path,
                                 struct store_backup **ret_backup, struct err *reterr) MUSTCHECK;
/* Copies a slice (some milliseconds). When *ret_done the copy has `ret_bytes`, under its name.
 * After a failure only store_backup_end is left to call. */
enum err_code store_backup_step(struct store_backup *backup, bool *ret_done, int64_t *ret_bytes,
                                struct err *reterr) MUSTCHECK;
/* Takes a copy that is not whole away. NULL is fine. Before store_close. */
void store_backup_end(struct store_backup *backup);

#endif
