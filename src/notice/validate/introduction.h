/* What a validating process says of itself first, and what all of them then know alike: who is there, on
 * which host, which links are tested in which pass and which devices in which wave. Every process derives
 * that from the same words, so nobody has to be told. */
#pragma once

#include "notice/validate/allgather.h"
#include "notice/validate/passes.h"
#include "notice/validate/readings.h"
#include "notice/validate/validate_request.h"
#include "notice/validate/wire.h"

#define SL_INTRODUCTION_VERSION 3

/* Sent as it stands; links, pairs of int32 ranks, follow. */
typedef struct sl_introduction {
    uint32_t version; /* of this struct; build and host stay where they are in all of them */
    char build[28];   /* version of slackline */
    char host[80];    /* name */
    int32_t rank;     /* of the program, or of the allocation */
    int32_t pid;      /* of that rank; 0: none */
    int32_t own_pid;
    int32_t threads; /* of the device; 0: it must not be tested */
    int32_t gemm;    /* the device is suspect */
    int32_t wires;   /* its links are tested */
    int32_t topology;
    int32_t links; /* that follow; 0: those of the topology */
    uint64_t token;
    char space[40];   /* tells hosts of the same name apart */
    char machine[40]; /* whose processors these are: several hosts (containers, namespaces) may share them */
    char numbers[24]; /* in which its pids count */
    sl_core_set cores;
    sl_wire_address place;
} sl_introduction;

typedef struct sl_membership {
    int members;         /* that were expected */
    sl_introduction *of; /* [members]; version 0: absent */
    int *host;           /* [members]: index; -1: absent */
    int hosts;
    int *machine; /* [members]: index; -1: absent */
    int *wave;    /* [members]; -1: the device is not tested */
    int waves;
    sl_passes links; /* of members; a connects, b has a listener */
    uint64_t token;
} sl_membership;

/** The words of this process: *bytes is free'd with sl_free. `links` of the request are read. SL_EINVAL,
 * SL_ESYS, SL_ENOMEM. */
sl_status sl_introduce(const sl_validate_request *request, int rank, const sl_wire_address *place,
                       void **bytes, size_t *size);

/** Everybody's words into what follows from them. SL_EPEER: another version; SL_ENOMEM. Free with
 * sl_membership_free, also on error. */
sl_status sl_membership_open(const sl_allgather_parts *words, sl_membership *membership);
void sl_membership_free(sl_membership *membership);
