/* The player of a recording: reads a line, believes nothing of it, and makes its call. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/recording_fields.h"
#include "base/memory.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#define TOO_MANY 1000000 /* processes */

struct sl_player {
    sl_orchestrator *o; /* NULL before the first `open` */
    sl_field_shape shape;
    sl_measured **slot;
    size_t slots, room;
    long long lines;
    sl_orchestrator_action *action; /* of the caller */
};

/* Numbers and the text of a call, but for those that have a struct. */
typedef struct given {
    int id, outcome, strategy, iterations, may, replica, what;
    sl_time now, took, cost;
    const char *text;
} given;

#define NUMBER(kind, member, low, high)                                                                      \
    {                                                                                                        \
        .name = #member, .type = SL_FIELD_##kind, .count = 1, .offset = offsetof(given, member),             \
        .least = low, .most = high                                                                           \
    }
#define TIME(member) NUMBER(LONG, member, -4e18, 4e18)

static const sl_field of_nothing[] = {{0}}, of_now[] = {TIME(now), {0}},
                      of_offer[] = {NUMBER(INT, replica, 0, TOO_MANY), {0}},
                      of_may_leave[] = {NUMBER(INT, may, 0, 1), {0}},
                      of_estimate[] = {NUMBER(INT, strategy, 0, SL_STRATEGY_KINDS - 1), TIME(cost), {0}},
                      of_skip[] = {NUMBER(INT, iterations, 0, 1e9), TIME(now), {0}},
                      of_next[] = {NUMBER(INT, id, 1, INT_MAX), NUMBER(INT, what, 0, SL_DO_NETWORK), {0}},
                      of_carried_out[] = {NUMBER(INT, id, 0, INT_MAX),
                                          TIME(now),
                                          NUMBER(INT, outcome, 0, SL_OUTCOME_ADVISED),
                                          TIME(took),
                                          {0}};

/* What nobody has taken out is unknown. */
static sl_status end_of(json_t *object) {
    return json_object_size(object) == 0
               ? SL_OK
               : sl_error(SL_EINVAL, "'%s' is unknown here", json_object_iter_key(json_object_iter(object)));
}

static sl_status take_text(json_t *line, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(line, key));
    if (!value || strlen(value) >= size)
        return sl_error(SL_EINVAL, "'%s' must be a text of less than %zu bytes", key, size);
    memcpy(text, value, strlen(value) + 1);
    json_object_del(line, key);
    return SL_OK;
}

/* ---- problems ---- */

static int placement_fits(const sl_problem *p) {
    return p->placement == SL_LINEAR          ? p->stages == p->ranks
           : p->placement == SL_BIDIRECTIONAL ? p->stages == 2 * p->ranks
                                              : p->stages % p->ranks == 0;
}

static sl_status check_problem(const sl_problem *p) {
    if (!placement_fits(p))
        return sl_error(SL_EINVAL, "%d stages do not fit %d ranks (%s)", p->stages, p->ranks,
                        sl_placement_name(p->placement));
    if ((double)p->stages * p->microbatches * 3 * p->parts > SL_MAX_OPS ||
        !(sl_problem_total_ms(p) <= SL_MAX_TOTAL_MS))
        return sl_error(SL_EINVAL, "a problem is too large");
    return SL_OK;
}

typedef struct shape {
    int ranks, stages, microbatches;
} shape;

static const sl_field shape_fields[] = {
    {.name = "ranks", .count = 1, .offset = offsetof(shape, ranks), .least = 1, .most = SL_MAX_RANKS},
    {.name = "stages", .count = 1, .offset = offsetof(shape, stages), .least = 1, .most = SL_MAX_STAGES},
    {.name = "microbatches",
     .count = 1,
     .offset = offsetof(shape, microbatches),
     .least = 1,
     .most = SL_MAX_MICROBATCHES},
    {0}};

/* Free with sl_problem_free where SL_OK. */
static sl_status read_problem(json_t *object, sl_problem *p) {
    shape s;
    SL_TRY(sl_fields_get(object, shape_fields, NULL, 1, &s));
    const sl_field_shape many = sl_field_shape_of(1, s.ranks, s.stages, 1);
    SL_TRY(sl_problem_make(s.ranks, s.stages, s.microbatches, p));
    sl_status status = sl_fields_get(object, sl_fields_problem, &many, 0, p);
    if (status == SL_OK)
        status = end_of(object);
    if (status == SL_OK)
        status = check_problem(p);
    if (status != SL_OK)
        sl_problem_free(p);
    return status;
}

/* The measured problem differs from what was planned, in its slot. */
static sl_status read_measured(sl_player *player, int replica, json_t *object) {
    const json_t *number = json_object_get(object, "slot");
    size_t slot = (size_t)json_integer_value(number);
    sl_measured *m;
    sl_problem own;
    if (!json_is_integer(number) || slot > player->slots)
        return sl_error(SL_EINVAL, "'slot' must be at most %zu", player->slots);
    json_object_del(object, "slot");
    SL_TRY(sl_problem_copy(player->o->problem[replica], &own));
    sl_placement placement = own.placement;
    sl_status status = sl_fields_get(object, sl_fields_problem, &player->shape, 0, &own);
    if (status == SL_OK && own.placement != placement)
        status = sl_error(SL_EINVAL, "'placement' is another than the job's");
    if (status == SL_OK)
        status = check_problem(&own);
    if (status == SL_OK)
        status = sl_measured_of_problem(&own, &m);
    sl_problem_free(&own);
    SL_TRY(status);
    memset(m->op, 0, player->shape.many[SL_MANY_OPS] * sizeof *m->op);
    memset(m->link, 0, player->shape.many[SL_MANY_LINKS] * sizeof *m->link);
    memset(m->summed, 0, player->shape.many[SL_MANY_STAGES]);
    status = sl_fields_get(object, sl_fields_measured, &player->shape, 0, m);
    if (status == SL_OK)
        status = end_of(object);
    if (status == SL_OK)
        status = sl_grow(&player->slot, &player->room, slot + 1, sizeof(sl_measured *));
    if (status != SL_OK) {
        sl_measured_drop(m);
        return status;
    }
    sl_measured_drop(player->slot[slot]);
    player->slot[slot] = m;
    player->slots += slot == player->slots;
    return SL_OK;
}

/* ---- plans: as much of them as an orchestrator takes ---- */

static sl_status read_op(const json_t *ops, size_t i, sl_op *op) {
    static const int most[SL_RECORDED_OP] = {SL_B, SL_MAX_STAGES, SL_MAX_MICROBATCHES, SL_MAX_PARTS, 1};
    int number[SL_RECORDED_OP];
    for (size_t k = 0; k < SL_RECORDED_OP; k++) {
        const json_t *value = json_array_get(ops, SL_RECORDED_OP * i + k);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > most[k])
            return sl_error(SL_EINVAL, "an op of an order is %d numbers", SL_RECORDED_OP);
        number[k] = (int)json_integer_value(value);
    }
    *op = (sl_op){.kind = number[0],
                  .stage = number[1],
                  .microbatch = number[2],
                  .part = (int16_t)number[3],
                  .paired = (int16_t)number[4]};
    return SL_OK;
}

static sl_status read_order(const json_t *ranks, int count, sl_order *order) {
    size_t most = 0;
    if (json_array_size(ranks) != (size_t)count)
        return sl_error(SL_EINVAL, "'order' must be %d lists", count);
    for (int rank = 0; rank < count; rank++) {
        size_t ops = json_array_size(json_array_get(ranks, (size_t)rank)) / SL_RECORDED_OP;
        most = ops > most ? ops : most;
    }
    SL_TRY(sl_order_make(count, (int)most, order));
    for (int rank = 0; rank < count; rank++) {
        const json_t *ops = json_array_get(ranks, (size_t)rank);
        order->count[rank] = (int)(json_array_size(ops) / SL_RECORDED_OP);
        for (int i = 0; i < order->count[rank]; i++) {
            sl_status status = read_op(ops, (size_t)i, &order->ops[rank][i]);
            if (status != SL_OK) {
                sl_order_free(order);
                return status;
            }
        }
    }
    return SL_OK;
}

static sl_status read_plan(json_t *object, int ranks, sl_plan *plan) {
    SL_TRY(take_text(object, "schedule", plan->schedule, sizeof plan->schedule));
    SL_TRY(read_order(json_object_get(object, "order"), ranks, &plan->order));
    json_object_del(object, "order");
    return end_of(object);
}

/* [count] each, where null is the one before. The caller frees them, also on error. */
typedef struct per_replica {
    int count;
    sl_problem *problem;
    sl_plan *plan;
    const void **pointer; /* to either */
} per_replica;

static void free_replicas(per_replica *all) {
    for (int r = 0; r < all->count && all->problem; r++)
        sl_problem_free(&all->problem[r]);
    for (int r = 0; r < all->count && all->plan; r++)
        sl_order_free(&all->plan[r].order);
    sl_free(all->problem);
    sl_free(all->plan);
    sl_free(all->pointer);
}

static sl_status read_replicas(json_t *line, const char *key, int ranks, per_replica *all) {
    json_t *list = json_object_get(line, key);
    size_t count = (size_t)all->count;
    if (json_array_size(list) != count)
        return sl_error(SL_EINVAL, "'%s' must be a list of %zu", key, count);
    SL_TRY(sl_alloc(&all->pointer, count, sizeof(void *)));
    SL_TRY(ranks ? sl_alloc(&all->plan, count, sizeof *all->plan)
                 : sl_alloc(&all->problem, count, sizeof *all->problem));
    for (size_t r = 0; r < count; r++) {
        json_t *one = json_array_get(list, r);
        if (r > 0 && json_is_null(one)) {
            all->pointer[r] = all->pointer[r - 1];
            continue;
        }
        SL_TRY(ranks ? read_plan(one, ranks, &all->plan[r]) : read_problem(one, &all->problem[r]));
        all->pointer[r] = ranks ? (const void *)&all->plan[r] : &all->problem[r];
    }
    json_object_del(line, key);
    return SL_OK;
}

/* ---- calls ---- */

/* What `open` holds while it is read. */
typedef struct opening {
    sl_orchestrator_config config;
    sl_unknown_job unknown;
    char schedule[64];
    per_replica problem, first;
    json_t *hosts;
    const char **host;
} opening;

static sl_status read_hosts(json_t *line, opening *in, size_t processes) {
    json_t *hosts = json_object_get(line, "host");
    if (!hosts)
        return SL_OK;
    if (json_array_size(hosts) != processes)
        return sl_error(SL_EINVAL, "'host' must be a list of %zu", processes);
    SL_TRY(sl_alloc(&in->host, processes, sizeof(char *)));
    for (size_t p = 0; p < processes; p++) {
        in->host[p] = json_string_value(json_array_get(hosts, p));
        if (!in->host[p])
            return sl_error(SL_EINVAL, "'host' must hold names");
    }
    in->hosts = json_incref(hosts);
    in->config.host = in->host;
    json_object_del(line, "host");
    return SL_OK;
}

static sl_status read_pipelines(json_t *line, opening *in, sl_field_shape *many) {
    sl_orchestrator_config *c = &in->config;
    in->problem.count = in->first.count = c->job.replicas;
    SL_TRY(read_replicas(line, "problem", 0, &in->problem));
    SL_TRY(read_replicas(line, "first", c->job.ranks, &in->first));
    c->problem = (const sl_problem *const *)(const void *)in->problem.pointer;
    c->first = (const sl_plan *const *)(const void *)in->first.pointer;
    *many = sl_field_shape_of(c->job.replicas, c->job.ranks, c->problem[0]->stages, c->job.tensor);
    SL_TRY(sl_fields_get(line, sl_fields_config_arrays, many, 0, c));
    for (int r = 0; r < c->job.replicas; r++)
        if (c->problem[r]->ranks != c->job.ranks || c->problem[r]->stages != c->problem[0]->stages ||
            c->problem[r]->placement != c->problem[0]->placement)
            return sl_error(SL_EINVAL, "problem %d has another shape than the job", r);
    return read_hosts(line, in, many->many[SL_MANY_PROCESSES]);
}

static sl_status read_opening(json_t *line, opening *in, sl_field_shape *many) {
    json_t *unknown = json_object_get(line, "unknown");
    sl_orchestrator_config *c = &in->config;
    SL_TRY(take_text(line, "schedule", in->schedule, sizeof in->schedule));
    SL_TRY(sl_fields_get(line, sl_fields_config, NULL, 1, c));
    c->job.schedule = in->schedule;
    if ((double)c->job.replicas * c->job.ranks * c->job.tensor > TOO_MANY)
        return sl_error(SL_EINVAL, "more than %d processes", TOO_MANY);
    *many = sl_field_shape_of(c->job.replicas, c->job.ranks, 0, c->job.tensor);
    if (unknown) {
        SL_TRY(sl_fields_get(unknown, sl_fields_unknown, NULL, 1, &in->unknown));
        SL_TRY(end_of(unknown));
        c->unknown = &in->unknown;
        json_object_del(line, "unknown");
    }
    if (!c->unknown || json_object_get(line, "problem"))
        SL_TRY(read_pipelines(line, in, many));
    return end_of(line);
}

static sl_status play_open(sl_player *player, const given *g, json_t *line) {
    opening in = {.config = {.job = {.replicas = 0}}};
    sl_field_shape many;
    sl_orchestrator *o = NULL;
    if (strcmp(g->text, SL_RECORDING_FORMAT) != 0)
        return sl_error(SL_EINVAL, "'format' is '%s', not " SL_RECORDING_FORMAT, g->text);
    sl_status status = read_opening(line, &in, &many);
    if (status == SL_OK)
        status = sl_orchestrator_open(&in.config, &o);
    free_replicas(&in.problem);
    free_replicas(&in.first);
    sl_free((void *)in.config.split);
    sl_free((void *)in.config.job.sum);
    sl_free(in.host);
    json_decref(in.hosts);
    SL_TRY(status);
    sl_orchestrator_close(player->o);
    player->o = o;
    player->shape = many;
    for (size_t i = 0; i < player->slots; i++) {
        sl_measured_drop(player->slot[i]);
        player->slot[i] = NULL;
    }
    player->slots = 0;
    return SL_OK;
}

/* measured[replicas]. */
static sl_status read_slots(sl_player *player, json_t *list, sl_measured **measured) {
    if (json_array_size(list) != player->shape.many[SL_MANY_REPLICAS])
        return sl_error(SL_EINVAL, "'replica' must be a list of %zu", player->shape.many[SL_MANY_REPLICAS]);
    size_t r;
    json_t *one;
    json_array_foreach(list, r, one) {
        const json_t *number = json_is_object(one) ? json_object_get(one, "slot") : one;
        size_t slot = (size_t)json_integer_value(number);
        if (json_is_null(one))
            continue;
        if (json_is_object(one))
            SL_TRY(read_measured(player, (int)r, one));
        else if (!json_is_integer(one) || slot >= player->slots || !player->slot[slot])
            return sl_error(SL_EINVAL, "replica %zu was measured in no slot that is known", r);
        measured[r] = sl_measured_keep(player->slot[slot]);
    }
    return SL_OK;
}

static sl_status play_observe(sl_player *player, const given *g, json_t *line) {
    sl_orchestrator_iteration it = {.iteration = 0};
    (void)g;
    sl_unknown_job job;
    sl_measured **measured = NULL;
    json_t *list = json_object_get(line, "replica"), *unknown = json_object_get(line, "unknown");
    size_t replicas = player->shape.many[SL_MANY_REPLICAS];
    SL_TRY(sl_fields_get(line, sl_fields_iteration, NULL, 1, &it));
    if (unknown) {
        SL_TRY(sl_fields_get(unknown, sl_fields_unknown, NULL, 1, &job));
        SL_TRY(end_of(unknown));
        it.unknown = &job;
        json_object_del(line, "unknown");
    }
    if (list && player->o->unknown)
        return sl_error(SL_EINVAL, "replicas of a program whose pipeline nobody knows");
    if (list)
        SL_TRY(sl_alloc(&measured, replicas, sizeof(sl_measured *)));
    sl_status status = list ? read_slots(player, list, measured) : SL_OK;
    json_object_del(line, "replica");
    if (status == SL_OK)
        status = end_of(line);
    it.replica = measured;
    if (status == SL_OK)
        status = sl_orchestrator_observe(player->o, &it);
    for (size_t r = 0; r < replicas && measured; r++)
        sl_measured_drop(measured[r]);
    sl_free(measured);
    return status;
}

static sl_status play_report(sl_player *player, const given *g, json_t *line) {
    sl_orchestrator_report report = {.id = 0};
    SL_TRY(sl_fields_get(line, sl_fields_report, NULL, 1, &report));
    SL_TRY(end_of(line));
    if (strlen(g->text) >= sizeof report.seen)
        return sl_error(SL_EINVAL, "'seen' is too long");
    memcpy(report.seen, g->text, strlen(g->text));
    return sl_orchestrator_report_slow(player->o, g->now, &report);
}

static sl_status play_network(sl_player *player, const given *g, json_t *line) {
    json_t *list = json_object_get(line, "link"), *one;
    size_t count = json_array_size(list), i;
    sl_network_measure *measure;
    if (!json_is_array(list))
        return sl_error(SL_EINVAL, "'link' must be a list");
    SL_TRY(sl_alloc(&measure, count, sizeof *measure));
    sl_status status = SL_OK;
    json_array_foreach(list, i, one) {
        if (status == SL_OK)
            status = sl_fields_get(one, sl_fields_network, NULL, 1, &measure[i]);
        if (status == SL_OK)
            status = end_of(one);
    }
    json_object_del(line, "link");
    if (status == SL_OK)
        status = end_of(line);
    if (status == SL_OK)
        status = sl_orchestrator_network(player->o, g->now, measure, (int)count);
    sl_free(measure);
    return status;
}

/* Everybody sits somewhere, once, and every replica has something to do. */
static sl_status check_layout(const sl_job_layout *layout, size_t processes, size_t replicas) {
    unsigned char *seen;
    int good = 1;
    SL_TRY(sl_alloc(&seen, processes, 1));
    for (size_t p = 0; p < processes && good; p++) {
        size_t who = (size_t)layout->process[p];
        good = who < processes && !seen[who];
        if (good)
            seen[who] = 1;
    }
    sl_free(seen);
    for (size_t r = 0; r < replicas; r++)
        good = good && layout->split[r] > 0;
    return good ? SL_OK
                : sl_error(SL_EINVAL,
                           "'process' must name each process once, and 'split' leave out no replica");
}

static sl_status play_moved(sl_player *player, const given *g, json_t *line) {
    sl_job_layout layout;
    const size_t *many = player->shape.many;
    per_replica plans = {.count = (int)many[SL_MANY_REPLICAS]};
    (void)g;
    if (player->o->unknown)
        return sl_error(SL_EINVAL, "a program whose pipeline nobody knows has no layout");
    SL_TRY(sl_job_layout_copy(&player->o->config.job, sl_orchestrator_layout(player->o), &layout));
    memset(layout.process, 0, many[SL_MANY_PROCESSES] * sizeof *layout.process);
    memset(layout.split, 0, many[SL_MANY_REPLICAS] * sizeof *layout.split);
    sl_status status = sl_fields_get(line, sl_fields_layout, &player->shape, 1, &layout);
    if (status == SL_OK)
        status = check_layout(&layout, many[SL_MANY_PROCESSES], many[SL_MANY_REPLICAS]);
    if (status == SL_OK)
        status = read_replicas(line, "plan", (int)many[SL_MANY_RANKS], &plans);
    if (status == SL_OK)
        status = end_of(line);
    if (status == SL_OK)
        status =
            sl_orchestrator_moved(player->o, &layout, (const sl_plan *const *)(const void *)plans.pointer);
    free_replicas(&plans);
    sl_job_layout_free(&layout);
    return status;
}

static sl_status play_offer(sl_player *player, const given *g, json_t *line) {
    sl_plan plan = {.makespan = 0};
    sl_status status =
        read_plan(json_object_get(line, "plan"), (int)player->shape.many[SL_MANY_RANKS], &plan);
    json_object_del(line, "plan");
    if (status == SL_OK)
        status = end_of(line);
    if (status == SL_OK)
        status = sl_orchestrator_offer(player->o, g->replica, &plan);
    sl_order_free(&plan.order);
    return status;
}

static sl_status play_estimate(sl_player *player, const given *g, json_t *line) {
    SL_TRY(end_of(line));
    return sl_orchestrator_estimate(player->o, (sl_strategy_kind)g->strategy, g->cost);
}

static sl_status play_may_leave(sl_player *player, const given *g, json_t *line) {
    SL_TRY(end_of(line));
    return sl_orchestrator_may_leave(player->o, g->text, g->may);
}

static sl_status play_skip(sl_player *player, const given *g, json_t *line) {
    SL_TRY(end_of(line));
    if (player->o->unknown)
        return sl_error(SL_EINVAL, "iterations of a program whose pipeline nobody knows are not skipped");
    return sl_orchestrator_skip(player->o, g->iterations, g->now);
}

static sl_status play_load(sl_player *player, const given *g, json_t *line) {
    SL_TRY(end_of(line));
    return sl_orchestrator_load(player->o, g->text);
}

static sl_status play_next(sl_player *player, const given *g, json_t *line) {
    sl_orchestrator_action a = {.what = SL_DO_NOTHING};
    SL_TRY(end_of(line));
    if (!sl_orchestrator_next(player->o, &a) || a.id != g->id || (int)a.what != g->what)
        return sl_error(SL_EINVAL,
                        "the orchestrator asks for action %d of kind %d, and asked for action %d of kind %d",
                        a.id, (int)a.what, g->id, g->what);
    *player->action = a;
    return SL_OK;
}

static sl_status play_carried_out(sl_player *player, const given *g, json_t *line) {
    SL_TRY(end_of(line));
    return sl_orchestrator_carried_out(player->o, g->id, g->now, (sl_outcome)g->outcome, g->took);
}

static const struct {
    const char *name;
    const sl_field *numbers;
    const char *text; /* its key; NULL: there is none */
    sl_status (*play)(sl_player *player, const given *given, json_t *line);
} calls[] = {{"open", of_nothing, "format", play_open},
             {"observe", of_nothing, NULL, play_observe},
             {"report", of_now, "seen", play_report},
             {"network", of_now, NULL, play_network},
             {"moved", of_nothing, NULL, play_moved},
             {"offer", of_offer, NULL, play_offer},
             {"skip", of_skip, NULL, play_skip},
             {"estimate", of_estimate, NULL, play_estimate},
             {"may_leave", of_may_leave, "host", play_may_leave},
             {"load", of_nothing, "text", play_load},
             {"next", of_next, NULL, play_next},
             {"carried_out", of_carried_out, NULL, play_carried_out}};

/* ---- the player ---- */

static sl_status play(sl_player *player, json_t *line) {
    char name[32];
    given g = {.text = ""};
    size_t i = 0, count = sizeof calls / sizeof *calls;
    SL_TRY(take_text(line, "call", name, sizeof name));
    while (i < count && strcmp(calls[i].name, name) != 0)
        i++;
    if (i == count)
        return sl_error(SL_EINVAL, "'%s' is no call", name);
    if (!player->o && calls[i].play != play_open)
        return sl_error(SL_EINVAL, "'%s' comes before 'open'", name);
    SL_TRY(sl_fields_get(line, calls[i].numbers, NULL, 1, &g));
    if (!calls[i].text)
        return calls[i].play(player, &g, line);
    json_t *text = json_incref(json_object_get(line, calls[i].text));
    json_object_del(line, calls[i].text);
    g.text = json_string_value(text);
    sl_status status =
        g.text ? calls[i].play(player, &g, line) : sl_error(SL_EINVAL, "'%s' must be a text", calls[i].text);
    json_decref(text);
    return status;
}

sl_status sl_player_open(sl_player **player) {
    return sl_alloc(player, 1, sizeof **player);
}

void sl_player_close(sl_player *player) {
    if (!player)
        return;
    sl_orchestrator_close(player->o);
    for (size_t i = 0; i < player->slots; i++)
        sl_measured_drop(player->slot[i]);
    sl_free(player->slot);
    sl_free(player);
}

sl_status sl_player_line(sl_player *player, const char *text, size_t size, sl_orchestrator_action *action) {
    json_error_t error;
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    *action = (sl_orchestrator_action){.what = SL_DO_NOTHING};
    player->lines++;
    player->action = action;
    sl_status status = json_is_object(line) ? play(player, line)
                       : line               ? sl_error(SL_EINVAL, "it is no object")
                                            : sl_error(SL_EINVAL, "%s", error.text);
    json_decref(line);
    return status == SL_OK ? SL_OK : sl_error(status, "line %lld: %s", player->lines, sl_error_text());
}

sl_orchestrator *sl_player_orchestrator(sl_player *player) {
    return player->o;
}
