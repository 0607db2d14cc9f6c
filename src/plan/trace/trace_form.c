#include "plan/trace/trace_form.h"

static const char *const lists[] = {"traceEvents", NULL};

const sl_scan_form sl_trace_form = {
    .what = "a Chrome trace", .item = "an event", .list = lists, .bare = 1, .most = (size_t)64 << 20};
