#include "notice/watch/watch_metrics.h"
#include "notice/watch/words.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* clang-format off */
#define METRICS(X) \
    X(PHASE, "slackline_phase", "gauge", "1 for the current state, 0 for the others") \
    X(NODES, "slackline_nodes", "gauge", "nodes of the job whose agents answer") \
    X(RANKS, "slackline_ranks", "gauge", "ranks whose calls are read") \
    X(PERIOD, "slackline_period_calls", "gauge", "calls of a rank per iteration") \
    X(TIME, "slackline_iteration_seconds", "gauge", "time of the last iteration, of the slowest rank") \
    X(LEVEL, "slackline_iteration_level_seconds", "gauge", "current level of iteration times") \
    X(HEALTHY, "slackline_iteration_healthy_seconds", "gauge", "level before the slow phase, or the current level") \
    X(ITERATIONS, "slackline_iterations_total", "counter", "finished iterations") \
    X(SLOW, "slackline_slow", "gauge", "1 between an onset and its relief") \
    X(ONSETS, "slackline_onsets_total", "counter", "times that iterations became slow") \
    X(RELIEFS, "slackline_reliefs_total", "counter", "times that iterations recovered") \
    X(SUSPECT, "slackline_suspect", "gauge", "1 for each component that the profile points at") \
    X(VERDICT, "slackline_verdict", "gauge", "1 for each component that was found slow") \
    X(HOLDS, "slackline_holds_total", "counter", "attempts to hold the job") \
    X(CLOSED, "slackline_holds_closed_total", "counter", "holds that closed") \
    X(HELD, "slackline_held_seconds_total", "counter", "time that the job was held") \
    X(CALLS, "slackline_calls_total", "counter", "records of calls that were read") \
    X(LOST, "slackline_records_lost_total", "counter", "records that were overwritten before they were read") \
    X(CONNECTED, "slackline_store_connected", "gauge", "1 while Redis answers") \
    X(REFUSED, "slackline_messages_refused_total", "counter", "messages in Redis that were ignored")
/* clang-format on */
#define AS_NUMBER(number, name, type, help) number,
#define AS_ENTRY(number, name, type, help) [number] = {name, type, help},
enum { METRICS(AS_NUMBER) COUNT };
static const sl_metric metrics[COUNT] = {METRICS(AS_ENTRY)};

const sl_metric *sl_metrics_all(int *count) {
    *count = COUNT;
    return metrics;
}

const sl_metric *sl_metrics_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

void sl_metrics_begin(FILE *out, const sl_metric *m) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
}

static void begin(FILE *out, int number) {
    sl_metrics_begin(out, &metrics[number]);
}

void sl_metrics_count(FILE *out, const sl_metric *m, int64_t value) {
    sl_metrics_begin(out, m);
    fprintf(out, "%s %" PRId64 "\n", m->name, value);
}

void sl_metrics_value(FILE *out, const sl_metric *m, double value) {
    sl_metrics_begin(out, m);
    if (isfinite(value))
        fprintf(out, "%s %.9g\n", m->name, value);
}

static void put_count(FILE *out, int number, int64_t value) {
    sl_metrics_count(out, &metrics[number], value);
}

static void put_ms(FILE *out, int number, double ms, int is_known) {
    sl_metrics_value(out, &metrics[number], is_known ? ms / 1e3 : NAN);
}

/* In a label a quote, a backslash and a newline are written with a backslash. */
void sl_metrics_label(FILE *out, const char *text) {
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

/* Two of the same component would be one series twice, which a reader refuses: the first represents both. */
static void put_suspects(FILE *out, int number, const sl_suspect *suspect, int count) {
    begin(out, number);
    for (int i = 0; i < count; i++) {
        const sl_suspect *s = &suspect[i];
        int known = 0;
        for (int j = 0; j < i; j++)
            known |= sl_words_same(s, &suspect[j]);
        if (known)
            continue;
        fprintf(out, "%s{component=\"%s\"", metrics[number].name, sl_component_name(s->component));
        if (s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST)
            fprintf(out, ",rank=\"%d\"", s->rank);
        if (s->component == SL_COMPONENT_LINK)
            fprintf(out, ",from=\"%d\",to=\"%d\"", s->from, s->to);
        if (s->component == SL_COMPONENT_GROUP)
            fprintf(out, ",group=\"%016" PRIx64 "\"", s->group);
        if (s->cause[0]) {
            fputs(",cause=\"", out);
            sl_metrics_label(out, s->cause);
            fputc('"', out);
        }
        fputs("} 1\n", out);
    }
}

void sl_metrics_write(FILE *out, const sl_status_view *v) {
    begin(out, PHASE);
    for (int phase = 0; phase < SL_PHASES; phase++)
        fprintf(out, "%s{phase=\"%s\"} %d\n", metrics[PHASE].name, sl_watch_phase_name((sl_watch_phase)phase),
                v->phase == (sl_watch_phase)phase);
    put_count(out, NODES, v->nodes);
    put_count(out, RANKS, v->ranks);
    put_count(out, PERIOD, v->period);
    put_ms(out, TIME, v->time_ms, v->iteration >= 0);
    put_ms(out, LEVEL, v->level_ms, v->level_ms > 0);
    put_ms(out, HEALTHY, v->healthy_ms, v->healthy_ms > 0);
    put_count(out, ITERATIONS, v->iteration + 1);
    put_count(out, SLOW, v->slow != 0);
    put_count(out, ONSETS, v->onsets);
    put_count(out, RELIEFS, v->reliefs);
    put_suspects(out, SUSPECT, v->suspect, v->suspects);
    put_suspects(out, VERDICT, v->verdict, v->verdicts);
    put_count(out, HOLDS, v->holds);
    put_count(out, CLOSED, v->closed);
    put_ms(out, HELD, v->held_ms, 1);
    put_count(out, CALLS, v->calls);
    put_count(out, LOST, v->lost);
    put_count(out, CONNECTED, v->connected != 0);
    put_count(out, REFUSED, v->refused);
}
