/* labels: slow */
/* As test_cut.c, on 100,000 programs. */
#define SEEDS 100000
#include "test_cut.c"
