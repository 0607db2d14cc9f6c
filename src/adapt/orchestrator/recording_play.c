/* The player of a recording: reads a line, validates all of it, and makes its call. */
#include "adapt/orchestrator/orchestrator_inside.h"
#include "adapt/orchestrator/recording.h"
#include "adapt/orchestrator/recording_fields.h"
#include "adapt/orchestrator/unknown.h"
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
    sl_orchestrator_action *action; /* owned by the caller */
};

/* Members that were not taken out are unknown. */
static sl_status end_of(json_t *object) {
    return json_object_size(object) == 0
               ? SL_OK
               : sl_error(SL_EINVAL, "'%s' is unknown here", json_object_iter_key(json_object_iter(object)));
}

/* Takes it out of the object, for the caller to free; NULL: it is missing. */
static json_t *take(json_t *object, const char *key) {
    json_t *value = json_incref(json_object_get(object, key));
    json_object_del(object, key);
    return value;
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

#define SHAPE(member, high)                                                                                  \
    { .name = #member, .count = 1, .offset = offsetof(sl_problem, member), .least = 1, .most = high }
static const sl_field shape_fields[] = {
    SHAPE(ranks, SL_MAX_RANKS), SHAPE(stages, SL_MAX_STAGES), SHAPE(microbatches, SL_MAX_MICROBATCHES), {0}};

/* Free with sl_problem_free if SL_OK. */
static sl_status read_problem(json_t *object, sl_problem *p) {
    sl_problem s;
    SL_TRY(sl_fields_get(object, shape_fields, NULL, 1, &s));
    const sl_field_shape many = sl_field_shape_of(1, s.ranks, s.stages, 1);
    SL_TRY(sl_problem_make(s.ranks, s.stages, s.microbatches, p));
    sl_status status = sl_fields_get(object, sl_fields_problem, &many, 0, p);
    SL_THEN(status, end_of(object));
    SL_THEN(status, check_problem(p));
    if (status != SL_OK)
        sl_problem_free(p);
    return status;
}

/* The differences between the measured problem and the planned one, in its slot. */
static sl_status read_measured(sl_player *player, int replica, json_t *object) {
    const json_t *number = json_object_get(object, "slot");
    size_t slot = (size_t)json_integer_value(number);
    const size_t *many = player->shape.many;
    sl_measured *m = NULL;
    sl_problem own;
    sl_status status;
    if (!json_is_integer(number) || slot > player->slots)
        return sl_error(SL_EINVAL, "'slot' must be at most %zu", player->slots);
    json_object_del(object, "slot");
    SL_TRY(sl_problem_copy(player->o->problem[replica], &own));
    sl_placement placement = own.placement;
    SL_TRY_GOTO(done, status, sl_fields_get(object, sl_fields_problem, &player->shape, 0, &own));
    if (own.placement != placement)
        SL_TRY_GOTO(done, status, sl_error(SL_EINVAL, "'placement' differs from the job's"));
    SL_TRY_GOTO(done, status, check_problem(&own));
    SL_TRY_GOTO(done, status, sl_measured_of_problem(&own, &m));
    memset(m->op, 0, many[SL_MANY_OPS] * sizeof *m->op);
    memset(m->link, 0, many[SL_MANY_LINKS] * sizeof *m->link);
    memset(m->summed, 0, many[SL_MANY_STAGES]);
    SL_TRY_GOTO(done, status, sl_fields_get(object, sl_fields_measured, &player->shape, 0, m));
    SL_TRY_GOTO(done, status, end_of(object));
    SL_TRY_GOTO(done, status, sl_grow(&player->slot, &player->room, slot + 1, sizeof(sl_measured *)));
    sl_measured_drop(player->slot[slot]);
    player->slot[slot] = m;
    player->slots += slot == player->slots;
    m = NULL;
done:
    sl_measured_drop(m);
    sl_problem_free(&own);
    return status;
}

/* ---- plans: the parts that an orchestrator uses ---- */

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

/* [count] each; null in the list repeats the previous one. The caller frees them, also on error. */
typedef struct per_replica {
    int count;
    sl_problem *problem;
    sl_plan *plan;
    const void **pointer; /* to elements of `problem` or `plan` */
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

/* Holds `open` while it is read. */
typedef struct opening {
    sl_orchestrator_config config;
    sl_unknown_job unknown;
    char schedule[64];
    per_replica problem, first;
    json_t *hosts;
    const char **host;
} opening;

static sl_status read_hosts(json_t *line, opening *in, size_t processes) {
    in->hosts = take(line, "host");
    if (!in->hosts)
        return SL_OK;
    if (json_array_size(in->hosts) != processes)
        return sl_error(SL_EINVAL, "'host' must be a list of %zu", processes);
    SL_TRY(sl_alloc(&in->host, processes, sizeof(char *)));
    for (size_t p = 0; p < processes; p++) {
        in->host[p] = json_string_value(json_array_get(in->hosts, p));
        if (!in->host[p])
            return sl_error(SL_EINVAL, "'host' must hold names");
    }
    in->config.host = in->host;
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

/* *has: whether there is one. */
static sl_status read_unknown(json_t *line, sl_unknown_job *job, int *has) {
    json_t *unknown = take(line, "unknown");
    *has = unknown != NULL;
    sl_status status = unknown ? sl_fields_get(unknown, sl_fields_unknown, NULL, 1, job) : SL_OK;
    if (unknown)
        SL_THEN(status, end_of(unknown));
    json_decref(unknown);
    return status;
}

static sl_status read_opening(json_t *line, opening *in, sl_field_shape *many) {
    int unknown;
    sl_orchestrator_config *c = &in->config;
    SL_TRY(take_text(line, "schedule", in->schedule, sizeof in->schedule));
    SL_TRY(sl_fields_get(line, sl_fields_config, NULL, 1, c));
    c->job.schedule = in->schedule;
    if ((double)c->job.replicas * c->job.ranks * c->job.tensor > TOO_MANY)
        return sl_error(SL_EINVAL, "more than %d processes", TOO_MANY);
    *many = sl_field_shape_of(c->job.replicas, c->job.ranks, 0, c->job.tensor);
    SL_TRY(read_unknown(line, &in->unknown, &unknown));
    c->unknown = unknown ? &in->unknown : NULL;
    if (!unknown || json_object_get(line, "problem"))
        SL_TRY(read_pipelines(line, in, many));
    return end_of(line);
}

static void free_slots(sl_player *player) {
    for (size_t i = 0; i < player->slots; i++) {
        sl_measured_drop(player->slot[i]);
        player->slot[i] = NULL;
    }
    player->slots = 0;
}

static sl_status play_open(sl_player *player, const sl_recorded_values *g, json_t *line) {
    opening in = {.config = {.job = {.replicas = 0}}};
    sl_field_shape many;
    sl_orchestrator *o = NULL;
    if (strcmp(g->text, SL_RECORDING_FORMAT) != 0)
        return sl_error(SL_EINVAL, "'format' is '%s', not " SL_RECORDING_FORMAT, g->text);
    sl_status status = read_opening(line, &in, &many);
    SL_THEN(status, sl_orchestrator_open(&in.config, &o));
    free_replicas(&in.problem);
    free_replicas(&in.first);
    SL_FREE((void *)in.config.split, (void *)in.config.job.sum, in.host);
    json_decref(in.hosts);
    SL_TRY(status);
    sl_orchestrator_close(player->o);
    player->o = o;
    player->shape = many;
    free_slots(player);
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

static sl_status play_observe(sl_player *player, const sl_recorded_values *g, json_t *line) {
    sl_orchestrator_iteration it = {.iteration = 0};
    (void)g;
    sl_unknown_job job;
    sl_measured **measured = NULL;
    int unknown;
    size_t replicas = player->shape.many[SL_MANY_REPLICAS];
    sl_status status;
    SL_TRY(sl_fields_get(line, sl_fields_iteration, NULL, 1, &it));
    SL_TRY(read_unknown(line, &job, &unknown));
    it.unknown = unknown ? &job : NULL;
    json_t *list = take(line, "replica");
    if (list && player->o->unknown)
        SL_TRY_GOTO(done, status, sl_error(SL_EINVAL, "replicas of a program whose pipeline is unknown"));
    if (list) {
        SL_TRY_GOTO(done, status, sl_alloc(&measured, replicas, sizeof(sl_measured *)));
        SL_TRY_GOTO(done, status, read_slots(player, list, measured));
    }
    it.replica = measured;
    SL_TRY_GOTO(done, status, end_of(line));
    status = sl_orchestrator_observe(player->o, &it);
done:
    json_decref(list);
    for (size_t r = 0; r < replicas && measured; r++)
        sl_measured_drop(measured[r]);
    sl_free(measured);
    return status;
}

static sl_status play_report(sl_player *player, const sl_recorded_values *g, json_t *line) {
    sl_orchestrator_report report = {.id = 0};
    SL_TRY(sl_fields_get(line, sl_fields_report, NULL, 1, &report));
    SL_TRY(end_of(line));
    if (strlen(g->text) >= sizeof report.seen)
        return sl_error(SL_EINVAL, "'seen' is too long");
    memcpy(report.seen, g->text, strlen(g->text));
    return sl_orchestrator_report_slow(player->o, g->now, &report);
}

static sl_status play_network(sl_player *player, const sl_recorded_values *g, json_t *line) {
    json_t *list = take(line, "link"), *one;
    size_t count = json_array_size(list), i;
    sl_network_measure *measure = NULL;
    sl_status status = json_is_array(list) ? end_of(line) : sl_error(SL_EINVAL, "'link' must be a list");
    if (status != SL_OK)
        goto done;
    SL_TRY_GOTO(done, status, sl_alloc(&measure, count, sizeof *measure));
    json_array_foreach(list, i, one) {
        SL_TRY_GOTO(done, status, sl_fields_get(one, sl_fields_network, NULL, 1, &measure[i]));
        SL_TRY_GOTO(done, status, end_of(one));
    }
    status = sl_orchestrator_network(player->o, g->now, measure, (int)count);
done:
    json_decref(list);
    sl_free(measure);
    return status;
}

/* Every process has exactly one position, and every replica has microbatches. */
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

static sl_status play_moved(sl_player *player, const sl_recorded_values *g, json_t *line) {
    sl_job_layout layout;
    const size_t *many = player->shape.many;
    per_replica plans = {.count = (int)many[SL_MANY_REPLICAS]};
    sl_status status;
    (void)g;
    if (player->o->unknown)
        return sl_error(SL_EINVAL, "a program whose pipeline is unknown has no layout");
    SL_TRY(sl_job_layout_copy(&player->o->config.job, sl_orchestrator_layout(player->o), &layout));
    memset(layout.process, 0, many[SL_MANY_PROCESSES] * sizeof *layout.process);
    memset(layout.split, 0, many[SL_MANY_REPLICAS] * sizeof *layout.split);
    SL_TRY_GOTO(done, status, sl_fields_get(line, sl_fields_layout, &player->shape, 1, &layout));
    SL_TRY_GOTO(done, status, check_layout(&layout, many[SL_MANY_PROCESSES], many[SL_MANY_REPLICAS]));
    SL_TRY_GOTO(done, status, read_replicas(line, "plan", (int)many[SL_MANY_RANKS], &plans));
    SL_TRY_GOTO(done, status, end_of(line));
    status = sl_orchestrator_moved(player->o, &layout, (const sl_plan *const *)(const void *)plans.pointer);
done:
    free_replicas(&plans);
    sl_job_layout_free(&layout);
    return status;
}

static sl_status play_offer(sl_player *player, const sl_recorded_values *g, json_t *line) {
    sl_plan plan = {.makespan = 0};
    json_t *object = take(line, "plan");
    sl_status status = read_plan(object, (int)player->shape.many[SL_MANY_RANKS], &plan);
    SL_THEN(status, end_of(line));
    SL_THEN(status, sl_orchestrator_offer(player->o, g->replica, &plan));
    sl_order_free(&plan.order);
    json_decref(object);
    return status;
}

static sl_status play_next(sl_player *player, const sl_recorded_values *g) {
    sl_orchestrator_action a = {.what = SL_DO_NOTHING};
    if (!sl_orchestrator_next(player->o, &a) || a.id != g->id || (int)a.what != g->what)
        return sl_error(SL_EINVAL,
                        "the orchestrator asks for action %d of kind %d, and asked for action %d of kind %d",
                        a.id, (int)a.what, g->id, g->what);
    *player->action = a;
    return SL_OK;
}

/* Calls with only numbers and a text. */
static sl_status play_plain(sl_player *player, sl_recorded_call call, const sl_recorded_values *g) {
    switch (call) {
    case SL_CALL_SKIP:
        if (player->o->unknown)
            return sl_error(SL_EINVAL, "iterations of a program whose pipeline is unknown cannot be skipped");
        return sl_orchestrator_skip(player->o, g->iterations, g->now);
    case SL_CALL_ESTIMATE:
        return sl_orchestrator_estimate(player->o, (sl_strategy_kind)g->strategy, g->cost);
    case SL_CALL_MAY_LEAVE:
        return sl_orchestrator_may_leave(player->o, g->text, g->may);
    case SL_CALL_IMPROVE:
        return sl_orchestrator_improve(player->o, g->work);
    case SL_CALL_KEEP_SUMS:
        return sl_orchestrator_keep_sums(player->o, g->may);
    case SL_CALL_LOAD:
        return sl_orchestrator_load(player->o, g->text);
    case SL_CALL_NEXT:
        return play_next(player, g);
    default:
        return sl_orchestrator_carried_out(player->o, g->id, g->now, (sl_outcome)g->outcome, g->took);
    }
}

static sl_status (*const plays[SL_RECORDED_CALLS])(sl_player *, const sl_recorded_values *, json_t *) = {
    [SL_CALL_OPEN] = play_open,       [SL_CALL_OBSERVE] = play_observe, [SL_CALL_REPORT] = play_report,
    [SL_CALL_NETWORK] = play_network, [SL_CALL_MOVED] = play_moved,     [SL_CALL_OFFER] = play_offer};

/* ---- the player ---- */

static sl_status play(sl_player *player, json_t *line) {
    char name[32];
    sl_recorded_values g = {.text = ""};
    sl_recorded_call call = 0;
    SL_TRY(take_text(line, "call", name, sizeof name));
    while (call < SL_RECORDED_CALLS && strcmp(sl_recorded_forms[call].name, name) != 0)
        call++;
    if (call == SL_RECORDED_CALLS)
        return sl_error(SL_EINVAL, "unknown call '%s'", name);
    if (!player->o && call != SL_CALL_OPEN)
        return sl_error(SL_EINVAL, "'%s' comes before 'open'", name);
    const sl_recorded_form *form = &sl_recorded_forms[call];
    SL_TRY(sl_fields_get(line, form->numbers, NULL, 1, &g));
    json_t *text = form->text ? take(line, form->text) : NULL;
    g.text = json_string_value(text);
    sl_status status = form->text && !g.text ? sl_error(SL_EINVAL, "'%s' must be a text", form->text) : SL_OK;
    if (!plays[call])
        SL_THEN(status, end_of(line));
    SL_THEN(status, plays[call] ? plays[call](player, &g, line) : play_plain(player, call, &g));
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
    free_slots(player);
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
                       : line               ? sl_error(SL_EINVAL, "it is not an object")
                                            : sl_error(SL_EINVAL, "%s", error.text);
    json_decref(line);
    return status == SL_OK ? SL_OK : sl_error(status, "line %lld: %s", player->lines, sl_error_text());
}

sl_orchestrator *sl_player_orchestrator(sl_player *player) {
    return player->o;
}
