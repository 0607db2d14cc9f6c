/* The arguments of `slackline healthcheck`: read by the command, which refuses errors before a process starts,
 * and by the processes that it starts, which get the same arguments. */
#pragma once

#include "base/option.h"
#include "base/time.h"
#include "notice/store/store.h"
#include "notice/validate/passes.h"

typedef enum sl_validate_topology {
    SL_TOPOLOGY_RING,
    SL_TOPOLOGY_TREE,
    SL_TOPOLOGY_ALL
} sl_validate_topology;

typedef struct sl_validate_request {
    int ranks; /* processes to start; 0: one per processor, at least 4 */
    int repeat;
    int threads;
    sl_validate_topology topology;
    int topology_said;
    int json;
    int gemm;            /* this member's device is tested */
    int devices, wires;  /* any device, any link is tested */
    const char *expect;  /* an earlier result, JSON; NULL: none */
    const char *links;   /* "0-1,2-3" or a file; NULL: the topology's */
    const char *address; /* of this process; NULL: all addresses of the host */
    const char *result;  /* file for exit code and report; NULL: standard output */
    sl_time window;      /* of the products per repeat */
    sl_time deadline;    /* of the whole validation; 0: none */
    /* for a member of a round that meets through the store */
    char join[SL_STORE_URL]; /* its URL; "": none */
    char key[SL_STORE_KEY];  /* of that job; "": no sealing */
    const char *job, *round;
    int member, members, rank, pid; /* pid 0: none */
} sl_validate_request;

extern const sl_option sl_validate_options[];

/** Fills `request` with pointers into argv; ignores argv[0]. SL_EINVAL explains the error; SL_DONE: the
 * caller prints --help. */
sl_status sl_validate_request_read(int argc, char **argv, sl_validate_request *request);

/** Pairs of ranks from "0-1,2-3", or from a file with pairs of numbers: a and b of each. SL_EINVAL. Free
 * *pair with sl_free. */
sl_status sl_links_read(const char *text, sl_member_pair **pair, int *count);
