/* slackline-worker RUN FOLDER [KEY=VALUE]...: one rank of a run. Started by slackline train through mpirun,
 * or directly inside an allocation. */
#include "launch/worker.h"
#include "run/collective/group.h"
#include "run/train/trainer.h"

#include <stdio.h>

static sl_status read_run(int argc, char **argv, sl_run *run) {
    sl_document document;
    sl_status status = sl_document_read(argv[1], &document);
    for (int i = 3; i < argc && status == SL_OK; i++)
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
    if (status == SL_OK && sl_group_size(group) != run.parallel.pipeline)
        status = sl_error(SL_EINVAL, "the run has %d pipeline ranks, but %d processes were started",
                          run.parallel.pipeline, sl_group_size(group));
    sl_place place = {.folder = argv[2], .temporary = launch->temporary};
    if (status == SL_OK)
        status = sl_train(&run, &place, group);
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
