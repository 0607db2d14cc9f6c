/* Fuzzer of the readers of outside bytes: problem, run file, order (CSV), --set, rings of records,
 * safetensors and the state of a checkpoint, campaigns and their traces (CSV), Chrome traces, recordings.
 * The first byte chooses the reader. Built with clang and -DSL_FUZZ=ON:
 *
 *   cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DSL_FUZZ=ON -DCMAKE_C_FLAGS=-DSL_VECTORISED=
 *   ninja -C build-fuzz fuzz_readers && build-fuzz/tests/fuzz_readers -max_total_time=60
 *
 * What a reader accepts must hold: an accepted problem is planned, an accepted order lowered and replayed. */
#include "adapt/campaign/campaign.h"
#include "adapt/orchestrator/recording.h"
#include "base/memory.h"
#include "base/yaml.h"
#include "notice/record/record.h"
#include "plan/lower/comms_csv.h"
#include "plan/lower/written.h"
#include "plan/search/plan.h"
#include "plan/trace/recover.h"
#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/safetensors.h"
#include "run/file/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_problem(const char *text) {
    sl_document document;
    sl_problem problem = {0};
    if (sl_document_parse("fuzz", text, &document) == SL_OK &&
        sl_problem_read(&document, &problem) == SL_OK && (long)problem.stages * problem.microbatches < 2000) {
        sl_plan plan;
        sl_status status = sl_plan_make(&problem, "auto", &plan);
        if (status != SL_OK && status != SL_ENONE)
            abort();
        if (status == SL_OK && (plan.makespan < plan.bound || !plan.memory_ok))
            abort();
        sl_plan_free(&plan);
    }
    sl_problem_free(&problem);
    sl_document_close(&document);
}

static void try_run(const char *text) {
    sl_document document;
    sl_run run = {0};
    if (sl_document_parse("fuzz", text, &document) == SL_OK)
        sl_run_read(&document, &run);
    sl_run_free(&run);
    sl_document_close(&document);
}

/* What is recovered of a trace is a problem, and its order a schedule of it unless it deadlocks. */
static void try_trace(const char *text, size_t size) {
    sl_traced traced = {0};
    sl_recovered recovered = {0};
    sl_recover_options options = {.iteration = -1};
    sl_plan plan = {0};
    if (sl_traced_begin(&traced, "fuzz") == SL_OK && sl_traced_feed(&traced, text, size) == SL_OK &&
        sl_traced_end(&traced) == SL_OK && sl_recover(&traced, &options, &recovered) == SL_OK &&
        sl_plan_of_order(&recovered.problem, &recovered.order, "traced", &plan) == SL_OK && plan.makespan < 0)
        abort();
    sl_plan_free(&plan);
    sl_recovered_free(&recovered);
    sl_traced_free(&traced);
}

static void try_set(const char *text) {
    sl_document document;
    if (sl_document_parse("fuzz", "pipeline: {ranks: 2, links: {list: [{between: [0, 1]}]}}\n", &document) ==
        SL_OK)
        sl_document_set(&document, text);
    sl_document_close(&document);
}

static sl_status read_order(const sl_problem *problem, const char *text, size_t size, sl_order *order) {
    char path[64];
    sl_status status = SL_ESYS;
    int file = memfd_create("order", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file >= 0 && write(file, text, size) == (ssize_t)size)
        status = sl_order_read_csv(path, problem, order);
    close(file);
    return status;
}

/* What is read can be lowered and timed; its compute_comms form, where it has one, reads back as the same. */
static void try_accepted(const sl_problem *problem, const sl_order *order) {
    sl_plan plan;
    sl_order again;
    char *text = NULL;
    size_t size = 0;
    if (sl_plan_of_order(problem, order, "file", &plan) != SL_OK)
        abort();
    FILE *out = open_memstream(&text, &size);
    sl_status status = sl_program_write_csv(problem, order, &plan.program, out);
    fclose(out);
    if (status == SL_OK) {
        if (read_order(problem, text, size, &again) != SL_OK)
            abort();
        if (!order->issue)
            sl_order_drop_issues(&again);
        if (!sl_order_equal(order, &again))
            abort();
        sl_order_free(&again);
    }
    free(text);
    sl_plan_free(&plan);
}

/* The first byte chooses the placement. */
static void try_order(const char *text, size_t size) {
    sl_problem problem;
    sl_order order;
    sl_placement placement = size ? (sl_placement)((unsigned char)text[0] % SL_PLACEMENTS) : SL_LINEAR;
    if (size && sl_problem_make(2, placement == SL_LINEAR ? 2 : 4, 2, &problem) == SL_OK) {
        problem.placement = placement;
        if (read_order(&problem, text + 1, size - 1, &order) == SL_OK) {
            try_accepted(&problem, &order);
            sl_order_free(&order);
        }
        sl_problem_free(&problem);
    }
}

static void try_ring(const uint8_t *data, size_t size) {
    sl_record_ring *ring = aligned_alloc(64, (size + 127) / 64 * 64);
    sl_record records[8];
    uint64_t position = 0, lost = 0;
    memset(ring, 0, (size + 127) / 64 * 64);
    memcpy(ring, data, size);
    uint32_t capacity = sl_record_ring_capacity(ring, size);
    if (capacity > 0)
        sl_record_read(ring, capacity, &position, records, 8, &lost);
    free(ring);
}

/* A file in memory of these bytes; its path. Close what is returned. */
static int make_file(const uint8_t *data, size_t size, char path[64]) {
    int file = memfd_create("bytes", 0);
    snprintf(path, 64, "/proc/self/fd/%d", file);
    if (file >= 0 && write(file, data, size) != (ssize_t)size)
        abort();
    return file;
}

/* Every value of what is accepted can be read. */
static void try_safetensors(const uint8_t *data, size_t size) {
    char path[64];
    sl_safetensors *tensors;
    int file = make_file(data, size, path);
    if (sl_safetensors_open(path, &tensors) == SL_OK) {
        for (int i = 0; i < sl_safetensors_count(tensors); i++) {
            const sl_tensor *t = sl_safetensors_tensor(tensors, i);
            float *values = malloc(t->dtype == SL_DTYPE_OTHER ? 1 : t->count * sizeof *values + 1);
            if (sl_safetensors_find(tensors, t->name) != t)
                abort();
            if (t->dtype != SL_DTYPE_OTHER && sl_safetensors_read(tensors, t, 0, t->count, values) != SL_OK)
                abort();
            free(values);
        }
        sl_safetensors_close(tensors);
    }
    close(file);
}

static void try_state(const uint8_t *data, size_t size) {
    char path[64];
    sl_checkpoint_state state;
    int file = make_file(data, size, path);
    if (sl_checkpoint_state_read(path, &state) == SL_OK)
        sl_checkpoint_state_free(&state);
    close(file);
}

/* A campaign that is accepted and short can be simulated, and nothing beats hindsight. */
static void simulate(sl_campaign *c) {
    sl_campaign_result result;
    if (c->replicas <= 4 && c->faults <= 6 && c->tensor <= 8 && c->duration < 100 * SL_SECOND &&
        c->iterations < 1000) {
        sl_status status = sl_campaign_run(c, 1, &result);
        if (status == SL_OK && result.row[result.rows - 1].total > result.row[0].total)
            abort();
        sl_campaign_result_free(&result);
    }
}

static void try_campaign(char *text, int is_csv) {
    sl_document document = {0};
    sl_problem problem;
    sl_campaign campaign = {0};
    if (sl_problem_make(2, 2, 4, &problem) != SL_OK)
        return;
    for (int stage = 0; stage < 2; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            problem.time[kind][stage] = SL_MS;
        problem.time[SL_B][stage] = 2 * SL_MS;
        problem.reduce[stage] = SL_MS;
    }
    sl_status status =
        is_csv ? sl_campaign_make(&problem, &campaign) : sl_document_parse("fuzz", text, &document);
    if (status == SL_OK)
        status = is_csv ? sl_campaign_read_csv("fuzz", text, &campaign)
                        : sl_campaign_read(&document, &problem, NULL, &campaign);
    if (status == SL_OK) {
        campaign.iterations = is_csv ? 100 : campaign.iterations;
        simulate(&campaign);
    }
    sl_campaign_free(&campaign);
    sl_problem_free(&problem);
    sl_document_close(&document);
}

static void try_recording(const char *text) {
    sl_player *player;
    sl_orchestrator_action action;
    if (sl_player_open(&player) != SL_OK)
        return;
    for (size_t length; *text; text += length + (text[length] != 0)) {
        length = strcspn(text, "\n");
        (void)sl_player_line(player, text, length, &action);
    }
    sl_player_close(player);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] % 11) {
    case 0:
        try_problem(text);
        break;
    case 1:
        try_run(text);
        break;
    case 2:
        try_set(text);
        break;
    case 3:
        try_order(text, size - 1);
        break;
    case 4:
        try_safetensors(data + 1, size - 1);
        break;
    case 5:
        try_state(data + 1, size - 1);
        break;
    case 6:
    case 7:
        try_campaign(text, data[0] % 11 == 7);
        break;
    case 8:
        try_trace(text, size - 1);
        break;
    case 9:
        try_recording(text);
        break;
    default:
        try_ring(data + 1, size - 1);
    }
    free(text);
    return 0;
}
