/* The environment of a program that is started next to a job: this process's own, without the variables that
 * would make Open MPI, PMI or PRRTE take it for one of the job's ranks. */
#pragma once

#include "base/status.h"

/** The environment with `lines[count]` ("NAME=VALUE", the caller's, must outlive it) replacing variables of
 * the same names. Ends with NULL; free with sl_free. SL_ENOMEM. */
sl_status sl_launch_environment(const char *const *lines, int count, char ***environment);
