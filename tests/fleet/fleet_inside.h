/* The state of a simulated fleet, shared by its files: fleet.c has the events and the promises,
 * fleet_replaced.c what stands in the place of parts of the agents. */
#pragma once

#include "fleet.h"
#include "notice/agent/agent.h"
#include "notice/agent/members.h"
#include "notice/control/controller.h"
#include "store_model.h"

typedef struct fleet fleet;

typedef enum fleet_event_kind {
    FLEET_RANK,
    FLEET_AGENT,
    FLEET_CONTROLLER,
    FLEET_RETRY,  /* of the parked ranks of a node */
    FLEET_TESTED, /* the processes of a validation have ended */
    FLEET_FAULT,
    FLEET_LOOK
} fleet_event_kind;

typedef struct fleet_event {
    sl_time time;
    uint64_t order; /* of events at one time */
    fleet_event_kind kind;
    int id;
} fleet_event;

typedef struct fleet_agent {
    sl_agent *agent; /* NULL: dead */
    sl_store *store;
    char name[16];
    sl_time offset; /* of the node's clock */
    sl_store_position asked;
    int64_t answers;    /* questions of this round about its clock, ... */
    sl_time answers_to; /* ... until then */
    int serial;         /* events of an earlier one are void */
} fleet_agent;

typedef struct fleet_controller {
    fleet *fleet;
    sl_controller *controller; /* NULL: dead */
    sl_store *store;
    struct sl_advice *advice;
    int serial, verdict; /* verdict: an event of this step */
    sl_time advise;
} fleet_controller;

/* A validation: the processes that agents were asked to start. */
typedef struct fleet_tests {
    int64_t round;
    int members, started, serial;
    int *rank, *gemm; /* [members]; rank -1: not started, or ended */
    char links[4096];
} fleet_tests;

struct fleet {
    const fleet_plan *plan;
    fleet_result *result;
    int show;
    uint64_t random;
    sl_time now, local; /* of the event; of the process that runs */
    fleet_event *event; /* a heap */
    size_t events, event_room;
    uint64_t order;
    int actor;   /* the node whose agent or controller runs */
    int killing; /* the process ends at once */
    store_model store;
    job_model *job;
    fleet_agent *agent; /* [nodes] */
    fleet_controller controller[2];
    fleet_tests tests;
    int fluke; /* a rank that the last validation measured wrong; -1: none */
    /* promises */
    sl_time onset, began, moved, free_since;
    int64_t last_admitted, closed_at;
    int closed, named[FLEET_FAULTS];
};

/** The functions that are replaced have no other way to it. */
extern fleet *fleet_current;

/** The clock of the node whose agent or controller runs. */
static inline sl_time fleet_clock(const fleet *f) {
    return f->local + (f->agent ? f->agent[f->actor].offset : 0);
}

void fleet_later(fleet *f, sl_time time, fleet_event_kind kind, int id);

/** The processes of a validation have ended: writes their result. */
void model_tests_finish(fleet *f, int serial);
void model_tests_close(fleet *f);
