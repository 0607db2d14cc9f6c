/* labels: slow */
/* As test_bound.c, on more problems. */
#define PROBLEMS 60
#include "test_bound.c"
