/* Functions of a worker other than being a rank of a run. */
#pragma once

/* A worker's description of itself, and an MPI test between two of them for slackline doctor. */

/** slackline-worker --about: one line per fact ("oneDNN: 2.6.0") on standard output. The exit code. */
int sl_worker_about(void);

/** slackline-worker --exchange, as a rank: a message of 1 MiB to the next rank and a sum over all; rank 0
 * then prints "exchange: 2 ranks" and "library: ...". The exit code. */
int sl_worker_exchange(int *argc, char ***argv);

/* slackline-worker --validate ...: one process of a validation (notice/validate), in an allocation or started
 * by slackline healthcheck, or next to a rank of a program on hold. */

/** argv[0] is ignored; the rest are the arguments of `slackline healthcheck`, `starter` the version and path
 * of the starter (base/build.h). Returns the exit code. */
int sl_worker_validate(const char *starter, int argc, char **argv);
