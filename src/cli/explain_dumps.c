#include "cli/explain_dumps.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/trace_file.h"
#include "notice/hang/hang.h"
#include "notice/hang/nccl_ras.h"
#include "notice/hang/torch_dump.h"

#include <stdlib.h>
#include <string.h>

enum { BEGINNING = 1 << 16, PATIENCE = 30 };
#define LARGEST (UINT64_C(1) << 30)
#define SERVICE "ras://"

/* A whole file, unpacked. */
typedef struct whole_file {
    char *bytes;
    size_t size, capacity;
    const char *name;
} whole_file;

static sl_status begin(void *object, const char *name) {
    whole_file *w = object;
    w->name = name;
    w->size = 0;
    return SL_OK;
}

static sl_status feed(void *object, const char *bytes, size_t size) {
    whole_file *w = object;
    if (w->size + size > LARGEST)
        return sl_error(SL_EINVAL, "%s: larger than 1 GiB", w->name);
    SL_TRY(sl_grow(&w->bytes, &w->capacity, w->size + size + 1, 1));
    memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
    return SL_OK;
}

static sl_status end(void *object) {
    (void)object;
    return SL_OK;
}

/* Only the beginning, to choose a reader: the rest may be large, or come through a pipe that is read once. */
sl_status sl_explain_has_dumps(const sl_texts *files, int *has) {
    char start[BEGINNING];
    *has = 0;
    if (files->count > 0 && strncmp(files->text[0], SERVICE, strlen(SERVICE)) == 0) {
        *has = 1;
        return SL_OK;
    }
    if (files->count == 0 || strcmp(files->text[0], "-") == 0)
        return SL_OK;
    FILE *file = fopen(files->text[0], "re");
    if (!file)
        return SL_OK; /* the reader of traces reports it */
    size_t size = fread(start, 1, sizeof start, file);
    fclose(file);
    *has = sl_torch_dump_is(start, size);
    return SL_OK;
}

static sl_status ask_service(const char *address, sl_hang_job *job) {
    char *answer;
    size_t size;
    SL_TRY(sl_nccl_ras_ask(address, PATIENCE, &answer, &size));
    sl_status status = sl_torch_dump_add(address, answer, size, job);
    sl_free(answer);
    return status;
}

static sl_status read_all(const sl_texts *files, sl_hang_job *job) {
    whole_file w = {0};
    const sl_trace_reader reader = {begin, feed, end, &w};
    sl_status status = SL_OK;
    for (int i = 0; status == SL_OK && i < files->count; i++) {
        if (strncmp(files->text[i], SERVICE, strlen(SERVICE)) == 0) {
            status = ask_service(files->text[i] + strlen(SERVICE), job);
            continue;
        }
        status = sl_trace_file_give(files->text[i], &reader);
        SL_THEN(status, sl_torch_dump_add(files->text[i], w.bytes ? w.bytes : "", w.size, job));
    }
    sl_free(w.bytes);
    SL_THEN(status, sl_torch_dump_finish(job));
    return status;
}

static void print_text(const sl_hang_job *job, const sl_hang_verdict *v, FILE *out) {
    fprintf(out, "%zu of %d ranks", job->ranks, job->size);
    if (v->cause == SL_HANG_NOTHING) {
        fprintf(out, ": no rank waits for another\n");
        return;
    }
    fprintf(out, "\n%s: %s\n%s\n%s\n", v->certain ? "hang" : "stall", sl_hang_cause_name(v->cause), v->seen,
            v->why);
}

static sl_status print_json(const sl_hang_job *job, const sl_hang_verdict *v, FILE *out) {
    json_t *json = sl_hang_verdict_json(v);
    if (!json)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    json_object_set_new(json, "ranks", json_integer((json_int_t)job->ranks));
    json_object_set_new(json, "size", json_integer(job->size));
    int failed = json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(json);
    fputc('\n', out);
    return failed ? sl_error(SL_ENOMEM, "out of memory for the output") : SL_OK;
}

sl_status sl_explain_dumps(const sl_texts *files, int is_json, FILE *out) {
    sl_hang_job job = {0};
    sl_hang_verdict verdict;
    sl_status status = read_all(files, &job);
    SL_THEN(status, sl_hang_diagnose(&job, 0, &verdict));
    if (status == SL_OK && is_json)
        status = print_json(&job, &verdict, out);
    else if (status == SL_OK)
        print_text(&job, &verdict, out);
    sl_hang_job_free(&job);
    return status;
}
