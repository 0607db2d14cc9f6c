/* slackline-delegate: carries the messages of one direction between two ranks, for the trainer that started
 * it. Everything it needs is inherited (run/transport/delegate.h). */
#include "run/transport/delegate.h"

#include <stdio.h>

int main(void) {
    int code = sl_delegate_run();
    if (code == 2)
        fprintf(stderr, "slackline-delegate: started by slackline-worker, not by hand\n");
    return code;
}
