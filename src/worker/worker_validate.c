#include "base/build.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/worker.h"
#include "notice/round/round.h"
#include "notice/validate/reference.h"
#include "notice/validate/validate_report.h"
#include "run/collective/group.h"
#include "worker/worker_inside.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* A store that does not answer for this time is lost. */
#define STORE_PATIENCE (SL_SECOND / 2)

/* ---- an allgather of the ranks of an allocation ---- */

/* A lost rank ends all of them: mpirun and srun ensure that. */
static sl_status gather_ranks(void *context, const void *bytes, size_t size, sl_time patience,
                              sl_allgather_parts *gathered) {
    sl_group *group = context;
    int members = sl_group_size(group);
    uint64_t mine = size, sum = 0, *sizes;
    size_t *each = NULL;
    char *all = NULL;
    sl_status status;
    (void)patience;
    SL_TRY(sl_allgather_parts_open(members, gathered));
    SL_TRY(sl_alloc(&sizes, (size_t)members, sizeof *sizes));
    SL_TRY_GOTO(out, status, sl_alloc(&each, (size_t)members, sizeof *each));
    SL_TRY_GOTO(out, status,
                sl_group_gather_all(group, &mine, sizeof mine, sizes, (size_t)members * sizeof *sizes, each));
    for (int i = 0; i < members; i++)
        sum += sizes[i];
    SL_TRY_GOTO(out, status, sl_alloc(&all, sum + 1, 1));
    SL_TRY_GOTO(out, status, sl_group_gather_all(group, bytes, size, all, sum, each));
    for (size_t i = 0, at = 0; i < (size_t)members; at += each[i++])
        SL_TRY_GOTO(out, status, sl_allgather_parts_put(gathered, (int)i, all + at, each[i]));
out:
    SL_FREE(all, each, sizes);
    return status;
}

static void keep_group(void *context) {
    (void)context; /* the caller closes the world */
}

/* ---- verdict ---- */

/* The report of this member, if it is the reporting one, and whether all is well. */
static sl_status conclude(const sl_validate_request *request, sl_round_result *result, char **text,
                          int *healthy) {
    sl_reference reference = {0};
    sl_verdicts verdicts = {0};
    *text = NULL;
    if (!result->reports)
        return SL_OK;
    if (request->expect)
        SL_TRY(sl_reference_read(request->expect, &reference));
    sl_status status = sl_verdict(&result->measured, request->expect ? &reference : NULL, &verdicts);
    SL_THEN(status, sl_report(result, &verdicts, request->json || request->join[0], text));
    *healthy = verdicts.count == 0;
    sl_verdicts_free(&verdicts);
    return status;
}

/* To standard output; under a supervisor the code and the report go into a file, because there a rank that
 * exits with 1 would count as failed. */
static sl_status deliver(const sl_validate_request *request, const char *text, int healthy) {
    if (!request->result) {
        fputs(text, stdout);
        return fflush(stdout) == 0 ? SL_OK : sl_error(SL_ESYS, "standard output cannot be written");
    }
    char *file;
    size_t size = strlen(text) + 3;
    SL_TRY(sl_alloc(&file, size, 1));
    int length = snprintf(file, size, "%d\n%s", healthy ? 0 : 1, text);
    sl_status status = sl_file_write(request->result, file, (size_t)length);
    sl_free(file);
    return status;
}

static sl_status in_allocation(const sl_validate_request *request, int *argc, char ***argv, int *rank,
                               int *code) {
    sl_round_result result = {0};
    sl_group *group;
    char *text = NULL;
    int healthy = 1;
    SL_TRY(sl_group_open_world(argc, argv, &group));
    *rank = sl_group_rank(group);
    sl_allgather allgather = {.members = sl_group_size(group),
                              .self = *rank,
                              .context = group,
                              .gather_all = gather_ranks,
                              .close = keep_group};
    sl_status status;
    SL_TRY_GOTO(out, status, sl_round(request, &allgather, *rank, &result));
    SL_TRY_GOTO(out, status, conclude(request, &result, &text, &healthy));
    if (text)
        SL_TRY_GOTO(out, status, deliver(request, text, healthy));
    sl_group_close_world(group);
out:
    free(text);
    sl_round_result_free(&result);
    *code = healthy || request->result ? 0 : 1;
    return status;
}

/* ---- a member that meets others through the store ---- */

static sl_status write_store(sl_store *store, const char *round, const char *text) {
    char key[96];
    snprintf(key, sizeof key, "validation:%.64s", round);
    return sl_store_set(store, key, text, strlen(text), 600 * SL_SECOND);
}

static sl_status as_member(const sl_validate_request *request, int *code) {
    sl_round_result result = {0};
    sl_allgather allgather = {0};
    sl_store *store;
    sl_status status;
    char *text = NULL;
    int healthy = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no process would wait for the verdict */
    SL_TRY(sl_store_open(request->join, request->job, STORE_PATIENCE, &store));
    if (request->key[0])
        SL_TRY_GOTO(out, status, sl_store_seal(store, request->key));
    SL_TRY_GOTO(
        out, status,
        sl_allgather_open_store(store, request->round, request->members, request->member, &allgather));
    SL_TRY_GOTO(out, status, sl_round(request, &allgather, request->rank, &result));
    SL_TRY_GOTO(out, status, conclude(request, &result, &text, &healthy));
    if (text)
        status = write_store(store, request->round, text);
out:
    if (result.joined[0])
        fprintf(stderr, "slackline: rank %d is tested outside of its control group: %s\n", request->rank,
                result.joined);
    free(text);
    sl_round_result_free(&result);
    if (allgather.close)
        allgather.close(allgather.context);
    sl_store_close(store);
    *code = healthy ? 0 : 1;
    return status;
}

int sl_worker_validate(const char *starter, int argc, char **argv) {
    sl_launch_worker launch = {0};
    sl_validate_request request;
    int rank = -1, code = 0;
    sl_status status = sl_validate_request_read(argc, argv, &request);
    if (status == SL_OK && request.join[0]) {
        status = sl_build_check(starter);
        SL_THEN(status, as_member(&request, &code));
        if (status == SL_OK)
            return code;
        fprintf(stderr, "slackline: validating rank %d: %s\n", request.rank, sl_error_text());
        return sl_exit_code(status);
    }
    SL_THEN(status, sl_launch_worker_begin(&launch));
    SL_THEN(status, sl_build_check(starter));
    SL_THEN(status, in_allocation(&request, &argc, &argv, &rank, &code));
    if (status != SL_OK)
        sl_launch_worker_fail(&launch, rank, status);
    sl_launch_worker_end(&launch);
    return code;
}
