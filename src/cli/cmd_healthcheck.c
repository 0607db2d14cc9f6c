/* slackline healthcheck: checks the request, then starts the validating processes (or becomes one, inside an
 * allocation or next to a rank of a held program). */
#include "cli/help.h"
#include "cli/plan_request.h"

#include "base/build.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/launch.h"
#include "notice/validate/passes.h"
#include "notice/validate/reference.h"
#include "notice/validate/validate_request.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One per processor, at least 4: comparing links takes at least three. */
static int usual_ranks(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return count > 4 ? count : 4;
}

/* `worker --validate WORDS`, with a file --result FILE, and the starting program (`build`). One
 * allocation. */
static sl_status make_worker(char *worker, int argc, char **argv, char *result, char *build, char ***made) {
    SL_TRY(sl_alloc(made, (size_t)argc + 7, sizeof **made));
    int n = 0;
    (*made)[n++] = worker;
    (*made)[n++] = (char *)(uintptr_t) "--validate";
    for (int i = 1; i < argc; i++)
        (*made)[n++] = argv[i];
    if (result) {
        (*made)[n++] = (char *)(uintptr_t) "--result";
        (*made)[n++] = result;
    }
    (*made)[n++] = (char *)(uintptr_t)SL_BUILD_OPTION;
    (*made)[n++] = build;
    return SL_OK;
}

/* The first line is the exit code, the rest the report. */
static sl_status print_result(const char *path, int *exit_code) {
    char *text;
    size_t size;
    SL_TRY(sl_file_read(path, &text, &size));
    *exit_code = size > 0 && text[0] == '1';
    fputs(size > 2 ? text + 2 : "", stdout);
    sl_free(text);
    return SL_OK;
}

static sl_status launch(const sl_validate_request *request, char *worker, int argc, char **argv,
                        int *exit_code) {
    char folder[PATH_MAX], result[PATH_MAX + 16], build[SL_BUILD_WORDS], **words = NULL;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.3000s/slackline-healthcheck-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        return sl_error_errno(SL_ESYS, "%s: no temporary directory can be made", folder);
    snprintf(result, sizeof result, "%s/result", folder);
    sl_build_words(build);
    sl_status status;
    SL_TRY_GOTO(out, status, make_worker(worker, argc, argv, result, build, &words));
    const sl_launch_config config = {
        .directory = folder, .ranks = request->ranks ? request->ranks : usual_ranks(), .worker = words};
    SL_TRY_GOTO(out, status, sl_launch_run(&config, exit_code));
    status = print_result(result, exit_code);
out:
    sl_free(words);
    char kept[1024];
    snprintf(kept, sizeof kept, "%s", sl_error_text());
    sl_path_remove(folder);
    return status == SL_OK ? SL_OK : sl_error(status, "%s", kept);
}

static sl_status become(char *worker, int argc, char **argv) {
    char build[SL_BUILD_WORDS], **words;
    sl_build_words(build);
    SL_TRY(make_worker(worker, argc, argv, NULL, build, &words));
    execv(worker, words);
    sl_status status = sl_error_errno(SL_ESYS, "%s: cannot be started", worker);
    sl_free(words);
    return status;
}

/* --links, read; for processes that are started here, each between two of them. */
static sl_status check_links(const sl_validate_request *request, int inside) {
    const int ranks = request->ranks ? request->ranks : usual_ranks();
    sl_member_pair *pair;
    sl_passes passes = {0};
    int count;
    SL_TRY(sl_links_read(request->links, &pair, &count));
    sl_status status = inside || request->join[0] ? SL_OK : sl_passes_given(ranks, pair, count, &passes);
    if (status == SL_EINVAL)
        status = sl_error(status, "healthcheck: --links: %s", sl_error_text());
    sl_passes_free(&passes);
    sl_free(pair);
    return status;
}

/* Invalid files are invalid requests, reported before a process starts. */
static sl_status check_files(const sl_validate_request *request, int inside) {
    sl_reference reference;
    if (!request->wires && (request->links || request->topology_said))
        return sl_error(SL_EINVAL, "healthcheck: --%s does not go with --only devices, which tests no links",
                        request->links ? "links" : "topology");
    if (request->links && request->topology_said)
        return sl_error(SL_EINVAL, "healthcheck: --links and --topology both say which links are tested");
    if (request->expect)
        SL_TRY(sl_reference_read(request->expect, &reference));
    return request->links ? check_links(request, inside) : SL_OK;
}

static int run(int argc, char **argv) {
    sl_validate_request request;
    char *worker = NULL;
    int exit_code = 0;
    sl_status status = sl_validate_request_read(argc, argv, &request);
    if (status == SL_DONE)
        sl_help_print(&sl_command_healthcheck);
    int inside = status == SL_OK && !request.join[0] && sl_launch_inside();
    if (status == SL_OK && inside && request.ranks)
        status = sl_error(SL_EINVAL,
                          "healthcheck: --ranks does not go with mpirun or srun, which start the ranks");
    SL_THEN(status, check_files(&request, inside));
    SL_THEN(status, sl_launch_program("slackline-worker", &worker));
    SL_THEN(status, request.join[0] || inside ? become(worker, argc, argv)
                                              : launch(&request, worker, argc, argv, &exit_code));
    sl_free(worker);
    if (status != SL_OK) {
        const int code = sl_plan_request_end(status);
        return exit_code ? exit_code : code;
    }
    return exit_code;
}

const sl_command sl_command_healthcheck = {
    .name = "healthcheck",
    .summary = "test devices and links individually for slow ones",
    .about =
        "Tests devices (matrix products) and links (TCP between the processes: latency, and bandwidth in "
        "each direction) and names slow components, with the cause if the system shows it. Inside mpirun or "
        "srun each rank is one of its processes; elsewhere it starts them itself, on this host.",
    .options = sl_validate_options,
    .notes = "With --join the deadline is 3000 ms unless --deadline says otherwise.",
    .exit_code = "0 nothing is slow, 1 something is slow or unresolved, or the validation failed, 2 a wrong "
                 "request.",
    .example = "slackline healthcheck --ranks 4 --format json > healthy.json",
    .run = run};
