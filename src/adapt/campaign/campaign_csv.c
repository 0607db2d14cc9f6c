/* Traces as CSV, one event per line: first_iteration, last_iteration, one of links ("0-1 5-6": separate
 * faults), device, nic (a rank) and host (a number), and latency_ms or slowdown. Optional columns: replica
 * (of links: the first if empty; of device and nic: all if empty), and every and for (iterations, for
 * spells). A line without last_iteration whose `links` name a lost NIC is such a loss. */
#include "adapt/campaign/campaign.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST, LAST, LINKS, DEVICE, NIC, HOST, LATENCY, REPLICA, SLOWDOWN, EVERY, FOR, COLUMNS };
static const char *const names[COLUMNS] = {
    "first_iteration", "last_iteration", "links",    "device", "nic", "host",
    "latency_ms",      "replica",        "slowdown", "every",  "for"};

typedef struct csv_line {
    const char *file;
    int number;
    char *cell[COLUMNS]; /* NULL: no such column */
} csv_line;

static int has(const csv_line *l, int column) {
    return l->cell[column] && l->cell[column][0];
}

static sl_status refuse(const csv_line *l, int column, const char *why) {
    return sl_error(SL_EINVAL, "%s:%d: '%s' %s, got '%.60s'", l->file, l->number, names[column], why,
                    l->cell[column] ? l->cell[column] : "");
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = 0;
    return text;
}

static sl_status read_whole(const csv_line *l, int column, int64_t *value) {
    char *end;
    const char *text = l->cell[column];
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < 0 || number > SL_CAMPAIGN_ITERATIONS)
        return refuse(l, column, "must be a whole number of 0 or more");
    *value = number;
    return SL_OK;
}

static sl_status read_real(const csv_line *l, int column, double least, double most, double *value) {
    char *end;
    const char *text = l->cell[column];
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(*value) || *value < least || *value > most)
        return refuse(l, column, "must be a number in range");
    return SL_OK;
}

/* Columns in order of the header; COLUMNS for unknown ones. */
static sl_status read_header(const csv_line *l, char *text, int *column, int *columns) {
    int seen[COLUMNS] = {0};
    for (*columns = 0; text; (*columns)++) {
        char *name = strsep(&text, ",");
        int c = 0;
        if (*columns == 32)
            return sl_error(SL_EINVAL, "%s:%d: has more than 32 columns", l->file, l->number);
        name = trim(name);
        while (c < COLUMNS && strcmp(names[c], name) != 0)
            c++;
        if (c == COLUMNS || seen[c]++)
            return sl_error(SL_EINVAL,
                            "%s:%d: column '%.60s' is %s; there are first_iteration, last_iteration, "
                            "links, device, nic, host, latency_ms, replica, slowdown, every and for",
                            l->file, l->number, name, c == COLUMNS ? "unknown" : "there twice");
        column[*columns] = c;
    }
    if (!seen[FIRST] || !seen[LAST] || !(seen[LINKS] || seen[DEVICE] || seen[NIC] || seen[HOST]) ||
        !(seen[LATENCY] || seen[SLOWDOWN]))
        return sl_error(
            SL_EINVAL,
            "%s:%d: the columns first_iteration, last_iteration, links (or device, nic or host) and "
            "latency_ms (or slowdown) are required",
            l->file, l->number);
    return SL_OK;
}

static sl_status split_line(csv_line *l, char *text, const int *column, int columns) {
    for (int i = 0; i < columns; i++) {
        if (!text)
            return sl_error(SL_EINVAL, "%s:%d: has %d cells where the header has %d", l->file, l->number, i,
                            columns);
        l->cell[column[i]] = trim(strsep(&text, ","));
    }
    if (text)
        return sl_error(SL_EINVAL, "%s:%d: has more cells than the header's %d", l->file, l->number, columns);
    return SL_OK;
}

static int is_lost_nic(const char *text) {
    return (strstr(text, "NIC") || strstr(text, "nic")) && strcasestr(text, "lost");
}

/* Adds it with its spells; errors name the line. */
static sl_status add(const csv_line *l, sl_campaign *c, const sl_campaign_fault *fault) {
    char why[256];
    int64_t every = 0, lasts = 0;
    if (has(l, EVERY))
        SL_TRY(read_whole(l, EVERY, &every));
    if (has(l, FOR))
        SL_TRY(read_whole(l, FOR, &lasts));
    sl_status status = has(l, EVERY) || has(l, FOR) ? sl_campaign_add_spells(c, fault, every, lasts)
                                                    : sl_campaign_add(c, fault);
    if (status != SL_EINVAL)
        return status;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "%s:%d: %s", l->file, l->number, why);
}

static sl_status read_links(const csv_line *l, int replica, sl_campaign_fault fault, sl_campaign *c) {
    int count = 0;
    for (const char *text = l->cell[LINKS]; *text; count++) {
        char *end;
        long a = strtol(text, &end, 10);
        if (end == text || *end != '-')
            return refuse(l, LINKS, "must be pairs of ranks such as '0-1 5-6', or report a lost NIC");
        text = end + 1;
        long b = strtol(text, &end, 10);
        if (end == text || (*end && *end != ' ' && *end != ';'))
            return refuse(l, LINKS, "must be pairs of ranks such as '0-1 5-6', or report a lost NIC");
        if (a < 0 || b < 0 || a >= c->problem.ranks || b >= c->problem.ranks || a == b)
            return sl_error(SL_EINVAL, "%s:%d: 'links' has %ld-%ld; the pipeline has ranks 0 to %d", l->file,
                            l->number, a, b, c->problem.ranks - 1);
        fault.a = replica + c->replicas * (int)a;
        fault.b = replica + c->replicas * (int)b;
        SL_TRY(add(l, c, &fault));
        text = end + strspn(end, " ;");
    }
    return count ? SL_OK : refuse(l, LINKS, "must name a link");
}

/* device, nic: a rank; of every replica if none is given. */
static sl_status read_devices(const csv_line *l, int column, int64_t replica, sl_campaign_fault fault,
                              sl_campaign *c) {
    const int first = has(l, REPLICA) ? (int)replica : 0, end = has(l, REPLICA) ? first + 1 : c->replicas;
    int64_t rank;
    SL_TRY(read_whole(l, column, &rank));
    if (rank >= c->problem.ranks)
        return refuse(l, column, "must be one of the pipeline's ranks");
    fault.kind = column == NIC ? SL_FAULT_NIC : SL_FAULT_DEVICE;
    for (int r = first; r < end; r++) {
        fault.a = fault.b = r + c->replicas * (int)rank;
        SL_TRY(add(l, c, &fault));
    }
    return SL_OK;
}

/* Its network card if a latency is given, else its devices. */
static sl_status read_host(const csv_line *l, sl_campaign_fault fault, sl_campaign *c) {
    int64_t host;
    SL_TRY(read_whole(l, HOST, &host));
    if (host >= sl_campaign_hosts(c))
        return refuse(l, HOST, "must be one of the job's hosts");
    fault.kind = fault.latency >= 0 ? SL_FAULT_NIC : SL_FAULT_DEVICE;
    sl_campaign_host_range(c, (int)host, &fault.a, &fault.b);
    return add(l, c, &fault);
}

static sl_status read_event(const csv_line *l, sl_campaign *c) {
    sl_campaign_fault fault = {.kind = SL_FAULT_LINK, .slowdown = 1, .latency = -1, .stop = -1};
    int64_t last = 0, replica = 0;
    double ms;
    SL_TRY(read_whole(l, FIRST, &fault.first));
    fault.until = SL_FAULT_LASTS;
    if (l->cell[LAST][0]) {
        SL_TRY(read_whole(l, LAST, &last));
        if (last < fault.first)
            return refuse(l, LAST, "must not be before first_iteration");
        fault.until = last + 1;
    }
    const int given = has(l, LINKS) + has(l, DEVICE) + has(l, NIC) + has(l, HOST);
    if (given != 1)
        return sl_error(SL_EINVAL, "%s:%d: must name one of links, device, nic and host", l->file, l->number);
    if (has(l, LINKS) && is_lost_nic(l->cell[LINKS])) {
        fault.kind = SL_FAULT_STOP;
        fault.is_rail = 1;
        return add(l, c, &fault);
    }
    if (has(l, LATENCY) && has(l, DEVICE))
        return refuse(l, LATENCY, "is for links; a device needs 'slowdown'");
    if (has(l, LATENCY)) {
        SL_TRY(read_real(l, LATENCY, 0, SL_MAX_OP_MS, &ms));
        fault.latency = sl_from_ms(ms);
    }
    if (has(l, SLOWDOWN))
        SL_TRY(read_real(l, SLOWDOWN, 1, 1e6, &fault.slowdown));
    if (fault.latency < 0 && !(fault.slowdown > 1))
        return refuse(l, l->cell[LATENCY] ? LATENCY : SLOWDOWN, "is required for a slow component");
    if (has(l, REPLICA))
        SL_TRY(read_whole(l, REPLICA, &replica));
    if (replica >= c->replicas)
        return refuse(l, REPLICA, "must be one of the job's replicas");
    if (has(l, HOST))
        return read_host(l, fault, c);
    if (has(l, LINKS))
        return read_links(l, (int)replica, fault, c);
    return read_devices(l, has(l, NIC) ? NIC : DEVICE, replica, fault, c);
}

sl_status sl_campaign_read_csv(const char *name, char *text, sl_campaign *c) {
    csv_line l = {.file = name};
    int column[32], columns = 0;
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    if (c->by_time)
        return sl_error(SL_EINVAL,
                        "%s: its events are in iterations, others are in seconds; they must all be the same",
                        name);
    while (text && *text) {
        char *row = trim(strsep(&text, "\n"));
        l.number++;
        if (!*row || *row == '#')
            continue;
        if (!columns) {
            SL_TRY(read_header(&l, row, column, &columns));
            continue;
        }
        SL_TRY(split_line(&l, row, column, columns));
        SL_TRY(read_event(&l, c));
    }
    return columns ? SL_OK : sl_error(SL_EINVAL, "%s: is empty; its first line must name the columns", name);
}
