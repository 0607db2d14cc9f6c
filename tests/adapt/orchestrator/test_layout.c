/* Splits and positions change while components are slow, and the split is taken back afterwards. */
#include "adapt/orchestrator/steady_job.h"

#define BALANCE (1u << SL_STRATEGY_BALANCE)
#define TOPOLOGY (1u << SL_STRATEGY_TOPOLOGY)

enum { EACH = 12 }; /* microbatches of a replica */

static const sl_job_layout *layout(const steady_job *j) {
    return sl_orchestrator_layout(j->orchestrator);
}

/* Slow processes take their slowness along, and every replica runs its share. */
static void run(steady_job *j, const double *slowdown, int iterations) {
    for (int i = 0; i < iterations; i++) {
        for (int r = 0; r < REPLICAS; r++) {
            j->now[r].microbatches = layout(j)->split[r];
            for (int rank = 0; rank < RANKS; rank++)
                for (int kind = 0; kind < SL_OP_KINDS; kind++) {
                    int process = layout(j)->process[sl_job_position(&j->config.job, rank, r, 0)];
                    j->now[r].time[kind][rank] =
                        (sl_time)((double)j->healthy.time[kind][rank] * slowdown[process]);
                }
        }
        observe(j, 1);
    }
}

static int replica_of(const steady_job *j, int process) {
    for (int r = 0; r < REPLICAS; r++)
        for (int rank = 0; rank < RANKS; rank++)
            if (layout(j)->process[sl_job_position(&j->config.job, rank, r, 0)] == process)
                return r;
    return -1;
}

static void open_replicas(steady_job *j, unsigned can) {
    make_job(j, REPLICAS);
    j->config.can = can;
    j->config.cost[SL_STRATEGY_BALANCE] = j->config.cost[SL_STRATEGY_TOPOLOGY] = SL_SECOND;
    j->config.undo[SL_STRATEGY_BALANCE] = j->config.undo[SL_STRATEGY_TOPOLOGY] = SL_SECOND;
    plan_and_start(j, "adaptra");
}

/* A rank of replica 0 takes twice as long for every op. The slower replica gets fewer microbatches, and half
 * of all again when that is over. */
static void a_split_is_taken_back_after_relief(void **state) {
    (void)state;
    steady_job j;
    double slowdown[RANKS * REPLICAS] = {1, 1, 1, 1, 1, 1, 1, 1};
    open_replicas(&j, BALANCE);
    run(&j, slowdown, 2 * HOLD);
    int slow = layout(&j)->process[sl_job_position(&j.config.job, 1, 0, 0)];
    slowdown[slow] = 2;
    run(&j, slowdown, 1);
    sl_time before = j.takes;
    run(&j, slowdown, 40);
    assert_int_equal(layout(&j)->split[0] + layout(&j)->split[1], 2 * EACH);
    assert_true(layout(&j)->split[0] < EACH && j.takes < before);
    slowdown[slow] = 1;
    run(&j, slowdown, 60);
    assert_int_equal(layout(&j)->split[0], EACH);
    assert_int_equal(layout(&j)->split[1], EACH);
    assert_int_equal(j.takes, 390 * SL_MS);
    close_job(&j);
}

/* One slow rank in each replica: together in one they hold up fewer microbatches. When they have recovered,
 * positions cost nothing and stay, but the split is taken back. */
static void of_a_topology_the_split_is_taken_back_after_relief(void **state) {
    (void)state;
    steady_job j;
    double slowdown[RANKS * REPLICAS] = {1, 1, 1, 1, 1, 1, 1, 1};
    open_replicas(&j, BALANCE | TOPOLOGY);
    run(&j, slowdown, 2 * HOLD);
    int slow[2];
    for (int r = 0; r < REPLICAS; r++) {
        slow[r] = layout(&j)->process[sl_job_position(&j.config.job, 1 + r, r, 0)];
        slowdown[slow[r]] = 2;
    }
    run(&j, slowdown, 1);
    sl_time before = j.takes;
    run(&j, slowdown, 60);
    int together = replica_of(&j, slow[0]);
    assert_int_equal(replica_of(&j, slow[1]), together);
    assert_true(layout(&j)->split[together] < EACH && j.takes < before);
    slowdown[slow[0]] = slowdown[slow[1]] = 1;
    run(&j, slowdown, 80);
    assert_int_equal(replica_of(&j, slow[1]), replica_of(&j, slow[0]));
    assert_int_equal(layout(&j)->split[0], EACH);
    assert_int_equal(layout(&j)->split[1], EACH);
    assert_int_equal(j.takes, 390 * SL_MS);
    close_job(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_is_taken_back_after_relief),
        cmocka_unit_test(of_a_topology_the_split_is_taken_back_after_relief),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
