/* Cases of the campaign of random faults on the virtual clock (tests/run/train/virtual_job.h), one JSON
 * object a line: bench_localisation SEED FIRST COUNT. */
#include "run/train/virtual_job.h"

#include <jansson.h>

static json_t *fault_json(const job_fault *f) {
    json_t *json = json_pack("{s:i, s:[i,i]}", "replica", f->replica, "iterations", f->first, f->end);
    if (f->rank >= 0) {
        json_object_set_new(json, "rank", json_integer(f->rank));
        json_object_set_new(json, "slowdown", json_real(f->slowdown));
    } else {
        json_object_set_new(json, "link", json_pack("[i,i]", f->from, f->to));
        json_object_set_new(json, "both", json_boolean(f->both));
        json_object_set_new(json, "latency_ms", json_real(f->latency_ms));
        json_object_set_new(json, "transfer_ms", json_real(f->transfer_ms));
    }
    return json;
}

static json_t *said_json(const job_outcome *out) {
    json_t *all = json_array();
    for (int n = 0; n < out->count; n++)
        for (int i = 0; i < out->happened[n].count; i++) {
            const told_name *s = &out->happened[n].name[i];
            json_t *one =
                json_pack("{s:s, s:s, s:i, s:i, s:s, s:s}", "component", sl_component_name(s->component),
                          "decided", s->what, "replica", s->replica, "iteration", out->happened[n].iteration,
                          "kind", sl_event_names[out->happened[n].kind].name, "why", s->why);
            json_array_append_new(all, one);
        }
    return all;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: bench_localisation SEED FIRST COUNT\n");
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 0);
    int first = atoi(argv[2]), count = atoi(argv[3]);
    for (int number = first; number < first + count; number++) {
        job j;
        job_outcome out;
        job_kind kind;
        if (job_case(seed, number, &j, &kind, &out) != SL_OK) {
            fprintf(stderr, "case %d: %s\n", number, sl_error_text());
            return 1;
        }
        json_t *truth = json_array();
        for (int f = 0; f < j.faults; f++)
            json_array_append_new(truth, fault_json(&j.fault[f]));
        json_t *line = json_pack("{s:i, s:[i,i], s:s, s:s, s:f, s:o, s:o, s:s}", "case", number, "layout",
                                 j.ranks, j.replicas, "kind", job_kinds[kind], "schedule", j.schedule,
                                 "effect", job_effect(&j, &out), "truth", truth, "said", said_json(&out),
                                 "verdict", job_verdicts[job_judge(&j, kind, &out)]);
        json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(4));
        printf("\n");
        fflush(stdout);
        json_decref(line);
    }
    return 0;
}
