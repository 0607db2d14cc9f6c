/* Fuzzer of the readers of outside bytes: problem, run file, order (CSV), --set, rings of records.
 * The first byte chooses the reader. Built with clang and -DSL_FUZZ=ON:
 *
 *   cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DSL_FUZZ=ON -DCMAKE_C_FLAGS=-DSL_VECTORISED=
 *   ninja -C build-fuzz fuzz_readers && build-fuzz/tests/fuzz_readers -max_total_time=60
 *
 * What a reader accepts must hold: an accepted problem is planned, an accepted order lowered and replayed. */
#include "base/memory.h"
#include "base/yaml.h"
#include "notice/record/record.h"
#include "plan/pipeline/csv.h"
#include "plan/search/plan.h"
#include "run/train/run.h"

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

static void try_set(const char *text) {
    sl_document document;
    if (sl_document_parse("fuzz", "pipeline: {ranks: 2, links: {list: [{between: [0, 1]}]}}\n", &document) ==
        SL_OK)
        sl_document_set(&document, text);
    sl_document_close(&document);
}

static void try_order(const char *text, size_t size) {
    char path[64];
    sl_problem problem;
    sl_order order;
    int file = memfd_create("order", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file >= 0 && write(file, text, size) == (ssize_t)size &&
        sl_problem_make(2, 2, 3, &problem) == SL_OK) {
        if (sl_order_read_csv(path, &problem, &order) == SL_OK) {
            sl_plan plan;
            sl_plan_of_order(&problem, &order, "file", &plan);
            sl_plan_free(&plan);
            sl_order_free(&order);
        }
        sl_problem_free(&problem);
    }
    close(file);
}

static void try_ring(const uint8_t *data, size_t size) {
    sl_record_ring *ring = aligned_alloc(64, (size + 127) / 64 * 64);
    sl_record records[8];
    uint64_t position = 0, lost = 0;
    memset(ring, 0, (size + 127) / 64 * 64);
    memcpy(ring, data, size);
    if (sl_record_ring_valid(ring, size) == 0)
        sl_record_read(ring, &position, records, 8, &lost);
    free(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] % 5) {
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
    default:
        try_ring(data + 1, size - 1);
    }
    free(text);
    return 0;
}
