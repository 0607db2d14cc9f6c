#include "notice/watch/standing_text.h"
#include "notice/watch/words.h"

#include <math.h>

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

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
        json_array_append_new(ranks, json_pack("[o,i,i,i]", number((double)r->ms), r->node, r->pid, r->gone));
    }
    return ranks;
}

static json_t *links_of(const sl_traffic *traffic) {
    json_t *links = json_array();
    for (size_t i = 0; i < traffic->links; i++) {
        const sl_traffic_link *l = &traffic->link[i];
        double ms = l->timed > 0 ? l->busy_ms / (double)l->timed : NAN;
        json_array_append_new(links, json_pack("[i,i,I,I,o,o]", l->from, l->to, (json_int_t)l->messages,
                                               (json_int_t)l->bytes, number(ms), number(l->usual_ms)));
    }
    return links;
}

static json_t *iterations_of(const sl_standing *standing) {
    json_t *points = json_array();
    for (int i = 0; i < standing->points; i++) {
        const sl_standing_point *p = &standing->point[i];
        json_t *one = json_pack("[I,o]", (json_int_t)p->iteration, number(p->ms));
        if (p->held)
            json_array_append_new(one, json_integer(1));
        json_array_append_new(points, one);
    }
    return points;
}

char *sl_standing_text(const sl_controller *controller, const char *job, const char *program) {
    const sl_standing *standing = sl_controller_standing(controller);
    json_t *all = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "job", job, "program", program ? program : "",
                            "status", sl_words_status_json(sl_controller_status(controller)), "hosts",
                            hosts_of(sl_controller_nodes(controller)), "ranks", ranks_of(standing), "links",
                            links_of(&standing->traffic), "iterations", iterations_of(standing));
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(all);
    return text;
}
