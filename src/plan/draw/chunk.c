#include "plan/draw/chunk.h"
#include "base/memory.h"

void sl_chunks_free(sl_chunks *chunks) {
    sl_free(chunks->of);
    *chunks = (sl_chunks){0};
}

sl_status sl_chunks_make(const sl_timeline *t, sl_chunks *chunks) {
    int *held, *rank;
    *chunks = (sl_chunks){0};
    for (int i = 0; i < t->spans; i++)
        if (t->span[i].op.stage >= chunks->stages)
            chunks->stages = t->span[i].op.stage + 1;
    SL_TRY(sl_alloc(&chunks->of, (size_t)chunks->stages, sizeof *chunks->of));
    sl_status status = sl_alloc(&held, (size_t)t->ranks + (size_t)chunks->stages, sizeof *held);
    if (status != SL_OK) {
        sl_chunks_free(chunks);
        return status;
    }
    rank = held + t->ranks; /* of each stage, and 1; 0: never seen */
    for (int i = 0; i < t->spans; i++)
        rank[t->span[i].op.stage] = t->span[i].rank + 1;
    for (int stage = 0; stage < chunks->stages; stage++) {
        if (rank[stage] == 0)
            continue;
        chunks->of[stage] = held[rank[stage] - 1]++;
        chunks->most = chunks->of[stage] >= chunks->most ? chunks->of[stage] + 1 : chunks->most;
    }
    sl_free(held);
    return SL_OK;
}
