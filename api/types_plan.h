/*
 * Looks ahead: what a change would move. Part of api/types.h, whose rules hold.
 */
#ifndef BATON_API_TYPES_PLAN_H
#define BATON_API_TYPES_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_PLAN_AGENTS_MAX 100      /* of one look ahead */
#define API_PLAN_MOVES_MAX  10000000 /* all processors of as many jobs as there may be */
#define API_PLAN_ID_BYTES   32

enum planned_change {
    PLANNED_CHANGE_DRAIN,      /* agents */
    PLANNED_CHANGE_CORDON,     /* agents */
    PLANNED_CHANGE_UNCORDON,   /* agents */
    PLANNED_CHANGE_ADD_AGENTS, /* count, capacity */
    PLANNED_CHANGE_REBALANCE,  /* job */
    PLANNED_CHANGE_MOVE,       /* job, processor, target or NULL */
    PLANNED_CHANGE_STANDBYS,   /* job, standbys */
    PLANNED_CHANGE_COUNT
};

/* POST /v1/plans: the change, and what it is about; the rest is absent. */
struct plan_request {
    enum planned_change change;
    struct {
        char **items;
        size_t count;
    } agents;
    char *job;
    char *target;      /* of the move; NULL: whom the planner finds best */
    int64_t processor; /* API_UNKNOWN when absent, as the next three */
    int64_t count;     /* 1..API_PLAN_AGENTS_MAX */
    int64_t capacity;
    int64_t standbys;
};

enum planned_kind {
    PLANNED_KIND_ASSIGN,      /* what has no owner gets the target */
    PLANNED_KIND_TAKE_OVER,   /* the target gets it without the source's steps */
    PLANNED_KIND_HAND_OVER,   /* the target learns it, then the source gives it up */
    PLANNED_KIND_CANCEL,      /* the hand-over under way to the target ends, the source keeps it */
    PLANNED_KIND_STANDBY,     /* the target learns it for good */
    PLANNED_KIND_END_STANDBY, /* the source is its standby no more */
    PLANNED_KIND_SPLIT        /* a new processor gets a part of what the source has */
};

struct plan_move {
    enum planned_kind kind;
    bool waits; /* it would not begin at once */
    char *job;
    uint32_t processor;
    char *source;        /* agent, or NULL */
    char *target;        /* agent; NULL: nobody can take it yet */
    char *reason;        /* why it moves, or what it waits for */
    int64_t records;     /* that the target has to learn; API_UNKNOWN: it can not be told */
    int64_t state_bytes; /* of the owner's state; API_UNKNOWN: not known */
    int64_t eta_ms;      /* from its begin until it is learned; API_UNKNOWN: not known */
};

struct plan_view {
    enum planned_change change;
    char *plan;    /* its id, for the request that carries it out; NULL: not one request does */
    char *refused; /* code of the problem that the change would be answered with, or NULL */
    char *refused_detail;
    struct {
        struct plan_move *items;
        size_t count;
    } moves;             /* in the order in which they would begin */
    int64_t records;     /* of all; API_UNKNOWN: of some it is not known, as the next two */
    int64_t state_bytes; /* ... */
    int64_t eta_ms;      /* until all are learned */
};

/* What an expansion would take: the answer to one with `dry_run`. */
struct expansion_plan {
    char *job;
    uint32_t processors, partitions; /* that it would have */
    struct {
        struct plan_move *items;
        size_t count;
    } moves;             /* one after the other */
    int64_t records;     /* as in plan_view, as the next two */
    int64_t state_bytes; /* ... */
    int64_t eta_ms;      /* ... */
};

#endif
