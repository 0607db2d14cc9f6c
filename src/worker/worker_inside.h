/* What a worker does besides being a rank of a run. */
#pragma once

/* What a worker says of itself, and how two of them show that MPI works; for slackline doctor. */

/** slackline-worker --about: a line a fact ("oneDNN: 2.6.0") on standard output. The exit code. */
int sl_worker_about(void);

/** slackline-worker --exchange, as a rank: a message of 1 MiB to the next rank and a sum over all; rank 0
 * then says "exchange: 2 ranks" and "library: ...". The exit code. */
int sl_worker_exchange(int *argc, char ***argv);

/* slackline-worker --validate ...: one process of a validation (notice/validate), in an allocation or below
 * slackline validate, or beside a rank of a program that is held. */

/** argv[0] is not looked at; the rest are the words of `slackline validate`, `starter` the words of what
 * started this (base/build.h). Returns the exit code. */
int sl_worker_validate(const char *starter, int argc, char **argv);
