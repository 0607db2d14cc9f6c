/* CP-SAT in a process of its own. OR-tools replaces the handler of SIGINT unless told not to and aborts on
 * bytes that it cannot read, so it never lives in the caller: the small program slackline-solver loads it,
 * solves one model and ends. Model, parameters and response are protobuf (cp_model.proto,
 * sat_parameters.proto). Both sides of the conversation include this header.
 *
 * The caller's side of a socket carries two blobs (model, parameters) there and one back, each with a header
 * of SL_SOLVER_HEADER bytes: a letter and the length. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_SOLVER_LIBRARY "libortools.so.9"
#define SL_SOLVER_HEADER 9 /* letter, then the length, 8 bytes, low ones first */
#define SL_SOLVER_MODEL 'm'
#define SL_SOLVER_PARAMETERS 'p'
#define SL_SOLVER_RESPONSE 'r'
#define SL_SOLVER_REASON 'e'             /* in place of a response: why there is none, as text */
#define SL_SOLVER_OTHER 'v'              /* the same, from a solver of another version */
#define SL_SOLVER_MAX ((size_t)1 << 30)  /* bytes of a blob; OR-tools counts them in int */

typedef struct sl_solver {
    char *program;    /* slackline-solver */
    char *library;    /* libortools.so.9 */
    sl_time patience; /* with one that is killed and does not end; 0: the usual (base/subprocess.h) */
} sl_solver;

/** Where they are, found as base/find.h says. The library: SLACKLINE_ORTOOLS (the file, or a folder with it
 * anywhere below), else lib/python3*\/site-packages/ortools/.libs of .venv in the folder of the running
 * program or the one above, or of VIRTUAL_ENV. The program: SLACKLINE_SOLVER, else beside the running
 * program, one folder above, or in PATH. SL_ENONE says what is missing, SL_ESYS what is there and not to be
 * trusted. Free with sl_solver_free, also on error. */
sl_status sl_solver_find(sl_solver *solver);
void sl_solver_free(sl_solver *solver);

typedef struct sl_blob {
    unsigned char *bytes;
    size_t size;
} sl_blob;

/** Runs one solve in a child process and waits for it, at most `limit_s` seconds. SL_ESYS when the child
 * cannot be started, ends without a response (with its reason or signal), answers what is no response, or
 * does not answer in time or before *stop (NULL: none) becomes nonzero; SL_EPEER when it is of another
 * version. It is gone when this returns, or the error says that it is left behind, because SIGKILL did not end
 * it. *response is the CpSolverResponse; free its bytes with sl_free. */
sl_status sl_solver_run(const sl_solver *solver, const sl_blob *model, const sl_blob *parameters,
                        double limit_s, const atomic_int *stop, sl_blob *response);
