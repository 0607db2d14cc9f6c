#include "run/train/run.h"
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/pipeline/problem_read.h"

#include <string.h>

#define AT(field) offsetof(sl_run, field)
#define MOST_RAILS 8 /* SL_RAILS_MOST; the command does not know the transport */
#define FAULT(field) offsetof(sl_fault, field)

static const char *const model_kinds[] = {"gpt2", NULL};
static const char *const optimizer_kinds[] = {"adamw", NULL};
static const char *const transports[] = {"direct", "delegated", "auto", NULL};
static const char *const regimes[] = {"decoupled", "inorder", "batched", NULL};
static const char *const devices[] = {"cpu", NULL};
static const char *const placements[] = {"linear", "loop", "wave", "bidirectional", NULL};

static sl_status parse_files(const sl_node *node, void *object);
static sl_status parse_rails(const sl_node *node, void *object);
static sl_status leave_for_later(const sl_node *node, void *object);
static sl_status parse_faults(const sl_node *node, void *object);
static sl_status refuse_checkpoint(const sl_node *node, void *object);

/* A key is a line. */
/* clang-format off */
static const sl_key model_keys[] = {
    {.name = "kind", .type = SL_KEY_CHOICE, .standard = "gpt2", .offset = AT(model.kind), .choices = model_kinds, .help = "architecture"},
    {.name = "layers", .type = SL_KEY_INT, .required = 1, .offset = AT(model.layers), .minimum = 1, .maximum = 1000, .help = "transformer blocks"},
    {.name = "width", .type = SL_KEY_INT, .required = 1, .offset = AT(model.width), .minimum = 1, .maximum = 65536, .help = "size of the residual stream"},
    {.name = "heads", .type = SL_KEY_INT, .required = 1, .offset = AT(model.heads), .minimum = 1, .maximum = 1024, .help = "attention heads; divides width"},
    {.name = "context", .type = SL_KEY_INT, .required = 1, .offset = AT(model.context), .minimum = 1, .maximum = 65536, .help = "tokens of a sequence"},
    {0}};
static const sl_key data_keys[] = {
    {.name = "files", .type = SL_KEY_CUSTOM, .required = 1, .parse = parse_files, .help = "list of files or patterns, read as bytes in sorted order, cyclically"},
    {.name = "seed", .type = SL_KEY_INT64, .standard = "1", .offset = AT(data.seed), .minimum = 0, .maximum = 9e18, .help = "of data order and initial weights"},
    {.name = "held_out", .type = SL_KEY_REAL, .standard = "0.05", .offset = AT(data.held_out), .minimum = 0.001, .maximum = 0.5, .help = "share of the text at its end kept for the validation loss"},
    {0}};
static const sl_key parallel_keys[] = {
    {.name = "pipeline", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.pipeline), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "pipeline ranks"},
    {.name = "placement", .type = SL_KEY_CHOICE, .standard = "linear", .offset = AT(parallel.placement), .choices = placements, .help = "which rank holds which stage; absent: what the schedule needs, else linear; bidirectional (two copies of the weights) is not trained"},
    {.name = "stages", .type = SL_KEY_INT, .standard = "0", .offset = AT(parallel.stages), .minimum = 0, .maximum = SL_MAX_STAGES, .help = "model chunks, at most the layers; absent: pipeline (linear), 2 * pipeline (loop, wave)"},
    {.name = "parts", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.parts), .minimum = 1, .maximum = SL_MAX_PARTS, .help = "sub-blocks that an op is cut into, by halves of transformer blocks; for cross-ud-sub"},
    {.name = "data", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.data), .minimum = 1, .maximum = 1, .help = "replicas"},
    {.name = "tensor", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.tensor), .minimum = 1, .maximum = 1, .help = "tensor-parallel ranks"},
    {.name = "zero", .type = SL_KEY_INT, .standard = "0", .offset = AT(parallel.zero), .minimum = 0, .maximum = 1e-9, .help = "ZeRO stage"},
    {0}};
static const sl_key batch_keys[] = {
    {.name = "microbatches", .type = SL_KEY_INT, .required = 1, .offset = AT(batch.microbatches), .minimum = 1, .maximum = SL_MAX_MICROBATCHES, .help = "microbatches of an iteration"},
    {.name = "size", .type = SL_KEY_INT, .standard = "1", .offset = AT(batch.size), .minimum = 1, .maximum = 65536, .help = "sequences of a microbatch"},
    {0}};
static const sl_key optimizer_keys[] = {
    {.name = "kind", .type = SL_KEY_CHOICE, .standard = "adamw", .offset = AT(optimizer.kind), .choices = optimizer_kinds, .help = "update rule"},
    {.name = "lr", .type = SL_KEY_REAL, .standard = "1e-3", .offset = AT(optimizer.lr), .minimum = 0, .maximum = 100, .help = "peak learning rate; cosine to a tenth of it"},
    {.name = "warmup", .type = SL_KEY_INT, .standard = "10", .offset = AT(optimizer.warmup), .minimum = 0, .maximum = 1e9, .help = "iterations of linear warm-up of the learning rate"},
    {.name = "clip", .type = SL_KEY_REAL, .standard = "1.0", .offset = AT(optimizer.clip), .minimum = 0, .maximum = 1e30, .help = "largest global gradient norm; 0: no clipping"},
    {.name = "decay", .type = SL_KEY_REAL, .standard = "0.1", .offset = AT(optimizer.decay), .minimum = 0, .maximum = 100, .help = "weight decay of matrices"},
    {0}};
static const sl_key adaptation_keys[] = {
    {.name = "hold", .type = SL_KEY_INT, .standard = "5", .offset = AT(adaptation.hold), .minimum = 1, .maximum = 1000, .help = "iterations that a change must last before it is acted upon; the old schedule runs on and is measured"},
    {.name = "dwell", .type = SL_KEY_INT, .standard = "20", .offset = AT(adaptation.dwell), .minimum = 1, .maximum = 100000, .help = "least iterations between two swaps"},
    {.name = "gain", .type = SL_KEY_REAL, .standard = "0.02", .offset = AT(adaptation.gain), .minimum = 0, .maximum = 1, .help = "least share of the iteration time that a swap must gain"},
    {0}};
static const sl_key device_keys[] = {
    {.name = "kind", .type = SL_KEY_CHOICE, .standard = "cpu", .offset = AT(device.kind), .choices = devices, .help = "where a rank computes"},
    {.name = "threads", .type = SL_KEY_INT, .standard = "1", .offset = AT(device.threads), .minimum = 1, .maximum = 1024, .help = "threads of a rank; results are equal only for equal numbers"},
    {.name = "memory_mb", .type = SL_KEY_REAL, .standard = "0", .offset = AT(device.memory_mb), .minimum = 0, .maximum = 1e9, .help = "hard limit of a rank's memory for weights, optimizer and activations, 1e6 bytes; 0: what the schedule needs"},
    {.name = "pace_ms", .type = SL_KEY_CUSTOM, .section = sl_time_keys, .help = "real arithmetic, then held to this time"},
    {0}};
static const sl_key network_keys[] = {
    {.name = "rails", .type = SL_KEY_CUSTOM, .parse = parse_rails, .help = "interfaces (or addresses) that pipeline messages between hosts take, side by side; default: one, the host's first address that others reach"},
    {.name = "queues", .type = SL_KEY_INT, .standard = "0", .offset = AT(network.queues), .minimum = 0, .maximum = 8, .help = "delegates per link and direction; 0: as many as carry messages as fast as they are made"},
    {.name = "beat_ms", .type = SL_KEY_REAL, .standard = "50", .offset = AT(network.beat_ms), .minimum = 1, .maximum = 60000, .help = "each side of a rail says something this often"},
    {.name = "silence_ms", .type = SL_KEY_REAL, .standard = "200", .offset = AT(network.silence_ms), .minimum = 2, .maximum = 600000, .help = "a rail on which nothing was heard for so long is dead"},
    {.name = "outage_s", .type = SL_KEY_REAL, .standard = "30", .offset = AT(network.outage_s), .minimum = 0.1, .maximum = 86400, .help = "a link without any live rail for so long ends the run"},
    {0}};
static const sl_key run_keys[] = {
    {.name = "model", .type = SL_KEY_SECTION, .required = 1, .section = model_keys},
    {.name = "data", .type = SL_KEY_SECTION, .required = 1, .section = data_keys},
    {.name = "parallel", .type = SL_KEY_SECTION, .section = parallel_keys},
    {.name = "batch", .type = SL_KEY_SECTION, .required = 1, .section = batch_keys},
    {.name = "optimizer", .type = SL_KEY_SECTION, .section = optimizer_keys},
    {.name = "iterations", .type = SL_KEY_INT, .required = 1, .offset = AT(iterations), .minimum = 1, .maximum = 1e9, .help = "iterations to train"},
    {.name = "schedule", .type = SL_KEY_TEXT, .standard = "auto", .offset = AT(schedule), .help = "auto, a family's name, or the path of an order (CSV)"},
    {.name = "adapt", .type = SL_KEY_BOOL, .standard = "true", .offset = AT(adapt), .help = "adapt the schedule to slow links and return to it on relief"},
    {.name = "adaptation", .type = SL_KEY_SECTION, .section = adaptation_keys},
    {.name = "transport", .type = SL_KEY_CHOICE, .standard = "direct", .offset = AT(transport), .choices = transports, .help = "who carries pipeline messages: the ranks, delegate processes, or delegates while a link is slower than the schedule tolerates"},
    {.name = "network", .type = SL_KEY_SECTION, .section = network_keys},
    {.name = "communication", .type = SL_KEY_CHOICE, .standard = "decoupled", .offset = AT(communication), .choices = regimes, .help = "what holds a rank while it carries its messages itself (formats.md, Problem); delegates never do"},
    {.name = "queue", .type = SL_KEY_INT, .standard = "1", .offset = AT(queue), .minimum = 1, .maximum = 65536, .help = "inorder: sends under way per rank and peer"},
    {.name = "device", .type = SL_KEY_SECTION, .section = device_keys},
    {.name = "validate_every", .type = SL_KEY_INT, .standard = "0", .offset = AT(validate_every), .minimum = 0, .maximum = 1e9, .help = "iterations between validation losses; 0: only at the end"},
    {.name = "checkpoint", .type = SL_KEY_CUSTOM, .parse = refuse_checkpoint, .help = "not available in this version: refused"},
    {.name = "shared", .type = SL_KEY_CUSTOM, .parse = leave_for_later, .help = "list of {name, links}: emulated links that occupy one wire per direction, between ranks of one host"},
    {.name = "faults", .type = SL_KEY_CUSTOM, .parse = parse_faults, .help = "list of injected trouble, see below"},
    {0}};
/* clang-format on */

/* Silence would let a user believe in checkpoints that nobody writes. */
static sl_status refuse_checkpoint(const sl_node *node, void *object) {
    (void)object;
    return sl_node_error(node, "is not available in this version: no checkpoints are written; leave it out");
}

/* What can be understood only when the number of ranks is known (check_run). */
static sl_status leave_for_later(const sl_node *node, void *object) {
    (void)node;
    (void)object;
    return SL_OK;
}

/* One text or a list of texts; `what` is the list's noun. */
static sl_status parse_texts(const sl_node *node, const char *what, char ***texts, int *texts_count) {
    const sl_node *one = node;
    int count = 1;
    if (node->kind == SL_NODE_LIST)
        count = node->children;
    if (count == 0 || node->kind == SL_NODE_MAP)
        return sl_node_error(node, "must be a list of %s", what);
    SL_TRY(sl_alloc(texts, (size_t)count, sizeof **texts));
    for (int i = 0; i < count; i++) {
        if (node->kind == SL_NODE_LIST)
            one = node->child[i];
        const char *text;
        SL_TRY(sl_node_text(one, &text));
        if (!*text)
            return sl_node_error(node, "holds an empty name");
        SL_TRY(sl_copy_text(&(*texts)[i], text));
        *texts_count = i + 1;
    }
    return SL_OK;
}

static sl_status parse_files(const sl_node *node, void *object) {
    sl_run *run = object;
    return parse_texts(node, "files", &run->data.file, &run->data.files);
}

static sl_status parse_rails(const sl_node *node, void *object) {
    sl_run *run = object;
    SL_TRY(parse_texts(node, "interfaces", &run->network.rail, &run->network.rails));
    if (run->network.rails > MOST_RAILS)
        return sl_node_error(node, "has %d rails; at most %d", run->network.rails, MOST_RAILS);
    for (int i = 0; i < run->network.rails; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(run->network.rail[i], run->network.rail[k]) == 0)
                return sl_node_error(node, "names %s twice", run->network.rail[i]);
    return SL_OK;
}

/* ---- faults ---- */

typedef struct fault_item {
    sl_fault fault;
    int one_way, iteration;
    int link[2];
} fault_item;

static sl_status parse_pair(const sl_node *node, int least, int *pair) {
    if (node->kind != SL_NODE_LIST || node->children != 2)
        return sl_node_error(node, "must be a list of two numbers");
    for (int i = 0; i < 2; i++) {
        int64_t value;
        if (sl_node_int(node->child[i], least, INT32_MAX, &value) != SL_OK)
            return sl_node_error(node, "must hold whole numbers of at least %d, got '%s'", least,
                                 node->child[i]->text ? node->child[i]->text : "?");
        pair[i] = (int)value;
    }
    return SL_OK;
}

static sl_status parse_iterations(const sl_node *node, void *object) {
    fault_item *item = object;
    int pair[2] = {0, 0};
    SL_TRY(parse_pair(node, 0, pair));
    if (pair[1] <= pair[0])
        return sl_node_error(node, "must be [first, end) with first < end");
    item->fault.first = pair[0];
    item->fault.end = pair[1];
    return SL_OK;
}

static sl_status parse_link(const sl_node *node, void *object) {
    return parse_pair(node, 0, ((fault_item *)object)->link);
}

/* A key is a line. */
/* clang-format off */
static const sl_key fault_keys[] = {
    {.name = "iterations", .type = SL_KEY_CUSTOM, .parse = parse_iterations, .help = "[first, end)"},
    {.name = "iteration", .type = SL_KEY_INT, .standard = "-1", .offset = offsetof(fault_item, iteration), .minimum = -1, .maximum = 1e9, .help = "with kill: when"},
    {.name = "link", .type = SL_KEY_CUSTOM, .parse = parse_link, .help = "[rank, rank], both directions unless one_way"},
    {.name = "one_way", .type = SL_KEY_BOOL, .standard = "false", .offset = offsetof(fault_item, one_way), .help = "only from the first to the second"},
    {.name = "latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = FAULT(latency_ms), .minimum = 0, .maximum = 60000, .help = "added to the link, ms"},
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .standard = "0", .offset = FAULT(bandwidth_gbps), .minimum = 0, .maximum = 1e6, .help = "replaces the link's, 1e9 bit/s"},
    {.name = "rank", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(rank), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "a slow rank"},
    {.name = "slowdown", .type = SL_KEY_REAL, .standard = "1", .offset = FAULT(slowdown), .minimum = 1, .maximum = 1000, .help = "its ops take this many times their pace"},
    {.name = "kill", .type = SL_KEY_INT, .standard = "-1", .offset = FAULT(kill), .minimum = -1, .maximum = SL_MAX_RANKS, .help = "this rank dies (SIGKILL)"},
    {0}};
/* clang-format on */

static sl_status check_fault(const sl_node *node, const fault_item *item) {
    const sl_fault *fault = &item->fault;
    int link = item->link[0] >= 0, slow = fault->rank >= 0, dies = fault->kill >= 0;
    if (link + slow + dies != 1)
        return sl_node_error(node, "must name one of link, rank and kill");
    if (dies && item->iteration < 0)
        return sl_node_error(node, "needs 'iteration' with kill");
    if (!dies && (fault->end == 0 || item->iteration >= 0))
        return sl_node_error(node, "needs 'iterations: [first, end]'");
    if (link && fault->latency_ms <= 0 && fault->bandwidth_gbps <= 0)
        return sl_node_error(node, "needs latency_ms or bandwidth_gbps with link");
    if (slow && fault->slowdown <= 1)
        return sl_node_error(node, "needs a slowdown above 1 with rank");
    return SL_OK;
}

static sl_status parse_fault(const sl_node *node, sl_run *run) {
    fault_item item = {.link = {-1, -1}};
    SL_TRY(sl_config_read(node, "faults", fault_keys, &item));
    SL_TRY(check_fault(node, &item));
    if (item.fault.kill >= 0) {
        item.fault.first = item.iteration;
        item.fault.end = item.iteration + 1;
    }
    item.fault.from = item.link[0];
    item.fault.to = item.link[1];
    run->fault[run->faults++] = item.fault;
    if (item.fault.from >= 0 && !item.one_way) {
        item.fault.from = item.link[1];
        item.fault.to = item.link[0];
        run->fault[run->faults++] = item.fault;
    }
    return SL_OK;
}

static sl_status parse_faults(const sl_node *node, void *object) {
    sl_run *run = object;
    if (node->kind != SL_NODE_LIST)
        return sl_node_error(node, "must be a list");
    SL_TRY(sl_alloc(&run->fault, 2 * (size_t)node->children, sizeof *run->fault));
    for (int i = 0; i < node->children; i++) {
        if (node->child[i]->kind != SL_NODE_MAP)
            return sl_node_error(node->child[i], "a fault must be a map of keys");
        SL_TRY(parse_fault(node->child[i], run));
    }
    return SL_OK;
}

/* ---- complaints ---- */

static sl_status refuse(const sl_document *document, const char *section, const char *key, const char *why) {
    const sl_node *map = section ? sl_node_find(document->root, section) : document->root;
    const sl_node *node = key ? sl_node_find(map, key) : map;
    if (!node)
        node = map ? map : document->root;
    return sl_node_error(node, "%s", why);
}

/* ---- shape ---- */

sl_problem sl_run_shape(const sl_run *run) {
    return (sl_problem){.ranks = run->parallel.pipeline,
                        .stages = run->parallel.stages,
                        .microbatches = run->batch.microbatches,
                        .placement = (sl_placement)run->parallel.placement,
                        .parts = run->parallel.parts};
}

int sl_run_has_link(const sl_run *run, int from, int to) {
    sl_problem shape = sl_run_shape(run);
    for (int stage = 0; stage + 1 < shape.stages && from != to; stage++) {
        int a = sl_problem_rank(&shape, stage), b = sl_problem_rank(&shape, stage + 1);
        if ((a == from && b == to) || (a == to && b == from))
            return 1;
    }
    return 0;
}

static int is_file(const sl_run *run) {
    return strcmp(run->schedule, "auto") != 0 && !sl_family_find(run->schedule);
}

static const sl_node *parallel_key(const sl_document *document, const char *key) {
    const sl_node *parallel = sl_node_find(document->root, "parallel");
    return parallel ? sl_node_find(parallel, key) : NULL;
}

/* The first placement that the schedule's family is defined for; linear for those that take any. */
static void choose_placement(const sl_document *document, sl_run *run) {
    const sl_family *family = sl_family_find(run->schedule);
    if (parallel_key(document, "placement") || !family)
        return;
    for (int placement = SL_PLACEMENTS - 1; placement >= 0; placement--)
        if (family->placements & 1u << placement)
            run->parallel.placement = placement;
}

static sl_status check_placement(const sl_document *document, sl_run *run) {
    choose_placement(document, run);
    if (run->parallel.placement != SL_BIDIRECTIONAL)
        return SL_OK;
    if (parallel_key(document, "placement"))
        return refuse(document, "parallel", "placement",
                      "of bidirectional keeps two copies of the weights, which training does not have; use "
                      "linear, loop or wave");
    char why[192];
    snprintf(
        why, sizeof why,
        "%s needs placement bidirectional, which keeps two copies of the weights; training does not have "
        "them",
        run->schedule);
    return refuse(document, "schedule", NULL, why);
}

static sl_status check_stages(const sl_document *document, sl_run *run) {
    char why[192];
    int ranks = run->parallel.pipeline, linear = run->parallel.placement == SL_LINEAR;
    const char *placement = sl_placement_name((sl_placement)run->parallel.placement);
    int stated = parallel_key(document, "stages") != NULL;
    if (!stated)
        run->parallel.stages = linear ? ranks : 2 * ranks;
    int stages = run->parallel.stages;
    snprintf(why, sizeof why, "must be %s (%d) with placement %s, got %d",
             linear ? "as many as ranks" : "a multiple of the ranks", ranks, placement, stages);
    if (stages < 1 || (linear ? stages != ranks : stages % ranks != 0))
        return refuse(document, "parallel", "stages", why);
    if (stated || !linear)
        snprintf(why, sizeof why, "of %d (placement %s) is more than the model's %d layers", stages,
                 placement, run->model.layers);
    else
        snprintf(why, sizeof why, "of %d ranks is more stages than the model's %d layers", ranks,
                 run->model.layers);
    if (stages > run->model.layers && !stated && !linear)
        return sl_node_error(parallel_key(document, "pipeline") ? parallel_key(document, "pipeline")
                                                                : sl_node_find(document->root, "schedule"),
                             "makes %d stages with placement %s, more than the model's %d layers", stages,
                             placement, run->model.layers);
    return stages > run->model.layers ? refuse(document, "parallel", stated ? "stages" : "pipeline", why)
                                      : SL_OK;
}

static sl_status check_schedule(const sl_document *document, const sl_run *run) {
    const sl_family *family = sl_family_find(run->schedule);
    sl_problem shape = sl_run_shape(run);
    if (run->parallel.parts > 1 && is_file(run))
        return refuse(document, "parallel", "parts", "needs a planned schedule; the ops of a file are whole");
    if ((int64_t)shape.stages * shape.microbatches * 3 * shape.parts > SL_MAX_OPS)
        return refuse(document, "batch", "microbatches",
                      "times the stages and parts is more than the planner takes");
    if (!family || sl_family_check(family, &shape) == SL_OK)
        return SL_OK;
    char why[256];
    snprintf(why, sizeof why, "%s", sl_error_text());
    return refuse(document, "schedule", NULL, why);
}

static sl_status check_faults(const sl_document *document, const sl_run *run) {
    char why[192];
    int ranks = run->parallel.pipeline;
    for (int i = 0; i < run->faults; i++) {
        const sl_fault *f = &run->fault[i];
        int worst = f->from > f->to ? f->from : f->to;
        worst = f->rank > worst ? f->rank : worst;
        worst = f->kill > worst ? f->kill : worst;
        snprintf(why, sizeof why, "names rank %d, but the run has ranks 0 to %d", worst, ranks - 1);
        if (worst >= ranks)
            return refuse(document, "faults", NULL, why);
        snprintf(why, sizeof why,
                 "names a link of ranks that are not neighbours: with placement %s nothing is sent between "
                 "ranks %d and %d",
                 sl_placement_name((sl_placement)run->parallel.placement), f->from, f->to);
        if (f->from >= 0 && !sl_run_has_link(run, f->from, f->to))
            return refuse(document, "faults", NULL, why);
    }
    return SL_OK;
}

/* ---- pace ---- */

static sl_status read_pace_list(const sl_node *map, const char *key, int stages, double *values) {
    static const sl_number_range ms = {.least = 1e-3, .most = SL_MAX_OP_MS};
    const sl_node *node = sl_node_find(map, key);
    return sl_read_numbers(node, stages, "stage", &ms, values);
}

/* As times_ms of a problem, but no time may be 0: that would mean as long as the arithmetic takes. */
static sl_status read_pace(const sl_document *document, sl_run *run) {
    const sl_node *device = sl_node_find(document->root, "device"),
                  *map = device ? sl_node_find(device, "pace_ms") : NULL;
    int stages = run->parallel.stages;
    if (!map)
        return SL_OK;
    SL_TRY(sl_check_keys(map, sl_time_keys));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&run->device.pace_ms[kind], (size_t)stages, sizeof(double)));
    SL_TRY(sl_alloc(&run->device.pair_ms, (size_t)stages, sizeof(double)));
    double *const *pace = run->device.pace_ms;
    for (int kind = SL_F; kind <= SL_W; kind++)
        SL_TRY(read_pace_list(map, sl_op_name(kind), stages, pace[kind]));
    for (int stage = 0; stage < stages; stage++)
        pace[SL_B][stage] = pace[SL_I][stage] + pace[SL_W][stage];
    if (sl_node_find(map, "B"))
        SL_TRY(read_pace_list(map, "B", stages, pace[SL_B]));
    for (int stage = 0; stage < stages; stage++)
        run->device.pair_ms[stage] = pace[SL_F][stage] + pace[SL_B][stage];
    return sl_node_find(map, "FB") ? read_pace_list(map, "FB", stages, run->device.pair_ms) : SL_OK;
}

/* ---- the whole ---- */

static sl_status check_run(const sl_document *document, sl_run *run) {
    char why[192];
    if (run->model.width % run->model.heads != 0) {
        snprintf(why, sizeof why, "of %d does not divide the width of %d", run->model.heads,
                 run->model.width);
        return refuse(document, "model", "heads", why);
    }
    SL_TRY(check_placement(document, run));
    SL_TRY(check_stages(document, run));
    SL_TRY(check_schedule(document, run));
    SL_TRY(check_faults(document, run));
    if (run->network.silence_ms < 2 * run->network.beat_ms)
        return refuse(document, "network", "silence_ms", "must be at least twice beat_ms");
    const sl_node *shared = sl_node_find(document->root, "shared");
    if (shared)
        SL_TRY(sl_read_shared(shared, run->parallel.pipeline, &run->wire));
    return read_pace(document, run);
}

sl_status sl_run_read(const sl_document *document, sl_run *run) {
    *run = (sl_run){0};
    SL_TRY(sl_config_read(document->root, document->file, run_keys, run));
    return check_run(document, run);
}

void sl_run_free(sl_run *run) {
    for (int i = 0; i < run->data.files; i++)
        sl_free(run->data.file[i]);
    sl_free(run->data.file);
    for (int i = 0; i < run->network.rails; i++)
        sl_free(run->network.rail[i]);
    sl_free(run->network.rail);
    sl_free(run->wire);
    sl_free(run->schedule);
    sl_free(run->fault);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(run->device.pace_ms[kind]);
    sl_free(run->device.pair_ms);
    *run = (sl_run){0};
}

static void fill_stage(const sl_run *run, int stage, double activation_bytes, sl_problem *problem) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        double ms = run->device.pace_ms[kind] ? run->device.pace_ms[kind][stage] : kind == SL_B ? 20 : 10;
        problem->time[kind][stage] = sl_from_ms(ms);
        problem->delta[kind][stage] = kind == SL_F ? activation_bytes : kind == SL_I ? 0 : -activation_bytes;
    }
    if (run->device.pair_ms)
        problem->saved[stage] =
            problem->time[SL_F][stage] + problem->time[SL_B][stage] - sl_from_ms(run->device.pair_ms[stage]);
}

static sl_status fill_limits(const sl_run *run, const double *activation_bytes, const double *fixed_bytes,
                             sl_problem *problem) {
    SL_TRY(sl_alloc(&problem->limit, (size_t)problem->ranks, sizeof *problem->limit));
    for (int rank = 0; rank < problem->ranks; rank++) {
        double least = 0; /* a microbatch lies on all stages of the rank before its first I */
        for (int stage = 0; stage < problem->stages; stage++)
            least += sl_problem_rank(problem, stage) == rank ? activation_bytes[stage] : 0;
        problem->limit[rank] = run->device.memory_mb * 1e6 - fixed_bytes[rank];
        if (problem->limit[rank] < least)
            return sl_error(
                SL_ENONE,
                "no schedule fits into device.memory_mb of %g: weights and optimizer take %g MB and one "
                "microbatch %g MB on rank %d",
                run->device.memory_mb, fixed_bytes[rank] / 1e6, least / 1e6, rank);
    }
    return SL_OK;
}

sl_status sl_run_problem(const sl_run *run, const double *activation_bytes, const double *fixed_bytes,
                         sl_problem *problem) {
    sl_problem shape = sl_run_shape(run);
    SL_TRY(sl_problem_make(shape.ranks, shape.stages, shape.microbatches, problem));
    problem->placement = shape.placement;
    problem->parts = shape.parts;
    problem->communication =
        run->transport == SL_RUN_DELEGATED ? SL_DECOUPLED : (sl_regime)run->communication;
    problem->queue = run->queue;
    if (run->wire) {
        size_t links = (size_t)shape.ranks * (size_t)shape.ranks;
        SL_TRY(sl_alloc(&problem->wire, links, sizeof *problem->wire));
        memcpy(problem->wire, run->wire, links * sizeof *problem->wire);
    }
    for (int stage = 0; stage < shape.stages; stage++)
        fill_stage(run, stage, activation_bytes[stage], problem);
    return run->device.memory_mb > 0 ? fill_limits(run, activation_bytes, fixed_bytes, problem) : SL_OK;
}

void sl_run_document(FILE *out) {
    sl_config_document(run_keys, "", out);
    sl_config_document(fault_keys, "faults[].", out);
}
