/* SPDX-License-Identifier: Apache-2.0 */
/* A training job that decides by the ladder what to do about a slow device, and carries it out. Here the job
 * is played: 4 replicas of 10 microbatches each, 1 s an iteration; from second 100 to 400 the device of
 * replica 2 needs twice as long. It can balance microbatches (3 s), or restart without the host (600 s).
 *
 * $ cc decide.c $(pkg-config --cflags --libs slackline) -o decide && ./decide
 * > 108.0 s: apply: microbatches 12 12 5 11
 * > 420+-5 s: undo: microbatches 10 10 10 10
 * > balance: when 3 s are lost, 50.0 % lost would become 16.7 % for 3 s
 *
 * From second 102 on half of the time is lost; after 6 s that is what balancing costs. */
#include <slackline/slackline.h>
#include <stdio.h>

enum { REPLICAS = 4, EACH = 10 };

static const int64_t second = 1000000000;

typedef struct job {
    double slower[REPLICAS]; /* how many times as long a microbatch takes; 1: healthy */
    int split[REPLICAS];     /* microbatches of each */
} job;

/* An iteration, s: a microbatch takes 0.1 s, and all wait for the slowest. */
static double iteration(const double *slower, const int *split) {
    double longest = 0;
    for (int i = 0; i < REPLICAS; i++)
        longest = slower[i] * split[i] * 0.1 > longest ? slower[i] * split[i] * 0.1 : longest;
    return longest;
}

/* Time lost a second: an iteration takes 1 s when all is well. */
static double loss(double time) {
    return time > 1 ? 1 - 1 / time : 0;
}

static slackline_status best_split(const job *j, int *split) {
    slackline_replica replica[REPLICAS] = {{0, 0, 0}};
    for (int i = 0; i < REPLICAS; i++)
        replica[i].time = j->slower[i];
    return slackline_balance(replica, REPLICAS, REPLICAS * EACH, split, NULL);
}

/* ---- what could be done ---- */

static double after_balancing(void *user, const slackline_incident *incident) {
    const job *j = user;
    int split[REPLICAS];
    return best_split(j, split) == SLACKLINE_OK ? loss(iteration(j->slower, split)) : incident->loss;
}

/* Kept when all is well again, the others have more to do than before. */
static double kept(void *user, const slackline_incident *incident) {
    static const double healthy[REPLICAS] = {1, 1, 1, 1};
    (void)incident;
    return loss(iteration(healthy, ((const job *)user)->split));
}

static slackline_status balance(void *user, const int *incidents, int count) {
    job *j = user;
    (void)incidents;
    (void)count;
    return best_split(j, j->split);
}

static slackline_status even(void *user, const int *incidents, int count) {
    (void)incidents;
    (void)count;
    for (int i = 0; i < REPLICAS; i++)
        ((job *)user)->split[i] = EACH;
    return SLACKLINE_OK;
}

static double after_a_restart(void *user, const slackline_incident *incident) {
    (void)user;
    (void)incident;
    return 0;
}

/* ---- the job, iteration by iteration ---- */

/* Does what the ladder says, if anything: 2.5 s each time. */
static slackline_status decide(slackline_ladder *ladder, const job *j, int64_t *now) {
    slackline_action action;
    slackline_status status = slackline_ladder_next(ladder, *now, &action);
    if (status != SLACKLINE_OK || action.kind == SLACKLINE_DO_NOTHING || action.kind == SLACKLINE_DO_PROFILE)
        return status;
    int done = slackline_ladder_carry_out(ladder, &action) == SLACKLINE_OK;
    printf("%.1f s: %s: microbatches %d %d %d %d\n", (double)*now / (double)second,
           action.kind == SLACKLINE_DO_APPLY ? "apply" : "undo", j->split[0], j->split[1], j->split[2],
           j->split[3]);
    *now += 5 * second / 2;
    return slackline_ladder_ended(ladder, *now, 5 * second / 2, done);
}

static slackline_status run(slackline_ladder *ladder, job *j, int64_t *now) {
    slackline_incident slow = {2, SLACKLINE_CAUSE_DEVICE, 0, "device of replica 2 x 2"};
    slackline_status status = SLACKLINE_OK;
    int troubled = 0;
    while (*now < 600 * second && status == SLACKLINE_OK) {
        int is_slow = *now >= 100 * second && *now < 400 * second;
        j->slower[2] = is_slow ? 2 : 1;
        double time = iteration(j->slower, j->split);
        *now += (int64_t)(time * (double)second);
        slow.loss = loss(time);
        if (is_slow && !troubled)
            status = slackline_ladder_begins(ladder, *now, &slow);
        else if (is_slow)
            status = slackline_ladder_changes(ladder, *now, slow.id, slow.loss);
        else if (troubled)
            status = slackline_ladder_relieved(ladder, *now, slow.id);
        troubled = is_slow;
        if (status == SLACKLINE_OK)
            status = decide(ladder, j, now);
    }
    return status;
}

int main(void) {
    job j = {{1, 1, 1, 1}, {EACH, EACH, EACH, EACH}};
    slackline_strategy strategies[2] = {{0}};
    slackline_ladder *ladder = NULL;
    int64_t now = 0;
    char *text = NULL;
    strategies[0].name = "balance";
    strategies[0].causes = SLACKLINE_CAUSE_DEVICE;
    strategies[0].cost_ns = strategies[0].undo_cost_ns = 3 * second;
    strategies[0].remaining = after_balancing;
    strategies[0].keeping = kept;
    strategies[0].apply = balance;
    strategies[0].undo = even;
    strategies[0].user = &j;
    strategies[1].name = "restart";
    strategies[1].causes = SLACKLINE_CAUSES_ANY;
    strategies[1].cost_ns = 600 * second;
    strategies[1].replaces = 1;
    strategies[1].remaining = after_a_restart;
    slackline_status status = slackline_ladder_make(NULL, strategies, 2, &ladder);
    if (status == SLACKLINE_OK)
        status = run(ladder, &j, &now);
    if (status == SLACKLINE_OK)
        status = slackline_ladder_log(ladder, &text, NULL);
    if (status == SLACKLINE_OK)
        printf("\n%s", text);
    else
        fprintf(stderr, "%s\n", slackline_error());
    slackline_free(text);
    slackline_ladder_free(ladder);
    return status == SLACKLINE_OK ? 0 : 1;
}
