/* The network of a running job, measured on request and from time to time: every link of a pipeline in use,
 * and every pair of processes that hold the same stages, whether or not they are slow now. What the sums over
 * replicas take tells that some link of a stage is slow, but not which, and nothing of those that nobody
 * uses; who decides about the topology wants to know both.
 *
 * The ping test of run/journal/ping.h, over the path in use: the transport's for pipelines, the data group's
 * messages for replicas, so what is emulated there holds here. Pairs without a rank in common go at the same
 * time: neighbours of a pipeline in 2 rounds (3 where they form a ring of an odd number), D replicas in D - 1
 * rounds (D if D is odd). A round takes a few milliseconds, or where a link is slow SL_NETWORK_BUDGET, if not
 * longer until its messages have gone there and back four times; they are of SL_NETWORK_BYTES, or where
 * that is smaller of a stage's message (between stages) or of a replica's share of a sum (between replicas).
 *
 * It happens between two iterations and is part of none: `period` of the iteration before does not count it,
 * and no op, message or sum of an iteration is under way. */
#pragma once

#include "run/file/run.h"
#include "run/journal/ping.h"

#define SL_NETWORK_BUDGET (20 * SL_MS)
#define SL_NETWORK_BYTES ((size_t)256 << 10)

struct sl_trainer;

/* A direction between two processes. */
typedef struct sl_network_link {
    int from, to;    /* homes: world ranks when the attempt began (sl_trainer.home) */
    int replicas;    /* 1: of one stage in two replicas; 0: neighbours in a pipeline */
    sl_time latency; /* alpha */
    double per_byte; /* beta, ns; 0: too fast to tell */
} sl_network_link;

/* What was found last. */
typedef struct sl_network_profile {
    sl_network_link *link; /* [links], on the leader only */
    int links;
    sl_time at, took; /* when it was over (0: never measured), and how long it took */
} sl_network_profile;

/** What is measured: *count pairs of world ranks in the order in which they go (neighbours, then replicas),
 * and the round of each: pairs of a round have no rank in common. Room for sl_network_profile_most(run) of
 * either. Pure; SL_ENOMEM. */
int sl_network_profile_most(const sl_run *run);
sl_status sl_network_profile_pairs(const sl_run *run, sl_ping_pair *pairs, int *round, int *count);

/** Measures. Collective over the world, between two iterations, of which `iteration` comes next: links are
 * as they will be then. The leader's t->network is new, and an event `profile` says what was slowest.
 * SL_EPEER, SL_ENOMEM. */
sl_status sl_network_profile_measure(struct sl_trainer *t, int iteration);

/** The leader: whether it is time again (adaptation.profile_every_s). */
int sl_network_profile_due(const struct sl_trainer *t);

void sl_network_profile_free(sl_network_profile *network);
