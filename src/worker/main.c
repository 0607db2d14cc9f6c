/* slackline-worker RUN FOLDER [--resume] [KEY=VALUE]...: one rank of a run. Started by slackline train
 * through mpirun, or directly inside an allocation. */
#include "base/memory.h"
#include "launch/delegate.h"
#include "launch/launch.h"
#include "launch/worker.h"
#include "run/collective/group.h"
#include "run/train/trainer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int asks_to_resume(int argc, char **argv) {
    return argc > 3 && strcmp(argv[3], "--resume") == 0;
}

static sl_status read_run(int argc, char **argv, sl_run *run) {
    sl_document document;
    sl_status status = sl_document_read(argv[1], &document);
    for (int i = 3 + asks_to_resume(argc, argv); i < argc && status == SL_OK; i++)
        status = sl_document_set(&document, argv[i]);
    if (status == SL_OK)
        status = sl_run_read(&document, run);
    sl_document_close(&document);
    return status;
}

static sl_status work(int argc, char **argv, const sl_launch_worker *launch, int *rank) {
    sl_run run = {0};
    sl_group *group = NULL;
    SL_TRY(sl_group_open_world(&argc, &argv, &group));
    *rank = sl_group_rank(group);
    sl_status status = read_run(argc, argv, &run);
    if (status == SL_OK && sl_group_size(group) != sl_run_ranks(&run))
        status = sl_error(SL_EINVAL,
                          "the run has %d ranks (pipeline %d, data %d, tensor %d), but %d processes "
                          "were started",
                          sl_run_ranks(&run), run.parallel.pipeline, run.parallel.data, run.parallel.tensor,
                          sl_group_size(group));
    /* Without the program beside this one a run on the direct path still works. */
    sl_launch_delegates delegates = {.directory = (char *)(uintptr_t)launch->temporary};
    sl_status search = sl_launch_program("slackline-delegate", &delegates.program);
    int found = search == SL_OK;
    if (status == SL_OK && sl_run_may_delegate(&run))
        status = search;
    sl_transport_starter starter = sl_launch_delegate_starter(&delegates);
    sl_place place = {.folder = argv[2],
                      .resume = asks_to_resume(argc, argv),
                      .temporary = launch->temporary,
                      .starter = found ? &starter : NULL};
    if (status == SL_OK)
        status = sl_train(&run, &place, group);
    sl_free(delegates.program);
    sl_run_free(&run);
    if (status == SL_OK)
        sl_group_close_world(group);
    return status;
}

int main(int argc, char **argv) {
    sl_launch_worker launch = {0};
    int rank = -1;
    if (argc < 3) {
        fprintf(stderr, "slackline-worker: started by slackline train, not by hand\n");
        return 2;
    }
    sl_status status = sl_launch_worker_begin(&launch);
    if (status == SL_OK)
        status = work(argc, argv, &launch, &rank);
    if (status != SL_OK)
        sl_launch_worker_fail(&launch, rank, status);
    sl_launch_worker_end(&launch);
    return 0;
}
