/* slackline choose: the best ways to train a model on a cluster. */
#include "base/memory.h"
#include "choose/search/choices_write.h"
#include "choose/search/shape_search.h"
#include "cli/choose_others.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/export/export.h"
#include "plan/family/family.h"

#include "plan/pipeline/layers.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SCHEDULES 32

typedef struct choose_request {
    sl_texts files, fix, set;
    int form;
    const char *schedules;
    char *names; /* of --schedules, cut at its commas */
    const char *allowed[MAX_SCHEDULES + 1];
    sl_others_request others;
    sl_choose_options options;
    sl_document model_document, cluster_document;
    sl_model_work model;
    sl_devices devices;
    sl_choices found;
} choose_request;

enum {
    FORM_TEXT,
    FORM_JSON,
    FORM_PROBLEM,
    FORM_PLAN,
    FORM_TORCHTITAN,
    FORM_MEGATRON,
    FORM_DEEPSPEED,
    FORM_PRIMUS,
    FORM_PYTORCH
};

static const sl_value forms[] = {
    {"text", "a table of the best arrangements"},
    {"json", "the same with all details, one object"},
    {"problem", "the first one as a problem file for plan and simulate"},
    {"plan", "its plan, as plan --format json prints it"},
    {"torchtitan", "its plan for torchtitan: keys (TOML), modules of each stage, the order"},
    {"megatron", "flags of Megatron-LM, whose orders are 1F1B and its interleaved form"},
    {"deepspeed", "instructions and partition for DeepSpeed (JSON), in 1F1B"},
    {"primus", "the schedule table of Primus (JSON)"},
    {"pytorch", "the order for PyTorch's pipelining (CSV)"},
    {0}};

static const sl_option options[] = {
    SL_OPTION("fix", TEXTS, choose_request, fix, "NAME=VALUE",
              "only arrangements with this value: tensor, context, expert, data, pipeline, chunks, size, "
              "placement, zero, offload, split, recompute, neighbors, communication or communicators"),
    SL_OPTION("schedules", TEXT, choose_request, schedules, "A,B,..",
              "only these families; default: any order, or what the framework of --format can run"),
    SL_OPTION("time-limit", REAL, choose_request, options.time_limit, "S", "seconds for the search",
              .least = 0, .most = 86400, .words = "s", .standard = "10"),
    SL_OPTION("most", INT, choose_request, options.most, "N", "arrangements that are shown", .least = 1,
              .most = 32, .standard = "8"),
    SL_OPTION("threads", INT, choose_request, options.threads, "N",
              "threads of the search; 0: one per processor", .least = 0, .most = 8, .standard = "0"),
    SL_OPTION_SEED(choose_request, options.seed, "the searches for schedules"),
    SL_OPTION("set", TEXTS, choose_request, set, "KEY=VALUE", "change a key of MODEL: batch.sequences=512",
              .keys = sl_model_work_visit_keys),
    SL_OPTION_FORM(choose_request, form, forms),
    SL_OPTION("layers", INT, choose_request, others.options.layers, "N",
              "with a PROFILE: layers of the model, which may move between its stages", .least = 1,
              .most = 65536),
    SL_OPTION("replicas", INT, choose_request, others.options.replicas, "N",
              "with a PROFILE: replicas of the job", .least = 1, .most = 65536, .standard = "1"),
    SL_OPTION("order", TEXT, choose_request, others.order_file, "FILE",
              "with a PROFILE: the running order, from slackline import --order",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION("", TEXTS, choose_request, files, "MODEL CLUSTER", NULL, .completes = SL_COMPLETES_FILE,
              .required = 1),
    SL_OPTIONS_END};

static sl_status fix(const sl_texts *asked, sl_shape_fixed *fixed) {
    *fixed = sl_shape_free();
    for (int i = 0; i < asked->count; i++) {
        char name[64] = "";
        const char *text = asked->text[i], *value = strchr(text, '=');
        if (!value)
            return sl_error(SL_EINVAL, "choose: --fix takes NAME=VALUE, such as tensor=8, got '%s'", text);
        snprintf(name, sizeof name, "%.*s", (int)(value - text), text);
        if (sl_shape_fix(fixed, name, value + 1) != SL_OK)
            return sl_error(SL_EINVAL, "choose: --fix %s", sl_error_text());
    }
    return SL_OK;
}

static sl_status allow(choose_request *a) {
    static const char *const of_form[] = {
        [FORM_MEGATRON] = "1f1b,interleaved-1f1b", [FORM_DEEPSPEED] = "1f1b"};
    const char *list = a->schedules;
    int count = 0;
    if (!list && a->form < (int)(sizeof of_form / sizeof *of_form))
        list = of_form[a->form];
    if (!list)
        return SL_OK;
    SL_TRY(sl_copy_text(&a->names, list));
    char *rest = NULL;
    for (char *name = strtok_r(a->names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (!sl_family_find(name))
            return sl_error(SL_EINVAL,
                            "choose: --schedules: '%s' is not a family (slackline plan --help lists them)",
                            name);
        if (count == MAX_SCHEDULES)
            return sl_error(SL_EINVAL, "choose: --schedules takes at most %d names", MAX_SCHEDULES);
        a->allowed[count++] = name;
    }
    if (count == 0)
        return sl_error(SL_EINVAL, "choose: --schedules names no schedule");
    a->options.schedules = a->allowed;
    return SL_OK;
}

/* What the framework of --format can have in host memory: the state of the optimizer, or nothing. None moves
 * activations as a plan says, and all have as many microbatches on each replica. */
static sl_status allow_kinds(choose_request *a) {
    sl_shape_fixed *f = &a->options.fixed;
    int can = 1 << SL_HOST_NOTHING;
    if (a->form < FORM_TORCHTITAN)
        return SL_OK;
    if (f->uneven > 0)
        return sl_error(SL_EINVAL,
                        "choose: --fix split: --format %s has as many microbatches on each replica",
                        forms[a->form].name);
    f->uneven = 0;
    if (a->form == FORM_MEGATRON || a->form == FORM_DEEPSPEED)
        can |= 1 << SL_HOST_OPTIMIZER;
    if (f->offload >= 0 && !(f->offload & can))
        return sl_error(SL_EINVAL, "choose: --fix offload: --format %s can only have %s", forms[a->form].name,
                        can >> SL_HOST_OPTIMIZER & 1 ? "none or optimizer" : "none");
    f->offload = f->offload < 0 ? can : f->offload;
    return SL_OK;
}

/* The regime of the framework of --format, unless the cluster file or --fix gives another. Over NCCL,
 * PyTorch's pipelining (2.13) has a queue for the messages of each pair of ranks. Between two ops, a rank of
 * Megatron-LM (1F1B) and DeepSpeed waits for what it sends and receives. */
static void set_communication(choose_request *a) {
    static const sl_regime of_form[] = {[FORM_TORCHTITAN] = SL_FIFO,
                                        [FORM_MEGATRON] = SL_BATCHED,
                                        [FORM_DEEPSPEED] = SL_BATCHED,
                                        [FORM_PRIMUS] = SL_DECOUPLED,
                                        [FORM_PYTORCH] = SL_FIFO};
    sl_devices_communication *c = &a->devices.communication;
    sl_shape_fixed *f = &a->options.fixed;
    if (a->form < FORM_TORCHTITAN)
        return;
    if (f->regime < 0 && !c->given)
        f->regime = (int)of_form[a->form];
    int is_fifo = f->regime >= 0 ? f->regime == SL_FIFO : c->regime == SL_FIFO,
        is_open = f->communicators < 0 && (c->regime != SL_FIFO || c->communicators < 0);
    if (is_fifo && is_open && (a->form == FORM_TORCHTITAN || a->form == FORM_PYTORCH))
        f->communicators = SL_OF_PAIR;
}

/* PyTorch adds messages to an order by its own rule. */
static sl_status drop_messages(const sl_problem *p, sl_plan *plan) {
    sl_plan without;
    sl_order order;
    if (p->communication != SL_FIFO)
        return SL_OK;
    SL_TRY(sl_order_copy(&plan->order, &order));
    sl_order_drop_issues(&order);
    sl_status status = sl_plan_of_order(p, &order, plan->schedule, &without);
    sl_order_free(&order);
    if (status == SL_OK) {
        sl_plan_free(plan);
        *plan = without;
    } else
        sl_plan_free(&without);
    return status;
}

/* ---- the first arrangement in other forms ---- */

/* With the cut's stages in place of the layers. */
static sl_status print_problem(const sl_problem *p) {
    sl_problem stages;
    SL_TRY(sl_problem_copy(p, &stages));
    sl_layers_free(stages.layers);
    stages.layers = NULL;
    sl_status status = sl_problem_write(&stages, stdout);
    sl_problem_free(&stages);
    return status;
}

/* In the form of a framework, which wants to know what each layer is. */
static sl_status export_first(const choose_request *a, sl_choice *c) {
    const sl_shape *s = &c->shape;
    const sl_export_shape shape = {.tensor = s->division.tensor,
                                   .data = s->data,
                                   .context = s->division.context,
                                   .expert = s->division.expert,
                                   .zero = s->zero,
                                   .offload = sl_hosts_optimizer(s->offload),
                                   .sequence_parallel = s->division.sequence_parallel,
                                   .microbatch_size = s->division.size,
                                   .sequence = a->model.context,
                                   .global_batch = a->model.sequences};
    static const char letters[] = {
        [SL_LAYER_EMBEDDING] = 'E', [SL_LAYER_BLOCK] = 't', [SL_LAYER_HEAD] = 'L', [SL_LAYER_MEASURED] = 't'};
    sl_problem p;
    SL_TRY(sl_problem_copy(&c->problem, &p));
    int layers = a->model.layers, measured = a->model.kind[a->model.layer[0].kind].kind == SL_LAYER_MEASURED;
    sl_status status = measured ? SL_OK : sl_alloc(&p.layers->letter, (size_t)layers + 1, 1);
    for (int layer = 0; layer < layers && p.layers->letter; layer++)
        p.layers->letter[layer] = letters[a->model.kind[a->model.layer[layer].kind].kind];
    if (a->form == FORM_TORCHTITAN || a->form == FORM_PYTORCH)
        SL_THEN(status, drop_messages(&p, &c->plan));
    SL_THEN(status, sl_export_find(forms[a->form].name)->write(&p, &c->plan, &shape, stdout));
    sl_problem_free(&p);
    return status;
}

static sl_status answer_profile(choose_request *a) {
    if (a->fix.count)
        return sl_error(SL_EINVAL, "choose: --fix needs a MODEL and a CLUSTER, not a profile");
    if (a->form > FORM_JSON)
        return sl_error(SL_EINVAL, "choose: with a profile the form is text or json");
    a->others.is_json = a->form == FORM_JSON;
    a->others.options.time_limit = a->options.time_limit;
    a->others.options.threads = a->options.threads;
    a->others.options.seed = a->options.seed;
    return sl_choose_others(&a->model_document, &a->others);
}

/* Ctrl-C ends the search, not the command; the second one ends that. A handler knows only what is global. */
static atomic_int stopped;

static void stop(int signal) {
    (void)signal;
    atomic_store(&stopped, 1);
}

static sl_status search(choose_request *a) {
    struct sigaction ending = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND}, before;
    a->options.stop = &stopped;
    sigaction(SIGINT, &ending, &before);
    sl_status status = sl_choose(&a->model, &a->devices, &a->options, &a->found);
    sigaction(SIGINT, &before, NULL);
    if (status == SL_OK && atomic_load(&stopped))
        fprintf(stderr, "slackline: choose: interrupted, the best so far\n");
    return status;
}

static sl_status answer(choose_request *a) {
    if (a->files.count == 0 || a->files.count > 2)
        return sl_error(SL_EINVAL,
                        "choose: give a MODEL and a CLUSTER file, or a PROFILE; see slackline choose --help");
    const char *model = a->files.text[0], *cluster = a->files.count > 1 ? a->files.text[1] : NULL;
    SL_TRY(fix(&a->fix, &a->options.fixed));
    SL_TRY(allow(a));
    SL_TRY(allow_kinds(a));
    if (a->form == FORM_DEEPSPEED && !a->options.fixed.context && !a->options.fixed.expert)
        a->options.fixed.context = a->options.fixed.expert = 1; /* its pipeline has neither */
    SL_TRY(sl_document_read(model, &a->model_document));
    SL_TRY(sl_document_set_all(&a->model_document, a->set.text, a->set.count));
    if (a->files.count == 1 && sl_yaml_find(a->model_document.root, "pipeline"))
        return answer_profile(a);
    if (a->files.count == 1)
        return sl_error(SL_EINVAL, "choose: %s is a model, which needs a CLUSTER file as well", model);
    SL_TRY(sl_model_work_read(&a->model_document, model, &a->model));
    SL_TRY(sl_document_read(cluster, &a->cluster_document));
    SL_TRY(sl_devices_read(&a->cluster_document, &a->devices));
    set_communication(a);
    SL_TRY(search(a));
    sl_choice *first = &a->found.choice[0];
    if (a->form >= FORM_TORCHTITAN)
        return export_first(a, first);
    switch (a->form) {
    case FORM_PROBLEM:
        return print_problem(&first->problem);
    case FORM_PLAN:
        return sl_plan_write_json(&first->problem, &first->plan, stdout);
    case FORM_JSON:
        return sl_choices_write_json(&a->found, &a->model, &a->devices, stdout);
    default:
        sl_choices_write_text(&a->found, &a->model, &a->devices, stdout);
        return SL_OK;
    }
}

static int run(int argc, char **argv) {
    choose_request a = {0};
    sl_status status = sl_command_options(argc, argv, &a);
    SL_THEN(status, answer(&a));
    sl_choices_free(&a.found);
    sl_devices_free(&a.devices);
    sl_model_work_free(&a.model);
    sl_document_close(&a.cluster_document);
    sl_document_close(&a.model_document);
    SL_FREE(a.files.text, a.fix.text, a.set.text, a.names);
    return sl_plan_request_end(status);
}

const sl_command sl_command_choose = {
    .name = "choose",
    .summary = "divide a model over a cluster: sizes, cut, placement, schedule",
    .about = "Finds the sizes of tensor, context, expert, data and pipeline parallelism, the cut into "
             "stages, their "
             "placement, the size of a microbatch, recomputation, ZeRO, what is in host memory and the "
             "schedule that train a model "
             "fastest on "
             "a cluster, and how far from the best the answer can be. MODEL is a file like "
             "examples/model-70b.yaml or "
             "a Hugging Face config.json, CLUSTER a file like examples/cluster-1024.yaml (docs/choosing.md). "
             "With the "
             "PROFILE of a running job instead, it says what another schedule, microbatch, cut or size would "
             "bring.",
    .options = options,
    .example = "slackline choose examples/model-70b.yaml examples/cluster-1024.yaml",
    .run = run};
