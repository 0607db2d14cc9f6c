/* labels: slow */
/* As test_topology.c, on more clusters. */
#define CLUSTERS 40
#include "test_topology.c"
