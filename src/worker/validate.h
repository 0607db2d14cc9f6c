/* slackline-worker --validate ...: one process of a validation (notice/validate), in an allocation or below
 * slackline validate, or beside a rank of a program that is held. */
#ifndef SL_WORKER_VALIDATE_H
#define SL_WORKER_VALIDATE_H

/** argv[0] is not looked at; the rest are the words of `slackline validate`, `starter` the words of what
 * started this (base/build.h). Returns the exit code. */
int sl_worker_validate(const char *starter, int argc, char **argv);

#endif
