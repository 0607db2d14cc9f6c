/* The problem file (docs/formats.md) through config tables: `pipeline:` and what stands in it. */
#include "base/config.h"
#include "base/memory.h"
#include "plan/pipeline/problem.h"

#include <stdio.h>
#include <string.h>

/* Lists cannot be read before the shape is known, so the tables collect nodes first. */
typedef struct request {
    int ranks, stages, microbatches, placement, communication, queue;
    const sl_node *times, *delta, *limit, *links;
} request;

typedef struct link_item {
    double latency_ms, transfer_ms, bandwidth_gbps, message_mb;
    int one_way;
    const sl_node *between;
} link_item;

static sl_status keep_times(const sl_node *node, void *object) {
    ((request *)object)->times = node;
    return SL_OK;
}

static sl_status keep_delta(const sl_node *node, void *object) {
    ((request *)object)->delta = node;
    return SL_OK;
}

static sl_status keep_limit(const sl_node *node, void *object) {
    ((request *)object)->limit = node;
    return SL_OK;
}

static sl_status keep_links(const sl_node *node, void *object) {
    ((request *)object)->links = node;
    return SL_OK;
}

static sl_status keep_between(const sl_node *node, void *object) {
    ((link_item *)object)->between = node;
    return SL_OK;
}

/* Keys of the format whose neutral value is all that this version can plan for: a file that says so is read,
 * and one that asks for more is refused instead of being planned wrongly. */
static sl_status only_zeros(const sl_node *node, void *object) {
    double value;
    if (node->kind == SL_NODE_SCALAR && !node->quoted && strcmp(node->text, "false") == 0)
        return SL_OK;
    for (int i = 0; node->kind != SL_NODE_SCALAR && i < node->children; i++)
        SL_TRY(only_zeros(node->child[i], object));
    if (node->kind != SL_NODE_SCALAR)
        return SL_OK;
    if (sl_node_real(node, 0, 0, &value) != SL_OK)
        return sl_node_error(node, "is not available in this version: only 0 or false, got '%s'", node->text);
    return SL_OK;
}

static sl_status only_one(const sl_node *node, void *object) {
    int64_t value;
    (void)object;
    if (sl_node_int(node, 1, 1, &value) != SL_OK)
        return sl_node_error(node, "is not available in this version: only 1");
    return SL_OK;
}

static const char *const placements[] = {"linear", NULL};
static const char *const regimes[] = {"decoupled", "inorder", NULL};

#define AT(field) offsetof(request, field)
#define LINK(field) offsetof(link_item, field)

/* A key is a line. */
/* clang-format off */
static const sl_key time_keys[] = {
    {.name = "F", .type = SL_KEY_CUSTOM, .required = 1, .help = "forward, ms; a number or one per stage"},
    {.name = "I", .type = SL_KEY_CUSTOM, .required = 1, .help = "backward for the input, ms"},
    {.name = "W", .type = SL_KEY_CUSTOM, .required = 1, .help = "backward for the weights, ms"},
    {.name = "B", .type = SL_KEY_CUSTOM, .help = "full backward, ms; default I + W"},
    {0}};
static const sl_key delta_keys[] = {
    {.name = "F", .type = SL_KEY_CUSTOM, .help = "memory change when F starts; default 1"},
    {.name = "I", .type = SL_KEY_CUSTOM, .help = "when I ends; default 0"},
    {.name = "W", .type = SL_KEY_CUSTOM, .help = "when W ends; default -1"},
    {.name = "B", .type = SL_KEY_CUSTOM, .help = "when B ends; default I + W"},
    {0}};
static const sl_key memory_keys[] = {
    {.name = "delta", .type = SL_KEY_CUSTOM, .parse = keep_delta, .section = delta_keys, .help = "memory changes of each op, in bytes or any unit"},
    {.name = "limit", .type = SL_KEY_CUSTOM, .parse = keep_limit, .help = "a number or one per rank; absent: no limit"},
    {.name = "host_limit", .type = SL_KEY_CUSTOM, .parse = only_zeros, .help = "activations offloaded to host memory; only 0 so far"},
    {.name = "offload_ms", .type = SL_KEY_CUSTOM, .parse = only_zeros, .help = "time to move one; only 0 so far"},
    {0}};
static const sl_key link_keys[] = {
    {.name = "between", .type = SL_KEY_CUSTOM, .parse = keep_between, .help = "[rank, rank], both directions unless one_way"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = LINK(one_way), .help = "only from the first to the second"},
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "from leaving the link to arrival, ms"},
    {.name = "transfer_ms", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(transfer_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "a message occupies the link for this long, ms"},
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(bandwidth_gbps), .minimum = 0, .maximum = 1e9, .help = "instead of transfer_ms, with message_mb: 1e9 bit/s"},
    {.name = "message_mb", .type = SL_KEY_REAL, .standard = "0", .offset = LINK(message_mb), .minimum = 0, .maximum = 1e9, .help = "size of a message, 1e6 bytes"},
    {0}};
static const sl_key links_keys[] = {
    {.name = "default", .type = SL_KEY_CUSTOM, .section = link_keys, .help = "every link that the list does not name"},
    {.name = "list", .type = SL_KEY_CUSTOM, .section = link_keys, .help = "links that differ; an item replaces the default as a whole"},
    {.name = "shared", .type = SL_KEY_CUSTOM, .help = "list of {name, links}: these occupy one wire; only links without transfer time so far"},
    {0}};
static const sl_key pipeline_keys[] = {
    {.name = "ranks", .type = SL_KEY_INT, .required = 1, .offset = AT(ranks), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "pipeline ranks"},
    {.name = "microbatches", .type = SL_KEY_INT, .required = 1, .offset = AT(microbatches), .minimum = 1, .maximum = SL_MAX_MICROBATCHES, .help = "microbatches of an iteration"},
    {.name = "placement", .type = SL_KEY_CHOICE, .standard = "linear", .offset = AT(placement), .choices = placements, .help = "which rank holds which stage"},
    {.name = "stages", .type = SL_KEY_INT, .standard = "0", .offset = AT(stages), .minimum = 0, .maximum = SL_MAX_RANKS, .help = "model chunks; linear: as many as ranks"},
    {.name = "times_ms", .type = SL_KEY_CUSTOM, .required = 1, .parse = keep_times, .section = time_keys, .help = "op times"},
    {.name = "memory", .type = SL_KEY_SECTION, .section = memory_keys},
    {.name = "links", .type = SL_KEY_CUSTOM, .parse = keep_links, .section = links_keys, .help = "latency and occupancy between ranks"},
    {.name = "data_parallel", .type = SL_KEY_CUSTOM, .parse = only_zeros, .help = "reductions and gathers; only zeros so far"},
    {.name = "recompute", .type = SL_KEY_CUSTOM, .parse = only_zeros, .help = "recomputation; only false so far"},
    {.name = "parts", .type = SL_KEY_CUSTOM, .parse = only_one, .help = "sub-blocks of an op; only 1 so far"},
    {.name = "communication", .type = SL_KEY_CHOICE, .standard = "decoupled", .offset = AT(communication), .choices = regimes, .help = "whether sends hold a rank"},
    {.name = "queue", .type = SL_KEY_INT, .standard = "1", .offset = AT(queue), .minimum = 1, .maximum = 65536, .help = "inorder: sends under way per rank and peer"},
    {0}};
static const sl_key problem_keys[] = {
    {.name = "pipeline", .type = SL_KEY_SECTION, .required = 1, .section = pipeline_keys},
    {0}};
/* clang-format on */

/* ---- a number, or a list of `count` numbers ---- */

typedef struct bounds {
    double least, most;
} bounds;

static sl_status one_number(const sl_node *list, const sl_node *node, const bounds *range, double *value) {
    sl_status status = sl_node_real(node, range->least, range->most, value);
    if (status != SL_OK && list != node) { /* items of a list have no key of their own */
        char text[1024];
        snprintf(text, sizeof text, "%s", sl_error_text());
        const char *what = strstr(text, "must be");
        status = sl_node_error(list, "%s", what ? what : text);
    }
    return status;
}

static sl_status numbers(const sl_node *node, int count, const char *each, const bounds *range,
                         double *values) {
    if (node->kind == SL_NODE_LIST && node->children != count)
        return sl_node_error(node, "must be a number or a list of %d, one per %s, got %d", count, each,
                             node->children);
    if (node->kind == SL_NODE_MAP)
        return sl_node_error(node, "must be a number or a list of %d", count);
    for (int i = 0; i < count; i++)
        SL_TRY(one_number(node, node->kind == SL_NODE_LIST ? node->child[i] : node, range, &values[i]));
    return SL_OK;
}

/* The table only says which keys there are; their values are read here. */
static sl_status check_keys(const sl_node *map, const sl_key *table) {
    if (map->kind != SL_NODE_MAP)
        return sl_node_error(map, "must be a map");
    for (int i = 0; i < map->children; i++) {
        int known = 0;
        for (const sl_key *key = table; key->name; key++)
            known |= strcmp(key->name, map->child[i]->key) == 0;
        if (!known)
            return sl_node_error(map->child[i], "is not a known key of '%s'", map->key);
    }
    for (const sl_key *key = table; key->name; key++)
        if (key->required && !sl_node_find(map, key->name))
            return sl_node_error(map, "lacks '%s'", key->name);
    return SL_OK;
}

static sl_status read_times(const sl_node *map, sl_problem *p) {
    double *values;
    SL_TRY(check_keys(map, time_keys));
    SL_TRY(sl_alloc(&values, (size_t)p->stages, sizeof *values));
    sl_status status = SL_OK;
    for (int kind = 0; kind < SL_OP_KINDS && status == SL_OK; kind++) {
        const sl_node *node = sl_node_find(map, sl_op_name(kind));
        bounds ms = {.least = 0, .most = kind == SL_B ? 2 * SL_MAX_OP_MS : SL_MAX_OP_MS};
        if (node)
            status = numbers(node, p->stages, "stage", &ms, values);
        for (int stage = 0; stage < p->stages && status == SL_OK; stage++)
            p->time[kind][stage] =
                node ? sl_from_ms(values[stage]) : p->time[SL_I][stage] + p->time[SL_W][stage];
    }
    sl_free(values);
    return status;
}

static sl_status read_memory(const request *r, sl_problem *p) {
    static const bounds limit = {.least = 0, .most = SL_MAX_MEMORY};
    if (r->delta) {
        SL_TRY(check_keys(r->delta, delta_keys));
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            const sl_node *node = sl_node_find(r->delta, sl_op_name(kind));
            double most = kind == SL_B ? 2 * SL_MAX_MEMORY : SL_MAX_MEMORY;
            if (node)
                SL_TRY(numbers(node, p->stages, "stage", &(bounds){.least = -most, .most = most},
                               p->delta[kind]));
            for (int stage = 0; stage < p->stages && kind == SL_B && !node; stage++)
                p->delta[SL_B][stage] = p->delta[SL_I][stage] + p->delta[SL_W][stage];
        }
    }
    if (r->limit) {
        SL_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
        SL_TRY(numbers(r->limit, p->ranks, "rank", &limit, p->limit));
    }
    return SL_OK;
}

/* ---- links ---- */

static sl_status read_link(const sl_node *map, link_item *item, sl_link *link) {
    *item = (link_item){0};
    SL_TRY(sl_config_read(map, map->key ? map->key : "list", link_keys, item));
    int by_size = sl_node_find(map, "bandwidth_gbps") || sl_node_find(map, "message_mb");
    if (by_size && sl_node_find(map, "transfer_ms"))
        return sl_node_error(map,
                             "has transfer_ms and bandwidth_gbps; one of them says how long a message takes");
    if (by_size && (item->bandwidth_gbps <= 0 || !sl_node_find(map, "message_mb")))
        return sl_node_error(map, "needs bandwidth_gbps above 0 together with message_mb");
    double transfer =
        by_size ? item->message_mb * 8 / item->bandwidth_gbps : item->transfer_ms; /* 1e6*8/1e9 s = ms */
    if (transfer > SL_MAX_OP_MS)
        return sl_node_error(map, "gives a transfer of %g ms; at most %g", transfer, SL_MAX_OP_MS);
    *link = (sl_link){.latency = sl_from_ms(item->latency_ms), .transfer = sl_from_ms(transfer)};
    return SL_OK;
}

static sl_status read_pair(const sl_node *item, const sl_node *node, int ranks, int *pair) {
    if (!node)
        return sl_node_error(item, "a link in the list lacks 'between'");
    if (node->kind != SL_NODE_LIST || node->children != 2)
        return sl_node_error(node, "must be two ranks");
    for (int i = 0; i < 2; i++) {
        int64_t rank;
        if (sl_node_int(node->child[i], 0, ranks - 1, &rank) != SL_OK)
            return sl_node_error(node, "must hold ranks from 0 to %d", ranks - 1);
        pair[i] = (int)rank;
    }
    if (pair[0] == pair[1])
        return sl_node_error(node, "must be two different ranks");
    return SL_OK;
}

/* Links on one wire wait for each other while they are occupied: without transfer time nothing changes. */
static sl_status check_shared(const sl_node *shared, const sl_problem *p) {
    if (shared->kind != SL_NODE_LIST)
        return sl_node_error(shared, "must be a list of {name, links}");
    for (int i = 0; i < shared->children; i++) {
        const sl_node *links = sl_node_find(shared->child[i], "links");
        if (!links || links->kind != SL_NODE_LIST)
            return sl_node_error(shared, "must be a list of {name, links}");
        for (int k = 0; k < links->children; k++) {
            int pair[2] = {0, 0};
            SL_TRY(read_pair(shared, links->child[k], p->ranks, pair));
            if (p->link[pair[0] * p->ranks + pair[1]].transfer ||
                p->link[pair[1] * p->ranks + pair[0]].transfer)
                return sl_node_error(shared,
                                     "is not available in this version for links with transfer time (%d-%d)",
                                     pair[0], pair[1]);
        }
    }
    return SL_OK;
}

static sl_status read_links(const sl_node *map, sl_problem *p) {
    link_item item;
    sl_link link = {0};
    SL_TRY(check_keys(map, links_keys));
    const sl_node *standard = sl_node_find(map, "default"), *list = sl_node_find(map, "list");
    if (standard) {
        SL_TRY(read_link(standard, &item, &link));
        if (item.between || sl_node_find(standard, "one_way"))
            return sl_node_error(standard, "is for all links; 'between' and 'one_way' belong into the list");
        for (int i = 0; i < p->ranks * p->ranks; i++)
            if (i / p->ranks != i % p->ranks)
                p->link[i] = link;
    }
    if (list && list->kind != SL_NODE_LIST)
        return sl_node_error(list, "must be a list");
    for (int i = 0; list && i < list->children; i++) {
        int pair[2] = {0, 0};
        if (list->child[i]->kind != SL_NODE_MAP)
            return sl_node_error(list->child[i], "a link must be a map");
        SL_TRY(read_link(list->child[i], &item, &link));
        SL_TRY(read_pair(list->child[i], item.between, p->ranks, pair));
        p->link[pair[0] * p->ranks + pair[1]] = link;
        if (!item.one_way)
            p->link[pair[1] * p->ranks + pair[0]] = link;
    }
    const sl_node *shared = sl_node_find(map, "shared");
    return shared ? check_shared(shared, p) : SL_OK;
}

static sl_status check_shape(const sl_document *document, request *r) {
    const sl_node *pipeline = sl_node_find(document->root, "pipeline"),
                  *stages = sl_node_find(pipeline, "stages");
    if (!stages)
        r->stages = r->ranks;
    if (r->stages != r->ranks)
        return sl_node_error(stages, "must equal ranks (%d) with placement linear, got %d", r->ranks,
                             r->stages);
    if ((int64_t)r->stages * r->microbatches * 3 > SL_MAX_OPS)
        return sl_node_error(sl_node_find(pipeline, "microbatches"),
                             "times stages and kinds makes %lld ops; at most %d",
                             (long long)r->stages * r->microbatches * 3, SL_MAX_OPS);
    return SL_OK;
}

sl_status sl_problem_read(const sl_document *document, sl_problem *problem) {
    request r = {0};
    *problem = (sl_problem){0};
    SL_TRY(sl_config_read(document->root, document->file, problem_keys, &r));
    SL_TRY(check_shape(document, &r));
    SL_TRY(sl_problem_make(r.ranks, r.stages, r.microbatches, problem));
    problem->communication = r.communication == 1 ? SL_INORDER : SL_DECOUPLED;
    problem->queue = r.queue;
    SL_TRY(read_times(r.times, problem));
    SL_TRY(read_memory(&r, problem));
    return r.links ? read_links(r.links, problem) : SL_OK;
}

void sl_problem_document(FILE *out) {
    sl_config_document(pipeline_keys, "pipeline.", out);
}

/* ---- writing ---- */

/* ms with six decimals are whole ns; %.17g gives doubles back exactly. */
static void write_times(FILE *out, const char *name, const sl_time *values, int count) {
    fprintf(out, "%s: [", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%lld.%06lld", i ? ", " : "", (long long)(values[i] / SL_MS),
                (long long)(values[i] % SL_MS));
    fprintf(out, "]");
}

static void write_reals(FILE *out, const char *name, const double *values, int count) {
    fprintf(out, "%s: [", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%.17g", i ? ", " : "", values[i]);
    fprintf(out, "]");
}

static void write_links(const sl_problem *p, FILE *out) {
    int first = 1;
    for (int from = 0; from < p->ranks; from++)
        for (int to = 0; to < p->ranks; to++) {
            const sl_link *link = &p->link[from * p->ranks + to];
            if (from == to || (link->latency == 0 && link->transfer == 0))
                continue;
            fprintf(out,
                    "%s      - {between: [%d, %d], one_way: true, latency_ms: %lld.%06lld, transfer_ms: "
                    "%lld.%06lld}\n",
                    first ? "  links:\n    list:\n" : "", from, to, (long long)(link->latency / SL_MS),
                    (long long)(link->latency % SL_MS), (long long)(link->transfer / SL_MS),
                    (long long)(link->transfer % SL_MS));
            first = 0;
        }
}

sl_status sl_problem_write(const sl_problem *p, FILE *out) {
    fprintf(out,
            "pipeline:\n  ranks: %d\n  microbatches: %d\n  placement: linear\n  stages: %d\n  times_ms:\n",
            p->ranks, p->microbatches, p->stages);
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        fprintf(out, "    ");
        write_times(out, sl_op_name(kind), p->time[kind], p->stages);
        fprintf(out, "\n");
    }
    fprintf(out, "  memory:\n    delta:\n");
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        fprintf(out, "      ");
        write_reals(out, sl_op_name(kind), p->delta[kind], p->stages);
        fprintf(out, "\n");
    }
    if (p->limit) {
        fprintf(out, "    ");
        write_reals(out, "limit", p->limit, p->ranks);
        fprintf(out, "\n");
    }
    write_links(p, out);
    fprintf(out, "  communication: %s\n  queue: %d\n",
            p->communication == SL_INORDER ? "inorder" : "decoupled", p->queue);
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the problem cannot be written") : SL_OK;
}
