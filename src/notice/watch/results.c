#include "notice/watch/results.h"
#include "launch/run_folder.h"
#include "notice/watch/watch_report.h"
#include "notice/watch/watched_program.h"

#include <stdio.h>
#include <string.h>

/* A finished run stays as it is, unless it is to be replaced. Ranks of one job share a folder and may arrive
 * when the first ones have ended: neither the job's own report nor that of a failed attempt stops them. */
static sl_status keep_finished(int requested, const sl_launch_position *position, char *directory,
                               size_t size) {
    char finished[4096];
    if (position->again || !sl_launch_folder_is_finished(directory) ||
        (position->inside && sl_watch_report_is_of(directory, position->job)))
        return SL_OK;
    if (requested || position->inside)
        return sl_error(SL_EINVAL, "watch: %s holds a finished run; --overwrite replaces it", directory);
    snprintf(finished, sizeof finished, "%s", directory);
    SL_TRY(sl_launch_folder_number(directory, size, 0));
    fprintf(stderr, "slackline: %s holds a finished run; this one is written to %s\n", finished, directory);
    return SL_OK;
}

sl_status sl_results_choose(char *const *command, const char *requested, int overwrite,
                            sl_launch_position *position, char *directory, size_t size) {
    const char *program = command[sl_program_word(command)], *slash = strrchr(program, '/');
    int used = requested ? snprintf(directory, size, "%s", requested)
                         : snprintf(directory, size, "runs/watch-%s", slash ? slash + 1 : program);
    if (used < 1 || (size_t)used >= size)
        return sl_error(SL_EINVAL, "watch: '%s' is not the path of a folder",
                        requested ? requested : program);
    sl_launch_position_find(directory, position);
    return overwrite ? SL_OK : keep_finished(requested != NULL, position, directory, size);
}
