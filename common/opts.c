#include "common/opts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/opts_print.h"
#include "common/opts_value.h"
#include "common/strbuf.h"

#define FILE_BYTES_MAX  ((size_t)1 << 20)
#define LINE_BYTES_MAX  ((size_t)64 << 10)
#define KAFKA_PREFIX    "kafka."
#define KAFKA_COUNT_MAX 1000 /* librdkafka has about 200 */
#define NAME_BYTES_MAX  256
#define WHITE_SPACE     " \t\r\v\f"

/* "--name=value" or "--name value" of the command line. */
struct argument {
    char *name; /* allocated */
    const char *value;
};

/* What the command line asks for, before anything is carried out. */
struct command {
    const char *config; /* NULL: no file */
    const char *print;  /* "help", "version", "sample" or "markdown"; NULL: run */
    struct argument *arguments;
    size_t count;
    size_t capacity;
};

struct parser {
    const struct opts_entry *table;
    size_t count;
    void *options;
    struct opts_kafka *kafka;
    size_t kafka_capacity;
    bool *in_file; /* per entry of the table */
    bool *given;   /* per entry: in the file or on the command line */
};

static bool is_kafka(const char *name)
{
    return strncmp(name, KAFKA_PREFIX, strlen(KAFKA_PREFIX)) == 0;
}

static bool find_entry(const struct parser *parser, const char *name, size_t *ret_index)
{
    for (size_t i = 0; i < parser->count; i++) {
        if (strcmp(parser->table[i].name, name) == 0) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's edit distance; both names have at most NAME_BYTES_MAX bytes. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t length = strlen(b);

    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[length];
}

/* The name that was probably meant; NULL when none is near. */
static const char *nearest_name(const struct parser *parser, const char *name)
{
    size_t best_distance = strlen(name) / 3 + 1; /* more edits than that are another word */
    const char *best = NULL;

    for (size_t i = 0; i < parser->count; i++) {
        size_t distance = edit_distance(name, parser->table[i].name);
        if (distance <= best_distance && (best == NULL || distance < best_distance)) {
            best_distance = distance;
            best = parser->table[i].name;
        }
    }
    return best;
}

static enum err_code refuse_unknown(const struct parser *parser, const char *name,
                                    struct err *reterr)
{
    const char *nearest = nearest_name(parser, name);
    if (nearest != NULL)
        return err_set(reterr, ERR_INVALID, "there is no such option; did you mean %s?", nearest);
    return err_set(reterr, ERR_INVALID, "there is no such option; see --help");
}

static void kafka_remove(struct opts_kafka *kafka, size_t index)
{
    free(kafka->items[index].name);
    free(kafka->items[index].value);
    kafka->count--;
    memmove(&kafka->items[index], &kafka->items[index + 1],
            (kafka->count - index) * sizeof(kafka->items[0]));
}

/*
 * librdkafka has aliases (bootstrap.servers, metadata.broker.list), of which the one set last wins.
 * So a property of the command line does not take the place of the file's but comes after all of
 * them.
 */
static enum err_code kafka_add(struct parser *parser, const char *name, const char *value,
                               bool from_file, struct err *reterr)
{
    struct opts_kafka *kafka = parser->kafka;

    name += strlen(KAFKA_PREFIX);
    if (name[0] == '\0')
        return err_set(reterr, ERR_INVALID, "a property's name must follow \"kafka.\"");
    for (size_t i = 0; i < kafka->count; i++) {
        if (strcmp(kafka->items[i].name, name) != 0)
            continue;
        if (from_file)
            return err_set(reterr, ERR_INVALID, "is given twice in this file");
        kafka_remove(kafka, i);
        break;
    }
    if (kafka->count >= KAFKA_COUNT_MAX)
        return err_set(reterr, ERR_LIMIT, "more than %d kafka.* properties", KAFKA_COUNT_MAX);
    kafka->items =
        mem_grow(kafka->items, kafka->count, &parser->kafka_capacity, sizeof(kafka->items[0]));
    kafka->items[kafka->count].name = mem_strdup(name);
    kafka->items[kafka->count].value = mem_strdup(value);
    kafka->count++;
    return ERR_NONE;
}

static enum err_code set_option(struct parser *parser, const char *name, const char *value,
                                bool from_file, struct err *reterr)
{
    size_t index;

    if (is_kafka(name))
        return kafka_add(parser, name, value, from_file, reterr);
    if (!find_entry(parser, name, &index))
        return refuse_unknown(parser, name, reterr);
    if (from_file && parser->in_file[index])
        return err_set(reterr, ERR_INVALID, "is given twice in this file");
    parser->in_file[index] = parser->in_file[index] || from_file;
    parser->given[index] = true;
    return opts_value_set(&parser->table[index], value, parser->options, reterr);
}

static char *trim(char *text)
{
    text += strspn(text, WHITE_SPACE);
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(WHITE_SPACE, text[bytes - 1]) != NULL)
        bytes--;
    text[bytes] = '\0';
    return text;
}

/* Errors do not repeat the line: what is not understood may be a password. */
static enum err_code parse_line(struct parser *parser, char *line, struct err *reterr)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#' || line[0] == '!')
        return ERR_NONE;
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return err_set(reterr, ERR_INVALID, "expected \"name = value\"");
    *equals = '\0';
    char *name = trim(line);
    char *value = trim(equals + 1);
    if (name[0] == '\0')
        return err_set(reterr, ERR_INVALID, "expected a name before \"=\"");
    if (strlen(name) > NAME_BYTES_MAX)
        return err_set(reterr, ERR_LIMIT, "the name has more than %d bytes", NAME_BYTES_MAX);

    enum err_code code = set_option(parser, name, value, true, reterr);
    return code == ERR_NONE ? ERR_NONE : err_prefix(reterr, "%s", name);
}

static enum err_code parse_text(struct parser *parser, const char *file, struct strbuf *text,
                                struct err *reterr)
{
    char *at = text->data;
    size_t left = text->bytes;

    for (unsigned number = 1; left > 0; number++) {
        char *newline = memchr(at, '\n', left);
        size_t bytes = newline == NULL ? left : (size_t)(newline - at);
        enum err_code code;
        at[bytes] = '\0'; /* the newline, or the buffer's own end */
        if (bytes > LINE_BYTES_MAX)
            code = err_set(reterr, ERR_LIMIT, "the line has more than %zu bytes", LINE_BYTES_MAX);
        else if (memchr(at, '\0', bytes) != NULL)
            code = err_set(reterr, ERR_INVALID, "the line holds a NUL byte");
        else
            code = parse_line(parser, at, reterr);
        if (code != ERR_NONE)
            return err_prefix(reterr, "%s:%u", file, number);
        at += bytes;
        left -= bytes;
        if (newline != NULL) {
            at++;
            left--;
        }
    }
    return ERR_NONE;
}

static enum err_code fail_errno(const char *file, struct err *reterr)
{
    int cause = errno;
    (void)err_set(reterr, ERR_IO, "can not read the configuration file %s: %s", file,
                  strerror(cause)); /* returned below, with the cause */
    reterr->detail = cause;
    return ERR_IO;
}

static enum err_code read_descriptor(int fd, const char *file, struct strbuf *text,
                                     struct err *reterr)
{
    char block[4096];

    for (;;) {
        ssize_t got = read(fd, block, sizeof(block));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(file, reterr);
        if (got == 0)
            return ERR_NONE;
        if ((size_t)got > FILE_BYTES_MAX - text->bytes)
            return err_set(reterr, ERR_LIMIT, "the configuration file %s has more than %zu bytes",
                           file, FILE_BYTES_MAX);
        strbuf_add(text, block, (size_t)got);
    }
}

static enum err_code parse_file(struct parser *parser, const char *file, struct err *reterr)
{
    struct strbuf text = {0};
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_errno(file, reterr);
    enum err_code code = read_descriptor(fd, file, &text, reterr);
    (void)close(fd); /* only read from */
    if (code == ERR_NONE)
        code = parse_text(parser, file, &text, reterr);
    strbuf_finish(&text);
    return code;
}

/* Splits argument *index and moves *index to the last one used. The texts stay in argv, but for the
 * name. */
static enum err_code split_argument(int argc, char **argv, int *index, struct argument *ret_split,
                                    struct err *reterr)
{
    const char *text = argv[*index];

    /* Not repeated in the error: it may be the rest of a password that was not quoted. */
    if (strncmp(text, "--", 2) != 0 || text[2] == '\0' || text[2] == '=')
        return err_set(reterr, ERR_INVALID,
                       "argument %d is not of the form --name=value; see --help", *index);
    text += 2;
    size_t bytes = strcspn(text, "=");
    if (bytes > NAME_BYTES_MAX)
        return err_set(reterr, ERR_LIMIT, "argument %d: the name has more than %d bytes", *index,
                       NAME_BYTES_MAX);
    const char *value = NULL;
    if (text[bytes] == '=') {
        value = text + bytes + 1;
    } else if (strcmp(text, "help") != 0 && strcmp(text, "version") != 0) {
        if (*index + 1 >= argc || strncmp(argv[*index + 1], "--", 2) == 0)
            return err_set(reterr, ERR_INVALID, "--%s needs a value: --%s=value", text, text);
        *index += 1;
        value = argv[*index];
    }
    *ret_split = (struct argument){.name = mem_memdup(text, bytes + 1), .value = value};
    ret_split->name[bytes] = '\0';
    return ERR_NONE;
}

/* True when the argument is one that every program has; it is noted in `command` or refused then.
 */
static bool note_builtin(struct command *command, const struct argument *split,
                         enum err_code *ret_code, struct err *reterr)
{
    *ret_code = ERR_NONE;
    if (strcmp(split->name, "help") == 0 || strcmp(split->name, "version") == 0) {
        if (split->value != NULL)
            *ret_code = err_set(reterr, ERR_INVALID, "--%s takes no value", split->name);
        else
            command->print = strcmp(split->name, "help") == 0 ? "help" : "version";
        return true;
    }
    assert(split->value != NULL); /* only those two go without */
    if (strcmp(split->name, "print-options") == 0) {
        if (strcmp(split->value, "sample") != 0 && strcmp(split->value, "markdown") != 0)
            *ret_code = err_set(reterr, ERR_INVALID, "--print-options: must be sample or markdown");
        else
            command->print = split->value;
        return true;
    }
    if (strcmp(split->name, "config") == 0) {
        if (command->config != NULL)
            *ret_code = err_set(reterr, ERR_INVALID, "--config: is given twice");
        else
            command->config = split->value;
        return true;
    }
    return false;
}

static enum err_code read_command(int argc, char **argv, struct command *command,
                                  struct err *reterr)
{
    for (int i = 1; i < argc; i++) {
        struct argument split = {0};
        enum err_code code = split_argument(argc, argv, &i, &split, reterr);
        if (code != ERR_NONE)
            return code;
        assert(split.name != NULL);
        if (note_builtin(command, &split, &code, reterr)) {
            free(split.name);
            if (code != ERR_NONE)
                return code;
            continue;
        }
        command->arguments = mem_grow(command->arguments, command->count, &command->capacity,
                                      sizeof(command->arguments[0]));
        command->arguments[command->count++] = split;
    }
    return ERR_NONE;
}

static void finish_command(struct command *command)
{
    for (size_t i = 0; i < command->count; i++)
        free(command->arguments[i].name);
    free(command->arguments);
}

static void set_defaults(struct parser *parser)
{
    for (size_t i = 0; i < parser->count; i++) {
        const struct opts_entry *entry = &parser->table[i];
        assert(!is_kafka(entry->name));
        assert(strlen(entry->name) <= NAME_BYTES_MAX);
        assert(entry->min <= entry->max);
        if (entry->fallback == NULL)
            continue;
        enum err_code code = opts_value_set(entry, entry->fallback, parser->options, NULL);
        assert(code == ERR_NONE); /* a default that its own table refuses */
    }
}

static enum err_code check_required(const struct parser *parser, struct err *reterr)
{
    for (size_t i = 0; i < parser->count; i++) {
        const char *name = parser->table[i].name;
        if (parser->table[i].fallback == NULL && !parser->given[i])
            return err_set(reterr, ERR_INVALID,
                           "%s is required: give --%s=value or a line \"%s = value\" in the file "
                           "of --config",
                           name, name, name);
    }
    return ERR_NONE;
}

static enum err_code fill(struct parser *parser, const struct command *command, struct err *reterr)
{
    set_defaults(parser);
    if (command->config != NULL) {
        enum err_code code = parse_file(parser, command->config, reterr);
        if (code != ERR_NONE)
            return code;
    }
    for (size_t i = 0; i < command->count; i++) {
        const struct argument *argument = &command->arguments[i];
        enum err_code code = set_option(parser, argument->name, argument->value, false, reterr);
        if (code != ERR_NONE)
            return err_prefix(reterr, "--%s", argument->name);
    }
    return check_required(parser, reterr);
}

static enum err_code print(const struct opts_entry *table, size_t count, const char *program,
                           const char *version, const char *what, FILE *out, struct err *reterr)
{
    struct strbuf text = {0};

    if (strcmp(what, "help") == 0)
        opts_print_help(table, count, program, &text);
    else if (strcmp(what, "version") == 0)
        strbuf_printf(&text, "%s %s\n", program, version);
    else if (strcmp(what, "sample") == 0)
        opts_print_sample(table, count, program, &text);
    else
        opts_print_markdown(table, count, &text);
    bool written = fputs(strbuf_text(&text), out) != EOF && fflush(out) == 0;
    strbuf_finish(&text);
    if (!written)
        return err_set(reterr, ERR_IO, "can not write: %s", strerror(errno));
    return ERR_NONE;
}

static enum err_code parse(const struct opts_entry *table, size_t count,
                           const struct command *command, void *options, struct opts_kafka *kafka,
                           struct err *reterr)
{
    struct parser parser = {.table = table,
                            .count = count,
                            .options = options,
                            .kafka = kafka,
                            .in_file = mem_calloc(count, sizeof(bool)),
                            .given = mem_calloc(count, sizeof(bool))};
    *kafka = (struct opts_kafka){0};
    enum err_code code = fill(&parser, command, reterr);
    if (code != ERR_NONE)
        opts_finish(table, count, options, kafka);
    free(parser.in_file);
    free(parser.given);
    return code;
}

enum err_code opts_parse(const struct opts_entry *table, size_t count, const char *program,
                         const char *version, int argc, char **argv, FILE *out, void *ret_options,
                         struct opts_kafka *ret_kafka, enum opts_outcome *ret_outcome,
                         struct err *reterr)
{
    struct command command = {0};
    struct err err; /* own, since errors are prefixed on their way and reterr may be NULL */
    enum opts_outcome outcome = OPTS_RUN;

    enum err_code code = read_command(argc, argv, &command, &err);
    if (code == ERR_NONE && command.print != NULL) {
        outcome = OPTS_EXIT;
        *ret_kafka = (struct opts_kafka){0}; /* so that opts_finish is fine */
        code = print(table, count, program, version, command.print, out, &err);
    } else if (code == ERR_NONE) {
        code = parse(table, count, &command, ret_options, ret_kafka, &err);
    }
    finish_command(&command);

    if (code == ERR_NONE)
        *ret_outcome = outcome;
    else if (reterr != NULL)
        *reterr = err;
    return code;
}

void opts_finish(const struct opts_entry *table, size_t count, void *options,
                 struct opts_kafka *kafka)
{
    for (size_t i = 0; i < count; i++)
        opts_value_clear(&table[i], options);
    for (size_t i = 0; i < kafka->count; i++) {
        free(kafka->items[i].name);
        free(kafka->items[i].value);
    }
    free(kafka->items);
    *kafka = (struct opts_kafka){0};
}
