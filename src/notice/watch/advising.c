#include "notice/watch/advising.h"
#include "base/clock.h"
#include "base/memory.h"
#include "notice/watch/calling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 16 };

struct sl_advising {
    sl_advising_config config;
    char log[4200];
    sl_advice *advice;
    sl_calling calling; /* hook NULL: none */
    sl_status_view view;
    sl_event held[HELD]; /* for the hook, until the view that goes with them is here */
    int helds;
    sl_time began;
    sl_time event_time, event_seen; /* an event's time, and when it was seen: what events bear next */
    int failing;                    /* the last call has failed, and that was said */
    char said[256];                 /* the last trouble, which is not said again and again */
};

static sl_time now(const sl_advising *a) {
    return sl_now() - a->began;
}

/* Events bear times since the controller's start. */
static sl_time told(const sl_advising *a) {
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
        check(a, sl_advice_ended(a->advice, now(a), told(a), (int)(end->tag - 1), outcome, end->took,
                                 end->said));
}

static sl_status on_hook(void *context, int file) {
    sl_advising *a = context;
    (void)file;
    sl_hook_step(a->calling.hook);
    return SL_OK;
}

static sl_status open_hook(sl_advising *a) {
    const sl_advising_config *c = &a->config;
    sl_hook_config config = {
        .program = c->program, .limit = c->limit, .log = a->log, .ended = on_end, .context = a};
    if (sl_hook_look(c->program) != SL_OK)
        say(a, sl_error_text());
    SL_TRY(sl_hook_open(&config, &a->calling.hook));
    return sl_loop_watch(c->loop, sl_hook_file(a->calling.hook), on_hook, a);
}

/* ---- advice ---- */

static void on_tell(void *context, const sl_event *event) {
    sl_advising *a = context;
    a->config.tell(a->config.context, event);
}

/* An action that cannot even be asked for has failed; the ladder hears of it like of any other. */
static void on_act(void *context, const sl_orchestrator_action *action, const sl_event *event) {
    sl_advising *a = context;
    if (sl_calling_action(&a->calling, a->advice, action, event, &a->view) == SL_OK)
        return;
    say(a, sl_error_text());
    check(a, sl_advice_ended(a->advice, now(a), told(a), action->id, SL_OUTCOME_FAILED, 0,
                             "it could not be called"));
}

static sl_status open_advice(sl_advising *a) {
    sl_advice_config config = {.offer = a->config.offer,
                               .carried = a->config.program != NULL,
                               .tell = on_tell,
                               .act = on_act,
                               .context = a};
    return sl_advice_open(&config, &a->advice);
}

sl_status sl_advising_open(const sl_advising_config *config, sl_advising **advising) {
    sl_advising *a;
    SL_TRY(sl_alloc(&a, 1, sizeof *a));
    a->config = *config;
    a->began = sl_now();
    a->calling = (sl_calling){.job = config->job, .directory = config->directory};
    snprintf(a->log, sizeof a->log, "%s/hook.log", config->directory);
    sl_status status = open_advice(a);
    if (status == SL_OK && config->program)
        status = open_hook(a);
    if (status == SL_OK)
        *advising = a;
    else
        sl_advising_close(a);
    return status;
}

void sl_advising_close(sl_advising *a) {
    if (!a)
        return;
    if (a->calling.hook)
        sl_loop_unwatch(a->config.loop, sl_hook_file(a->calling.hook));
    sl_hook_close(a->calling.hook);
    sl_advice_close(a->advice);
    sl_free(a);
}

/* An event is said before the view that it belongs to; the hook is told both. */
static void pass_on(sl_advising *a) {
    for (int i = 0; i < a->helds; i++)
        check(a, sl_calling_event(&a->calling, &a->held[i], &a->view));
    a->helds = 0;
}

void sl_advising_event(sl_advising *a, const sl_event *event) {
    a->event_time = event->time;
    a->event_seen = now(a);
    if (!a->calling.hook || !sl_calling_wants(event->kind))
        return;
    if (a->helds == HELD)
        pass_on(a);
    a->held[a->helds++] = *event;
}

void sl_advising_view(sl_advising *a, const sl_status_view *view) {
    a->view = *view;
    pass_on(a);
    check(a, sl_advice_view(a->advice, now(a), told(a), view));
}

void sl_advising_tick(sl_advising *a) {
    pass_on(a);
    check(a, sl_advice_view(a->advice, now(a), told(a), NULL));
}

int sl_advising_pending(sl_advising *a) {
    pass_on(a);
    return a->calling.hook ? sl_hook_pending(a->calling.hook) : 0;
}

void sl_advising_line(const sl_advising *a, char *text, size_t size) {
    sl_advice_line(a->advice, text, size);
}

json_t *sl_advising_json(const sl_advising *a) {
    return sl_advice_json(a->advice);
}

sl_status sl_advising_text(const sl_advising *a, char **text) {
    return sl_advice_text(a->advice, text);
}
