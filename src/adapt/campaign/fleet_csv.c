/* The log of a cluster's faults as CSV, one line per start or end of a fault: time_days, node, event (start
 * or end), and level, class and description in words, as in the trace of InfiniteHBD (SIGCOMM 2025,
 * stepfun-ai/InfiniteHBD-Trace). Lines are in order of time. An end belongs to the oldest open fault of the
 * same node with the same words; faults of a node may overlap. A start without an end lasts. */
#include "adapt/campaign/campaign_cells.h"
#include "adapt/campaign/fleet.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TIME, NODE, EVENT, LEVEL, CLASS, DESCRIPTION, COLUMNS };
static const char *const names[COLUMNS] = {"time_days", "node", "event", "level", "class", "description"};

#define DAY (86400 * SL_SECOND)
#define DAYS_MAX 36500

const char *const sl_fleet_kind_names[] = {"stop", "away", "warn",  "pcie", "nic",
                                           "peer", "heat", "drawn", NULL};

/* The first word that a cause has decides. */
static const struct {
    const char *word;
    sl_fleet_kind kind;
} words[] = {
    {"uncorrectable", SL_FLEET_STOP},
    {"p2p bandwidth", SL_FLEET_PEER}, /* before "width low", which it contains */
    {"nvlink bandwidth", SL_FLEET_PEER},
    {"width low", SL_FLEET_PCIE},
    {"link speed", SL_FLEET_NIC},
    {"temperature", SL_FLEET_HEAT},
    {"throttl", SL_FLEET_HEAT},
    {"redundancy", SL_FLEET_WARN},
    {"power supply", SL_FLEET_WARN},
    {"fan", SL_FLEET_WARN},
    {"battery", SL_FLEET_WARN},
    {"correctable", SL_FLEET_WARN},
    {"single bit", SL_FLEET_WARN},
    {"stress test", SL_FLEET_AWAY},
    {"offline", SL_FLEET_AWAY},
    {"double bit", SL_FLEET_STOP},
    {"xid", SL_FLEET_STOP},
    {"lost", SL_FLEET_STOP},
    {"down", SL_FLEET_STOP},
    {"unknow", SL_FLEET_STOP},
    {"timeout", SL_FLEET_STOP},
    {"fail", SL_FLEET_STOP}, /* of class and description alone: every level has it */
    {"panic", SL_FLEET_STOP},
    {"error", SL_FLEET_STOP},
    {"exception", SL_FLEET_STOP},
    {"readonly", SL_FLEET_STOP},
    {"corruption", SL_FLEET_STOP},
    {"absent", SL_FLEET_STOP},
    {"not found", SL_FLEET_STOP},
    {"fault", SL_FLEET_STOP},
    {"mismatch", SL_FLEET_STOP},
};

sl_fleet_kind sl_fleet_kind_of(const sl_fleet *f, const char *text, int *known) {
    *known = 1;
    for (size_t i = 0; i < f->words; i++)
        if (strcasestr(text, f->word[i].word))
            return f->word[i].kind;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i].word))
            return words[i].kind;
    *known = 0;
    return SL_FLEET_STOP;
}

/* A fault of the log while it is read. */
typedef struct open_fault {
    size_t fault;
    int cause;
} open_fault;

typedef struct fault_log {
    sl_csv_cells cells;
    open_fault *open; /* [opens] in order of their start */
    size_t opens, open_room;
    sl_time last;
} fault_log;

static const char *text_of(const sl_csv_cells *l, int column) {
    return sl_cells_has(l, column) ? l->cell[column] : "-";
}

static sl_status find_cause(const sl_csv_cells *l, sl_fleet *f, int *number) {
    char text[160], decides[160];
    snprintf(text, sizeof text, "%s, %s, %s", text_of(l, LEVEL), text_of(l, CLASS), text_of(l, DESCRIPTION));
    snprintf(decides, sizeof decides, "%s, %s", text_of(l, CLASS), text_of(l, DESCRIPTION));
    for (size_t i = 0; i < f->causes; i++)
        if (strcmp(f->cause[i].text, text) == 0) {
            *number = (int)i;
            return SL_OK;
        }
    if (f->causes == 10000)
        return sl_error(SL_EINVAL, "%s:%d: has more than 10000 different causes", l->file, l->number);
    SL_TRY(sl_grow(&f->cause, &f->cause_room, f->causes + 1, sizeof *f->cause));
    sl_fleet_cause *cause = &f->cause[f->causes];
    snprintf(cause->text, sizeof cause->text, "%s", text);
    cause->kind = sl_fleet_kind_of(f, decides, &cause->known);
    *number = (int)f->causes++;
    return SL_OK;
}

static sl_status start_fault(fault_log *log, sl_fleet *f, int host, int cause) {
    const sl_csv_cells *l = &log->cells;
    if (f->faults == SL_FLEET_FAULTS)
        return sl_error(SL_EINVAL, "%s:%d: has more than %d faults", l->file, l->number, SL_FLEET_FAULTS);
    SL_TRY(sl_grow(&f->fault, &f->fault_room, f->faults + 1, sizeof *f->fault));
    SL_TRY(sl_grow(&log->open, &log->open_room, log->opens + 1, sizeof *log->open));
    log->open[log->opens++] = (open_fault){f->faults, cause};
    f->fault[f->faults++] = (sl_fleet_fault){host, f->cause[cause].kind, log->last, SL_TIME_NEVER};
    f->cause[cause].faults++;
    return SL_OK;
}

static sl_status end_fault(fault_log *log, sl_fleet *f, int host, int cause) {
    for (size_t i = 0; i < log->opens; i++) {
        sl_fleet_fault *fault = &f->fault[log->open[i].fault];
        if (fault->host != host || log->open[i].cause != cause)
            continue;
        fault->until = log->last;
        f->cause[cause].lasted += fault->until - fault->first;
        log->opens--;
        memmove(log->open + i, log->open + i + 1, (log->opens - i) * sizeof *log->open);
        return SL_OK;
    }
    return sl_error(SL_EINVAL, "%s:%d: ends '%s' of node %d, which has not started", log->cells.file,
                    log->cells.number, f->cause[cause].text, host);
}

static sl_status read_line(fault_log *log, sl_fleet *f) {
    const sl_csv_cells *l = &log->cells;
    double days;
    int64_t host;
    int cause = 0;
    SL_TRY(sl_cells_real(l, TIME, 0, DAYS_MAX, &days));
    SL_TRY(sl_cells_whole(l, NODE, SL_FLEET_HOSTS - 1, &host));
    const sl_time at = (sl_time)llround(days * (double)DAY);
    const int is_start = strcmp(l->cell[EVENT], "start") == 0;
    if (at < log->last)
        return sl_cells_refuse(l, TIME, "must not be before that of the line above");
    if (!is_start && strcmp(l->cell[EVENT], "end") != 0)
        return sl_cells_refuse(l, EVENT, "must be start or end");
    if (f->hosts && host >= f->hosts)
        return sl_cells_refuse(l, NODE, "must be below 'fleet.hosts'");
    log->last = at;
    SL_TRY(find_cause(l, f, &cause));
    return is_start ? start_fault(log, f, (int)host, cause) : end_fault(log, f, (int)host, cause);
}

static sl_status read_lines(fault_log *log, char *text, sl_fleet *f) {
    int end;
    SL_TRY(sl_cells_next(&log->cells, &text, &end));
    for (int i = TIME; i <= EVENT; i++)
        if (!sl_cells_has_column(&log->cells, i))
            return sl_error(SL_EINVAL, "%s:%d: the columns time_days, node and event are required",
                            log->cells.file, log->cells.number);
    for (;;) {
        SL_TRY(sl_cells_next(&log->cells, &text, &end));
        if (end)
            return SL_OK;
        SL_TRY(read_line(log, f));
    }
}

sl_status sl_fleet_read_csv(const char *name, char *text, sl_fleet *f) {
    fault_log log = {.cells = {.file = name, .names = names, .columns = COLUMNS}};
    sl_status status = f->faults ? sl_error(SL_EINVAL, "%s: only one log of faults is possible", name)
                                 : read_lines(&log, text, f);
    f->log_end = log.last;
    sl_free(log.open);
    return status;
}

int sl_fleet_csv_is(const char *text) {
    while (*text == '#' || *text == '\n' || *text == '\r')
        text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n');
    const size_t length = strcspn(text, "\n");
    const char *found = strstr(text, names[TIME]);
    return found && found < text + length;
}
