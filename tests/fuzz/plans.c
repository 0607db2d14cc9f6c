/* Files of the planner and of campaigns: problem, run file, --set, orders (CSV), clusters, plans (JSON),
 * models, traces, campaigns and their CSV, series, the solver's answer.
 * What is accepted must hold: a problem is planned, an order lowered and replayed. */
#include "small_plan.h"

#include "adapt/campaign/campaign.h"
#include "adapt/campaign/fleet.h"
#include "adapt/topology/topology.h"
#include "base/memory.h"
#include "base/yaml.h"
#include "choose/model/devices.h"
#include "choose/model/model_work.h"
#include "cli/series.h"
#include "cli/trace_file.h"
#include "pack/pack.h"
#include "pack/unpack.h"
#include "plan/draw/trace.h"
#include "plan/exact/protobuf.h"
#include "plan/export/export.h"
#include "plan/export/order_table.h"
#include "plan/lower/comms_csv.h"
#include "plan/lower/written.h"
#include "plan/pipeline/csv.h"
#include "plan/pipeline/csv_shape.h"
#include "plan/pipeline/layer_layout.h"
#include "plan/search/plan.h"
#include "plan/search/plan_read.h"
#include "plan/trace/recover.h"
#include "run/file/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- YAML: problem, run file, cluster, --set */

enum { LARGEST = 2000 }; /* ops that are planned here */

static sl_status parse(const uint8_t *data, size_t size, sl_document *document) {
    char *text = fuzz_text(data, size);
    sl_status status = sl_document_parse("fuzz", text, document);
    free(text);
    return status;
}

static int read_problem(const uint8_t *data, size_t size) {
    sl_document document;
    sl_problem problem = {0};
    sl_status status = parse(data, size, &document);
    SL_THEN(status, sl_problem_read(&document, &problem));
    if (status == SL_OK && (long)problem.stages * problem.microbatches < LARGEST) {
        sl_plan plan;
        sl_status planned = sl_plan_make(&problem, "auto", &plan);
        fuzz_must(planned == SL_OK || planned == SL_ENONE);
        fuzz_must(planned != SL_OK || (plan.makespan >= plan.bound && plan.memory_ok));
        sl_plan_free(&plan);
    }
    sl_problem_free(&problem);
    sl_document_close(&document);
    return status == SL_OK;
}

static int read_run(const uint8_t *data, size_t size) {
    sl_document document;
    sl_run run = {0};
    sl_status status = parse(data, size, &document);
    SL_THEN(status, sl_run_read(&document, &run));
    sl_run_free(&run);
    sl_document_close(&document);
    return status == SL_OK;
}

static int read_cluster(const uint8_t *data, size_t size) {
    sl_document document;
    sl_cluster cluster = {0};
    sl_time time;
    sl_status status = parse(data, size, &document);
    SL_THEN(status, sl_cluster_read(&document, NULL, &cluster));
    if (status == SL_OK && (long)cluster.hosts * cluster.microbatches < LARGEST &&
        sl_topology_time(&cluster, cluster.present, &time) == SL_OK)
        fuzz_must(time >= 0);
    sl_cluster_free(&cluster);
    sl_document_close(&document);
    return status == SL_OK;
}

/* What every division of a layer that is possible must hold. */
static void try_work(const sl_model_work *model) {
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int layer = 0; layer < model->layers && layer < 4; layer++) {
            const sl_division division = {.tensor = tensor, .context = 1, .expert = 1, .size = tensor};
            sl_layer_work work;
            if (sl_division_check(model, &division) != SL_OK)
                continue;
            sl_layer_work_of(model, layer, &division, &work);
            fuzz_must(work.flops[0] >= 0 && work.flops[0] < 1e60 && work.moved[2] >= 0);
            fuzz_must(work.kept >= 0 && work.kept_for_w >= 0 && work.kept < 1e60);
            fuzz_must(work.parameters >= 0 && work.expert_parameters >= 0);
        }
}

/* A model file, or a config.json, to which a batch is added. */
static int read_model(const uint8_t *data, size_t size) {
    sl_document document;
    sl_model_work model = {0};
    sl_status status = parse(data, size, &document);
    int is_bare = status == SL_OK && !sl_yaml_find(document.root, "batch");
    if (is_bare)
        status = sl_document_set(&document, "batch.sequences=8");
    if (status == SL_OK && sl_yaml_find(sl_yaml_find(document.root, "model"), "config"))
        status = SL_ENONE; /* would open any file */
    SL_THEN(status, sl_model_work_read(&document, "fuzz", &model));
    if (status == SL_OK) {
        fuzz_must(model.layers > 0 && model.kinds > 0 && sl_model_work_parameters(&model) >= 0);
        for (int i = 0; i < model.layers; i++)
            fuzz_must(model.layer[i].name && model.layer[i].kind < model.kinds);
        try_work(&model);
    }
    sl_model_work_free(&model);
    sl_document_close(&document);
    return status == SL_OK;
}

static int write_model(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "layers:\n  - {name: a, repeat: 2, times_ms: {F: 1, I: 1, W: 1}, "
                                        "activations_mb: 3, input_mb: 1}\nmeasured: {tensor: 2, size: 2}\n"
                                        "scaling: ideal\nbatch: {sequences: 8}\nprecision: {gradients: 2}\n");
}

static int read_devices(const uint8_t *data, size_t size) {
    sl_document document;
    sl_devices devices = {0};
    sl_status status = parse(data, size, &document);
    SL_THEN(status, sl_devices_read(&document, &devices));
    if (status == SL_OK) {
        double latency, pace;
        const int ends[2] = {0, devices.count - 1};
        sl_devices_group(&devices, ends, 2, &latency, &pace);
        fuzz_must(devices.count >= devices.hosts && latency >= 0 && pace >= 0);
    }
    sl_devices_free(&devices);
    sl_document_close(&document);
    return status == SL_OK;
}

static int write_devices(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(out, "hosts: [{name: \"n[0-3]\", devices: 2, speed: 0.5, memory_gb: 40}, b]\n"
                         "links: {default: {bandwidth_gbps: 1}, inside: {bandwidth_gbps: 9}, "
                         "list: [{between: [n0, b], bandwidth_gbps: 2}]}\n"
                         "device: {tflops: 1, memory_gb_per_s: 1, host_memory_gb: 1, host_gb_per_s: 1}\n");
}

static int read_set(const uint8_t *data, size_t size) {
    sl_document document;
    char *text = fuzz_text(data, size);
    sl_status status =
        sl_document_parse("fuzz", "pipeline: {ranks: 2, links: {list: [{between: [0, 1]}]}}\n", &document);
    SL_THEN(status, sl_document_set(&document, text));
    sl_document_close(&document);
    free(text);
    return status == SL_OK;
}

static int write_set(int number, FILE *out) {
    return number < 2 && fuzz_say(out, number ? "pipeline.links.list.0.latency_ms=5" : "new.key=[1, {a: b}]");
}

/* ---- orders */

/* What is read can be lowered and timed; its compute_comms form, where it has one, reads back as the same. */
static void try_accepted(const sl_problem *problem, const sl_order *order) {
    sl_plan plan;
    sl_order again;
    char *text = NULL;
    size_t size = 0;
    fuzz_must(sl_plan_of_order(problem, order, "file", &plan) == SL_OK);
    FILE *out = open_memstream(&text, &size);
    sl_status status = sl_program_write_csv(problem, order, &plan.program, out);
    fclose(out);
    if (status == SL_OK) {
        fuzz_must(sl_order_parse_csv("fuzz", text, size, problem, &again) == SL_OK);
        if (!order->issue)
            sl_order_drop_issues(&again);
        fuzz_must(sl_order_equal(order, &again));
        sl_order_free(&again);
    }
    free(text);
    sl_plan_free(&plan);
}

/* The shape that the file implies. */
static void try_shape(const uint8_t *data, size_t size) {
    sl_problem problem;
    char path[64];
    int file = fuzz_file(data, size, path);
    if (sl_csv_shape(path, &problem) == SL_OK)
        fuzz_must(problem.ranks > 0 && problem.stages >= problem.ranks && problem.microbatches > 0);
    sl_problem_free(&problem);
    close(file);
}

/* The first byte chooses the placement. */
static int read_order(const uint8_t *data, size_t size) {
    sl_problem problem;
    sl_order order;
    sl_placement placement = (sl_placement)(fuzz_take(&data, &size, 1) % SL_PLACEMENTS);
    fuzz_must(sl_problem_make(2, placement == SL_LINEAR ? 2 : 4, 2, &problem) == SL_OK);
    problem.placement = placement;
    try_shape(data, size);
    char *text = fuzz_text(data, size);
    sl_status status = sl_order_parse_csv("fuzz", text, size, &problem, &order);
    free(text);
    if (status == SL_OK) {
        try_accepted(&problem, &order);
        sl_order_free(&order);
    }
    sl_problem_free(&problem);
    return status == SL_OK;
}

/* As 1f1b orders two microbatches, in both forms. */
static int write_order(int number, FILE *out) {
    sl_problem problem;
    sl_plan plan;
    if (number >= 2 * SL_PLACEMENTS)
        return 0;
    sl_placement placement = (sl_placement)(number / 2);
    fputc((int)placement, out);
    fuzz_must(sl_problem_make(2, placement == SL_LINEAR ? 2 : 4, 2, &problem) == SL_OK);
    problem.placement = placement;
    if (sl_plan_make(&problem, "auto", &plan) == SL_OK) {
        if (number % 2)
            (void)sl_program_write_csv(&problem, &plan.order, &plan.program, out);
        else
            (void)sl_order_write_csv(&problem, &plan.order, out);
    }
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return 1;
}

/* ---- orders of other frameworks, and layouts */

static sl_problem framework_problem(sl_placement placement) {
    sl_problem problem;
    fuzz_must(sl_problem_make(2, placement == SL_LINEAR ? 2 : 4, 2, &problem) == SL_OK);
    problem.placement = placement;
    for (int stage = 0; stage < problem.stages; stage++)
        problem.time[SL_F][stage] = problem.time[SL_B][stage] = SL_MS;
    return problem;
}

/* The first byte chooses the placement. An accepted order that does not stop its ranks can be timed. */
static int read_order_table(const uint8_t *data, size_t size) {
    sl_problem problem = framework_problem((sl_placement)(fuzz_take(&data, &size, 1) % SL_BIDIRECTIONAL));
    sl_order order;
    sl_plan plan;
    char *text = fuzz_text(data, size);
    (void)sl_order_table_is(text, size);
    sl_status status = sl_order_table_parse("fuzz", text, size, &problem, &order);
    if (status == SL_OK) {
        fuzz_must(sl_order_check(&problem, &order) == SL_OK);
        sl_status timed = sl_plan_of_order(&problem, &order, "file", &plan);
        fuzz_must(timed == SL_OK || timed == SL_EINVAL);
        sl_plan_free(&plan);
    }
    sl_order_free(&order);
    sl_problem_free(&problem);
    free(text);
    return status == SL_OK;
}

static int write_order_table(int number, FILE *out) {
    static const sl_placement placements[] = {SL_LINEAR, SL_LINEAR, SL_LOOP, SL_WAVE};
    static const char *const forms[] = {"deepspeed", "primus", "primus", "primus"};
    sl_plan plan;
    if (number > 4)
        return 0;
    if (number == 4)
        return fputc(SL_LINEAR, out) >= 0 &&
               fuzz_say(out, "Rank 0: (F|0|0),(F|1|0),(B|0|0),(W|0|0),(BW|1|0)\n"
                             "Rank 1: (RF|0|0),(F|0|0),(BW|0|0),(SB|0|0),(F|1|0),(BW|1|0)\n");
    sl_problem problem = framework_problem(placements[number]);
    fputc((int)placements[number], out);
    fuzz_must(sl_plan_make(&problem, number < 2 ? "1f1b" : "gpipe", &plan) == SL_OK);
    fuzz_must(sl_export_find(forms[number])->write(&problem, &plan, &sl_export_shape_standard, out) == SL_OK);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return 1;
}

/* What is accepted is written as the same layout. */
static int read_layout(const uint8_t *data, size_t size) {
    sl_layer_layout layout, again = {0};
    char *text = fuzz_text(data, size), *written = NULL;
    size_t length = 0;
    sl_status status = sl_layer_layout_parse(text, &layout);
    if (status == SL_OK) {
        FILE *out = open_memstream(&written, &length);
        sl_layer_layout_write(layout.letter, layout.first, layout.stages, out);
        fclose(out);
        fuzz_must(sl_layer_layout_parse(written, &again) == SL_OK);
        fuzz_must(again.stages == layout.stages && strcmp(again.letter, layout.letter) == 0);
        fuzz_must(memcmp(again.first, layout.first, ((size_t)layout.stages + 1) * sizeof(int)) == 0);
        sl_layer_layout_free(&again);
    }
    sl_layer_layout_free(&layout);
    free(written);
    free(text);
    return status == SL_OK;
}

static int write_layout(int number, FILE *out) {
    static const char *const all[] = {"Et*3|(tt|)*29,m|L", "EtL", "E(t|)*4tL"};
    return number < 3 && fuzz_say(out, all[number]);
}

/* ---- plans and traces */

static int read_plan(const uint8_t *data, size_t size) {
    sl_timeline timeline = {0};
    sl_plan_memory memory = {0};
    char schedule[SL_PLAN_NAME];
    char *text = fuzz_text(data, size);
    sl_status status = sl_plan_read_json("fuzz", text, size, &timeline, &memory, schedule);
    if (status == SL_OK)
        fuzz_must(sl_timeline_makespan(&timeline) >= 0);
    sl_timeline_free(&timeline);
    sl_plan_memory_free(&memory);
    free(text);
    return status == SL_OK;
}

static int read_plan_order(const uint8_t *data, size_t size) {
    sl_problem problem;
    sl_plan plan;
    sl_order order;
    char *text = fuzz_text(data, size);
    fuzz_small_plan(&problem, &plan);
    sl_status status = sl_plan_parse_order("fuzz", text, size, &problem, &order);
    if (status == SL_OK)
        fuzz_must(sl_order_check(&problem, &order) == SL_OK);
    sl_order_free(&order);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    free(text);
    return status == SL_OK;
}

static int write_plan(int number, FILE *out) {
    sl_problem problem;
    sl_plan plan;
    if (number > 0)
        return 0;
    fuzz_small_plan(&problem, &plan);
    fuzz_must(sl_plan_write_json(&problem, &plan, out) == SL_OK);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return 1;
}

/* The same, packed with gzip. */
static int read_packed(const uint8_t *data, size_t size) {
    sl_plan_reader *reader;
    sl_timeline timeline = {0};
    sl_plan_memory memory = {0};
    char schedule[SL_PLAN_NAME], path[64];
    int file = fuzz_file(data, size, path);
    fuzz_must(sl_plan_reader_open("fuzz", 0, &reader) == SL_OK);
    sl_status status = sl_unpack_file(path, 1 << 24, &(sl_unpack_sink){sl_plan_reader_feed, reader});
    SL_THEN(status, sl_plan_reader_end(reader, &timeline, &memory, schedule));
    sl_plan_reader_close(reader);
    sl_timeline_free(&timeline);
    sl_plan_memory_free(&memory);
    close(file);
    return status == SL_OK;
}

static int write_packed(int number, FILE *out) {
    char *text = NULL, piece[4096];
    size_t size = 0;
    sl_packer *packer;
    FILE *plan = open_memstream(&text, &size), *packed = tmpfile();
    int more = write_plan(number, plan);
    fclose(plan);
    if (more && sl_packer_open("fuzz", fileno(packed), &packer) == SL_OK) {
        fuzz_must(sl_packer_put(packer, text, size) == 0);
        fuzz_must(sl_packer_close(packer) == 0);
        rewind(packed);
        while ((size = fread(piece, 1, sizeof piece, packed)) > 0)
            fuzz_must(fwrite(piece, 1, size, out) == size);
    } else if (more) /* no zlib */
        fwrite(text, 1, size, out);
    fclose(packed);
    free(text);
    return more;
}

/* What is recovered of a trace is a problem, and its order a schedule of it unless it deadlocks. The file may
 * be packed by gzip. */
static int read_trace(const uint8_t *data, size_t size) {
    sl_traced traced = {0};
    sl_recovered recovered = {0};
    sl_recover_options options = {.iteration = -1};
    sl_plan plan = {0};
    char path[64];
    int file = fuzz_file(data, size, path);
    sl_status status = sl_trace_file_read(path, &traced);
    int accepted = status == SL_OK;
    SL_THEN(status, sl_recover(&traced, &options, &recovered));
    SL_THEN(status, sl_plan_of_order(&recovered.problem, &recovered.order, "traced", &plan));
    fuzz_must(status != SL_OK || plan.makespan >= 0);
    sl_plan_free(&plan);
    sl_recovered_free(&recovered);
    sl_traced_free(&traced);
    close(file);
    return accepted;
}

static int write_trace(int number, FILE *out) {
    sl_problem problem;
    sl_plan plan;
    sl_timeline timeline;
    if (number > 0)
        return 0;
    fuzz_small_plan(&problem, &plan);
    fuzz_must(sl_replay(&problem, &plan.program, problem.communication, problem.queue, &timeline) == SL_OK);
    fuzz_must(sl_trace_plan(&problem, &plan.program, &timeline, out) == SL_OK);
    sl_timeline_free(&timeline);
    sl_plan_free(&plan);
    sl_problem_free(&problem);
    return 1;
}

/* ---- campaigns */

/* A campaign that is accepted and short can be simulated, and nothing beats hindsight. */
static void simulate(sl_campaign *c) {
    sl_campaign_result result;
    if (c->replicas <= 4 && c->faults <= 6 && c->tensor <= 8 && c->duration < 100 * SL_SECOND &&
        c->iterations < 1000) {
        sl_status status = sl_campaign_run(c, 1, &result);
        fuzz_must(status != SL_OK || result.row[result.rows - 1].total <= result.row[0].total);
        sl_campaign_result_free(&result);
    }
}

static int try_campaign(const uint8_t *data, size_t size, int is_csv) {
    sl_document document = {0};
    sl_problem problem;
    sl_campaign campaign = {0};
    fuzz_must(sl_problem_make(2, 2, 4, &problem) == SL_OK);
    for (int stage = 0; stage < 2; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            problem.time[kind][stage] = SL_MS;
        problem.time[SL_B][stage] = 2 * SL_MS;
        problem.reduce[stage] = SL_MS;
    }
    char *text = fuzz_text(data, size);
    sl_status status =
        is_csv ? sl_campaign_make(&problem, &campaign) : sl_document_parse("fuzz", text, &document);
    SL_THEN(status, is_csv ? sl_campaign_read_csv("fuzz", text, &campaign)
                           : sl_campaign_read(&document, &problem, NULL, &campaign));
    if (status == SL_OK) {
        campaign.iterations = is_csv ? 100 : campaign.iterations;
        simulate(&campaign);
    }
    sl_campaign_free(&campaign);
    sl_problem_free(&problem);
    sl_document_close(&document);
    free(text);
    return status == SL_OK;
}

static int read_campaign(const uint8_t *data, size_t size) {
    return try_campaign(data, size, 0);
}

static int write_campaign(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "job: {replicas: 2, iterations: 50, static: [1f1b], gradient_mb: 2, "
                                        "ring_gbps: 100}\ncosts: {restart_s: 300}\n"
                                        "events:\n  - {at: 5, until: 20, link: [0, 1], latency_ms: 30}\n"
                                        "  - {at: 10, until: 40, device: [1, 1], slowdown: 1.5}\n");
}

static int read_faults(const uint8_t *data, size_t size) {
    return try_campaign(data, size, 1);
}

static int write_faults(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "first_iteration,last_iteration,links,device,latency_ms,slowdown,"
                                        "every,for\n5,20,0-1,,30,,,\n10,40,,1,,1.5,10,5\n");
}

/* A fleet that is accepted and small can be simulated, and the shares of its time add up. */
static void simulate_fleet(const sl_fleet *f) {
    static sl_fleet_result result;
    if (f->hosts > 64 || f->runs > 4 || f->duration > 400 * (sl_time)86400 * SL_SECOND ||
        (f->failure_days > 0 && f->failure_days < 1) || (f->slow_days > 0 && f->slow_days < 1))
        return;
    if (sl_fleet_run(f, &result) != SL_OK)
        return;
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++) {
        double sum = 0;
        for (int k = 0; k < SL_FLEET_PARTS; k++)
            sum += result.row[i].part[k];
        fuzz_must(sum > 1 - 1e-9 && sum < 1 + 1e-9);
    }
}

static int read_fleet(const uint8_t *data, size_t size) {
    sl_document document = {0};
    sl_fleet fleet = {0};
    char *text = fuzz_text(data, size);
    sl_status status = sl_document_parse("fuzz", text, &document);
    SL_THEN(status, sl_fleet_read(&document, NULL, &fleet));
    if (status == SL_OK)
        simulate_fleet(&fleet);
    sl_fleet_free(&fleet);
    sl_document_close(&document);
    free(text);
    return status == SL_OK;
}

static int write_fleet(int number, FILE *out) {
    return number == 0 &&
           fuzz_say(out, "fleet: {hosts: 9, spares: 2, runs: 2, failure_days: 5, repair_hours: 9, "
                         "crews: 1, slow_days: 9, duration_days: 20, slow: {drawn: 2}, "
                         "words: [{word: fan, kind: warn}], try_spares: [0, 1], "
                         "try_checkpoint_every_s: [600]}\nseed: 3\n");
}

static int read_fleet_log(const uint8_t *data, size_t size) {
    sl_fleet fleet = {0};
    char *text = fuzz_text(data, size);
    (void)sl_fleet_csv_is(text);
    sl_status status = sl_fleet_read_csv("fuzz", text, &fleet);
    for (size_t i = 0; i < fleet.faults && status == SL_OK; i++)
        fuzz_must(fleet.fault[i].until >= fleet.fault[i].first && fleet.fault[i].first >= 0);
    sl_fleet_free(&fleet);
    free(text);
    return status == SL_OK;
}

static int write_fleet_log(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "time_days,node,event,level,class,description\n"
                                        "1.5,3,start,Hardware Failure,NIC,NIC Link Speed low\n"
                                        "2,3,end,Hardware Failure,NIC,NIC Link Speed low\n"
                                        "2,0,start,Hardware Failure,GPU,GPU Lost\n");
}

/* ---- series and call logs of `detect` */

static int read_series(const uint8_t *data, size_t size) {
    sl_series_reader series;
    sl_series_call call;
    double sample;
    char path[64];
    int file = fuzz_file(data, size, path), end = 0, samples = 0;
    sl_status status = sl_series_reader_open(path, NULL, &series);
    while (status == SL_OK && !end) {
        status = series.is_calls ? sl_series_reader_next_call(&series, &call, &end)
                                 : sl_series_reader_next(&series, &sample, &end);
        samples += status == SL_OK && !end;
    }
    sl_series_reader_close(&series);
    close(file);
    return samples > 0;
}

static int write_series(int number, FILE *out) {
    const char *const all[] = {
        "iteration,time_ms,note\n0,1.5,a\n1,2.5,\"b, c\"\n", "1.5\n2.5\n",
        "{\"iteration\": 0, \"time_ms\": 1.5}\n",
        "call,communicator,peer,bytes,start_ns,rank\nMPI_Send,1,1,8,100,0\nMPI_Recv,1,0,8,120,1\n"};
    return number < 4 && fuzz_say(out, all[number]);
}

/* ---- the solver's answer */

static int read_answer(const uint8_t *data, size_t size) {
    sl_protobuf_field field;
    int more, fields = 0;
    while ((more = sl_protobuf_next(&data, &size, &field)) > 0) {
        const unsigned char *bytes = field.bytes;
        size_t left = bytes ? field.size : 0;
        uint64_t value;
        while (left > 0 && sl_protobuf_varint(&bytes, &left, &value))
            ;
        fields++;
    }
    return more == 0 && fields > 0;
}

static int write_answer(int number, FILE *out) {
    sl_protobuf message = {0};
    if (number > 0)
        return 0;
    sl_protobuf_int(&message, 1, 4);
    sl_protobuf_ints(&message, 2, (int64_t[]){1, -2, 300}, 3);
    sl_protobuf_double(&message, 4, 1.5);
    fwrite(message.bytes, 1, message.size, out);
    sl_protobuf_free(&message);
    return 1;
}

#define WORDS                                                                                                \
    "pipeline ranks stages microbatches placement linear wave bidirectional times_ms links list between "    \
    "latency_ms bandwidth_gb_s memory"

const fuzz_reader fuzz_plans[] = {
    {"problem",
     "sl_document_parse sl_problem_read sl_config_read sl_config_read_value sl_read_communication "
     "sl_read_data_parallel sl_read_deltas sl_read_layers sl_read_links sl_read_numbers sl_read_op_times "
     "sl_read_overhead sl_read_shared sl_read_times",
     "examples/four-ranks.yaml examples/slow-link.yaml examples/wave.yaml examples/layers.yaml", NULL, WORDS,
     read_problem},
    {"run_file",
     "sl_run_read sl_run_read_arrangements sl_run_read_cut sl_run_read_faults sl_run_read_pace "
     "sl_run_read_recompute",
     "examples/train-*.yaml examples/llama.yaml", NULL, WORDS " model data optimizer train network delegates",
     read_run},
    {"cluster", "sl_cluster_read sl_volume_read", "examples/cluster.yaml", NULL,
     WORDS " hosts speed parallel tensor data volume", read_cluster},
    {"model", "sl_model_work_read sl_model_config_read sl_transformer_read sl_measured_layers_read",
     "examples/model-70b.yaml tests/choose/model/configs/*.json", write_model,
     "model layers repeat times_ms measured scaling batch sequences precision attention model_type "
     "architectures num_hidden_layers hidden_size num_attention_heads num_key_value_heads vocab_size null "
     "true",
     read_model},
    {"devices",
     "sl_devices_read sl_cluster_hosts_read sl_cluster_hosts_read_file sl_cluster_links_read "
     "sl_device_rates_read",
     "examples/cluster-1024.yaml", write_devices,
     "hosts links inside default groups list between device devices tflops efficiency memory_gb "
     "memory_gb_per_s "
     "host_gb_per_s latency_ms bandwidth_gbps node[0-7]",
     read_devices},
    {"set", "sl_document_set", NULL, write_set, "pipeline. links. .list.0. ={} =[]", read_set},
    {"order", "sl_order_parse_csv sl_csv_parse sl_csv_read_lines sl_csv_shape", NULL, write_order,
     "SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD 0F0 1B1 0I0 0W0", read_order},
    {"order_table", "sl_order_table_parse", NULL, write_order_table,
     "Rank 0: (F|0|0) (BW|0|0) func_type mini_batch chunk table stages ForwardPass BackwardPass buffer_id",
     read_order_table},
    {"layer_layout", "sl_layer_layout_parse", NULL, write_layout, "E t m L | (t|)*3 t*2 ,", read_layout},
    {"plan", "sl_plan_read_json sl_plan_reader_feed", NULL, write_plan,
     "format slackline-plan-1 ops messages collectives memory schedule start_ms end_ms", read_plan},
    {"plan_order", "sl_plan_parse_order", NULL, write_plan,
     "format slackline-plan-1 ops rank op stage microbatch part start_ms end_ms", read_plan_order},
    {"plan_packed", "sl_unpack", NULL, write_packed, NULL, read_packed},
    {"trace", "sl_trace_file_read sl_traced_feed sl_recover sl_scan_feed sl_label_read", NULL, write_trace,
     "traceEvents ph name cat pid tid ts dur args distributedInfo rank", read_trace},
    {"campaign", "sl_campaign_read", "examples/campaign.yaml", write_campaign,
     "job replicas iterations duration_s schedule static costs events at until at_s until_s link device host "
     "replica_link slowdown nic_lost every for",
     read_campaign},
    {"campaign_csv", "sl_campaign_read_csv", NULL, write_faults,
     "first_iteration last_iteration links device nic host latency_ms replica slowdown every for",
     read_faults},
    {"fleet", "sl_fleet_read", NULL, write_fleet,
     "fleet hosts spares runs failure_days repair_hours crews seed", read_fleet},
    {"fleet_log", "sl_fleet_read_csv", NULL, write_fleet_log, "time_days node event start end level class",
     read_fleet_log},
    {"series", "sl_series_reader_open sl_series_reader_next sl_series_reader_next_call",
     "tests/data/nile.csv", write_series, "time_ms call communicator peer bytes start_ns rank MPI_Send",
     read_series},
    {"solver", "sl_protobuf_next sl_protobuf_varint", NULL, write_answer, NULL, read_answer},
    {0}};
