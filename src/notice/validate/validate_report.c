#include "notice/validate/validate_report.h"
#include "notice/validate/reference.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ---- */

/* What is not known is null. */
static json_t *known(double value, int is_known) {
    return is_known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *evidence_json(const sl_evidence *e, int gpus_tested) {
    json_t *json = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:b,s:i,s:i}", "waited", known(e->waited, 1), "throttled",
        known(e->throttled, 1), "quota", known(e->quota, e->quota > 0), "pressure",
        known(e->pressure, e->pressure >= 0), "load", known(e->load, e->load >= 0), "processors",
        known(e->cores, e->cores > 0), "mhz", known(e->mhz, e->mhz > 0), "celsius",
        known(e->celsius, e->celsius > 0), "thermal_throttles", known(e->thermal, e->thermal >= 0), "joined",
        e->joined, "apart", e->apart, "gpus_not_tested", e->gpus, "gpus_tested", gpus_tested);
    if (json && e->busiest > 0)
        json_object_set_new(json, "busiest",
                            json_pack("{s:s%,s:i,s:f}", "name", e->busiest_name, strlen(e->busiest_name),
                                      "pid", e->busiest, "load", e->busiest_load));
    return json;
}

static json_t *device_json(const sl_round_result *r, const sl_measured_device *d) {
    return json_pack("{s:i,s:s,s:o,s:o,s:o,s:b,s:o}", "rank", d->rank, "host", r->host[d->host], "gflops",
                     known(d->gflops, d->samples > 0), "expected_gflops", known(d->expected, d->expected > 0),
                     "cv", known(d->cv, d->samples > 1), "slow", d->slow, "evidence",
                     evidence_json(&d->evidence, d->gpus_tested));
}

/* Rates, and the expected ones. */
static int add_rates(json_t *json, const double *rate, const char *prefix) {
    int failed = !json;
    for (int i = 0; !failed && i < SL_GPU_RATES; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", prefix, sl_gpu_rate_key[i]);
        failed = json_object_set_new(json, key, known(rate[i], rate[i] > 0));
    }
    return failed;
}

static json_t *gpu_json(const sl_round_result *r, const sl_measured_gpu *g) {
    const sl_gpu_state *s = &g->test.state;
    char clocks[96];
    sl_gpu_clocks(s, clocks, sizeof clocks);
    json_t *json = json_pack(
        "{s:i,s:s,s:i,s:s,s:s,s:b,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:s}", "rank", g->rank, "host",
        r->host[g->host], "gpu", g->test.index, "name", s->name, "pci", s->pci, "slow", g->slow,
        "wrong_threads", (int)g->test.rates.wrong, "corrupt_words", (int)g->test.rates.corrupt, "mhz",
        known(s->mhz, s->mhz > 0), "mhz_max", known(s->mhz_max, s->mhz_max > 0), "celsius",
        known(s->celsius, s->celsius > 0), "watts", known(s->watts, s->watts > 0), "pcie_lanes",
        known(s->lanes, s->lanes > 0), "pcie_lanes_max", known(s->lanes_max, s->lanes_max > 0),
        "clocks_low_for", clocks, "uncorrected_errors", known((double)s->uncorrected, s->uncorrected >= 0),
        "not_tested", g->test.rates.why);
    if (add_rates(json, g->test.rates.rate, "") || add_rates(json, g->expected, "expected_")) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* The medians of the first GPU's name, for a later comparison. */
static json_t *gpu_kind_json(const sl_validation *m) {
    double median[SL_GPU_RATES], value[256];
    const char *name = m->gpu[0].test.state.name;
    for (int r = 0; r < SL_GPU_RATES; r++) {
        double spread;
        int count = 0;
        for (int i = 0; i < m->gpus && count < 256; i++)
            if (strcmp(m->gpu[i].test.state.name, name) == 0 && m->gpu[i].test.rates.rate[r] > 0)
                value[count++] = m->gpu[i].test.rates.rate[r];
        sl_spread(value, count, &median[r], &spread);
    }
    json_t *json = json_pack("{s:s}", "name", name);
    if (add_rates(json, median, "")) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *link_json(const sl_measured_link *l) {
    static const char *const states[] = {"tested", "no connection", "nothing arrived"};
    const sl_link_evidence *e = &l->from_evidence;
    return json_pack("{s:i,s:i,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:b,s:s,s:o,s:o,s:o}", "from", l->from,
                     "to", l->to, "kind", sl_link_kind_name[l->from_host != l->to_host], "state",
                     states[l->state], "latency_ms", known(l->latency_ms, l->latency_ms > 0),
                     "expected_latency_ms", known(l->expected_latency_ms, l->expected_latency_ms > 0),
                     "gb_per_s", known(l->gb_per_s, l->samples > 0), "expected_gb_per_s",
                     known(l->expected_gb_per_s, l->expected_gb_per_s > 0), "latency_cv",
                     known(l->latency_cv, l->latency_ms > 0), "bandwidth_cv",
                     known(l->bandwidth_cv, l->samples > 1), "at_most", l->limited, "slow", l->slow,
                     "interface", e->interface, "errors", known((double)e->errors, e->errors >= 0), "drops",
                     known((double)e->drops, e->drops >= 0), "resent",
                     known((double)e->resent, e->resent >= 0));
}

static json_t *kinds_json(const sl_kinds *k) {
    json_t *json = json_pack("{s:{s:i,s:o,s:o,s:f,s:f}}", "device", "members", k->device.members, "gflops",
                             known(k->device.median, k->device.median > 0), "expected",
                             known(k->device.expected, k->device.expected > 0), "cv", k->device.cv, "factor",
                             k->device.factor);
    for (int i = 0; json && i < SL_LINK_KINDS; i++) {
        const sl_kind *delay = &k->latency[i], *rate = &k->bandwidth[i];
        if (rate->members > 0)
            json_object_set_new(json, sl_link_kind_name[i],
                                json_pack("{s:i,s:o,s:f,s:f,s:o,s:f,s:f}", "members", rate->members,
                                          "latency_ms", known(delay->median, delay->median > 0), "latency_cv",
                                          delay->cv, "latency_factor", delay->factor, "gb_per_s",
                                          known(rate->median, rate->median > 0), "bandwidth_cv", rate->cv,
                                          "bandwidth_factor", rate->factor));
    }
    return json;
}

static json_t *report_json(const sl_round_result *r, const sl_verdicts *v) {
    const sl_validation *m = &r->measured;
    json_t *json =
        json_pack("{s:s,s:b,s:i,s:i,s:[],s:[],s:[],s:[],s:o,s:[]}", "format", SL_VALIDATION_FORMAT, "healthy",
                  v->count == 0, "repeats", m->repeats, "passes", r->membership.links.passes, "verdicts",
                  "devices", "gpus", "links", "kinds", kinds_json(&v->kinds), "missing");
    int failed = !json;
    for (int i = 0; !failed && i < v->count; i++)
        failed = json_array_append_new(json_object_get(json, "verdicts"), sl_suspect_to_json(&v->suspect[i]));
    for (int i = 0; !failed && i < m->devices; i++)
        if (m->device[i].samples > 0)
            failed = json_array_append_new(json_object_get(json, "devices"), device_json(r, &m->device[i]));
    for (int i = 0; !failed && i < m->gpus; i++)
        failed = json_array_append_new(json_object_get(json, "gpus"), gpu_json(r, &m->gpu[i]));
    if (!failed && m->gpus > 0)
        failed = json_object_set_new(json_object_get(json, "kinds"), "gpu", gpu_kind_json(m));
    for (int i = 0; !failed && i < m->links; i++)
        failed = json_array_append_new(json_object_get(json, "links"), link_json(&m->link[i]));
    for (int i = 0; !failed && i < m->missings; i++)
        failed = json_array_append_new(
            json_object_get(json, "missing"),
            json_pack("{s:i,s:o}", "member", m->missing[i].member, "rank",
                      m->missing[i].rank < 0 ? json_null() : json_integer(m->missing[i].rank)));
    if (failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- text ---- */

/* A share of the expected value, in percent; "-" if unknown. */
static const char *percent(double value, double of, char text[16]) {
    if (value > 0 && of > 0)
        snprintf(text, 16, "%.0f%%", 100 * value / of);
    else
        snprintf(text, 16, "-");
    return text;
}

static void write_devices(const sl_round_result *r, FILE *out) {
    const sl_validation *m = &r->measured;
    int tested = 0;
    for (int i = 0; i < m->devices; i++) {
        const sl_measured_device *d = &m->device[i];
        char of[16], words[128];
        if (d->samples == 0)
            continue;
        if (!tested++)
            fprintf(out, "%-8s %-20s %9s %12s %10s\n", "device", "host", "GFLOP/s", "of expected",
                    "varies by");
        sl_evidence_words(&d->evidence, words, sizeof words);
        fprintf(out, "%-8d %-20.20s %9.3g %12s %8.1f%%%s%s%s\n", d->rank, r->host[d->host], d->gflops,
                percent(d->gflops, d->expected, of), 100 * d->cv, d->slow ? "  slow" : "",
                words[0] ? "  " : "", words);
    }
    if (tested)
        fputc('\n', out);
}

static void write_gpus(const sl_round_result *r, FILE *out) {
    const sl_validation *m = &r->measured;
    if (m->gpus)
        fprintf(out, "%-8s %-20s %-28s %8s %8s %8s %8s %8s\n", "device", "host", "GPU", "bf16", "f32",
                "memory", "from host", "to host");
    for (int i = 0; i < m->gpus; i++) {
        const sl_measured_gpu *g = &m->gpu[i];
        char name[64], clocks[96];
        snprintf(name, sizeof name, "%d %.60s", g->test.index, g->test.state.name);
        sl_gpu_clocks(&g->test.state, clocks, sizeof clocks);
        fprintf(out, "%-8d %-20.20s %-28.28s", g->rank, r->host[g->host], name);
        for (int k = 0; k < SL_GPU_RATES; k++)
            if (g->test.rates.rate[k] > 0)
                fprintf(out, " %8.3g", g->test.rates.rate[k]);
            else
                fprintf(out, " %8s", "-");
        fprintf(out, "%s%s%s%s%s\n", g->slow ? "  slow" : "", clocks[0] ? "  " : "", clocks,
                g->test.rates.why[0] ? "  " : "", g->test.rates.why);
    }
    if (m->gpus)
        fputs("(bf16 and f32: TFLOP/s of products; memory: GB/s read and written; from and to the host: "
              "GB/s)\n\n",
              out);
}

static void write_links(const sl_round_result *r, FILE *out) {
    const sl_validation *m = &r->measured;
    if (m->links)
        fprintf(out, "%-12s %-14s %10s %12s %8s %12s %10s\n", "link", "kind", "latency ms", "of expected",
                "GB/s", "of expected", "varies by");
    for (int i = 0; i < m->links; i++) {
        const sl_measured_link *l = &m->link[i];
        char name[32], delay[16], rate[16];
        snprintf(name, sizeof name, "%d -> %d", l->from, l->to);
        if (l->state != SL_WIRE_TESTED || l->samples == 0) {
            fprintf(out, "%-12s %-14s %s\n", name, sl_link_kind_name[l->from_host != l->to_host],
                    l->state == SL_WIRE_REFUSED ? l->why
                    : l->state == SL_WIRE_LOST  ? "connected, but nothing arrived"
                                                : "not tested: the other direction took all the time");
            continue;
        }
        fprintf(out, "%-12s %-14s %10.3g %12s %8.3g %12s %8.1f%%%s\n", name,
                sl_link_kind_name[l->from_host != l->to_host], l->latency_ms,
                percent(l->latency_ms, l->expected_latency_ms, delay), l->gb_per_s,
                percent(l->gb_per_s, l->expected_gb_per_s, rate), 100 * l->bandwidth_cv,
                l->slow ? "  slow" : "");
    }
    if (m->links)
        fputc('\n', out);
}

static const char *from_on(const sl_kind *kind, char text[64]) {
    if (kind->expected > 0)
        snprintf(text, 64, "slow if %.0f%% below", 100 - 100 / kind->factor);
    else
        snprintf(text, 64, "too few to compare without a reference");
    return text;
}

static void write_text(const sl_round_result *r, const sl_verdicts *v, FILE *out) {
    const sl_validation *m = &r->measured;
    const sl_kinds *k = &v->kinds;
    char limit[64];
    fprintf(out, "%d process%s on %d host%s, %d link%s in %d pass%s, %d repeat%s\n\n", m->devices,
            m->devices == 1 ? "" : "es", m->hosts, m->hosts == 1 ? "" : "s", m->links / 2,
            m->links == 2 ? "" : "s", r->membership.links.passes, r->membership.links.passes == 1 ? "" : "es",
            m->repeats, m->repeats == 1 ? "" : "s");
    write_devices(r, out);
    write_gpus(r, out);
    write_links(r, out);
    if (k->device.members > 0)
        fprintf(out, "devices (f32 products of %d x %d): vary by %.1f%%; %s\n", SL_GEMM_SIZE, SL_GEMM_SIZE,
                100 * k->device.cv, from_on(&k->device, limit));
    for (int i = 0; i < SL_LINK_KINDS; i++)
        if (k->bandwidth[i].members > 0)
            fprintf(out, "links %s: latency varies by %.1f%%, bandwidth by %.1f%%; %s\n",
                    sl_link_kind_name[i], 100 * k->latency[i].cv, 100 * k->bandwidth[i].cv,
                    from_on(&k->bandwidth[i], limit));
    fputc('\n', out);
    for (int i = 0; i < v->count; i++) {
        char line[512];
        sl_suspect_text(&v->suspect[i], line, sizeof line);
        fprintf(out, "%s%s\n", v->suspect[i].component == SL_COMPONENT_UNKNOWN ? "" : "slow: ", line);
    }
    if (v->count == 0)
        fprintf(out, "nothing is slow\n");
}

sl_status sl_report(const sl_round_result *result, const sl_verdicts *verdicts, int json, char **text) {
    size_t size;
    *text = NULL;
    if (json) {
        json_t *report = report_json(result, verdicts);
        char *words = report ? json_dumps(report, JSON_REAL_PRECISION(9)) : NULL;
        json_decref(report);
        int failed = !words || asprintf(text, "%s\n", words) < 0;
        free(words);
        if (failed)
            *text = NULL;
        return failed ? sl_error(SL_ENOMEM, "out of memory for the report") : SL_OK;
    }
    FILE *out = open_memstream(text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the report");
    write_text(result, verdicts, out);
    return fclose(out) == 0 ? SL_OK : sl_error(SL_ENOMEM, "out of memory for the report");
}
