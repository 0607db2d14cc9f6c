/* What `slackline balance` is asked. */
#ifndef SL_CLI_BALANCE_H
#define SL_CLI_BALANCE_H

#include "plan/pipeline/problem.h"

typedef struct sl_balance_request {
    int microbatches, replicas;
    double *time;        /* [replicas] ms; NULL: the problems say it */
    double *fill;        /* [replicas] microbatches; NULL: none */
    int *limit;          /* [replicas] 0: none; NULL: none */
    sl_problem *problem; /* [problems] 0: none; 1: of all replicas; else one a replica */
    int problems;
    const char *schedule;
    int is_text, help;
} sl_balance_request;

/** Reads options (--help: `usage` is printed), lists and problem files. SL_EINVAL. Close with
 * sl_balance_request_close, also on error. */
sl_status sl_balance_request_read(int argc, char **argv, const char *usage, sl_balance_request *request);
void sl_balance_request_close(sl_balance_request *request);

#endif
