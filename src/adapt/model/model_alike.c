#include "adapt/model/model_alike.h"
#include "adapt/model/model_inside.h"

sl_status sl_model_alike(sl_model *m, const sl_job_layout *layout, sl_likeness *like) {
    sl_model_take(m, layout);
    SL_TRY(sl_model_groups(m, layout->split, NULL));
    for (int r = 0; r < m->job.replicas; r++) {
        const sl_alike *g = &m->group[m->of[r]];
        like[r] = (sl_likeness){.pipeline = {g->like.word[0], g->like.word[1]},
                                .sums = {m->path.word[0], m->path.word[1]},
                                .microbatches = layout->split[r],
                                .delegated = layout->delegates > 0};
    }
    return SL_OK;
}

void sl_model_digest(const sl_problem *problem, uint64_t word[2]) {
    sl_fingerprint f = sl_model_base(problem);
    sl_fingerprint_add(&f, (uint64_t)problem->microbatches);
    memcpy(word, f.word, sizeof f.word);
}
