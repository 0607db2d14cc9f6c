/* The introductions of validating processes, and what all of them then derive from these: the members, their
 * hosts, the pass of each tested link and the wave of each tested device. Every process derives the same from
 * the same data, without further messages. */
#pragma once

#include "notice/validate/allgather.h"
#include "notice/validate/passes.h"
#include "notice/validate/readings.h"
#include "notice/validate/validate_request.h"
#include "notice/validate/wire.h"

#define SL_INTRODUCTION_VERSION 4
#define SL_GPUS_MAX 64 /* of a node */

/* Sent as is; links, pairs of int32 ranks, follow. */
typedef struct sl_introduction {
    uint32_t version; /* of this struct; build and host keep their positions in all versions */
    char build[28];   /* version of slackline */
    char host[80];    /* name */
    int32_t rank;     /* of the program, or of the allocation */
    int32_t pid;      /* of that rank; 0: none */
    int32_t own_pid;
    int32_t threads; /* of the device; 0: it must not be tested */
    int32_t gemm;    /* the device is a suspect */
    int32_t wires;   /* its links are tested */
    int32_t topology;
    int32_t links; /* number that follow; 0: those of the topology */
    uint64_t token;
    uint64_t gpus;    /* of its node, by index, that it could test */
    char space[40];   /* distinguishes hosts of the same name */
    char machine[40]; /* owner of the processors: several hosts (containers, namespaces) may share them */
    char numbers[24]; /* namespace of its pids */
    sl_core_set cores;
    sl_wire_address address;
} sl_introduction;

typedef struct sl_membership {
    int members;         /* expected number */
    sl_introduction *of; /* [members]; version 0: absent */
    int *host;           /* [members]: index; -1: absent */
    int hosts;
    int *machine; /* [members]: index; -1: absent */
    int *wave;    /* [members]; -1: the device is not tested */
    int waves;
    uint64_t *gpus;  /* [members]: those that a member tests */
    sl_passes links; /* of members; a connects, b has a listener */
    uint64_t token;
} sl_membership;

/** The introduction of this process: free *bytes with sl_free. Reads `links` of the request. SL_EINVAL,
 * SL_ESYS, SL_ENOMEM. */
sl_status sl_introduce(const sl_validate_request *request, int rank, const sl_wire_address *address,
                       void **bytes, size_t *size);

/** Derives the membership from all introductions. SL_EPEER: another version; SL_ENOMEM. Free with
 * sl_membership_free, also on error. */
sl_status sl_membership_open(const sl_allgather_parts *words, sl_membership *membership);
void sl_membership_free(sl_membership *membership);
