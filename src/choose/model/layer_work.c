/* Work of a layer, by the formulas of docs/choosing.md. All sizes are doubles: products of them leave int64.
 */
#include "choose/model/model_work.h"

#define OPS 3
#define LOGIT_BYTES 4      /* logits, probabilities of experts, and sums of the softmax are f32 */
#define TOKEN_BYTES 8      /* the number of a token */
#define FLASH_BACKWARD 2.5 /* products of the backward over those of the forward: 5 and 2 (Dao 2023) */
#define FULL_BACKWARD 2

enum { F, I, W };

/* What one device has of a microbatch. */
typedef struct layer_share {
    double tokens;  /* of its context rank */
    double tensor;  /* divides products and what is in between within a block's part */
    double between; /* divides norms, masks and inputs of the parts */
    double a;       /* bytes of a number */
    int sequence_parallel;
} layer_share;

/* A part of a block, attention or MLP, per token: widths that are divided by `between`, by `tensor`, or not.
 */
typedef struct block_part {
    double divided, whole;         /* parameters of its products: divided over tensor ranks, or on each */
    double flops;                  /* of F, products only, of a microbatch and device */
    double kept, for_w, gradients; /* bytes of a microbatch and device */
} block_part;

/* Widths of all heads together. */
typedef struct attention_widths {
    double queries, keys, values, result, latent;
} attention_widths;

static layer_share share_of(const sl_model_work *model, const sl_division *d) {
    double tokens = (double)d->size * model->context / d->context;
    int parallel = d->sequence_parallel && d->tensor > 1;
    return (layer_share){.tokens = tokens,
                         .tensor = d->tensor,
                         .between = parallel ? d->tensor : 1,
                         .a = model->activation_bytes,
                         .sequence_parallel = parallel};
}

static attention_widths widths_of(const sl_layer_sizes *k) {
    double heads = k->heads, kv = k->kv_heads, width = k->head_width;
    if (k->kv_rank > 0)
        return (attention_widths){.queries = heads * (width + k->rope_width),
                                  .keys = heads * (width + k->rope_width),
                                  .values = heads * k->value_width,
                                  .result = heads * k->value_width,
                                  .latent = k->kv_rank + k->rope_width};
    return (attention_widths){
        .queries = heads * width, .keys = kv * width, .values = kv * width, .result = heads * width};
}

/* ---- attention ---- */

/* Products of queries, keys, values and result. */
static block_part attention_part(const sl_layer_sizes *k, const layer_share *s) {
    attention_widths w = widths_of(k);
    block_part p = {0};
    double h = k->width, a = s->a, between = 2 * h / s->between,
           inner = (w.queries + w.keys + w.values + w.result) / s->tensor, passed = 0;
    if (k->kv_rank > 0) {
        double up = (double)k->heads * (k->head_width + k->value_width);
        p.whole = h * w.latent + h * k->query_rank;
        p.divided = (k->query_rank > 0 ? k->query_rank : h) * w.queries + k->kv_rank * up + w.result * h;
        passed = w.latent + k->kv_rank + 2.0 * k->query_rank; /* before and after their norms */
        p.for_w = a * (between + passed + (w.queries + up + w.result) / s->tensor) * s->tokens;
    } else {
        p.divided = h * (w.queries + w.keys + w.values + w.result);
        p.for_w = a * (between + inner) * s->tokens;
    }
    p.flops = 2 * s->tokens * (p.divided / s->tensor + p.whole);
    p.kept = (a * (between + passed + inner) + (k->dropout ? h / s->between : 0)) * s->tokens;
    p.gradients = a * (between / 2 + passed + inner) * s->tokens;
    return p;
}

/* Pairs of positions and heads, which are numbers of the matrices of full attention. */
static double pairs_of(const sl_model_work *model, const sl_layer_sizes *k, const layer_share *s) {
    return s->tokens * model->context * k->heads / s->tensor;
}

/* F of scores and values; a causal one by flash does half. */
static double attention_flops(const sl_model_work *model, const sl_layer_sizes *k, const layer_share *s) {
    double width =
        k->kv_rank > 0 ? (double)k->head_width + k->rope_width + k->value_width : 2.0 * k->head_width;
    return 2 * pairs_of(model, k, s) * width * (model->flash ? 0.5 : 1);
}

/* Softmax, mask and result of dropout; flash keeps a number per token and head. */
static double score_bytes(const sl_model_work *model, const sl_layer_sizes *k, const layer_share *s) {
    if (model->flash)
        return LOGIT_BYTES * s->tokens * k->heads / s->tensor;
    return pairs_of(model, k, s) * (k->dropout ? 2 * s->a + 1 : s->a);
}

/* ---- MLP ---- */

static block_part dense_part(const sl_layer_sizes *k, const layer_share *s, double hidden, double copies) {
    block_part p = {0};
    double h = k->width, products = k->gated ? 3 : 2, inner = products * hidden / s->tensor;
    p.divided = products * h * hidden;
    p.flops = 2 * s->tokens * copies * p.divided / s->tensor;
    p.kept = s->a * inner * copies * s->tokens;
    p.for_w = s->a * (2 * h / s->between + inner) * copies * s->tokens;
    p.gradients = p.kept;
    return p;
}

/* Experts of a device, with as many tokens as it sends away; they are counted in *experts. */
static block_part expert_part(const sl_layer_sizes *k, const layer_share *s, double expert, double *experts) {
    double h = k->width, each = k->experts_per_token, sent = s->a * each * h / s->between * s->tokens;
    block_part p = dense_part(k, s, k->expert_hidden, each), shared = {0};
    double router = LOGIT_BYTES * (double)k->experts / s->between * s->tokens;
    if (k->shared_experts > 0)
        shared = dense_part(k, s, (double)k->shared_experts * k->expert_hidden, 1);
    *experts = p.divided * k->experts / expert / s->tensor;
    p.divided = shared.divided;
    p.whole = h * k->experts;
    p.flops += shared.flops + 2 * s->tokens * p.whole;
    p.kept += shared.kept + 2 * sent + router; /* what experts receive and return */
    p.for_w += shared.for_w + router + (k->shared_experts > 0 ? 0 : s->a * h / s->between * s->tokens);
    p.gradients += shared.gradients + 2 * sent;
    return p;
}

static block_part mlp_part(const sl_layer_sizes *k, const layer_share *s, double expert, double *experts) {
    double h = k->width;
    block_part p = k->experts > 0 ? expert_part(k, s, expert, experts) : dense_part(k, s, k->hidden, 1);
    p.kept += (s->a * 2 * h + (k->dropout ? h : 0)) / s->between * s->tokens;
    p.gradients += s->a * h / s->between * s->tokens;
    return p;
}

/* ---- traffic ---- */

static void add_traffic(sl_work_traffic *to, double steps, double bytes) {
    to->steps += steps;
    to->bytes += bytes;
}

/* `count` gathers or scattered sums of V bytes over n ranks of a ring; an allreduce is two. */
static void add_ring(sl_work_traffic *to, double n, double count, double v) {
    add_traffic(to, count * (n - 1), count * (n - 1) / n * v);
}

static void block_tensor_traffic(const sl_layer_sizes *k, const layer_share *s, sl_layer_work *work) {
    sl_work_traffic *to = work->traffic[SL_WORK_TENSOR];
    double v = s->a * k->width * s->tokens, n = s->tensor;
    for (int op = F; op <= W; op++) {
        if (op == W && !s->sequence_parallel)
            continue; /* gathers the inputs of products and the gradients of their outputs again */
        add_ring(&to[op], n, 4, v);
        if (s->sequence_parallel && k->experts > 0)
            add_ring(&to[op], n, 2, k->experts_per_token * v);
        if (s->sequence_parallel && k->experts > 0 && k->shared_experts == 0)
            add_ring(&to[op], n, -2, v);
    }
}

static void block_traffic(const sl_layer_sizes *k, const layer_share *s, const sl_division *d,
                          sl_layer_work *work) {
    attention_widths w = widths_of(k);
    double blocks = s->a * s->tokens * (w.keys + w.values) / s->tensor, others = d->context - 1,
           tokens = s->a * s->tokens / s->between * k->experts_per_token * k->width * (1 - 1.0 / d->expert);
    block_tensor_traffic(k, s, work);
    for (int op = F; op <= I; op++) {
        add_traffic(&work->traffic[SL_WORK_CONTEXT][op], others, others * blocks * (op == F ? 1 : 2));
        if (k->experts > 0 && d->expert > 1)
            add_traffic(&work->traffic[SL_WORK_EXPERT][op], 2, 2 * tokens);
    }
}

/* ---- layers ---- */

static void block_work(const sl_model_work *model, const sl_layer_sizes *k, const sl_division *d,
                       sl_layer_work *work) {
    layer_share s = share_of(model, d);
    double experts = 0, scores = score_bytes(model, k, &s), inner = attention_flops(model, k, &s),
           v = s.a * k->width * s.tokens / s.between;
    block_part attention = attention_part(k, &s), mlp = mlp_part(k, &s, d->expert, &experts);
    double products = attention.flops + mlp.flops, kept = attention.kept + mlp.kept + scores;
    work->attention_flops[F] = inner;
    work->attention_flops[I] = inner * (model->flash ? FLASH_BACKWARD : FULL_BACKWARD);
    for (int op = 0; op < OPS; op++)
        work->flops[op] = products + work->attention_flops[op];
    work->parameters =
        (attention.divided + mlp.divided) / s.tensor + attention.whole + mlp.whole + k->vectors;
    work->expert_parameters = experts;
    work->kept = kept;
    work->kept_for_w = attention.for_w + mlp.for_w;
    double matrices = model->flash ? 0 : 2 * s.a * pairs_of(model, k, &s),
           first = attention.gradients + matrices;
    work->gradients = 2 * v + (first > mlp.gradients ? first : mlp.gradients);
    work->input = work->output = v;
    double weights = (work->parameters + experts) * model->weight_bytes;
    work->moved[F] = weights + 2 * kept;
    work->moved[I] = weights + 3 * kept;
    work->moved[W] = work->kept_for_w + 2 * (work->parameters + experts) * model->gradient_bytes;
    block_traffic(k, &s, d, work);
    if (d->recompute == SL_RECOMPUTE_ALL) {
        work->again = 1;
        work->kept = work->input;
        work->gradients += kept;
        for (int group = 0; group < SL_WORK_GROUPS; group++)
            add_traffic(&work->traffic[group][I], work->traffic[group][F].steps,
                        work->traffic[group][F].bytes);
    } else if (d->recompute == SL_RECOMPUTE_ATTENTION && !model->flash) {
        work->again = inner / work->flops[F];
        work->kept -= scores;
        work->gradients += scores;
    }
}

static void embedding_work(const sl_model_work *model, const sl_layer_sizes *k, const sl_division *d,
                           sl_layer_work *work) {
    layer_share s = share_of(model, d);
    double h = k->width, whole = s.a * h * s.tokens, v = whole / s.between, numbers = TOKEN_BYTES * s.tokens;
    work->parameters = ((double)k->vocabulary / s.tensor + k->positions) * h + k->vectors;
    work->kept = numbers + (k->dropout ? h / s.between * s.tokens : 0);
    work->kept_for_w = numbers + v;
    work->gradients = v;
    work->input = numbers;
    work->output = v;
    work->moved[F] = 2 * whole;
    work->moved[W] = whole + 2 * h * s.tokens * model->gradient_bytes;
    add_ring(&work->traffic[SL_WORK_TENSOR][F], s.tensor, s.sequence_parallel ? 1 : 2, whole);
    if (s.sequence_parallel)
        add_ring(&work->traffic[SL_WORK_TENSOR][W], s.tensor, 1, whole);
}

/* The last norm, the logits and the loss, whose sums over tensor ranks are three numbers per token. */
static void head_work(const sl_model_work *model, const sl_layer_sizes *k, const sl_division *d,
                      sl_layer_work *work) {
    layer_share s = share_of(model, d);
    sl_work_traffic *traffic = work->traffic[SL_WORK_TENSOR];
    double h = k->width, logits = (double)k->vocabulary / s.tensor * s.tokens, whole = s.a * h * s.tokens,
           v = whole / s.between;
    for (int op = 0; op < OPS; op++)
        work->flops[op] = 2 * h * logits;
    work->parameters = (double)k->vocabulary / s.tensor * h + k->vectors;
    work->kept = 2 * v + LOGIT_BYTES * logits;
    work->kept_for_w = v + s.a * logits;
    work->gradients = s.a * logits + v;
    work->input = v;
    double weights = work->parameters * model->weight_bytes;
    work->moved[F] = weights + 2 * work->kept;
    work->moved[I] = weights + LOGIT_BYTES * logits + 2 * work->gradients;
    work->moved[W] = work->kept_for_w + 2 * work->parameters * model->gradient_bytes;
    add_ring(&traffic[F], s.tensor, 3 * 2, LOGIT_BYTES * s.tokens);
    for (int op = F; op <= W; op++)
        if (s.sequence_parallel)
            add_ring(&traffic[op], s.tensor, 1, whole);
    if (!s.sequence_parallel)
        add_ring(&traffic[I], s.tensor, 2, whole);
}

/* Proportional to the size, and to the share of a tensor rank. */
static void measured_work(const sl_layer_sizes *k, const sl_division *d, sl_layer_work *work) {
    double size = (double)d->size / k->size, share = size * k->tensor / d->tensor;
    for (int op = 0; op < OPS; op++)
        work->seconds[op] = k->seconds[op] * share;
    work->kept = k->kept * share;
    work->kept_for_w = k->kept_for_w * share;
    work->input = k->input * size;
    work->output = k->output * size;
    work->parameters = k->parameters / d->tensor;
    if (d->recompute == SL_RECOMPUTE_ALL) {
        work->again = 1;
        work->gradients = work->kept;
        work->kept = work->input;
    }
}

static void kind_work(const sl_model_work *model, const sl_layer_sizes *kind, const sl_division *division,
                      sl_layer_work *work) {
    *work = (sl_layer_work){0};
    switch (kind->kind) {
    case SL_LAYER_EMBEDDING:
        embedding_work(model, kind, division, work);
        break;
    case SL_LAYER_BLOCK:
        block_work(model, kind, division, work);
        break;
    case SL_LAYER_HEAD:
        head_work(model, kind, division, work);
        break;
    case SL_LAYER_MEASURED:
        measured_work(kind, division, work);
        break;
    }
}

void sl_layer_work_of(const sl_model_work *model, int layer, const sl_division *division,
                      sl_layer_work *work) {
    kind_work(model, &model->kind[model->layer[layer].kind], division, work);
}

double sl_model_work_parameters(const sl_model_work *model) {
    const sl_division alone = {.tensor = 1, .context = 1, .expert = 1, .size = 1};
    double sum = 0;
    for (int layer = 0; layer < model->layers; layer++) {
        const sl_layer_sizes *kind = &model->kind[model->layer[layer].kind];
        sl_layer_work work;
        kind_work(model, kind, &alone, &work);
        sum += work.parameters + work.expert_parameters;
        if (kind->kind == SL_LAYER_HEAD && kind->tied)
            sum -= (double)kind->vocabulary * kind->width;
    }
    return sum;
}

/* ---- possible divisions ---- */

static sl_status check_block(const sl_layer_sizes *k, const sl_division *d) {
    if (k->heads % d->tensor != 0 || (k->kv_rank == 0 && k->kv_heads % d->tensor != 0))
        return sl_error(SL_EINVAL, "%d tensor ranks: %d heads, %d of keys and values, do not divide by them",
                        d->tensor, k->heads, k->kv_heads);
    int hidden = k->experts > 0 ? k->expert_hidden : k->hidden;
    if (hidden % d->tensor != 0)
        return sl_error(SL_EINVAL, "%d tensor ranks: the width of the MLP, %d, does not divide by them",
                        d->tensor, hidden);
    if (k->experts > 0 && k->experts % d->expert != 0)
        return sl_error(SL_EINVAL, "%d expert ranks: %d experts do not divide by them", d->expert,
                        k->experts);
    return SL_OK;
}

static sl_status check_measured(const sl_model_work *model, const sl_layer_sizes *k, const sl_division *d) {
    if (d->context > 1 || d->expert > 1)
        return sl_error(SL_EINVAL, "measured layers do not divide over context or expert ranks");
    if (d->recompute == SL_RECOMPUTE_ATTENTION)
        return sl_error(SL_EINVAL, "measured layers do not say what their attention takes");
    if (d->tensor != k->tensor && !model->scales)
        return sl_error(SL_EINVAL,
                        "%d tensor ranks: the layers were measured on %d; with 'scaling: ideal' times divide",
                        d->tensor, k->tensor);
    return SL_OK;
}

static int has_experts(const sl_model_work *model) {
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].experts > 0 && model->kind[i].kind == SL_LAYER_BLOCK)
            return 1;
    return 0;
}

/* What does not depend on a layer. */
static sl_status check_numbers(const sl_model_work *model, const sl_division *d) {
    if (d->tensor < 1 || d->context < 1 || d->expert < 1 || d->size < 1)
        return sl_error(SL_EINVAL, "tensor %d, context %d, expert %d ranks, size %d: each is 1 or more",
                        d->tensor, d->context, d->expert, d->size);
    if (d->context > 1 && !model->flash)
        return sl_error(SL_EINVAL, "%d context ranks pass blocks around, which needs flash attention",
                        d->context);
    if (d->context > 1 && model->context % (2LL * d->context) != 0)
        return sl_error(SL_EINVAL, "%d context ranks: %d tokens do not divide by two blocks of each",
                        d->context, model->context);
    if (d->sequence_parallel && d->tensor > 1 && (model->context / d->context) % d->tensor != 0)
        return sl_error(SL_EINVAL, "%d tensor ranks: %d tokens do not divide by them", d->tensor,
                        model->context / d->context);
    if (d->recompute == SL_RECOMPUTE_ATTENTION && model->flash && model->context > 0)
        return sl_error(SL_EINVAL, "flash attention keeps nothing that could be computed again");
    if (d->expert > 1 && !has_experts(model))
        return sl_error(SL_EINVAL, "%d expert ranks: the model has no experts", d->expert);
    return SL_OK;
}

sl_status sl_division_check(const sl_model_work *model, const sl_division *d) {
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].kind == SL_LAYER_MEASURED)
            SL_TRY(check_measured(model, &model->kind[i], d));
    SL_TRY(check_numbers(model, d));
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].kind == SL_LAYER_BLOCK)
            SL_TRY(check_block(&model->kind[i], d));
    return SL_OK;
}
