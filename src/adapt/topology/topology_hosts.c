/* Hosts of a cluster file by name: one name, or several as prefix[first-last]suffix; and their links. */
#include "adapt/topology/topology_hosts.h"
#include "base/memory.h"
#include "plan/pipeline/problem_read.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 200

typedef struct cluster_link_item {
    double latency_ms, bandwidth_gbps;
    int one_way;
} cluster_link_item;

typedef struct host_item {
    double speed, memory_gb;
    int devices;
} host_item;

#define LINK(field) offsetof(cluster_link_item, field)
#define RATE(field) offsetof(sl_device_rates, field)
/* clang-format off */
const sl_key sl_cluster_host_keys[] = {
    {.name = "name", .type = SL_KEY_CUSTOM, .required = 1, .help = "a host, or several: node[0-7]. What holds one position: a machine, or one device of it; with `devices`, the machine"},
    {.name = "speed", .type = SL_KEY_REAL, .standard = "1", .offset = offsetof(host_item, speed), .minimum = 1e-3, .maximum = 1e3, .help = "times_ms are at speed 1; at 0.5 ops take twice as long"},
    {.name = "devices", .type = SL_KEY_INT, .standard = "1", .offset = offsetof(host_item, devices), .minimum = 1, .maximum = SL_MAX_HOST_DEVICES, .help = "devices of the host, each with a position (node0/3) and the host's links"},
    {.name = "memory_gb", .type = SL_KEY_REAL, .offset = offsetof(host_item, memory_gb), .minimum = 1e-3, .maximum = 1e6, .help = "memory of each of its devices, 1e9 bytes; default device.memory_gb"},
    {0}};
#define LINK_KEYS \
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "ms"}, \
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .required = 1, .offset = LINK(bandwidth_gbps), .minimum = 1e-6, .maximum = 1e9, .help = "1e9 bit/s, as it is now: of a congested link what is left of it"}
static const sl_key default_keys[] = {LINK_KEYS, {0}};
static const sl_key group_keys[] = {
    {.name = "hosts", .type = SL_KEY_CUSTOM, .required = 1, .help = "links between any two of these hosts, such as those of a rack or of a machine's devices"},
    LINK_KEYS, {0}};
static const sl_key list_keys[] = {
    {.name = "between", .type = SL_KEY_CUSTOM, .required = 1, .help = "[a, b]: links between any of a and any of b, each a host, node[0-7], a list of such, or '*': all hosts"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = LINK(one_way), .help = "only from the first to the second"},
    LINK_KEYS, {0}};
const sl_key sl_cluster_links_keys[] = {
    {.name = "default", .type = SL_KEY_CUSTOM, .section = default_keys, .help = "every link that neither groups nor list name; required unless there is one host"},
    {.name = "inside", .type = SL_KEY_CUSTOM, .section = default_keys, .help = "between the devices of a host; required if a host has several. The other links are those of one device, while all devices of its host use theirs"},
    {.name = "groups", .type = SL_KEY_CUSTOM, .is_list = 1, .section = group_keys, .help = "a later group replaces an earlier one"},
    {.name = "list", .type = SL_KEY_CUSTOM, .is_list = 1, .section = list_keys, .help = "links that differ, after the groups; a later item replaces an earlier one"},
    {0}};
const sl_key sl_device_rate_keys[] = {
    {.name = "tflops", .type = SL_KEY_REAL, .required = 1, .offset = RATE(tflops), .minimum = 1e-6, .maximum = 1e9, .help = "peak of a device of speed 1 in the precision of the products, 1e12 operations per second, without sparsity"},
    {.name = "efficiency", .type = SL_KEY_REAL, .standard = "0.5", .offset = RATE(efficiency), .minimum = 1e-3, .maximum = 1, .help = "share of the peak that products reach"},
    {.name = "memory_gb_per_s", .type = SL_KEY_REAL, .required = 1, .offset = RATE(memory_gb_per_s), .minimum = 1e-6, .maximum = 1e9, .help = "rate of its memory, 1e9 bytes per second"},
    {.name = "memory_gb", .type = SL_KEY_REAL, .offset = RATE(memory_gb), .minimum = 1e-3, .maximum = 1e6, .help = "its memory, 1e9 bytes, for weights, gradients, optimizer and activations; default: no limit"},
    {.name = "overhead_us", .type = SL_KEY_REAL, .standard = "0", .offset = RATE(overhead_us), .minimum = 0, .maximum = 1e9, .help = "of one layer's op, for starting its kernels, microseconds"},
    {.name = "host_memory_gb", .type = SL_KEY_REAL, .standard = "0", .offset = RATE(host_memory_gb), .minimum = 0, .maximum = 1e6, .help = "host memory for the optimizer and the activations of one device, 1e9 bytes; 0: nothing is moved there"},
    {.name = "host_gb_per_s", .type = SL_KEY_REAL, .standard = "0", .offset = RATE(host_gb_per_s), .minimum = 0, .maximum = 1e9, .help = "rate between a device and host memory, each way, 1e9 bytes per second; required with host_memory_gb"},
    {.name = "host_memory_gb_per_s", .type = SL_KEY_REAL, .standard = "0", .offset = RATE(host_memory_gb_per_s), .minimum = 0, .maximum = 1e9, .help = "rate at which a processor reads and writes host memory for one device, while it does for all, 1e9 bytes per second; 0: host_gb_per_s"},
    {0}};
/* clang-format on */

/* ---- names ---- */

/* The host of this name, or -1. */
static int find_host(const sl_cluster_hosts *hosts, const char *name) {
    for (int i = 0; i < hosts->count; i++)
        if (strcmp(hosts->host[i].name, name) == 0)
            return i;
    return -1;
}

static int digits(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return 0;
    return length > 0 && length < 9;
}

/* Calls `each` for every name in `node` (a scalar), in order; at most SL_MAX_CLUSTER. SL_EINVAL names file,
 * line and key of `where`. */
static sl_status expand(const sl_yaml *where, const sl_yaml *node,
                        sl_status (*each)(const sl_yaml *, const char *, void *), void *object) {
    const char *text;
    if (node->kind != SL_YAML_SCALAR)
        return sl_yaml_error(where, "must be a name of a host, such as node3 or node[0-7]");
    text = node->text;
    if (strlen(text) == 0 || strlen(text) > LONGEST)
        return sl_yaml_error(where, "has a name of %zu characters; 1 to %d", strlen(text), LONGEST);
    const char *open = strchr(text, '['), *dash = open ? strchr(open, '-') : NULL,
               *close = open ? strchr(open, ']') : NULL;
    if (!open && !strchr(text, ']'))
        return each(where, text, object);
    if (!open || !dash || !close || close < dash || strchr(close, '[') || strchr(close + 1, ']') ||
        !digits(open + 1, (size_t)(dash - open - 1)) || !digits(dash + 1, (size_t)(close - dash - 1)))
        return sl_yaml_error(where, "has '%.60s'; a range of hosts is written node[0-7]", text);
    int width = open[1] == '0' ? (int)(dash - open - 1) : 1; /* node[00-15] */
    long first = strtol(open + 1, NULL, 10), last = strtol(dash + 1, NULL, 10);
    if (last < first || last - first >= SL_MAX_CLUSTER)
        return sl_yaml_error(where, "has '%.60s'; a range goes up, by at most %d hosts", text,
                             SL_MAX_CLUSTER);
    for (long i = first; i <= last; i++) {
        char name[LONGEST + 32];
        snprintf(name, sizeof name, "%.*s%0*ld%s", (int)(open - text), text, width, i, close + 1);
        SL_TRY(each(where, name, object));
    }
    return SL_OK;
}

/* Hosts, or devices, in the order of their names. */
typedef struct collection {
    const sl_cluster_hosts *hosts;
    int *list, *count;
    unsigned char *seen;
} collection;

static sl_status add(collection *c, const sl_yaml *where, const char *name, int which) {
    if (c->seen[which])
        return sl_yaml_error(where, "names '%.60s' twice", name);
    c->seen[which] = 1;
    c->list[(*c->count)++] = which;
    return SL_OK;
}

static sl_status collect_host(const sl_yaml *where, const char *name, void *object) {
    collection *c = object;
    int host = find_host(c->hosts, name);
    return host >= 0 ? add(c, where, name, host)
                     : sl_yaml_error(where, "names '%.60s', which is not among the hosts", name);
}

/* The device of `name`, which is HOST/NUMBER; -1: it is not. */
static int find_device(const sl_cluster_hosts *hosts, const char *name) {
    const char *slash = strrchr(name, '/');
    char host[LONGEST + 32];
    if (!slash || !digits(slash + 1, strlen(slash + 1)) || (slash[1] == '0' && slash[2]))
        return -1;
    snprintf(host, sizeof host, "%.*s", (int)(slash - name), name);
    int h = find_host(hosts, host);
    long number = strtol(slash + 1, NULL, 10);
    if (h < 0 || hosts->host[h].devices == 1 || number >= hosts->host[h].devices)
        return -1;
    return hosts->host[h].first + (int)number;
}

static sl_status collect_devices(const sl_yaml *where, const char *name, void *object) {
    collection *c = object;
    int host = find_host(c->hosts, name), device = host < 0 ? find_device(c->hosts, name) : -1;
    if (device >= 0)
        return add(c, where, name, device);
    if (host < 0)
        return sl_yaml_error(where, "names '%.60s', which is not among the hosts", name);
    for (int i = 0; i < c->hosts->host[host].devices; i++)
        SL_TRY(add(c, where, name, c->hosts->host[host].first + i));
    return SL_OK;
}

/* A list of names, or one: what they give, list[most]. */
static sl_status collect(const sl_cluster_hosts *hosts, const sl_yaml *where, const sl_yaml *node, int most,
                         sl_status (*each)(const sl_yaml *, const char *, void *), int *list, int *count) {
    collection all = {.hosts = hosts, .list = list, .count = count};
    sl_status status = SL_OK;
    *count = 0;
    if (node->kind == SL_YAML_MAP)
        return sl_yaml_error(where, "must be a host or a list of hosts");
    SL_TRY(sl_alloc(&all.seen, (size_t)most, sizeof *all.seen));
    if (node->kind == SL_YAML_SCALAR)
        status = expand(where, node, each, &all);
    for (int i = 0; i < node->children; i++)
        SL_THEN(status, expand(where, node->child[i], each, &all));
    sl_free(all.seen);
    return status != SL_OK || *count > 0 ? status : sl_yaml_error(where, "has no hosts");
}

/* The same of hosts; "*" is every host. */
static sl_status name_hosts(const sl_cluster_hosts *hosts, const sl_yaml *where, const sl_yaml *node,
                            int *host, int *count) {
    *count = 0;
    if (node->kind == SL_YAML_SCALAR && strcmp(node->text, "*") == 0) {
        for (int i = 0; i < hosts->count; i++)
            host[(*count)++] = i;
        return SL_OK;
    }
    return collect(hosts, where, node, hosts->count, collect_host, host, count);
}

sl_status sl_cluster_hosts_devices(const sl_cluster_hosts *hosts, const sl_yaml *list, int *device,
                                   int *count) {
    return collect(hosts, list, list, hosts->devices, collect_devices, device, count);
}

int sl_cluster_hosts_of(const sl_cluster_hosts *hosts, int device) {
    int low = 0, high = hosts->count; /* the device is one of hosts low .. high - 1 */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (hosts->host[middle].first <= device)
            low = middle;
        else
            high = middle;
    }
    return low;
}

sl_status sl_cluster_hosts_name(const sl_cluster_hosts *hosts, int device, char **name) {
    char text[LONGEST + 48];
    const sl_cluster_host *host = &hosts->host[sl_cluster_hosts_of(hosts, device)];
    if (host->devices == 1)
        return sl_copy_text(name, host->name);
    snprintf(text, sizeof text, "%s/%d", host->name, device - host->first);
    return sl_copy_text(name, text);
}

/* ---- hosts ---- */

typedef struct host_naming {
    sl_cluster_hosts *hosts;
    host_item item;
    int positions; /* 0: any number */
} host_naming;

static sl_status add_host(const sl_yaml *where, const char *name, void *object) {
    host_naming *n = object;
    sl_cluster_hosts *h = n->hosts;
    if (n->positions > 0 && h->devices + n->item.devices > n->positions)
        return sl_yaml_error(where, "has more hosts than the %d positions of 'parallel'", n->positions);
    if (h->count == SL_MAX_CLUSTER || h->devices + n->item.devices > SL_MAX_CLUSTER_DEVICES)
        return sl_yaml_error(where, "has more than %d hosts or %d devices", SL_MAX_CLUSTER,
                             SL_MAX_CLUSTER_DEVICES);
    if (find_host(h, name) >= 0)
        return sl_yaml_error(where, "names '%.60s' twice", name);
    if (strcmp(name, "*") == 0)
        return sl_yaml_error(where, "a host must not be named '*', which means all hosts");
    SL_TRY(sl_grow(&h->host, &h->capacity, (size_t)h->count + 1, sizeof *h->host));
    sl_cluster_host *host = &h->host[h->count];
    SL_TRY(sl_copy_text(&host->name, name));
    host->speed = n->item.speed;
    host->memory_gb = n->item.memory_gb;
    host->devices = n->item.devices;
    host->first = h->devices;
    h->devices += host->devices;
    h->count++;
    return SL_OK;
}

/* A host must not have the name of another one's device. */
static sl_status check_names(const sl_yaml *list, const sl_cluster_hosts *h) {
    for (int i = 0; i < h->count && h->devices > h->count; i++)
        if (find_device(h, h->host[i].name) >= 0)
            return sl_yaml_error(list, "names '%.60s' twice: it is also a device of another host",
                                 h->host[i].name);
    return SL_OK;
}

sl_status sl_cluster_hosts_read(const sl_yaml *list, int positions, sl_cluster_hosts *hosts) {
    host_naming n = {.hosts = hosts, .positions = positions};
    *hosts = (sl_cluster_hosts){0};
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of names or of {name, speed}");
    for (int i = 0; i < list->children; i++) {
        const sl_yaml *item = list->child[i];
        n.item = (host_item){.speed = 1, .devices = 1};
        if (item->kind == SL_YAML_MAP)
            SL_TRY(sl_config_read(item, "hosts", sl_cluster_host_keys, &n.item));
        const sl_yaml *name = item->kind == SL_YAML_MAP ? sl_yaml_find(item, "name") : item;
        SL_TRY(expand(name->key ? name : list, name, add_host, &n));
    }
    if (hosts->devices < positions)
        return sl_yaml_error(list, "has %d hosts for the %d positions of 'parallel'", hosts->devices,
                             positions);
    if (hosts->count == 0)
        return sl_yaml_error(list, "has no hosts");
    SL_TRY(check_names(list, hosts));
    size_t links = (size_t)hosts->count * (size_t)hosts->count;
    SL_TRY(sl_alloc(&hosts->latency, links, sizeof *hosts->latency));
    return sl_alloc(&hosts->pace, links, sizeof *hosts->pace);
}

void sl_cluster_hosts_free(sl_cluster_hosts *hosts) {
    for (int i = 0; i < hosts->count; i++)
        sl_free(hosts->host[i].name);
    SL_FREE(hosts->host, hosts->latency, hosts->pace);
    *hosts = (sl_cluster_hosts){0};
}

/* ---- links ---- */

static void put_link(sl_cluster_hosts *h, int from, int to, const cluster_link_item *link) {
    size_t i = (size_t)from * (size_t)h->count + (size_t)to;
    h->latency[i] = link->latency_ms * 1e6;
    h->pace[i] = 8 / link->bandwidth_gbps; /* bits per byte / bits per ns */
}

static void set_link(sl_cluster_hosts *h, int from, int to, const cluster_link_item *link) {
    if (from != to)
        put_link(h, from, to, link);
}

static sl_status read_group(const sl_yaml *item, sl_cluster_hosts *h, int *host) {
    cluster_link_item link = {0};
    int count;
    SL_TRY(sl_config_read(item, "groups", group_keys, &link));
    const sl_yaml *hosts = sl_yaml_find(item, "hosts");
    SL_TRY(name_hosts(h, hosts, hosts, host, &count));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            set_link(h, host[i], host[k], &link);
    return SL_OK;
}

static sl_status read_pair(const sl_yaml *item, sl_cluster_hosts *h, int *host) {
    cluster_link_item link = {0};
    int count[2], *end[2] = {host, host + h->count};
    SL_TRY(sl_config_read(item, "list", list_keys, &link));
    const sl_yaml *between = sl_yaml_find(item, "between");
    if (between->kind != SL_YAML_LIST || between->children != 2)
        return sl_yaml_error(between, "must be [a, b]: two hosts, or two lists of hosts");
    for (int i = 0; i < 2; i++)
        SL_TRY(name_hosts(h, between, between->child[i], end[i], &count[i]));
    if (count[0] == 1 && count[1] == 1 && *end[0] == *end[1])
        return sl_yaml_error(between, "must be two different hosts");
    for (int i = 0; i < count[0]; i++)
        for (int k = 0; k < count[1]; k++) {
            set_link(h, end[0][i], end[1][k], &link);
            if (!link.one_way)
                set_link(h, end[1][k], end[0][i], &link);
        }
    return SL_OK;
}

static sl_status read_items(const sl_yaml *list, sl_cluster_hosts *h,
                            sl_status (*read)(const sl_yaml *, sl_cluster_hosts *, int *)) {
    int *host;
    if (!list)
        return SL_OK;
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of maps");
    SL_TRY(sl_alloc(&host, 2 * (size_t)h->count, sizeof *host));
    sl_status status = SL_OK;
    for (int i = 0; i < list->children && status == SL_OK; i++)
        status = list->child[i]->kind == SL_YAML_MAP ? read(list->child[i], h, host)
                                                     : sl_yaml_error(list, "must be a list of maps");
    sl_free(host);
    return status;
}

static sl_status read_inside(const sl_yaml *map, const sl_yaml *inside, sl_cluster_hosts *h) {
    cluster_link_item link = {0};
    if (!inside && h->devices > h->count)
        return sl_yaml_error(map, "lacks 'inside', for the devices of a host");
    if (!inside)
        return SL_OK;
    SL_TRY(sl_config_read(inside, "inside", default_keys, &link));
    for (int i = 0; i < h->count; i++)
        put_link(h, i, i, &link);
    return SL_OK;
}

sl_status sl_cluster_links_read(const sl_yaml *map, sl_cluster_hosts *h) {
    cluster_link_item link = {0};
    SL_TRY(sl_config_read(map, "links", sl_cluster_links_keys, &link));
    const sl_yaml *standard = sl_yaml_find(map, "default");
    if (!standard && h->count > 1)
        return sl_yaml_error(map, "lacks 'default', for all other links");
    if (standard) {
        SL_TRY(sl_config_read(standard, "default", default_keys, &link));
        for (int i = 0; i < h->count; i++)
            for (int k = 0; k < h->count; k++)
                set_link(h, i, k, &link);
    }
    SL_TRY(read_inside(map, sl_yaml_find(map, "inside"), h));
    SL_TRY(read_items(sl_yaml_find(map, "groups"), h, read_group));
    return read_items(sl_yaml_find(map, "list"), h, read_pair);
}

/* ---- rates ---- */

sl_status sl_device_rates_read(const sl_yaml *map, sl_device_rates *rates) {
    *rates = (sl_device_rates){0};
    SL_TRY(sl_config_read(map, "device", sl_device_rate_keys, rates));
    if (rates->host_memory_gb > 0 && rates->host_gb_per_s <= 0)
        return sl_yaml_error(map, "has 'host_memory_gb' and lacks 'host_gb_per_s', its rate");
    return SL_OK;
}
