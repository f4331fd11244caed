/*
 * Who may get the state of a processor from whom (D3.6, D8).
 *
 * Everybody who has a task of it can need the state, and can have it: the owner, who may have lost
 * its disk, the target of its hand-over, the standbys. Who has which is the agents' business, who
 * ask each other in the order given here: standbys first, for the owner has other things to do. The
 * target of a hand-over that learns is asked by nobody.
 *
 * Who is to have what a split takes away from a processor is given that part of it, by the same
 * holders, until it has been active once, however the split has ended: the parent's state is the
 * only other place where it is. A parent gives to one at a time, the first.
 *
 * A token is of one reader, in one start of its agent and one of the coordinator: a hash of who it
 * is under a secret of this run. So it is the same in the documents of both sides without being
 * kept anywhere, and of no use once its reader is not among these any more.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hash/sha256.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "coordinator/core/cluster_internal.h"
#include "coordinator/core/handoff.h"

struct holder {
    const char *agent, *incarnation;
    const char *address; /* NULL: nobody can ask it */
    bool gives;
};

struct holders {
    struct holder *items;
    size_t count;
};

static void add_holder(const struct cluster *cluster, struct holders *holders, const char *agent_id,
                       const char *incarnation, bool gives)
{
    const struct agent *agent = agent_id == NULL ? NULL : cluster_agent(cluster, agent_id);
    if (agent == NULL || incarnation == NULL)
        return;
    for (size_t i = 0; i < holders->count; i++)
        if (strcmp(holders->items[i].agent, agent_id) == 0)
            return;
    holders->items[holders->count++] = (struct holder){
        .agent = agent_id,
        .incarnation = incarnation,
        .address = gives ? agent->row.address : NULL,
        .gives = gives && agent->row.address != NULL,
    };
}

/* In the order in which they are asked. free() items. */
static struct holders list_holders(const struct cluster *cluster, const struct job *job,
                                   const struct processor *processor)
{
    const struct handoff *handoff = processor->handoff;
    const struct placement_row *placement = &processor->placement;
    struct holders holders = {0};
    if (!job->row.spec.stateful || job->row.spec.seed == SEED_REPLAY ||
        job->row.state != JOB_STATE_RUNNING)
        return holders;
    holders.items = mem_calloc(processor->standbys.count + 2, sizeof(*holders.items));
    bool learning = handoff != NULL && handoff_before_release(handoff->row.state);
    for (size_t i = 0; i < processor->standbys.count; i++) {
        const struct standby_row *row = &processor->standbys.items[i].row;
        add_holder(cluster, &holders, row->agent, row->agent_incarnation, true);
    }
    add_holder(cluster, &holders, placement->agent, placement->agent_incarnation, true);
    if (learning)
        add_holder(cluster, &holders, handoff->row.target, handoff->row.target_incarnation, false);
    return holders;
}

/* ---- tokens */

static void add_text(struct strbuf *buf, const char *text)
{
    strbuf_add(buf, text, strlen(text) + 1); /* with its end: no two lists of texts are the same */
}

/* HMAC's form, nested, so that nothing can be put behind it. free() */
static char *make_token(const struct cluster *cluster, const struct job *job, uint32_t processor,
                        const struct holder *reader)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *secret = cluster->config.seed_secret;
    uint8_t digest[SHA256_BYTES];
    char number[16];
    struct strbuf buf = {0};
    strbuf_add(&buf, secret, sizeof(cluster->config.seed_secret));
    add_text(&buf, job->row.incarnation);
    memset(number, 0, sizeof(number));
    for (size_t i = 0; i < 4; i++)
        number[i] = (char)(processor >> (8 * i));
    strbuf_add(&buf, number, 4);
    add_text(&buf, reader->agent);
    add_text(&buf, reader->incarnation);
    sha256(buf.data, buf.bytes, digest);
    strbuf_clear(&buf);
    strbuf_add(&buf, secret, sizeof(cluster->config.seed_secret));
    strbuf_add(&buf, digest, sizeof(digest));
    sha256(buf.data, buf.bytes, digest);
    strbuf_finish(&buf);
    char *token = mem_calloc(2 * SHA256_BYTES + 1, 1);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        token[2 * i] = digits[digest[i] >> 4];
        token[2 * i + 1] = digits[digest[i] & 15];
    }
    return token;
}

/* ---- documents */

static void add_source(struct document_task *task, const struct holder *holder, bool parent)
{
    task->sources.items =
        mem_realloc(task->sources.items, task->sources.count + 1, sizeof(*task->sources.items));
    task->sources.items[task->sources.count++] =
        (struct document_source){.agent = mem_strdup(holder->agent),
                                 .address = mem_strdup(holder->address),
                                 .parent = parent};
}

static const struct holder *find_holder(const struct holders *holders, const char *agent_id)
{
    for (size_t i = 0; i < holders->count; i++)
        if (strcmp(holders->items[i].agent, agent_id) == 0)
            return &holders->items[i];
    return NULL;
}

/* The other copies of the same state. */
static void describe_same(const struct cluster *cluster, const struct job *job,
                          const struct holders *holders, const struct holder *own,
                          struct document_task *task)
{
    task->readers.items = mem_calloc(holders->count, sizeof(*task->readers.items));
    for (size_t i = 0; i < holders->count; i++) {
        const struct holder *other = &holders->items[i];
        if (other == own)
            continue;
        if (other->gives)
            add_source(task, other, false);
        if (own->gives)
            task->readers.items[task->readers.count++] =
                make_token(cluster, job, task->processor, other);
    }
}

/* The processor that this one needs its state of; NULL: none. */
static const struct processor *parent_of(const struct job *job, const struct processor *processor)
{
    uint32_t parent = cluster_parent(job, processor->placement.processor);
    return processor == cluster_split_child(job, parent) ? &job->processors.items[parent] : NULL;
}

/* Those who have the state that this one is a part of. */
static void describe_parent(const struct cluster *cluster, const struct job *job,
                            const struct processor *parent, struct document_task *task)
{
    struct holders holders = list_holders(cluster, job, parent);
    for (size_t i = 0; i < holders.count; i++)
        if (holders.items[i].gives)
            add_source(task, &holders.items[i], true);
    free(holders.items);
}

/* Those who may have a part of it. */
static void describe_child(const struct cluster *cluster, const struct job *job,
                           const struct processor *child, struct document_task *task)
{
    struct holders holders = list_holders(cluster, job, child);
    task->part_processor = child->placement.processor;
    task->part_readers.items = mem_calloc(holders.count, sizeof(*task->part_readers.items));
    for (size_t i = 0; i < holders.count; i++)
        task->part_readers.items[task->part_readers.count++] =
            make_token(cluster, job, task->part_processor, &holders.items[i]);
    free(holders.items);
}

void cluster_describe_seeds(const struct cluster *cluster, const struct job *job,
                            const struct processor *processor, const struct agent *agent,
                            struct document_task *task)
{
    struct holders holders = list_holders(cluster, job, processor);
    const struct holder *own = find_holder(&holders, agent->row.agent_id);
    const struct processor *child = cluster_split_child(job, task->processor);
    const struct processor *parent = parent_of(job, processor);
    if (own != NULL && holders.count > 1)
        describe_same(cluster, job, &holders, own, task);
    if (own != NULL && parent != NULL)
        describe_parent(cluster, job, parent, task);
    if (own != NULL && own->gives && child != NULL)
        describe_child(cluster, job, child, task);
    if (task->sources.count > 0)
        task->seed_token = make_token(cluster, job, task->processor, own);
    free(holders.items);
}

bool cluster_parent_gives(const struct cluster *cluster, const struct job *job,
                          const struct processor *processor)
{
    const struct processor *parent = parent_of(job, processor);
    if (parent == NULL)
        return false;
    struct holders holders = list_holders(cluster, job, parent);
    bool gives = false;
    for (size_t i = 0; i < holders.count; i++)
        gives = gives || holders.items[i].gives;
    free(holders.items);
    return gives;
}

/* ---- changes */

static uint64_t mix(uint64_t digest, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        digest = (digest ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (digest ^ 255) * UINT64_C(1099511628211);
}

static uint64_t mix_holders(const struct cluster *cluster, const struct job *job,
                            const struct processor *processor, size_t count_min, uint64_t digest)
{
    struct holders holders = list_holders(cluster, job, processor);
    for (size_t i = 0; i < holders.count && holders.count >= count_min; i++) {
        digest = mix(digest, holders.items[i].agent);
        digest = mix(digest, holders.items[i].incarnation);
        digest = mix(digest, holders.items[i].address);
    }
    free(holders.items);
    return digest;
}

uint64_t cluster_digest_seeds(const struct cluster *cluster, const struct job *job,
                              const struct processor *processor)
{
    const struct processor *child = cluster_split_child(job, processor->placement.processor);
    const struct processor *parent = parent_of(job, processor);
    uint64_t digest = mix_holders(cluster, job, processor, 2, UINT64_C(14695981039346656037));
    if (parent != NULL)
        digest = mix_holders(cluster, job, parent, 1, mix(digest, "parent"));
    if (child != NULL)
        digest = mix_holders(cluster, job, child, 1, mix(digest, "child"));
    return digest;
}
