/* Names of hosts, and ranges of them. */
#include "adapt/topology/topology_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 200

int sl_names_find(const sl_cluster *c, const char *name) {
    for (int i = 0; i < c->hosts; i++)
        if (c->name[i] && strcmp(c->name[i], name) == 0)
            return i;
    return -1;
}

static int digits(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return 0;
    return length > 0 && length < 9;
}

sl_status sl_names_expand(const sl_node *where, const sl_node *node,
                          sl_status (*each)(const sl_node *, const char *, void *), void *object) {
    const char *text;
    if (node->kind != SL_NODE_SCALAR)
        return sl_node_error(where, "must be a name of a host, such as node3 or node[0-7]");
    text = node->text;
    if (strlen(text) == 0 || strlen(text) > LONGEST)
        return sl_node_error(where, "has a name of %zu characters; 1 to %d", strlen(text), LONGEST);
    const char *open = strchr(text, '['), *dash = open ? strchr(open, '-') : NULL,
               *close = open ? strchr(open, ']') : NULL;
    if (!open && !strchr(text, ']'))
        return each(where, text, object);
    if (!open || !dash || !close || close < dash || strchr(close, '[') || strchr(close + 1, ']') ||
        !digits(open + 1, (size_t)(dash - open - 1)) || !digits(dash + 1, (size_t)(close - dash - 1)))
        return sl_node_error(where, "has '%.60s'; a range of hosts is written node[0-7]", text);
    int width = open[1] == '0' ? (int)(dash - open - 1) : 1; /* node[00-15] */
    long first = strtol(open + 1, NULL, 10), last = strtol(dash + 1, NULL, 10);
    if (last < first || last - first >= SL_MAX_CLUSTER)
        return sl_node_error(where, "has '%.60s'; a range goes up, by at most %d hosts", text,
                             SL_MAX_CLUSTER);
    for (long i = first; i <= last; i++) {
        char name[LONGEST + 32];
        snprintf(name, sizeof name, "%.*s%0*ld%s", (int)(open - text), text, width, i, close + 1);
        SL_TRY(each(where, name, object));
    }
    return SL_OK;
}

typedef struct collection {
    const sl_cluster *cluster;
    int *host, *count;
    unsigned char seen[SL_MAX_CLUSTER];
} collection;

static sl_status collect(const sl_node *where, const char *name, void *object) {
    collection *c = object;
    int host = sl_names_find(c->cluster, name);
    if (host < 0)
        return sl_node_error(where, "names '%.60s', which is not among the hosts", name);
    if (c->seen[host])
        return sl_node_error(where, "names '%.60s' twice", name);
    c->seen[host] = 1;
    c->host[(*c->count)++] = host;
    return SL_OK;
}

sl_status sl_names_hosts(const sl_cluster *c, const sl_node *where, const sl_node *node, int *host,
                         int *count) {
    collection all = {.cluster = c, .host = host, .count = count};
    *count = 0;
    if (node->kind == SL_NODE_MAP)
        return sl_node_error(where, "must be a host or a list of hosts");
    if (node->kind == SL_NODE_SCALAR && strcmp(node->text, "*") == 0) {
        for (int i = 0; i < c->hosts; i++)
            host[(*count)++] = i;
        return SL_OK;
    }
    if (node->kind == SL_NODE_SCALAR)
        return sl_names_expand(where, node, collect, &all);
    for (int i = 0; i < node->children; i++)
        SL_TRY(sl_names_expand(where, node->child[i], collect, &all));
    return *count > 0 ? SL_OK : sl_node_error(where, "has no hosts");
}
