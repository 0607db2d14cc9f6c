/* slackline-delegate: carries the messages of one direction between two ranks, for the trainer that started
 * it. It inherits everything it needs (run/transport/delegate.h). */
#include "base/build.h"
#include "base/build_id.h"
#include "base/signals.h"
#include "run/transport/delegate.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    sigset_t heard;
    sl_delegate_signals(&heard);
    sl_signals_begin(&heard);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("slackline-delegate %s\n", sl_build_id()) < 0;
    const char *starter = sl_build_take(&argc, argv);
    int code = sl_delegate_run(starter);
    if (code == 2)
        fprintf(stderr, "slackline-delegate: %s\n",
                starter ? sl_error_text() : "started by slackline-worker, not by hand");
    return code;
}
