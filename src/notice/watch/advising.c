#include "notice/watch/advising.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "launch/hook.h"
#include "notice/watch/advice.h"
#include "notice/watch/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 16, VARIABLES = 24, LONGEST = 4200 };

struct sl_advising {
    sl_advising_config config;
    char log[4200];
    sl_advice *advice;
    sl_hook *hook; /* NULL: none */
    sl_status_view view;
    sl_event held[HELD]; /* for the hook, until the view that goes with them is here */
    int helds;
    sl_time began;
    sl_time event_time, event_seen; /* an event's time, and when it was seen: basis of later events' times */
    int failing;                    /* the last call failed, and that was reported */
    char said[256];                 /* the last trouble, to report it once */
};

/* ---- the program of --on-event: the event goes to its standard input as JSON, the main fields into its
 * environment (docs/watching.md has both tables) ---- */

/* NAME=VALUE, one after the other. */
typedef struct variables {
    char *line[VARIABLES];
    int count;
    sl_status status;
} variables;

static void set(variables *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set(variables *v, const char *format, ...) {
    char line[LONGEST];
    va_list more;
    va_start(more, format);
    vsnprintf(line, sizeof line, format, more);
    va_end(more);
    if (v->status == SL_OK && v->count < VARIABLES)
        v->status = sl_copy_text(&v->line[v->count], line);
    v->count += v->status == SL_OK && v->count < VARIABLES;
}

static void clear(variables *v) {
    for (int i = 0; i < v->count; i++)
        sl_free(v->line[i]);
}

/* Whether the program is called for an event of this kind. */
static int wants(sl_event_kind kind) {
    return kind == SL_EVENT_HANG || kind == SL_EVENT_STALL || kind == SL_EVENT_MOVES ||
           kind == SL_EVENT_ONSET || kind == SL_EVENT_VERDICT || kind == SL_EVENT_RELIEF;
}

/* The content of every call. */
static json_t *describe(const sl_advising *a, const sl_event *event, variables *v) {
    const sl_advising_config *c = &a->config;
    const sl_status_view *view = &a->view;
    json_t *object = sl_event_json(event);
    if (!object)
        return NULL;
    json_object_set_new(object, "job", json_string(c->job));
    json_object_set_new(object, "directory", json_string(c->directory)); /* null if it is not UTF-8 */
    json_object_set_new(object, "status", sl_words_status_json(view));
    set(v, "SLACKLINE_EVENT=%s", sl_event_names[event->kind].name);
    set(v, "SLACKLINE_TIME_S=%.3f", (double)event->time / 1e9);
    set(v, "SLACKLINE_ITERATION=%d", event->iteration);
    set(v, "SLACKLINE_JOB=%s", c->job);
    set(v, "SLACKLINE_DIRECTORY=%s", c->directory);
    set(v, "SLACKLINE_SEEN=%s", event->seen);
    set(v, "SLACKLINE_ITERATION_MS=%.6g", view->level_ms);
    set(v, "SLACKLINE_HEALTHY_MS=%.6g", view->healthy_ms);
    if (event->rank >= 0)
        set(v, "SLACKLINE_RANK=%d", event->rank);
    if (event->from >= 0)
        set(v, "SLACKLINE_LINK=%d,%d", event->from, event->to);
    return object;
}

/* Takes the object. */
static sl_status post(const sl_advising *a, int64_t tag, const char *title, json_t *object, variables *v) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    sl_status status = text ? v->status : sl_error(SL_ENOMEM, "out of memory for an event");
    SL_THEN(status, sl_hook_post(a->hook, tag, title, text, (const char *const *)v->line, v->count));
    free(text);
    json_decref(object);
    clear(v);
    return status;
}

/* Calls it for an event that asks nothing of it; its run's tag is 0. SL_ENONE: too many wait. SL_ENOMEM. */
static sl_status call_for_event(const sl_advising *a, const sl_event *event) {
    variables v = {0};
    char title[64];
    json_t *object = describe(a, event, &v);
    snprintf(title, sizeof title, "%s, iteration %d", sl_event_names[event->kind].name, event->iteration);
    return post(a, 0, title, object, &v);
}

static json_t *incidents_json(const sl_advice *advice, const sl_orchestrator_action *action, char *ids,
                              size_t size) {
    json_t *list = json_array();
    ids[0] = 0;
    for (int i = 0; i < action->count; i++) {
        size_t used = strlen(ids);
        snprintf(ids + used, size - used, "%s%d", used ? "," : "", action->incidents[i]);
        json_array_append_new(list, sl_advice_incident_json(advice, action->incidents[i]));
    }
    return list;
}

/* Calls it to carry an action out; its run's tag is action->id + 1. */
static sl_status call_for_action(const sl_advising *a, const sl_orchestrator_action *action,
                                 const sl_event *event) {
    variables v = {0};
    char title[64], ids[256];
    const char *what = action->undo ? "undo" : "apply", *strategy = sl_advice_name(action->strategy);
    json_t *object = describe(a, event, &v);
    if (!object) {
        clear(&v);
        return sl_error(SL_ENOMEM, "out of memory for an event");
    }
    json_object_set_new(object, "action", json_string(what));
    json_object_set_new(object, "strategy", json_string(strategy));
    json_object_set_new(object, "incidents", incidents_json(a->advice, action, ids, sizeof ids));
    json_object_set_new(object, "loss", sl_json_finite(action->loss));
    json_object_set_new(object, "expected_loss", sl_json_finite(action->expected));
    json_object_set_new(object, "cost_s", json_real((double)action->cost / 1e9));
    json_object_set_new(object, "lost_s", json_real((double)action->lost / 1e9));
    json_t *split =
        action->strategy == SL_STRATEGY_BALANCE && !action->undo ? sl_advice_split_json(a->advice) : NULL;
    if (split)
        json_object_set_new(object, "split", split);
    set(&v, "SLACKLINE_ACTION=%s", what);
    set(&v, "SLACKLINE_STRATEGY=%s", strategy);
    set(&v, "SLACKLINE_INCIDENTS=%s", ids);
    set(&v, "SLACKLINE_LOSS=%.6g", action->loss);
    set(&v, "SLACKLINE_EXPECTED_LOSS=%.6g", action->expected);
    set(&v, "SLACKLINE_COST_S=%.6g", (double)action->cost / 1e9);
    snprintf(title, sizeof title, "%s %s, iteration %d", what, strategy, event->iteration);
    return post(a, action->id + 1, title, object, &v);
}

static sl_time now(const sl_advising *a) {
    return sl_now() - a->began;
}

/* Events have times since the controller's start. */
static sl_time event_time_now(const sl_advising *a) {
    return a->event_time + (now(a) - a->event_seen);
}

static void say(sl_advising *a, const char *text) {
    if (strncmp(a->said, text, sizeof a->said - 1) == 0)
        return;
    snprintf(a->said, sizeof a->said, "%.255s", text);
    a->config.say(a->config.context, text);
}

static void check(sl_advising *a, sl_status status) {
    if (status != SL_OK)
        say(a, sl_error_text());
}

/* ---- the hook ---- */

static void on_end(void *context, const sl_hook_end *end) {
    sl_advising *a = context;
    char text[400];
    if (end->result == SL_HOOK_ABSENT) {
        say(a, end->said);
    } else if (end->result == SL_HOOK_FAILED && !a->failing) { /* the next ones are in hook.log */
        snprintf(text, sizeof text, "%.100s: %.250s", a->config.program, end->said);
        say(a, text);
    }
    a->failing = end->result == SL_HOOK_FAILED;
    sl_outcome outcome = end->result == SL_HOOK_DONE     ? SL_OUTCOME_DONE
                         : end->result == SL_HOOK_PASSED ? SL_OUTCOME_REFUSED
                                                         : SL_OUTCOME_FAILED;
    if (end->tag)
        check(a, sl_advice_ended(a->advice, now(a), event_time_now(a), (int)(end->tag - 1), outcome,
                                 end->took, end->said));
}

static sl_status on_hook(void *context, int file) {
    sl_advising *a = context;
    (void)file;
    sl_hook_step(a->hook);
    return SL_OK;
}

static sl_status open_hook(sl_advising *a) {
    const sl_advising_config *c = &a->config;
    sl_hook_config config = {
        .program = c->program, .limit = c->limit, .log = a->log, .ended = on_end, .context = a};
    if (sl_hook_look(c->program) != SL_OK)
        say(a, sl_error_text());
    SL_TRY(sl_hook_open(&config, &a->hook));
    return sl_loop_watch(c->loop, sl_hook_file(a->hook), on_hook, a);
}

/* ---- advice ---- */

static void on_report(void *context, const sl_event *event) {
    sl_advising *a = context;
    a->config.report(a->config.context, event);
}

/* An action that cannot even be asked for has failed; the ladder hears of it like of any other. */
static void on_act(void *context, const sl_orchestrator_action *action, const sl_event *event) {
    sl_advising *a = context;
    if (call_for_action(a, action, event) == SL_OK)
        return;
    say(a, sl_error_text());
    check(a, sl_advice_ended(a->advice, now(a), event_time_now(a), action->id, SL_OUTCOME_FAILED, 0,
                             "it could not be called"));
}

static sl_status open_advice(sl_advising *a) {
    sl_advice_config config = {.offer = a->config.offer,
                               .carried = a->config.program != NULL,
                               .report = on_report,
                               .act = on_act,
                               .context = a};
    return sl_advice_open(&config, &a->advice);
}

sl_status sl_advising_open(const sl_advising_config *config, sl_advising **advising) {
    sl_advising *a;
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    a->config = *config;
    a->began = sl_now();
    snprintf(a->log, sizeof a->log, "%s/hook.log", config->directory);
    sl_status status;
    SL_TRY_GOTO(err_close, status, open_advice(a));
    if (config->program)
        SL_TRY_GOTO(err_close, status, open_hook(a));
    *advising = a;
    return SL_OK;
err_close:
    sl_advising_close(a);
    return status;
}

void sl_advising_close(sl_advising *a) {
    if (!a)
        return;
    if (a->hook)
        sl_loop_unwatch(a->config.loop, sl_hook_file(a->hook));
    sl_hook_close(a->hook);
    sl_advice_close(a->advice);
    sl_free(a);
}

/* An event comes before its view; the hook gets both. */
static void pass_on(sl_advising *a) {
    for (int i = 0; i < a->helds; i++)
        check(a, call_for_event(a, &a->held[i]));
    a->helds = 0;
}

void sl_advising_event(sl_advising *a, const sl_event *event) {
    a->event_time = event->time;
    a->event_seen = now(a);
    if (!a->hook || !wants(event->kind))
        return;
    if (a->helds == HELD)
        pass_on(a);
    a->held[a->helds++] = *event;
}

void sl_advising_view(sl_advising *a, const sl_status_view *view) {
    a->view = *view;
    pass_on(a);
    check(a, sl_advice_view(a->advice, now(a), event_time_now(a), view));
}

void sl_advising_tick(sl_advising *a) {
    pass_on(a);
    check(a, sl_advice_view(a->advice, now(a), event_time_now(a), NULL));
}

int sl_advising_pending(sl_advising *a) {
    pass_on(a);
    return a->hook ? sl_hook_pending(a->hook) : 0;
}

const sl_advice *sl_advising_advice(const sl_advising *a) {
    return a->advice;
}
