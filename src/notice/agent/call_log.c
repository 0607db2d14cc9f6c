#include "notice/agent/call_log.h"

#include "base/file.h"
#include "base/memory.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct sheet {
    sl_process_id process;
    int thread;
    FILE *file; /* NULL: could not be written */
} sheet;

struct sl_call_log {
    char *folder;
    sheet *sheet;
    size_t sheets, capacity;
};

sl_status sl_call_log_open(const char *folder, sl_call_log **log) {
    *log = NULL;
    SL_TRY(sl_directory_make(folder));
    SL_TRY(sl_alloc(log, 1, sizeof **log));
    sl_status status = sl_copy_text(&(*log)->folder, folder);
    if (status != SL_OK) {
        sl_free(*log);
        *log = NULL;
    }
    return status;
}

void sl_call_log_close(sl_call_log *log) {
    if (!log)
        return;
    for (size_t i = 0; i < log->sheets; i++)
        if (log->sheet[i].file)
            fclose(log->sheet[i].file);
    SL_FREE(log->sheet, log->folder, log);
}

static void give_up(sheet *s, const char *path) {
    fprintf(stderr, "slackline: %s: %s: no more calls are recorded there\n", path, strerror(errno));
    if (s->file)
        fclose(s->file);
    s->file = NULL;
}

/* A rank's later process (the command ran the program again) has its own file, even if it has the same
 * process id. */
static void begin(sl_call_log *log, sheet *s, int rank) {
    char path[4200], thread[32] = "", more[64] = "";
    if (s->thread > 0)
        snprintf(thread, sizeof thread, ".thread-%d", s->thread);
    for (int i = 1; !s->file && i < 1000; i++) {
        if (i == 2)
            snprintf(more, sizeof more, ".pid-%d", s->process.pid);
        else if (i > 2)
            snprintf(more, sizeof more, ".pid-%d.%d", s->process.pid, i - 1);
        snprintf(path, sizeof path, "%s/rank-%d%s%s.csv", log->folder, rank, thread, more);
        if (!(s->file = fopen(path, "wxe")) && errno != EEXIST)
            break;
    }
    if (!s->file || fprintf(s->file, "sequence,call,communicator,peer,tag,bytes,start_ns,end_ns,rank\n") < 0)
        give_up(s, path);
}

static sl_status sheet_of(sl_call_log *log, const sl_ring_source *source, int rank, sheet **found) {
    for (size_t i = 0; i < log->sheets; i++)
        if (log->sheet[i].process.id == source->process.id && log->sheet[i].thread == source->thread) {
            *found = &log->sheet[i];
            return SL_OK;
        }
    SL_TRY(sl_grow(&log->sheet, &log->capacity, log->sheets + 1, sizeof *log->sheet));
    *found = &log->sheet[log->sheets++];
    **found = (sheet){.process = source->process, .thread = source->thread};
    begin(log, *found, rank);
    return SL_OK;
}

sl_status sl_call_log_add(sl_call_log *log, const sl_ring_source *source, int rank, const sl_call *calls,
                          size_t count) {
    sheet *s;
    SL_TRY(sheet_of(log, source, rank, &s));
    for (size_t i = 0; s->file && i < count; i++) {
        const sl_call *c = &calls[i];
        if (c->kind == SL_RECORD_CALL &&
            fprintf(s->file, "%llu,%s,x%016llx,%d,%d,%llu,%lld,%lld,%d\n", (unsigned long long)c->sequence,
                    sl_call_name(c->call), (unsigned long long)c->communicator, c->peer, c->tag,
                    (unsigned long long)c->bytes, (long long)c->start, (long long)c->end, rank) < 0)
            give_up(s, "a call log");
    }
    return SL_OK;
}

void sl_call_log_end(sl_call_log *log, uint64_t process) {
    size_t kept = 0;
    for (size_t i = 0; i < log->sheets; i++) {
        sheet *s = &log->sheet[i];
        if (s->process.id != process)
            log->sheet[kept++] = *s;
        else if (s->file && fclose(s->file) != 0)
            fprintf(stderr, "slackline: %s: a call log is incomplete: %s\n", log->folder, strerror(errno));
    }
    log->sheets = kept;
}

void sl_call_log_flush(sl_call_log *log) {
    for (size_t i = 0; i < log->sheets; i++)
        if (log->sheet[i].file && fflush(log->sheet[i].file) != 0)
            give_up(&log->sheet[i], "a call log");
}
