/* A folder of its own for each test of the store, and the store in it. */
#ifndef BATON_TESTS_COORDINATOR_STORE_FIXTURE_H
#define BATON_TESTS_COORDINATOR_STORE_FIXTURE_H

#include "coordinator/store.h"

#define STORE_FIXTURE_PATH_BYTES 256

struct store_fixture {
    char folder[STORE_FIXTURE_PATH_BYTES];
    char path[STORE_FIXTURE_PATH_BYTES + 16]; /* of the database */
};

void store_fixture_init(struct store_fixture *fixture);
void store_fixture_finish(struct store_fixture *fixture); /* removes the folder */

/* The fixture's database; the test fails when it is refused. */
struct store *store_fixture_open(const struct store_fixture *fixture);
/* The test fails when it is not refused with this code and a text that holds all of `words` ("|"
 * between them). */
void store_fixture_refused(const char *path, enum err_code code, const char *words);
/* Changes the database behind the store's back, which is closed meanwhile. */
void store_fixture_sql(const struct store_fixture *fixture, const char *sql);
/* Loads into a cluster that is initialised here. */
void store_fixture_load(struct store *store, struct cluster *ret_cluster);
/* What the database holds, read by a connection of its own, is the same as `cluster`. */
void store_fixture_check(struct store *store, const struct cluster *cluster);

#endif
