/*
 * sessionize: an example of a baton plugin. It groups the records of a key (a user, a device, ...)
 * into sessions: records whose timestamps are at most `gap_ms` apart belong together. Records may
 * come late: one that falls between two sessions joins them.
 *
 * Config (all optional):
 *   gap_ms        1..86400000, default 1800000 (30 minutes)
 *   max_sessions  1..1000, default 100: sessions a key keeps open; when there are more, the one
 *                 that began first is closed
 *
 * For each record it emits the session that the record went to, as JSON under the record's key.
 * `session` is its start and identifies it, so a consumer keeps the last output of each (key,
 * session):
 *   {"session":1000,"end":2500,"events":3}
 * and when sessions grow together, first one for each that is no more:
 *   {"session":2000,"merged_into":1000}
 *
 * State: one row a session. The subkey is its start (8 bytes, big-endian, so that iterate visits
 * sessions in the order of time), the value its end and its number of events (8 bytes each).
 *
 * It includes nothing of baton but the one header, and is built into a shared object of its own;
 * see README.md.
 */
#include "baton/processor.h" /* a link into the tree here; elsewhere the installed header */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN_VERSION "1"

#define GAP_MS_DEFAULT       1800000
#define GAP_MS_MOST          86400000
#define MAX_SESSIONS_DEFAULT 100
#define MAX_SESSIONS_MOST    1000

#define NUMBER_BYTES ((size_t)8)
#define OUTPUT_BYTES 128 /* the longest output has three numbers of 20 digits */

/* One a task. What process() may use besides record and state: config only, nothing that it changes
 * itself. */
struct sessionize {
    int64_t gap_ms;
    int64_t max_sessions;
};

/* ---- config ---------------------------------------------------------------------------------- */

/* Where the number of config key `name` goes, and how large it may be; NULL when there is no such
 * key. */
static int64_t *find_key(struct sessionize *sessionize, const char *name, size_t length,
                         int64_t *ret_most)
{
    if (length == strlen("gap_ms") && strncmp(name, "gap_ms", length) == 0) {
        *ret_most = GAP_MS_MOST;
        return &sessionize->gap_ms;
    }
    if (length == strlen("max_sessions") && strncmp(name, "max_sessions", length) == 0) {
        *ret_most = MAX_SESSIONS_MOST;
        return &sessionize->max_sessions;
    }
    return NULL;
}

/* One `"name":number`; returns what follows it, or NULL with a text in `error`. */
static const char *parse_pair(struct sessionize *sessionize, const char *at, char *error,
                              size_t error_bytes)
{
    const char *name = at + 1;
    size_t length = *at == '"' ? strcspn(name, "\"") : 0;
    int64_t *number;
    int64_t most;
    char *end;

    if (length == 0 || name[length] == '\0' || name[length + 1] != ':') {
        snprintf(error, error_bytes, "the config must be an object of gap_ms and max_sessions");
        return NULL;
    }
    number = find_key(sessionize, name, length, &most);
    if (number == NULL) {
        snprintf(error, error_bytes, "unknown key \"%.*s\": there are gap_ms and max_sessions",
                 (int)(length < 64 ? length : 64), name);
        return NULL;
    }
    at = name + length + 2;
    errno = 0;
    *number = strtoll(at, &end, 10);
    if (end == at || errno != 0 || *number < 1 || *number > most || (*end != ',' && *end != '}')) {
        snprintf(error, error_bytes, "%.*s must be a whole number, 1 to %" PRId64, (int)length,
                 name, most);
        return NULL;
    }
    return end;
}

/*
 * The agent hands over JSON that is valid and has no white space, so two keys with numbers need no
 * JSON library. A plugin with a richer config links one.
 */
static bool parse_config(struct sessionize *sessionize, const char *config, char *error,
                         size_t error_bytes)
{
    const char *at = config;

    if (strcmp(config, "{}") == 0)
        return true;
    while (*at == (at == config ? '{' : ',')) {
        at = parse_pair(sessionize, at + 1, error, error_bytes);
        if (at == NULL)
            return false;
    }
    if (strcmp(at, "}") == 0)
        return true;
    snprintf(error, error_bytes, "the config must be an object of gap_ms and max_sessions");
    return false;
}

static enum baton_status sessionize_create(const char *config, void **ret_instance, char *error,
                                           size_t error_bytes)
{
    struct sessionize *sessionize = malloc(sizeof(*sessionize));

    if (sessionize == NULL) {
        snprintf(error, error_bytes, "out of memory");
        return BATON_PROCESSOR_ERROR;
    }
    sessionize->gap_ms = GAP_MS_DEFAULT;
    sessionize->max_sessions = MAX_SESSIONS_DEFAULT;
    if (!parse_config(sessionize, config, error, error_bytes)) {
        free(sessionize);
        return BATON_PROCESSOR_ERROR;
    }
    *ret_instance = sessionize;
    return BATON_PROCESSOR_OK;
}

static void sessionize_destroy(void *instance)
{
    free(instance);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct session {
    int64_t start_ms, end_ms;
    int64_t events;
};

static void store_number(int64_t number, unsigned char *bytes)
{
    uint64_t bits = (uint64_t)number;

    for (size_t i = NUMBER_BYTES; i-- > 0; bits >>= 8)
        bytes[i] = (unsigned char)bits;
}

static int64_t load_number(const unsigned char *bytes)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < NUMBER_BYTES; i++)
        bits = bits << 8 | bytes[i];
    return (int64_t)bits;
}

static enum baton_status put_session(struct baton_context *context, const struct session *session)
{
    unsigned char subkey[NUMBER_BYTES];
    unsigned char value[2 * NUMBER_BYTES];
    struct baton_bytes subkey_bytes = {subkey, sizeof(subkey)};
    struct baton_bytes value_bytes = {value, sizeof(value)};

    store_number(session->start_ms, subkey);
    store_number(session->end_ms, value);
    store_number(session->events, value + NUMBER_BYTES);
    return context->operations->put(context, subkey_bytes, value_bytes);
}

static enum baton_status del_session(struct baton_context *context, int64_t start_ms)
{
    unsigned char subkey[NUMBER_BYTES];
    struct baton_bytes subkey_bytes = {subkey, sizeof(subkey)};

    store_number(start_ms, subkey);
    return context->operations->del(context, subkey_bytes);
}

/* ---- which sessions does a record touch? ----------------------------------------------------- */

struct search {
    int64_t from_ms, to_ms; /* sessions that reach into this belong to the record's */
    /* Two at most: sessions are more than gap_ms apart, and the range is 2 * gap_ms wide. */
    struct session touched[2];
    size_t touched_count;
    int64_t untouched_count;
    int64_t oldest_ms; /* start of the first untouched one */
};

/* Called for each session of the key, in the order of their starts. It may not call the context: it
 * only takes notes. */
static enum baton_status visit_session(void *arg, struct baton_bytes subkey,
                                       struct baton_bytes value)
{
    struct search *search = arg;
    struct session session;

    if (subkey.bytes != NUMBER_BYTES || value.bytes != 2 * NUMBER_BYTES)
        return BATON_PROCESSOR_IO;
    session.start_ms = load_number(subkey.data);
    session.end_ms = load_number(value.data);
    session.events = load_number((const unsigned char *)value.data + NUMBER_BYTES);
    if (session.start_ms <= search->to_ms && session.end_ms >= search->from_ms) {
        if (search->touched_count == 2)
            return BATON_PROCESSOR_IO;
        search->touched[search->touched_count++] = session;
    } else if (search->untouched_count++ == 0) {
        search->oldest_ms = session.start_ms;
    }
    return BATON_PROCESSOR_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

static enum baton_status emit_text(struct baton_context *context, const struct baton_record *record,
                                   const char *text)
{
    struct baton_output output = {.key = record->key,
                                  .value = {.data = text, .bytes = strlen(text)}};

    return context->operations->emit(context, &output); /* with the input's headers and timestamp */
}

/* Takes the touched sessions into `session`: deletes their rows, and tells of those whose start is
 * not the new one's. */
static enum baton_status absorb(struct baton_context *context, const struct baton_record *record,
                                const struct search *search, struct session *session)
{
    char text[OUTPUT_BYTES];
    enum baton_status status = BATON_PROCESSOR_OK;

    for (size_t i = 0; i < search->touched_count; i++) {
        const struct session *old = &search->touched[i];

        if (old->start_ms < session->start_ms)
            session->start_ms = old->start_ms;
        if (old->end_ms > session->end_ms)
            session->end_ms = old->end_ms;
        session->events += old->events;
    }
    for (size_t i = 0; i < search->touched_count && status == BATON_PROCESSOR_OK; i++) {
        const struct session *old = &search->touched[i];

        status = del_session(context, old->start_ms);
        if (status != BATON_PROCESSOR_OK || old->start_ms == session->start_ms)
            continue;
        snprintf(text, sizeof(text), "{\"session\":%" PRId64 ",\"merged_into\":%" PRId64 "}",
                 old->start_ms, session->start_ms);
        status = emit_text(context, record, text);
    }
    return status;
}

/* Closes the session that began first when there are now too many, be it the record's own. */
static enum baton_status close_oldest(const struct sessionize *sessionize,
                                      struct baton_context *context, const struct search *search,
                                      const struct session *session)
{
    int64_t oldest_ms = session->start_ms;

    if (search->untouched_count + 1 <= sessionize->max_sessions)
        return BATON_PROCESSOR_OK;
    if (search->oldest_ms < oldest_ms)
        oldest_ms = search->oldest_ms;
    return del_session(context, oldest_ms);
}

static enum baton_status sessionize_process(void *instance, const struct baton_record *record,
                                            struct baton_context *context, char *error,
                                            size_t error_bytes)
{
    const struct sessionize *sessionize = instance;
    const int64_t at_ms = record->timestamp_ms;
    struct session session = {.start_ms = at_ms, .end_ms = at_ms, .events = 1};
    struct search search = {.touched_count = 0};
    char text[OUTPUT_BYTES];
    enum baton_status status;

    if (at_ms < 0 || at_ms > INT64_MAX - sessionize->gap_ms) {
        snprintf(error, error_bytes, "the record has no usable timestamp");
        return BATON_PROCESSOR_ERROR;
    }
    search.from_ms = at_ms - sessionize->gap_ms;
    search.to_ms = at_ms + sessionize->gap_ms;
    status = context->operations->iterate(context, visit_session, &search);
    if (status == BATON_PROCESSOR_OK)
        status = absorb(context, record, &search, &session);
    if (status == BATON_PROCESSOR_OK)
        status = put_session(context, &session);
    if (status == BATON_PROCESSOR_OK)
        status = close_oldest(sessionize, context, &search, &session);
    if (status != BATON_PROCESSOR_OK)
        return status; /* the agent drops what this call did so far */
    snprintf(text, sizeof(text),
             "{\"session\":%" PRId64 ",\"end\":%" PRId64 ",\"events\":%" PRId64 "}",
             session.start_ms, session.end_ms, session.events);
    return emit_text(context, record, text);
}

/* ---- what the agent looks for ---------------------------------------------------------------- */

const struct baton_processor *baton_processor_entry(void)
{
    static const struct baton_processor processor = {
        .abi = BATON_PROCESSOR_ABI,
        .flags = 0, /* a session needs all its records: compacted topics do not do */
        .name = "sessionize",
        .version = PLUGIN_VERSION,
        .create = sessionize_create,
        .process = sessionize_process,
        .destroy = sessionize_destroy,
    };

    return &processor;
}
