#include "adapt/orchestrator/recording_fields.h"
#include "adapt/orchestrator/unknown.h"
#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEXT_MAX 4e18 /* ns: the sum of two still fits an int64 */
#define ANY 1e300
#define COUNT_MAX 1e6

/* ---- tables ---- */

#define MEMBER(text, kind, of, member, low, high, ...)                                                       \
    {                                                                                                        \
        .name = text, .type = SL_FIELD_##kind, .offset = offsetof(of, member), .least = low, .most = high,   \
        __VA_ARGS__                                                                                          \
    }
#define INSIDE(kind, of, member, how_many, low, high)                                                        \
    MEMBER(#member, kind, of, member, low, high, .count = how_many)
#define SCALAR(kind, of, member, low, high) INSIDE(kind, of, member, 1, low, high)
#define NEWER(kind, of, member, low, high)                                                                   \
    MEMBER(#member, kind, of, member, low, high, .count = 1, .newer = 1)
#define ARRAY(text, kind, of, member, dimension, element, low, high)                                         \
    MEMBER(text, kind, of, member, low, high, .many = SL_MANY_##dimension, .stride = sizeof(element))
#define OPTIONAL(text, kind, of, member, dimension, element, low, high)                                      \
    MEMBER(text, kind, of, member, low, high, .many = SL_MANY_##dimension, .stride = sizeof(element),        \
           .optional = 1)
#define PART(text, kind, of, member, dimension, element, part, low, high)                                    \
    MEMBER(text, kind, of, member, low, high, .many = SL_MANY_##dimension, .stride = sizeof(element),        \
           .inner = offsetof(element, part))

const sl_field sl_fields_config[] = {
    SCALAR(INT, sl_orchestrator_config, job.replicas, 1, COUNT_MAX),
    SCALAR(INT, sl_orchestrator_config, job.ranks, 1, SL_MAX_RANKS),
    SCALAR(INT, sl_orchestrator_config, job.tensor, 1, COUNT_MAX),
    SCALAR(INT, sl_orchestrator_config, job.ring, 0, 1),
    SCALAR(REAL, sl_orchestrator_config, job.message, 0, ANY),
    SCALAR(REAL, sl_orchestrator_config, job.delegated, 0, TEXT_MAX),
    SCALAR(REAL, sl_orchestrator_config, job.effort, 0, COUNT_MAX),
    SCALAR(LONG, sl_orchestrator_config, job.seed, -9.3e18, 9.3e18),
    SCALAR(INT, sl_orchestrator_config, can, 0, (1 << SL_STRATEGY_KINDS) - 1),
    INSIDE(LONG, sl_orchestrator_config, cost, SL_STRATEGY_KINDS, 0, TEXT_MAX),
    INSIDE(LONG, sl_orchestrator_config, undo, SL_STRATEGY_KINDS, 0, TEXT_MAX),
    SCALAR(LONG, sl_orchestrator_config, at_once, 0, TEXT_MAX),
    SCALAR(LONG, sl_orchestrator_config, calm, -TEXT_MAX, TEXT_MAX),
    SCALAR(REAL, sl_orchestrator_config, changed, 0, ANY),
    SCALAR(REAL, sl_orchestrator_config, least_gain, 0, ANY),
    SCALAR(LONG, sl_orchestrator_config, profile_every, 0, TEXT_MAX),
    SCALAR(INT, sl_orchestrator_config, looks, 0, 1),
    SCALAR(INT, sl_orchestrator_config, hold, 0, COUNT_MAX),
    SCALAR(INT, sl_orchestrator_config, dwell, 0, 1e9),
    SCALAR(REAL, sl_orchestrator_config, gain, 0, 1),
    SCALAR(LONG, sl_orchestrator_config, work, 0, 1e12),
    SCALAR(INT, sl_orchestrator_config, queues, 0, COUNT_MAX),
    SCALAR(INT, sl_orchestrator_config, delegates, 0, COUNT_MAX),
    SCALAR(INT, sl_orchestrator_config, paced, 0, 1),
    SCALAR(INT, sl_orchestrator_config, frozen, 0, 1),
    {0}};

const sl_field sl_fields_config_arrays[] = {
    OPTIONAL("split", INT, sl_orchestrator_config, split, REPLICAS, int, 1, SL_MAX_MICROBATCHES),
    OPTIONAL("job.sum", REAL, sl_orchestrator_config, job.sum, STAGES, double, 0, ANY),
    {0}};

#define TIMES(text, member) ARRAY(text, LONG, sl_problem, member, STAGES, sl_time, -1e15, 1e15)
#define REALS(text, member) ARRAY(text, REAL, sl_problem, member, STAGES, double, -ANY, ANY)

const sl_field sl_fields_problem[] = {
    SCALAR(INT, sl_problem, microbatches, 1, SL_MAX_MICROBATCHES),
    SCALAR(INT, sl_problem, placement, 0, SL_PLACEMENTS - 1),
    SCALAR(INT, sl_problem, communication, 0, SL_BATCHED),
    SCALAR(INT, sl_problem, queue, 1, 65536),
    SCALAR(INT, sl_problem, parts, 1, SL_MAX_PARTS),
    SCALAR(REAL, sl_problem, percentile, 0, 100),
    NEWER(LONG, sl_problem, overhead_op, 0, 1e15),
    NEWER(LONG, sl_problem, overhead_message, 0, 1e15),
    TIMES("time.F", time[SL_F]),
    TIMES("time.I", time[SL_I]),
    TIMES("time.W", time[SL_W]),
    TIMES("time.B", time[SL_B]),
    TIMES("saved", saved),
    TIMES("gather", gather),
    TIMES("reduce", reduce),
    TIMES("offload", offload),
    REALS("delta.F", delta[SL_F]),
    REALS("delta.I", delta[SL_I]),
    REALS("delta.W", delta[SL_W]),
    REALS("delta.B", delta[SL_B]),
    REALS("start", start),
    REALS("early", early),
    ARRAY("recompute", BYTE, sl_problem, recompute, STAGES, unsigned char, 0, 1),
    OPTIONAL("limit", REAL, sl_problem, limit, RANKS, double, -ANY, ANY),
    OPTIONAL("fixed", REAL, sl_problem, fixed, RANKS, double, -ANY, ANY),
    OPTIONAL("host_limit", INT, sl_problem, host_limit, RANKS, int32_t, 0, SL_MAX_HOST),
    OPTIONAL("wire", INT, sl_problem, wire, LINKS, int, 0, 4.0 * SL_MAX_RANKS * SL_MAX_RANKS),
    PART("link.latency", LONG, sl_problem, link, LINKS, sl_link, latency, -1e15, 1e15),
    PART("link.transfer", LONG, sl_problem, link, LINKS, sl_link, transfer, -1e15, 1e15),
    PART("link.lanes", INT, sl_problem, link, LINKS, sl_link, lanes, 0, SL_MAX_OPS),
    PART("link.bytes", REAL, sl_problem, link, LINKS, sl_link, bytes, 0, ANY),
    PART("link.jitter", LONG, sl_problem, link, LINKS, sl_link, jitter, 0, 1e15),
    {0}};

#define LEVEL(of, dimension, part, kind, low, high)                                                          \
    PART(#of "." #part, kind, sl_measured, of, dimension, sl_level, part, low, high)
#define LEVELS(of, dimension)                                                                                \
    LEVEL(of, dimension, count, INT, 0, SL_MAX_OPS), LEVEL(of, dimension, worked, INT, 0, SL_MAX_OPS),       \
        LEVEL(of, dimension, time, REAL, -TEXT_MAX, TEXT_MAX), LEVEL(of, dimension, work, REAL, -ANY, ANY),  \
        LEVEL(of, dimension, span, REAL, -ANY, ANY), LEVEL(of, dimension, slope, REAL, -ANY, ANY)

const sl_field sl_fields_measured[] = {
    LEVELS(op, OPS),
    LEVELS(link, LINKS),
    ARRAY("summed", BYTE, sl_measured, summed, STAGES, unsigned char, 0, 1),
    {0}};

const sl_field sl_fields_iteration[] = {SCALAR(INT, sl_orchestrator_iteration, iteration, 0, 1e9),
                                        SCALAR(LONG, sl_orchestrator_iteration, now, -TEXT_MAX, TEXT_MAX),
                                        SCALAR(LONG, sl_orchestrator_iteration, time, 0, TEXT_MAX),
                                        SCALAR(REAL, sl_orchestrator_iteration, work, -ANY, ANY),
                                        SCALAR(LONG, sl_orchestrator_iteration, clock_error, 0, TEXT_MAX),
                                        {0}};

const sl_field sl_fields_unknown[] = {SCALAR(INT, sl_unknown_job, ranks, 0, COUNT_MAX),
                                      SCALAR(INT, sl_unknown_job, nodes, 0, COUNT_MAX),
                                      SCALAR(INT, sl_unknown_job, replicas, 0, COUNT_MAX),
                                      SCALAR(INT, sl_unknown_job, microbatches, 0, COUNT_MAX),
                                      SCALAR(INT, sl_unknown_job, spares, 0, COUNT_MAX),
                                      SCALAR(REAL, sl_unknown_job, lightest, -ANY, ANY),
                                      SCALAR(REAL, sl_unknown_job, healthy, -TEXT_MAX, TEXT_MAX),
                                      SCALAR(REAL, sl_unknown_job, level, -TEXT_MAX, TEXT_MAX),
                                      SCALAR(INT, sl_unknown_job, slow, 0, 1),
                                      SCALAR(INT, sl_unknown_job, changes, 0, 1e9),
                                      {0}};

const sl_field sl_fields_layout[] = {
    ARRAY("process", INT, sl_job_layout, process, PROCESSES, int, 0, COUNT_MAX *COUNT_MAX),
    ARRAY("split", INT, sl_job_layout, split, REPLICAS, int, 1, SL_MAX_MICROBATCHES),
    SCALAR(INT, sl_job_layout, delegates, 0, COUNT_MAX),
    {0}};

const sl_field sl_fields_report[] = {SCALAR(INT, sl_orchestrator_report, id, INT_MIN, INT_MAX),
                                     SCALAR(INT, sl_orchestrator_report, over, INT_MIN, INT_MAX),
                                     SCALAR(INT, sl_orchestrator_report, part.kind, 0, SL_PART_CARD),
                                     SCALAR(INT, sl_orchestrator_report, part.a, -1, INT_MAX),
                                     SCALAR(INT, sl_orchestrator_report, part.b, -1, INT_MAX),
                                     SCALAR(REAL, sl_orchestrator_report, part.slowdown, -1e9, 1e9),
                                     INSIDE(REAL, sl_orchestrator_report, part.latency, 2, -1e15, 1e15),
                                     INSIDE(REAL, sl_orchestrator_report, part.pace, 2, -1e15, 1e15),
                                     SCALAR(INT, sl_orchestrator_report, host, INT_MIN, INT_MAX),
                                     SCALAR(REAL, sl_orchestrator_report, loss, -1e9, 1e9),
                                     {0}};

const sl_field sl_fields_network[] = {SCALAR(INT, sl_network_measure, from, -1, INT_MAX),
                                      SCALAR(INT, sl_network_measure, to, -1, INT_MAX),
                                      SCALAR(REAL, sl_network_measure, latency, -1e15, 1e15),
                                      SCALAR(REAL, sl_network_measure, pace, -1e15, 1e15),
                                      {0}};

#define TIME(member) SCALAR(LONG, sl_recorded_values, member, -TEXT_MAX, TEXT_MAX)
#define NUMBER(member, low, high) SCALAR(INT, sl_recorded_values, member, low, high)

static const sl_field nothing[] = {{0}}, now[] = {TIME(now), {0}},
                      offer[] = {NUMBER(replica, 0, COUNT_MAX), {0}}, may_leave[] = {NUMBER(may, 0, 1), {0}},
                      improve[] = {SCALAR(LONG, sl_recorded_values, work, 0, TEXT_MAX), {0}},
                      estimate[] = {NUMBER(strategy, 0, SL_STRATEGY_KINDS - 1), TIME(cost), {0}},
                      skip[] = {NUMBER(iterations, 0, 1e9), TIME(now), {0}},
                      next[] = {NUMBER(id, 1, INT_MAX), NUMBER(what, 0, SL_DO_NETWORK), {0}},
                      carried_out[] = {NUMBER(id, 0, INT_MAX),
                                       TIME(now),
                                       NUMBER(outcome, 0, SL_OUTCOME_ADVISED),
                                       TIME(took),
                                       {0}};

const sl_recorded_form sl_recorded_forms[SL_RECORDED_CALLS] = {
    [SL_CALL_OPEN] = {"open", nothing, "format"},
    [SL_CALL_OBSERVE] = {"observe", nothing, NULL},
    [SL_CALL_REPORT] = {"report", now, "seen"},
    [SL_CALL_NETWORK] = {"network", now, NULL},
    [SL_CALL_MOVED] = {"moved", nothing, NULL},
    [SL_CALL_OFFER] = {"offer", offer, NULL},
    [SL_CALL_SKIP] = {"skip", skip, NULL},
    [SL_CALL_ESTIMATE] = {"estimate", estimate, NULL},
    [SL_CALL_MAY_LEAVE] = {"may_leave", may_leave, "host"},
    [SL_CALL_IMPROVE] = {"improve", improve, NULL},
    [SL_CALL_KEEP_SUMS] = {"keep_sums", may_leave, NULL},
    [SL_CALL_LOAD] = {"load", nothing, "text"},
    [SL_CALL_NEXT] = {"next", next, NULL},
    [SL_CALL_CARRIED_OUT] = {"carried_out", carried_out, NULL}};

sl_field_shape sl_field_shape_of(int replicas, int ranks, int stages, int tensor) {
    return (sl_field_shape){
        .many = {[SL_MANY_STAGES] = (size_t)stages,
                 [SL_MANY_RANKS] = (size_t)ranks,
                 [SL_MANY_LINKS] = (size_t)ranks * (size_t)ranks,
                 [SL_MANY_OPS] = SL_OP_KINDS * (size_t)stages,
                 [SL_MANY_REPLICAS] = (size_t)replicas,
                 [SL_MANY_PROCESSES] = (size_t)replicas * (size_t)ranks * (size_t)tensor}};
}

/* ---- values ---- */

static const size_t size_of[] = {[SL_FIELD_INT] = sizeof(int),
                                 [SL_FIELD_LONG] = sizeof(int64_t),
                                 [SL_FIELD_REAL] = sizeof(double),
                                 [SL_FIELD_BYTE] = 1};

/* NULL: the array is missing. */
static unsigned char *address_of(const sl_field *f, const void *object, size_t i) {
    unsigned char *member = (unsigned char *)object + f->offset, *array;
    if (f->many == SL_MANY_INSIDE)
        return member + i * size_of[f->type];
    memcpy(&array, member, sizeof array);
    return array ? array + i * f->stride + f->inner : NULL;
}

static json_t *value_at(const sl_field *f, const unsigned char *at) {
    int whole;
    int64_t large;
    double real;
    switch (f->type) {
    case SL_FIELD_INT:
        memcpy(&whole, at, sizeof whole);
        return json_integer(whole);
    case SL_FIELD_LONG:
        memcpy(&large, at, sizeof large);
        return json_integer(large);
    case SL_FIELD_REAL:
        memcpy(&real, at, sizeof real);
        return isfinite(real) ? json_real(real) : json_null();
    case SL_FIELD_BYTE:
        break;
    }
    return json_integer(*at);
}

static sl_status read_value(const sl_field *f, const json_t *value, unsigned char *at) {
    int64_t large = json_integer_value(value);
    double real = json_number_value(value);
    int whole = (int)large;
    if (!(f->type == SL_FIELD_REAL ? json_is_number(value) : json_is_integer(value)) ||
        !(real >= f->least && real <= f->most))
        return sl_error(SL_EINVAL, "'%s' must be %s from %g to %g", f->name,
                        f->type == SL_FIELD_REAL ? "a number" : "a whole number", f->least, f->most);
    switch (f->type) {
    case SL_FIELD_INT:
        memcpy(at, &whole, sizeof whole);
        break;
    case SL_FIELD_LONG:
        memcpy(at, &large, sizeof large);
        break;
    case SL_FIELD_REAL:
        memcpy(at, &real, sizeof real);
        break;
    case SL_FIELD_BYTE:
        *at = (unsigned char)large;
        break;
    }
    return SL_OK;
}

/* ---- members ---- */

static int is_scalar(const sl_field *f) {
    return f->many == SL_MANY_INSIDE && f->count == 1;
}

static size_t count_of(const sl_field *f, const sl_field_shape *shape) {
    return f->many == SL_MANY_INSIDE ? f->count : shape->many[f->many];
}

/* The elements that differ from the base. NULL: out of memory. */
static json_t *some_of(const sl_field *f, size_t count, const void *object, const void *base) {
    static const unsigned char zero[sizeof(int64_t)];
    json_t *some = json_object();
    for (size_t i = 0; i < count && some; i++) {
        char index[24];
        const unsigned char *at = address_of(f, object, i), *was = base ? address_of(f, base, i) : NULL;
        if (memcmp(at, was ? was : zero, size_of[f->type]) == 0)
            continue;
        snprintf(index, sizeof index, "%zu", i);
        if (json_object_set_new(some, index, value_at(f, at)) != 0) {
            json_decref(some);
            some = NULL;
        }
    }
    return some;
}

int sl_fields_put(json_t *to, const sl_field *f, const sl_field_shape *shape, const void *object,
                  const void *base) {
    int good = 1;
    for (; f->name && good; f++) {
        const unsigned char *at = address_of(f, object, 0), *was = base ? address_of(f, base, 0) : NULL;
        if (is_scalar(f)) {
            if (!was || memcmp(at, was, size_of[f->type]) != 0)
                good = json_object_set_new(to, f->name, value_at(f, at)) == 0;
        } else if (at) {
            json_t *some = some_of(f, count_of(f, shape), object, base);
            int says = !some || json_object_size(some) > 0 || (f->optional && !was);
            good = !says || json_object_set(to, f->name, some) == 0;
            json_decref(some);
        } else if (was) {
            good = json_object_set_new(to, f->name, json_null()) == 0;
        }
    }
    return good;
}

static sl_status read_array(const sl_field *f, size_t count, json_t *some, void *object) {
    void *array = address_of(f, object, 0);
    const char *key;
    json_t *value;
    if (f->optional && (json_is_null(some) || !array)) {
        sl_free(array);
        array = NULL;
        if (!json_is_null(some))
            SL_TRY(sl_alloc(&array, count, f->stride));
        memcpy((unsigned char *)object + f->offset, &array, sizeof array);
        if (!array)
            return SL_OK;
    }
    if (!json_is_object(some))
        return sl_error(SL_EINVAL, "'%s' must hold values by their index", f->name);
    json_object_foreach(some, key, value) {
        size_t i = 0;
        const char *digit = key;
        for (; *digit >= '0' && *digit <= '9' && i < count; digit++)
            i = 10 * i + (size_t)(*digit - '0');
        if (*digit || digit == key || i >= count)
            return sl_error(SL_EINVAL, "'%s' has %zu values, none of them is '%s'", f->name, count, key);
        SL_TRY(read_value(f, value, address_of(f, object, i)));
    }
    return SL_OK;
}

sl_status sl_fields_get(json_t *from, const sl_field *f, const sl_field_shape *shape, int all, void *object) {
    for (; f->name; f++) {
        json_t *value = json_object_get(from, f->name);
        if (!value && all && is_scalar(f) && !f->newer)
            return sl_error(SL_EINVAL, "'%s' is missing", f->name);
        if (!value)
            continue;
        if (is_scalar(f))
            SL_TRY(read_value(f, value, address_of(f, object, 0)));
        else
            SL_TRY(read_array(f, count_of(f, shape), value, object));
        json_object_del(from, f->name);
    }
    return SL_OK;
}
