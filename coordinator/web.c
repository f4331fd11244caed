#include "coordinator/web.h"

#include <assert.h>
#include <stdio.h>

#include "common/hash/crc32.h"

/* The Makefile makes these out of the files. */
extern const unsigned char embed_coordinator_web_index_html[];
extern const unsigned char embed_coordinator_web_index_html_end[];
extern const unsigned char embed_coordinator_web_dashboard_css[];
extern const unsigned char embed_coordinator_web_dashboard_css_end[];
extern const unsigned char embed_coordinator_web_dashboard_js[];
extern const unsigned char embed_coordinator_web_dashboard_js_end[];

static struct web_file make_file(const char *content_type, const unsigned char *begin,
                                 const unsigned char *end)
{
    struct web_file file = {
        .content_type = content_type, .text = (const char *)begin, .bytes = (size_t)(end - begin)};
    (void)snprintf(file.etag, sizeof(file.etag), "\"%08x\"",
                   (unsigned)crc32_hash(file.text, file.bytes));
    return file;
}

void web_file(enum route_id route, struct web_file *ret_file)
{
    switch ((int)route) {
    case ROUTE_DASHBOARD:
        *ret_file = make_file("text/html; charset=utf-8", embed_coordinator_web_index_html,
                              embed_coordinator_web_index_html_end);
        return;
    case ROUTE_DASHBOARD_STYLE:
        *ret_file = make_file("text/css; charset=utf-8", embed_coordinator_web_dashboard_css,
                              embed_coordinator_web_dashboard_css_end);
        return;
    case ROUTE_DASHBOARD_SCRIPT:
        *ret_file = make_file("text/javascript; charset=utf-8", embed_coordinator_web_dashboard_js,
                              embed_coordinator_web_dashboard_js_end);
        return;
    default:
        assert(!"a route of the dashboard");
    }
}
