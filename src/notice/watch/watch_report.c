#include "notice/watch/watch_report.h"
#include "base/memory.h"
#include "notice/watch/answer.h"
#include "notice/watch/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NOTES = 14, ADVICES = 1000, PHASES = 1000 /* more are in events.jsonl */ };

/* Of a program that has very many, the first phase and the newest stay. */
static double known(double ms) {
    return ms > 0 ? ms : 0; /* NaN: 0 */
}

/* The levels that an onset or a relief compared: up to it, the level of the former phase includes iterations of
 * the new one. */
static void take_levels(sl_report_phase *former, sl_report_phase *next, const sl_event *event) {
    const double before = known(sl_event_number(event, "former_ms"));
    if (before > 0)
        former->level_ms = before;
    next->level_ms = known(sl_event_number(event, "iteration_ms"));
    next->healthy_ms = former->slow ? former->healthy_ms : before;
}

static sl_status add_phase(sl_watch_report *r, int slow, int64_t from, sl_time begin, const char *seen) {
    if (r->phases == PHASES) {
        memmove(&r->phase[1], &r->phase[2], (PHASES - 2) * sizeof *r->phase);
        r->phases--;
        r->left_out++;
    }
    SL_TRY(sl_grow(&r->phase, &r->room, r->phases + 1, sizeof *r->phase));
    sl_report_phase *p = &r->phase[r->phases++];
    *p = (sl_report_phase){.slow = slow, .from = from, .to = -1, .begin = begin, .end = -1};
    snprintf(p->seen, sizeof p->seen, "%s", seen);
    return SL_OK;
}

sl_status sl_watch_report_open(sl_watch_report *r, char *const *command, const char *job) {
    struct timespec now;
    memset(r, 0, sizeof *r);
    r->command = command;
    snprintf(r->job, sizeof r->job, "%s", job);
    clock_gettime(CLOCK_REALTIME, &now);
    r->began = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    r->view.iteration = r->view.onset = -1;
    return add_phase(r, 0, 0, 0, "");
}

void sl_watch_report_close(sl_watch_report *r) {
    SL_FREE(r->phase, r->advice);
    r->phase = NULL;
    r->advice = NULL;
}

/* Suspects of a slow phase, also when they are named after its relief. */
static sl_report_phase *phase_of_suspects(sl_watch_report *r) {
    for (size_t i = r->phases; i-- > 0;)
        if (r->phase[i].slow)
            return &r->phase[i];
    return &r->phase[r->phases - 1];
}

sl_status sl_watch_report_event(sl_watch_report *r, const sl_event *event) {
    r->events++;
    if (event->kind == SL_EVENT_HANG || event->kind == SL_EVENT_STALL) {
        r->hang = *event;
        r->hang_end = 0;
    } else if (event->kind == SL_EVENT_MOVES)
        r->hang_end = event->time;
    if (event->kind == SL_EVENT_ADVICE || event->kind == SL_EVENT_HOOK) {
        if (r->advices == ADVICES)
            return SL_OK;
        SL_TRY(sl_grow(&r->advice, &r->advice_room, r->advices + 1, sizeof *r->advice));
        r->advice[r->advices++] = *event;
        return SL_OK;
    }
    if (event->kind == SL_EVENT_VERDICT)
        phase_of_suspects(r)->tested = strcmp(event->decided, "by validation") == 0;
    const int starts_over = event->kind == SL_EVENT_TRACKED && event->decided[0]; /* levels start over */
    if (event->kind != SL_EVENT_ONSET && event->kind != SL_EVENT_RELIEF && !starts_over)
        return SL_OK;
    sl_report_phase *last = &r->phase[r->phases - 1];
    last->to = event->iteration > last->from ? event->iteration - 1 : last->from;
    last->end = event->time;
    SL_TRY(add_phase(r, event->kind == SL_EVENT_ONSET, event->iteration, event->time, event->seen));
    take_levels(&r->phase[r->phases - 2], &r->phase[r->phases - 1], event);
    return SL_OK;
}

static void take(sl_suspect *to, int *count, const sl_suspect *from, int given) {
    for (int i = 0; i < given; i++) {
        int slot = 0;
        while (slot < *count && !sl_words_same(&to[slot], &from[i]))
            slot++;
        if (slot == SL_STATUS_SUSPECTS)
            return;
        to[slot] = from[i];
        *count += slot == *count;
    }
}

void sl_watch_report_view(sl_watch_report *r, const sl_status_view *view) {
    sl_report_phase *p = &r->phase[r->phases - 1];
    if (r->phases > 1)
        p->slow = view->slow; /* relief from one of two troubles leaves the other */
    p = phase_of_suspects(r);
    int suspects = view->suspects < SL_STATUS_SUSPECTS ? view->suspects : SL_STATUS_SUSPECTS;
    int verdicts = view->verdicts < SL_STATUS_SUSPECTS ? view->verdicts : SL_STATUS_SUSPECTS;
    r->view = *view;
    r->has_view = 1;
    r->ranks = view->ranks > r->ranks ? view->ranks : r->ranks;
    r->nodes = view->nodes > r->nodes ? view->nodes : r->nodes;
    take(p->suspect, &p->suspects, view->suspect, suspects);
    take(p->verdict, &p->verdicts, view->verdict, verdicts);
    if (view->level_ms > 0)
        r->phase[r->phases - 1].level_ms = view->level_ms;
}

/* ---- open questions ---- */

typedef struct notes {
    char text[NOTES][400];
    int count;
} notes;

#define NOTE(n, ...)                                                                                         \
    do {                                                                                                     \
        if ((n)->count < NOTES)                                                                              \
            snprintf((n)->text[(n)->count++], sizeof(n)->text[0], __VA_ARGS__);                              \
    } while (0)

static void find_notes(const sl_watch_report *r, const char *obstacle, notes *n) {
    const sl_status_view *v = &r->view;
    n->count = 0;
    if (obstacle[0])
        NOTE(n, "%.390s", obstacle);
    else if (!r->has_view || v->calls == 0)
        NOTE(n, "no MPI or NCCL call was read: nothing is known about iterations");
    else if (v->period == 0)
        NOTE(n, "no recurring period in the calls: iteration times are unknown");
    for (int i = 0; i < r->unseen.count; i++)
        NOTE(n, "not seen in %d process%s: %s", r->unseen.processes[i],
             r->unseen.processes[i] == 1 ? "" : "es", r->unseen.text[i]);
    if (v->lost > 0)
        NOTE(n,
             "%" PRId64
             " records were overwritten before they were read; SLACKLINE_PROBE_RECORDS makes rings longer",
             v->lost);
    if (v->holds > v->closed)
        NOTE(n, "%d of %d holds did not close: verdicts of these rest on the profile alone",
             v->holds - v->closed, v->holds);
    if (r->left_out > 0)
        NOTE(n, "%" PRId64 " phases after the first are left out here; events.jsonl has them", r->left_out);
    for (size_t i = 0; i < r->phases; i++) {
        const sl_report_phase *p = &r->phase[i];
        int named = 0;
        for (int j = 0; j < p->verdicts; j++) {
            named |= p->verdict[j].component != SL_COMPONENT_UNKNOWN;
            if (p->verdict[j].component == SL_COMPONENT_UNKNOWN)
                NOTE(n, "slow phase from iteration %" PRId64 ": cannot tell: %s", p->from, p->verdict[j].why);
        }
        if (p->slow && !named && p->verdicts == 0)
            NOTE(n, "slow phase from iteration %" PRId64 ": %s", p->from,
                 p->suspects ? "suspects were not validated" : "no component is slower than its kind");
    }
}

/* ---- JSON ---- */

static json_t *iteration_or_null(int64_t iteration) {
    return iteration >= 0 ? json_integer(iteration) : json_null();
}

static json_t *phase_json(const sl_report_phase *p) {
    return json_pack("{s:s, s:I, s:o, s:f, s:o, s:o, s:s, s:o, s:o}", "state", p->slow ? "slow" : "healthy",
                     "from_iteration", (json_int_t)p->from, "to_iteration", iteration_or_null(p->to),
                     "from_s", (double)p->begin / 1e9, "to_s",
                     p->end >= 0 ? json_real((double)p->end / 1e9) : json_null(), "level_ms",
                     p->level_ms > 0 ? json_real(p->level_ms) : json_null(), "seen", p->seen, "suspects",
                     sl_words_suspects_json(p->suspect, p->suspects), "verdicts",
                     sl_words_suspects_json(p->verdict, p->verdicts));
}

static json_t *texts(char *const *text) {
    json_t *list = json_array();
    for (; list && *text; text++) { /* an argument need not be UTF-8 */
        json_t *one = json_string(*text);
        json_array_append_new(list, one ? one : json_string("?"));
    }
    return list;
}

/* The lines after the head. */
static json_t *lines_json(const char *answer) {
    json_t *list = json_array();
    for (const char *line = strchr(answer, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        const char *text = line + 1 + strspn(line + 1, " ");
        json_array_append_new(list, json_stringn(text, strcspn(text, "\n")));
    }
    return list;
}

static json_t *report_json(const sl_watch_report *r, int exit_code, sl_time lasted, const char *answer,
                           const notes *n) {
    json_t *phases = json_array(), *noted = json_array(), *advice = json_array();
    for (size_t i = 0; i < r->advices; i++)
        json_array_append_new(advice, sl_event_json(&r->advice[i]));
    for (size_t i = 0; i < r->phases; i++)
        json_array_append_new(phases, phase_json(&r->phase[i]));
    for (int i = 0; i < n->count; i++)
        json_array_append_new(noted, json_string(n->text[i]));
    return json_pack("{s:o, s:s, s:i, s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:i, s:o}", "program",
                     texts(r->command), "job", r->job, "ranks", r->ranks, "nodes", r->nodes, "exit_code",
                     exit_code, "began", r->began, "lasted_s", (double)lasted / 1e9, "status",
                     sl_words_status_json(&r->view), "answer", lines_json(answer), "phases", phases, "advice",
                     advice, "events", r->events, "notes", noted);
}

/* ---- text ---- */

static void print_suspects(FILE *out, const char *what, const sl_suspect *s, int count) {
    char text[512];
    for (int i = 0; i < count; i++) {
        sl_suspect_text(&s[i], text, sizeof text);
        fprintf(out, "    %s: %s\n", what, text);
    }
}

static void print_phase(FILE *out, const sl_report_phase *p, int64_t last) {
    int64_t to = p->to >= 0 ? p->to : last;
    fprintf(out, "  %-8s iteration %" PRId64 " to ", p->slow ? "slow" : "healthy", p->from);
    if (to >= p->from)
        fprintf(out, "%" PRId64, to);
    else
        fprintf(out, "the end");
    fprintf(out, ", from %.3f s", (double)p->begin / 1e9);
    if (p->level_ms > 0)
        fprintf(out, ", %.3f ms", p->level_ms);
    fprintf(out, "%s%s\n", p->seen[0] ? ": " : "", p->seen);
    print_suspects(out, "suspect", p->suspect, p->suspects);
    print_suspects(out, "verdict", p->verdict, p->verdicts);
}

static void print_advice(FILE *out, const sl_event *e) {
    fprintf(out, "  %.3f s, iteration %d, %s: %s\n    %s\n", (double)e->time / 1e9, e->iteration,
            sl_event_names[e->kind].name, e->seen, e->decided);
    if (e->why[0])
        fprintf(out, "    %s\n", e->why);
}

static void print(FILE *out, const sl_watch_report *r, int exit_code, sl_time lasted, const char *answer,
                  const notes *n) {
    const sl_status_view *v = &r->view;
    fputs(answer, out);
    fprintf(out, "\nprogram    ");
    for (char *const *word = r->command; *word; word++)
        fprintf(out, " %s", *word);
    fprintf(out, "\nexit code   %d after %.3f s\n", exit_code, (double)lasted / 1e9);
    fprintf(out, "seen        %d rank%s on %d node%s, %" PRId64 " calls, %" PRId64 " records lost\n",
            r->ranks, r->ranks == 1 ? "" : "s", r->nodes, r->nodes == 1 ? "" : "s", v->calls, v->lost);
    if (v->period > 0)
        fprintf(out, "iterations  %" PRId64 " of %d calls, last %.3f ms, level %.3f ms\n", v->iteration + 1,
                v->period, v->time_ms, v->level_ms);
    else
        fprintf(out, "iterations  no period was found\n");
    fprintf(out, "holds       %d, %d closed, %.1f ms in total\n", v->holds, v->closed, v->held_ms);
    if (v->iteration >= 0) {
        fprintf(out, "\nphases\n");
        for (size_t i = 0; i < r->phases; i++)
            print_phase(out, &r->phase[i], v->iteration);
    }
    if (r->advices > 0)
        fprintf(out, "\nadvice (all decisions: decisions.txt)\n");
    for (size_t i = 0; i < r->advices; i++)
        print_advice(out, &r->advice[i]);
    if (n->count > 0)
        fprintf(out, "\nnotes\n");
    for (int i = 0; i < n->count; i++)
        fprintf(out, "  %s\n", n->text[i]);
}

int sl_watch_report_is_of(const char *directory, const char *job) {
    char path[4200];
    snprintf(path, sizeof path, "%s/report.json", directory);
    json_t *report = json_load_file(path, 0, NULL);
    const char *name = json_string_value(json_object_get(report, "job"));
    int is = name && strcmp(name, job) == 0;
    json_decref(report);
    return is;
}

static sl_status no_memory(void) {
    return sl_error(SL_ENOMEM, "out of memory for the report");
}

static sl_status answer_text(const sl_watch_report *r, char **text) {
    size_t size = 0;
    FILE *out = open_memstream(text, &size);
    if (!out)
        return no_memory();
    sl_status status = sl_answer_print(out, r);
    return fclose(out) == 0 ? status : no_memory();
}

sl_status sl_watch_report_texts(sl_watch_report *r, int exit_code, sl_time lasted, const char *obstacle,
                                char **text, char **json) {
    notes n;
    size_t size = 0;
    char *answer = NULL;
    json_t *object = NULL;
    FILE *out = NULL;
    *text = *json = NULL;
    if (r->phase[r->phases - 1].end < 0)
        r->phase[r->phases - 1].end = lasted;
    find_notes(r, obstacle, &n);
    sl_status status;
    SL_TRY_GOTO(done, status, answer_text(r, &answer));
    object = report_json(r, exit_code, lasted, answer, &n);
    *json = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    out = open_memstream(text, &size);
    if (out)
        print(out, r, exit_code, lasted, answer, &n);
    if (!out || fclose(out) != 0 || !*json)
        status = no_memory();
done:
    json_decref(object);
    free(answer);
    return status;
}
