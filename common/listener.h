/*
 * A listening TCP socket for an address as people write it: "127.0.0.1:7420", "[::1]:7420",
 * "localhost:0" (port 0: the kernel chooses). Any thread.
 */
#ifndef BATON_COMMON_LISTENER_H
#define BATON_COMMON_LISTENER_H

#include <stdbool.h>

#include "common/err.h"

#define LISTENER_ADDRESS_BYTES 80

struct listener {
    int fd;                               /* bound, listening, close-on-exec, non-blocking */
    char address[LISTENER_ADDRESS_BYTES]; /* as bound, with the real port: "127.0.0.1:7420" */
    bool loopback;                        /* reachable from this host only */
};

/* ERR_INVALID: not of the form host:port; ERR_IO: can not be resolved or bound, with the reason. */
enum err_code listener_open(const char *address, struct listener *ret_listener,
                            struct err *reterr) MUSTCHECK;

#endif
