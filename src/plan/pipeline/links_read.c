/* `links:`: latency, occupancy and jitter between ranks, and the wires that several links share. */
#include "base/memory.h"
#include "plan/pipeline/problem_read.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define MAX_WIRES 4096 /* each name is compared with all earlier ones */

typedef struct link_item {
    double latency_ms, jitter_ms, transfer_ms, bandwidth_gbps, message_mb;
    int one_way;
    const sl_yaml *between;
} link_item;

typedef struct links_request {
    double percentile;
} links_request;

static sl_status keep_between(const sl_yaml *node, void *object) {
    ((link_item *)object)->between = node;
    return SL_OK;
}

#define LINK(field) offsetof(link_item, field)
/* clang-format off */
static const sl_key link_keys[] = {
    {.name = "between", .type = SL_KEY_CUSTOM, .parse = keep_between, .help = "[rank, rank], both directions unless one_way"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = LINK(one_way), .help = "only from the first to the second"},
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "from leaving the link to arrival, ms"},
    {.name = "jitter_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(jitter_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "mean of an exponential delay on top of latency_ms; plans count on its percentile"},
    {.name = "transfer_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(transfer_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "a message occupies the link for this long, ms"},
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(bandwidth_gbps), .minimum = 0, .maximum = 1e9, .help = "instead of transfer_ms, with message_mb: 1e9 bit/s"},
    {.name = "message_mb", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(message_mb), .minimum = 0, .maximum = 1e9, .help = "size of a message, 1e6 bytes"},
    {0}};
static const sl_key shared_keys[] = {
    {.name = "name", .type = SL_KEY_CUSTOM, .required = 1, .help = "of the wire"},
    {.name = "links", .type = SL_KEY_CUSTOM, .required = 1, .help = "[[rank, rank], ..]: in the direction written they occupy one wire, in the other direction another"},
    {0}};
const sl_key sl_links_keys[] = {
    {.name = "default", .type = SL_KEY_CUSTOM, .section = link_keys, .help = "every link that the list does not name"},
    {.name = "list", .type = SL_KEY_CUSTOM, .is_list = 1, .section = link_keys, .help = "links that differ; an item replaces the default as a whole"},
    {.name = "shared", .type = SL_KEY_CUSTOM, .is_list = 1, .section = shared_keys, .help = "links that occupy one wire per direction: a message waits for all of the wire's"},
    {.name = "percentile", .type = SL_KEY_REAL, .standard = "90", .offset = offsetof(links_request, percentile), .minimum = 0, .maximum = 99.999, .help = "of jittering delays, which a plan counts on"},
    {0}};
/* clang-format on */

double sl_jitter_share(double mean, double percentile) {
    return -mean * log1p(-percentile / 100);
}

sl_time sl_link_least_latency(const sl_link *link, double percentile) {
    sl_time share = sl_from_ms(sl_jitter_share(sl_to_ms(link->jitter), percentile));
    return link->latency > share ? link->latency - share : 0;
}

static sl_status read_link(const sl_yaml *map, double percentile, link_item *item, sl_link *link) {
    *item = (link_item){0};
    SL_TRY(sl_config_read(map, map->key ? map->key : "list", link_keys, item));
    int by_size = sl_yaml_find(map, "bandwidth_gbps") || sl_yaml_find(map, "message_mb");
    if (by_size && sl_yaml_find(map, "transfer_ms"))
        return sl_yaml_error(map, "has transfer_ms and bandwidth_gbps; give one of them");
    if (by_size && (item->bandwidth_gbps <= 0 || !sl_yaml_find(map, "message_mb")))
        return sl_yaml_error(map, "needs bandwidth_gbps above 0 together with message_mb");
    double transfer =
        by_size ? item->message_mb * 8 / item->bandwidth_gbps : item->transfer_ms; /* 1e6*8/1e9 s = ms */
    if (transfer > SL_MAX_OP_MS)
        return sl_yaml_error(map, "gives a transfer of %g ms; at most %g", transfer, SL_MAX_OP_MS);
    sl_time jitter = sl_from_ms(item->jitter_ms); /* rounded to the ns, as stored and written */
    double latency = item->latency_ms + sl_jitter_share(sl_to_ms(jitter), percentile);
    if (latency > SL_MAX_OP_MS)
        return sl_yaml_error(map, "gives a latency of %g ms; at most %g", latency, SL_MAX_OP_MS);
    *link = (sl_link){.latency = sl_from_ms(latency),
                      .transfer = sl_from_ms(transfer),
                      .jitter = jitter,
                      .bytes = by_size && sl_from_ms(transfer) > 0 ? item->message_mb * 1e6 : 0};
    return SL_OK;
}

/* `where` has the key that errors name. */
static sl_status read_pair(const sl_yaml *where, const sl_yaml *node, int ranks, int *pair) {
    if (node->kind != SL_YAML_LIST || node->children != 2)
        return sl_yaml_error(where, "must be two ranks%s", where == node ? "" : " for every link");
    for (int i = 0; i < 2; i++) {
        int64_t rank;
        if (sl_yaml_int(node->child[i], 0, ranks - 1, &rank) != SL_OK)
            return sl_yaml_error(where, "must hold ranks from 0 to %d", ranks - 1);
        pair[i] = (int)rank;
    }
    if (pair[0] == pair[1])
        return sl_yaml_error(where, "must be two different ranks");
    return SL_OK;
}

/* A link cannot be on two wires. */
static sl_status share(const sl_yaml *links, int ranks, int *wires, int from, int to, int wire) {
    int *mine = &wires[from * ranks + to];
    if (*mine >= ranks * ranks)
        return sl_yaml_error(links, "names link %d-%d twice; a link occupies one wire", from, to);
    *mine = wire;
    return SL_OK;
}

sl_status sl_read_shared(const sl_yaml *shared, int ranks, int **wires) {
    if (shared->kind != SL_YAML_LIST)
        return sl_yaml_error(shared, "must be a list of {name, links}");
    if (shared->children > MAX_WIRES)
        return sl_yaml_error(shared, "has %d wires; at most %d", shared->children, MAX_WIRES);
    SL_TRY(sl_alloc(wires, (size_t)ranks * (size_t)ranks, sizeof **wires));
    for (int i = 0; i < ranks * ranks; i++)
        (*wires)[i] = i;
    int wire = ranks * ranks;
    for (int i = 0; i < shared->children; i++) {
        const sl_yaml *item = shared->child[i];
        if (item->kind != SL_YAML_MAP)
            return sl_yaml_error(shared, "must be a list of {name, links}");
        for (int k = 0; k < item->children; k++)
            if (strcmp(item->child[k]->key, "name") != 0 && strcmp(item->child[k]->key, "links") != 0)
                return sl_yaml_error(item->child[k], "is not a known key of 'shared'");
        const sl_yaml *links = sl_yaml_find(item, "links"), *name = sl_yaml_find(item, "name");
        if (!name || name->kind != SL_YAML_SCALAR || !links || links->kind != SL_YAML_LIST)
            return sl_yaml_error(shared, "must be a list of {name, links}");
        for (int k = 0; k < i; k++)
            if (strcmp(sl_yaml_find(shared->child[k], "name")->text, name->text) == 0)
                return sl_yaml_error(name, "is duplicated among the shared wires: '%.60s'", name->text);
        for (int k = 0; k < links->children; k++) {
            int pair[2] = {0, 0};
            SL_TRY(read_pair(links, links->child[k], ranks, pair));
            SL_TRY(share(links, ranks, *wires, pair[0], pair[1], wire));
            SL_TRY(share(links, ranks, *wires, pair[1], pair[0], wire + 1));
        }
        wire += links->children > 0 ? 2 : 0;
    }
    return SL_OK;
}

static sl_status read_list(const sl_yaml *list, double percentile, sl_problem *p) {
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list");
    for (int i = 0; i < list->children; i++) {
        int pair[2] = {0, 0};
        link_item item;
        sl_link link = {0};
        if (list->child[i]->kind != SL_YAML_MAP)
            return sl_yaml_error(list->child[i], "a link must be a map");
        SL_TRY(read_link(list->child[i], percentile, &item, &link));
        if (!item.between)
            return sl_yaml_error(list->child[i], "a link in the list lacks 'between'");
        SL_TRY(read_pair(item.between, item.between, p->ranks, pair));
        p->link[pair[0] * p->ranks + pair[1]] = link;
        if (!item.one_way)
            p->link[pair[1] * p->ranks + pair[0]] = link;
    }
    return SL_OK;
}

sl_status sl_read_links(const sl_yaml *map, sl_problem *p) {
    link_item item;
    sl_link link = {0};
    links_request request = {0};
    SL_TRY(sl_config_read(map, "links", sl_links_keys, &request));
    p->percentile = request.percentile;
    const sl_yaml *standard = sl_yaml_find(map, "default"), *list = sl_yaml_find(map, "list"),
                  *shared = sl_yaml_find(map, "shared");
    if (standard) {
        SL_TRY(read_link(standard, p->percentile, &item, &link));
        if (item.between || sl_yaml_find(standard, "one_way"))
            return sl_yaml_error(standard, "is for all links; 'between' and 'one_way' belong in the list");
        for (int i = 0; i < p->ranks * p->ranks; i++)
            if (i / p->ranks != i % p->ranks)
                p->link[i] = link;
    }
    if (list)
        SL_TRY(read_list(list, p->percentile, p));
    return shared ? sl_read_shared(shared, p->ranks, &p->wire) : SL_OK;
}
