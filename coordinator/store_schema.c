/*
 * The database's tables, as numbered migrations, and the statements that work on them.
 *
 * What people would ask with sqlite3(1) is in columns; what only baton reads whole (the
 * specification) is JSON. Offsets that are not known are NULL, never 0. Times are milliseconds
 * since 1970. Topics are numbered as in the job's inputs (job_inputs).
 */
#include <assert.h>

#include "coordinator/store_internal.h"

/* A migration that was released is never edited: a change is a new one at the end. */
static const char *const migrations[] = {
    "CREATE TABLE meta ("
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  cluster TEXT NOT NULL,"
    "  start_number INTEGER NOT NULL,"
    "  decision INTEGER NOT NULL,"
    "  epoch INTEGER NOT NULL,"
    "  event_id INTEGER NOT NULL,"
    "  operation_id INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE jobs ("
    "  name TEXT PRIMARY KEY,"
    "  incarnation TEXT NOT NULL UNIQUE,"
    "  state TEXT NOT NULL,"
    "  generation INTEGER NOT NULL,"
    "  created_at INTEGER NOT NULL,"
    "  group_id TEXT NOT NULL UNIQUE,"
    "  partitions_initial INTEGER NOT NULL,"
    "  partitions INTEGER NOT NULL CHECK (partitions >= partitions_initial),"
    "  processors_initial INTEGER NOT NULL,"
    "  processors INTEGER NOT NULL CHECK (processors >= processors_initial),"
    "  map_version INTEGER NOT NULL,"
    "  partitioner TEXT NOT NULL,"
    "  partitioner_reason TEXT,"
    "  operation INTEGER NOT NULL," /* 0: none */
    "  spec TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE job_inputs ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  topic INTEGER NOT NULL,"
    "  name TEXT NOT NULL,"
    "  PRIMARY KEY (job, topic)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE job_warnings ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  number INTEGER NOT NULL,"
    "  warning TEXT NOT NULL,"
    "  PRIMARY KEY (job, number)"
    ") STRICT, WITHOUT ROWID;"

    /* T0, and T1 as it was committed at creation. */
    "CREATE TABLE origins ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  topic INTEGER NOT NULL,"
    "  partition INTEGER NOT NULL,"
    "  t0 INTEGER NOT NULL,"
    "  start INTEGER NOT NULL,"
    "  PRIMARY KEY (job, topic, partition)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE placements ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  processor INTEGER NOT NULL,"
    "  agent TEXT," /* NULL: without owner */
    "  agent_incarnation TEXT,"
    "  epoch INTEGER NOT NULL,"
    "  activated INTEGER NOT NULL,"
    "  trouble TEXT,"
    "  reason TEXT,"
    "  changed_at INTEGER NOT NULL,"
    "  PRIMARY KEY (job, processor)"
    ") STRICT, WITHOUT ROWID;"

    /* As last reported by the processor's owner; a partition that is read as an ancestor stands
       under several processors. */
    "CREATE TABLE offsets ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  processor INTEGER NOT NULL,"
    "  topic INTEGER NOT NULL,"
    "  partition INTEGER NOT NULL,"
    "  t0 INTEGER,"
    "  t1 INTEGER,"
    "  t2 INTEGER,"
    "  at INTEGER NOT NULL,"
    "  PRIMARY KEY (job, processor, topic, partition)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE agents ("
    "  agent_id TEXT PRIMARY KEY,"
    "  incarnation TEXT NOT NULL,"
    "  state TEXT NOT NULL,"
    "  version TEXT,"
    "  address TEXT,"
    "  protocol INTEGER NOT NULL,"
    "  capacity INTEGER NOT NULL,"
    "  registered_at INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE agent_tags ("
    "  agent TEXT NOT NULL REFERENCES agents ON DELETE CASCADE,"
    "  number INTEGER NOT NULL,"
    "  name TEXT NOT NULL,"
    "  value TEXT NOT NULL,"
    "  PRIMARY KEY (agent, number)"
    ") STRICT, WITHOUT ROWID;"

    /* History: outlives its job. */
    "CREATE TABLE operations ("
    "  id INTEGER PRIMARY KEY,"
    "  kind TEXT NOT NULL,"
    "  job TEXT NOT NULL,"
    "  job_incarnation TEXT NOT NULL,"
    "  state TEXT NOT NULL,"
    "  step TEXT NOT NULL,"
    "  reason TEXT,"
    "  error TEXT,"
    "  created_at INTEGER NOT NULL,"
    "  updated_at INTEGER NOT NULL"
    ") STRICT;"

    "CREATE TABLE events ("
    "  id INTEGER PRIMARY KEY,"
    "  at INTEGER NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  job TEXT,"
    "  processor INTEGER,"
    "  agent TEXT,"
    "  operation INTEGER,"
    "  actor TEXT NOT NULL,"
    "  detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_of_job ON events (job) WHERE job IS NOT NULL;"

    /* For people: offsets with the names of their topics. */
    "CREATE VIEW progress AS"
    "  SELECT o.job, o.processor, i.name AS topic, o.partition, o.t0, o.t1, o.t2, o.at"
    "  FROM offsets AS o LEFT JOIN job_inputs AS i ON i.job = o.job AND i.topic = o.topic;",

    /* ---- 2: hand-overs */

    "ALTER TABLE meta ADD COLUMN handoff_id INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE placements ADD COLUMN handoff INTEGER NOT NULL DEFAULT 0;" /* 0: none */
    "ALTER TABLE operations ADD COLUMN processor INTEGER;"
    "ALTER TABLE operations ADD COLUMN target TEXT;"

    /* Running ones, and history, which outlives its job. */
    "CREATE TABLE handoffs ("
    "  id INTEGER PRIMARY KEY,"
    "  kind TEXT NOT NULL,"
    "  job TEXT NOT NULL,"
    "  job_incarnation TEXT NOT NULL,"
    "  processor INTEGER NOT NULL,"
    "  partitions TEXT NOT NULL," /* JSON: [0, 4] */
    "  state TEXT NOT NULL,"
    "  forced INTEGER NOT NULL,"
    "  planned INTEGER NOT NULL,"
    "  source TEXT NOT NULL,"
    "  source_incarnation TEXT NOT NULL,"
    "  source_epoch INTEGER NOT NULL,"
    "  target TEXT NOT NULL,"
    "  target_incarnation TEXT NOT NULL,"
    "  target_epoch INTEGER NOT NULL," /* 0: not given yet */
    "  operation INTEGER NOT NULL,"    /* 0: none */
    "  reason TEXT NOT NULL,"
    "  error TEXT,"
    "  started_at INTEGER NOT NULL,"
    "  changed_at INTEGER NOT NULL,"
    "  stopped_at INTEGER,"
    "  learning_ms INTEGER,"
    "  caught_up_ms INTEGER,"
    "  releasing_ms INTEGER,"
    "  released_ms INTEGER,"
    "  activating_ms INTEGER,"
    "  output_gap_ms INTEGER"
    ") STRICT;"
    "CREATE INDEX handoffs_of_job ON handoffs (job);"

    /* Starts of agents and the jobs that they came to: open, they are owed processors. */
    "CREATE TABLE arrivals ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  agent TEXT NOT NULL REFERENCES agents ON DELETE CASCADE,"
    "  incarnation TEXT NOT NULL,"
    "  open INTEGER NOT NULL,"
    "  PRIMARY KEY (job, agent)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX arrivals_of_agent ON arrivals (agent);",

    /* ---- 3: agents bound how many processors learn there */

    "ALTER TABLE agents ADD COLUMN max_learners INTEGER NOT NULL DEFAULT 0;", /* 0: no limit */

    /* ---- 4: why an agent can not have what it came for */

    "ALTER TABLE arrivals ADD COLUMN refused TEXT;"
    "ALTER TABLE arrivals ADD COLUMN refused_detail TEXT;"
    "ALTER TABLE arrivals ADD COLUMN refused_processor INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE arrivals ADD COLUMN refused_at INTEGER NOT NULL DEFAULT 0;",

    /* ---- 5: agents can be cordoned */

    "ALTER TABLE agents ADD COLUMN cordoned INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agents ADD COLUMN cordon_reason TEXT;"
    "ALTER TABLE agents ADD COLUMN cordon_actor TEXT;"
    "ALTER TABLE agents ADD COLUMN cordon_changed_at INTEGER;", /* NULL: never */

    /* ---- 6: agents can be drained */

    "ALTER TABLE agents ADD COLUMN drain_state TEXT;" /* NULL: not asked to leave */
    "ALTER TABLE agents ADD COLUMN drain_on_deadline TEXT NOT NULL DEFAULT 'force';"
    "ALTER TABLE agents ADD COLUMN drain_until_restart INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agents ADD COLUMN drain_overdue INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agents ADD COLUMN drain_processors INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE agents ADD COLUMN drain_reason TEXT;"
    "ALTER TABLE agents ADD COLUMN drain_actor TEXT;"
    "ALTER TABLE agents ADD COLUMN drain_error TEXT;"
    "ALTER TABLE agents ADD COLUMN drain_deadline_ms INTEGER;" /* NULL: none, as the next */
    "ALTER TABLE agents ADD COLUMN drain_deadline_at INTEGER;"
    "ALTER TABLE agents ADD COLUMN drain_started_at INTEGER;"
    "ALTER TABLE agents ADD COLUMN drain_ended_at INTEGER;",

    /* ---- 7: standbys */

    "CREATE TABLE standbys ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  processor INTEGER NOT NULL,"
    "  agent TEXT NOT NULL REFERENCES agents ON DELETE CASCADE,"
    "  agent_incarnation TEXT NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  started_at INTEGER NOT NULL,"
    "  PRIMARY KEY (job, processor, agent)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX standbys_of_agent ON standbys (agent);",

    /* ---- 8: jobs can be paused, and planned hand-overs held back */

    "ALTER TABLE jobs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN pause_reason TEXT;"
    "ALTER TABLE jobs ADD COLUMN pause_actor TEXT;"
    "ALTER TABLE jobs ADD COLUMN pause_changed_at INTEGER;" /* NULL: never */
    "ALTER TABLE placements ADD COLUMN paused_t1 TEXT;" /* [topic,partition,T1] of each; NULL: none
                                                         */
    "CREATE TABLE maintenance ("
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  enabled INTEGER NOT NULL,"
    "  reason TEXT,"
    "  actor TEXT,"
    "  changed_at INTEGER"
    ") STRICT;",

    /* ---- 9: records are passed, and committed offsets chosen, by somebody's word */

    "CREATE TABLE skips ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  topic INTEGER NOT NULL,"
    "  partition INTEGER NOT NULL,"
    "  offset INTEGER NOT NULL,"
    "  processor INTEGER NOT NULL,"
    "  reason TEXT,"
    "  actor TEXT NOT NULL,"
    "  skipped_at INTEGER NOT NULL,"
    "  PRIMARY KEY (job, topic, partition, offset)"
    ") STRICT, WITHOUT ROWID;"
    "ALTER TABLE placements ADD COLUMN chosen TEXT;", /* [topic,partition,found,T1] of each; found
                                                         -1: none; NULL: nothing is chosen */

    /* ---- 10: jobs hold their outputs back while others are in their groups */

    "CREATE TABLE group_holds ("
    "  job TEXT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,"
    "  hold TEXT NOT NULL CHECK (hold IN ('frozen', 'waiting', 'starting')),"
    "  since_at INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;",

    /* ---- 11: expansions, each with the count that is wanted */

    "ALTER TABLE operations ADD COLUMN goal INTEGER;"
    "ALTER TABLE handoffs ADD COLUMN parent INTEGER;", /* of splits */

    /* ---- 12: partitions are expanded */

    "CREATE TABLE settle_windows ("
    "  job TEXT NOT NULL REFERENCES jobs ON DELETE CASCADE,"
    "  topic INTEGER NOT NULL,"
    "  partition INTEGER NOT NULL,"
    "  number INTEGER NOT NULL,"
    "  first_end INTEGER NOT NULL,"
    "  end INTEGER NOT NULL,"
    "  fence INTEGER," /* NULL: it is open */
    "  opened_at INTEGER NOT NULL,"
    "  closed_at INTEGER,"
    "  old_records INTEGER NOT NULL,"
    "  old_at INTEGER,"
    "  stale INTEGER NOT NULL,"
    "  PRIMARY KEY (job, topic, partition)"
    ") STRICT, WITHOUT ROWID;"
    "ALTER TABLE operations ADD COLUMN ends TEXT;", /* [topic,partition,end] of each; NULL: none */

    /* ---- 13: who asked for an operation; of expansions, the counts that they began and got to */

    "ALTER TABLE operations ADD COLUMN actor TEXT;"
    "ALTER TABLE operations ADD COLUMN count_before INTEGER;"
    "ALTER TABLE operations ADD COLUMN count_reached INTEGER;",

    /* ---- 14: processors inherit records of partitions that stay with others */

    "ALTER TABLE placements ADD COLUMN bounds TEXT;", /* [topic,partition,bound,records] of each;
                                                         records -1: not counted; NULL: none */

    /* ---- 15: whether a processor has ever been active; what is not known so is not settled */

    "ALTER TABLE placements ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;"
    "UPDATE placements SET settled = activated;",

    /* ---- 16: keys of what an expansion made are checked from its first record on */

    /* Not where `initial_partitions` was given: which of a topic's partitions were there before the
     * job is not told apart any more. */
    "UPDATE settle_windows SET first_end = 0 WHERE EXISTS (SELECT 1 FROM jobs WHERE name = job"
    " AND partition >= partitions_initial"
    " AND instr(spec, '\"initial_partitions\":0,\"partitioner\"') > 0);",
};

int store_schema_version(void)
{
    return (int)(sizeof(migrations) / sizeof(migrations[0]));
}

const char *store_schema_migration(int version)
{
    assert(version >= 1 && version <= store_schema_version());
    return migrations[version - 1];
}

const char *const store_names_step[] = {
    "commit_starts", "sample",      "close_tasks",       "fence", "queue", "hand_over", "even_out",
    "split",         "record_ends", "create_partitions", "end",   NULL};
const char *const store_names_kind[] = {"create_job", "delete_job",        "move",
                                        "rebalance",  "expand_processors", "expand_partitions",
                                        NULL};

#define OPERATION_COLUMNS                                                                          \
    "id, kind, job, job_incarnation, state, step, reason, error, created_at, updated_at,"          \
    " processor, target, goal, ends, actor, count_before, count_reached"
#define ARRIVAL_COLUMNS                                                                            \
    "job, agent, incarnation, open, refused, refused_detail, refused_processor, refused_at"

#define HANDOFF_COLUMNS                                                                            \
    "id, kind, job, job_incarnation, processor, partitions, state, forced, planned, source,"       \
    " source_incarnation, source_epoch, target, target_incarnation, target_epoch, operation,"      \
    " reason, error, started_at, changed_at, stopped_at, learning_ms, caught_up_ms,"               \
    " releasing_ms, released_ms, activating_ms, output_gap_ms, parent"
#define WINDOW_COLUMNS                                                                             \
    "job, topic, partition, number, first_end, end, fence, opened_at, closed_at, old_records, "    \
    "old_at, stale"
#define EVENT_COLUMNS "id, at, kind, job, processor, agent, operation, actor, detail"
#define UNFINISHED    "state IN ('pending', 'running')"
#define ENDED         "state IN ('done', 'cancelled', 'failed')"

static const char *const statements[STORE_STATEMENT_COUNT] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",

    [STORE_META_PUT] = "INSERT INTO meta (id, cluster, start_number, decision, epoch, event_id,"
                       " operation_id, handoff_id) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                       " ON CONFLICT (id) DO UPDATE SET cluster = ?1, start_number = ?2,"
                       " decision = ?3, epoch = ?4, event_id = ?5, operation_id = ?6,"
                       " handoff_id = ?7",
    [STORE_META_GET] = "SELECT cluster, start_number, decision, epoch, event_id, operation_id,"
                       " handoff_id FROM meta",

    /* An upsert, not a replacement: that would take the rows of the other tables along. */
    [STORE_JOB_PUT] =
        "INSERT INTO jobs (name, incarnation, state, generation, created_at, group_id,"
        " partitions_initial, partitions, processors_initial, processors, map_version,"
        " partitioner, partitioner_reason, operation, spec, paused, pause_reason, pause_actor,"
        " pause_changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,"
        " ?15, ?16, ?17, ?18, ?19)"
        " ON CONFLICT (name) DO UPDATE SET incarnation = ?2, state = ?3, generation = ?4,"
        " created_at = ?5, group_id = ?6, partitions_initial = ?7, partitions = ?8,"
        " processors_initial = ?9, processors = ?10, map_version = ?11, partitioner = ?12,"
        " partitioner_reason = ?13, operation = ?14, spec = ?15, paused = ?16,"
        " pause_reason = ?17, pause_actor = ?18, pause_changed_at = ?19",
    [STORE_JOB_REMOVE] = "DELETE FROM jobs WHERE name = ?1",
    [STORE_JOB_LIST] = "SELECT name, incarnation, state, generation, created_at,"
                       " partitions_initial, partitions, processors_initial, processors,"
                       " map_version, partitioner, partitioner_reason, operation, spec, paused,"
                       " pause_reason, pause_actor, pause_changed_at"
                       " FROM jobs ORDER BY name",
    [STORE_INPUT_PUT] = "INSERT INTO job_inputs (job, topic, name) VALUES (?1, ?2, ?3)"
                        " ON CONFLICT (job, topic) DO UPDATE SET name = ?3",
    [STORE_WARNINGS_CLEAR] = "DELETE FROM job_warnings WHERE job = ?1",
    [STORE_WARNING_PUT] = "INSERT INTO job_warnings (job, number, warning) VALUES (?1, ?2, ?3)",
    [STORE_WARNING_LIST] = "SELECT warning FROM job_warnings WHERE job = ?1 ORDER BY number",
    [STORE_ORIGIN_COUNT] = "SELECT count(*) FROM origins WHERE job = ?1",
    [STORE_ORIGIN_PUT] = "INSERT OR IGNORE INTO origins (job, topic, partition, t0, start)"
                         " VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    [STORE_ORIGIN_LIST] = "SELECT topic, partition, t0, start FROM origins WHERE job = ?1"
                          " ORDER BY topic, partition",

    [STORE_PLACEMENT_PUT] =
        "INSERT INTO placements (job, processor, agent, agent_incarnation, epoch, activated,"
        " trouble, reason, changed_at, handoff, paused_t1, chosen, bounds, settled)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
        " ON CONFLICT (job, processor) DO UPDATE SET agent = ?3, agent_incarnation = ?4,"
        " epoch = ?5, activated = ?6, trouble = ?7, reason = ?8, changed_at = ?9, handoff = ?10,"
        " paused_t1 = ?11, chosen = ?12, bounds = ?13, settled = ?14",
    [STORE_PLACEMENT_LIST] = "SELECT job, processor, agent, agent_incarnation, epoch, activated,"
                             " trouble, reason, changed_at, handoff, paused_t1, chosen, bounds,"
                             " settled"
                             " FROM placements",
    [STORE_OFFSETS_CLEAR] = "DELETE FROM offsets WHERE job = ?1 AND processor = ?2",
    [STORE_OFFSET_PUT] = "INSERT INTO offsets (job, processor, topic, partition, t0, t1, t2, at)"
                         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
                         " ON CONFLICT (job, processor, topic, partition)"
                         " DO UPDATE SET t0 = ?5, t1 = ?6, t2 = ?7, at = ?8",
    [STORE_OFFSET_LIST] = "SELECT topic, partition, t0, t1, t2, at, job, processor FROM offsets"
                          " ORDER BY job, processor, topic, partition",

    [STORE_AGENT_PUT] =
        "INSERT INTO agents (agent_id, incarnation, state, version, address, protocol, capacity,"
        " registered_at, max_learners, cordoned, cordon_reason, cordon_actor, cordon_changed_at,"
        " drain_state, drain_on_deadline, drain_until_restart, drain_overdue, drain_processors,"
        " drain_reason, drain_actor, drain_error, drain_deadline_ms, drain_deadline_at,"
        " drain_started_at, drain_ended_at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21, ?22, ?23, ?24, ?25)"
        " ON CONFLICT (agent_id) DO UPDATE SET incarnation = ?2, state = ?3, version = ?4,"
        " address = ?5, protocol = ?6, capacity = ?7, registered_at = ?8, max_learners = ?9,"
        " cordoned = ?10, cordon_reason = ?11, cordon_actor = ?12, cordon_changed_at = ?13,"
        " drain_state = ?14, drain_on_deadline = ?15, drain_until_restart = ?16,"
        " drain_overdue = ?17, drain_processors = ?18, drain_reason = ?19, drain_actor = ?20,"
        " drain_error = ?21, drain_deadline_ms = ?22, drain_deadline_at = ?23,"
        " drain_started_at = ?24, drain_ended_at = ?25",
    [STORE_AGENT_REMOVE] = "DELETE FROM agents WHERE agent_id = ?1",
    [STORE_AGENT_LIST] = "SELECT agent_id, incarnation, state, version, address, protocol,"
                         " capacity, registered_at, max_learners, cordoned, cordon_reason,"
                         " cordon_actor, cordon_changed_at, drain_state, drain_on_deadline,"
                         " drain_until_restart, drain_overdue, drain_processors, drain_reason,"
                         " drain_actor, drain_error, drain_deadline_ms, drain_deadline_at,"
                         " drain_started_at, drain_ended_at FROM agents",
    [STORE_TAGS_CLEAR] = "DELETE FROM agent_tags WHERE agent = ?1",
    [STORE_TAG_PUT] = "INSERT INTO agent_tags (agent, number, name, value)"
                      " VALUES (?1, ?2, ?3, ?4)",
    [STORE_TAG_LIST] = "SELECT name, value FROM agent_tags WHERE agent = ?1 ORDER BY number",

    [STORE_OPERATION_PUT] =
        "INSERT INTO operations (" OPERATION_COLUMNS ")"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
        " ON CONFLICT (id) DO UPDATE SET kind = ?2, job = ?3, job_incarnation = ?4, state = ?5,"
        " step = ?6, reason = ?7, error = ?8, created_at = ?9, updated_at = ?10,"
        " processor = ?11, target = ?12, goal = ?13, ends = ?14, actor = ?15,"
        " count_before = ?16, count_reached = ?17",
    [STORE_OPERATION_LIST] =
        "SELECT " OPERATION_COLUMNS " FROM operations WHERE " UNFINISHED
        " OR id IN (SELECT id FROM operations WHERE NOT " UNFINISHED " ORDER BY id DESC LIMIT ?1)",
    [STORE_OPERATION_GET] = "SELECT " OPERATION_COLUMNS " FROM operations WHERE id = ?1",
    [STORE_OPERATION_PAGE] = "SELECT " OPERATION_COLUMNS " FROM operations"
                             " WHERE id < ?1 AND (?2 IS NULL OR job = ?2)"
                             " AND (?3 IS NULL OR state = ?3) ORDER BY id DESC LIMIT ?4",
    /* The oldest finished ones of those that are too many, or from before ?3; ?2 at most of each.
     */
    [STORE_OPERATION_PRUNE] =
        "DELETE FROM operations WHERE id IN (SELECT id FROM operations WHERE NOT " UNFINISHED
        " ORDER BY id LIMIT min(?2, max(0, (SELECT count(*) FROM operations WHERE NOT " UNFINISHED
        ") - ?1))) OR id IN (SELECT id FROM (SELECT id, updated_at FROM operations WHERE"
        " NOT " UNFINISHED " ORDER BY id LIMIT ?2) WHERE updated_at < ?3)",

    /* All but the ends and times never change: a hand-over has few changes, so it is put whole. */
    [STORE_HANDOFF_PUT] =
        "INSERT OR REPLACE INTO handoffs (" HANDOFF_COLUMNS ")"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)",
    [STORE_HANDOFF_LIST] =
        "SELECT " HANDOFF_COLUMNS " FROM handoffs WHERE NOT " ENDED " ORDER BY id",
    [STORE_HANDOFF_GET] = "SELECT " HANDOFF_COLUMNS " FROM handoffs WHERE id = ?1",
    [STORE_HANDOFF_PAGE] = "SELECT " HANDOFF_COLUMNS " FROM handoffs"
                           " WHERE id < ?1 AND (?2 IS NULL OR job = ?2)"
                           " AND (?3 IS NULL OR state = ?3) ORDER BY id DESC LIMIT ?4",
    [STORE_HANDOFF_PRUNE] =
        "DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE " ENDED
        " ORDER BY id LIMIT min(?2, max(0, (SELECT count(*) FROM handoffs WHERE " ENDED ") - ?1)))"
        " OR id IN (SELECT id FROM (SELECT id, changed_at FROM handoffs WHERE " ENDED
        " ORDER BY id LIMIT ?2) WHERE changed_at < ?3)",

    [STORE_GROUP_HOLD_PUT] = "INSERT OR REPLACE INTO group_holds (job, hold, since_at)"
                             " VALUES (?1, ?2, ?3)",
    [STORE_GROUP_HOLD_REMOVE] = "DELETE FROM group_holds WHERE job = ?1",
    [STORE_GROUP_HOLD_GET] = "SELECT hold, since_at FROM group_holds WHERE job = ?1",

    [STORE_MAINTENANCE_PUT] = "INSERT OR REPLACE INTO maintenance (id, enabled, reason, actor,"
                              " changed_at) VALUES (1, ?1, ?2, ?3, ?4)",
    [STORE_MAINTENANCE_GET] = "SELECT enabled, reason, actor, changed_at FROM maintenance",

    [STORE_ARRIVAL_PUT] = "INSERT OR REPLACE INTO arrivals (" ARRIVAL_COLUMNS ")"
                          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [STORE_ARRIVAL_LIST] = "SELECT " ARRIVAL_COLUMNS " FROM arrivals",

    [STORE_STANDBY_PUT] = "INSERT OR REPLACE INTO standbys (job, processor, agent,"
                          " agent_incarnation, reason, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [STORE_STANDBY_REMOVE] =
        "DELETE FROM standbys WHERE job = ?1 AND processor = ?2 AND agent = ?3",
    [STORE_STANDBY_LIST] = "SELECT job, processor, agent, agent_incarnation, reason, started_at"
                           " FROM standbys",

    [STORE_SKIP_PUT] = "INSERT OR REPLACE INTO skips (job, topic, partition, offset, processor,"
                       " reason, actor, skipped_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [STORE_SKIP_LIST] = "SELECT job, topic, partition, offset, processor, reason, actor, skipped_at"
                        " FROM skips",

    [STORE_WINDOW_PUT] = "INSERT OR REPLACE INTO settle_windows (" WINDOW_COLUMNS ")"
                         " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    [STORE_WINDOW_LIST] = "SELECT " WINDOW_COLUMNS " FROM settle_windows",

    [STORE_EVENT_PUT] = "INSERT INTO events (" EVENT_COLUMNS ")"
                        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [STORE_EVENT_PAGE] = "SELECT " EVENT_COLUMNS " FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
    [STORE_EVENT_PAGE_OF_JOB] = "SELECT " EVENT_COLUMNS " FROM events WHERE job = ?3 AND id > ?1"
                                " ORDER BY id LIMIT ?2",
    [STORE_EVENT_LAST] = "SELECT * FROM (SELECT " EVENT_COLUMNS " FROM events WHERE id > ?1"
                         " ORDER BY id DESC LIMIT ?2) ORDER BY id",
    [STORE_EVENT_LAST_OF_JOB] = "SELECT * FROM (SELECT " EVENT_COLUMNS " FROM events"
                                " WHERE job = ?3 AND id > ?1 ORDER BY id DESC LIMIT ?2)"
                                " ORDER BY id",
    /* Ids have no gaps, so the newest one says how many there are. */
    [STORE_EVENT_PRUNE] = "DELETE FROM events WHERE id < (SELECT min(id) FROM events) + ?2"
                          " AND (id <= (SELECT max(id) FROM events) - ?1 OR at < ?3)",
};

const char *store_schema_statement(enum store_statement statement)
{
    assert(statements[statement] != NULL);
    return statements[statement];
}
