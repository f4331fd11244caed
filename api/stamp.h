/*
 * The stamp: metadata of every committed offset, "b1 <job incarnation> <processor> <epoch>
 * [<records>|- [<bound> [<records at it>]]]" (D3.1). By it an activation sees whether someone newer
 * owns the partition, tells our own offsets from those of an operator's tool or another consumer,
 * and whether a replay up to the offset has met every record that its owner had met (D3.6). The
 * bound is that of the processor's parent (D4, split): the commit that gives the partitions away
 * decides it. Pure; any thread.
 */
#ifndef BATON_API_STAMP_H
#define BATON_API_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"

#define STAMP_TEXT_BYTES 160

struct stamp {
    char incarnation[API_UUID_BYTES + 1];
    uint32_t processor;
    uint64_t epoch;  /* 0: start offsets, committed by the coordinator */
    int64_t records; /* of the partition, from T0 up to the offset, as its owner met them; left out
                        when API_UNKNOWN */
    int64_t bound;   /* of the partition of a processor's own number, where that has an ancestor: up
                        to there the ancestor's records of its keys are in its state, and none from
                        there on; API_UNKNOWN: none */
    int64_t bound_records; /* of the ancestor, from T0 up to the bound; API_UNKNOWN: not counted */
};

void stamp_format(const struct stamp *stamp, char ret_text[STAMP_TEXT_BYTES]);

/* False when `text` (NULL and "" too) is not a stamp of this form: the offset is foreign. */
bool stamp_parse(const char *text, struct stamp *ret_stamp);

#endif
