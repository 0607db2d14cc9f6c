/* labels: long */
/* As test_courier_faults.c, on more messages. */
#define MESSAGES 3000
#include "test_courier_faults.c"
