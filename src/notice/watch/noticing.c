#include "notice/watch/noticing.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "notice/agent/agent.h"
#include "notice/control/controller.h"
#include "notice/hang/hang.h"
#include "notice/watch/published.h"
#include "notice/watch/words.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* watch.json: the state of a watched job, for viewers of the folder (src/dashboard), during the run and
 * afterwards. One object: `job`, `program`, `status` as in /status.json, and lists of short lists, because
 * jobs may be large (docs/watching.md). */

static json_t *hosts_of(const sl_nodes *nodes) {
    json_t *hosts = json_array();
    for (size_t i = 0; i < nodes->count; i++)
        json_array_append_new(hosts, json_string(nodes->node[i].name));
    return hosts;
}

/* [ms, host, process, gone] */
static json_t *ranks_of(const sl_standing *standing) {
    json_t *ranks = json_array();
    for (size_t i = 0; i < standing->ranks; i++) {
        const sl_standing_rank *r = &standing->rank[i];
        json_array_append_new(
            ranks, json_pack("[o,i,i,i]", sl_json_finite((double)r->ms), r->node, r->pid, r->gone));
    }
    return ranks;
}

static json_t *links_of(const sl_traffic *traffic) {
    json_t *links = json_array();
    for (size_t i = 0; i < traffic->links; i++) {
        const sl_traffic_link *l = &traffic->link[i];
        double ms = l->timed > 0 ? l->busy_ms / (double)l->timed : NAN;
        json_array_append_new(links, json_pack("[i,i,I,I,o,o]", l->from, l->to, (json_int_t)l->messages,
                                               (json_int_t)l->bytes, sl_json_finite(ms),
                                               sl_json_finite(l->usual_ms)));
    }
    return links;
}

/* Times in us, whole numbers: there may be thousands of calls. */
static json_t *calls_of(const sl_call_excerpt *e) {
    if (!e->call)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < e->calls; i++) {
        const sl_excerpt_call *c = &e->call[i];
        json_array_append_new(list, json_pack("[i,s,I,I]", c->rank, sl_call_name(c->call),
                                              (json_int_t)(c->start / 1000), (json_int_t)(c->length / 1000)));
    }
    return json_pack("{s:I,s:b,s:I,s:I,s:o}", "iteration", (json_int_t)e->iteration, "slow", e->slow, "length_us",
                     (json_int_t)(e->length / 1000), "left_out", (json_int_t)e->left_out, "list", list);
}

static json_t *iterations_of(const sl_standing *standing) {
    json_t *points = json_array();
    for (int i = 0; i < standing->points; i++) {
        const sl_standing_point *p = &standing->point[i];
        json_t *one = json_pack("[I,o]", (json_int_t)p->iteration, sl_json_finite(p->ms));
        if (p->held)
            json_array_append_new(one, json_integer(1));
        json_array_append_new(points, one);
    }
    return points;
}

/* A line; free(). NULL: no memory. */
static char *sl_standing_text(const sl_controller *controller, const char *job, const char *program) {
    const sl_standing *standing = sl_controller_standing(controller);
    json_t *all = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "job", job, "program", program ? program : "",
                            "status", sl_words_status_json(sl_controller_status(controller)), "hosts",
                            hosts_of(sl_controller_nodes(controller)), "ranks", ranks_of(standing), "links",
                            links_of(&standing->traffic), "iterations", iterations_of(standing), "calls",
                            calls_of(&standing->excerpt));
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(all);
    return text;
}

#define REPORTED_LASTS (60 * SL_SECOND)
#define MEET_LIMIT (30 * SL_SECOND)
#define LONGEST_SLEEP (SL_SECOND / 2) /* for changes without a wake-up */
#define SHORTEST_SLEEP SL_MS
#define EVENTS_WAIT 1024 /* for the other thread: later ones are lost there */
#define VIEW_EVERY (100 * SL_MS)
#define PUBLISH_EVERY (250 * SL_MS)
#define STANDING_EVERY SL_SECOND
#define STANDING_SHARE 100 /* times its own cost, at least: a hundredth of a core for jobs of any size */

typedef struct queued_notice {
    struct queued_notice *next;
    sl_note note;
} queued_notice;

struct sl_noticing {
    sl_noticing_config config;
    pthread_t thread;
    _Atomic uint32_t stop;
    int file;

    _Atomic int exit_code; /* of the program; -1: not known. Written once by the first thread */

    pthread_mutex_t lock; /* of the members below: the thread writes notes, the first thread takes them */
    queued_notice *first, *last;
    int events;                          /* notes of that kind that wait */
    queued_notice *passed, *passed_last; /* events of the first thread, taken by the thread */
    int passes;                          /* how many */

    /* the thread's own */
    sl_store *agent_store, *controller_store, *own_store;
    sl_agent *agent;
    sl_controller *controller;
    sl_hanging *hanging; /* NULL: hangs are not noticed */
    sl_time began;       /* the controller; zero of the times of events */
    int leads;
    int other_version, strangers; /* were reported */
    int unread;                   /* reported that calls cannot be read */
    sl_time view_next, publish_next, standing_next;
    char *standing; /* as last reported */
    sl_status_view shown;
};

/* A first thread that takes nothing for long (its terminal is stopped) then finds only the newest view: an
 * older one that waits is removed. Between two times as leader, views stay with theirs. */
static void drop_older(sl_noticing *n, sl_note_kind kind) {
    queued_notice **at = &n->first, **found = NULL, *before = NULL, *before_found = NULL;
    for (queued_notice *q; (q = *at) != NULL; before = q, at = &q->next) {
        if (q->note.kind == SL_NOTE_LEADS || q->note.kind == SL_NOTE_REPLACED)
            found = NULL;
        if (q->note.kind == kind) {
            found = at;
            before_found = before;
        }
    }
    if (!found)
        return;
    queued_notice *old = *found;
    *found = old->next;
    if (n->last == old)
        n->last = before_found;
    free(old->note.standing);
    sl_free(old);
}

/* A note without memory or, for events, room is lost; the next view contains its information. 0: it was lost.
 */
static int say(sl_noticing *n, const sl_note *note) {
    queued_notice *q = NULL;
    pthread_mutex_lock(&n->lock);
    if (note->kind == SL_NOTE_VIEW || note->kind == SL_NOTE_STANDING)
        drop_older(n, note->kind);
    const int fits = note->kind != SL_NOTE_EVENT || n->events < EVENTS_WAIT;
    if (fits && sl_alloc(&q, 1, sizeof *q) == SL_OK) {
        q->note = *note;
        n->events += note->kind == SL_NOTE_EVENT;
        if (n->last)
            n->last->next = q;
        else
            n->first = q;
        n->last = q;
    }
    pthread_mutex_unlock(&n->lock);
    uint64_t one = 1;
    (void)!write(n->file, &one, sizeof one);
    return q != NULL;
}

static void say_trouble(sl_noticing *n, const char *what) {
    sl_note note = {.kind = SL_NOTE_TROUBLE};
    snprintf(note.text, sizeof note.text, "%s: %s", what, sl_error_text());
    say(n, &note);
}

/* What the store has kept from us, each once: it was written by another version, or by strangers. */
static void say_refused(sl_noticing *n) {
    const sl_store *const stores[] = {n->agent_store, n->controller_store, n->own_store};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        const sl_store_refused *r = sl_store_refused_by(stores[i]);
        sl_note note = {.kind = SL_NOTE_TROUBLE};
        sl_store_version_text(stores[i], note.text, sizeof note.text);
        if (note.text[0] && !n->other_version) {
            n->other_version = 1;
            say(n, &note);
        }
        note.kind = SL_NOTE_REMARK;
        const char *are =
            r->foreign ? "not sealed with its key (a stranger writes there, or watches have different keys)"
            : r->repeated ? "copies of earlier ones (a stranger writes there)"
                          : "beyond the limits of their kind";
        snprintf(note.text, sizeof note.text,
                 "redis has messages for this job that are %s; they are ignored and counted as "
                 "messages_refused",
                 are);
        if (r->foreign + r->repeated + r->odd > 0 && !n->strangers) {
            n->strangers = 1;
            say(n, &note);
        }
    }
}

/* Calls made by another version of the probe are an error, which is reported immediately; the absence of
 * calls is not. */
static void say_unread(sl_noticing *n) {
    sl_note note = {.kind = SL_NOTE_TROUBLE};
    if (n->unread || !sl_agent_trouble(n->agent)[0])
        return;
    snprintf(note.text, sizeof note.text, "%s", sl_agent_trouble(n->agent));
    n->unread = say(n, &note);
}

/* A change of leadership is seen before any of its output is passed on. A reported job has ended: a
 * controller in charge after that reports nothing more. */
static void look_at_leadership(sl_noticing *n) {
    void *reported = NULL;
    size_t size;
    int mine = n->controller && sl_controller_in_charge(n->controller);
    if (mine == n->leads)
        return;
    if (mine && (sl_store_get(n->own_store, SL_PUBLISHED_END, &reported, &size) != SL_OK || reported)) {
        sl_free(reported);
        return;
    }
    sl_note note = {.kind = mine ? SL_NOTE_LEADS : SL_NOTE_REPLACED};
    const char *node = n->config.position->node;
    if (mine && sl_store_claim(n->own_store, "seated", node, strlen(node), 0, &note.first) != SL_OK)
        return;
    n->leads = mine;
    say(n, &note);
}

static void on_event(void *context, const sl_event *event) {
    sl_noticing *n = context;
    sl_note note = {.kind = SL_NOTE_EVENT, .event = *event};
    if (!n->leads)
        look_at_leadership(n);
    say(n, &note);
    if (n->leads)
        sl_published_event_put(n->own_store, event);
}

/* A job that hangs or stalls, or makes progress again. */
static void on_hang(void *context, const sl_event *event, const json_t *state) {
    sl_note note = {.kind = SL_NOTE_HANG,
                    .standing = state ? json_dumps(state, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL};
    if (note.standing && !say(context, &note))
        free(note.standing);
    on_event(context, event);
}

static sl_status look_for_hangs(sl_noticing *n) {
    const sl_nodes *nodes = sl_controller_nodes(n->controller);
    const char **names = NULL;
    if (!n->hanging)
        return SL_OK;
    size_t count = n->leads ? nodes->count : 0;
    SL_TRY(sl_alloc(&names, count + 1, sizeof *names));
    for (size_t i = 0; i < count; i++)
        names[i] = nodes->node[i].name;
    sl_status status = sl_hanging_step(n->hanging, sl_now(), n->began, names, count);
    sl_free(names);
    return status;
}

/* Events of the first thread. */
static void publish_passed(sl_noticing *n) {
    pthread_mutex_lock(&n->lock);
    queued_notice *q = n->passed;
    n->passed = n->passed_last = NULL;
    n->passes = 0;
    pthread_mutex_unlock(&n->lock);
    while (q) {
        queued_notice *next = q->next;
        if (n->leads)
            sl_published_event_put(n->own_store, &q->note.event);
        sl_free(q);
        q = next;
    }
}

/* Ten times per second, and immediately when the state or the suspects have changed. */
static void say_view(sl_noticing *n, sl_time now, int last) {
    const sl_status_view *v = sl_controller_status(n->controller);
    int grave = v->phase != n->shown.phase || v->slow != n->shown.slow || v->suspects != n->shown.suspects ||
                v->verdicts != n->shown.verdicts;
    if (!last && !grave && (now < n->view_next || memcmp(v, &n->shown, sizeof *v) == 0))
        return;
    n->shown = *v;
    n->view_next = now + VIEW_EVERY;
    sl_note note = {.kind = SL_NOTE_VIEW, .view = *v};
    say(n, &note);
}

/* The same for viewers of the store; a status that is not renewed expires. */
static void publish_view(sl_noticing *n, sl_time now, int last) {
    if (!n->leads || (!last && now < n->publish_next))
        return;
    n->publish_next = now + PUBLISH_EVERY;
    sl_published_status_put(n->own_store, &n->shown, n->config.program);
}

/* The state of each rank and link, for viewers of the folder; if it has changed. */
static void say_standing(sl_noticing *n, sl_time now, int last) {
    if (!n->leads || (!last && now < n->standing_next))
        return;
    char *text = sl_standing_text(n->controller, n->config.position->job, n->config.program);
    sl_time took = sl_now() - now, pause = STANDING_SHARE * took;
    n->standing_next = now + (pause > STANDING_EVERY ? pause : STANDING_EVERY);
    if (!text || (n->standing && strcmp(text, n->standing) == 0)) {
        free(text);
        return;
    }
    free(n->standing);
    n->standing = strdup(text);
    sl_note note = {.kind = SL_NOTE_STANDING, .standing = text};
    if (!say(n, &note))
        free(text);
}

/* ---- the thread ---- */

static sl_status open_all(sl_noticing *n) {
    const sl_noticing_config *c = &n->config;
    SL_TRY(sl_rendezvous_wait(c->rendezvous, MEET_LIMIT, &n->stop));
    const char *url = c->rendezvous->url, *job = c->position->job;
    sl_store **const stores[] = {&n->agent_store, &n->controller_store, &n->own_store};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        SL_TRY(sl_store_open(url, job, 0, stores[i]));
        SL_TRY(sl_store_seal(*stores[i], c->rendezvous->key));
    }
    sl_agent_config agent = {.folder = c->folder,
                             .node = c->position->node,
                             .store = n->agent_store,
                             .store_url = url,
                             .key = c->rendezvous->key,
                             .job = job,
                             .record = c->record,
                             .validate = c->validate};
    sl_controller_config controller = {
        .store = n->controller_store, .job = job, .hold = c->hold, .event = on_event, .context = n};
    sl_hanging_config hanging = {.folder = c->folder,
                                 .node = c->position->node,
                                 .store = n->own_store,
                                 .after = c->hang_after,
                                 .report = on_hang,
                                 .context = n};
    n->began = sl_now();
    SL_TRY(sl_agent_open(&agent, &n->agent));
    if (c->hang_after > 0)
        SL_TRY(sl_hanging_open(&hanging, &n->hanging));
    return sl_controller_open(&controller, &n->controller);
}

static sl_status step(sl_noticing *n, sl_time *wake) {
    sl_clock *clock = sl_clock_real();
    sl_time next = SL_TIME_NEVER, other = SL_TIME_NEVER;
    SL_TRY(sl_agent_step(n->agent, sl_clock_now(clock), &next));
    SL_TRY(sl_controller_step(n->controller, sl_clock_now(clock), &other));
    look_at_leadership(n);
    SL_TRY(look_for_hangs(n));
    say_unread(n);
    sl_time now = sl_clock_now(clock);
    say_view(n, now, 0);
    say_standing(n, now, 0);
    publish_passed(n);
    publish_view(n, now, 0);
    say_refused(n);
    next = other < next ? other : next;
    next = next > now + LONGEST_SLEEP ? now + LONGEST_SLEEP : next;
    *wake = next < now + SHORTEST_SLEEP ? now + SHORTEST_SLEEP : next;
    return SL_OK;
}

static int is_reported(sl_noticing *n) {
    void *reported = NULL;
    size_t size;
    int is = sl_store_get(n->own_store, SL_PUBLISHED_END, &reported, &size) == SL_OK && reported;
    sl_free(reported);
    return is;
}

/* Reads and reports the program's last calls; removes the job from a server that outlives it. */
static sl_status end_of_job(sl_noticing *n) {
    sl_time wake;
    SL_TRY(step(n, &wake));
    if (n->hanging && atomic_load(&n->exit_code) == 0)
        sl_hanging_finish(n->hanging, sl_now(), n->began);
    sl_controller_finish(n->controller);
    look_at_leadership(n);
    say_view(n, sl_now(), 1);
    say_standing(n, sl_now(), 1);
    publish_passed(n);
    publish_view(n, 0, 1);
    if (n->leads) /* before the rest goes, so that a later writer knows to remove its data, too */
        sl_published_end_put(n->own_store, atomic_load(&n->exit_code), REPORTED_LASTS);
    if (n->leads || is_reported(n))
        (void)sl_store_forget(n->own_store, SL_PUBLISHED_END);
    return SL_OK;
}

static sl_status notice(sl_noticing *n) {
    SL_TRY(open_all(n));
    while (!atomic_load(&n->stop)) {
        sl_time wake;
        SL_TRY(step(n, &wake));
        sl_clock_wait(sl_clock_real(), &n->stop, 0, wake);
    }
    return end_of_job(n);
}

static void *run(void *context) {
    sl_noticing *n = context;
    if (notice(n) != SL_OK && !atomic_load(&n->stop))
        say_trouble(n, "detection has stopped; the program continues");
    sl_note done = {.kind = SL_NOTE_DONE, .calls = n->agent && sl_agent_saw_calls(n->agent)};
    sl_controller_close(n->controller);
    sl_hanging_close(n->hanging);
    sl_agent_close(n->agent);
    sl_store_close(n->agent_store);
    sl_store_close(n->controller_store);
    sl_store_close(n->own_store);
    say(n, &done);
    return NULL;
}

sl_status sl_noticing_start(const sl_noticing_config *config, sl_noticing **result) {
    sl_noticing *n;
    SL_TRY(sl_alloc(&n, 1, sizeof *n));
    n->config = *config;
    atomic_init(&n->exit_code, -1);
    pthread_mutex_init(&n->lock, NULL);
    n->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = n->file < 0 ? -1 : pthread_create(&n->thread, NULL, run, n);
    if (error) {
        if (n->file >= 0)
            close(n->file);
        sl_free(n);
        return sl_error(SL_ESYS, "the detection thread cannot be started");
    }
    *result = n;
    return SL_OK;
}

int sl_noticing_file(const sl_noticing *n) {
    return n->file;
}

int sl_noticing_take(sl_noticing *n, sl_note *note) {
    uint64_t count;
    pthread_mutex_lock(&n->lock);
    queued_notice *q = n->first;
    if (q) {
        n->first = q->next;
        n->last = n->first ? n->last : NULL;
        n->events -= q->note.kind == SL_NOTE_EVENT;
    } else {
        (void)!read(n->file, &count, sizeof count);
    }
    pthread_mutex_unlock(&n->lock);
    if (q)
        *note = q->note;
    sl_free(q);
    return q != NULL;
}

void sl_noticing_pass(sl_noticing *n, const sl_event *event) {
    queued_notice *q;
    pthread_mutex_lock(&n->lock);
    if (n->passes < EVENTS_WAIT && sl_alloc(&q, 1, sizeof *q) == SL_OK) {
        q->note.event = *event;
        n->passes++;
        if (n->passed_last)
            n->passed_last->next = q;
        else
            n->passed = q;
        n->passed_last = q;
    }
    pthread_mutex_unlock(&n->lock);
}

void sl_noticing_ended(sl_noticing *n, int exit_code) {
    atomic_store(&n->exit_code, exit_code);
}

void sl_noticing_stop(sl_noticing *n) {
    atomic_store(&n->stop, 1);
    sl_clock_wake(sl_clock_real(), &n->stop);
}

void sl_noticing_close(sl_noticing *n) {
    sl_note note;
    if (!n)
        return;
    sl_noticing_stop(n);
    pthread_join(n->thread, NULL);
    while (sl_noticing_take(n, &note))
        free(note.standing);
    n->leads = 0;
    publish_passed(n); /* the rest is dropped */
    free(n->standing);
    close(n->file);
    pthread_mutex_destroy(&n->lock);
    sl_free(n);
}
