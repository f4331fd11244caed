/* What the parts of the store share. Internal to coordinator/store*.c; the owner thread. */
#ifndef BATON_COORDINATOR_STORE_INTERNAL_H
#define BATON_COORDINATOR_STORE_INTERNAL_H

#include <sqlite3.h>

#include "common/strbuf.h"
#include "coordinator/store.h"

/* "batn" in the database's header: SQLite and file(1) show it, and a foreign database is known by
 * it. */
#define STORE_APPLICATION_ID 0x6261746e

enum store_statement {
    STORE_BEGIN,
    STORE_COMMIT,
    STORE_META_PUT,
    STORE_META_GET,
    STORE_JOB_PUT,
    STORE_JOB_REMOVE,
    STORE_JOB_LIST,
    STORE_INPUT_PUT,
    STORE_WARNINGS_CLEAR,
    STORE_WARNING_PUT,
    STORE_WARNING_LIST,
    STORE_ORIGIN_COUNT,
    STORE_ORIGIN_PUT,
    STORE_ORIGIN_LIST,
    STORE_PLACEMENT_PUT,
    STORE_PLACEMENT_LIST,
    STORE_OFFSETS_CLEAR,
    STORE_OFFSET_PUT,
    STORE_OFFSET_LIST,
    STORE_AGENT_PUT,
    STORE_AGENT_REMOVE,
    STORE_AGENT_LIST,
    STORE_TAGS_CLEAR,
    STORE_TAG_PUT,
    STORE_TAG_LIST,
    STORE_OPERATION_PUT,
    STORE_OPERATION_LIST,
    STORE_OPERATION_GET,
    STORE_OPERATION_PAGE,
    STORE_OPERATION_PRUNE,
    STORE_HANDOFF_PUT,
    STORE_HANDOFF_LIST,
    STORE_HANDOFF_GET,
    STORE_HANDOFF_PAGE,
    STORE_HANDOFF_PRUNE,
    STORE_GROUP_HOLD_PUT,
    STORE_GROUP_HOLD_REMOVE,
    STORE_GROUP_HOLD_GET,
    STORE_MAINTENANCE_PUT,
    STORE_MAINTENANCE_GET,
    STORE_ARRIVAL_PUT,
    STORE_ARRIVAL_LIST,
    STORE_SKIP_PUT,
    STORE_SKIP_LIST,
    STORE_WINDOW_PUT,
    STORE_WINDOW_LIST,
    STORE_STANDBY_PUT,
    STORE_STANDBY_REMOVE,
    STORE_STANDBY_LIST,
    STORE_EVENT_PUT,
    STORE_EVENT_PAGE,
    STORE_EVENT_PAGE_OF_JOB,
    STORE_EVENT_LAST,
    STORE_EVENT_LAST_OF_JOB,
    STORE_EVENT_PRUNE,
    STORE_STATEMENT_COUNT
};

struct store {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[STORE_STATEMENT_COUNT];
    struct store_retention retention;
    uint64_t run;     /* statements run so far */
    uint64_t fail_at; /* the one that fails, counted as `run`; 0: none */
    enum store_failure failure;
};

/* ---- store_schema.c */

/* user_version of a database with all migrations. */
int store_schema_version(void);
/* SQL of the migration that makes version `version` (from 1 on). */
const char *store_schema_migration(int version);
const char *store_schema_statement(enum store_statement statement);

/* Names that stand in columns, by enumerator; NULL-terminated. */
extern const char *const store_names_step[], *const store_names_kind[];

/* ---- running statements (store.c) */

/* Ready to be bound, with nothing bound. */
sqlite3_stmt *store_statement(struct store *store, enum store_statement statement);

/* Index from 1 on. NULL texts become NULL. Texts must stay as they are until the statement has run.
 */
void store_bind_text(sqlite3_stmt *statement, int index, const char *text);
void store_bind_int(sqlite3_stmt *statement, int index, int64_t number);
/* Counters of the core are unsigned; they never come near 2^63, which is asserted. */
void store_bind_uint(sqlite3_stmt *statement, int index, uint64_t number);
/* API_UNKNOWN becomes NULL. */
void store_bind_known(sqlite3_stmt *statement, int index, int64_t number);

/* Runs a statement that gives no rows. */
enum err_code store_run(struct store *store, enum store_statement statement,
                        struct err *reterr) MUSTCHECK;
/* The next row of a statement that gives some; `ret_row` false: there is none, the statement is
 * reset. */
enum err_code store_next(struct store *store, sqlite3_stmt *statement, bool *ret_row,
                         struct err *reterr) MUSTCHECK;
/* One that is left before its last row. */
void store_leave(sqlite3_stmt *statement);

/* Fills the error from SQLite's own, after "database PATH: <doing>: ". */
enum err_code store_fail(const struct store *store, int result, const char *doing,
                         struct err *reterr);

/* ---- columns of the present row, from 0 on */

char *store_column_text(sqlite3_stmt *statement, int column); /* heap; NULL for NULL */
/* Borrowed until the next row; "" for NULL. */
const char *store_column_peek(sqlite3_stmt *statement, int column);
int64_t store_column_int(sqlite3_stmt *statement, int column);
int64_t store_column_known(sqlite3_stmt *statement, int column); /* API_UNKNOWN for NULL */

/* Within 0..max, else ERR_CORRUPT. */
enum err_code store_column_count(const struct store *store, sqlite3_stmt *statement, int column,
                                 uint32_t max, uint32_t *ret_count, struct err *reterr) MUSTCHECK;
/* Not negative, else ERR_CORRUPT. */
enum err_code store_column_uint(const struct store *store, sqlite3_stmt *statement, int column,
                                uint64_t *ret_number, struct err *reterr) MUSTCHECK;
/* The number of a name, else ERR_CORRUPT. */
enum err_code store_column_enum(const struct store *store, sqlite3_stmt *statement, int column,
                                const char *const *names, int *ret_value,
                                struct err *reterr) MUSTCHECK;
enum err_code store_corrupt(const struct store *store, const char *what, struct err *reterr);

/* ---- rows that are read in several places (store_load.c) */

/* Columns as STORE_OPERATION_LIST has them. */
enum err_code store_read_operation(const struct store *store, sqlite3_stmt *statement,
                                   struct operation_row *ret_row, struct err *reterr) MUSTCHECK;

/* Columns as STORE_HANDOFF_LIST has them (store_handoff.c). */
enum err_code store_read_handoff(const struct store *store, sqlite3_stmt *statement,
                                 struct handoff_row *ret_row, struct err *reterr) MUSTCHECK;
enum err_code store_write_handoff(struct store *store, const struct handoff_row *row,
                                  struct err *reterr) MUSTCHECK;
enum err_code store_load_handoffs(struct store *store, struct cluster *cluster,
                                  struct err *reterr) MUSTCHECK;

/* ---- standbys (store_standby.c) */

enum err_code store_write_standby(struct store *store, const struct standby_row *row,
                                  struct err *reterr) MUSTCHECK;
enum err_code store_remove_standby(struct store *store, const struct standby_row *row,
                                   struct err *reterr) MUSTCHECK;
enum err_code store_load_standbys(struct store *store, struct cluster *cluster,
                                  struct err *reterr) MUSTCHECK;

/* ---- lists of offsets in one column (store_list.c) */

struct store_list_row {
    uint32_t topic, partition;
    int64_t numbers[2]; /* one or both are used */
};
/* Appends a row with so many numbers; the buffer is empty at first. */
void store_list_add(struct strbuf *text, size_t numbers, const struct store_list_row *row);
char *store_list_end(struct strbuf *text); /* heap; NULL: the list is empty */
/* Gives each row to `take`. False: it is something else than store_list_add writes, topic or
 * partition are more than any job has, or `take` has refused one. */
bool store_list_read(const char *text, size_t numbers,
                     bool (*take)(void *arg, const struct store_list_row *row),
                     void *arg) MUSTCHECK;

/* ---- what people decide about records and committed offsets (store_skip.c) */

enum err_code store_write_skip(struct store *store, const struct skip_row *row,
                               struct err *reterr) MUSTCHECK;
enum err_code store_load_skips(struct store *store, struct cluster *cluster,
                               struct err *reterr) MUSTCHECK;
/* The column of a placement; a NULL text: it is empty. free(). */
char *store_print_chosen(const struct placement_row *row);
/* False: it is something else than store_print_chosen writes. */
bool store_parse_chosen(const char *text, struct placement_row *row) MUSTCHECK;
/* store_bound.c; NULL: there are none; free() */
char *store_print_bounds(const struct placement_row *row);
/* False: it is something else than store_print_bounds writes. */
bool store_parse_bounds(const char *text, struct placement_row *row) MUSTCHECK;

/* ---- settle windows (store_window.c) */

enum err_code store_write_window(struct store *store, const struct window_row *row,
                                 struct err *reterr) MUSTCHECK;
enum err_code store_load_windows(struct store *store, struct cluster *cluster,
                                 struct err *reterr) MUSTCHECK;

/* ---- store_group.c */

enum err_code store_write_group_hold(struct store *store, const struct job_row *row,
                                     struct err *reterr) MUSTCHECK;
enum err_code store_load_group_hold(struct store *store, struct job_row *row,
                                    struct err *reterr) MUSTCHECK;

/* ---- store_pause.c */

/* Four columns or parameters from `first` on. */
void store_bind_hold(sqlite3_stmt *statement, int first, const struct hold *hold);
void store_read_hold(sqlite3_stmt *statement, int first, struct hold *ret_hold);
/* Offsets in one column; a NULL text: there are none. free(). */
char *store_print_offsets(const struct input_offset *items, size_t count);
/* False: it is something else than store_print_offsets writes. */
bool store_parse_offsets(const char *text, struct input_offset **ret_items,
                         size_t *ret_count) MUSTCHECK;
enum err_code store_write_maintenance(struct store *store, const struct maintenance_row *row,
                                      struct err *reterr) MUSTCHECK;
enum err_code store_load_maintenance(struct store *store, struct cluster *cluster,
                                     struct err *reterr) MUSTCHECK;

#endif
