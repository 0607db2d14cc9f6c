#include "run/journal/tracing.h"
#include "plan/draw/trace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sl_status put(const sl_tracing *t, const char *text, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(t->file, text + done, size - done, t->end + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sl_error_errno(SL_ESYS, "%s: cannot be written", t->path);
        done += (size_t)n;
    }
    return SL_OK;
}

/* Ends what was printed to `out`, an open_memstream of text and size, and puts it into the file. */
static sl_status put_ended(sl_tracing *t, FILE *out, char **text, size_t *size, sl_status status) {
    fflush(out);
    const off_t added = (off_t)*size;
    if (status == SL_OK)
        status = sl_trace_end(out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the timeline");
    if (status == SL_OK)
        status = put(t, *text, *size);
    if (status == SL_OK)
        t->end += added;
    free(*text);
    return status;
}

sl_status sl_tracing_open(sl_tracing *t, const char *folder, int ranks, int replicas) {
    char *text = NULL;
    size_t size = 0;
    t->end = 0;
    snprintf(t->path, sizeof t->path, "%s/timeline.json", folder);
    t->file = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", t->path);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the timeline");
    return put_ended(t, out, &text, &size, sl_trace_begin(out, ranks, replicas));
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
    return put_ended(t, out, &text, &size, status);
}

void sl_tracing_close(sl_tracing *t) {
    if (t->file >= 0)
        close(t->file);
    t->file = -1;
}
