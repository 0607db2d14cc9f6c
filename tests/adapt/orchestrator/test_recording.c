/* A recording gives events, actions and decisions again, byte for byte; and one that is damaged gives errors.
 */
#include "drive.h"

#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/recording_fields.h"
#include "adapt/orchestrator/unknown.h"

#include <math.h>

/* ---- texts ---- */

typedef struct text {
    char *at;
    size_t size;
    FILE *out;
} text;

static void open_text(text *t) {
    *t = (text){.out = NULL};
    t->out = open_memstream(&t->at, &t->size);
    assert_non_null(t->out);
}

static void close_text(text *t) {
    if (t->out)
        fclose(t->out);
    t->out = NULL;
}

static void free_text(text *t) {
    close_text(t);
    free(t->at);
}

static void take_line(void *context, const char *line) {
    text *t = context;
    fputs(line, t->out);
}

/* What an orchestrator has to say. */
static void read_all(sl_orchestrator *o, FILE *events, FILE *decisions) {
    sl_event e;
    while (sl_orchestrator_event(o, &e)) {
        char *line;
        assert_ok(sl_event_line(&e, &line));
        fputs(line, events);
        free(line);
    }
    const char *said = sl_orchestrator_decisions(o);
    if (said)
        fputs(said, decisions);
}

/* Of a line that was refused: *refused is its number. */
static sl_status play(const char *recording, size_t size, FILE *events, FILE *decisions, int *actions) {
    sl_player *player;
    sl_status all = SL_OK;
    *actions = 0;
    assert_ok(sl_player_open(&player));
    for (const char *line = recording, *end; line < recording + size; line = end + 1) {
        sl_orchestrator_action action;
        end = memchr(line, '\n', (size_t)(recording + size - line));
        assert_non_null(end);
        sl_status status = sl_player_line(player, line, (size_t)(end - line), &action);
        all = all == SL_OK ? status : all;
        *actions += action.what != SL_DO_NOTHING;
        if (sl_player_orchestrator(player))
            read_all(sl_player_orchestrator(player), events, decisions);
    }
    sl_player_close(player);
    return all;
}

static void assert_plays(const text *recording, const text *events, const text *decisions, int actions) {
    text again[2];
    int asked;
    open_text(&again[0]);
    open_text(&again[1]);
    assert_ok(play(recording->at, recording->size, again[0].out, again[1].out, &asked));
    close_text(&again[0]);
    close_text(&again[1]);
    assert_string_equal(again[0].at, events->at);
    assert_string_equal(again[1].at, decisions->at);
    assert_int_equal(asked, actions);
    free_text(&again[0]);
    free_text(&again[1]);
}

/* ---- random jobs ---- */

/* Events are objects, decisions begin with a time; the rest is the driver's. */
static void sort_lines(const char *all, FILE *events, FILE *decisions) {
    for (const char *line = all, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        const char *seconds = line + strspn(line, " 0123456789.");
        if (*line == '{')
            fprintf(events, "%.*s\n", (int)(end - line), line);
        else if (strncmp(seconds - 1, " s  iteration", 13) == 0)
            fprintf(decisions, "%.*s\n", (int)(end - line), line);
    }
}

static void random_jobs_say_the_same_again(void **state) {
    (void)state;
    uint64_t seed = seed_of(1);
    tally sum = {0};
    for (uint64_t round = 0; round < (uint64_t)cases(40); round++) {
        job j;
        char *said;
        text recording, events, decisions;
        drive_options options = drive_defaults();
        job_draw(seed + round, &j);
        open_text(&recording);
        open_text(&events);
        open_text(&decisions);
        j.config.record.line = take_line;
        j.config.record.context = &recording;
        tally one = {0};
        for (int p = 0; p < PROMISES; p++)
            one.broken[p] = 1000; /* others judge (test_jobs.c) */
        drive(&j, &options, &one, &said);
        sort_lines(said, events.out, decisions.out);
        close_text(&recording);
        close_text(&events);
        close_text(&decisions);
        int actions = one.networks;
        for (int s = 0; s < SL_STRATEGY_KINDS; s++)
            actions += one.actions[s];
        printf("SL_SEED=%llu: %zu bytes, %d events, %d actions\n", (unsigned long long)(seed + round),
               recording.size, one.events, actions);
        assert_plays(&recording, &events, &decisions, actions);
        sum.events += one.events;
        sum.networks += actions;
        free(said);
        free_text(&recording);
        free_text(&events);
        free_text(&decisions);
        job_free(&j);
    }
    assert_true(sum.events > cases(100) && sum.networks > cases(20)); /* something was said and done */
}

/* ---- every call ---- */

/* 2 x 2 with measurements that come again, and all that a body may say besides. */
typedef struct world {
    job j;
    sl_orchestrator *o;
    text recording, events, decisions;
    sl_time now;
    int iteration, actions;
} world;

static void open_world(world *w) {
    *w = (world){.now = 0};
    open_text(&w->recording);
    open_text(&w->events);
    open_text(&w->decisions);
    job_plain(2, 2, 8, 10 * SL_MS, SL_MS, &w->j);
    for (int p = 0; p < 4; p++) {
        snprintf(w->j.name[p], sizeof w->j.name[p], "host%d", p);
        w->j.host[p] = w->j.name[p];
    }
    w->j.config.host = w->j.host;
    w->j.config.can = (1u << SL_STRATEGY_KINDS) - 1;
    w->j.config.record.line = take_line;
    w->j.config.record.context = &w->recording;
    assert_ok(sl_orchestrator_open(&w->j.config, &w->o));
}

static void close_world(world *w) {
    close_text(&w->recording);
    close_text(&w->events);
    close_text(&w->decisions);
    sl_orchestrator_close(w->o);
}

static void free_world(world *w) {
    free_text(&w->recording);
    free_text(&w->events);
    free_text(&w->decisions);
    job_free(&w->j);
}

static void act(world *w) {
    sl_orchestrator_action a;
    read_all(w->o, w->events.out, w->decisions.out);
    while (sl_orchestrator_next(w->o, &a)) {
        w->actions++;
        w->now += a.cost;
        assert_ok(sl_orchestrator_carried_out(w->o, a.id, w->now, SL_OUTCOME_DONE, a.cost));
        read_all(w->o, w->events.out, w->decisions.out);
    }
}

/* The same two measurements, given again and again. */
static void observe(world *w, int iterations, sl_measured *one, sl_measured *other, sl_time each) {
    sl_measured *const replica[2] = {one, other};
    for (int i = 0; i < iterations; i++) {
        w->now += each;
        assert_ok(sl_orchestrator_observe(w->o, &(sl_orchestrator_iteration){.iteration = w->iteration++,
                                                                             .now = w->now,
                                                                             .time = each,
                                                                             .work = 0.1 * w->iteration,
                                                                             .clock_error = 1234,
                                                                             .replica = replica}));
        act(w);
    }
}

static void play_a_day(world *w) {
    sl_measured *well, *slow;
    sl_problem p;
    char *saved;
    job_problem(&w->j, sl_orchestrator_layout(w->o), 0, 0, -1, &p);
    assert_ok(sl_measured_of_problem(&p, &well));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p.time[kind][1] *= 3;
    assert_ok(sl_measured_of_problem(&p, &slow));
    sl_problem_free(&p);
    const sl_time each = 300 * SL_MS;
    observe(w, 40, well, well, each);
    int idle = sl_orchestrator_idle(w->o, each);
    assert_true(idle > 10);
    w->iteration += 10;
    w->now += 10 * each;
    assert_ok(sl_orchestrator_skip(w->o, 10, w->now));
    assert_ok(sl_orchestrator_estimate(w->o, SL_STRATEGY_RESTART, 3600 * SL_SECOND));
    assert_ok(sl_orchestrator_may_leave(w->o, w->j.host[0], 0));
    assert_ok(sl_orchestrator_improve(w->o, 1));
    assert_ok(sl_orchestrator_keep_sums(w->o, 1));
    assert_ok(sl_orchestrator_offer(w->o, 1, w->j.first[1]));
    observe(w, 30, well, slow, 3 * each);
    assert_ok(sl_orchestrator_report_slow(
        w->o, w->now,
        &(sl_orchestrator_report){
            .id = 7, .part = {.kind = SL_PART_CARD, .a = 1, .b = -1}, .loss = 0.3, .seen = "a cable"}));
    sl_network_measure link[2] = {{0, 1, 1e-3 / 3, 0.1}, {1, 0, 2e6, 0.7}};
    assert_ok(sl_orchestrator_network(w->o, w->now, link, 2));
    observe(w, 30, well, well, each);
    sl_job_layout layout;
    assert_ok(sl_job_layout_copy(&w->j.config.job, sl_orchestrator_layout(w->o), &layout));
    int kept = layout.process[0];
    layout.process[0] = layout.process[3];
    layout.process[3] = kept;
    const sl_plan *plan[2] = {sl_orchestrator_plan(w->o, 0), sl_orchestrator_plan(w->o, 1)};
    sl_plan copy[2] = {*plan[0], *plan[1]};
    for (int r = 0; r < 2; r++) /* what the orchestrator runs goes with the layout */
        assert_ok(sl_order_copy(&plan[r]->order, &copy[r].order));
    assert_ok(sl_orchestrator_moved(w->o, &layout, (const sl_plan *const[]){&copy[0], &copy[1]}));
    sl_job_layout_free(&layout);
    observe(w, 20, slow, well, 2 * each);
    assert_ok(sl_orchestrator_save(w->o, &saved));
    sl_orchestrator_close(w->o);
    assert_ok(sl_orchestrator_open(&w->j.config, &w->o));
    assert_ok(sl_orchestrator_load(w->o, saved));
    free(saved);
    observe(w, 30, slow, well, 2 * each);
    for (int r = 0; r < 2; r++)
        sl_order_free(&copy[r].order);
    sl_measured_drop(well);
    sl_measured_drop(slow);
}

static void every_call_is_played_again(void **state) {
    (void)state;
    world w;
    open_world(&w);
    play_a_day(&w);
    close_world(&w);
    static const char *const calls[] = {"open",    "observe",   "skip",  "estimate",   "may_leave",
                                        "improve", "keep_sums", "offer", "load",       "report",
                                        "network", "moved",     "next",  "carried_out"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char start[40];
        snprintf(start, sizeof start, "{\"call\":\"%s\"", calls[i]);
        if (!strstr(w.recording.at, start))
            fail_msg("no %s", start);
    }
    assert_true(w.actions > 2);
    assert_plays(&w.recording, &w.events, &w.decisions, w.actions);
    free_world(&w);
}

/* 200 iterations of two measurements are two of them and 398 numbers. */
static void what_was_measured_once_is_written_once(void **state) {
    (void)state;
    world w;
    int written = 0;
    open_world(&w);
    play_a_day(&w);
    close_world(&w);
    for (const char *at = w.recording.at; (at = strstr(at, "\"slot\"")); at++)
        written++;
    assert_int_equal(written, 4); /* two, and again for the orchestrator that was opened last */
    free_world(&w);
}

static void a_program_without_a_known_pipeline_is_played_too(void **state) {
    (void)state;
    text recording, events, decisions;
    open_text(&recording);
    open_text(&events);
    open_text(&decisions);
    sl_unknown_job known = {.ranks = 4,
                            .nodes = 2,
                            .replicas = 4,
                            .microbatches = 8,
                            .lightest = -1,
                            .healthy = 1e8,
                            .level = 1e8};
    sl_orchestrator_config config = sl_orchestrator_defaults();
    config.unknown = &known;
    config.can = 1u << SL_STRATEGY_BALANCE | 1u << SL_STRATEGY_RESTART;
    config.record.line = take_line;
    config.record.context = &recording;
    sl_orchestrator *o;
    int actions = 0;
    assert_ok(sl_orchestrator_open(&config, &o));
    for (int i = 0; i < 60; i++) {
        sl_orchestrator_action a;
        sl_time now = i * SL_SECOND;
        if (i == 10) {
            known.slow = 1;
            known.changes = 1;
            known.level = 2e8;
            assert_ok(sl_orchestrator_report_slow(
                o, now,
                &(sl_orchestrator_report){.id = 3,
                                          .part = {.kind = SL_PART_DEVICE, .a = 2, .b = -1, .slowdown = 2},
                                          .loss = -1,
                                          .seen = "a test"}));
        }
        assert_ok(sl_orchestrator_observe(
            o, &(sl_orchestrator_iteration){.iteration = 10 * i, .now = now, .unknown = &known}));
        read_all(o, events.out, decisions.out);
        while (sl_orchestrator_next(o, &a)) {
            actions++;
            assert_ok(sl_orchestrator_carried_out(o, a.id, now, SL_OUTCOME_DONE, a.cost));
            read_all(o, events.out, decisions.out);
        }
    }
    sl_orchestrator_close(o);
    close_text(&recording);
    close_text(&events);
    close_text(&decisions);
    assert_true(actions > 0);
    assert_plays(&recording, &events, &decisions, actions);
    free_text(&recording);
    free_text(&events);
    free_text(&decisions);
}

/* ---- numbers ---- */

static double draw_bits(uint64_t *seed) {
    double value;
    do {
        uint64_t bits = sl_random_mix(*seed += SL_RANDOM_STEP);
        memcpy(&value, &bits, sizeof value);
    } while (!(fabs(value) < 1e18));
    return draw(seed, 4) ? value : 0;
}

static void draw_levels(uint64_t *seed, sl_level *level, size_t count) {
    for (size_t i = 0; i < count; i++)
        level[i] = (sl_level){.count = draw(seed, 3),
                              .worked = draw(seed, 3),
                              .time = draw_bits(seed),
                              .work = draw_bits(seed),
                              .span = draw_bits(seed),
                              .slope = draw_bits(seed)};
}

static void assert_same_levels(const sl_level *a, const sl_level *b, size_t count) {
    assert_memory_equal(a, b, count * sizeof *a);
}

/* By way of text, from the base that the reader has as well. */
static void send(const sl_field *field, const sl_field_shape *shape, const void *from, const void *base,
                 void *to) {
    json_t *object = json_object(), *read;
    assert_true(sl_fields_put(object, field, shape, from, base));
    char *line = json_dumps(object, JSON_COMPACT);
    read = json_loads(line, 0, NULL);
    assert_ok(sl_fields_get(read, field, shape, base == NULL, to));
    assert_int_equal(json_object_size(read), 0);
    json_decref(object);
    json_decref(read);
    free(line);
}

static void numbers_come_back_bit_for_bit(void **state) {
    (void)state;
    uint64_t seed = seed_of(3);
    for (int round = 0; round < cases(200); round++) {
        sl_problem planned, own, back;
        sl_measured *m, *again;
        draw_problem(&seed, (sl_placement)draw(&seed, SL_PLACEMENTS), 1, &planned);
        sl_field_shape shape = sl_field_shape_of(1, planned.ranks, planned.stages, 1);
        assert_ok(sl_problem_copy(&planned, &own));
        for (int stage = 0; stage < own.stages; stage++) {
            own.time[draw(&seed, SL_OP_KINDS)][stage] =
                (sl_time)(sl_random_mix(seed += SL_RANDOM_STEP) >> 15);
            own.delta[draw(&seed, SL_OP_KINDS)][stage] = draw_bits(&seed);
        }
        own.link[draw(&seed, own.ranks * own.ranks)] = (sl_link){.latency = -draw(&seed, 1000),
                                                                 .lanes = draw(&seed, 9),
                                                                 .bytes = fabs(draw_bits(&seed)),
                                                                 .jitter = 1};
        if (draw(&seed, 2)) {
            own.limit = calloc((size_t)own.ranks, sizeof *own.limit);
            own.limit[0] = draw(&seed, 2) ? -0.0 : 1.0 / 3;
        }
        assert_ok(sl_problem_copy(&planned, &back));
        send(sl_fields_problem, &shape, &own, &planned, &back);
        size_t stages = (size_t)own.stages, links = shape.many[SL_MANY_LINKS];
        for (int kind = 0; kind < SL_OP_KINDS; kind++) {
            assert_memory_equal(own.time[kind], back.time[kind], stages * sizeof(sl_time));
            assert_memory_equal(own.delta[kind], back.delta[kind], stages * sizeof(double));
        }
        for (size_t i = 0; i < links; i++)
            assert_true(own.link[i].latency == back.link[i].latency &&
                        own.link[i].transfer == back.link[i].transfer &&
                        own.link[i].lanes == back.link[i].lanes &&
                        own.link[i].jitter == back.link[i].jitter &&
                        memcmp(&own.link[i].bytes, &back.link[i].bytes, sizeof(double)) == 0);
        assert_int_equal(own.limit != NULL, back.limit != NULL);
        if (own.limit)
            assert_memory_equal(own.limit, back.limit, (size_t)own.ranks * sizeof(double));
        assert_ok(sl_measured_of_problem(&planned, &m));
        assert_ok(sl_measured_of_problem(&planned, &again));
        draw_levels(&seed, m->op, shape.many[SL_MANY_OPS]);
        draw_levels(&seed, m->link, links);
        memset(again->op, 0, shape.many[SL_MANY_OPS] * sizeof *again->op);
        memset(again->link, 0, links * sizeof *again->link);
        send(sl_fields_measured, &shape, m, NULL, again);
        assert_same_levels(m->op, again->op, shape.many[SL_MANY_OPS]);
        assert_same_levels(m->link, again->link, links);
        sl_measured_drop(m);
        sl_measured_drop(again);
        sl_problem_free(&planned);
        sl_problem_free(&own);
        sl_problem_free(&back);
    }
}

/* ---- damage ---- */

static const struct damage {
    const char *from, *to, *says; /* the first `from` becomes `to` */
} damages[] = {
    {"\"job.replicas\":2", "\"job.replicas\":3", "line 1: 'problem' must be a list of 3"},
    {"\"job.replicas\":2", "\"job.replicas\":2000000",
     "line 1: 'job.replicas' must be a whole number from 1 to 1e+06"},
    {"\"job.ranks\":2", "\"job.ranks\":3", "line 1: 'order' must be 3 lists"},
    {"\"job.ranks\":2,", "", "line 1: 'job.ranks' is missing"},
    {"\"dwell\":20", "\"dwel\":20", "line 1: 'dwell' is missing"},
    {"\"stages\":2", "\"stages\":3", "line 1: 3 stages do not fit 2 ranks (linear)"},
    {"\"hold\":5", "\"hold\":500", "line 1: hold must be from 1 to 32"},
    {"\"gain\":0.02", "\"gain\":null", "line 1: 'gain' must be a number from 0 to 1"},
    {"slackline-recording-1", "slackline-recording-2", "line 1: 'format' is 'slackline-recording-2'"},
    {"\"time.F\":{\"0\"", "\"time.F\":{\"2\"", "line 1: 'time.F' has 2 values, none of them is '2'"},
    {"\"time.F\":{\"0\"", "\"time.F\":{\"\"", "line 1: 'time.F' has 2 values, none of them is ''"},
    {"\"call\":\"open\"", "\"call\":\"opne\"", "line 1: unknown call 'opne'"},
    {"\"iteration\":0,", "\"iteration\":0,\"also\":1,", "line 2: 'also' is unknown here"},
    {"\"iteration\":1,", "\"iteration\":-1,", "line 3: 'iteration' must be"},
    {"\"iteration\":1,", "\"iteration\":1.5,", "line 3: 'iteration' must be a whole number"},
    {"\"slot\":0", "\"slot\":1", "line 2: 'slot' must be at most 0"},
    {"\"replica\":[0,0]", "\"replica\":[0,9]", "line 3: replica 1 was measured in no slot that is known"},
    {"\"replica\":[0,0]", "\"replica\":[0]", "line 3: 'replica' must be a list of 2"},
    {"\"iteration\":1,", "\"iteration\":1 \"", "line 3: "},
    {"\"process\":{", "\"process\":{\"1\":3,", "duplicate"},
};

static void damage_is_an_error_with_the_line(void **state) {
    (void)state;
    world w;
    open_world(&w);
    play_a_day(&w);
    close_world(&w);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *d = &damages[i];
        text bad;
        size_t size = 0;
        sl_status status = SL_OK;
        sl_player *player;
        const char *at = strstr(w.recording.at, d->from);
        if (!at)
            fail_msg("there is no %s", d->from);
        open_text(&bad);
        fprintf(bad.out, "%.*s%s%s", (int)(at - w.recording.at), w.recording.at, d->to, at + strlen(d->from));
        close_text(&bad);
        assert_ok(sl_player_open(&player));
        while (status == SL_OK && size < bad.size) { /* what comes behind depends on it */
            sl_orchestrator_action action;
            size_t length = strcspn(bad.at + size, "\n");
            status = sl_player_line(player, bad.at + size, length, &action);
            size += length + 1;
        }
        sl_player_close(player);
        assert_int_equal(status, SL_EINVAL);
        if (missing_fact(sl_error_text(), d->says))
            fail_msg("%s instead of %s: '%s', not '%s'", d->to, d->from, sl_error_text(), d->says);
        free_text(&bad);
    }
    free_world(&w);
}

/* A recording of a few iterations and calls, cheap to play. */
static void record_an_hour(text *recording) {
    world w;
    sl_measured *well, *slow;
    sl_problem p;
    open_world(&w);
    sl_orchestrator_close(w.o);
    fclose(w.recording.out);
    free(w.recording.at);
    open_text(&w.recording);
    w.j.config.can = 1u << SL_STRATEGY_BALANCE | 1u << SL_STRATEGY_DELEGATE;
    w.j.config.cost[SL_STRATEGY_BALANCE] = SL_MS;
    assert_ok(sl_orchestrator_open(&w.j.config, &w.o));
    job_problem(&w.j, sl_orchestrator_layout(w.o), 0, 0, -1, &p);
    assert_ok(sl_measured_of_problem(&p, &well));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        p.time[kind][1] *= 3;
    assert_ok(sl_measured_of_problem(&p, &slow));
    sl_problem_free(&p);
    observe(&w, 6, well, well, 300 * SL_MS);
    observe(&w, 8, well, slow, 600 * SL_MS);
    assert_ok(sl_orchestrator_report_slow(
        w.o, w.now,
        &(sl_orchestrator_report){
            .id = 7, .part = {.kind = SL_PART_LINK, .a = 1, .b = 2}, .loss = -1, .seen = "a cable"}));
    assert_ok(sl_orchestrator_network(w.o, w.now, &(sl_network_measure){0, 1, 1e6, 0.1}, 1));
    assert_ok(sl_orchestrator_may_leave(w.o, w.j.host[0], 0));
    observe(&w, 3, well, slow, 600 * SL_MS);
    sl_measured_drop(well);
    sl_measured_drop(slow);
    close_world(&w);
    *recording = w.recording;
    w.recording = (text){.at = NULL};
    free_world(&w);
}

static const char *const values[] = {
    "null", "-1",   "0",  "1",  "2147483647", "-2147483648", "9223372036854775807", "1e300",  "-0.0",
    "0.5",  "\"\"", "[]", "{}", "[[[]]]",     "true",        "{\"0\":1}",           "1000000"};

/* A line of random damage: bytes, or a value that becomes another one. */
static void damage_line(uint64_t *seed, const char *line, size_t length, FILE *out) {
    char *own = malloc(length + 1);
    memcpy(own, line, length);
    own[length] = 0;
    if (draw(seed, 2) && length) { /* bytes */
        for (int n = 1 + draw(seed, 3); n > 0; n--) {
            size_t at = (size_t)draw(seed, (int)length);
            own[at] = (char)(draw(seed, 4) ? "0123456789{}[]\",:.-eE"[draw(seed, 21)] : draw(seed, 256));
            own[at] = own[at] == '\n' ? ' ' : own[at];
        }
        fwrite(own, 1, draw(seed, 5) ? length : (size_t)draw(seed, (int)length), out);
    } else {
        size_t commas = 0, at = 0;
        for (size_t i = 0; i < length; i++)
            commas += own[i] == ',' || own[i] == ':';
        for (size_t chosen = commas ? (size_t)draw(seed, (int)commas) + 1 : 0; chosen > 0 && at < length;
             at++)
            chosen -= own[at] == ',' || own[at] == ':';
        size_t rest = at + strcspn(own + at, ",}]");
        fprintf(out, "%.*s%s%s", (int)at, own, values[draw(seed, (int)(sizeof values / sizeof *values))],
                own + rest);
    }
    fputc('\n', out);
    free(own);
}

#ifdef __SANITIZE_ADDRESS__ /* which sees at once what may never crash */
enum { DAMAGED = 300 };
#else
enum { DAMAGED = 1500 };
#endif

static void random_damage_never_crashes(void **state) {
    (void)state;
    uint64_t seed = seed_of(5);
    const char *given = getenv("SL_JOBS");
    int refused = 0, rounds = given ? atoi(given) : DAMAGED;
    text recording;
    FILE *nowhere = fopen("/dev/null", "w");
    record_an_hour(&recording);
    for (int round = 0; round < rounds; round++) {
        sl_player *player;
        int line = 0, lines = 0;
        uint64_t first = seed;
        for (size_t i = 0; i < recording.size; i++)
            lines += recording.at[i] == '\n';
        int damaged = draw(&seed, lines);
        assert_ok(sl_player_open(&player));
        for (const char *at = recording.at, *end; at < recording.at + recording.size; at = end + 1, line++) {
            sl_orchestrator_action action;
            text one;
            char says[32];
            end = strchr(at, '\n');
            open_text(&one);
            if (line == damaged)
                damage_line(&seed, at, (size_t)(end - at), one.out);
            else
                fprintf(one.out, "%.*s\n", (int)(end - at), at);
            close_text(&one);
            sl_status status = sl_player_line(player, one.at, one.size - 1, &action);
            free_text(&one);
            snprintf(says, sizeof says, "line %d: ", line + 1);
            if (status != SL_OK && (status == SL_ESYS || strncmp(sl_error_text(), says, strlen(says)) != 0))
                fail_msg("SL_SEED=%llu: '%s' of line %d", (unsigned long long)first, sl_error_text(),
                         line + 1);
            refused += status != SL_OK && line == damaged;
            if (sl_player_orchestrator(player))
                read_all(sl_player_orchestrator(player), nowhere, nowhere);
        }
        sl_player_close(player);
    }
    printf("%d of %d damaged lines were refused\n", refused, rounds);
    assert_true(refused > rounds / 2);
    fclose(nowhere);
    free_text(&recording);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_say_the_same_again),
        cmocka_unit_test(every_call_is_played_again),
        cmocka_unit_test(what_was_measured_once_is_written_once),
        cmocka_unit_test(a_program_without_a_known_pipeline_is_played_too),
        cmocka_unit_test(numbers_come_back_bit_for_bit),
        cmocka_unit_test(damage_is_an_error_with_the_line),
        cmocka_unit_test(random_damage_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
