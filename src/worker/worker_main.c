/* slackline-worker RUN FOLDER [--resume] [--layout LAYOUT] [KEY=VALUE]...: one rank of a run. Started by
 * slackline train through mpirun, or directly inside an allocation. slackline-worker --self-test SEED: a
 * host's self-test (launch/selftest.h), not a rank. slackline-worker --validate ..., --about, --exchange:
 * worker_inside.h. All but --about take the starter and its version as last arguments (base/build.h). */
#include "base/build.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/signals.h"
#include "launch/delegate_launch.h"
#include "launch/launch.h"
#include "launch/selftest.h"
#include "launch/worker.h"
#include "run/collective/group.h"
#include "run/file/run_layout.h"
#include "run/train/cores.h"
#include "run/train/train.h"
#include "worker/worker_inside.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct worker_request {
    const char *file;
    const char *folder;
    int resume;
    const char *layout; /* of an elastic run; NULL: the run file's */
    int settings;       /* argv from here on */
} worker_request;

/* Used if no supervisor receives sl_launch_worker_fail. */
static int refuse(void) {
    fprintf(stderr, "slackline-worker: %s\n", sl_error_text());
    return 1;
}

static int self_test(const char *starter, const char *text) {
    char words[64], *end;
    if (sl_build_check(starter) != SL_OK)
        return refuse();
    uint64_t seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        return 2;
    sl_self_test_words(seed, sl_self_test(seed), words, sizeof words);
    puts(words);
    return fflush(stdout) == 0 ? 0 : 1;
}

static sl_status read_run(int argc, char **argv, const worker_request *request, sl_run *run) {
    sl_document document;
    sl_run_layout layout;
    sl_status status = sl_document_read(request->file, &document);
    for (int i = request->settings; i < argc && status == SL_OK; i++)
        status = sl_document_set(&document, argv[i]);
    SL_THEN(status, sl_run_read(&document, run));
    sl_document_close(&document);
    if (status == SL_OK && request->layout) {
        SL_TRY(sl_run_layout_named(request->layout, &layout));
        status = sl_run_layout_take(run, layout);
    }
    return status;
}

/* The settings of the command line as comments, one per line; an elastic run's layout is one, too. */
static void write_settings(int argc, char **argv, const worker_request *request, FILE *out) {
    sl_run_layout layout;
    fputs("# slackline " SL_VERSION ", from this run file:\n", out);
    for (int i = request->settings; i < argc; i++) {
        fputs("# --set ", out);
        for (const char *c = argv[i]; *c; c++)
            fputc(*c == '\n' || *c == '\r' ? ' ' : *c, out);
        fputc('\n', out);
    }
    if (request->layout && sl_run_layout_named(request->layout, &layout) == SL_OK)
        fprintf(out, "# --set parallel.data=%d\n# --set parallel.pipeline=%d\n", layout.data,
                layout.pipeline);
}

/* The settings, then the run file as read: the text kept as run.yaml. Free with free. */
static sl_status write_run(int argc, char **argv, const worker_request *request, char **text) {
    char *file;
    size_t length, size;
    SL_TRY(sl_file_read(request->file, &file, &length));
    FILE *out = open_memstream(text, &size);
    if (out) {
        write_settings(argc, argv, request, out);
        fwrite(file, 1, length, out);
    }
    sl_free(file);
    return out && fclose(out) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for run.yaml");
}

static sl_status train(const sl_run *run, const char *kept, const worker_request *request,
                       const sl_launch_worker *launch, sl_group *group, int *left) {
    /* Without the program next to this one a run on the direct path still works. */
    sl_launch_delegates delegates = {.directory = (char *)(uintptr_t)launch->temporary};
    sl_status search = sl_launch_program("slackline-delegate", &delegates.program);
    int found = search == SL_OK;
    sl_status status = sl_run_may_delegate(run) ? search : SL_OK;
    sl_transport_starter starter = sl_launch_delegate_starter(&delegates);
    sl_run_site site = {.folder = request->folder,
                        .run_file = kept,
                        .temporary = launch->temporary,
                        .starter = found ? &starter : NULL,
                        .resume = request->resume,
                        .again = launch->supervised,
                        .warned = sl_run_saves(run) ? sl_launch_worker_warned : NULL,
                        .left = left};
    SL_THEN(status, sl_train(run, &site, group));
    sl_free(delegates.program);
    return status;
}

static sl_status work(int argc, char **argv, const worker_request *request, sl_launch_worker *launch,
                      int *rank, int *left) {
    sl_run run = {0};
    sl_group *group = NULL;
    char *kept = NULL;
    sl_status reading = read_run(argc, argv, request, &run);
    char text[1024];
    snprintf(text, sizeof text, "%s", sl_error_text());
    if (reading == SL_OK && sl_run_saves(&run))
        sl_launch_worker_expect_warning(launch);
    sl_status status;
    SL_TRY_GOTO(out, status, sl_group_open_world(&argc, &argv, &group));
    *rank = sl_group_rank(group);
    if (reading != SL_OK)
        SL_TRY_GOTO(out, status, sl_error(reading, "%s", text));
    if (sl_group_size(group) != sl_run_ranks(&run))
        SL_TRY_GOTO(out, status,
                    sl_error(SL_EINVAL,
                             "the run has %d ranks (pipeline %d, data %d, tensor %d), but %d processes "
                             "were started",
                             sl_run_ranks(&run), run.parallel.pipeline, run.parallel.data,
                             run.parallel.tensor, sl_group_size(group)));
    SL_TRY_GOTO(out, status, sl_cores_claim(group, &run));
    if (*rank == 0)
        SL_TRY_GOTO(out, status, sl_launch_worker_own(launch, request->folder));
    if (request->resume)
        SL_TRY_GOTO(out, status, sl_faults_forget(&run, request->folder, group));
    SL_TRY_GOTO(out, status, write_run(argc, argv, request, &kept));
    SL_TRY_GOTO(out, status, train(&run, kept, request, launch, group, left));
    if (*left && *rank == 0 && !launch->supervised) /* mpirun ends all ranks when the first of them exits */
        fprintf(stderr,
                "slackline: ended by SIGTERM after %d iterations; the same command with --resume continues\n",
                *left - 1);
    sl_group_close_world(group);
out:
    free(kept);
    sl_run_free(&run);
    return status;
}

int main(int argc, char **argv) {
    sl_launch_worker launch = {0};
    int rank = -1, left = 0;
    sl_signals_begin(NULL);
    const char *starter = sl_build_take(&argc, argv);
    if (argc == 3 && strcmp(argv[1], "--self-test") == 0)
        return self_test(starter, argv[2]);
    if (argc == 2 && strcmp(argv[1], "--about") == 0)
        return sl_worker_about();
    if (argc == 2 && strcmp(argv[1], "--exchange") == 0)
        return sl_build_check(starter) == SL_OK ? sl_worker_exchange(&argc, &argv) : refuse();
    if (argc > 1 && strcmp(argv[1], "--validate") == 0)
        return sl_worker_validate(starter, argc - 1, argv + 1);
    if (argc < 3) {
        fprintf(stderr, "slackline-worker: started by slackline train, not by hand\n");
        return 2;
    }
    worker_request request = {.file = argv[1], .folder = argv[2], .settings = 3};
    request.resume = argc > 3 && strcmp(argv[3], "--resume") == 0;
    request.settings += request.resume;
    if (argc > request.settings + 1 && strcmp(argv[request.settings], SL_RUN_LAYOUT_OPTION) == 0) {
        request.layout = argv[request.settings + 1];
        request.settings += 2;
    }
    sl_status status = sl_launch_worker_begin(&launch);
    SL_THEN(status, sl_build_check(starter));
    SL_THEN(status, work(argc, argv, &request, &launch, &rank, &left));
    if (status != SL_OK)
        sl_launch_worker_fail(&launch, rank, status);
    int supervised = launch.supervised;
    sl_launch_worker_end(&launch);
    return left ? (supervised ? SL_LAUNCH_LEFT : 1) : 0;
}
