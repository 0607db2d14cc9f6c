/* Causes: why a device or a link is slow, as far as the system shows it. Pure: evidence in, words out.
 *
 * Evidence is taken around the products that test a device (evidence.h) and around the tests of the links.
 * The products' own processor time distinguishes waiting for a processor from a slow processor. Shares are of
 * the time that the products took. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of one device; sent between processes as is. */
typedef struct sl_evidence {
    double waited;       /* share of the time in which the products had no processor */
    double throttled;    /* share in which its control group was stopped */
    double quota;        /* processors that the group may use; 0: no limit, or unknown */
    double pressure;     /* share in which some task of the host waited for a processor; -1: unknown */
    double load;         /* processors of its set kept busy by others; -1: unknown */
    double cores;        /* processors in its set */
    double mhz, mhz_max; /* of its processors; 0: unknown */
    double celsius;      /* hottest sensor of the host; 0: unknown */
    double thermal;      /* number of times that the processor throttled itself for heat; -1: unknown */
    double busiest_load; /* processors that the busiest other process used there */
    int32_t busiest;     /* its id */
    int32_t joined;      /* the device was tested in the control groups of the program's rank */
    int32_t apart;       /* and links outside of these groups */
    int32_t gpus;        /* that the program's rank holds; in a result, without those that were tested */
    char busiest_name[24];
} sl_evidence;

/* Of one end of a link. */
typedef struct sl_link_evidence {
    char interface[16];    /* that carries it; "": unknown */
    int64_t errors, drops; /* of the interface, during the tests; -1: unknown */
    int64_t resent;        /* segments of this connection; -1: unknown */
    double mbit;           /* speed of the interface; 0: unknown */
} sl_link_evidence;

/** The cause of a slow device in a word or two, or "" if the evidence shows none. `mhz` is the usual clock of
 * the other devices (0: unknown). */
void sl_cause_of_device(const sl_evidence *evidence, double mhz, char *cause, size_t size);

/** The same for a device whose products are as fast as expected: "" without contention. A device that is fed
 * by a processor can be healthy and starve. */
void sl_cause_of_starving(const sl_evidence *evidence, char *cause, size_t size);

/** The cause of a slow link from both its ends; `mbit` is the usual speed of the interfaces (0: unknown). */
void sl_cause_of_link(const sl_link_evidence *from, const sl_link_evidence *to, double mbit, char *cause,
                      size_t size);

/** The figures in a few words, for the line with the evidence; "" if there are none. */
void sl_evidence_words(const sl_evidence *evidence, char *words, size_t size);
