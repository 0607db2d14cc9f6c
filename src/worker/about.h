/* What a worker says of itself, and how two of them show that MPI works; for slackline doctor. */
#ifndef SL_WORKER_ABOUT_H
#define SL_WORKER_ABOUT_H

/** slackline-worker --about: a line a fact ("oneDNN: 2.6.0") on standard output. The exit code. */
int sl_worker_about(void);

/** slackline-worker --exchange, as a rank: a message of 1 MiB to the next rank and a sum over all; rank 0
 * then says "exchange: 2 ranks" and "library: ...". The exit code. */
int sl_worker_exchange(int *argc, char ***argv);

#endif
