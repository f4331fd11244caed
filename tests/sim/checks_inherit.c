/*
 * What must hold where topics have grown and processors have been split since: of a partition's
 * records those count for its owner whose keys have not left when it meets them, and those of the
 * keys that left before count for who has them now. Both go by the commit that gave them away.
 */
#include "common/hash/linhash.h"
#include "tests/sim/checks.h"
#include "tests/sim/world.h"

static uint32_t parent_of(const struct world *world, uint32_t partition)
{
    return linhash_parent(partition, (uint32_t)world->kafka.partitions_initial);
}

/* On the way from `to` up to `from` the one right below; `from` itself: it is not on the way. */
static uint32_t step_to(const struct world *world, uint32_t from, uint32_t to)
{
    uint32_t below = from;

    while (to > from && to >= world->kafka.partitions_initial) {
        below = to;
        to = parent_of(world, to);
    }
    return to == from ? below : from;
}

static uint32_t home_of(const struct world *world, size_t partition, uint8_t key)
{
    return kafka_place(&world->kafka, partition, key, world->kafka.partition_count);
}

void checks_bounds(struct world *world, uint32_t processor, const struct kafka_offsets *offsets)
{
    struct checks *checks = &world->checks;

    for (uint32_t i = (uint32_t)world->kafka.partitions_initial; i < world->kafka.partition_count;
         i++) {
        const struct stamp *stamp = &offsets->of[i].stamp;
        bool splits = stamp->processor == i && processor != i;

        if (offsets->of[i].offset == API_UNKNOWN || stamp->processor != i)
            continue;
        if (splits) {
            world->tally->of[TALLY_SPLIT_INHERITS]++;
            if (world->config.exactly_once &&
                stamp->bound != checks->committed[parent_of(world, i)])
                checks_fail(world, "processor %u: its stamp has the bound %lld, its parent %lld", i,
                            (long long)stamp->bound,
                            (long long)checks->committed[parent_of(world, i)]);
            if (!checks->bounded[i] || stamp->bound < checks->bound[i])
                checks->bound[i] = stamp->bound;
            checks->bounded[i] = true;
        } else if (world->config.exactly_once && world->config.stateful &&
                   stamp->bound != checks->bound[i]) {
            checks_fail(world, "processor %u: its bound was %lld, and is %lld", i,
                        (long long)checks->bound[i], (long long)stamp->bound);
        }
    }
}

bool checks_has_left(const struct world *world, size_t partition, int64_t offset)
{
    const struct kafka_record *record = &world->kafka.partitions[partition].records[offset];
    uint32_t below = step_to(world, (uint32_t)partition, home_of(world, partition, record->key));

    return below != partition && world->checks.bounded[below] &&
           offset >= world->checks.bound[below];
}

bool checks_is_due(const struct world *world, size_t partition, int64_t offset)
{
    return kafka_is_due(&world->kafka, partition, offset) &&
           !checks_has_left(world, partition, offset);
}

bool checks_inherits(const struct world *world, uint32_t processor, size_t partition)
{
    return step_to(world, (uint32_t)partition, processor) != partition;
}

int64_t checks_bound_of(const struct world *world, uint32_t processor, size_t partition)
{
    uint32_t below = step_to(world, (uint32_t)partition, processor);

    return world->checks.bounded[below] ? world->checks.bound[below]
                                        : world->checks.committed[partition];
}

const char *checks_counts(const struct world *world, uint32_t processor, size_t partition,
                          int64_t learned, const struct kafka_counts *counts)
{
    struct kafka_counts reference = kafka_reference(&world->kafka, partition, learned);
    struct linhash_size size = {.initial = (uint32_t)world->kafka.processors_initial,
                                .now = (uint32_t)world->kafka.processor_count};
    bool inherits = checks_inherits(world, processor, partition);

    if (size.now <= processor)
        size.now = processor + 1;
    if (inherits && world->config.exactly_once &&
        learned > checks_bound_of(world, processor, partition))
        return "is past its bound";
    for (uint8_t key = 0; key < KAFKA_KEYS; key++) {
        uint32_t home = home_of(world, partition, key);
        bool own = linhash_bucket(home, size) == processor;
        bool ever = home == processor || step_to(world, processor, home) != processor;

        if (own && counts->of[key] != reference.of[key])
            return "is not the reference's";
        if (!ever && inherits && counts->of[key] != 0)
            return "has keys of others";
    }
    return NULL;
}
