/* labels: slow */
/* As test_jobs.c, on more jobs: the goal is that none breaks a promise. Some still do (docs/results/trust.md
 * says how many), so this is no part of the usual set. */
#ifdef __SANITIZE_ADDRESS__
#define JOBS 1000
#else
#define JOBS 10000
#endif
#include "test_jobs.c"
