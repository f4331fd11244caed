#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/notify.h"

/* A datagram socket at the name, as systemd has it; in the abstract name space when it starts with
 * '@'. */
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, bytes), 0);
    return fd;
}

static void expect_message(const char *name)
{
    int fd = listen_at(name);
    char text[64] = {0};
    setenv("NOTIFY_SOCKET", name, 1);
    notify_send("READY=1");
    cr_assert_eq(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT), 7);
    cr_assert_str_eq(text, "READY=1");
    close(fd);
}

Test(notify, sends_to_path_and_abstract_name)
{
    char name[64];
    snprintf(name, sizeof(name), "/tmp/baton-notify-%d", (int)getpid());
    expect_message(name);
    unlink(name);
    name[0] = '@';
    expect_message(name);
}

/* Goal: outside systemd, or with a name that can not be, nothing happens. */
Test(notify, is_silent_without_a_socket)
{
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", "relative", 1);
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
    notify_send("READY=1");

    char name[200];
    memset(name, 'x', sizeof(name) - 1);
    name[0] = '/';
    name[sizeof(name) - 1] = '\0';
    setenv("NOTIFY_SOCKET", name, 1);
    notify_send("READY=1");
    snprintf(name, sizeof(name), "@baton-notify-silent-%d", (int)getpid());
    int fd = listen_at(name);
    char text[8];
    cr_assert_eq(recv(fd, text, sizeof(text), MSG_DONTWAIT), -1);
    close(fd);
}
