#include "common/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST_BYTES_MAX 255
#define PORT_BYTES_MAX 5

struct host_port {
    char host[HOST_BYTES_MAX + 1];
    char port[PORT_BYTES_MAX + 1];
};

static enum err_code bad_form(const char *address, struct err *reterr)
{
    return err_set(reterr, ERR_INVALID,
                   "'%.300s' is not an address: write host:port or [IPv6 address]:port", address);
}

static bool port_valid(const char *port)
{
    size_t digits = strspn(port, "0123456789");
    unsigned number = 0;
    if (digits == 0 || digits > PORT_BYTES_MAX || port[digits] != '\0')
        return false;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (unsigned)(port[i] - '0');
    return number <= 65535;
}

static enum err_code split(const char *address, struct host_port *ret, struct err *reterr)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || !port_valid(colon + 1))
        return bad_form(address, reterr);
    const char *host = address;
    size_t host_bytes = (size_t)(colon - address);
    if (host_bytes >= 2 && host[0] == '[' && host[host_bytes - 1] == ']') {
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes) != NULL) {
        return bad_form(address, reterr);
    }
    if (host_bytes == 0 || host_bytes > HOST_BYTES_MAX)
        return bad_form(address, reterr);
    memcpy(ret->host, host, host_bytes);
    ret->host[host_bytes] = '\0';
    (void)snprintf(ret->port, sizeof(ret->port), "%s", colon + 1);
    return ERR_NONE;
}

static bool is_loopback(const struct sockaddr_storage *bound)
{
    if (bound->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)bound;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)bound;
    return memcmp(&v6->sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback)) == 0;
}

/* Fills in the address as the kernel bound it; 0 or errno. */
static int describe(struct listener *listener)
{
    struct sockaddr_storage bound = {0};
    socklen_t bytes = sizeof(bound);
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &bytes) != 0)
        return errno;
    char host[INET6_ADDRSTRLEN + 20];
    char port[PORT_BYTES_MAX + 1];
    if (getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return EINVAL;
    bool v6 = bound.ss_family == AF_INET6;
    (void)snprintf(listener->address, sizeof(listener->address), "%s%s%s:%s", v6 ? "[" : "", host,
                   v6 ? "]" : "", port);
    listener->loopback = is_loopback(&bound);
    return 0;
}

/* 0 or errno; *ret_listener is complete on success. */
static int bind_one(const struct addrinfo *info, struct listener *ret_listener)
{
    struct listener listener = {
        .fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (listener.fd < 0)
        return errno;
    /* A restarted daemon takes its port at once, while old connections are still in TIME_WAIT. */
    int on = 1;
    int failure = 0;
    if (setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(listener.fd, info->ai_addr, info->ai_addrlen) != 0 ||
        listen(listener.fd, SOMAXCONN) != 0)
        failure = errno;
    if (failure == 0)
        failure = describe(&listener);
    if (failure != 0) {
        (void)close(listener.fd); /* nothing was written to it */
        return failure;
    }
    *ret_listener = listener;
    return 0;
}

enum err_code listener_open(const char *address, struct listener *ret_listener, struct err *reterr)
{
    struct host_port parts;
    enum err_code code = split(address, &parts, reterr);
    if (code != ERR_NONE)
        return code;

    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *infos = NULL;
    int rc = getaddrinfo(parts.host, parts.port, &hints, &infos);
    if (rc != 0)
        return err_set(reterr, ERR_IO, "can not resolve '%s': %s", parts.host,
                       rc == EAI_SYSTEM ? strerrordesc_np(errno) : gai_strerror(rc));

    int failure = EADDRNOTAVAIL;
    for (const struct addrinfo *info = infos; info != NULL; info = info->ai_next) {
        failure = bind_one(info, ret_listener);
        if (failure == 0)
            break;
    }
    freeaddrinfo(infos);
    if (failure != 0) {
        (void)err_set(reterr, ERR_IO, "can not listen on '%s': %s", address,
                      strerrordesc_np(failure));
        if (reterr != NULL)
            reterr->detail = failure;
        return ERR_IO;
    }
    return ERR_NONE;
}
