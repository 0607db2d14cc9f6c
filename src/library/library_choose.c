#include "base/memory.h"
#include "choose/search/choices_write.h"
#include "choose/search/shape_search.h"
#include "library/library_handles.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"

#include <stdio.h>
#include <string.h>

#define MAX_ALLOWED 32
#define MAX_ARRANGEMENTS 32

struct slackline_chooser {
    sl_choose_options options;            /* without `stop` and `schedules` */
    const char *allowed[MAX_ALLOWED + 1]; /* names of sl_families, ended by NULL */
    atomic_int stop; /* written by slackline_chooser_stop, from any thread; read by searches */
};

struct slackline_choices {
    sl_model_work model;
    sl_devices devices;
    sl_choices found;
};

/* ---- the chooser ---- */

SL_PUBLIC slackline_status slackline_chooser_make(slackline_chooser **chooser) {
    SL_LIBRARY_TRY(sl_alloc(chooser, 1, sizeof **chooser));
    (*chooser)->options =
        (sl_choose_options){.fixed = sl_shape_free(), .time_limit = 10, .most = 8, .seed = 1};
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_chooser_free(slackline_chooser *chooser) {
    sl_free(chooser);
}

SL_PUBLIC slackline_status slackline_chooser_fix(slackline_chooser *chooser, const char *name,
                                                 const char *value) {
    sl_status status = sl_library_need(name, "the name of a fixed value");
    SL_THEN(status, sl_library_need(value, "a fixed value"));
    SL_LIBRARY_TRY(status);
    if (sl_shape_fix(&chooser->options.fixed, name, value) != SL_OK)
        return sl_library_status(sl_error(SL_EINVAL, "fix %s", sl_error_text()));
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_chooser_allow(slackline_chooser *chooser, const char *schedule) {
    SL_LIBRARY_TRY(sl_library_need(schedule, "the name of a schedule"));
    const sl_family *family = sl_family_find(schedule);
    int count = 0;
    if (!family)
        return sl_library_status(sl_error(SL_EINVAL, "unknown schedule family '%s'", schedule));
    while (chooser->allowed[count] && strcmp(chooser->allowed[count], schedule) != 0)
        count++;
    if (count == MAX_ALLOWED)
        return sl_library_status(sl_error(SL_EINVAL, "at most %d schedules", MAX_ALLOWED));
    chooser->allowed[count] = family->name;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_chooser_set_time_limit(slackline_chooser *chooser, double seconds) {
    SL_LIBRARY_TRY(sl_library_number("a time limit", seconds, 0, 86400));
    chooser->options.time_limit = seconds;
    return SLACKLINE_OK;
}

SL_PUBLIC slackline_status slackline_chooser_set_most(slackline_chooser *chooser, int arrangements) {
    SL_LIBRARY_TRY(sl_library_between("arrangements", arrangements, 1, MAX_ARRANGEMENTS));
    chooser->options.most = arrangements;
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_chooser_set_seed(slackline_chooser *chooser, uint64_t seed) {
    chooser->options.seed = seed;
}

SL_PUBLIC slackline_status slackline_chooser_set_threads(slackline_chooser *chooser, int threads) {
    if (threads < 0)
        return sl_library_status(sl_error(SL_EINVAL, "threads must be at least 0, got %d", threads));
    chooser->options.threads = threads;
    return SLACKLINE_OK;
}

SL_PUBLIC void slackline_chooser_stop(slackline_chooser *chooser) {
    atomic_store(&chooser->stop, 1);
}

/* ---- searching ---- */

static sl_status choose(const slackline_chooser *chooser, sl_document *model, const char *name,
                        const sl_document *cluster, const char *const *set, int sets,
                        slackline_choices *choices) {
    sl_choose_options options = chooser->options;
    options.schedules = chooser->allowed[0] ? chooser->allowed : NULL;
    options.stop = &chooser->stop;
    for (int i = 0; i < sets; i++)
        SL_TRY(sl_document_set(model, set[i]));
    SL_TRY(sl_model_work_read(model, name, &choices->model));
    SL_TRY(sl_devices_read(cluster, &choices->devices));
    return sl_choose(&choices->model, &choices->devices, &options, &choices->found);
}

/* Takes the documents. */
static slackline_status from_documents(sl_status status, const slackline_chooser *chooser, sl_document *model,
                                       const char *name, sl_document *cluster, const char *const *set,
                                       int sets, slackline_choices **choices) {
    slackline_choices *made = NULL;
    *choices = NULL;
    SL_THEN(status, sl_alloc(&made, 1, sizeof *made));
    SL_THEN(status, choose(chooser, model, name, cluster, set, sets, made));
    sl_document_close(model);
    sl_document_close(cluster);
    if (status == SL_OK)
        *choices = made;
    else
        slackline_choices_free(made);
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_chooser_read(const slackline_chooser *chooser, const char *model,
                                                  const char *cluster, const char *const *set, int sets,
                                                  slackline_choices **choices) {
    SL_PLAIN_NUMBERS;
    sl_document model_document = {0}, cluster_document = {0};
    sl_status status = sl_document_read(model, &model_document);
    SL_THEN(status, sl_document_read(cluster, &cluster_document));
    return from_documents(status, chooser, &model_document, model, &cluster_document, set, sets, choices);
}

SL_PUBLIC slackline_status slackline_chooser_parse(const slackline_chooser *chooser, const char *model_name,
                                                   const char *model, const char *cluster_name,
                                                   const char *cluster, const char *const *set, int sets,
                                                   slackline_choices **choices) {
    SL_PLAIN_NUMBERS;
    sl_document model_document = {0}, cluster_document = {0};
    sl_status status = sl_document_parse(model_name, model, &model_document);
    SL_THEN(status, sl_document_parse(cluster_name, cluster, &cluster_document));
    return from_documents(status, chooser, &model_document, model_name, &cluster_document, set, sets,
                          choices);
}

/* ---- choices ---- */

SL_PUBLIC void slackline_choices_free(slackline_choices *choices) {
    if (!choices)
        return;
    sl_choices_free(&choices->found);
    sl_devices_free(&choices->devices);
    sl_model_work_free(&choices->model);
    sl_free(choices);
}

SL_PUBLIC void slackline_choices_summary_of(const slackline_choices *choices,
                                            slackline_choices_summary *summary) {
    const sl_choices *f = &choices->found;
    *summary = (slackline_choices_summary){
        .arrangements = f->count,
        .bound_ns = f->bound,
        .gap = f->bound > 0 ? (double)(f->choice[0].time - f->bound) / (double)f->bound : 0,
        .shapes = f->shapes,
        .dismissed = f->dismissed,
        .estimated = f->estimated,
        .planned = f->planned,
        .solve_ns = (int64_t)(f->seconds * 1e9)};
}

static const sl_choice *choice_of(const slackline_choices *choices, int index) {
    return index >= 0 && index < choices->found.count ? &choices->found.choice[index] : NULL;
}

static int recomputed(const sl_problem *p) {
    int count = 0;
    for (int stage = 0; stage < p->stages; stage++)
        count += p->recompute[stage];
    return count;
}

SL_PUBLIC void slackline_choices_arrangement(const slackline_choices *choices, int index,
                                             slackline_arrangement *arrangement) {
    const sl_choice *c = choice_of(choices, index);
    *arrangement = (slackline_arrangement){0};
    if (!c)
        return;
    const sl_shape *s = &c->shape;
    *arrangement = (slackline_arrangement){.tensor = s->division.tensor,
                                           .context = s->division.context,
                                           .expert = s->division.expert,
                                           .data = s->data,
                                           .pipeline = s->pipeline,
                                           .chunks = s->chunks,
                                           .placement = (slackline_placement)s->placement,
                                           .stages = c->problem.stages,
                                           .size = s->division.size,
                                           .microbatches = c->problem.microbatches,
                                           .zero = s->zero,
                                           .recomputed_stages = recomputed(&c->problem),
                                           .recompute = sl_recompute_names[s->division.recompute],
                                           .neighbors = sl_neighbors_names[s->neighbors],
                                           .schedule = c->plan.schedule,
                                           .time_ns = c->time,
                                           .bound_ns = c->bound,
                                           .memory = c->memory,
                                           .tokens_per_s = c->tokens_per_s};
}

SL_PUBLIC int slackline_choices_first_layer(const slackline_choices *choices, int index, int stage) {
    const sl_choice *c = choice_of(choices, index);
    return c && stage >= 0 && stage <= c->problem.stages ? c->problem.layers->first[stage] : -1;
}

SL_PUBLIC int slackline_choices_recomputes(const slackline_choices *choices, int index, int stage) {
    const sl_choice *c = choice_of(choices, index);
    return c && stage >= 0 && stage < c->problem.stages && c->problem.recompute[stage];
}

SL_PUBLIC double slackline_choices_memory(const slackline_choices *choices, int index, int rank) {
    const sl_choice *c = choice_of(choices, index);
    return c && rank >= 0 && rank < c->problem.ranks ? c->plan.peak_memory[rank] : 0;
}

SL_PUBLIC const char *slackline_choices_offload(const slackline_choices *choices, int index) {
    const sl_choice *c = choice_of(choices, index);
    return c ? sl_host_use_names[c->shape.offload] : NULL;
}

SL_PUBLIC double slackline_choices_host_memory(const slackline_choices *choices, int index) {
    const sl_choice *c = choice_of(choices, index);
    return c ? c->host_memory : 0;
}

SL_PUBLIC int slackline_choices_microbatches(const slackline_choices *choices, int index, int replica) {
    const sl_choice *c = choice_of(choices, index);
    return c && replica >= 0 && replica < c->shape.data ? sl_choice_microbatches(c, replica) : 0;
}

SL_PUBLIC int slackline_choices_device(const slackline_choices *choices, int index, int rank) {
    const sl_choice *c = choice_of(choices, index);
    return c && rank >= 0 && rank < choices->devices.count ? sl_choice_device(c, rank) : -1;
}

SL_PUBLIC const char *slackline_choices_communication(const slackline_choices *choices, int index,
                                                      const char **communicators) {
    const sl_choice *c = choice_of(choices, index);
    int is_fifo = c && c->problem.communication == SL_FIFO;
    if (communicators)
        *communicators = is_fifo ? sl_communicators_names[c->problem.communicators] : NULL;
    return c ? sl_regime_names[c->problem.communication] : NULL;
}

/* ---- one of them ---- */

static sl_status need_choice(const slackline_choices *choices, int index) {
    return sl_library_between("the index of an arrangement", index, 0, choices->found.count - 1);
}

static sl_status copy_problem(const sl_choice *c, slackline_problem **problem) {
    SL_TRY(sl_alloc(problem, 1, sizeof **problem));
    SL_TRY(sl_problem_copy(&c->problem, &(*problem)->problem));
    return sl_library_mark(*problem);
}

SL_PUBLIC slackline_status slackline_choices_problem(const slackline_choices *choices, int index,
                                                     slackline_problem **problem) {
    *problem = NULL;
    SL_LIBRARY_TRY(need_choice(choices, index));
    sl_status status = copy_problem(&choices->found.choice[index], problem);
    if (status != SL_OK) {
        slackline_problem_free(*problem);
        *problem = NULL;
    }
    return sl_library_status(status);
}

/* The choice's plan, made again from its order. */
static sl_status copy_plan(const sl_choice *c, slackline_plan **plan) {
    SL_TRY(sl_alloc(plan, 1, sizeof **plan));
    SL_TRY(sl_problem_copy(&c->problem, &(*plan)->problem));
    sl_plan *p = &(*plan)->plan;
    SL_TRY(sl_plan_of_order(&(*plan)->problem, &c->plan.order, c->plan.schedule, p));
    memcpy(p->why, c->plan.why, sizeof p->why);
    p->bound = c->plan.bound;
    p->solve = c->plan.solve;
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_choices_plan(const slackline_choices *choices, int index,
                                                  slackline_plan **plan) {
    SL_PLAIN_NUMBERS;
    *plan = NULL;
    SL_LIBRARY_TRY(need_choice(choices, index));
    sl_status status = copy_plan(&choices->found.choice[index], plan);
    if (status != SL_OK) {
        slackline_plan_free(*plan);
        *plan = NULL;
    }
    return sl_library_status(status);
}

/* ---- as text ---- */

static sl_status write_form(const slackline_choices *c, const char *format, FILE *out) {
    if (strcmp(format, "json") == 0)
        return sl_choices_write_json(&c->found, &c->model, &c->devices, out);
    if (strcmp(format, "text") != 0)
        return sl_error(SL_EINVAL, "unknown format of choices '%s'; known: text and json", format);
    sl_choices_write_text(&c->found, &c->model, &c->devices, out);
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_choices_write(const slackline_choices *choices, const char *format,
                                                   char **text, size_t *size) {
    SL_PLAIN_NUMBERS;
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    sl_status status =
        out ? write_form(choices, format, out) : sl_error(SL_ENOMEM, "out of memory for a text");
    return sl_library_close_text(out, status, text, &length, size);
}
