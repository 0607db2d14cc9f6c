/* labels: slow */
/* As test_gate_ranks.c, 1,000 holds. */
#define HOLDS 1000
#include "test_gate_ranks.c"
