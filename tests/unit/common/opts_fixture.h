/* A table with an option of every type, and one run of the parser with all that came of it. */
#ifndef BATON_TESTS_UNIT_COMMON_OPTS_FIXTURE_H
#define BATON_TESTS_UNIT_COMMON_OPTS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "common/opts.h"

enum color { COLOR_RED, COLOR_GREEN, COLOR_BLUE };

struct options {
    char *state_dir;
    char *title;
    char *token;
    int64_t port;
    int64_t offset;
    int64_t poll_timeout_ms;
    int64_t cache_bytes;
    bool verbose;
    int color;
};

#define OPTS_FIXTURE_COUNT 9
extern const struct opts_entry opts_fixture_table[OPTS_FIXTURE_COUNT];

struct run {
    struct options options;
    struct opts_kafka kafka;
    enum opts_outcome outcome;
    enum err_code code;
    struct err err;
    char *printed;
    char file[32]; /* empty: none */
};

#define ARGS(...) ((const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* `content` NULL: without a file. */
struct run *run_opts(const char *content, const char *const *args);
struct run *run_opts_bytes(const void *content, size_t bytes, const char *const *args);
void run_finish(struct run *run);

void assert_runs(const struct run *run);

/*
 * Compares the whole text, in which FILE stands for the file's name. Nothing is left allocated for
 * the caller.
 */
void assert_fails(const char *content, const char *const *args, enum err_code code,
                  const char *expected);

#endif
