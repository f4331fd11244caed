/*
 * The simulator's runs: many seeds, sweeps that stop an agent at every one of its actions, and
 * every mutation until it is found. A failure prints the command that shows it again.
 *
 *   sim                          everything, as `make check` does
 *   sim --seed N [--trace]       one seed
 *   sim --sweep pause --at N [--victim owner] [--seed N] [--trace]
 *                                it is paused there (or `crash`); `source`, `target` and
 *                                `coordinator` are those of a hand-over
 *   sim --mutation NAME [--seed N] [--trace]
 *   sim --seeds N --steps N      more or fewer of them
 *   sim --seed N --seeds N       only those, from the first one on
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/world.h"

/* Sanitizers make it slow: there the same runs are made, but fewer of them. */
#if defined(__SANITIZE_ADDRESS__)
#define SEEDS_DEFAULT 600
#define SWEEP_STRIDE  10 /* only every so many-th */
#else
#define SEEDS_DEFAULT 6000
#define SWEEP_STRIDE  1
#endif
#define STEPS_DEFAULT      2000
#define SWEEP_ACTIONS_MAX  600
#define SWEEP_SEEDS        6 /* of each action */
#define MUTATION_SEEDS_MAX 10000

struct options {
    uint64_t seeds, seed;
    uint32_t steps;
    bool one, many, trace;
    enum mutation mutation;
    enum world_sweep sweep;
    enum world_victim victim;
    uint32_t sweep_at;
};

static struct world world; /* too large for the stack */
static struct tally tally;
static unsigned passed, failed;

/* ---- one run */

static const char *sweep_name(enum world_sweep sweep)
{
    return sweep == WORLD_SWEEP_PAUSE ? "pause" : "crash";
}

static const char *const victim_names[] = {[WORLD_VICTIM_OWNER] = "owner",
                                           [WORLD_VICTIM_SOURCE] = "source",
                                           [WORLD_VICTIM_TARGET] = "target",
                                           [WORLD_VICTIM_COORDINATOR] = "coordinator"};

static void print_command(const struct world_config *config)
{
    (void)printf("  again with: sim");
    if (config->mutation != MUTATION_NONE)
        (void)printf(" --mutation %s", mutation_options[config->mutation]);
    if (config->sweep != WORLD_NO_SWEEP)
        (void)printf(" --sweep %s --victim %s --at %u", sweep_name(config->sweep),
                     victim_names[config->victim], config->sweep_at);
    (void)printf(" --seed %llu --steps %u --trace\n", (unsigned long long)config->seed,
                 config->steps);
}

/* An assertion of the core ends the process: say which run it was. */
static void on_abort(int number)
{
    (void)number;
    (void)printf("FAILED: an assertion, at step %llu\n", (unsigned long long)world.steps);
    print_command(&world.config);
    (void)fflush(stdout);
}

static bool run(const struct world_config *config)
{
    if (world_run(&world, config, &tally)) {
        passed++;
        return true;
    }
    failed++;
    (void)printf("FAILED: %s (step %llu)\n", world.checks.text, (unsigned long long)world.steps);
    print_command(config);
    return false;
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- seeds */

static void run_seeds(const struct options *options)
{
    double begin_s = now_s(), spent_s;
    uint64_t steps = tally.steps;

    for (uint64_t i = 0; i < options->seeds && failed < 5; i++)
        (void)run(&(struct world_config){.seed = options->seed + i, .steps = options->steps});
    spent_s = now_s() - begin_s;
    steps = tally.steps - steps;
    (void)printf("%llu seeds, %llu steps, %.1f s, %.0f k steps/s\n",
                 (unsigned long long)options->seeds, (unsigned long long)steps, spent_s,
                 (double)steps / 1000 / spent_s);
}

/* ---- sweeps */

static void run_sweep(enum world_sweep sweep, enum world_victim victim)
{
    double begin_s = now_s();

    for (uint32_t i = 0; i < SWEEP_ACTIONS_MAX * SWEEP_SEEDS && failed < 5; i += SWEEP_STRIDE) {
        struct world_config config = sweep_config(sweep, victim, 1 + i / SWEEP_SEEDS, 1 + i);

        (void)run(&config);
    }
    (void)printf("the %s %s at each of its first %d actions%s: %.1f s\n", victim_names[victim],
                 sweep == WORLD_SWEEP_PAUSE ? "paused" : "crashed", SWEEP_ACTIONS_MAX,
                 SWEEP_STRIDE > 1 ? " (every tenth run, under sanitizers)" : "", now_s() - begin_s);
}

/* ---- mutations */

struct finding {
    bool found, asserted;
    struct world_config config;
    char text[256];
};

static bool try_mutation(const struct world_config *config, struct finding *finding)
{
    struct tally unused = {0};

    finding->config = *config;
    finding->found = !world_run(&world, config, &unused);
    if (finding->found)
        memcpy(finding->text, world.checks.text, sizeof(finding->text));
    return finding->found;
}

/* By chance, and by zombies in turn. */
static struct finding search(const struct options *options, enum mutation mutation)
{
    struct finding finding = {0};

    for (uint32_t i = 0; i < MUTATION_SEEDS_MAX; i++) {
        struct world_config config = {
            .seed = options->seed + i, .steps = options->steps, .mutation = mutation};

        if (try_mutation(&config, &finding))
            break;
        config = sweep_config(WORLD_SWEEP_PAUSE, (enum world_victim)(i % WORLD_VICTIM_COUNT),
                              1 + i % SWEEP_ACTIONS_MAX, options->seed + i);
        config.mutation = mutation;
        if (try_mutation(&config, &finding))
            break;
    }
    return finding;
}

/* In a process of its own: a bent core may run into its assertions, which is a finding, too. */
static struct finding search_apart(const struct options *options, enum mutation mutation)
{
    struct finding finding = {0};
    int ends[2], status;
    pid_t child;

    if (pipe(ends) != 0)
        return finding;
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        (void)signal(SIGABRT, SIG_DFL);
        finding = search(options, mutation);
        _exit(write(ends[1], &finding, sizeof(finding)) == (ssize_t)sizeof(finding) ? 0 : 1);
    }
    (void)close(ends[1]);
    if (read(ends[0], &finding, sizeof(finding)) != (ssize_t)sizeof(finding))
        finding = (struct finding){0};
    (void)close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
        WTERMSIG(status) == SIGABRT)
        finding = (struct finding){.found = true, .asserted = true};
    return finding;
}

static void print_finding(enum mutation mutation, const struct finding *finding)
{
    char run_text[80];

    if (!finding->found) {
        (void)printf("%-24sNOT FOUND: %s\n", mutation_options[mutation], mutation_texts[mutation]);
        return;
    }
    (void)snprintf(run_text, sizeof(run_text), "--seed %llu",
                   (unsigned long long)finding->config.seed);
    if (finding->asserted)
        (void)snprintf(run_text, sizeof(run_text), "?");
    else if (finding->config.sweep != WORLD_NO_SWEEP)
        (void)snprintf(run_text, sizeof(run_text), "--seed %llu --sweep pause --victim %s --at %u",
                       (unsigned long long)finding->config.seed,
                       victim_names[finding->config.victim], finding->config.sweep_at);
    (void)printf("%-24s%-62s%s\n", mutation_options[mutation], run_text,
                 finding->asserted ? "an assertion of the core" : finding->text);
}

static void run_mutations(const struct options *options)
{
    (void)printf("\n%-24s%-62s%s\n", "mutation", "run", "found by");
    for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++) {
        struct finding finding = search_apart(options, (enum mutation)i);

        if (finding.found)
            passed++;
        else
            failed++;
        print_finding((enum mutation)i, &finding);
    }
}

/* ---- all of it */

static void print_tally(void)
{
    (void)printf("\n");
    for (int i = 0; i < TALLY_COUNT; i++) {
        (void)printf("%12llu  %s%s\n", (unsigned long long)tally.of[i], tally_texts[i],
                     tally.of[i] == 0 ? "   NEVER: nothing was shown for it" : "");
        /* Under sanitizers there are too few runs for what is rare. */
        if (tally.of[i] == 0 && SWEEP_STRIDE == 1)
            failed++;
    }
}

static int run_all(const struct options *options)
{
    run_seeds(options);
    for (int victim = WORLD_VICTIM_OWNER; victim < WORLD_VICTIM_COUNT; victim++) {
        run_sweep(WORLD_SWEEP_PAUSE, (enum world_victim)victim);
        run_sweep(WORLD_SWEEP_CRASH, (enum world_victim)victim);
    }
    print_tally();
    run_mutations(options);
    (void)printf("\n%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

/* From --seed on, so many: to look for rare things. */
static int run_many(const struct options *options)
{
    run_seeds(options);
    (void)printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

static int run_one(const struct options *options)
{
    struct world_config config = {
        .seed = options->seed, .steps = options->steps, .mutation = options->mutation};

    if (options->sweep != WORLD_NO_SWEEP)
        config = sweep_config(options->sweep, options->victim, options->sweep_at, options->seed);
    config.mutation = options->mutation;
    config.trace = options->trace;
    (void)run(&config);
    (void)printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

/* ---- options */

static bool parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || number == 0 || number > max)
        return false;
    *ret_number = number;
    return true;
}

static bool parse_mutation(const char *text, enum mutation *ret_mutation)
{
    for (int i = 0; i < MUTATION_COUNT; i++) {
        if (strcmp(mutation_options[i], text) != 0)
            continue;
        *ret_mutation = (enum mutation)i;
        return true;
    }
    return false;
}

static bool parse_sweep(const char *text, enum world_sweep *ret_sweep)
{
    if (strcmp(text, "pause") != 0 && strcmp(text, "crash") != 0)
        return false;
    *ret_sweep = strcmp(text, "pause") == 0 ? WORLD_SWEEP_PAUSE : WORLD_SWEEP_CRASH;
    return true;
}

static bool parse_victim(const char *text, enum world_victim *ret_victim)
{
    for (int i = WORLD_VICTIM_OWNER; i < WORLD_VICTIM_COUNT; i++) {
        if (strcmp(victim_names[i], text) != 0)
            continue;
        *ret_victim = (enum world_victim)i;
        return true;
    }
    return false;
}

static bool parse_option(int option, const char *value, struct options *options)
{
    uint64_t number = 0;

    switch (option) {
    case 's':
        options->one = true;
        return parse_number(value, UINT64_MAX, &options->seed);
    case 'n':
        options->many = true;
        return parse_number(value, UINT64_MAX, &options->seeds);
    case 'k':
        if (!parse_number(value, UINT32_MAX, &number))
            return false;
        options->steps = (uint32_t)number;
        return true;
    case 'a':
        if (!parse_number(value, UINT32_MAX, &number))
            return false;
        options->sweep_at = (uint32_t)number;
        return true;
    case 'm':
        options->one = true;
        return parse_mutation(value, &options->mutation);
    case 'w':
        options->one = true;
        return parse_sweep(value, &options->sweep);
    case 'v':
        return parse_victim(value, &options->victim);
    case 't':
        options->trace = true;
        return true;
    default:
        return false;
    }
}

int main(int count, char **values)
{
    static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                          {"seeds", required_argument, NULL, 'n'},
                                          {"steps", required_argument, NULL, 'k'},
                                          {"trace", no_argument, NULL, 't'},
                                          {"mutation", required_argument, NULL, 'm'},
                                          {"sweep", required_argument, NULL, 'w'},
                                          {"at", required_argument, NULL, 'a'},
                                          {"victim", required_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {
        .seeds = SEEDS_DEFAULT, .seed = 1, .steps = STEPS_DEFAULT, .sweep_at = 1};
    int option;

    while ((option = getopt_long(count, values, "", known, NULL)) != -1) {
        if (!parse_option(option, optarg, &options)) {
            (void)fprintf(stderr, "usage: sim [--seed N] [--seeds N] [--steps N] [--trace] "
                                  "[--mutation NAME] [--sweep pause|crash --at N "
                                  "[--victim owner|source|target|coordinator]]\n");
            return 2;
        }
    }
    (void)signal(SIGABRT, on_abort);
    if (options.one && options.many)
        return run_many(&options);
    return options.one ? run_one(&options) : run_all(&options);
}
