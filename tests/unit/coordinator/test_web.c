#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/web.h"

static bool holds(const struct web_file *file, const char *text)
{
    return memmem(file->text, file->bytes, text, strlen(text)) != NULL;
}

/* Goal: every route has its own file, whole, under a tag of its own. */
Test(web, serves_each_file_whole)
{
    static const struct {
        enum route_id route;
        const char *type, *begin, *end;
    } cases[] = {
        {ROUTE_DASHBOARD, "text/html; charset=utf-8", "<!DOCTYPE html>\n", "</html>\n"},
        {ROUTE_DASHBOARD_STYLE, "text/css; charset=utf-8", ":root {", "}\n"},
        {ROUTE_DASHBOARD_SCRIPT, "text/javascript; charset=utf-8", "/*\n", "start();\n"},
    };
    char seen[3][sizeof(((struct web_file *)0)->etag)];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct web_file file, again;
        web_file(cases[i].route, &file);
        web_file(cases[i].route, &again);
        cr_assert_str_eq(file.content_type, cases[i].type);
        size_t begin = strlen(cases[i].begin), end = strlen(cases[i].end);
        cr_assert_gt(file.bytes, begin + end);
        cr_assert_eq(memcmp(file.text, cases[i].begin, begin), 0);
        cr_assert_eq(memcmp(file.text + file.bytes - end, cases[i].end, end), 0,
                     "no more, no less");
        cr_assert_str_eq(file.etag, again.etag);
        cr_assert_eq(strlen(file.etag), 10, "%s", file.etag);
        memcpy(seen[i], file.etag, sizeof(seen[i]));
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(seen[j], seen[i]);
    }
}

Test(web, page_asks_for_files_that_there_are)
{
    struct web_file page;
    web_file(ROUTE_DASHBOARD, &page);
    for (size_t i = 0; routes_at(i) != NULL; i++)
        if (strncmp(routes_at(i)->path, "/web/", 5) == 0)
            cr_assert(holds(&page, routes_at(i)->path + 1), "%s", routes_at(i)->path);
}
