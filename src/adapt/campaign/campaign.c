#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sl_status sl_campaign_make(const sl_problem *problem, sl_campaign *c) {
    static const sl_time cost[SL_STRATEGY_KINDS] = {50 * SL_MS, 50 * SL_MS, SL_SECOND, 30 * SL_SECOND,
                                                    600 * SL_SECOND};
    *c = (sl_campaign){.replicas = 1,
                       .tensor = 1,
                       .iterations = 0,
                       .ring_pace = 0,
                       .notice = 3,
                       .host_devices = 8,
                       .effort = 0.05,
                       .seed = 1,
                       .ladder = sl_ladder_defaults()};
    memcpy(c->cost, cost, sizeof cost);
    memcpy(c->undo, cost, sizeof cost);
    c->undo[SL_STRATEGY_RESTART] = 0;
    SL_TRY(sl_copy_text(&c->schedule, problem->placement == SL_LINEAR ? "1f1b" : "auto"));
    SL_TRY(sl_copy_text(&c->adapt_with, "auto"));
    return sl_problem_copy(problem, &c->problem);
}

void sl_campaign_free(sl_campaign *c) {
    sl_problem_free(&c->problem);
    SL_FREE(c->schedule, c->adapt_with);
    for (int i = 0; i < c->families; i++)
        sl_free(c->family[i]);
    sl_free(c->fault);
    *c = (sl_campaign){0};
}

/* ---- faults ---- */

static void describe_component(const sl_campaign *c, const sl_campaign_fault *f, char *text, size_t size) {
    int r = c->replicas, a = f->a, b = f->b;
    if (f->kind == SL_FAULT_STOP)
        snprintf(text, size, "%s", f->is_rail ? "a NIC is lost" : "the job stops");
    else if (f->kind == SL_FAULT_LINK && a % r == b % r)
        snprintf(text, size, "link %d-%d of replica %d", a / r, b / r, a % r);
    else if (f->kind == SL_FAULT_LINK && a / r == b / r)
        snprintf(text, size, "link of replicas %d-%d at rank %d", a % r, b % r, a / r);
    else if (f->kind == SL_FAULT_LINK)
        snprintf(text, size, "link of rank %d of replica %d and rank %d of replica %d", a / r, a % r, b / r,
                 b % r);
    else if (a == b)
        snprintf(text, size, "%s of rank %d of replica %d", f->kind == SL_FAULT_NIC ? "card" : "device",
                 a / r, a % r);
    else
        snprintf(text, size, "%s from rank %d of replica %d to rank %d of replica %d",
                 f->kind == SL_FAULT_NIC ? "cards" : "devices", a / r, a % r, b / r, b % r);
}

static void describe(const sl_campaign *c, sl_campaign_fault *f) {
    char component[96];
    describe_component(c, f, component, sizeof component);
    if (f->kind == SL_FAULT_STOP)
        sl_text_fit(f->seen, sizeof f->seen, component);
    else if (f->kind == SL_FAULT_DEVICE)
        sl_text_format(f->seen, sizeof f->seen, "%s: ops take %.4g times as long", component, f->slowdown);
    else if (f->latency >= 0 && f->slowdown > 1)
        sl_text_format(f->seen, sizeof f->seen, "%s: %.4g ms one way, transfers x %.4g", component,
                       sl_to_ms(f->latency), f->slowdown);
    else if (f->latency >= 0)
        sl_text_format(f->seen, sizeof f->seen, "%s: %.4g ms one way", component, sl_to_ms(f->latency));
    else
        sl_text_format(f->seen, sizeof f->seen, "%s: transfers take %.4g times as long", component,
                       f->slowdown);
}

static sl_status check(const sl_campaign *c, const sl_campaign_fault *f) {
    int positions = c->replicas * c->problem.ranks;
    if (f->first < 0 || f->until <= f->first)
        return sl_error(SL_EINVAL, "a fault must end after it began, and begin at 0 or later");
    if (f->kind == SL_FAULT_STOP)
        return SL_OK;
    if (f->a < 0 || f->b < 0 || f->a >= positions || f->b >= positions)
        return sl_error(SL_EINVAL, "there are %d replicas of %d ranks", c->replicas, c->problem.ranks);
    if (f->kind == SL_FAULT_LINK && f->a == f->b)
        return sl_error(SL_EINVAL, "a link needs two different ends");
    if (!(f->slowdown >= 1 && f->slowdown <= 1e6))
        return sl_error(SL_EINVAL, "a slowdown is from 1 to 1e6, not %g", f->slowdown);
    if (f->kind != SL_FAULT_LINK && f->b < f->a)
        return sl_error(SL_EINVAL, "a range of devices must ascend");
    return SL_OK;
}

sl_status sl_campaign_add(sl_campaign *c, const sl_campaign_fault *fault) {
    SL_TRY(check(c, fault));
    if (c->faults >= SL_CAMPAIGN_FAULTS)
        return sl_error(SL_EINVAL, "more than %d events", SL_CAMPAIGN_FAULTS);
    SL_TRY(sl_grow(&c->fault, &c->fault_room, c->faults + 1, sizeof *c->fault));
    size_t at = c->faults++;
    for (; at > 0 && c->fault[at - 1].first > fault->first; at--)
        c->fault[at] = c->fault[at - 1];
    c->fault[at] = *fault;
    describe(c, &c->fault[at]);
    return SL_OK;
}

/* The end of the span in which faults matter; SL_FAULT_LASTS: unknown. */
static int64_t horizon(const sl_campaign *c) {
    if (c->by_time && c->duration > 0)
        return c->duration > INT64_MAX / 8 ? c->duration : 4 * c->duration;
    return !c->by_time && c->iterations > 0 ? c->iterations : SL_FAULT_LASTS;
}

sl_status sl_campaign_add_spells(sl_campaign *c, const sl_campaign_fault *fault, int64_t every,
                                 int64_t lasts) {
    const int64_t known = horizon(c), end = fault->until < known ? fault->until : known;
    sl_campaign_fault spell = *fault;
    if (fault->kind == SL_FAULT_STOP)
        return sl_error(SL_EINVAL, "a stop cannot have spells");
    if (lasts < 1 || every <= lasts)
        return sl_error(SL_EINVAL, "spells need 'for' above 0 and 'every' longer than that");
    if (end == SL_FAULT_LASTS)
        return sl_error(SL_EINVAL, "spells need an end, or a job whose length is given in the same unit");
    if (end > fault->first && (end - fault->first - 1) / every >= SL_CAMPAIGN_FAULTS - (int64_t)c->faults)
        return sl_error(SL_EINVAL, "makes %lld spells; at most %d events are possible in all",
                        (long long)((end - fault->first - 1) / every + 1), SL_CAMPAIGN_FAULTS);
    for (; spell.first < end; spell.first += every) {
        spell.until = end - spell.first < lasts ? end : spell.first + lasts;
        SL_TRY(sl_campaign_add(c, &spell));
    }
    return SL_OK;
}

static int devices_of(const sl_campaign *c) {
    return c->replicas * c->problem.ranks * c->tensor;
}

int sl_campaign_hosts(const sl_campaign *c) {
    return (devices_of(c) + c->host_devices - 1) / c->host_devices;
}

void sl_campaign_host_range(const sl_campaign *c, int host, int *first, int *last) {
    int end = (host + 1) * c->host_devices;
    *first = host * c->host_devices / c->tensor;
    *last = ((end < devices_of(c) ? end : devices_of(c)) - 1) / c->tensor;
}

/* ---- running ---- */

static sl_status play_family(sl_world *w, const char *family, int may_fail, sl_campaign_result *result) {
    char name[48];
    sl_plan plan;
    int number = 0;
    sl_status status = sl_plan_make(&w->healthy, family, &plan);
    if (status == SL_OK)
        status = sl_world_number(w, &plan, w->healthy.microbatches, &number);
    else if (may_fail && (status == SL_EINVAL || status == SL_ENONE))
        number = -1;
    sl_plan_free(&plan);
    if (number < 0)
        return SL_OK;
    SL_TRY(status);
    snprintf(name, sizeof name, "%s%s", strncmp(family, "zb", 2) == 0 ? "zero-bubble " : "only ", family);
    return sl_campaign_play(w, name, 0, number, 0, &result->row[result->rows++]);
}

static sl_status play_all(sl_world *w, int log, sl_campaign_result *result) {
    static const struct {
        const char *name;
        unsigned can;
    } rows[] = {{"adapt", 1u << SL_STRATEGY_SCHEDULE},
                {"delegate", 1u << SL_STRATEGY_DELEGATE},
                {"balance", 1u << SL_STRATEGY_BALANCE},
                {"topology", 1u << SL_STRATEGY_TOPOLOGY},
                {"restart", 1u << SL_STRATEGY_RESTART},
                {"adapt+delegate", 1u << SL_STRATEGY_SCHEDULE | 1u << SL_STRATEGY_DELEGATE},
                {"ladder", (1u << SL_STRATEGY_KINDS) - 1}};
    const sl_campaign *c = w->campaign;
    SL_TRY(sl_campaign_play(w, "ignore", 0, 0, 0, &result->row[result->rows++]));
    for (int i = 0; i < c->families; i++)
        SL_TRY(play_family(w, c->family[i], c->families_may_fail, result));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        SL_TRY(sl_campaign_play(w, rows[i].name, rows[i].can, 0, log, &result->row[result->rows++]));
    int others = result->rows++;
    return sl_campaign_hindsight(w, result->row, others, &result->row[others]);
}

/* As many iterations as a healthy job completes in the given time. */
static sl_status count_iterations(sl_campaign *c, sl_time healthy) {
    int64_t count = c->iterations;
    if (healthy < 1)
        return sl_error(SL_EINVAL, "an iteration of this job takes no time");
    if (c->duration > 0)
        count = c->duration / healthy;
    if (count < 1 || count > SL_CAMPAIGN_ITERATIONS)
        return sl_error(SL_EINVAL,
                        "a job of %lld iterations; 1 to %d are possible (a healthy one takes %g ms)",
                        (long long)count, SL_CAMPAIGN_ITERATIONS, sl_to_ms(healthy));
    c->iterations = (int)count;
    return SL_OK;
}

static sl_status run(sl_world *w, sl_campaign *c, int log, sl_campaign_result *result) {
    result->healthy = w->first.makespan + c->other;
    SL_TRY(count_iterations(c, result->healthy));
    result->iterations = c->iterations;
    SL_TRY(sl_alloc(&result->row, (size_t)(9 + c->families), sizeof *result->row));
    SL_TRY(play_all(w, log, result));
    result->states = (long long)w->scene_keys.count;
    result->replays = w->replays;
    result->plans = (long long)w->plan_keys.count;
    return SL_OK;
}

sl_status sl_campaign_run(const sl_campaign *campaign, int log, sl_campaign_result *result) {
    sl_campaign c = *campaign; /* iterations are set here; all else stays the caller's */
    sl_world w = {0};
    *result = (sl_campaign_result){0};
    sl_status status = sl_world_open(&c, &w);
    SL_THEN(status, run(&w, &c, log, result));
    sl_world_close(&w);
    return status;
}

void sl_campaign_result_free(sl_campaign_result *result) {
    for (int i = 0; i < result->rows; i++) {
        SL_FREE(result->row[i].stretch, result->row[i].log, result->row[i].events);
    }
    sl_free(result->row);
    *result = (sl_campaign_result){0};
}

double sl_campaign_recovered(const sl_campaign_result *result, const sl_campaign_row *row) {
    double healthy = (double)result->healthy * result->iterations;
    double ignored = (double)result->row[0].total;
    return ignored > healthy ? (ignored - (double)row->total) / (ignored - healthy) : 0;
}
