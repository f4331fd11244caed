#include "folder.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <string.h>
#include <unistd.h>

#define ARGUMENTS_MAX      16
#define COMPILER_WORDS_MAX 8

void folder_create(struct folder *ret_folder)
{
    const char *base = getenv("TMPDIR");

    umask(022);
    snprintf(ret_folder->path, sizeof(ret_folder->path), "%s/baton-plugins-XXXXXX",
             base != NULL && strlen(base) < 32 ? base : "/tmp");
    cr_assert_not_null(mkdtemp(ret_folder->path));
    cr_assert_eq(chmod(ret_folder->path, 0755), 0);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status; /* a file or an empty folder: both go */
    (void)type;
    (void)place;
    return remove(path);
}

void folder_remove(const struct folder *folder)
{
    cr_assert_eq(nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

const char *folder_path(const struct folder *folder, const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    return path;
}

static int run(const char *const *argv)
{
    int status;
    pid_t pid;

    /* posix_spawn changes no argument; its type is older than const. */
    cr_assert_eq(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ), 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* CC may be more than a name, "ccache gcc" for instance, as make takes it. Puts its words first. */
static size_t compiler(const char **argv)
{
    static char words[256];
    const char *chosen = getenv("CC");
    size_t count = 0;
    char *rest;

    snprintf(words, sizeof(words), "%s", chosen != NULL ? chosen : "cc");
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        cr_assert_lt(count, COMPILER_WORDS_MAX);
        argv[count++] = word;
    }
    return count;
}

static size_t add_words(const char **argv, size_t count, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        cr_assert_lt(i, ARGUMENTS_MAX);
        argv[count++] = words[i];
    }
    return count;
}

void folder_compile(const struct folder *folder, const char *name, const char *const *arguments)
{
    char made[256];
    const char *const fixed[] = {"-shared", "-fPIC", "-Wall", "-Wextra",
                                 "-Werror", "-o",    made,    NULL};
    const char *argv[COMPILER_WORDS_MAX + 2 * ARGUMENTS_MAX + 1] = {NULL};
    size_t count = compiler(argv);

    snprintf(made, sizeof(made), "%s/made.tmp", folder->path);
    count = add_words(argv, count, fixed);
    (void)add_words(argv, count, arguments);
    cr_assert_eq(run(argv), 0, "%s does not compile", arguments[0]);
    cr_assert_eq(rename(made, folder_path(folder, name)), 0);
}

bool folder_can_compile_cpp(void)
{
    const char *const words[] = {"-x", "c++", "-fsyntax-only", "/dev/null", NULL};
    const char *argv[COMPILER_WORDS_MAX + ARGUMENTS_MAX + 1] = {NULL};

    (void)add_words(argv, compiler(argv), words);
    return run(argv) == 0;
}
