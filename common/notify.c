#include "common/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@'))
        return;
    size_t bytes = strlen(path);
    if (bytes < 2 || bytes >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, bytes);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract name space */

    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
    /* Nobody is to be told of a failure; MSG_DONTWAIT: a full socket must not stop a service. */
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                 (const struct sockaddr *)&address, address_bytes);
    (void)close(fd);
}
