#include "common/opts_print.h"

#include <string.h>

#include "common/opts_value.h"

#define LINE_BYTES_MAX 79

/* A secret's default is not shown either, so that no table can leak one by mistake. */
static const char *shown_default(const struct opts_entry *entry)
{
    return entry->secret || entry->fallback == NULL ? "" : entry->fallback;
}

/* "Port to listen on. Required: a whole number from 1 to 65535." */
static void print_meaning(const struct opts_entry *entry, struct strbuf *buf)
{
    strbuf_puts(buf, entry->help);
    if (entry->fallback == NULL)
        strbuf_puts(buf, " Required: ");
    else if (shown_default(entry)[0] == '\0')
        strbuf_puts(buf, " Allowed: ");
    else
        strbuf_printf(buf, " Default %s; allowed: ", entry->fallback);
    opts_value_describe(entry, buf);
    strbuf_puts(buf, ".");
}

/* Breaks `text` at spaces; each line starts with `indent`. A longer word gets a line of its own. */
static void print_wrapped(const char *text, const char *indent, struct strbuf *buf)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > LINE_BYTES_MAX) {
            strbuf_puts(buf, "\n");
            column = 0;
        }
        if (column == 0) {
            strbuf_puts(buf, indent);
            column = strlen(indent);
        } else {
            strbuf_puts(buf, " ");
            column++;
        }
        strbuf_add(buf, text, word);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    strbuf_puts(buf, "\n");
}

static void print_entry(const struct opts_entry *entry, const char *indent, struct strbuf *buf)
{
    struct strbuf meaning = {0};
    print_meaning(entry, &meaning);
    print_wrapped(strbuf_text(&meaning), indent, buf);
    strbuf_finish(&meaning);
}

void opts_print_help(const struct opts_entry *table, size_t count, const char *program,
                     struct strbuf *buf)
{
    const char *indent = "        ";

    strbuf_printf(buf, "Usage: %s [--config FILE] [--NAME=VALUE | --NAME VALUE]...\n\n", program);
    strbuf_puts(buf, "  --config FILE\n");
    print_wrapped("Read \"name = value\" lines from FILE. Options on the command line win over the "
                  "file.",
                  indent, buf);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf(buf, "  --%s=%s\n", table[i].name, opts_value_type(table[i].type));
        print_entry(&table[i], indent, buf);
    }
    strbuf_puts(buf, "  --kafka.NAME=VALUE\n");
    print_wrapped("Any property of librdkafka, such as --kafka.security.protocol=ssl. Passwords "
                  "belong into the file: others can read the command line.",
                  indent, buf);
    strbuf_puts(buf, "  --print-options=sample|markdown\n");
    print_wrapped("Print every option as a sample file or as a table, and exit.", indent, buf);
    strbuf_puts(buf, "  --help, --version\n");
    print_wrapped("Print this text or the version, and exit.", indent, buf);
}

void opts_print_sample(const struct opts_entry *table, size_t count, const char *program,
                       struct strbuf *buf)
{
    strbuf_printf(buf, "# Options of %s, for --config FILE.\n", program);
    print_wrapped("One \"name = value\" in a line. White space around name and value is cut, the "
                  "rest of the line is the value as it stands: no quotes, no comment behind it.",
                  "# ", buf);
    for (size_t i = 0; i < count; i++) {
        strbuf_puts(buf, "\n");
        print_entry(&table[i], "# ", buf);
        strbuf_printf(buf, "#%s =", table[i].name);
        if (shown_default(&table[i])[0] != '\0')
            strbuf_printf(buf, " %s", table[i].fallback);
        strbuf_puts(buf, "\n");
    }
    strbuf_puts(buf, "\n# Names that start with \"kafka.\" are passed on to librdkafka, such as:\n"
                     "#kafka.bootstrap.servers = broker1:9092,broker2:9092\n"
                     "#kafka.security.protocol = ssl\n");
}

/* A bar would end the cell. */
static void print_cell(const char *text, struct strbuf *buf)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            strbuf_puts(buf, "\\");
        strbuf_add(buf, text, 1);
    }
}

void opts_print_markdown(const struct opts_entry *table, size_t count, struct strbuf *buf)
{
    strbuf_puts(buf, "| Name | Default | Allowed | Meaning |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < count; i++) {
        struct strbuf allowed = {0};
        const char *value = shown_default(&table[i]);
        opts_value_describe(&table[i], &allowed);
        strbuf_printf(buf, "| `%s` | ", table[i].name);
        if (table[i].fallback == NULL)
            strbuf_puts(buf, "required");
        else if (value[0] != '\0')
            strbuf_printf(buf, "`%s`", value);
        strbuf_puts(buf, " | ");
        print_cell(strbuf_text(&allowed), buf);
        strbuf_puts(buf, " | ");
        print_cell(table[i].help, buf);
        strbuf_puts(buf, " |\n");
        strbuf_finish(&allowed);
    }
    strbuf_puts(buf, "| `kafka.*` |  | any property of librdkafka | Passed on as it is, without "
                     "the prefix. |\n");
}
