/* The ladder's strategies in a run: what would be lost with each of them. */
#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "run/arrange/departure.h"
#include "run/binding/binding.h"
#include "run/remedy/remedy_inside.h"

#include <math.h>
#include <string.h>

#define AT_ONCE (5 * SL_MS) /* of another schedule or delegates, until one was measured */
#define FIRST_RATE 1e9      /* bytes/s of an exchange of places */

/* ---- each one's iteration time, asked once a step ---- */

/* By the model, in the present arrangement. */
static sl_status present(sl_trainer *t) {
    sl_remedy *r = t->remedy;
    return r->present > 0 ? SL_OK : sl_remedy_model(t, t->home, t->run->batch.split, 0, &r->present);
}

static double measured(const sl_remedy *r) {
    return sl_remedy_believed(r);
}

/* What the running orders and the best ones take on what was measured; adapt/schedule/decision.h has replayed
 * both. Only if it is about to take the new one. */
static sl_status ask_schedule(sl_trainer *t, double *time) {
    sl_time running = 0, best = 0;
    for (int r = 0; r < t->run->parallel.data; r++) {
        const sl_decision *d = &t->replica[r].decision;
        int due = sl_adaptation_due(t->replica[r].adaptation);
        sl_time then = due >= 0 && due < t->run->adaptation.hold ? d->best_predicted : d->running_predicted;
        running = d->running_predicted > running ? d->running_predicted : running;
        best = then > best ? then : best;
    }
    *time = running > 0 ? measured(t->remedy) * (double)best / (double)running : INFINITY;
    return SL_OK;
}

/* Delegates carry messages beside the ops: the same orders, decoupled. */
static sl_status ask_delegates(sl_trainer *t, double *time) {
    sl_time with = 0, without = 0;
    for (int r = 0; r < t->run->parallel.data; r++) {
        const sl_adaptation *a = t->replica[r].adaptation;
        sl_problem usual;
        sl_time coupled, decoupled = 0;
        SL_TRY(sl_adaptation_typical(a, &usual));
        sl_status status = sl_adaptation_takes(a, &usual, &coupled);
        usual.communication = SL_DECOUPLED;
        if (status == SL_OK)
            status = sl_adaptation_takes(a, &usual, &decoupled);
        sl_problem_free(&usual);
        SL_TRY(status);
        without = coupled > without ? coupled : without;
        with = decoupled > with ? decoupled : with;
    }
    *time = without > 0 ? measured(t->remedy) * (double)with / (double)without : INFINITY;
    return SL_OK;
}

/* What the model says of another arrangement, in time as it is measured. Where another schedule alone would
 * do as well, which adapt/schedule/decision.h takes by itself, it cannot help. */
static sl_status beside_schedule(sl_trainer *t, double modelled, double *time) {
    const sl_remedy *r = t->remedy;
    SL_TRY(present(t));
    int better = modelled < (1 - t->run->adaptation.gain) * r->present;
    *time = better ? (double)r->healthy * modelled / (double)r->healthy_model : INFINITY;
    return SL_OK;
}

static sl_status ask_balance(sl_trainer *t, double *time) {
    sl_remedy *r = t->remedy;
    double balanced;
    memcpy(r->split, t->run->batch.split, (size_t)t->run->parallel.data * sizeof *r->split);
    SL_TRY(sl_remedy_model(t, t->home, r->split, 1, &balanced));
    return beside_schedule(t, balanced, time);
}

/* The search's question: hosts are the processes by their homes. Links have what a sum's healthy time says,
 * or nothing where there are no sums, and what they have grown by. */
static sl_status make_cluster(const sl_trainer *t, sl_cluster *c) {
    const sl_cluster_view *v = &t->remedy->view;
    const sl_problem *healthy = sl_adaptation_healthy(t->replica[0].adaptation);
    int d = t->run->parallel.data;
    SL_TRY(sl_cluster_make(t->run->parallel.tensor, d, t->ranks, t->run->batch.split[0], c));
    sl_free(c->schedule);
    c->schedule = NULL;
    SL_TRY(sl_copy_text(&c->schedule, t->replica[0].plan.schedule));
    double pace = 0, bytes = 0, sums = 0;
    c->direct = 1; /* run/binding/reduce.h */
    for (int stage = 0; stage < t->ranks; stage++) {
        c->gradient[stage] = sizeof(float) * (double)sl_binding_elements(t->run, stage);
        bytes += 2 * c->gradient[stage] / d;
        sums += (double)healthy->reduce[stage];
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            c->time[kind][stage] = healthy->time[kind][stage];
    }
    pace = bytes > 0 ? sums / bytes : 0;
    c->activation = t->message_bytes;
    for (int h = 0; h < v->homes; h++) {
        c->speed[h] = 1 / v->slow[h];
        c->present[h] = t->home[h];
        for (int k = 0; k < v->homes; k++) {
            c->latency[h * v->homes + k] = h == k ? 0 : v->latency[h * v->homes + k];
            c->pace[h * v->homes + k] = h == k ? 0 : pace + v->pace[h * v->homes + k];
        }
    }
    return SL_OK;
}

/* By the model, with microbatches divided anew where that is allowed; the best one so far is kept. */
static sl_status try_places(sl_trainer *t, const int *home, double *best) {
    sl_remedy *r = t->remedy;
    size_t replicas = (size_t)t->run->parallel.data;
    int balances = r->rung[SL_REMEDY_BALANCE] >= 0;
    double time;
    memcpy(r->tried_split, balances ? t->run->batch.split : r->even, replicas * sizeof *r->tried_split);
    SL_TRY(sl_remedy_model(t, home, r->tried_split, balances, &time));
    if (time >= *best)
        return SL_OK;
    *best = time;
    memcpy(r->places, home, (size_t)t->world * sizeof *r->places);
    memcpy(r->places_split, r->tried_split, replicas * sizeof *r->places_split);
    return SL_OK;
}

/* The search knows one number of microbatches for all replicas; beside its answer stands the one for replicas
 * that get different numbers. */
static sl_status ask_topology(sl_trainer *t, double *time) {
    sl_remedy *r = t->remedy;
    sl_cluster cluster;
    sl_topology found;
    int moved = 0;
    double best = INFINITY;
    sl_status status = make_cluster(t, &cluster);
    if (status == SL_OK)
        status = sl_topology_search(&cluster, &(sl_topology_options){.seed = 1, .effort = 0.3}, &found);
    if (status == SL_OK && found.moved)
        status = try_places(t, found.host, &best);
    if (status == SL_OK)
        sl_topology_free(&found);
    sl_cluster_free(&cluster);
    if (status == SL_OK && r->rung[SL_REMEDY_BALANCE] >= 0 && sl_remedy_gather(t, r->tried))
        status = try_places(t, r->tried, &best);
    if (status == SL_OK)
        status = sl_remedy_exchange(t, r->rung[SL_REMEDY_BALANCE] >= 0, r->tried, &moved);
    if (status == SL_OK && moved)
        status = try_places(t, r->tried, &best);
    return status == SL_OK ? beside_schedule(t, best, time) : status;
}

/* Without the host that most is lost on; the others' losses stay. */
static sl_status ask_restart(sl_trainer *t, double *time) {
    sl_remedy *r = t->remedy;
    double worst = 0;
    *time = INFINITY;
    for (int i = 0; i < r->nows; i++)
        for (int end = 0; end < 2; end++) {
            double sum = 0;
            const char *host = r->now[i].home[end] >= 0 ? sl_departure_host(t, r->now[i].home[end]) : NULL;
            if (!host || !sl_can_leave(t, host))
                continue;
            for (int k = 0; k < r->nows; k++)
                for (int e = 0; e < 2; e++)
                    if (r->now[k].home[e] >= 0 &&
                        strcmp(sl_departure_host(t, r->now[k].home[e]), host) == 0) {
                        sum += r->now[k].loss;
                        break;
                    }
            if (sum > worst) {
                worst = sum;
                snprintf(r->host, sizeof r->host, "%s", host);
                *time = fmax((double)r->healthy, measured(r) * (1 - sum));
            }
        }
    return SL_OK;
}

static sl_status (*const asks[SL_REMEDIES])(sl_trainer *, double *) = {
    ask_schedule, ask_delegates, ask_balance, ask_topology, ask_restart};

/* ---- what the ladder asks ---- */

/* An iteration of `time` loses 1 - healthy / time of the time; each incident as much less as all together. An
 * answer that cannot be had (no memory, no plan) is that it cannot help. */
static double takes(sl_trainer *t, sl_remedy_strategy strategy) {
    sl_remedy *r = t->remedy;
    if (!r->known[strategy]) {
        r->known[strategy] = 1;
        if (asks[strategy](t, &r->takes[strategy]) != SL_OK)
            r->takes[strategy] = INFINITY;
    }
    return r->takes[strategy];
}

/* It brings more than the other, by what is worth a change, and costs next to nothing, or less than is lost
 * while the other is waited for and measured. */
static int is_soon_better(sl_trainer *t, sl_remedy_strategy strategy, sl_remedy_strategy than) {
    const sl_remedy *r = t->remedy;
    if (r->rung[strategy] < 0 || !(takes(t, strategy) < (1 - t->run->adaptation.gain) * takes(t, than)))
        return 0;
    double cost = (double)sl_ladder_cost(r->ladder, r->rung[strategy]);
    double other = fmin(takes(t, than), measured(r));
    return cost <= (double)r->at_once || cost <= t->run->adaptation.hold * (other - takes(t, strategy));
}

/* What comes first has to be measured before anything else is done, so it is no step on the way to what can
 * be had now: a new arrangement is planned for what is slow, and other places come with a split of their own.
 * Where they bring no more than the split, that alone does. */
static int other_does(sl_trainer *t, sl_remedy_strategy strategy) {
    const sl_remedy *r = t->remedy;
    int both = r->rung[SL_REMEDY_TOPOLOGY] >= 0 && r->rung[SL_REMEDY_BALANCE] >= 0;
    switch (strategy) {
    case SL_REMEDY_SCHEDULE:
    case SL_REMEDY_DELEGATE:
        return is_soon_better(t, SL_REMEDY_BALANCE, strategy) ||
               is_soon_better(t, SL_REMEDY_TOPOLOGY, strategy);
    case SL_REMEDY_BALANCE:
        return is_soon_better(t, SL_REMEDY_TOPOLOGY, strategy);
    case SL_REMEDY_TOPOLOGY:
        return both && takes(t, strategy) >= (1 - t->run->adaptation.gain) * takes(t, SL_REMEDY_BALANCE);
    default:
        return 0;
    }
}

static double remaining(sl_trainer *t, sl_remedy_strategy strategy, const sl_incident *incident) {
    sl_remedy *r = t->remedy;
    takes(t, strategy);
    if (other_does(t, strategy))
        return incident->loss;
    double healthy = (double)r->healthy, now = 1 - healthy / measured(r);
    if (!(r->takes[strategy] < (1 - t->run->adaptation.gain) * measured(r)) || now <= 0)
        return incident->loss; /* less than what a swap of schedules must gain */
    return incident->loss * fmax(0, 1 - healthy / r->takes[strategy]) / now;
}

static double with_schedule(void *t, const sl_incident *i) {
    return remaining(t, SL_REMEDY_SCHEDULE, i);
}
static double with_delegates(void *t, const sl_incident *i) {
    return remaining(t, SL_REMEDY_DELEGATE, i);
}
static double with_balance(void *t, const sl_incident *i) {
    return remaining(t, SL_REMEDY_BALANCE, i);
}
static double with_topology(void *t, const sl_incident *i) {
    return remaining(t, SL_REMEDY_TOPOLOGY, i);
}
static double with_restart(void *t, const sl_incident *i) {
    return remaining(t, SL_REMEDY_RESTART, i);
}

/* The split that it has left, against the best one, when nothing is slow any more. */
static double keeping_split(void *user, const sl_incident *incident) {
    sl_trainer *t = user;
    sl_remedy *r = t->remedy;
    double best;
    (void)incident;
    for (int i = 0; i < r->nows; i++)
        if (r->now[i].excess >= SL_REMEDY_LEAST * (double)r->healthy)
            return 0; /* another one asks for what is best now when its loss changes */
    memcpy(r->tried_split, t->run->batch.split, (size_t)t->run->parallel.data * sizeof *r->tried_split);
    if (r->rung[SL_REMEDY_BALANCE] < 0 || present(t) != SL_OK ||
        sl_remedy_model(t, t->home, r->tried_split, 1, &best) != SL_OK)
        return 0;
    return best < r->present ? 1 - best / r->present : 0;
}

/* ---- which there are ---- */

static int possible(const sl_trainer *t, sl_remedy_strategy strategy) {
    const sl_run *run = t->run;
    if (!run->adapt || !(run->adaptation.strategies & (1u << strategy)))
        return 0;
    switch (strategy) {
    case SL_REMEDY_DELEGATE:
        return run->transport == SL_RUN_AUTO && t->ranks > 1;
    case SL_REMEDY_BALANCE:
        return run->parallel.data > 1 && run->batch.microbatches > run->parallel.data;
    case SL_REMEDY_TOPOLOGY: /* the search knows one stage a rank */
        return t->world > 1 && t->problem.placement == SL_LINEAR;
    case SL_REMEDY_RESTART:
        return t->departure->never[0] == 0;
    default:
        return 1;
    }
}

/* A rearrangement does what the run did to begin with: groups, plans, stages and connections are opened. */
static sl_time thought(const sl_trainer *t, double seconds) {
    return seconds > 0 ? sl_from_ms(1e3 * seconds) : t->opened;
}

/* The largest stage's weights and moments go over the network once, both directions at the same time. */
static sl_time exchange_cost(const sl_trainer *t) {
    size_t most = 0;
    for (int stage = 0; stage < t->problem.stages; stage++) {
        size_t elements = sl_binding_elements(t->run, stage);
        most = elements > most ? elements : most;
    }
    double bytes = 3.0 * sizeof(float) * (double)most * (t->problem.stages / t->ranks);
    return thought(t, t->run->adaptation.topology_s) + sl_from_ms(1e3 * bytes / FIRST_RATE);
}

sl_status sl_remedy_ladder(sl_trainer *t) {
    const sl_strategy all[SL_REMEDIES] = {
        {.name = "adapt the schedule",
         .causes = SL_CAUSES_ANY,
         .cost = AT_ONCE,
         .remaining = with_schedule,
         .user = t},
        {.name = "delegate the communication",
         .causes = SL_CAUSE_LINK,
         .cost = AT_ONCE,
         .remaining = with_delegates,
         .user = t},
        {.name = "re-balance microbatches",
         .causes = SL_CAUSES_ANY,
         .cost = thought(t, t->run->adaptation.balance_s),
         .undo_cost = thought(t, t->run->adaptation.balance_s),
         .remaining = with_balance,
         .keeping = keeping_split,
         .user = t},
        {.name = "change the topology",
         .causes = SL_CAUSES_ANY,
         .cost = exchange_cost(t),
         .remaining = with_topology,
         .keeping = keeping_split, /* places cost nothing, but microbatches may be divided with them */
         .user = t},
        {.name = "restart without the host",
         .causes = SL_CAUSES_ANY,
         .cost = sl_from_ms(1e3 * t->run->adaptation.restart_s),
         .replaces = 1,
         .remaining = with_restart,
         .user = t}};
    sl_strategy chosen[SL_REMEDIES];
    sl_remedy *r = t->remedy;
    for (int s = 0; s < SL_REMEDIES; s++) {
        if (!possible(t, (sl_remedy_strategy)s))
            continue;
        r->kind[r->rungs] = s;
        r->rung[s] = r->rungs;
        chosen[r->rungs++] = all[s];
    }
    sl_ladder_config config = sl_ladder_defaults();
    /* a change that costs no more than two iterations is not waited for */
    config.at_once = 2 * r->healthy > 100 * SL_MS ? 2 * r->healthy : 100 * SL_MS;
    config.news = 0.2;
    config.calm = t->run->adaptation.hold * r->healthy; /* as a schedule returns */
    config.profile_every = 0;                           /* network.h looks at the network by itself */
    r->at_once = config.at_once;
    return sl_ladder_open(&config, chosen, r->rungs, &r->ladder);
}
