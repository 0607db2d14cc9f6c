/* State for a resumed job: healthy times, costs of strategies, and lasting incidents. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define FORMAT "slackline-orchestrator-1"
enum { NORM = 8, INCIDENT = 20 };

/* ---- lists of numbers ---- */

static json_t *numbers(const double *value, size_t count) {
    json_t *list = json_array();
    int failed = !list;
    for (size_t i = 0; i < count && !failed; i++)
        failed = json_array_append_new(list, json_real(isfinite(value[i]) ? value[i] : 0)) != 0;
    if (failed)
        json_decref(list);
    return failed ? NULL : list;
}

static int read_numbers(const json_t *list, double *value, size_t count) {
    int good = json_array_size(list) == count;
    for (size_t i = 0; i < count && good; i++) {
        const json_t *one = json_array_get(list, i);
        value[i] = json_number_value(one);
        good = json_is_number(one) && isfinite(value[i]) && fabs(value[i]) < 9e18;
    }
    return good;
}

/* ---- baselines: times of the problem, then norms ---- */

static size_t times_of(const sl_problem *p) {
    size_t stages = (size_t)p->stages, ranks = (size_t)p->ranks;
    return (SL_OP_KINDS + 3) * stages + 2 * ranks * ranks;
}

static size_t norms_of(const sl_problem *p) {
    size_t stages = (size_t)p->stages, ranks = (size_t)p->ranks;
    return (SL_OP_KINDS + 1) * stages + ranks * ranks;
}

/* Every time of a problem in turn, as an address to read from or write to. */
static sl_time *time_at(sl_problem *p, size_t at) {
    size_t stages = (size_t)p->stages;
    sl_time *const rows[] = {p->time[SL_F], p->time[SL_I], p->time[SL_W], p->time[SL_B],
                             p->saved,      p->gather,     p->reduce};
    if (at < (SL_OP_KINDS + 3) * stages)
        return &rows[at / stages][at % stages];
    at -= (SL_OP_KINDS + 3) * stages;
    return at % 2 ? &p->link[at / 2].transfer : &p->link[at / 2].latency;
}

static sl_usual *norm_at(const sl_baseline *b, const sl_problem *p, size_t at) {
    size_t ops = SL_OP_KINDS * (size_t)p->stages, links = (size_t)p->ranks * (size_t)p->ranks;
    return at < ops ? &b->op[at] : at < ops + links ? &b->link[at - ops] : &b->sum[at - ops - links];
}

static void put_norm(const sl_usual *n, double *to) {
    const double all[NORM] = {n->rows, n->time,  n->usual, n->spread,
                              n->work, n->slope, n->first, n->first_work};
    memcpy(to, all, sizeof all);
}

static sl_usual get_norm(const double *from) {
    return (sl_usual){.rows = from[0] > 0 && from[0] <= SL_HEALTHY_ROWS ? (int)from[0] : 0,
                      .time = from[1],
                      .usual = from[2],
                      .spread = from[3],
                      .work = from[4],
                      .slope = from[5],
                      .first = from[6],
                      .first_work = from[7]};
}

static json_t *save_baseline(const sl_baseline *b) {
    double *value = NULL;
    sl_problem *p = (sl_problem *)(b->same ? &b->same->problem : &b->problem); /* only read */
    size_t times = times_of(p), norms = b->same ? 0 : norms_of(p);
    json_t *list = NULL;
    if (sl_alloc(&value, times + NORM * norms, sizeof *value) != SL_OK)
        return NULL;
    for (size_t i = 0; i < times; i++)
        value[i] = (double)*time_at(p, i);
    for (size_t i = 0; i < norms; i++)
        put_norm(norm_at(b, p, i), value + times + NORM * i);
    list = numbers(value, times + NORM * norms);
    sl_free(value);
    return list;
}

static sl_status bad(const char *what) {
    return sl_error(SL_EINVAL, "the saved state of the orchestrator is damaged or of another job: %s", what);
}

static sl_status load_baseline(sl_orchestrator *o, int replica, const json_t *list) {
    sl_baseline *b = &o->series.healthy[replica];
    const sl_problem *shape = o->problem[replica];
    size_t times = times_of(shape), norms = norms_of(shape), count = json_array_size(list);
    double *value;
    sl_problem own;
    sl_status status;
    if (count != times && count != times + NORM * norms)
        return bad("a baseline");
    SL_TRY(sl_alloc(&value, count, sizeof *value));
    SL_TRY_GOTO(done, status, read_numbers(list, value, count) ? SL_OK : bad("a baseline"));
    SL_TRY_GOTO(done, status, sl_problem_copy(shape, &own));
    for (size_t i = 0; i < times; i++)
        *time_at(&own, i) = value[i] > 0 ? (sl_time)value[i] : 0;
    if (count == times) {
        status = sl_measured_of_problem(&own, &b->same);
        sl_problem_free(&own);
        goto done;
    }
    b->problem = own;
    SL_TRY_GOTO(done, status, sl_baseline_make_room(&b->problem, b));
    for (size_t i = 0; i < norms; i++)
        *norm_at(b, &b->problem, i) = get_norm(value + times + NORM * i);
done:
    sl_free(value);
    return status;
}

/* ---- incidents ---- */

static json_t *save_case(const sl_case *c) {
    const sl_slow_part *p = &c->view.part;
    const double all[INCIDENT] = {
        (double)c->cause, c->replica,     c->rank,         c->from,       c->to,
        c->now,           c->healthy,     c->announced,    c->view.since, c->view.verdict,
        c->view.stage,    c->view.growth, (double)p->kind, p->a,          p->b,
        p->slowdown,      p->latency[0],  p->latency[1],   p->pace[0],    p->pace[1]};
    json_t *list = numbers(all, INCIDENT);
    if (list && json_array_append_new(list, json_string(c->view.seen)) != 0) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

static sl_status load_case(sl_orchestrator *o, const json_t *saved) {
    double v[INCIDENT];
    json_t *list = json_array();
    const char *seen = json_string_value(json_array_get(saved, INCIDENT));
    for (size_t i = 0; i < INCIDENT && list; i++)
        if (json_array_append(list, json_array_get(saved, i)) != 0)
            break;
    int good = seen && read_numbers(list, v, INCIDENT), processes = o->processes;
    json_decref(list);
    good = good && v[13] >= -1 && v[13] < processes && v[14] >= -1 && v[14] < processes && v[12] >= 0 &&
           v[12] <= SL_PART_CARD && v[7] >= 0 && v[1] >= -1 && v[1] < o->config.job.replicas && v[2] >= -1 &&
           v[2] < o->config.job.ranks && v[3] < o->config.job.ranks && v[4] < o->config.job.ranks &&
           v[10] >= -1 && v[10] < o->problem[0]->stages && v[7] < 1e6;
    if (!good || o->case_count == SL_CASES_MAX)
        return bad("an incident");
    sl_case *c = &o->cases[o->case_count];
    *c = (sl_case){.cause = (sl_cause)v[0],
                   .replica = (int)v[1],
                   .rank = (int)v[2],
                   .from = (int)v[3],
                   .to = (int)v[4],
                   .now = v[5],
                   .healthy = v[6],
                   .announced = v[7],
                   .claimed = -1,
                   .seen = 1, /* until measurements show that it is over */
                   .streak = 1,
                   .level = v[11],
                   .view = {.since = (int)v[8],
                            .verdict = v[9] > 0,
                            .stage = (int)v[10],
                            .growth = v[11],
                            .loss = v[7],
                            .part = {.kind = (sl_part_kind)v[12],
                                     .a = (int)v[13],
                                     .b = (int)v[14],
                                     .slowdown = v[15],
                                     .latency = {v[16], v[17]},
                                     .pace = {v[18], v[19]}}}};
    sl_text_fit(c->view.seen, sizeof c->view.seen, seen);
    c->card = c->view.part.kind == SL_PART_CARD;
    int sum = c->cause == SL_CAUSE_REPLICA_LINK && !c->card;
    sl_component_key key = {sum ? SL_KEY_SUM : (int)c->view.part.kind, c->view.part.a, c->view.part.b};
    if (sum && c->view.part.a < 0)
        key.a = -1 - c->rank;
    SL_TRY(sl_cases_number(o, key, -1, &c->view.id));
    sl_incident announced = {.id = c->view.id, .cause = c->cause, .loss = c->announced};
    sl_text_fit(announced.seen, sizeof announced.seen, seen);
    o->case_count++;
    return sl_ladder_begins(o->ladder, o->now, &announced);
}

/* ---- the whole state ---- */

static int add(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static json_t *save_all(const sl_orchestrator *o) {
    const sl_job *job = &o->config.job;
    json_t *all = json_pack("{s:s,s:[i,i,i,i]}", "format", FORMAT, "shape", job->replicas, job->ranks,
                            o->problem[0]->stages, job->tensor);
    json_t *healthy = json_array(), *cases = json_array();
    double norm[NORM], costs[SL_STRATEGY_KINDS];
    int good = all && healthy && cases && o->series.learnt && o->losses.healthy_time > 0;
    for (int r = 0; r < job->replicas && good; r++) {
        const sl_baseline *b = &o->series.healthy[r];
        good = json_array_append_new(healthy, b->as != r           ? json_integer(b->as)
                                              : !b->same && !b->op ? json_null()
                                                                   : save_baseline(b)) == 0;
    }
    for (int i = 0; i < o->case_count && good; i++)
        if (o->cases[i].announced >= 0 && !o->cases[i].reported)
            good = json_array_append_new(cases, save_case(&o->cases[i])) == 0;
    put_norm(&o->series.iteration, norm);
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        costs[s] = o->ladder && o->strategies.rung[s] >= 0
                       ? (double)sl_ladder_cost(o->ladder, o->strategies.rung[s])
                       : (double)o->config.cost[s];
    const double times[2] = {o->losses.healthy_time, o->losses.healthy_model};
    int known = o->series.learnt && o->losses.healthy_time > 0;
    if (known && good)
        good = add(all, "healthy", json_incref(healthy)) && add(all, "incidents", json_incref(cases)) &&
               add(all, "iteration", numbers(norm, NORM)) && add(all, "times", numbers(times, 2)) &&
               add(all, "costs", numbers(costs, SL_STRATEGY_KINDS));
    json_decref(healthy);
    json_decref(cases);
    if (known && !good) {
        json_decref(all);
        return NULL;
    }
    return all;
}

sl_status sl_orchestrator_save(const sl_orchestrator *o, char **text) {
    *text = NULL;
    if (o->unknown)
        return sl_error(SL_EINVAL, "the state of a program with an unknown pipeline cannot be saved");
    json_t *all = save_all(o);
    if (all)
        *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(all);
    return *text ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the saved state of the orchestrator");
}

static sl_status load_healthy(sl_orchestrator *o, const json_t *list) {
    if ((int)json_array_size(list) != o->config.job.replicas)
        return bad("replicas");
    for (int r = 0; r < o->config.job.replicas; r++) {
        const json_t *one = json_array_get(list, (size_t)r);
        int as = json_is_integer(one) ? (int)json_integer_value(one) : r;
        if (as < 0 || as > r || (as < r && o->series.healthy[as].as != as))
            return bad("a replica that is like another");
        sl_history_clear(&o->series, r, as);
        if (json_is_array(one))
            SL_TRY(load_baseline(o, r, one));
    }
    return SL_OK;
}

static sl_status load_all(sl_orchestrator *o, const json_t *all) {
    double shape[4], norm[NORM], times[2], costs[SL_STRATEGY_KINDS];
    const sl_job *job = &o->config.job;
    const char *format = json_string_value(json_object_get(all, "format"));
    if (!format || strcmp(format, FORMAT) != 0 || !read_numbers(json_object_get(all, "shape"), shape, 4))
        return bad("its format");
    if (shape[0] != job->replicas || shape[1] != job->ranks || shape[2] != o->problem[0]->stages ||
        shape[3] != job->tensor)
        return bad("its shape");
    const json_t *healthy = json_object_get(all, "healthy");
    if (!healthy) /* nothing was known yet */
        return SL_OK;
    if (!read_numbers(json_object_get(all, "iteration"), norm, NORM) ||
        !read_numbers(json_object_get(all, "times"), times, 2) || !(times[0] > 0) || !(times[1] > 0) ||
        !read_numbers(json_object_get(all, "costs"), costs, SL_STRATEGY_KINDS))
        return bad("its times");
    SL_TRY(load_healthy(o, healthy));
    o->series.iteration = get_norm(norm);
    o->series.learnt = 1;
    o->series.learns++;
    o->losses.healthy_time = times[0];
    o->losses.healthy_model = times[1];
    for (int s = 0; s < SL_STRATEGY_KINDS; s++)
        if (costs[s] >= 0)
            o->config.cost[s] = (sl_time)costs[s];
    SL_TRY(sl_losses_open_model(o));
    SL_TRY(sl_strategies_open(o));
    const json_t *cases = json_object_get(all, "incidents");
    for (size_t i = 0; i < json_array_size(cases); i++)
        SL_TRY(load_case(o, json_array_get(cases, i)));
    sl_incidents_view(o);
    return SL_OK;
}

/* As it was opened. */
static sl_status unload(sl_orchestrator *o, const sl_time *cost) {
    for (int r = 0; r < o->config.job.replicas; r++)
        sl_history_clear(&o->series, r, r);
    o->series.iteration = (sl_usual){0};
    o->series.learnt = o->series.learns = o->losses.renewed = 0;
    o->losses.healthy_time = o->losses.healthy_model = 0;
    memcpy(o->config.cost, cost, sizeof o->config.cost);
    sl_model_close(o->losses.model);
    sl_ladder_close(o->ladder);
    o->losses.model = NULL;
    o->ladder = NULL;
    o->case_count = o->views = o->numbers.last_number = 0;
    o->numbers.keys = 0;
    return o->config.paced ? sl_history_assume(&o->series, o->problem) : SL_OK;
}

sl_status sl_orchestrator_load(sl_orchestrator *o, const char *text) {
    json_error_t error;
    if (o->unknown || o->observed)
        return sl_error(SL_EINVAL,
                        "only an orchestrator that was just opened for a known pipeline can be loaded");
    SL_TRY(sl_recording_call(o->recording, SL_CALL_LOAD, (sl_recorded_values){.text = text}));
    json_t *all = json_loads(text, 0, &error);
    if (!all)
        return sl_error(SL_EINVAL, "the saved state of the orchestrator, line %d: %s", error.line,
                        error.text);
    sl_time cost[SL_STRATEGY_KINDS];
    memcpy(cost, o->config.cost, sizeof cost);
    sl_status status = load_all(o, all);
    json_decref(all);
    return status == SL_OK ? SL_OK : unload(o, cost) == SL_OK ? status : SL_ENOMEM;
}
