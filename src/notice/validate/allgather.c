#include "notice/validate/allgather.h"
#include "base/memory.h"

#include <string.h>

void sl_allgather_parts_free(sl_allgather_parts *gathered) {
    for (int i = 0; gathered->part && i < gathered->members; i++)
        sl_free(gathered->part[i]);
    SL_FREE(gathered->part, gathered->size);
    *gathered = (sl_allgather_parts){0};
}

sl_status sl_allgather_parts_open(int members, sl_allgather_parts *gathered) {
    *gathered = (sl_allgather_parts){.members = members};
    SL_TRY(sl_alloc(&gathered->part, (size_t)members, sizeof *gathered->part));
    return sl_alloc(&gathered->size, (size_t)members, sizeof *gathered->size);
}

sl_status sl_allgather_parts_put(sl_allgather_parts *gathered, int member, const void *bytes, size_t size) {
    if (gathered->part[member])
        return SL_OK;
    SL_TRY(sl_alloc(&gathered->part[member], size + 1, 1));
    if (size > 0)
        memcpy(gathered->part[member], bytes, size);
    gathered->size[member] = size;
    return SL_OK;
}

sl_status sl_allgather_barrier(const sl_allgather *allgather, sl_time patience, int *stop) {
    sl_allgather_parts all = {0};
    char mine = (char)(stop && *stop);
    sl_status status = allgather->gather_all(allgather->context, &mine, 1, patience, &all);
    for (int i = 0; status == SL_OK && stop && i < all.members; i++)
        if (all.part[i] && all.size[i] == 1 && *(char *)all.part[i])
            *stop = 1;
    sl_allgather_parts_free(&all);
    return status;
}
