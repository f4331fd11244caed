/* What --help and --print-options print from the table of options. Internal to opts. */
#ifndef BATON_COMMON_OPTS_PRINT_H
#define BATON_COMMON_OPTS_PRINT_H

#include "common/opts.h"
#include "common/strbuf.h"

void opts_print_help(const struct opts_entry *table, size_t count, const char *program,
                     struct strbuf *buf);

/* A configuration file in which every option stands commented out with its default, after what it
 * means. */
void opts_print_sample(const struct opts_entry *table, size_t count, const char *program,
                       struct strbuf *buf);

/* A table for the reference documentation. */
void opts_print_markdown(const struct opts_entry *table, size_t count, struct strbuf *buf);

#endif
