/* A folder for plugins of a test, below $TMPDIR, and the compiler that fills it. Tests run from the
 * root of the tree. */
#ifndef BATON_TESTS_FOLDER_H
#define BATON_TESTS_FOLDER_H

#include <stdbool.h>

struct folder {
    char path[64];
};

void folder_create(struct folder *ret_folder);   /* mode 0755, empty */
void folder_remove(const struct folder *folder); /* with all in it */

/* A path in the folder; valid until the next call. */
const char *folder_path(const struct folder *folder, const char *name);

/*
 * Runs $CC (cc by default) with `arguments` (at most 16, NULL-terminated) after "-shared -fPIC
 * -Wall -Wextra -Werror" to make `name` in the folder; fails the test when it fails. A file that
 * was there is replaced by a rename.
 */
void folder_compile(const struct folder *folder, const char *name, const char *const *arguments);

bool folder_can_compile_cpp(void); /* C++ is optional on a machine that builds baton */

#endif
