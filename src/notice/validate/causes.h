/* Causes: why a device or a link is slow, where the system shows it. Pure: evidence in, words out.
 *
 * Evidence is taken around the products that test a device (evidence.h) and around the tests of the links.
 * Waiting for a processor is told from a processor that is slow: the products' own processor time says which.
 * Shares are of the time that the products took. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of one device; sent between processes. */
typedef struct sl_evidence {
    double waited;        /* share of the time in which the products had no processor */
    double throttled;     /* share in which its control group was stopped */
    double quota;         /* processors that the group may use; 0: no limit, or not known */
    double pressure;      /* share in which some task of the host waited for a processor; -1: not known */
    double load;          /* processors of its set that others kept busy; -1: not known */
    double cores;         /* processors in its set */
    double mhz, mhz_most; /* of its processors; 0: not known */
    double celsius;       /* hottest sensor of the host; 0: not known */
    double thermal;       /* times that the processor slowed itself for heat; -1: not known */
    double busiest_load;  /* processors that the busiest other process used there */
    int32_t busiest;      /* its id */
    int32_t joined;       /* the device was tested in the control groups of the program's rank */
    int32_t apart;        /* and links outside of them */
    int32_t spare;
    char busiest_name[24];
} sl_evidence;

/* Of one end of a link. */
typedef struct sl_link_evidence {
    char interface[16];    /* that carries it; "": not known */
    int64_t errors, drops; /* of the interface, during the tests; -1: not known */
    int64_t resent;        /* segments of this connection; -1: not known */
    double mbit;           /* speed of the interface; 0: not known */
} sl_link_evidence;

/** The cause of a slow device as a word or two, or "" when the evidence shows none. `mhz` is the usual clock
 * of the other devices (0: not known). */
void sl_cause_of_device(const sl_evidence *evidence, double mhz, char *cause, size_t size);

/** The same for a device whose products are as fast as they should be: "" when nothing presses on it. A
 * device that is fed by a processor can be healthy and starve. */
void sl_cause_of_starving(const sl_evidence *evidence, char *cause, size_t size);

/** The cause of a slow link from both its ends; `mbit` is the usual speed of the interfaces (0: not known).
 */
void sl_cause_of_link(const sl_link_evidence *from, const sl_link_evidence *to, double mbit, char *cause,
                      size_t size);

/** The figures in a few words, for the line that says why; "" when there is nothing to say. */
void sl_evidence_words(const sl_evidence *evidence, char *words, size_t size);
