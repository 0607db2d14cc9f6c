/* labels: slow */
/* As test_campaign_random.c, on more campaigns. */
#define CAMPAIGNS 500
#include "test_campaign_random.c"
