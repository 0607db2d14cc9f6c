#include "run/journal/journal.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/writer.h"
#include "plan/pipeline/csv.h"
#include "run/file/run.h"
#include "run/journal/journal_cut.h"
#include "run/journal/tracing.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTABLE 10 /* iterations recorded op by op after an event, after the first ones */

static const char *const phase_names[SL_PHASES] = {"healthy", "slow, not adapted",       "slow, delegated",
                                                   "adapted", "relieved, still adapted", "relieved"};
static const char *const phase_keys[SL_PHASES] = {"healthy", "slow",    "delegated",
                                                  "adapted", "between", "relieved"};

/* What the table needs of one iteration. */
typedef struct journal_row {
    float time, predicted, bubble; /* ms, ms (< 0: none), share */
    unsigned char phase, late;
} journal_row;

struct sl_journal {
    char folder[3072];
    sl_writer *writer;
    sl_tracing trace;
    int trace_left;    /* initial iterations still to be recorded op by op */
    int notable_left;  /* later ones, after events */
    int since_notable; /* iterations since an event */
    int first;         /* iteration of this attempt; -1: the run is new */
    sl_journal_layout layout;
    int iterations;
    double tokens;
    journal_row *rows;
    size_t row_count, row_capacity;
    char schedule[SL_PHASES][64];
    sl_profiler *
        *profiler; /* [layout.data], NULL before the first iteration; the slowest one is profile.yaml */
    int paced;
    sl_ping_link *ping; /* [ranks * ranks]; NULL: none */
};

static void put(const sl_journal *j, const char *name, sl_writer_how how, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", j->folder, name);
    sl_writer_put(j->writer, path, how, text, strlen(text), 0);
}

static void say(const char *trouble) {
    fprintf(stderr, "slackline: warning: %s; training continues\n", trouble);
}

static void say_trouble(const sl_journal *j) {
    char text[512];
    while (sl_writer_trouble(j->writer, text, sizeof text))
        say(text);
}

void sl_journal_flush(sl_journal *j) {
    sl_writer_flush(j->writer, SL_WRITER_PATIENCE);
    say_trouble(j);
}

/* Removes the iterations of an earlier attempt that this one repeats. */
static void open_logs(sl_journal *j) {
    char path[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", j->folder);
    if (j->first < 0) {
        put(j, "metrics.jsonl", SL_WRITER_OVER, "");
        put(j, "events.jsonl", SL_WRITER_OVER, "");
        put(j, "decisions.txt", SL_WRITER_OVER, "");
        put(j, "measurements.jsonl", SL_WRITER_REMOVE, "");
    } else if (sl_journal_cut_metrics(path, j->first) != SL_OK) {
        say(sl_error_text());
    }
}

sl_status sl_journal_open(const char *folder, int first, sl_journal_layout layout, double tokens,
                          int iterations, int keep, sl_journal **journal) {
    sl_journal *j;
    SL_TRY(sl_alloc(&j, 1, sizeof *j));
    *journal = j;
    if (strlen(folder) >= sizeof j->folder)
        return sl_error(SL_EINVAL, "%s: the path is too long", folder);
    snprintf(j->folder, sizeof j->folder, "%s", folder);
    j->first = first;
    j->layout = layout;
    j->tokens = tokens;
    j->iterations = iterations;
    j->trace_left = keep;
    j->notable_left = keep / 2;
    if (sl_directory_make(folder) != SL_OK)
        say(sl_error_text());
    SL_TRY(sl_writer_open(SL_WRITER_MAX, &j->writer));
    static const char *const stale[] = {"iterations.svg", "profile.yaml", "order.csv", "summary.json",
                                        "report.html"};
    for (size_t i = 0; i < sizeof stale / sizeof stale[0]; i++) /* of an earlier run in this folder */
        put(j, stale[i], SL_WRITER_REMOVE, "");
    open_logs(j);
    return sl_tracing_open(&j->trace, j->writer, folder, layout.pipeline, layout.data);
}

void sl_journal_close(sl_journal *j) {
    if (!j)
        return;
    if (j->writer) {
        sl_journal_flush(j);
        sl_writer_close(j->writer);
    }
    for (int r = 0; r < j->layout.data && j->profiler; r++)
        sl_profiler_close(j->profiler[r]);
    SL_FREE(j->profiler, j->ping, j->rows, j);
}

/* Further attempts find it unchanged: one that is killed meanwhile leaves nothing unfinished. */
void sl_journal_keep(sl_journal *j, const char *run_file) {
    char path[4096], *kept = NULL;
    size_t length = 0, size = strlen(run_file);
    snprintf(path, sizeof path, "%s/run.yaml", j->folder);
    int same = access(path, R_OK) == 0 && sl_file_read(path, &kept, &length) == SL_OK && length == size &&
               memcmp(kept, run_file, size) == 0;
    sl_free(kept);
    if (!same)
        put(j, "run.yaml", SL_WRITER_WHOLE, run_file);
}

sl_status sl_journal_event(sl_journal *j, const sl_event *event) {
    char *line;
    j->since_notable = 0;
    SL_TRY(sl_event_line(event, &line));
    put(j, "events.jsonl", SL_WRITER_APPEND, line);
    free(line);
    return SL_OK;
}

void sl_journal_decision(sl_journal *j, const char *line) {
    put(j, "decisions.txt", SL_WRITER_APPEND, line);
}

void sl_journal_measurement(sl_journal *j, const char *line) {
    put(j, "measurements.jsonl", SL_WRITER_APPEND, line);
}

/* ---- iterations ---- */

/* With several replicas each link has its replica. */
static void add_links(const sl_problem *measured, int replica, json_t *links) {
    for (int from = 0; from < measured->ranks; from++)
        for (int to = 0; to < measured->ranks; to++)
            if (sl_shape_has_link(measured, from, to)) {
                const sl_link *link = &measured->link[from * measured->ranks + to];
                json_t *one = json_pack("{s:i, s:i, s:f, s:f}", "from", from, "to", to, "latency_ms",
                                        sl_to_ms(link->latency), "transfer_ms", sl_to_ms(link->transfer));
                if (replica >= 0)
                    json_object_set_new(one, "replica", json_integer(replica));
                json_array_append_new(links, one);
            }
}

static json_t *links_of(const sl_iteration *it) {
    json_t *links = json_array();
    for (int replica = 0; replica < it->replicas; replica++)
        add_links(&it->measured[replica]->problem, it->replicas > 1 ? replica : -1, links);
    return links;
}

/* Op times of each pipeline rank, replica after replica. NULL: no memory. */
static json_t *works_of(const sl_iteration *it) {
    json_t *works = json_array();
    for (int replica = 0; replica < it->replicas; replica++) {
        const sl_timeline *timeline = &it->timeline[replica];
        sl_time *work;
        if (sl_alloc(&work, (size_t)timeline->ranks, sizeof *work) != SL_OK) {
            json_decref(works);
            return NULL;
        }
        sl_timeline_works(timeline, work);
        for (int rank = 0; rank < timeline->ranks; rank++)
            json_array_append_new(works, json_real(sl_to_ms(work[rank])));
        sl_free(work);
    }
    return works;
}

static sl_status write_metrics(sl_journal *j, const sl_iteration *it) {
    char samples[17];
    snprintf(samples, sizeof samples, "%016" PRIx64, it->samples);
    json_t *line =
        json_pack("{s:i, s:f, s:s, s:f, s:o, s:s, s:i, s:f, s:s, s:b, s:o, s:o}", "iteration", it->iteration,
                  "loss", it->loss, "samples", samples, "time_ms", sl_to_ms(it->time), "predicted_ms",
                  it->predicted < 0 ? json_null() : json_real(sl_to_ms(it->predicted)), "schedule",
                  it->schedule, "delegates", it->delegates, "tokens_per_s",
                  it->period > 0 ? j->tokens / ((double)it->period / 1e9) : 0.0, "phase",
                  phase_keys[it->phase], "late", it->late, "links", links_of(it), "work_ms", works_of(it));
    if (line && !isnan(it->validation))
        json_object_set_new(line, "validation_loss", json_real(it->validation));
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    char *ended = text ? realloc(text, strlen(text) + 2) : NULL;
    json_decref(line);
    if (!ended) {
        free(text);
        return sl_error(SL_ENOMEM, "out of memory for the metrics");
    }
    put(j, "metrics.jsonl", SL_WRITER_APPEND, strcat(ended, "\n"));
    free(ended);
    return SL_OK;
}

sl_status sl_journal_profile(sl_journal *j, const sl_ping_link *ping, double message_bytes, int paced) {
    j->paced = paced;
    size_t links = (size_t)j->layout.pipeline * (size_t)j->layout.pipeline;
    if (ping) {
        SL_TRY(sl_alloc(&j->ping, links, sizeof *ping));
        memcpy(j->ping, ping, links * sizeof *ping);
    }
    SL_TRY(sl_alloc(&j->profiler, (size_t)j->layout.data, sizeof(sl_profiler *)));
    for (int r = 0; r < j->layout.data; r++)
        SL_TRY(sl_profiler_open(ping, j->layout.pipeline, message_bytes, paced, &j->profiler[r]));
    return SL_OK;
}

static sl_status add_replica(sl_journal *j, const sl_iteration *it, int replica, uint64_t conditions) {
    sl_problem measured;
    const sl_time makespan = sl_timeline_makespan(&it->timeline[replica]);
    SL_TRY(sl_problem_copy(&it->measured[replica]->problem, &measured));
    if (!j->paced)
        sl_profile_average(&it->timeline[replica], &measured);
    if (it->delegates > 0) /* they never hold a rank */
        measured.communication = SL_DECOUPLED;
    sl_status status = sl_profiler_add(j->profiler[replica], conditions, &measured, makespan,
                                       sl_timeline_span(&it->timeline[replica]), it->time - makespan);
    sl_problem_free(&measured);
    return status;
}

static sl_status add_to_profile(sl_journal *j, const sl_iteration *it) {
    uint64_t conditions = (uint64_t)it->delegates;
    if (!j->profiler)
        SL_TRY(sl_journal_profile(j, NULL, 0, 1));
    for (const char *c = it->schedule; *c; c++)
        conditions = conditions * 31 + (unsigned char)*c;
    for (int r = 0; r < it->replicas; r++)
        SL_TRY(add_replica(j, it, r, conditions));
    return SL_OK;
}

int sl_journal_slowest(const sl_journal *j) {
    int slowest = 0;
    for (int r = 1; r < j->layout.data && j->profiler; r++)
        if (sl_profiler_span(j->profiler[r]) > sl_profiler_span(j->profiler[slowest]))
            slowest = r;
    return slowest;
}

/* Whether an iteration is recorded op by op: the first ones, later the ten after an event. */
static int takes_trace(sl_journal *j) {
    int *left = j->trace_left > 0 ? &j->trace_left : &j->notable_left;
    int takes = *left > 0 && (left == &j->trace_left || j->since_notable < NOTABLE);
    *left -= takes;
    j->since_notable += j->since_notable < NOTABLE;
    return takes;
}

sl_status sl_journal_iteration(sl_journal *j, const sl_iteration *it) {
    SL_TRY(write_metrics(j, it));
    say_trouble(j);
    SL_TRY(sl_grow(&j->rows, &j->row_capacity, j->row_count + 1, sizeof *j->rows));
    j->rows[j->row_count++] =
        (journal_row){.time = (float)sl_to_ms(it->time),
                      .predicted = it->predicted < 0 ? -1 : (float)sl_to_ms(it->predicted),
                      .bubble = (float)sl_timeline_bubble(it->timeline),
                      .phase = (unsigned char)it->phase,
                      .late = it->late != 0};
    if (takes_trace(j))
        SL_TRY(sl_tracing_add(&j->trace, it->timeline, it->replicas, it->begin, it->iteration));
    snprintf(j->schedule[it->phase], sizeof j->schedule[0], "%s", it->schedule);
    return add_to_profile(j, it);
}

/* ---- the end ---- */

typedef struct medians {
    int count, late, predicted_count;
    double time, predicted, ratio, bubble;
} medians;

/* Medians of the times of all iterations of a phase, and of the prediction over those without late arrivals
 * that were predicted with knowledge of the phase (not its first). */
static sl_status phase_medians(const sl_journal *j, int phase, medians *m) {
    double *v[4] = {0};
    sl_status status = SL_OK;
    *m = (medians){0};
    for (int k = 0; k < 4; k++)
        SL_TRY_GOTO(out, status, sl_alloc(&v[k], j->row_count, sizeof *v[k]));
    for (size_t i = 0; i < j->row_count; i++) {
        const journal_row *r = &j->rows[i];
        if (r->phase != phase)
            continue;
        v[0][m->count] = (double)r->time;
        v[1][m->count++] = (double)r->bubble;
        m->late += r->late;
        if (r->late || r->predicted <= 0 || i == 0 || j->rows[i - 1].phase != phase)
            continue;
        v[2][m->predicted_count] = (double)r->predicted;
        v[3][m->predicted_count++] = (double)r->time / (double)r->predicted;
    }
    m->time = sl_median_of_numbers(v[0], m->count);
    m->bubble = sl_median_of_numbers(v[1], m->count);
    m->predicted = sl_median_of_numbers(v[2], m->predicted_count);
    m->ratio = sl_median_of_numbers(v[3], m->predicted_count);
out:
    SL_FREE(v[0], v[1], v[2], v[3]);
    return status;
}

static void print_table(const sl_journal *j, const medians *m, FILE *out) {
    fprintf(out, "\n%-26s %10s %13s %14s %8s  %s\n", "", "iterations", "measured", "predicted", "bubble",
            "schedule");
    for (int phase = 0; phase < SL_PHASES; phase++) {
        if (m[phase].count == 0)
            continue;
        char predicted[32] = "-";
        if (m[phase].predicted_count > 0)
            snprintf(predicted, sizeof predicted, "%.1f ms", m[phase].predicted);
        fprintf(out, "%-26s %10d %10.1f ms %14s %6.1f%%  %s\n", phase_names[phase], m[phase].count,
                m[phase].time, predicted, 100 * m[phase].bubble, j->schedule[phase]);
    }
    if (m[SL_PHASE_SLOW].count && m[SL_PHASE_ADAPTED].count) {
        double gain = m[SL_PHASE_SLOW].time - m[SL_PHASE_ADAPTED].time;
        fprintf(out, "\nAdapting %s %.1f ms per iteration (%.1f%%)", gain < 0 ? "cost" : "saved", fabs(gain),
                100 * fabs(gain) / m[SL_PHASE_SLOW].time);
        if (m[SL_PHASE_HEALTHY].count && gain > 0) {
            double loss = m[SL_PHASE_SLOW].time - m[SL_PHASE_HEALTHY].time;
            if (loss > 0)
                fprintf(out, ": %.0f%% of what the slow link had cost", 100 * gain / loss);
        }
        fprintf(out, ".\n");
    }
}

/* Fields of a finite number; JSON has no NaN. */
static void put_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

static json_t *phases_json(const sl_journal *j, const medians *m) {
    json_t *phases = json_array();
    for (int phase = 0; phase < SL_PHASES; phase++) {
        if (m[phase].count == 0)
            continue;
        json_t *one = json_pack("{s:s, s:s, s:i, s:i}", "phase", phase_keys[phase], "schedule",
                                j->schedule[phase], "iterations", m[phase].count, "late", m[phase].late);
        put_real(one, "time_ms", m[phase].time);
        put_real(one, "predicted_ms", m[phase].predicted);
        put_real(one, "measured_over_predicted", m[phase].ratio);
        put_real(one, "bubble", m[phase].bubble);
        json_array_append_new(phases, one);
    }
    return phases;
}

static void put_time(json_t *object, const char *key, sl_time time) {
    put_real(object, key, time < 0 ? NAN : sl_to_ms(time));
}

static json_t *profile_json(const sl_forecast *f) {
    json_t *o = json_pack("{s:s, s:i}", "schedule", f->schedule, "iterations", f->iterations);
    put_time(o, "planned_ms", f->planned);
    put_time(o, "predicted_ms", f->predicted);
    put_time(o, "measured_ms", f->measured);
    put_real(o, "measured_over_predicted",
             f->predicted > 0 ? (double)f->measured / (double)f->predicted : NAN);
    put_time(o, "update_ms", f->update);
    return o;
}

/* Where a pipeline rank is not alone, with its position. */
static json_t *memory_json(const sl_journal *j, const sl_summary *s) {
    json_t *ranks = json_array();
    for (int r = 0; r < s->peaks; r++) {
        const sl_peak *p = &s->peak[r];
        json_t *one = json_pack("{s:i, s:I, s:f}", "rank", r, "measured_bytes", (json_int_t)p->measured,
                                "predicted_bytes", p->predicted);
        if (j->layout.data * j->layout.tensor > 1)
            json_object_update_new(one, json_pack("{s:i, s:i, s:i}", "pipeline", p->pipeline, "replica",
                                                  p->replica, "tensor", p->tensor));
        json_array_append_new(ranks, one);
    }
    return ranks;
}

/* The ping test: 1 byte a ns is 8 Gbit/s. */
static json_t *ping_json(const sl_journal *j) {
    json_t *links = json_array();
    int ranks = j->layout.pipeline;
    for (int at = 0; j->ping && at < ranks * ranks; at++) {
        const sl_ping_link *link = &j->ping[at];
        if (link->rounds == 0)
            continue;
        json_t *one = json_pack("{s:i, s:i, s:f, s:i}", "from", at / ranks, "to", at % ranks, "latency_ms",
                                sl_to_ms(link->latency), "rounds", link->rounds);
        put_real(one, "bandwidth_gbps", link->per_byte > 0 ? 8 / link->per_byte : NAN);
        json_array_append_new(links, one);
    }
    return links;
}

static int count_late(const sl_journal *j) {
    int late = 0;
    for (size_t i = 0; i < j->row_count; i++)
        late += j->rows[i].late;
    return late;
}

static sl_status write_summary(const sl_journal *j, const medians *m, const sl_summary *s,
                               const sl_forecast *f) {
    char hash[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->weights_hash);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:o, s:s, s:s, s:s, s:i, s:I, s:I, s:i, s:I, s:I, s:I, s:f}",
                          "format", "slackline-summary-1", "weights_hash", hash, "iterations",
                          (int)j->row_count + (j->first > 0 ? j->first : 0), "ranks",
                          j->layout.pipeline * j->layout.data * j->layout.tensor, "phases", phases_json(j, m),
                          "scheduling", s->scheduling, "instruction_set", s->isa, "communication", s->regime,
                          "late_iterations", count_late(j), "ops", (json_int_t)s->ops, "overruns",
                          (json_int_t)s->overruns, "swaps", s->swaps, "memory_peak_bytes",
                          (json_int_t)s->memory_peak, "host_peak_bytes", (json_int_t)s->host_peak, "moves",
                          (json_int_t)s->moves, "seconds", s->seconds);
    if (!o)
        return sl_error(SL_ENOMEM, "out of memory for the summary");
    json_object_set_new(o, "version", json_string(SL_VERSION));
    json_object_set_new(o, "layout",
                        json_pack("{s:i, s:i, s:i, s:i}", "pipeline", j->layout.pipeline, "data",
                                  j->layout.data, "tensor", j->layout.tensor, "zero", j->layout.zero));
    put_real(o, "validation_loss", s->validation);
    put_real(o, "byte_entropy", s->byte_entropy);
    put_real(o, "swap_ms", s->swap_cost < 0 ? NAN : sl_to_ms(s->swap_cost));
    put_real(o, "path_change_ms", s->path_cost < 0 ? NAN : sl_to_ms(s->path_cost));
    json_t *arrival = json_object();
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"max_us", 1.0}};
    for (size_t i = 0; i < 4; i++)
        put_real(arrival, percentiles[i].key, sl_arrivals_percentile(s->arrivals, percentiles[i].share));
    json_object_set_new(arrival, "count", json_integer((json_int_t)s->arrivals->count));
    json_object_set_new(o, "arrival_error", arrival);
    json_object_set_new(o, "profile", profile_json(f));
    json_object_set_new(o, "memory", memory_json(j, s));
    json_object_set_new(o, "links", ping_json(j));
    char *text = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text)
        return sl_error(SL_ENOMEM, "out of memory for the summary");
    put(j, "summary.json", SL_WRITER_WHOLE, text);
    free(text);
    return SL_OK;
}

/* The problem of the profile to be written. */
static sl_status make_problem(const sl_journal *j, sl_problem *problem) {
    return sl_profiler_problem(j->profiler[sl_journal_slowest(j)], problem);
}

static sl_status write_profile(const sl_journal *j, const sl_program *program, FILE *out) {
    (void)program;
    sl_problem problem;
    SL_TRY(make_problem(j, &problem));
    sl_status status = sl_problem_write(&problem, out);
    sl_problem_free(&problem);
    return status;
}

/* The last program, as a file: `simulate` times it with profile.yaml. A plan with parts has no CSV. */
static sl_status write_order(const sl_journal *j, const sl_program *program, FILE *out) {
    sl_problem problem;
    sl_order order = {0};
    int most = 0;
    for (int r = 0; r < program->ranks; r++)
        most = program->rank[r].steps > most ? program->rank[r].steps : most;
    SL_TRY(make_problem(j, &problem));
    sl_status status = sl_order_make(program->ranks, most, &order);
    for (int r = 0; r < program->ranks && status == SL_OK; r++)
        for (int i = 0; i < program->rank[r].steps; i++)
            order.ops[r][order.count[r]++] = program->rank[r].step[i].op;
    SL_THEN(status, sl_order_write_csv(&problem, &order, out));
    sl_order_free(&order);
    sl_problem_free(&problem);
    return status;
}

static sl_status write_file(const sl_journal *j, const char *name, const sl_program *program,
                            sl_status (*write)(const sl_journal *, const sl_program *, FILE *)) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for %s", name);
    sl_status status = write(j, program, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for %s", name);
    if (status == SL_OK)
        put(j, name, SL_WRITER_WHOLE, text);
    free(text);
    return status;
}

static void print_profile(const sl_forecast *f, FILE *out) {
    if (f->predicted >= 0)
        fprintf(
            out,
            "\nprofile.yaml (the last %d similar iterations): %s, ops predicted %.1f ms, measured %.1f ms, "
            "plus %.1f ms of other work.\n",
            f->iterations, f->schedule, sl_to_ms(f->predicted), sl_to_ms(f->measured), sl_to_ms(f->update));
}

/* A resumed run may have had no iterations left: then there is none of this. */
static sl_status write_measured(sl_journal *j, const sl_summary *s, sl_forecast *f) {
    SL_TRY(write_file(j, "profile.yaml", NULL, write_profile));
    if (s->program && s->program->parts == 1)
        SL_TRY(write_file(j, "order.csv", s->program, write_order));
    return sl_forecast_make(j->profiler[sl_journal_slowest(j)], s->program, s->schedule, f);
}

sl_status sl_journal_finish(sl_journal *j, const sl_summary *s, FILE *out) {
    medians m[SL_PHASES];
    for (int phase = 0; phase < SL_PHASES; phase++)
        SL_TRY(phase_medians(j, phase, &m[phase]));
    sl_forecast f = {.predicted = -1, .planned = -1, .measured = -1, .update = -1};
    sl_status status = j->row_count > 0 ? write_measured(j, s, &f) : SL_OK;
    SL_THEN(status, write_summary(j, m, s, &f));
    if (status == SL_OK) {
        print_table(j, m, out);
        print_profile(&f, out);
    }
    SL_TRY(status);
    sl_journal_flush(j);
    fprintf(out,
            "%d of %zu iterations had an arrival over 1 ms late; arrival error p50 %.0f us, p99 %.0f us "
            "(%s); %ld of "
            "%ld ops overran their pace.\n",
            count_late(j), j->row_count, sl_arrivals_percentile(s->arrivals, 0.5),
            sl_arrivals_percentile(s->arrivals, 0.99), s->scheduling, s->overruns, s->ops);
    if (!isnan(s->validation))
        fprintf(out, "Validation loss %.4f; entropy of single bytes of the same text %.4f (nats per byte).\n",
                s->validation, s->byte_entropy);
    fprintf(out, "weights_hash %016llx\nThe run's folder: %s\n", (unsigned long long)s->weights_hash,
            j->folder);
    return SL_OK;
}
