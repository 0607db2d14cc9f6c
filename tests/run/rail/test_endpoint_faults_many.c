/* labels: slow */
/* As test_endpoint_faults.c, on more messages. */
#define MESSAGES 3000
#include "test_endpoint_faults.c"
