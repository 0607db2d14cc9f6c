/* labels: long */
/* As test_jobs.c, on more jobs. */
#define JOBS 10000
#include "test_jobs.c"
