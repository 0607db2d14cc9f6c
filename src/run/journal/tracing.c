#include "run/journal/tracing.h"
#include "plan/draw/trace.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the text printed to `out`, an open_memstream of text and size, and puts it into the file. */
static sl_status put_ended(sl_tracing *t, sl_writer_how how, FILE *out, char **text, size_t *size,
                           sl_status status) {
    fflush(out);
    const size_t added = *size;
    SL_THEN(status, sl_trace_end(out));
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the timeline");
    if (status == SL_OK)
        sl_writer_put(t->writer, t->path, how, *text, *size, *size - added);
    free(*text);
    return status;
}

sl_status sl_tracing_open(sl_tracing *t, sl_writer *writer, const char *folder, int ranks, int replicas) {
    char *text = NULL;
    size_t size = 0;
    t->writer = writer;
    snprintf(t->path, sizeof t->path, "%s/timeline.json", folder);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the timeline");
    return put_ended(t, SL_WRITER_OVER, out, &text, &size, sl_trace_begin(out, ranks, replicas));
}

sl_status sl_tracing_add(sl_tracing *t, const sl_timeline *timeline, int replicas, sl_time begin,
                         int iteration) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the timeline");
    sl_status status = SL_OK;
    for (int replica = 0; replica < replicas && status == SL_OK; replica++)
        status = sl_trace_add(out, &timeline[replica], replica, begin, iteration);
    return put_ended(t, SL_WRITER_APPEND, out, &text, &size, status);
}
