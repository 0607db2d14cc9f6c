/* labels: slow */
/* As test_work.c, on more series. */
#define SERIES 1000
#include "test_work.c"
