/* Traces as CSV, one event per line: first_iteration, last_iteration, one of links ("0-1 5-6": separate
 * faults), device, nic (a rank) and host (a number), and latency_ms or slowdown. Optional columns: replica
 * (of links: the first if empty; of device and nic: all if empty), and every and for (iterations, for
 * spells). A line without last_iteration whose `links` name a lost NIC is such a loss. */
#include "adapt/campaign/campaign.h"
#include "adapt/campaign/campaign_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST, LAST, LINKS, DEVICE, NIC, HOST, LATENCY, REPLICA, SLOWDOWN, EVERY, FOR, COLUMNS };
static const char *const names[COLUMNS] = {
    "first_iteration", "last_iteration", "links",    "device", "nic", "host",
    "latency_ms",      "replica",        "slowdown", "every",  "for"};

static sl_status read_whole(const sl_csv_cells *l, int column, int64_t *value) {
    return sl_cells_whole(l, column, SL_CAMPAIGN_ITERATIONS, value);
}

static int has_any(const sl_csv_cells *l, int a, int b) {
    return sl_cells_has_column(l, a) || sl_cells_has_column(l, b);
}

static sl_status check_columns(const sl_csv_cells *l) {
    if (!sl_cells_has_column(l, FIRST) || !sl_cells_has_column(l, LAST) ||
        !(has_any(l, LINKS, DEVICE) || has_any(l, NIC, HOST)) || !has_any(l, LATENCY, SLOWDOWN))
        return sl_error(
            SL_EINVAL,
            "%s:%d: the columns first_iteration, last_iteration, links (or device, nic or host) and "
            "latency_ms (or slowdown) are required",
            l->file, l->number);
    return SL_OK;
}

static int is_lost_nic(const char *text) {
    return (strstr(text, "NIC") || strstr(text, "nic")) && strcasestr(text, "lost");
}

/* Adds it with its spells; errors name the line. */
static sl_status add(const sl_csv_cells *l, sl_campaign *c, const sl_campaign_fault *fault) {
    char why[256];
    int64_t every = 0, lasts = 0;
    if (sl_cells_has(l, EVERY))
        SL_TRY(read_whole(l, EVERY, &every));
    if (sl_cells_has(l, FOR))
        SL_TRY(read_whole(l, FOR, &lasts));
    sl_status status = sl_cells_has(l, EVERY) || sl_cells_has(l, FOR)
                           ? sl_campaign_add_spells(c, fault, every, lasts)
                           : sl_campaign_add(c, fault);
    if (status != SL_EINVAL)
        return status;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_error(SL_EINVAL, "%s:%d: %s", l->file, l->number, why);
}

static sl_status read_links(const sl_csv_cells *l, int replica, sl_campaign_fault fault, sl_campaign *c) {
    int count = 0;
    for (const char *text = l->cell[LINKS]; *text; count++) {
        char *end;
        long a = strtol(text, &end, 10);
        if (end == text || *end != '-')
            return sl_cells_refuse(l, LINKS,
                                   "must be pairs of ranks such as '0-1 5-6', or report a lost NIC");
        text = end + 1;
        long b = strtol(text, &end, 10);
        if (end == text || (*end && *end != ' ' && *end != ';'))
            return sl_cells_refuse(l, LINKS,
                                   "must be pairs of ranks such as '0-1 5-6', or report a lost NIC");
        if (a < 0 || b < 0 || a >= c->problem.ranks || b >= c->problem.ranks || a == b)
            return sl_error(SL_EINVAL, "%s:%d: 'links' has %ld-%ld; the pipeline has ranks 0 to %d", l->file,
                            l->number, a, b, c->problem.ranks - 1);
        fault.a = replica + c->replicas * (int)a;
        fault.b = replica + c->replicas * (int)b;
        SL_TRY(add(l, c, &fault));
        text = end + strspn(end, " ;");
    }
    return count ? SL_OK : sl_cells_refuse(l, LINKS, "must name a link");
}

/* device, nic: a rank; of every replica if none is given. */
static sl_status read_devices(const sl_csv_cells *l, int column, int64_t replica, sl_campaign_fault fault,
                              sl_campaign *c) {
    const int first = sl_cells_has(l, REPLICA) ? (int)replica : 0,
              end = sl_cells_has(l, REPLICA) ? first + 1 : c->replicas;
    int64_t rank;
    SL_TRY(read_whole(l, column, &rank));
    if (rank >= c->problem.ranks)
        return sl_cells_refuse(l, column, "must be one of the pipeline's ranks");
    fault.kind = column == NIC ? SL_FAULT_NIC : SL_FAULT_DEVICE;
    for (int r = first; r < end; r++) {
        fault.a = fault.b = r + c->replicas * (int)rank;
        SL_TRY(add(l, c, &fault));
    }
    return SL_OK;
}

/* Its network card if a latency is given, else its devices. */
static sl_status read_host(const sl_csv_cells *l, sl_campaign_fault fault, sl_campaign *c) {
    int64_t host;
    SL_TRY(read_whole(l, HOST, &host));
    if (host >= sl_campaign_hosts(c))
        return sl_cells_refuse(l, HOST, "must be one of the job's hosts");
    fault.kind = fault.latency >= 0 ? SL_FAULT_NIC : SL_FAULT_DEVICE;
    sl_campaign_host_range(c, (int)host, &fault.a, &fault.b);
    return add(l, c, &fault);
}

static sl_status read_event(const sl_csv_cells *l, sl_campaign *c) {
    sl_campaign_fault fault = {.kind = SL_FAULT_LINK, .slowdown = 1, .latency = -1, .stop = -1};
    int64_t last = 0, replica = 0;
    double ms;
    SL_TRY(read_whole(l, FIRST, &fault.first));
    fault.until = SL_FAULT_LASTS;
    if (l->cell[LAST][0]) {
        SL_TRY(read_whole(l, LAST, &last));
        if (last < fault.first)
            return sl_cells_refuse(l, LAST, "must not be before first_iteration");
        fault.until = last + 1;
    }
    const int given =
        sl_cells_has(l, LINKS) + sl_cells_has(l, DEVICE) + sl_cells_has(l, NIC) + sl_cells_has(l, HOST);
    if (given != 1)
        return sl_error(SL_EINVAL, "%s:%d: must name one of links, device, nic and host", l->file, l->number);
    if (sl_cells_has(l, LINKS) && is_lost_nic(l->cell[LINKS])) {
        fault.kind = SL_FAULT_STOP;
        fault.is_rail = 1;
        return add(l, c, &fault);
    }
    if (sl_cells_has(l, LATENCY) && sl_cells_has(l, DEVICE))
        return sl_cells_refuse(l, LATENCY, "is for links; a device needs 'slowdown'");
    if (sl_cells_has(l, LATENCY)) {
        SL_TRY(sl_cells_real(l, LATENCY, 0, SL_MAX_OP_MS, &ms));
        fault.latency = sl_from_ms(ms);
    }
    if (sl_cells_has(l, SLOWDOWN))
        SL_TRY(sl_cells_real(l, SLOWDOWN, 1, 1e6, &fault.slowdown));
    if (fault.latency < 0 && !(fault.slowdown > 1))
        return sl_cells_refuse(l, l->cell[LATENCY] ? LATENCY : SLOWDOWN, "is required for a slow component");
    if (sl_cells_has(l, REPLICA))
        SL_TRY(read_whole(l, REPLICA, &replica));
    if (replica >= c->replicas)
        return sl_cells_refuse(l, REPLICA, "must be one of the job's replicas");
    if (sl_cells_has(l, HOST))
        return read_host(l, fault, c);
    if (sl_cells_has(l, LINKS))
        return read_links(l, (int)replica, fault, c);
    return read_devices(l, sl_cells_has(l, NIC) ? NIC : DEVICE, replica, fault, c);
}

sl_status sl_campaign_read_csv(const char *name, char *text, sl_campaign *c) {
    sl_csv_cells l = {.file = name, .names = names, .columns = COLUMNS};
    int end;
    if (c->by_time)
        return sl_error(SL_EINVAL,
                        "%s: its events are in iterations, others are in seconds; they must all be the same",
                        name);
    SL_TRY(sl_cells_next(&l, &text, &end));
    SL_TRY(check_columns(&l));
    for (;;) {
        SL_TRY(sl_cells_next(&l, &text, &end));
        if (end)
            return SL_OK;
        SL_TRY(read_event(&l, c));
    }
}
