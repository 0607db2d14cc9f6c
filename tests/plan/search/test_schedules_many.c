/* labels: slow */
/* As test_schedules.c, on more problems. */
#define PROBLEMS 3000
#include "test_schedules.c"
