/* DeepSpeed 0.19.8: the instructions of a PipeSchedule (deepspeed/runtime/pipe/schedule.py) per stage, in
 * steps.
 *
 * Its engine keeps one received gradient and one loss, so a gradient is received right before its backward,
 * and the last stage runs the backward of a microbatch right after its forward. It loads batches in order.
 * Its sends and receives hold their stage. Here both ends of a message follow from one sequence of all ops:
 * when an op needs a message, its stage receives it, and the other stage sends it after the ops that it has
 * already run. So every stage has its messages in the order of that sequence, and none waits forever.
 *
 * Buffers are DeepSpeed's: of a microbatch from its forward until its gradient is sent. */
#include "plan/export/export_inside.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define DEEPSPEED "DeepSpeed"

typedef struct deepspeed_stage {
    char *text; /* its steps */
    size_t size;
    FILE *out;
    int between;  /* instructions of the present step */
    int done;     /* steps of the program */
    int buffers;  /* used so far */
    int *buffer;  /* [microbatches] of a microbatch in flight; -1: none */
    int *used_by; /* [microbatches] microbatch in a buffer; -1: free */
} deepspeed_stage;

typedef struct deepspeed_writer {
    const sl_problem *problem;
    const sl_program *program;
    deepspeed_stage *stage; /* [ranks] */
} deepspeed_writer;

/* ---- what it runs ---- */

static sl_status check_orders(const sl_problem *p, const sl_order *order) {
    for (int rank = 0; rank < order->ranks; rank++) {
        int last = -1;
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            if (op->kind != SL_F)
                continue;
            if (op->microbatch < last)
                return sl_error(SL_ENONE,
                                DEEPSPEED " runs forwards in order, but rank %d runs %dF%d after %dF%d", rank,
                                op->stage, op->microbatch, op->stage, last);
            last = op->microbatch;
            const sl_op *next = i + 1 < order->count[rank] ? op + 1 : NULL;
            if (op->stage == p->stages - 1 && (!next || next->kind != SL_B || next->microbatch != last))
                return sl_error(SL_ENONE,
                                DEEPSPEED " keeps one loss: %dB%d must follow %dF%d on the last stage",
                                op->stage, last, op->stage, last);
        }
    }
    return SL_OK;
}

static sl_status check_deepspeed(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape) {
    SL_TRY(sl_export_check(DEEPSPEED, p, shape));
    if (p->placement != SL_LINEAR)
        return sl_error(SL_ENONE, DEEPSPEED " has one stage per rank, the plan is %s",
                        sl_placement_name(p->placement));
    if (shape->zero > 1)
        return sl_error(SL_ENONE, DEEPSPEED " does not combine a pipeline with ZeRO %d", shape->zero);
    if (shape->context > 1 || shape->expert > 1)
        return sl_error(SL_ENONE, DEEPSPEED "'s pipeline topology has no context or expert ranks");
    SL_TRY(sl_export_check_whole(DEEPSPEED, &plan->order));
    return check_orders(p, &plan->order);
}

/* ---- instructions ---- */

static void write_instruction(deepspeed_stage *s, const char *name, int buffer) {
    fprintf(s->out, "%s[\"%s\"", s->between++ ? ", " : s->done ? ",\n   [" : "   [", name);
    if (buffer >= 0)
        fprintf(s->out, ", %d", buffer);
    fputc(']', s->out);
}

static void end_step(deepspeed_stage *s) {
    fputc(']', s->out);
    s->between = 0;
    s->done++;
}

static int take_buffer(deepspeed_stage *s, int microbatch) {
    int buffer = 0;
    while (s->used_by[buffer] >= 0)
        buffer++;
    s->used_by[buffer] = microbatch;
    s->buffers = buffer + 1 > s->buffers ? buffer + 1 : s->buffers;
    return s->buffer[microbatch] = buffer;
}

static void leave_buffer(deepspeed_stage *s, int microbatch) {
    s->used_by[s->buffer[microbatch]] = -1;
    s->buffer[microbatch] = -1;
}

static void send(deepspeed_writer *w, const sl_message *message) {
    deepspeed_stage *s = &w->stage[message->from];
    int microbatch = message->op.microbatch, is_forward = message->op.kind == SL_F;
    write_instruction(s, is_forward ? "SendActivation" : "SendGrad", s->buffer[microbatch]);
    if (!is_forward)
        leave_buffer(s, microbatch);
}

/* The next op of a stage, if its message can be there. Returns whether it ran. */
static int run_step(deepspeed_writer *w, int rank) {
    deepspeed_stage *s = &w->stage[rank];
    const sl_step *step = &w->program->rank[rank].step[s->done];
    const sl_message *message = step->receive < 0 ? NULL : &w->program->message[step->receive];
    int microbatch = step->op.microbatch, is_forward = step->op.kind == SL_F,
        is_end = rank == 0 || rank == w->problem->ranks - 1;
    if (message && w->stage[message->from].done <= message->producer)
        return 0;
    if (message)
        send(w, message);
    int buffer = is_forward ? take_buffer(s, microbatch) : s->buffer[microbatch];
    if (message)
        write_instruction(s, is_forward ? "RecvActivation" : "RecvGrad", buffer);
    if (is_forward && is_end)
        write_instruction(s, "LoadMicroBatch", buffer);
    write_instruction(s, is_forward ? "ForwardPass" : "BackwardPass", buffer);
    if (!is_forward && step->send < 0)
        leave_buffer(s, microbatch);
    end_step(s);
    return 1;
}

static sl_status run_all(deepspeed_writer *w) {
    for (int ran = 1; ran;) {
        ran = 0;
        for (int rank = 0; rank < w->program->ranks; rank++)
            if (w->stage[rank].done < w->program->rank[rank].steps)
                ran |= run_step(w, rank);
    }
    for (int rank = 0; rank < w->program->ranks; rank++) {
        deepspeed_stage *s = &w->stage[rank];
        if (s->done < w->program->rank[rank].steps)
            return sl_error(SL_ENONE, "the ranks of the plan wait for each other");
        write_instruction(s, "ReduceTiedGrads", -1);
        write_instruction(s, "ReduceGrads", -1);
        write_instruction(s, "OptimizerStep", -1);
        end_step(s);
    }
    return SL_OK;
}

/* ---- the output ---- */

static void write_head(const deepspeed_writer *w, const sl_plan *plan, const sl_export_shape *shape,
                       FILE *out) {
    const sl_problem *p = w->problem;
    int recompute = sl_export_recompute(p, shape);
    fprintf(out, "{\"format\": \"slackline-deepspeed-1\",\n \"comment\": [\n");
    sl_export_comment("  \"", "\",\n", p, plan, out);
    if (recompute < 0)
        fprintf(out, "  \"Lost: only some stages of the plan recompute their activations.\",\n");
    fprintf(out, "  \"Instructions and keys of DeepSpeed 0.19.8.\"],\n \"config\": {\n");
    fprintf(out,
            "  \"train_batch_size\": %lld,\n  \"train_micro_batch_size_per_gpu\": %d,\n"
            "  \"gradient_accumulation_steps\": %d,\n  \"zero_optimization\": {\"stage\": %d%s}},\n",
            (long long)sl_export_batch(p, shape), shape->microbatch_size, p->microbatches,
            shape->offload && shape->zero == 0 ? 1 : shape->zero, /* its offload is a part of ZeRO */
            shape->offload ? ", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}" : "");
    fprintf(out, " \"topology\": {\"pipe\": %d, \"model\": %d, \"data\": %d},\n", p->ranks, shape->tensor,
            shape->data);
    fprintf(out, " \"activation_checkpoint_interval\": %d,\n \"partition\": [", recompute > 0);
    for (int stage = 0; stage <= p->stages; stage++)
        fprintf(out, "%s%d", stage ? ", " : "", sl_export_first(p, stage));
    fprintf(out, "],\n \"buffers\": [");
    for (int rank = 0; rank < p->ranks; rank++) /* the engine has at least two */
        fprintf(out, "%s%d", rank ? ", " : "", w->stage[rank].buffers > 2 ? w->stage[rank].buffers : 2);
    fprintf(out, "],\n \"stages\": [\n");
}

static void write_all(const deepspeed_writer *w, const sl_plan *plan, const sl_export_shape *shape,
                      FILE *out) {
    write_head(w, plan, shape, out);
    for (int rank = 0; rank < w->problem->ranks; rank++) {
        fprintf(out, "  [\n");
        fwrite(w->stage[rank].text, 1, w->stage[rank].size, out);
        fprintf(out, "]%s\n", rank + 1 < w->problem->ranks ? "," : "]}");
    }
}

static sl_status open_stages(deepspeed_writer *w) {
    size_t microbatches = (size_t)w->problem->microbatches;
    SL_TRY(sl_alloc(&w->stage, (size_t)w->problem->ranks, sizeof *w->stage));
    for (int rank = 0; rank < w->problem->ranks; rank++) {
        deepspeed_stage *s = &w->stage[rank];
        SL_TRY(sl_alloc(&s->buffer, microbatches, sizeof *s->buffer));
        SL_TRY(sl_alloc(&s->used_by, microbatches, sizeof *s->used_by));
        memset(s->buffer, -1, microbatches * sizeof *s->buffer);
        memset(s->used_by, -1, microbatches * sizeof *s->used_by);
        s->out = open_memstream(&s->text, &s->size);
        if (!s->out)
            return sl_error(SL_ENOMEM, "out of memory for the instructions");
    }
    return SL_OK;
}

/* Makes their texts complete. */
static sl_status close_streams(deepspeed_writer *w) {
    sl_status status = SL_OK;
    for (int rank = 0; w->stage && rank < w->problem->ranks; rank++) {
        FILE *stream = w->stage[rank].out;
        w->stage[rank].out = NULL;
        if (stream && fclose(stream) != 0)
            status = sl_error(SL_ENOMEM, "out of memory for the instructions");
    }
    return status;
}

static void free_stages(deepspeed_writer *w) {
    for (int rank = 0; w->stage && rank < w->problem->ranks; rank++) {
        free(w->stage[rank].text); /* open_memstream's */
        SL_FREE(w->stage[rank].buffer, w->stage[rank].used_by);
    }
    sl_free(w->stage);
}

sl_status sl_export_deepspeed(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape,
                              FILE *out) {
    deepspeed_writer w = {.problem = p, .program = &plan->program};
    SL_TRY(check_deepspeed(p, plan, shape));
    sl_status status = open_stages(&w);
    SL_THEN(status, run_all(&w));
    sl_status closed = close_streams(&w);
    SL_THEN(status, closed);
    if (status == SL_OK)
        write_all(&w, plan, shape, out);
    free_stages(&w);
    return status == SL_OK ? sl_export_end(out) : status;
}
