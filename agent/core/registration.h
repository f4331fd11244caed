/*
 * What an agent says of itself when it registers once more: with it goes what it was told last, for
 * a coordinator that has lost its database, or has an old one (D6). Pure.
 */
#ifndef BATON_AGENT_CORE_REGISTRATION_H
#define BATON_AGENT_CORE_REGISTRATION_H

#include <stdbool.h>

#include "api/types.h"

/* Partitions and offsets in what is told of the last document, and texts that can be long, in their
 * room: some megabytes, well within what a coordinator takes (API_AGENT_BODY_BYTES_MAX), which
 * would refuse all of a longer registration. */
#define REGISTRATION_NUMBERS_MAX 100000

/*
 * `base` with the cluster ("": none yet) and the last document (of version 0.0: none). All of
 * *ret_registration is borrowed from the arguments. False when the document is over the limit: then
 * nothing is said of it, for a part would be taken for all of it.
 */
bool registration_complete(const struct agent_registration *base, char *cluster,
                           const struct agent_document *told,
                           struct agent_registration *ret_registration);

#endif
