/* CP-SAT in its own process. OR-tools replaces the handler of SIGINT by default and aborts on bytes that it
 * cannot read, so it is never loaded into the caller: the small program slackline-solver loads it, solves one
 * model and exits. Model, parameters and response are protobuf (cp_model.proto, sat_parameters.proto). Both
 * sides include this header.
 *
 * The caller sends two blobs (model, parameters) over a socket and gets one back, each with a header of
 * SL_SOLVER_HEADER bytes: a letter and the length. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_SOLVER_LIBRARY "libortools.so.9"
#define SL_SOLVER_HEADER 9 /* letter, then the length, 8 bytes, little-endian */
#define SL_SOLVER_MODEL 'm'
#define SL_SOLVER_PARAMETERS 'p'
#define SL_SOLVER_RESPONSE 'r'
#define SL_SOLVER_REASON 'e'            /* instead of a response: the reason, as text */
#define SL_SOLVER_OTHER 'v'             /* the same, from a solver of another version */
#define SL_SOLVER_MAX ((size_t)1 << 30) /* bytes of a blob; OR-tools counts them in int */

typedef struct sl_solver {
    char *program;    /* slackline-solver */
    char *library;    /* libortools.so.9 */
    sl_time patience; /* wait for a killed process to end; 0: the default (base/subprocess.h) */
} sl_solver;

/** Finds both as described in base/find.h. The library: SLACKLINE_ORTOOLS (the file, or a folder with it
 * anywhere below), else lib/python3*\/site-packages/ortools/.libs of .venv in the folder of the running
 * program or its parent, or of VIRTUAL_ENV. The program: SLACKLINE_SOLVER, else next to the running program,
 * one folder above, or in PATH. SL_ENONE names the missing part, SL_ESYS an untrusted one. Free with
 * sl_solver_free, also on error. */
sl_status sl_solver_find(sl_solver *solver);
void sl_solver_free(sl_solver *solver);

typedef struct sl_blob {
    unsigned char *bytes;
    size_t size;
} sl_blob;

/** Runs one solve in a child process and waits for it, at most `limit_s` seconds. SL_ESYS if the child cannot
 * be started, ends without a response (with its reason or signal), answers with something else, or does not
 * answer in time or before *stop (NULL: none) becomes nonzero; SL_EPEER if it is of another version. The
 * child has ended when this returns, or the error reports that SIGKILL did not end it. *response is the
 * CpSolverResponse; free its bytes with sl_free. */
sl_status sl_solver_run(const sl_solver *solver, const sl_blob *model, const sl_blob *parameters,
                        double limit_s, const atomic_int *stop, sl_blob *response);
