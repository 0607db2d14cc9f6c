/* torchtitan 0.3.0: fields of torchtitan.config.ParallelismConfig and TrainingConfig. Up to 0.2 they are the
 * sections of its configuration file, with the same names. A path in pipeline_parallel_schedule_csv makes it
 * run that order; pipeline_parallel_schedule then only chooses the placement. */
#include "plan/export/export_inside.h"

#include "base/memory.h"
#include "plan/pipeline/csv.h"

#include <stdlib.h>
#include <string.h>

static sl_status check_torchtitan(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape) {
    SL_TRY(sl_export_check("torchtitan", p, shape));
    if (p->placement == SL_BIDIRECTIONAL)
        return sl_error(SL_ENONE, "torchtitan has no bidirectional placement");
    if (p->placement == SL_WAVE && p->stages != 2 * p->ranks)
        return sl_error(SL_ENONE, "torchtitan's wave has 2 stages per rank, the plan %d",
                        p->stages / p->ranks);
    if (shape->offload)
        return sl_error(SL_ENONE, "torchtitan has the optimizer in host memory only together with weights");
    for (int layer = 0; !shape->layer_name && layer < sl_export_layers(p); layer++)
        if (sl_export_letter(p, layer) == 'm')
            return sl_error(SL_ENONE,
                            "torchtitan has no layers of multi-token prediction, and layer %d is one", layer);
    return sl_order_check_csv(p, &plan->order);
}

/* ---- modules ---- */

static void write_name(const char *name, FILE *out) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            fprintf(out, "\\u%04x", *at);
        else
            fprintf(out, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    fputc('"', out);
}

/* As torchtitan's own models name them. A transformer layer is counted by *transformers. */
static void write_layer(const sl_problem *p, const sl_export_shape *shape, int layer, int *transformers,
                        FILE *out) {
    char letter = sl_export_letter(p, layer);
    if (shape->layer_name)
        write_name(shape->layer_name[layer], out);
    else if (letter == 'E')
        fputs("\"tok_embeddings\"", out);
    else if (letter == 'L')
        fputs("\"norm\", \"lm_head\"", out);
    else
        fprintf(out, "\"layers.%d\"", (*transformers)++);
}

static void write_modules(const sl_problem *p, const sl_export_shape *shape, FILE *out) {
    /* names given by the user are complete */
    int adds_ends = !shape->layer_name && sl_export_letter(p, 0) != 'E', transformers = 0;
    fprintf(out, "module_fqns_per_model_part = [\n");
    for (int stage = 0; stage < p->stages; stage++) {
        fprintf(out, "    [%s", adds_ends && stage == 0 ? "\"tok_embeddings\", " : "");
        for (int layer = sl_export_first(p, stage); layer < sl_export_first(p, stage + 1); layer++) {
            if (layer > sl_export_first(p, stage))
                fputs(", ", out);
            write_layer(p, shape, layer, &transformers, out);
        }
        fprintf(out, "%s],\n", adds_ends && stage == p->stages - 1 ? ", \"norm\", \"lm_head\"" : "");
    }
    fprintf(out, "]\n");
}

/* ---- the sections ---- */

static void write_replicas(const sl_export_shape *shape, FILE *out) {
    if (shape->zero == 0) {
        fprintf(out, "data_parallel_replicate_degree = %d\ndata_parallel_shard_degree = 1\n", shape->data);
        return;
    }
    if (shape->zero == 1)
        fprintf(out,
                "# torchtitan does not shard the optimizer alone (ZeRO 1): this also shards gradients.\n");
    fprintf(out,
            "data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = %d\n"
            "fsdp_reshard_after_forward = \"%s\"\n",
            shape->data, shape->zero == 3 ? "always" : "never");
}

static void write_parallelism(const sl_problem *p, const sl_export_shape *shape, FILE *out) {
    static const char *const schedules[] = {
        [SL_LINEAR] = "1F1B", [SL_LOOP] = "Interleaved1F1B", [SL_WAVE] = "ZBVZeroBubble"};
    fprintf(out, "[parallelism]\npipeline_parallel_degree = %d\n", p->ranks);
    fprintf(out, "pipeline_parallel_schedule = \"%s\"   # only the placement: the order is in the file\n",
            schedules[p->placement]);
    fprintf(out, "pipeline_parallel_schedule_csv = ");
    write_name(shape->csv ? shape->csv : "schedule.csv", out);
    fprintf(out, "\npipeline_parallel_microbatch_size = %d\n", shape->microbatch_size);
    write_modules(p, shape, out);
    fprintf(out, "tensor_parallel_degree = %d\ncontext_parallel_degree = %d\nexpert_parallel_degree = %d\n",
            shape->tensor, shape->context, shape->expert);
    write_replicas(shape, out);
}

static void write_training(const sl_problem *p, const sl_export_shape *shape, FILE *out) {
    fprintf(out, "\n[training]\nlocal_batch_size = %lld\nglobal_batch_size = %lld\n",
            (long long)p->microbatches * shape->microbatch_size, (long long)sl_export_batch(p, shape));
    if (shape->sequence)
        fprintf(out, "seq_len = %d\n", shape->sequence);
    int recompute = sl_export_recompute(p, shape);
    if (recompute > 0)
        fprintf(out,
                "\n# All layers recompute their activations: FullAC.Config() of torchtitan 0.3, up to 0.2\n"
                "# [activation_checkpoint] mode = \"full\".\n");
    else if (recompute < 0)
        fprintf(out,
                "\n# Some stages of the plan recompute their activations. torchtitan has no such setting.\n");
}

/* ---- the order ---- */

/* Each line after "# ". */
static sl_status write_commented(const sl_problem *p, const sl_plan *plan, FILE *out) {
    char *text = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&text, &size);
    if (!lines)
        return sl_error(SL_ENOMEM, "out of memory for the order");
    sl_status status = sl_order_write_csv(p, &plan->order, lines);
    if (fclose(lines) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the order");
    fprintf(out, "\n# schedule.csv is these lines without \"# \" (plan -o FILE writes it to a file):\n");
    for (const char *at = text, *end; status == SL_OK && at && (end = strchr(at, '\n')); at = end + 1)
        fprintf(out, "# %.*s\n", (int)(end - at), at);
    free(text);
    return status;
}

sl_status sl_export_torchtitan(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape,
                               FILE *out) {
    SL_TRY(check_torchtitan(p, plan, shape));
    sl_export_comment("# ", "\n", p, plan, out);
    fprintf(
        out,
        "# Fields of ParallelismConfig and TrainingConfig of torchtitan 0.3.0; up to 0.2, sections of its\n"
        "# configuration file, where \"lm_head\" is \"output\".\n");
    write_parallelism(p, shape, out);
    write_training(p, shape, out);
    if (!shape->csv)
        SL_TRY(write_commented(p, plan, out));
    return sl_export_end(out);
}
