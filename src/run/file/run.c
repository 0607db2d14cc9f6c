#include "base/memory.h"
#include "plan/pipeline/kind.h"
#include "plan/pipeline/problem_read.h"
#include "run/file/run_inside.h"

#include <string.h>

#define AT(field) offsetof(sl_run, field)

static const char *const model_kinds[] = {"gpt2", "llama", NULL};
static const char *const binds[] = {"auto", "never", "always", NULL};
static const char *const precisions[] = {"f32", "bf16", NULL};
static const char *const token_kinds[] = {"bytes", "uint16", NULL};
static const char *const auth_kinds[] = {"connections", "frames", NULL}; /* sl_run_auth */
static const char *const optimizer_kinds[] = {"adamw", NULL};
static const char *const transports[] = {"direct", "delegated", "auto", NULL};
static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const placements[] = {"linear", "loop", "wave", "bidirectional", NULL};

static sl_status parse_files(const sl_yaml *node, void *object);
static sl_status parse_rails(const sl_yaml *node, void *object);
static sl_status parse_communication(const sl_yaml *node, void *object);
static sl_status parse_hosts(const sl_yaml *node, void *object);
static sl_status leave_for_later(const sl_yaml *node, void *object);
static sl_status parse_threads(const sl_yaml *node, void *object);
static sl_status parse_split(const sl_yaml *node, void *object);
static sl_status parse_strategies(const sl_yaml *node, void *object);
static sl_status parse_elastic(const sl_yaml *node, void *object);

/* A key is a line. */
/* clang-format off */
static const sl_key model_keys[] = {
    {.name = "kind", .type = SL_KEY_CHOICE, .standard = "gpt2", .offset = AT(model.kind), .choices = model_kinds, .help = "architecture: gpt2 (learned positions, LayerNorm, GELU, tied embedding), llama (rotary positions, RMSNorm, SwiGLU, grouped queries)"},
    {.name = "layers", .type = SL_KEY_INT, .required = 1, .offset = AT(model.layers), .minimum = 1, .maximum = 1000, .help = "transformer blocks"},
    {.name = "width", .type = SL_KEY_INT, .required = 1, .offset = AT(model.width), .minimum = 1, .maximum = 65536, .help = "size of the residual stream"},
    {.name = "heads", .type = SL_KEY_INT, .required = 1, .offset = AT(model.heads), .minimum = 1, .maximum = 1024, .help = "attention heads; divides width"},
    {.name = "kv_heads", .type = SL_KEY_INT, .standard = "0", .offset = AT(model.kv_heads), .minimum = 0, .maximum = 1024, .help = "heads of keys and values, each shared by heads / kv_heads queries; 0: heads; llama only"},
    {.name = "hidden", .type = SL_KEY_INT, .standard = "0", .offset = AT(model.hidden), .minimum = 0, .maximum = 1048576, .help = "inner width of the MLP; 0: 4 * width (gpt2), 8/3 * width rounded up to a multiple of 64 (llama)"},
    {.name = "vocabulary", .type = SL_KEY_INT, .standard = "256", .offset = AT(model.vocabulary), .minimum = 2, .maximum = 65536, .help = "number of token ids"},
    {.name = "tied", .type = SL_KEY_BOOL, .offset = AT(model.tied), .help = "the head is the embedding; gpt2: always true, llama: default false"},
    {.name = "rope_base", .type = SL_KEY_REAL, .standard = "10000", .offset = AT(model.rope_base), .minimum = 1, .maximum = 1e12, .help = "llama: base of the rotary angles"},
    {.name = "norm_eps", .type = SL_KEY_REAL, .standard = "1e-5", .offset = AT(model.norm_epsilon), .minimum = 1e-12, .maximum = 1, .help = "llama: added to the mean square in RMSNorm; LayerNorm has 1e-5"},
    {.name = "context", .type = SL_KEY_INT, .required = 1, .offset = AT(model.context), .minimum = 1, .maximum = 65536, .help = "tokens of a sequence"},
    {.name = "weights", .type = SL_KEY_TEXT, .offset = AT(model.weights), .help = "folder of safetensors by Hugging Face's names to start from, as docs/checkpoints.md says; absent: weights by data.seed"},
    {0}};
static const sl_key data_keys[] = {
    {.name = "files", .type = SL_KEY_CUSTOM, .required = 1, .parse = parse_files, .help = "list of files or patterns, read in sorted order, cyclically"},
    {.name = "tokens", .type = SL_KEY_CHOICE, .standard = "bytes", .offset = AT(data.tokens), .choices = token_kinds, .help = "what the files hold: a token in each byte, or a tokenizer's ids as little-endian uint16"},
    {.name = "seed", .type = SL_KEY_INT64, .standard = "1", .offset = AT(data.seed), .minimum = 0, .maximum = 9e18, .help = "of data order and initial weights"},
    {.name = "held_out", .type = SL_KEY_REAL, .standard = "0.05", .offset = AT(data.held_out), .minimum = 0.001, .maximum = 0.5, .help = "share of the text at its end kept for the validation loss"},
    {0}};
static const sl_key parallel_keys[] = {
    {.name = "pipeline", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.pipeline), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "pipeline ranks"},
    {.name = "placement", .type = SL_KEY_CHOICE, .standard = "linear", .offset = AT(parallel.placement), .choices = placements, .help = "which rank holds which stage; absent: what the schedule needs, else linear; bidirectional: two copies of the weights"},
    {.name = "stages", .type = SL_KEY_INT, .standard = "0", .offset = AT(parallel.stages), .minimum = 0, .maximum = SL_MAX_STAGES, .help = "model chunks, at most the layers; absent: pipeline (linear), 2 * pipeline (loop, wave)"},
    {.name = "parts", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.parts), .minimum = 1, .maximum = SL_MAX_PARTS, .help = "sub-blocks that an op is cut into, by halves of transformer blocks; for cross-ud-sub"},
    {.name = "cut", .type = SL_KEY_CUSTOM, .parse = leave_for_later, .help = "list of blocks of each stage, at least 1 each, that sums to layers; absent: the largest stage costs least, embedding and head counted as layers by their arithmetic"},
    {.name = "data", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.data), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "replicas of the pipeline; each takes its share of the microbatches, gradients are summed over them"},
    {.name = "tensor", .type = SL_KEY_INT, .standard = "1", .offset = AT(parallel.tensor), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "ranks that share each layer: heads, the MLP's inner width and the vocabulary are divided among them"},
    {.name = "zero", .type = SL_KEY_INT, .standard = "0", .offset = AT(parallel.zero), .minimum = 0, .maximum = 1, .help = "ZeRO stage; 1: each replica holds the optimizer state of its share of the parameters only"},
    {0}};
static const sl_key batch_keys[] = {
    {.name = "microbatches", .type = SL_KEY_INT, .required = 1, .offset = AT(batch.microbatches), .minimum = 1, .maximum = SL_MAX_MICROBATCHES, .help = "microbatches of an iteration, of all replicas together"},
    {.name = "split", .type = SL_KEY_CUSTOM, .parse = parse_split, .help = "list: microbatches of each replica, microbatches in sum; absent: as even as can be, the first replicas one more"},
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
    {.name = "strategies", .type = SL_KEY_CUSTOM, .parse = parse_strategies, .help = "list of what may be done about slow devices and links: schedule, delegate, balance (microbatches over replicas: losses may differ by rounding), topology (processes exchange positions), restart (without the slow host); or all; default: schedule and delegate, which change only who waits for whom"},
    {.name = "balance_s", .type = SL_KEY_REAL, .standard = "0", .offset = AT(adaptation.balance_s), .minimum = 0, .maximum = 1e6, .help = "estimated cost of dividing the microbatches again, until it has been measured once, s; 0: the time that the run took to open"},
    {.name = "topology_s", .type = SL_KEY_REAL, .standard = "0", .offset = AT(adaptation.topology_s), .minimum = 0, .maximum = 1e6, .help = "estimated cost of an exchange of positions, in addition to moving weights and moments at 1 GB/s, s; 0: the time that the run took to open"},
    {.name = "restart_s", .type = SL_KEY_REAL, .standard = "30", .offset = AT(adaptation.restart_s), .minimum = 0, .maximum = 1e6, .help = "estimated cost of a restart without a host, s"},
    {.name = "record", .type = SL_KEY_BOOL, .standard = "false", .offset = AT(adaptation.record), .help = "everything that the decisions are made from is written to measurements.jsonl in the run's folder, so that they can be made again (docs/formats.md)"},
    {.name = "profile_every_s", .type = SL_KEY_REAL, .standard = "600", .offset = AT(adaptation.profile_every_s), .minimum = 0, .maximum = 1e9, .help = "the network is measured when the run begins and again between two iterations when so many seconds have passed: every link of a pipeline and every pair of replicas; 0: never"},
    {0}};
static const sl_key device_keys[] = {
    {.name = "kind", .type = SL_KEY_CHOICE, .standard = "cpu", .offset = AT(device.kind), .choices = devices, .help = "where a rank computes; cuda: an NVIDIA GPU of compute capability 8.0 or later, if slackline was built with CUDA"},
    {.name = "card", .type = SL_KEY_INT, .standard = "-1", .offset = AT(device.card), .minimum = -1, .maximum = 1023, .help = "the CUDA card of every rank; -1: the ranks of a host take its cards in turn. Several ranks may share a card"},
    {.name = "threads", .type = SL_KEY_CUSTOM, .parse = parse_threads, .help = "threads of a rank, or auto (default): the cores that the process may run on, divided by the ranks of its host that share them, at least 1; changes no result"},
    {.name = "bind", .type = SL_KEY_CHOICE, .standard = "auto", .offset = AT(device.bind), .choices = binds, .help = "whether a rank keeps to cores of its own: auto where the host has several memory nodes and all its ranks' threads fit, never, or always where they fit"},
    {.name = "memory_mb", .type = SL_KEY_REAL, .standard = "0", .offset = AT(device.memory_mb), .minimum = 0, .maximum = 1e9, .help = "hard limit of a rank's memory for weights, optimizer and activations, 1e6 bytes; 0: what the schedule needs"},
    {.name = "host_memory_mb", .type = SL_KEY_REAL, .standard = "0", .offset = AT(device.host_memory_mb), .minimum = 0, .maximum = 1e9, .help = "memory of a rank's host that activations may be moved to where memory_mb is too small, 1e6 bytes; 0: none"},
    {.name = "offload_ms", .type = SL_KEY_REAL, .standard = "0", .offset = AT(device.offload_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "time to move one microbatch's activations of a stage there or back: what plans count on, and what moves are held to; 0: as long as the copy takes, planned as nothing until it is measured"},
    {.name = "precision", .type = SL_KEY_CHOICE, .standard = "f32", .offset = AT(device.precision), .choices = precisions, .help = "of the operands of matrix products: f32, or bf16 where the processor has it (AVX512_BF16; else refused); sums, weights, gradients and the optimizer are f32 either way; with bf16 the first 50 losses are within 1 % of f32's"},
    {.name = "recompute", .type = SL_KEY_CUSTOM, .parse = leave_for_later, .help = "true, false (default) or a list of that for each stage: F keeps only the input of each transformer block, and I first computes the rest again; same bits"},
    {.name = "pace_ms", .type = SL_KEY_CUSTOM, .section = sl_time_keys, .help = "real arithmetic, then held to this time"},
    {0}};
static const sl_key network_keys[] = {
    {.name = "rails", .type = SL_KEY_CUSTOM, .parse = parse_rails, .help = "interfaces (or addresses) that pipeline messages between hosts take, side by side: TCP, or UCX where the name is `ucx:` and one of these and slackline was built with it; default: one, the host's first address that others reach"},
    {.name = "queues", .type = SL_KEY_INT, .standard = "0", .offset = AT(network.queues), .minimum = 0, .maximum = 8, .help = "delegates per link and direction; 0: as many as carry messages as fast as they are made"},
    {.name = "beat_ms", .type = SL_KEY_REAL, .standard = "50", .offset = AT(network.beat_ms), .minimum = 1, .maximum = 60000, .help = "each side of a rail says something this often"},
    {.name = "silence_ms", .type = SL_KEY_REAL, .standard = "200", .offset = AT(network.silence_ms), .minimum = 2, .maximum = 600000, .help = "a rail on which nothing was heard for so long is dead"},
    {.name = "outage_s", .type = SL_KEY_REAL, .standard = "30", .offset = AT(network.outage_s), .minimum = 0.1, .maximum = 86400, .help = "a link without any live rail for so long ends the run"},
    {.name = "auth", .type = SL_KEY_CHOICE, .standard = "connections", .offset = AT(network.auth), .choices = auth_kinds, .help = "what proves that it comes from this run, of pipeline messages between hosts: every connection, when it is made; or also every frame, so that nobody on the path can change, insert, repeat or leave out data unnoticed (AES-256-GMAC; nothing is encrypted)"},
    {0}};
static const sl_key communication_keys[] = {
    {.name = "regime", .type = SL_KEY_CHOICE, .standard = "decoupled", .offset = AT(communication), .choices = sl_regime_names, .help = "sends hold a rank: never, in `queue` slots, or until all that a boundary between two ops issues has arrived; fifo: never, but the messages of a communicator wait for each other"},
    {.name = "communicators", .type = SL_KEY_CHOICE, .standard = "pipeline", .offset = AT(messages.communicators), .choices = sl_communicators_names, .help = "fifo: one for all messages, per pair of ranks, per direction of a pair, or per direction and kind (F, B)"},
    {.name = "eager_kb", .type = SL_KEY_REAL, .standard = "0", .offset = AT(messages.eager_kb), .minimum = 0, .maximum = 1e9, .help = "fifo: size up to which a message does not wait for its receive, 1e3 bytes"},
    {.name = "receive_buffers", .type = SL_KEY_INT, .standard = "0", .offset = AT(messages.receive_buffers), .minimum = 0, .maximum = 1e6, .help = "fifo: most receives of a rank that are issued and whose op has not ended, in plans; 0: any number, else at least 2"},
    {0}};
static const sl_key checkpoint_keys[] = {
    {.name = "every", .type = SL_KEY_INT, .standard = "0", .offset = AT(checkpoint.every), .minimum = 0, .maximum = 1e9, .help = "iterations between two checkpoints, and one at the end (docs/checkpoints.md); 0: none are written"},
    {.name = "keep", .type = SL_KEY_INT, .standard = "2", .offset = AT(checkpoint.keep), .minimum = 1, .maximum = 1e6, .help = "newest checkpoints that stay"},
    {0}};
static const sl_key elastic_keys[] = {
    {.name = "min_replicas", .type = SL_KEY_INT, .standard = "1", .offset = AT(elastic.min_replicas), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "fewest replicas; at most parallel.data"},
    {.name = "min_pipeline", .type = SL_KEY_INT, .standard = "1", .offset = AT(elastic.min_pipeline), .minimum = 1, .maximum = SL_MAX_RANKS, .help = "fewest pipeline ranks, which are reduced only after the replicas; at most parallel.pipeline"},
    {.name = "test_every_s", .type = SL_KEY_REAL, .standard = "60", .offset = AT(elastic.test_every_s), .minimum = 0.1, .maximum = 1e9, .help = "interval at which lost hosts are tested again while the run has fewer ranks"},
    {0}};
static const sl_key run_keys[] = {
    {.name = "model", .type = SL_KEY_SECTION, .required = 1, .section = model_keys},
    {.name = "data", .type = SL_KEY_SECTION, .required = 1, .section = data_keys},
    {.name = "parallel", .type = SL_KEY_SECTION, .section = parallel_keys},
    {.name = "batch", .type = SL_KEY_SECTION, .required = 1, .section = batch_keys},
    {.name = "optimizer", .type = SL_KEY_SECTION, .section = optimizer_keys},
    {.name = "iterations", .type = SL_KEY_INT, .required = 1, .offset = AT(iterations), .minimum = 1, .maximum = 1e9, .help = "iterations to train"},
    {.name = "schedule", .type = SL_KEY_TEXT, .standard = "auto", .offset = AT(schedule), .help = "auto, a family's name, or the path of an order (CSV, or a plan in a file whose name ends with .json or .json.gz)"},
    {.name = "adapt", .type = SL_KEY_BOOL, .standard = "true", .offset = AT(adapt), .help = "adapt the schedule to slow links and return to it on relief"},
    {.name = "adaptation", .type = SL_KEY_SECTION, .section = adaptation_keys},
    {.name = "transport", .type = SL_KEY_CHOICE, .standard = "direct", .offset = AT(transport), .choices = transports, .help = "who carries pipeline messages: the ranks, delegate processes, or delegates while a link is slower than the schedule tolerates"},
    {.name = "network", .type = SL_KEY_SECTION, .section = network_keys},
    {.name = "communication", .type = SL_KEY_CUSTOM, .section = communication_keys, .parse = parse_communication, .help = "what holds a rank, or the messages of a communicator, while the ranks carry their messages themselves (formats.md, Problem); delegates never do; the regime alone, or a map; default decoupled"},
    {.name = "queue", .type = SL_KEY_INT, .standard = "1", .offset = AT(queue), .minimum = 1, .maximum = 65536, .help = "inorder: sends under way per rank and peer"},
    {.name = "device", .type = SL_KEY_SECTION, .section = device_keys},
    {.name = "validate_every", .type = SL_KEY_INT, .standard = "0", .offset = AT(validate_every), .minimum = 0, .maximum = 1e9, .help = "iterations between validation losses; 0: only at the end"},
    {.name = "checkpoint", .type = SL_KEY_SECTION, .section = checkpoint_keys},
    {.name = "dump_gradients", .type = SL_KEY_INT, .standard = "0", .offset = AT(dump_gradients), .minimum = 0, .maximum = 1e9, .help = "first iterations whose gradients are written to gradients/ in the run's folder: of the whole batch, full tensors, before clipping; to compare layouts and programs"},
    {.name = "restarts", .type = SL_KEY_INT, .standard = "-1", .offset = AT(restarts), .minimum = -1, .maximum = 1000000, .help = "how often the ranks are started again from the newest checkpoint after a failure; absent: 3 with checkpoint, else 0"},
    {.name = "elastic", .type = SL_KEY_CUSTOM, .section = elastic_keys, .parse = parse_elastic, .help = "true, false (default), or a map: a run that loses hosts without spare slots continues with fewer replicas or pipeline ranks, and with all of them when the hosts are back (docs/running.md); needs checkpoint.every and hosts"},
    {.name = "hosts", .type = SL_KEY_CUSTOM, .parse = parse_hosts, .help = "where ranks run, in this order: list of name:slots, or the path of a hostfile; tested after a failure, and left out when they fail while enough slots are left; absent: this host, or what the allocation gives"},
    {.name = "shared", .type = SL_KEY_CUSTOM, .parse = leave_for_later, .help = "list of {name, links}: emulated links that occupy one wire per direction, between ranks of one host"},
    {.name = "arrangements", .type = SL_KEY_CUSTOM, .parse = leave_for_later, .help = "list of changes during the run: positions of processes, microbatches of each replica, see below"},
    {.name = "faults", .type = SL_KEY_CUSTOM, .parse = sl_run_read_faults, .help = "list of injected trouble, see below; it stays with the processes that sit there when the run begins"},
    {0}};
/* clang-format on */

/* Keys that can be parsed only after the number of ranks is known (check_run). */
static sl_status leave_for_later(const sl_yaml *node, void *object) {
    (void)node;
    (void)object;
    return SL_OK;
}

/* One text or a list of texts; `what` is the list's noun. */
static sl_status parse_texts(const sl_yaml *node, const char *what, char ***texts, int *texts_count) {
    const sl_yaml *one = node;
    int count = 1;
    if (node->kind == SL_YAML_LIST)
        count = node->children;
    if (count == 0 || node->kind == SL_YAML_MAP)
        return sl_yaml_error(node, "must be a list of %s", what);
    SL_TRY(sl_alloc(texts, (size_t)count, sizeof **texts));
    for (int i = 0; i < count; i++) {
        if (node->kind == SL_YAML_LIST)
            one = node->child[i];
        const char *text;
        SL_TRY(sl_yaml_text(one, &text));
        if (!*text)
            return sl_yaml_error(node, "holds an empty name");
        SL_TRY(sl_copy_text(&(*texts)[i], text));
        *texts_count = i + 1;
    }
    return SL_OK;
}

static sl_status parse_files(const sl_yaml *node, void *object) {
    sl_run *run = object;
    return parse_texts(node, "files", &run->data.file, &run->data.files);
}

static sl_status parse_hosts(const sl_yaml *node, void *object) {
    sl_run *run = object;
    return parse_texts(node, "hosts", &run->host, &run->hosts);
}

int sl_run_saves(const sl_run *run) {
    return run->checkpoint.every > 0;
}

int sl_run_restarts(const sl_run *run) {
    return run->restarts >= 0 ? run->restarts : sl_run_saves(run) ? 3 : 0;
}

static sl_status check_rail(const sl_yaml *node, const char *name) {
    if (strncmp(name, "ucx:", 4) != 0)
        return SL_OK;
    if (!name[4])
        return sl_yaml_error(node, "holds 'ucx:' without an interface");
#ifndef SL_UCX
    return sl_yaml_error(
        node, "names %s, but this slackline was built without UCX (it needs libucx-dev when it is built)",
        name);
#else
    return SL_OK;
#endif
}

static sl_status parse_rails(const sl_yaml *node, void *object) {
    sl_run *run = object;
    SL_TRY(parse_texts(node, "interfaces", &run->network.rail, &run->network.rails));
    if (run->network.rails > SL_RUN_RAILS_MAX)
        return sl_yaml_error(node, "has %d rails; at most %d", run->network.rails, SL_RUN_RAILS_MAX);
    for (int i = 0; i < run->network.rails; i++) {
        SL_TRY(check_rail(node, run->network.rail[i]));
        for (int k = 0; k < i; k++)
            if (strcmp(run->network.rail[i], run->network.rail[k]) == 0)
                return sl_yaml_error(node, "names %s twice", run->network.rail[i]);
    }
    return SL_OK;
}

static sl_status parse_communication(const sl_yaml *node, void *object) {
    sl_run *run = object;
    if (node->kind == SL_YAML_SCALAR)
        return sl_config_read_value(node, &communication_keys[0], object);
    SL_TRY(sl_config_read(node, "communication", communication_keys, object));
    for (const sl_key *key = &communication_keys[1]; key->name && run->communication != SL_FIFO; key++)
        if (sl_yaml_find(node, key->name))
            return sl_yaml_error(node, "has %s, which only regime fifo has", key->name);
    return run->messages.receive_buffers == 1
               ? sl_yaml_error(node, "has receive_buffers 1, but a pair of ops may need two messages")
               : SL_OK;
}

/* The sum and the fit to the replicas are checked at the end (run_shape). */
static sl_status parse_threads(const sl_yaml *node, void *object) {
    sl_run *run = object;
    int64_t value;
    run->device.threads = 0;
    if (node->kind == SL_YAML_SCALAR && strcmp(node->text, "auto") == 0)
        return SL_OK;
    if (sl_yaml_int(node, 1, 1024, &value) != SL_OK)
        return sl_yaml_error(node, "must be auto or a whole number from 1 to 1024");
    run->device.threads = (int)value;
    return SL_OK;
}

static sl_status parse_strategies(const sl_yaml *node, void *object) {
    sl_run *run = object;
    run->adaptation.strategies = (1u << SL_STRATEGY_KINDS) - 1;
    if (node->kind == SL_YAML_SCALAR && strcmp(node->text, "all") == 0)
        return SL_OK;
    run->adaptation.strategies = 0;
    if (node->kind != SL_YAML_LIST)
        return sl_yaml_error(node, "must be all or a list of schedule, delegate, balance, topology, restart");
    for (int i = 0; i < node->children; i++) {
        const sl_yaml *item = node->child[i];
        int s = 0;
        while (s < SL_STRATEGY_KINDS &&
               (item->kind != SL_YAML_SCALAR || strcmp(item->text, sl_strategy_keys[s]) != 0))
            s++;
        if (s == SL_STRATEGY_KINDS)
            return sl_yaml_error(item, "must be schedule, delegate, balance, topology or restart");
        run->adaptation.strategies |= 1u << s;
    }
    return SL_OK;
}

static sl_status parse_elastic(const sl_yaml *node, void *object) {
    sl_run *run = object;
    if (node->kind == SL_YAML_SCALAR)
        return sl_yaml_bool(node, &run->elastic.on);
    run->elastic.on = 1;
    return sl_config_read(node, "elastic", elastic_keys, object);
}

static sl_status parse_split(const sl_yaml *node, void *object) {
    sl_run *run = object;
    if (node->kind != SL_YAML_LIST || node->children == 0)
        return sl_yaml_error(node, "must be a list of whole numbers, one for each replica");
    SL_TRY(sl_alloc(&run->batch.split, (size_t)node->children, sizeof *run->batch.split));
    for (int i = 0; i < node->children; i++) {
        int64_t value;
        if (sl_yaml_int(node->child[i], 1, SL_MAX_MICROBATCHES, &value) != SL_OK)
            return sl_yaml_error(node, "must hold whole numbers of at least 1, got '%s'",
                                 node->child[i]->text ? node->child[i]->text : "?");
        run->batch.split[i] = (int)value;
    }
    return SL_OK;
}

/* ---- the whole ---- */

static sl_status check_divided(const sl_document *document, const char *key, int value, int ranks) {
    return value % ranks == 0
               ? SL_OK
               : sl_run_refuse(document, "model", key,
                               "of %d cannot be divided evenly over parallel.tensor of %d", value, ranks);
}

/* Tensor ranks share heads and the MLP evenly, the vocabulary as evenly as possible. */
static sl_status check_tensor(const sl_document *document, const sl_run *run, int kv_heads) {
    const int ranks = run->parallel.tensor;
    SL_TRY(check_divided(document, "heads", run->model.heads, ranks));
    SL_TRY(check_divided(document, "kv_heads", kv_heads, ranks));
    if (run->model.hidden)
        SL_TRY(check_divided(document, "hidden", run->model.hidden, ranks));
    return run->model.vocabulary >= ranks
               ? SL_OK
               : check_divided(document, "vocabulary", run->model.vocabulary, ranks);
}

static sl_status check_model(const sl_document *document, sl_run *run) {
    const sl_yaml *model = sl_yaml_find(document->root, "model");
    const int llama = run->model.kind == 1, width = run->model.width, heads = run->model.heads,
              kv_heads = run->model.kv_heads ? run->model.kv_heads : heads;
    if (width % heads != 0)
        return sl_run_refuse(document, "model", "heads", "of %d does not divide the width of %d", heads,
                             width);
    if (heads % kv_heads != 0)
        return sl_run_refuse(document, "model", "kv_heads", "of %d does not divide the %d heads", kv_heads,
                             heads);
    if (!llama && kv_heads != heads)
        return sl_run_refuse(document, "model", "kv_heads", "needs kind llama; gpt2 has as many as heads");
    if (!llama && sl_yaml_find(model, "tied") && !run->model.tied)
        return sl_run_refuse(document, "model", "tied",
                             "of false needs kind llama; gpt2's head is its embedding");
    if (!llama && (sl_yaml_find(model, "rope_base") || sl_yaml_find(model, "norm_eps")))
        return sl_run_refuse(document, "model", sl_yaml_find(model, "rope_base") ? "rope_base" : "norm_eps",
                             "belongs to kind llama");
    if (llama && width / heads % 2)
        return sl_run_refuse(document, "model", "heads",
                             "makes heads of %d; rotary positions need an even size", width / heads);
    return check_tensor(document, run, kv_heads);
}

static sl_status check_elastic(const sl_document *document, const sl_run *run) {
    if (!run->elastic.on)
        return SL_OK;
    if (!sl_run_saves(run))
        return sl_run_refuse(document, "elastic", NULL,
                             "needs checkpoints to continue from (checkpoint.every)");
    if (run->elastic.min_replicas > run->parallel.data)
        return sl_run_refuse(document, "elastic", "min_replicas", "of %d is more than parallel.data of %d",
                             run->elastic.min_replicas, run->parallel.data);
    if (run->elastic.min_pipeline > run->parallel.pipeline)
        return sl_run_refuse(document, "elastic", "min_pipeline",
                             "of %d is more than parallel.pipeline of %d", run->elastic.min_pipeline,
                             run->parallel.pipeline);
    return SL_OK;
}

static sl_status check_run(const sl_document *document, sl_run *run) {
    SL_TRY(check_model(document, run));
    SL_TRY(sl_run_check_shape(document, run));
    SL_TRY(sl_run_check_faults(document, run));
    SL_TRY(sl_run_read_cut(document, run));
    SL_TRY(sl_run_read_recompute(document, run));
    SL_TRY(sl_run_read_arrangements(document, run));
    SL_TRY(check_elastic(document, run));
    if (run->network.silence_ms < 2 * run->network.beat_ms)
        return sl_run_refuse(document, "network", "silence_ms", "must be at least twice beat_ms");
    if (run->adaptation.record && run->communication == SL_FIFO)
        return sl_run_refuse(document, "adaptation", "record",
                             "does not hold the order of messages, so it needs another regime than fifo "
                             "(communication)");
    const sl_yaml *shared = sl_yaml_find(document->root, "shared");
    if (shared)
        SL_TRY(sl_read_shared(shared, run->parallel.pipeline, &run->wire));
    return sl_run_read_pace(document, run);
}

sl_status sl_run_read(const sl_document *document, sl_run *run) {
    *run = (sl_run){0};
    run->adaptation.strategies = 1u << SL_STRATEGY_SCHEDULE | 1u << SL_STRATEGY_DELEGATE;
    SL_TRY(sl_file_kind_check(document->root, SL_FILE_RUN));
    SL_TRY(sl_config_read(NULL, "elastic", elastic_keys, run));
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
    for (int i = 0; i < run->hosts; i++)
        sl_free(run->host[i]);
    SL_FREE(run->host, run->wire, run->model.weights, run->parallel.cut, run->device.recompute,
            run->batch.split, run->schedule);
    sl_run_free_faults(run);
    sl_run_free_arrangements(run);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(run->device.pace_ms[kind]);
    sl_free(run->device.pair_ms);
    *run = (sl_run){0};
}

void sl_run_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(run_keys, "", visit, context);
    sl_run_visit_arrangement_keys(visit, context);
    sl_run_visit_fault_keys(visit, context);
}
