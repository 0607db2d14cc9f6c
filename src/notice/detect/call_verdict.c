#include "notice/detect/call_verdict.h"
#include "base/memory.h"

#include <stdio.h>

#define MS 1e6

sl_status sl_call_verdict_add(sl_call_verdict *v, sl_suspect s, double excess) {
    SL_TRY(sl_grow(&v->suspect, &v->capacity, v->count + 1, sizeof *v->suspect));
    SL_TRY(sl_grow(&v->excess, &v->excess_capacity, v->count + 1, sizeof *v->excess));
    v->suspect[v->count] = s;
    v->excess[v->count++] = excess;
    return SL_OK;
}

sl_suspect sl_call_suspect(sl_component component, int rank, const sl_call_measure *m) {
    return (sl_suspect){.component = component,
                        .rank = rank,
                        .from = -1,
                        .to = -1,
                        .measured = m ? m->now / MS : 0,
                        .expected = m ? m->expected / MS : 0};
}

sl_suspect sl_call_unknown(const char *why) {
    sl_suspect s = sl_call_suspect(SL_COMPONENT_UNKNOWN, -1, NULL);
    snprintf(s.why, sizeof s.why, "%s", why);
    return s;
}

double sl_call_named_from(const sl_call_verdict *v, double worst) {
    for (size_t i = 0; i < v->count; i++)
        worst = v->excess[i] > worst ? v->excess[i] : worst;
    return SL_CALL_COMPARABLE * worst;
}

double sl_call_missing(const sl_call_comparison *c) {
    return c->healthy ? c->now->missing * c->span : 0;
}

static int order_suspects(const sl_call_verdict *v, size_t a, size_t b) {
    return v->excess[a] > v->excess[b];
}

void sl_call_verdict_sort(sl_call_verdict *v) {
    for (size_t i = 1; i < v->count; i++)
        for (size_t j = i; j > 0 && order_suspects(v, j, j - 1); j--) {
            sl_suspect s = v->suspect[j];
            double e = v->excess[j];
            v->suspect[j] = v->suspect[j - 1];
            v->excess[j] = v->excess[j - 1];
            v->suspect[j - 1] = s;
            v->excess[j - 1] = e;
        }
}

double sl_call_verdict_keep(sl_call_verdict *v, double missing) {
    double most = 0;
    size_t kept = 0;
    for (size_t i = 0; i < v->count; i++) {
        most = v->excess[i] > most ? v->excess[i] : most;
        if (v->excess[i] < SL_CALL_EXPLAINS * missing)
            continue;
        v->suspect[kept] = v->suspect[i];
        v->excess[kept++] = v->excess[i];
    }
    v->count = kept;
    return missing > 0 ? most / missing : 0;
}
