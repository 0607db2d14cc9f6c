/* The run file: what it says arrives, and every mistake is named with its place before a process starts. */
#include "check.h"

#include "base/memory.h"
#include "read_run.h"

#define BASE                                                                                                 \
    "model: {layers: 8, width: 128, heads: 4, context: 64}\n"                                                \
    "data: {files: [\"a\", \"b/*\"]}\n"                                                                      \
    "parallel: {pipeline: 4}\n"                                                                              \
    "batch: {microbatches: 12}\n"                                                                            \
    "iterations: 60\n"

#define REPLICAS                                                                                             \
    "model: {layers: 8, width: 128, heads: 4, context: 64}\n"                                                \
    "data: {files: [\"a\", \"b/*\"]}\n"                                                                      \
    "parallel: {pipeline: 4, data: 2}\n"                                                                     \
    "batch: {microbatches: 12}\n"                                                                            \
    "iterations: 60\n"

static void keys_and_defaults_arrive(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(BASE "device: {pace_ms: {F: 10, I: 5, W: 7}}\n"
                            "faults:\n"
                            "  - {iterations: [20, 60], link: [0, 1], latency_ms: 60}\n"
                            "  - {iterations: [30, 50], rank: 2, slowdown: 1.5}\n"
                            "  - {iterations: [40, 45], link: [1, 2], bandwidth_gbps: 0.1, one_way: true}\n"
                            "  - {iteration: 50, kill: 3}\n",
                       &run));
    assert_int_equal(run.data.files, 2);
    assert_string_equal(run.data.file[1], "b/*");
    assert_true(run.adapt == 1 && run.batch.size == 1 && run.device.threads == 0 &&
                strcmp(run.schedule, "auto") == 0);
    assert_true(run.device.pace_ms[SL_B][3] == 12); /* I and W */
    assert_int_equal(run.faults, 5);                /* the first one in both directions */
    assert_true(run.fault[0].from == 0 && run.fault[0].to == 1 && run.fault[1].from == 1 &&
                run.fault[1].to == 0);
    assert_true(run.fault[1].latency_ms == 60 && run.fault[1].first == 20 && run.fault[1].end == 60);
    assert_true(run.fault[2].rank == 2 && run.fault[2].from == -1 && run.fault[2].slowdown == 1.5);
    assert_true(run.fault[3].from == 1 && run.fault[3].to == 2 && run.fault[3].bandwidth_gbps == 0.1);
    assert_true(run.fault[4].kill == 3 && run.fault[4].first == 50 && run.fault[4].rank == -1);
    sl_problem problem;
    static const double kept[4] = {600, 600, 600, 600}, added[4] = {400, 400, 400, 400}, none[4],
                        fixed[4] = {0, 0, 0, 900000}, most[4] = {999500, 0, 0, 0};
    assert_ok(sl_run_replica_problem(&run, 0, kept, added, none, &problem));
    assert_true(problem.ranks == 4 && problem.time[SL_I][2] == 5 * SL_MS &&
                problem.time[SL_B][0] == 12 * SL_MS);
    assert_null(problem.limit);
    sl_problem_free(&problem);
    run.device.memory_mb = 1;
    assert_ok(sl_run_replica_problem(&run, 0, kept, added, fixed, &problem));
    assert_true(problem.limit[3] == 100000 && problem.limit[0] == 1000000 && problem.fixed[3] == 900000);
    assert_true(problem.delta[SL_F][1] == 600 && problem.early[1] == 400 && problem.start[1] == 400 &&
                problem.delta[SL_I][1] == 0 && problem.delta[SL_W][1] == -1000 &&
                problem.delta[SL_B][1] == -1000);
    sl_problem_free(&problem);
    assert_fails(sl_run_replica_problem(&run, 0, kept, added, most, &problem), SL_ENONE,
                 "no schedule fits into device.memory_mb of 1: weights and optimizer take 0.9995 MB and one "
                 "microbatch 0.001 MB on rank 0");
    sl_problem_free(&problem);
    sl_run_free(&run);
}

/* The way of the sums of pipeline rank 3, both directions; one_way only the first. */
static void a_link_between_replicas_arrives(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(
        REPLICAS "faults:\n"
                 "  - {iterations: [20, 60], rank: 3, replicas: [1, 0], latency_ms: 30}\n"
                 "  - {iterations: [2, 6], rank: 0, replicas: [0, 1], bandwidth_gbps: 0.5, one_way: true}\n"
                 "  - {iterations: [30, 50], link: [1, 2], latency_ms: 2}\n"
                 "  - {iterations: [3, 5], rank: 1, replicas: [0, 1], latency_ms: 4, host: b}\n",
        &run));
    assert_int_equal(run.faults, 7);
    for (int i = 0; i < 2; i++) {
        const sl_fault *f = &run.fault[i];
        assert_true(f->from == 3 && f->to == 3 && f->rank == -1 && f->replica == -1 && f->latency_ms == 30);
        assert_true(f->from_replica == 1 - i && f->to_replica == i);
    }
    assert_true(run.fault[2].from_replica == 0 && run.fault[2].to_replica == 1 && run.fault[2].from == 0);
    assert_true(run.fault[3].from_replica == -1 && run.fault[3].to_replica == -1 && run.fault[3].from == 1);
    assert_string_equal(run.fault[5].host, "b"); /* both ways, each its own */
    assert_string_equal(run.fault[6].host, "b");
    assert_true(run.fault[5].host != run.fault[6].host &&
                run.fault[5].from_replica == run.fault[6].to_replica);
    sl_run_free(&run);
}

static void a_rail_over_ucx_needs_a_build_with_it(void **state) {
    (void)state;
    sl_run run;
    sl_status status = read_run(BASE "network: {rails: [eth0, \"ucx:eth0\"]}\n", &run);
#ifdef SL_UCX
    assert_ok(status);
    assert_string_equal(run.network.rail[1], "ucx:eth0");
    sl_run_free(&run);
#else
    assert_fails(status, SL_EINVAL,
                 "run.yaml:6: 'rails' names ucx:eth0, but this slackline was built without UCX");
#endif
}

static void rails_and_shared_wires_arrive(void **state) {
    (void)state;
    sl_run run;
    sl_problem problem;
    static const double kept[4] = {1000, 1000, 1000, 1000}, none[4];
    assert_ok(read_run(BASE "transport: delegated\ncommunication: inorder\n"
                            "network: {rails: [eth0, 10.0.0.1], queues: 3, outage_s: 5}\n"
                            "shared: [{name: wan, links: [[0, 1], [2, 3]]}]\n",
                       &run));
    assert_int_equal(run.network.rails, 2);
    assert_string_equal(run.network.rail[1], "10.0.0.1");
    assert_true(run.network.queues == 3 && run.network.beat_ms == 50 && run.network.silence_ms == 200 &&
                run.network.outage_s == 5);
    assert_ok(sl_run_replica_problem(&run, 0, kept, none, none, &problem));
    assert_int_equal(problem.communication, SL_DECOUPLED); /* delegates are, by nature */
    assert_true(problem.wire[0 * 4 + 1] == problem.wire[2 * 4 + 3] && problem.wire[0 * 4 + 1] >= 16);
    assert_true(problem.wire[1 * 4 + 0] == problem.wire[3 * 4 + 2] &&
                problem.wire[1 * 4 + 0] != problem.wire[0 * 4 + 1]);
    assert_int_equal(problem.wire[1 * 4 + 2], 1 * 4 + 2);
    sl_problem_free(&problem);
    run.transport = SL_RUN_DIRECT;
    assert_ok(sl_run_replica_problem(&run, 0, kept, none, none, &problem));
    assert_int_equal(problem.communication, SL_INORDER);
    sl_problem_free(&problem);
    sl_run_free(&run);
}

static void regime_fifo_has_communicators_and_eager_messages(void **state) {
    (void)state;
    sl_run run;
    sl_problem p;
    static const double kept[4] = {1000, 1000, 1000, 1000}, none[4];
    assert_ok(read_run(
        BASE "communication: {regime: fifo, communicators: kind, eager_kb: 1.5, receive_buffers: 3}\n",
        &run));
    assert_ok(sl_run_replica_problem(&run, 0, kept, none, none, &p));
    assert_true(p.communication == SL_FIFO && p.communicators == SL_OF_KIND && p.eager == 1500 &&
                p.receive_buffers == 3);
    sl_problem_free(&p);
    run.transport = SL_RUN_DELEGATED; /* decoupled, whatever the ranks would do */
    assert_ok(sl_run_replica_problem(&run, 0, kept, none, none, &p));
    assert_true(p.communication == SL_DECOUPLED && p.receive_buffers == 0);
    sl_problem_free(&p);
    sl_run_free(&run);
    assert_ok(read_run(BASE "communication: fifo\n", &run));
    assert_true(run.communication == SL_FIFO && run.messages.communicators == SL_OF_PIPELINE &&
                run.messages.eager_kb == 0);
    sl_run_free(&run);
    static const char *const wrong[][2] = {
        {"communication: {regime: inorder, eager_kb: 4}\n", "has eager_kb, which only regime fifo has"},
        {"communication: {regime: fifo, communicators: ring}\n", "'communicators'"},
        {"communication: {regime: fifo, receive_buffers: 1}\n", "has receive_buffers 1"},
        {"communication: {regime: fifo, receive_buffers: 2, receive_memory: 5}\n",
         "unknown key 'receive_memory'"},
        {"communication: fifo\nadaptation: {record: true}\n", "'record' does not hold the order of messages"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[600];
        snprintf(text, sizeof text, "%s%s", BASE, wrong[i][0]);
        assert_fails(read_run(text, &run), SL_EINVAL, wrong[i][1]);
        assert_non_null(strstr(sl_error_text(), "run.yaml:"));
        sl_run_free(&run);
    }
}

#define SHAPE(parallel)                                                                                      \
    "model: {layers: 8, width: 128, heads: 4, context: 64}\ndata: {files: [a]}\nparallel: " parallel         \
    "\nbatch: {microbatches: 12}\niterations: 6\n"

static void a_placement_comes_from_the_schedule_or_the_file(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sl_placement placement;
        int stages;
    } cases[] = {
        {SHAPE("{pipeline: 4}"), SL_LINEAR, 4},
        {SHAPE("{pipeline: 4}") "schedule: interleaved-1f1b\n", SL_LOOP, 8},
        {SHAPE("{pipeline: 4}") "schedule: zb-v\n", SL_WAVE, 8},
        {SHAPE("{pipeline: 4}") "schedule: dualpipe-v\n", SL_WAVE, 8},
        {SHAPE("{pipeline: 4}") "schedule: gpipe\n", SL_LINEAR, 4}, /* takes any: the plain one */
        {SHAPE("{pipeline: 2, placement: loop, stages: 8}") "schedule: interleaved-1f1b\n", SL_LOOP, 8},
        {SHAPE("{pipeline: 4, placement: wave}"), SL_WAVE, 8},
        {SHAPE("{pipeline: 4, placement: loop, stages: 4}") "schedule: some/order.csv\n", SL_LOOP, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_run run;
        assert_ok(read_run(cases[i].text, &run));
        sl_problem shape = sl_run_shape(&run);
        assert_true(shape.placement == cases[i].placement && shape.stages == cases[i].stages);
        sl_run_free(&run);
    }
}

static void stages_of_a_rank_have_their_own_pace_memory_and_links(void **state) {
    (void)state;
    sl_run run;
    sl_problem p;
    static const double kept[4] = {1000, 2000, 2000, 1000}, added[4] = {500, 0, 0, 700},
                        fixed[2] = {990000, 0};
    assert_ok(read_run(
        SHAPE("{pipeline: 2, placement: wave, parts: 2}") "device: {memory_mb: 1, pace_ms: {F: [1, 2, 3, 4], "
                                                          "I: 5, W: [4, 3, 2, 1], FB: 9}}\n",
        &run));
    assert_ok(sl_run_replica_problem(&run, 0, kept, added, fixed, &p));
    assert_true(p.ranks == 2 && p.stages == 4 && p.placement == SL_WAVE && p.parts == 2);
    assert_true(p.time[SL_F][2] == 3 * SL_MS && p.time[SL_I][3] == 5 * SL_MS && p.time[SL_B][1] == 8 * SL_MS);
    assert_true(p.saved[0] == 1 * SL_MS && p.saved[3] == 1 * SL_MS); /* 1 + 9 - 9, 4 + 6 - 9 */
    assert_true(p.delta[SL_F][1] == 2000 && p.delta[SL_W][3] == -1700);
    assert_true(p.limit[0] == 10000 && p.limit[1] == 1000000);
    sl_problem_free(&p);
    /* a microbatch is on both stages of rank 0 at once */
    static const double much[4] = {6000, 2000, 2000, 6000};
    assert_fails(sl_run_replica_problem(&run, 0, much, added, fixed, &p), SL_ENONE,
                 "one microbatch 0.0127 MB on rank 0");
    sl_problem_free(&p);
    assert_true(sl_run_has_link(&run, 0, 1) && sl_run_has_link(&run, 1, 0) && !sl_run_has_link(&run, 0, 0));
    sl_run_free(&run);
    /* a loop goes round: the last rank sends to the first */
    assert_ok(read_run(SHAPE("{pipeline: 4, placement: loop}") "faults: [{iterations: [2, 4], link: [3, 0], "
                                                               "latency_ms: 1, one_way: true}]\n",
                       &run));
    assert_true(run.fault[0].from == 3 && run.fault[0].to == 0);
    assert_true(sl_run_has_link(&run, 0, 3) && !sl_run_has_link(&run, 0, 2));
    sl_run_free(&run);
}

static void every_mistake_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"iterations: 3\n", "'model' is missing"},
        {BASE "speed: 3\n", "run.yaml:6: 'speed' is not a known key"},
        {BASE "parallel: {pipeline: 9}\n", "run.yaml:6: duplicate key 'parallel'"},
        {BASE "schedule: [a]\n", "run.yaml:6: 'schedule' must be a text"},
        {BASE "transport: pigeon\n", "must be one of direct, delegated, auto; got 'pigeon'"},
        {BASE "queue: 0\n", "'queue' must be from 1"},
        {BASE "network: {rails: []}\n", "run.yaml:6: 'rails' must be a list of interfaces"},
        {BASE "network: {rails: [eth0, eth1, eth0]}\n", "run.yaml:6: 'rails' names eth0 twice"},
        {BASE "network: {rails: [a, b, c, d, e, f, g, h, i]}\n", "has 9 rails; at most 8"},
        {BASE "network: {rails: [\"ucx:\"]}\n", "run.yaml:6: 'rails' holds 'ucx:' without an interface"},
        {BASE "network: {beat_ms: 150}\n", "'network' must be at least twice beat_ms"},
        {BASE "network: {beat_ms: 150, silence_ms: 299}\n", "'silence_ms' must be at least twice beat_ms"},
        {BASE "shared: [{name: wan, links: [[0, 4]]}]\n", "run.yaml:6: 'links' must hold ranks from 0 to 3"},
        {BASE "shared: [{name: wan, links: [[0, 1], [1, 0]]}]\n", "names link 1-0 twice"},
        {BASE "checkpoint: {every: -1}\n", "run.yaml:6: 'every' must be from 0"},
        {BASE "checkpoint: {every: 2, keep: 0}\n", "run.yaml:6: 'keep' must be from 1"},
        {BASE "checkpoint: 3\n", "run.yaml:6: 'checkpoint' must be a map"},
        {BASE "device: {pace_ms: {F: 10, I: 10}}\n", "run.yaml:6: 'pace_ms' lacks 'W'"},
        {BASE "device: {pace_ms: {F: [1, 2], I: 10, W: 10}}\n",
         "run.yaml:6: 'F' must be a number or a list of 4, one per stage, got 2"},
        {BASE "device: {pace_ms: {F: [1, 2, 3, 0], I: 10, W: 10}}\n", "run.yaml:6: 'F' must be"},
        {BASE "device: {pace_ms: {F: 1, I: 10, W: 10, X: 3}}\n", "'X' is not a known key of 'pace_ms'"},
        {BASE "device: {pace_ms: 10}\n", "'pace_ms' must be a map"},
        {SHAPE("{pipeline: 1, placement: bidirectional}"),
         "run.yaml:3: 'pipeline' must be at least 2 with placement bidirectional, got 1"},
        {SHAPE("{pipeline: 4, placement: bidirectional, stages: 4}"),
         "run.yaml:3: 'stages' must be two for each rank (8) with placement bidirectional, got 4"},
        {SHAPE("{pipeline: 10, placement: bidirectional}"),
         "run.yaml:3: 'pipeline' of 10 ranks is more stages than the model's 8 layers"},
        {SHAPE("{pipeline: 4, placement: bidirectional, cut: [1, 1, 1, 1, 1, 1, 1, 1]}"),
         "run.yaml:3: 'cut' must be a list of one value for each of the 4 stages"},
        {SHAPE("{pipeline: 4, placement: wave}") "schedule: chimera\n",
         "run.yaml:6: 'schedule' chimera needs placement bidirectional"},
        {SHAPE("{pipeline: 4, placement: spiral}"), "'placement' must be one of linear, loop, wave"},
        {SHAPE("{pipeline: 4, placement: linear}") "schedule: zb-v\n",
         "run.yaml:6: 'schedule' zb-v needs placement wave; the problem's is linear"},
        {SHAPE("{pipeline: 4, placement: wave}") "schedule: 1f1b\n",
         "run.yaml:6: 'schedule' 1f1b needs placement linear"},
        {SHAPE("{pipeline: 2, stages: 8}") "schedule: zb-v\n",
         "run.yaml:6: 'schedule' zb-v needs two stages per rank (4)"},
        {SHAPE("{pipeline: 4, stages: 8}"),
         "run.yaml:3: 'stages' must be as many as ranks (4) with placement linear, got 8"},
        {SHAPE("{pipeline: 4, placement: loop, stages: 6}"),
         "run.yaml:3: 'stages' must be a multiple of the ranks (4) with placement loop, got 6"},
        {SHAPE("{pipeline: 4, placement: loop, stages: 12}"),
         "run.yaml:3: 'stages' of 12 (placement loop) is more than the model's 8 layers"},
        {SHAPE("{pipeline: 6, placement: wave}"),
         "run.yaml:3: 'pipeline' makes 12 stages with placement wave, more than the model's 8 layers"},
        {SHAPE("{pipeline: 4, parts: 2}") "schedule: some/order.csv\n",
         "run.yaml:3: 'parts' needs a planned schedule, or a plan's JSON"},
        {SHAPE("{pipeline: 4, parts: 65}"), "'parts' must be from 1"},
        {SHAPE("{pipeline: 4, placement: wave}") "faults: [{iterations: [2, 4], link: [3, 0], latency_ms: "
                                                 "1}]\n",
         "with placement wave nothing is sent between ranks 3 and 0"},
        {BASE "device: {pace_ms: {F: 0, I: 10, W: 10}}\n", "run.yaml:6: 'F' must be"},
        {BASE "adaptation: {hold: 0}\n", "'hold' must be from 1"},
        {BASE "adaptation: {strategies: most}\n", "run.yaml:6: 'strategies' must be all or a list"},
        {BASE "adaptation: {strategies: [balance, pray]}\n",
         "must be schedule, delegate, balance, topology or restart"},
        {BASE "adaptation: {balance_s: -1}\n", "'balance_s' must be at least 0, got -1"},
        {BASE "faults: 3\n", "'faults' must be a list"},
        {BASE "faults: [3]\n", "a fault must be a map"},
        {BASE "faults:\n  - {iterations: [2, 2], link: [0, 1], latency_ms: 1}\n",
         "run.yaml:7: 'iterations' must be [first, end)"},
        {BASE "faults:\n  - {iterations: [2], link: [0, 1], latency_ms: 1}\n",
         "'iterations' must be a list of two"},
        {BASE "faults:\n  - {iterations: [2, 4], link: [0, 1]}\n", "needs latency_ms or bandwidth_gbps"},
        {BASE "faults:\n  - {iterations: [2, 4], link: [0, 2], latency_ms: 1}\n", "not neighbours"},
        {BASE "faults:\n  - {iterations: [2, 4], link: [3, 4], latency_ms: 1}\n",
         "names rank 4, but the run has ranks 0 to 3"},
        {BASE "faults:\n  - {iterations: [2, 4], rank: 4, slowdown: 2}\n", "names rank 4"},
        {BASE "faults:\n  - {iterations: [2, 4], rank: 1}\n", "needs a slowdown above 1"},
        {BASE "faults:\n  - {iterations: [2, 4], rank: 1, slowdown: 2, link: [0, 1]}\n",
         "one of link, rank, nic, host and kill"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], replicas: [0, 1], latency_ms: 1}\n",
         "needs rank with replicas"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [0, 1]}\n",
         "needs latency_ms or bandwidth_gbps"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [1, 1], latency_ms: 1}\n",
         "'replicas' must be two replicas"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [1], latency_ms: 1}\n",
         "'replicas' must be a list of two"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [1, 2], latency_ms: 1}\n",
         "names replica 2, but the run has replicas 0 to 1"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 4, replicas: [0, 1], latency_ms: 1}\n",
         "names rank 4"},
        {REPLICAS
         "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [0, 1], latency_ms: 1, slowdown: 2}\n",
         "has a slowdown"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [0, 1], replica: 1, latency_ms: 1}\n",
         "both replica and replicas"},
        {REPLICAS
         "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [0, 1], link: [0, 1], latency_ms: 1}\n",
         "one of link, rank, nic, host and kill"},
        {REPLICAS "faults:\n  - {iterations: [2, 4], rank: 1, replicas: [0, 1], tensor: 1, latency_ms: 1}\n",
         "names tensor rank 1"},
        {BASE "faults:\n  - {iterations: [2, 4], rank: 1, slowdown: 2, host: b}\n",
         "one of link, rank, nic, host and kill"},
        {BASE "faults:\n  - {iterations: [2, 4], host: b}\n", "needs a slowdown above 1 with host"},
        {BASE "faults:\n  - {iterations: [2, 4], host: \"\", slowdown: 2}\n",
         "run.yaml:7: 'host' must be the name of a host"},
        {BASE "faults:\n  - {iterations: [2, 4], kill: 1}\n", "needs 'iteration' with kill"},
        {BASE "faults:\n  - {link: [0, 1], latency_ms: 1}\n", "needs 'iterations"},
        {"model: {layers: 3, width: 128, heads: 4, context: 64}\ndata: {files: [a]}\nparallel: {pipeline: "
         "4}\n"
         "batch: {microbatches: 12}\niterations: 6\n",
         "run.yaml:3: 'pipeline' of 4 ranks is more stages than the model's 3 layers"},
        {"model: {layers: 4, width: 130, heads: 4, context: 64}\ndata: {files: [a]}\nbatch: {microbatches: "
         "12}\niterations: 6\n",
         "run.yaml:1: 'heads' of 4 does not divide the width of 130"},
        {"model: {layers: 4, width: 128, heads: 4, context: 64}\ndata: {files: []}\nbatch: {microbatches: "
         "12}\niterations: 6\n",
         "run.yaml:2: 'files' must be a list of files"},
        {"model: {layers: 4, width: 128, heads: 4, context: 64}\ndata: {files: [a]}\nbatch: {microbatches: "
         "0}\niterations: 6\n",
         "run.yaml:3: 'microbatches' must be from 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_run run;
        assert_fails(read_run(cases[i].text, &run), SL_EINVAL, cases[i].says);
        sl_run_free(&run);
    }
}

static void a_slow_host_is_told_by_its_name(void **state) {
    (void)state;
    sl_run run;
    assert_ok(read_run(BASE "faults:\n"
                            "  - {iterations: [20, 60], host: node-7.example.org, slowdown: 2}\n"
                            "  - {iterations: [30, 50], rank: 2, slowdown: 1.5}\n",
                       &run));
    assert_int_equal(run.faults, 2);
    assert_string_equal(run.fault[0].host, "node-7.example.org");
    assert_true(run.fault[0].slowdown == 2 && run.fault[0].rank == -1 && run.fault[0].from == -1);
    assert_null(run.fault[1].host);
    sl_run_free(&run);
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0, done = 0;
    for (long n = 0; !done && n < 1000; n++) {
        sl_run run;
        sl_alloc_fail_at(n);
        sl_status status =
            read_run(BASE "schedule: zb-v\n"
                          "device: {pace_ms: {F: 1, I: 1, W: [1, 2, 3, 4, 5, 6, 7, 8]}}\n"
                          "faults: [{iterations: [2, 4], rank: 1, slowdown: 2}]\n"
                          "arrangements: [{iteration: 3, positions: [3, 2, 1, 0], split: [12], "
                          "without: a}]\n",
                     &run);
        sl_alloc_fail_at(-1);
        done = status == SL_OK;
        if (!done)
            assert_int_equal(status, SL_ENOMEM);
        failures += !done;
        sl_run_free(&run);
    }
    assert_in_range(failures, 20, 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_defaults_arrive),
        cmocka_unit_test(a_link_between_replicas_arrives),
        cmocka_unit_test(a_slow_host_is_told_by_its_name),
        cmocka_unit_test(rails_and_shared_wires_arrive),
        cmocka_unit_test(regime_fifo_has_communicators_and_eager_messages),
        cmocka_unit_test(a_rail_over_ucx_needs_a_build_with_it),
        cmocka_unit_test(a_placement_comes_from_the_schedule_or_the_file),
        cmocka_unit_test(stages_of_a_rank_have_their_own_pace_memory_and_links),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
