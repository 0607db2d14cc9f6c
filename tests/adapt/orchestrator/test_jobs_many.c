/* labels: long */
/* As test_jobs.c, on more jobs. */
#ifdef __SANITIZE_ADDRESS__
#define JOBS 1000
#else
#define JOBS 10000
#endif
#include "test_jobs.c"
