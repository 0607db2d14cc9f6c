#include "dashboard/dashboard_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* clang-format off */
#define OWN(X) \
    X(STATE, "slackline_state", "gauge", "1 for the state that the run or job is in, 0 for the others") \
    X(PREDICTED, "slackline_iteration_predicted_seconds", "gauge", "prediction of the last iteration") \
    X(LOSS, "slackline_loss", "gauge", "loss of the last iteration") \
    X(VALIDATION, "slackline_validation_loss", "gauge", "most recent validation loss") \
    X(TOKENS, "slackline_tokens_per_second", "gauge", "tokens per second") \
    X(SCHEDULE, "slackline_schedule", "gauge", "1 for the schedule that runs") \
    X(RUN_PHASE, "slackline_run_phase", "gauge", "1 for the state of adaptation in the last iteration") \
    X(DELEGATES, "slackline_delegates", "gauge", "delegates of each link and direction; 0: the ranks carry their messages") \
    X(SWAPS, "slackline_swaps_total", "counter", "changes of the schedule, returns included") \
    X(RESTARTS, "slackline_restarts_total", "counter", "attempts that failed and were followed by another") \
    X(RANK_HEALTH, "slackline_ranks_by_health", "gauge", "ranks in each state") \
    X(LINK_HEALTH, "slackline_links_by_health", "gauge", "directions of links in each state") \
    X(WORK, "slackline_rank_seconds", "gauge", "of a run what the rank's ops took in the last iteration, of a job its iteration") \
    X(LATENCY, "slackline_link_latency_seconds", "gauge", "latency of a link, as measured") \
    X(TRANSFER, "slackline_link_transfer_seconds", "gauge", "time that a message holds the link, as measured") \
    X(DAMAGED, "slackline_damaged_lines", "gauge", "lines of the run's files that could not be read")
/* clang-format on */
#define AS_NUMBER(number, name, type, help) number,
#define AS_ENTRY(number, name, type, help) [number] = {name, type, help},
enum { OWN(AS_NUMBER) COUNT };
static const sl_metric own[COUNT] = {OWN(AS_ENTRY)};

/* One of a watch: a time in ms as seconds, or a count. */
static void put_ms(FILE *out, const char *name, double ms) {
    sl_metrics_value(out, sl_metrics_find(name), ms / 1e3);
}

static void put_shared(FILE *out, const char *name, int64_t value) {
    sl_metrics_count(out, sl_metrics_find(name), value);
}

static void put_named(FILE *out, const sl_metric *m, const char *label, const char *value) {
    sl_metrics_begin(out, m);
    if (!value[0])
        return;
    fprintf(out, "%s{%s=\"", m->name, label);
    sl_metrics_label(out, value);
    fputs("\"} 1\n", out);
}

static void put_states(FILE *out, const sl_board *b) {
    sl_metrics_begin(out, &own[STATE]);
    for (int s = 0; s < SL_BOARD_STATES; s++)
        fprintf(out, "%s{state=\"%s\"} %d\n", own[STATE].name, sl_board_state_name((sl_board_state)s),
                b->state == (sl_board_state)s);
}

/* A component is written once: a duplicate series would be rejected by the reader. */
static int is_known(const sl_board *b, size_t i) {
    for (size_t j = 0; j < i; j++) {
        const sl_board_blame *x = &b->blame[i], *y = &b->blame[j];
        if (x->verdict == y->verdict && x->rank == y->rank && x->from == y->from && x->to == y->to &&
            x->replica == y->replica && strcmp(x->component, y->component) == 0)
            return 1;
    }
    return 0;
}

static void put_blames(FILE *out, const sl_board *b, const char *name, int verdict) {
    sl_metrics_begin(out, sl_metrics_find(name));
    for (size_t i = 0; i < b->blames; i++) {
        const sl_board_blame *w = &b->blame[i];
        if (w->verdict != verdict || is_known(b, i))
            continue;
        fprintf(out, "%s{component=\"%s\"", name, w->component);
        if (w->rank >= 0)
            fprintf(out, ",rank=\"%d\"", w->rank);
        if (w->from >= 0)
            fprintf(out, ",from=\"%d\",to=\"%d\"", w->from, w->to);
        if (w->replica >= 0)
            fprintf(out, ",replica=\"%d\"", w->replica);
        fputs("} 1\n", out);
    }
}

static void put_healths(FILE *out, const sl_board *b) {
    int64_t ranks[SL_BOARD_HEALTHS] = {0}, links[SL_BOARD_HEALTHS] = {0};
    for (size_t i = 0; i < b->ranks; i++)
        ranks[sl_board_rank_health(&b->rank[i])]++;
    for (size_t i = 0; i < b->links; i++)
        links[sl_board_link_health(&b->link[i])]++;
    for (int which = RANK_HEALTH; which <= LINK_HEALTH; which++) {
        sl_metrics_begin(out, &own[which]);
        for (int h = 0; h < SL_BOARD_HEALTHS; h++) {
            const char *name = sl_board_health_name((sl_board_health)h);
            if (*name)
                fprintf(out, "%s{health=\"%s\"} %" PRId64 "\n", own[which].name, name,
                        which == RANK_HEALTH ? ranks[h] : links[h]);
        }
    }
}

static void put_ranks(FILE *out, const sl_board *b) {
    sl_metrics_begin(out, &own[WORK]);
    for (size_t i = 0; i < b->ranks; i++) {
        double ms = (double)b->rank[i].time.now;
        if (!isfinite(ms))
            continue;
        if (b->data > 1 && b->pipeline > 0)
            fprintf(out, "%s{rank=\"%zu\",replica=\"%zu\"} %.9g\n", own[WORK].name, i % (size_t)b->pipeline,
                    i / (size_t)b->pipeline, ms / 1e3);
        else
            fprintf(out, "%s{rank=\"%zu\"} %.9g\n", own[WORK].name, i, ms / 1e3);
    }
}

static void put_links(FILE *out, const sl_board *b, int which) {
    sl_metrics_begin(out, &own[which]);
    for (size_t i = 0; i < b->links; i++) {
        const sl_board_link *l = &b->link[i];
        double ms = (double)(which == LATENCY ? l->latency : l->transfer);
        if (!isfinite(ms))
            continue;
        fprintf(out, "%s{from=\"%d\",to=\"%d\"", own[which].name, l->from, l->to);
        if (l->replica >= 0)
            fprintf(out, ",replica=\"%d\"", l->replica);
        fprintf(out, "} %.9g\n", ms / 1e3);
    }
}

static const char *name_of(const sl_board *b, int index) {
    return index >= 0 ? b->name[index] : "";
}

/* Values that only a watch's controller knows. */
static void put_job(FILE *out, const sl_board *b) {
    static const char *const phases[] = {"waiting", "searching",  "tracking", "profiling",
                                         "holding", "validating", "ended",    NULL};
    const sl_metric *phase = sl_metrics_find("slackline_phase");
    sl_metrics_begin(out, phase);
    for (int i = 0; phases[i]; i++)
        fprintf(out, "%s{phase=\"%s\"} %d\n", phase->name, phases[i],
                strcmp(phases[i], name_of(b, b->phase)) == 0);
    put_shared(out, "slackline_nodes", b->nodes);
    put_shared(out, "slackline_period_calls", b->period);
    put_shared(out, "slackline_holds_total", b->holds);
    put_shared(out, "slackline_holds_closed_total", b->closed);
    put_ms(out, "slackline_held_seconds_total", b->held);
    put_shared(out, "slackline_calls_total", b->calls);
    put_shared(out, "slackline_records_lost_total", b->lost);
    put_shared(out, "slackline_store_connected", b->connected);
}

static void put_run(FILE *out, const sl_board *b) {
    sl_metrics_value(out, &own[PREDICTED], b->predicted / 1e3);
    sl_metrics_value(out, &own[LOSS], b->loss);
    sl_metrics_value(out, &own[VALIDATION], b->validation);
    sl_metrics_value(out, &own[TOKENS], b->tokens);
    put_named(out, &own[SCHEDULE], "schedule", name_of(b, b->schedule));
    put_named(out, &own[RUN_PHASE], "phase", name_of(b, b->phase));
    sl_metrics_count(out, &own[DELEGATES], b->delegates);
    sl_metrics_count(out, &own[SWAPS], b->swaps);
    sl_metrics_count(out, &own[RESTARTS], b->restarts);
    put_links(out, b, LATENCY);
    put_links(out, b, TRANSFER);
}

void sl_board_metrics_write(FILE *out, const sl_board *b) {
    put_states(out, b);
    put_shared(out, "slackline_ranks", (int64_t)b->ranks);
    put_ms(out, "slackline_iteration_seconds", b->time);
    put_ms(out, "slackline_iteration_level_seconds", b->level);
    put_ms(out, "slackline_iteration_healthy_seconds", b->healthy);
    put_shared(out, "slackline_iterations_total", b->iteration + 1);
    put_shared(out, "slackline_slow", b->slow != 0);
    put_shared(out, "slackline_onsets_total", b->onsets);
    put_shared(out, "slackline_reliefs_total", b->reliefs);
    put_blames(out, b, "slackline_suspect", 0);
    put_blames(out, b, "slackline_verdict", 1);
    put_healths(out, b);
    put_ranks(out, b);
    sl_metrics_count(out, &own[DAMAGED], b->damaged);
    if (b->is_cluster)
        put_job(out, b);
    else
        put_run(out, b);
}
