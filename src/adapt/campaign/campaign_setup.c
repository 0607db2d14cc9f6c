/* What remedies make of the job. */
#include "adapt/balance/balance.h"
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

#define MOST_PLANNED 64 /* replicas whose splits are planned for every number of microbatches */

const char *const sl_campaign_remedy_names[SL_CAMPAIGN_REMEDIES] = {
    "adapt the schedule", "delegate the communication", "balance microbatches", "change the topology",
    "restart without the bad host"};

/* ---- setups as values ---- */

void sl_setup_free(sl_setup *setup) {
    sl_free(setup->cured);
    sl_free(setup->plan);
    sl_free(setup->split);
    sl_free(setup->moved);
    sl_free(setup->seated);
    *setup = (sl_setup){0};
}

static sl_status copy_ints(const int *from, int count, int **to) {
    if (!from)
        return SL_OK;
    SL_TRY(sl_alloc(to, (size_t)count, sizeof **to));
    memcpy(*to, from, (size_t)count * sizeof *from);
    return SL_OK;
}

sl_status sl_setup_copy(const sl_simulation *s, const sl_setup *setup, sl_setup *copy) {
    int replicas = s->campaign->replicas;
    *copy = (sl_setup){.family = setup->family,
                       .delegated = setup->delegated,
                       .adapted = setup->adapted,
                       .cures = setup->cures,
                       .moves = setup->moves};
    SL_TRY(copy_ints(setup->cured, setup->cures, &copy->cured));
    SL_TRY(copy_ints(setup->plan, replicas, &copy->plan));
    SL_TRY(copy_ints(setup->split, replicas, &copy->split));
    SL_TRY(copy_ints(setup->moved, setup->moves, &copy->moved));
    return copy_ints(setup->seated, setup->moves, &copy->seated);
}

/* Arrays that say what nothing says too are left away, so that equal setups have equal bytes. */
static void tidy(const sl_simulation *s, sl_setup *setup) {
    int planned = 0, split = 0;
    for (int d = 0; d < s->campaign->replicas; d++) {
        planned |= sl_setup_plan(setup, d) != 0;
        split |= sl_setup_share(s, setup, d) != s->campaign->problem.microbatches;
    }
    if (!planned) {
        sl_free(setup->plan);
        setup->plan = NULL;
    }
    if (!split) {
        sl_free(setup->split);
        setup->split = NULL;
    }
}

static sl_status write_key(const sl_simulation *s, const sl_setup *setup, int **key, size_t *count) {
    int replicas = s->campaign->replicas,
        head[7] = {setup->family,       setup->delegated,     setup->adapted, setup->cures,
                   setup->plan != NULL, setup->split != NULL, setup->moves};
    const int *part[] = {head, setup->cured, setup->plan, setup->split, setup->moved, setup->seated};
    int size[] = {7, setup->cures, replicas, replicas, setup->moves, setup->moves};
    *count = 0;
    SL_TRY(sl_alloc(key, (size_t)(7 + setup->cures + 2 * replicas + 2 * setup->moves), sizeof **key));
    for (int i = 0; i < 6; i++)
        if (part[i] && size[i]) {
            memcpy(*key + *count, part[i], (size_t)size[i] * sizeof **key);
            *count += (size_t)size[i];
        }
    return SL_OK;
}

/* Of a job of thousands of replicas a setup is large and there are many: 128 bits stand for it. */
static void digest(const int *key, size_t count, uint64_t sum[2]) {
    sum[0] = count;
    sum[1] = ~(uint64_t)count;
    for (size_t i = 0; i < count; i++) {
        uint64_t word = (uint64_t)(uint32_t)key[i];
        sum[0] = sl_random_mix(sum[0] ^ word) + SL_RANDOM_STEP;
        sum[1] = sl_random_mix(sum[1] + word * SL_RANDOM_STEP + i) ^ sum[0];
    }
}

sl_status sl_simulation_keep(sl_simulation *s, sl_setup *setup, int *number) {
    int *key = NULL, is_new = 0;
    size_t count = 0;
    uint64_t sum[2];
    tidy(s, setup);
    sl_status status = write_key(s, setup, &key, &count);
    if (status == SL_OK) {
        digest(key, count, sum);
        status = sl_keys_number(&s->setup_keys, sum, sizeof sum, number, &is_new);
    }
    if (status == SL_OK)
        status = sl_grow(&s->setup, &s->setup_room, s->setup_keys.count, sizeof *s->setup);
    sl_free(key);
    if (status == SL_OK && is_new) {
        s->setup[*number] = *setup;
        *setup = (sl_setup){0};
    }
    sl_setup_free(setup);
    return status;
}

/* ---- what a remedy does ---- */

/* Every replica is planned for what is slow in it now. */
static sl_status plan_anew(sl_simulation *s, sl_setup *setup, int world) {
    size_t traits, replicas = (size_t)s->campaign->replicas;
    SL_TRY(sl_simulation_look(s, setup, world, &traits));
    if (!setup->plan)
        SL_TRY(sl_alloc(&setup->plan, replicas, sizeof *setup->plan));
    memcpy(setup->plan, s->sig, replicas * sizeof *s->sig);
    return SL_OK;
}

/* Replicas of one kind take the same time for the same number of microbatches. */
typedef struct curve {
    int traits, plan;
    double *time; /* [most + 1] by microbatches, never falling; 0: not asked for */
} curve;

typedef struct balancing {
    sl_simulation *simulation;
    const sl_setup *setup;
    curve *curve;
    int curves, most;
    int planned; /* what is adapted is planned for every number that is asked for; else timed in the job's
                    order */
    int *of;     /* [replicas] */
} balancing;

/* A rule of thumb may plan one microbatch more in less time; the search needs times that never fall. */
static double never_falling(const curve *c, int most, int microbatches, double time) {
    for (int m = microbatches - 1; m > 0; m--)
        if (c->time[m] > 0) {
            time = fmax(time, c->time[m]);
            break;
        }
    for (int m = microbatches + 1; m <= most; m++)
        if (c->time[m] > 0) {
            time = fmin(time, c->time[m]);
            break;
        }
    return time;
}

/* The form of sl_replica_curve. */
static sl_status time_of(void *context, int replica, int microbatches, double *time) {
    balancing *b = context;
    curve *c = &b->curve[b->of[replica]];
    if (!(c->time[microbatches] > 0)) {
        sl_time took;
        SL_TRY(sl_simulation_replica(b->simulation, b->setup, c->traits, c->plan, microbatches, &took));
        c->time[microbatches] =
            never_falling(c, b->most, microbatches, took == SL_TIME_NEVER ? INFINITY : (double)took);
    }
    *time = c->time[microbatches];
    return SL_OK;
}

static sl_status find_curves(balancing *b) {
    const sl_simulation *s = b->simulation;
    for (int d = 0; d < s->campaign->replicas; d++) {
        int traits = s->sig[d], i = 0;
        int plan = b->setup->adapted ? b->planned * traits : sl_setup_plan(b->setup, d);
        while (i < b->curves && (b->curve[i].traits != traits || b->curve[i].plan != plan))
            i++;
        if (i == b->curves) {
            b->curve[i] = (curve){.traits = traits, .plan = plan};
            SL_TRY(sl_alloc(&b->curve[i].time, (size_t)b->most + 1, sizeof(double)));
            b->curves++;
        }
        b->of[d] = i;
    }
    return SL_OK;
}

static sl_status suggest(balancing *b, int total, int *guess) {
    const sl_problem *p = &b->simulation->campaign->problem;
    int replicas = b->simulation->campaign->replicas;
    sl_replica *replica;
    double makespan, time;
    SL_TRY(sl_alloc(&replica, (size_t)replicas, sizeof *replica));
    sl_status status = SL_OK;
    for (int d = 0; d < replicas && status == SL_OK; d++) {
        status = time_of(b, d, p->microbatches, &time);
        replica[d] = (sl_replica){
            .time = fmax(1, time / (p->microbatches + p->ranks - 1)), .fill = p->ranks - 1, .limit = b->most};
    }
    if (status == SL_OK)
        status = sl_balance(replica, replicas, total, guess, &makespan);
    sl_free(replica);
    return status;
}

static sl_status divide(balancing *b, int *split) {
    int replicas = b->simulation->campaign->replicas, *guess;
    int total = replicas * b->simulation->campaign->problem.microbatches;
    double makespan;
    SL_TRY(sl_alloc(&guess, 2 * (size_t)replicas, sizeof *guess));
    for (int d = 0; d < replicas; d++)
        guess[replicas + d] = b->most;
    sl_status status = suggest(b, total, guess);
    if (status == SL_OK)
        status = sl_balance_curve(
            &(sl_replica_curve){.time = time_of, .context = b, .limit = guess + replicas, .guess = guess},
            replicas, total, split, &makespan);
    sl_free(guess);
    return status;
}

/* At most four times the even share: no replica is so much faster, and plans of many microbatches are dear.
 */
static int most_microbatches(const sl_problem *p, int replicas) {
    long long most = SL_MAX_OPS / (3LL * p->stages * p->parts);
    long long wanted = p->microbatches > 16 ? 4LL * p->microbatches : 64;
    wanted = wanted < (long long)replicas * p->microbatches ? wanted : (long long)replicas * p->microbatches;
    most = most < SL_MAX_MICROBATCHES ? most : SL_MAX_MICROBATCHES;
    return (int)(wanted < most ? wanted : most);
}

static sl_status balance(sl_simulation *s, sl_setup *setup, int world) {
    size_t traits, replicas = (size_t)s->campaign->replicas;
    if (replicas == 1 || s->campaign->problem.placement == SL_BIDIRECTIONAL)
        return SL_OK;
    balancing b = {
        .simulation = s, .setup = setup, .most = most_microbatches(&s->campaign->problem, (int)replicas)};
    int *split = NULL;
    SL_TRY(sl_simulation_look(s, setup, world, &traits));
    b.planned = replicas <= MOST_PLANNED;
    sl_status status = sl_alloc(&b.of, replicas, sizeof *b.of);
    if (status == SL_OK)
        status = sl_alloc(&b.curve, replicas, sizeof *b.curve);
    if (status == SL_OK)
        status = find_curves(&b);
    if (status == SL_OK)
        status = sl_alloc(&split, replicas, sizeof *split);
    if (status == SL_OK)
        status = divide(&b, split);
    for (int i = 0; i < b.curves; i++)
        sl_free(b.curve[i].time);
    sl_free(b.curve);
    sl_free(b.of);
    if (status == SL_OK) {
        sl_free(setup->split);
        setup->split = split;
    } else {
        sl_free(split);
    }
    return status == SL_ENONE ? SL_OK : status; /* no split fits: as it was */
}

/* What is slow now is left behind, and all that was done about it. */
static sl_status restart(sl_simulation *s, sl_setup *setup, int world) {
    int active;
    size_t size;
    int family = setup->family;
    SL_TRY(sl_simulation_active(s, setup, world, &active));
    (void)sl_keys_at(&s->world_keys, world, &size);
    sl_setup_free(setup);
    setup->family = family;
    SL_TRY(sl_alloc(&setup->cured, size / sizeof(int), sizeof *setup->cured));
    const int *faults = sl_keys_at(&s->world_keys, world, &size);
    setup->cures = (int)(size / sizeof(int));
    if (setup->cures)
        memcpy(setup->cured, faults, size);
    return SL_OK;
}

static sl_status change(sl_simulation *s, sl_setup *setup, int world, sl_campaign_remedy remedy) {
    switch (remedy) {
    case SL_CAMPAIGN_ADAPT:
        setup->adapted = 1;
        break;
    case SL_CAMPAIGN_DELEGATE:
        setup->delegated = 1;
        break;
    case SL_CAMPAIGN_BALANCE:
        SL_TRY(balance(s, setup, world));
        break;
    case SL_CAMPAIGN_TOPOLOGY:
        SL_TRY(sl_setup_rearrange(s, setup, world));
        if (setup->split)
            SL_TRY(balance(s, setup, world));
        break;
    default:
        return restart(s, setup, world);
    }
    return setup->adapted ? plan_anew(s, setup, world) : SL_OK;
}

static sl_status try_remedy(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy, int *result) {
    sl_setup next = {0};
    sl_status status = sl_setup_copy(s, &s->setup[setup], &next);
    if (status == SL_OK)
        status = change(s, &next, world, remedy);
    if (status == SL_OK)
        status = sl_simulation_keep(s, &next, result);
    sl_setup_free(&next);
    return status;
}

/* What comes along must be worth it: one time in a hundred. */
static sl_status follow_up(sl_simulation *s, int world, unsigned follow, int *result) {
    static const sl_campaign_remedy cheap[] = {SL_CAMPAIGN_DELEGATE, SL_CAMPAIGN_ADAPT};
    for (int i = 0; i < 2; i++) {
        int next;
        sl_time before, after;
        const sl_setup *setup = &s->setup[*result];
        if (!(follow & 1u << cheap[i]) || (cheap[i] == SL_CAMPAIGN_ADAPT ? setup->adapted : setup->delegated))
            continue;
        SL_TRY(try_remedy(s, *result, world, cheap[i], &next));
        SL_TRY(sl_simulation_time(s, *result, world, &before));
        SL_TRY(sl_simulation_time(s, next, world, &after));
        if ((double)after < 0.99 * (double)before)
            *result = next;
    }
    return SL_OK;
}

static sl_status derive(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy, unsigned follow,
                        int *result) {
    sl_time before, after;
    SL_TRY(try_remedy(s, setup, world, remedy, result));
    if (remedy == SL_CAMPAIGN_BALANCE || remedy == SL_CAMPAIGN_TOPOLOGY)
        SL_TRY(follow_up(s, world, follow, result));
    SL_TRY(sl_simulation_time(s, setup, world, &before));
    SL_TRY(sl_simulation_time(s, *result, world, &after));
    if (after >= before)
        *result = setup;
    return SL_OK;
}

sl_status sl_simulation_apply(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy,
                              unsigned follow, int *result, sl_time *cost) {
    int key[5] = {setup, world, (int)remedy, (int)follow, 0}, number, is_new;
    SL_TRY(sl_keys_number(&s->derive_keys, key, sizeof key, &number, &is_new));
    if (is_new) {
        SL_TRY(derive(s, setup, world, remedy, follow, result));
        SL_TRY(sl_grow(&s->derived, &s->derived_room, s->derive_keys.count, sizeof *s->derived));
        s->derived[number] = *result;
    }
    *result = s->derived[number];
    const sl_setup *from = &s->setup[setup], *to = &s->setup[*result];
    const sl_time *price = s->campaign->cost;
    *cost = price[remedy];
    if (remedy == SL_CAMPAIGN_BALANCE || remedy == SL_CAMPAIGN_TOPOLOGY)
        *cost += (to->adapted > from->adapted ? price[SL_CAMPAIGN_ADAPT] : 0) +
                 (to->delegated > from->delegated ? price[SL_CAMPAIGN_DELEGATE] : 0);
    return SL_OK;
}

static sl_status take_back(sl_simulation *s, sl_setup *setup, int world, sl_campaign_remedy remedy) {
    if (remedy == SL_CAMPAIGN_ADAPT) {
        setup->adapted = 0;
        sl_free(setup->plan);
        setup->plan = NULL;
    } else if (remedy == SL_CAMPAIGN_DELEGATE) {
        setup->delegated = 0;
    } else if (remedy == SL_CAMPAIGN_BALANCE) {
        sl_free(setup->split);
        setup->split = NULL;
    } else if (remedy == SL_CAMPAIGN_TOPOLOGY) {
        setup->moves = 0;
        if (setup->split)
            SL_TRY(balance(s, setup, world));
    }
    return setup->adapted ? plan_anew(s, setup, world) : SL_OK;
}

sl_status sl_simulation_undo(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy, int *result) {
    sl_setup next = {0};
    sl_status status = sl_setup_copy(s, &s->setup[setup], &next);
    if (status == SL_OK)
        status = take_back(s, &next, world, remedy);
    if (status == SL_OK)
        status = sl_simulation_keep(s, &next, result);
    sl_setup_free(&next);
    return status;
}

/* ---- distances ---- */

static int differ(const int *a, const int *b, int count) {
    return (a == NULL) != (b == NULL) || (a && memcmp(a, b, (size_t)count * sizeof *a) != 0);
}

static int cures_more(const sl_setup *from, const sl_setup *to) {
    for (int i = 0; i < to->cures; i++) {
        int k = 0;
        while (k < from->cures && from->cured[k] != to->cured[i])
            k++;
        if (k == from->cures)
            return 1;
    }
    return 0;
}

/* A part that changes: applied again, or taken back. */
static sl_time part(const sl_campaign *c, sl_campaign_remedy remedy, int changes, int is_there) {
    return !changes ? 0 : is_there ? c->cost[remedy] : c->undo[remedy];
}

sl_time sl_setup_distance(const sl_simulation *s, int from, int to) {
    const sl_campaign *c = s->campaign;
    const sl_setup *a = &s->setup[from], *b = &s->setup[to];
    sl_time cost = cures_more(a, b) ? c->cost[SL_CAMPAIGN_RESTART] : 0;
    cost += part(c, SL_CAMPAIGN_ADAPT, differ(a->plan, b->plan, c->replicas), b->plan != NULL);
    cost += part(c, SL_CAMPAIGN_DELEGATE, a->delegated != b->delegated, b->delegated);
    cost += part(c, SL_CAMPAIGN_BALANCE, differ(a->split, b->split, c->replicas), b->split != NULL);
    int moved =
        a->moves != b->moves ||
        (a->moves && (differ(a->moved, b->moved, a->moves) || differ(a->seated, b->seated, a->moves)));
    return cost + part(c, SL_CAMPAIGN_TOPOLOGY, moved, b->moves > 0);
}
