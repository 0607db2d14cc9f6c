/* labels: slow */
/* As test_balance.c, on more replicas that are nearly alike. */
#define ALIKE 50
#include "test_balance.c"
