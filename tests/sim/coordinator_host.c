#include "tests/sim/coordinator_host.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/world.h"

#define LOAD_PAUSE_MS   100
#define CREATION_MS_MAX 30000 /* that a PUT may wait for Kafka */
#define KAFKA_RESULTS   64    /* places of the mail that others do not get */

struct job *host_job(const struct world *world)
{
    return world->host.loaded ? cluster_job(&world->host.cluster, WORLD_JOB) : NULL;
}

/* ---- requests and answers */

static void forget_request(struct sim_host *host, size_t index)
{
    host->waiting[index] = host->waiting[--host->waiting_count];
}

static void send_answer(struct world *world, const struct sim_request *request,
                        struct answer *answer)
{
    struct message *message;

    if (request->asker == HOST_OPERATOR) {
        operator_take(world, request, answer);
        answer_finish(answer);
        return;
    }
    checks_told(world, request, answer);
    message = mem_calloc(1, sizeof(*message));
    *message = (struct message){.kind = request->kind,
                                .is_answer = true,
                                .agent = request->asker,
                                .start = request->start,
                                .number = request->number,
                                .answer = *answer};
    *answer = (struct answer){0};
    network_send(world, message);
}

static void answer_store_failed(struct world *world, size_t index)
{
    struct sim_request request = world->host.waiting[index];
    struct answer answer = {.request = request.id, .status = 503};

    forget_request(&world->host, index);
    if (!request.gone)
        send_answer(world, &request, &answer);
}

/* The contract: exactly one answer to each request. */
static void answer_next(struct world *world)
{
    struct sim_host *host = &world->host;
    struct answer *answer = &host->update.answers.items[host->next++];

    for (size_t i = 0; i < host->waiting_count; i++) {
        struct sim_request request = host->waiting[i];

        if (request.id != answer->request)
            continue;
        forget_request(host, i);
        if (!request.gone)
            send_answer(world, &request, answer);
        return;
    }
    checks_fail(world, "request %llu is answered, but nobody waits for that",
                (unsigned long long)answer->request);
}

/* The connections are closed: who waits learns that at once. */
static void hang_up(struct world *world)
{
    struct sim_host *host = &world->host;

    while (host->waiting_count > 0) {
        struct sim_request request = host->waiting[--host->waiting_count];
        struct answer nothing = {0};

        if (!request.gone && request.asker != HOST_OPERATOR)
            send_answer(world, &request, &nothing);
    }
}

/* ---- memory */

static void drop_memory(struct world *world)
{
    struct sim_host *host = &world->host;

    cluster_finish(&host->cluster);
    host->loaded = false;
    host->load_ms = world->now_ms + LOAD_PAUSE_MS;
    update_finish(&host->update);
    host->stage = HOST_IDLE;
}

static void give_up_update(struct world *world)
{
    world_trace(world, "coordinator: the commit fails");
    drop_memory(world);
    for (size_t i = world->host.waiting_count; i-- > 0;) {
        if (world->host.waiting[i].deadline_ms != 0)
            answer_store_failed(world, i);
    }
}

/* ---- one step of the core */

static void note_seen(struct world *world, const struct coord_event *event)
{
    struct sim_host *host = &world->host;
    int64_t wait_ms = event->kind == COORD_EVENT_JOB_PUT ? CREATION_MS_MAX : event->wait_ms;

    for (size_t i = host->waiting_count; i-- > 0;) {
        if (event->request == 0 || host->waiting[i].id != event->request)
            continue;
        host->waiting[i].deadline_ms = world->now_ms + wait_ms;
        if (event->kind == COORD_EVENT_REQUEST_GONE)
            forget_request(host, i); /* from now on an answer would be one too many */
    }
}

/* Takes what the event owns. */
static void step(struct world *world, struct coord_event *event)
{
    struct sim_host *host = &world->host;

    event->now_ms = world->now_ms;
    event->now_at = HOST_WALL_MS + world->now_ms;
    event->random = rng_next(&world->rng);
    (void)snprintf(event->uuid, sizeof(event->uuid), HOST_UUID_PATTERN,
                   (unsigned long long)(event->random & 0xffffffffffff));
    note_seen(world, event);
    checks_before_step(world, event);
    mutation_bend_coord_event(world, event);
    host->update = (struct update){.wake_ms = INT64_MAX};
    bool works = host->cluster.recovery.state == RECOVERY_NONE;
    coord_step(&host->cluster, event, &host->update);
    if (!works && host->cluster.recovery.state == RECOVERY_NONE)
        host->loaded_ms = world->now_ms;
    mutation_bend_update(world, event, &host->update);
    checks_after_step(world, event, &host->update);
    host->wake_ms = host->update.wake_ms;
    host->ticked = event->kind == COORD_EVENT_TICK;
    coord_event_finish(event);
    host->stage =
        world->config.mutation == MUTATION_TOLD_BEFORE_DURABLE ? HOST_ANSWERS : HOST_COMMIT;
    host->next = 0;
}

static void load(struct world *world)
{
    struct sim_host *host = &world->host;
    struct coord_event start = {.kind = COORD_EVENT_START};

    cluster_init(&host->cluster, world->config.core);
    durable_load(&world->durable, &host->cluster);
    host->loaded = true;
    host->loaded_ms = world->now_ms;
    checks_loaded(world);
    step(world, &start);
}

/* ---- an update, stage by stage */

static void commit(struct world *world)
{
    struct sim_host *host = &world->host;
    bool fails =
        host->update.changes.count > 0 && world_chance(world, world->config.fault_permille / 10);

    /* One that fails may be there all the same: only what is loaded tells. */
    if (!fails || world_between(world, 0, 1) == 0) {
        durable_commit(&world->durable, &host->update, world->config.mutation);
        checks_committed(world, &host->update);
    }
    if (fails) {
        world->tally->of[TALLY_STORE_FAILED]++;
        give_up_update(world);
        return;
    }
    host->stage = HOST_CALLS;
    host->next = 0;
}

static void finish_update(struct sim_host *host)
{
    update_finish(&host->update);
    host->stage = HOST_IDLE;
}

static void advance_update(struct world *world)
{
    struct sim_host *host = &world->host;
    bool early = world->config.mutation == MUTATION_TOLD_BEFORE_DURABLE;

    switch (host->stage) {
    case HOST_COMMIT:
        commit(world);
        return;
    case HOST_CALLS:
        if (host->next < host->update.calls.count) {
            admin_post(world, &host->update.calls.items[host->next++]);
            return;
        }
        host->next = 0;
        host->stage = HOST_ANSWERS;
        if (early)
            finish_update(host);
        return;
    case HOST_ANSWERS:
        if (host->next < host->update.answers.count)
            answer_next(world);
        else if (early)
            host->stage = HOST_COMMIT;
        else
            finish_update(host);
        return;
    case HOST_IDLE:
        break;
    }
    assert(!"an update under way");
}

/* ---- its life */

void host_start(struct world *world)
{
    world_trace(world, "coordinator starts");
    world->host.alive = true;
    world->host.load_ms = world->now_ms;
}

static void drop_mail(struct sim_host *host)
{
    while (host->mail_count > 0)
        coord_event_finish(&host->mail[--host->mail_count]);
}

void host_crash(struct world *world)
{
    struct sim_host *host = &world->host;

    world_trace(world, "coordinator crashes, in stage %d", (int)host->stage);
    world->tally->of[TALLY_HOST_CRASH_EARLY] += host->stage == HOST_COMMIT;
    world->tally->of[TALLY_HOST_CRASH_LATE] += host->stage == HOST_ANSWERS;
    drop_memory(world);
    drop_mail(host);
    hang_up(world);
    host->alive = host->paused = false;
    admin_crash(world);
    operator_forget(world);
}

void host_finish(struct world *world)
{
    drop_memory(world);
    drop_mail(&world->host);
}

static struct coord_event take_mail(struct sim_host *host)
{
    struct coord_event event = host->mail[0];

    host->mail_count--;
    memmove(&host->mail[0], &host->mail[1], host->mail_count * sizeof(host->mail[0]));
    return event;
}

static void answer_unloaded(struct world *world, struct coord_event *event)
{
    for (size_t i = world->host.waiting_count; i-- > 0;) {
        if (event->request != 0 && world->host.waiting[i].id == event->request)
            answer_store_failed(world, i);
    }
    coord_event_finish(event);
}

static bool begin(struct world *world)
{
    struct sim_host *host = &world->host;
    struct coord_event event = {.kind = COORD_EVENT_TICK};

    if (!host->loaded && world->now_ms >= host->load_ms) {
        load(world);
        return true;
    }
    if (host->loaded && world->now_ms >= host->wake_ms &&
        (!host->ticked || host->mail_count == 0)) {
        step(world, &event);
        return true;
    }
    host->ticked = false;
    if (host->mail_count == 0)
        return false;
    event = take_mail(host);
    if (host->loaded)
        step(world, &event);
    else
        answer_unloaded(world, &event);
    return true;
}

bool host_turn(struct world *world)
{
    struct sim_host *host = &world->host;

    if (!host->alive || host->paused)
        return false;
    if (host->stage == HOST_IDLE) {
        if (!begin(world))
            return false;
    } else {
        advance_update(world);
    }
    host->actions_done++;
    return true;
}

int64_t host_due_ms(const struct world *world)
{
    const struct sim_host *host = &world->host;

    if (!host->alive || host->paused)
        return host->back_ms;
    if (host->stage != HOST_IDLE || host->mail_count > 0)
        return world->now_ms;
    return host->loaded ? host->wake_ms : host->load_ms;
}

/* ---- what comes in */

static uint64_t expect(struct sim_host *host, const struct sim_request *request)
{
    assert(host->waiting_count < HOST_WAITING_MAX);
    host->waiting[host->waiting_count] = *request;
    host->waiting[host->waiting_count].id = ++host->request;
    host->waiting_count++;
    return host->request;
}

static bool has_room(const struct sim_host *host)
{
    return host->mail_count < HOST_MAIL_MAX - KAFKA_RESULTS &&
           host->waiting_count < HOST_WAITING_MAX;
}

void host_receive(struct world *world, struct message *message)
{
    struct sim_host *host = &world->host;
    struct sim_request request = {.event = message->event.kind,
                                  .asker = message->agent,
                                  .kind = message->kind,
                                  .start = message->start,
                                  .number = message->number};

    if (!has_room(host))
        return; /* 503, as if it had been lost */
    message->event.request = expect(host, &request);
    host->mail[host->mail_count++] = message->event;
    message->event = (struct coord_event){.kind = COORD_EVENT_TICK};
}

uint64_t host_ask(struct world *world, struct coord_event *event)
{
    struct sim_host *host = &world->host;
    struct sim_request request = {.event = event->kind, .asker = HOST_OPERATOR};

    if (!host->alive || !has_room(host)) {
        coord_event_finish(event);
        return 0;
    }
    event->request = expect(host, &request);
    event->actor = mem_strdup("api");
    host->mail[host->mail_count++] = *event;
    return event->request;
}

void host_deliver(struct world *world, struct kafka_result *result)
{
    struct sim_host *host = &world->host;

    assert(host->mail_count < HOST_MAIL_MAX);
    host->mail[host->mail_count++] =
        (struct coord_event){.kind = COORD_EVENT_KAFKA, .kafka = *result};
    *result = (struct kafka_result){0};
}

void host_leave(struct world *world)
{
    struct sim_host *host = &world->host;
    struct sim_request *request;

    if (!host->alive || host->waiting_count == 0 || !has_room(host))
        return;
    request = &host->waiting[world_between(world, 0, (int64_t)host->waiting_count - 1)];
    if (request->gone)
        return;
    world->tally->of[TALLY_REQUEST_GONE]++;
    request->gone = true;
    if (request->asker == HOST_OPERATOR)
        operator_forget(world);
    host->mail[host->mail_count++] =
        (struct coord_event){.kind = COORD_EVENT_REQUEST_GONE, .request = request->id};
}

bool host_has_people(const struct world *world)
{
    for (size_t i = 0; i < world->host.waiting_count; i++) {
        if (world->host.waiting[i].asker == HOST_OPERATOR)
            return true;
    }
    return false;
}
