/* What failed workers leave for the supervisor: files in the run's temporary part with their error texts and
 * exit codes; on a host whose files the supervisor cannot see, a line on standard error. */
#pragma once

#include "base/status.h"
#include "base/time.h"

typedef struct sl_worker_error {
    int found, rank, status; /* rank -1: unknown */
    sl_time time;
    char text[1024];
} sl_worker_error;

/** Writes the error text of rank `rank` (-1: unknown) to a file, completely or not at all. */
sl_status sl_worker_error_leave(const char *temporary, int rank, sl_status status, const char *text);
/** The same as a line on standard error, which mpirun forwards to the supervisor. */
void sl_worker_error_send(int rank, sl_status status, const char *text);
/** Nonzero if `line` is such a line; then it is stored in `temporary`. */
int sl_worker_error_take(const char *temporary, const char *line);
/** The first error of a rank (-1: of any); a consequence of another rank's end (SL_EPEER) ranks last. */
sl_worker_error sl_worker_error_find(const char *temporary, int rank);

/** Notes that rank `rank` exits by itself with a nonzero code, in case mpirun does not name it. */
void sl_worker_exit_note(const char *temporary, int rank, int exit_code);
/** A rank that noted exit code `exit_code`; -1: none did. mpirun is known to end with a rank's code and
 * without naming it if the ranks end at the same time. */
int sl_worker_exit_find(const char *temporary, int exit_code);
