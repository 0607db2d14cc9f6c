/* A whole watched job in one process, on a virtual clock, from one seed: the real agents, controllers and
 * orchestrator (through watch/advice.h), a model of the store (store_model.h), a model of the job's ranks
 * that pass the real gates (job_model.h), and a model of the processes that test devices and links, which
 * measure without error, or wrong every other time. Faults come at random: slow ranks, hosts and directions
 * of links, alone or two at once; the store's faults; agents and controllers that die.
 *
 * The promises that are checked as time passes:
 * - a rank is never parked beyond the deadline of its hold, and a job whose controller has ended a hold runs;
 * - the job never stands still for longer than a hold lasts;
 * - while a cut is closed, no rank makes a call;
 * - a verdict names only what is slow, or was lately; abstaining is allowed. No advice without a fault;
 * - an onset that is not relieved has its verdict within FLEET_VERDICT, if nothing else fails meanwhile.
 *
 * Nodes may have clocks of their own. The clock, the rings, the mapping of gates, the tests' processes and
 * the connection of a store are replaced when the program is linked (-Wl,--wrap). */
#pragma once

#include "base/time.h"
#include "job_model.h"
#include <stddef.h>
#include <stdint.h>

#define FLEET_VERDICT (30 * SL_SECOND)
#define FLEET_LATELY (40 * SL_SECOND) /* a fault that ended this long ago may still be named */

enum { FLEET_FAULTS = 6 };

typedef enum fleet_fault_kind {
    FLEET_SLOW_DEVICE,
    FLEET_SLOW_HOST,
    FLEET_SLOW_LINK,
    FLEET_STORE_DOWN,    /* and back with its data */
    FLEET_STORE_RESTART, /* down, and back with the data of a second before */
    FLEET_STORE_EMPTY,   /* down, and back without data */
    FLEET_STORE_LOSES,   /* connections, before or after the request was done */
    FLEET_STORE_LATE,    /* answers up to twice `factor` seconds late */
    FLEET_STORE_FULL,
    FLEET_STORE_TWICE, /* some entries are in the log twice */
    FLEET_NODE_CUT,    /* from the store */
    FLEET_AGENT_DIES,  /* and another one starts */
    FLEET_CONTROLLER_DIES,
    FLEET_FAULT_KINDS
} fleet_fault_kind;

typedef struct fleet_fault {
    fleet_fault_kind kind;
    int rank, from, to, node;
    double factor;
    sl_time begin, end; /* from the start of the run */
} fleet_fault;

typedef struct fleet_plan {
    uint64_t seed;
    job_shape shape;
    int ranks, per_node, stages, controllers, hold;
    int flukes; /* tests measure a healthy rank and its links wrong, every other time */
    int clocks; /* each node has its own, with an offset; otherwise all share one */
    sl_time work, length;
    fleet_fault fault[FLEET_FAULTS];
    int faults;
} fleet_plan;

/** The plan of a seed. `ranks` 0: 4 to 32; otherwise about as many, 8 on each node. */
fleet_plan fleet_plan_of(uint64_t seed, int ranks);

/** In one line, in text[size]. */
void fleet_plan_text(const fleet_plan *plan, char *text, size_t size);

typedef struct fleet_result {
    int broken; /* a promise was */
    char why[512];
    int onsets, reliefs, verdicts, right, abstained; /* events; of verdicts */
    int wrong;
    int named;          /* all slow components were in verdicts */
    int holds, closed;  /* tried, and closed */
    sl_time noticed;    /* from the first slow component to its onset event; 0: none */
    sl_time decided;    /* from the onset event to the verdict's */
    int64_t iterations; /* of rank 0 */
    int64_t requests;   /* of the store */
} fleet_result;

/** Runs a plan. `show`: prints all events to standard error. */
void fleet_run(const fleet_plan *plan, int show, fleet_result *result);
