#include "plan/family/family.h"
#include "plan/family/adaptra.h"
#include "plan/family/cross_ud_sub.h"
#include "plan/family/static_families.h"
#include "plan/family/zb_auto.h"

#include <stdio.h>
#include <string.h>

#define LINEAR (1u << SL_LINEAR)
#define LOOP (1u << SL_LOOP)
#define WAVE (1u << SL_WAVE)
#define BIDIRECTIONAL (1u << SL_BIDIRECTIONAL)
const sl_family sl_families[] = {
    {"gpipe", 0, 0, LINEAR | LOOP | WAVE, sl_family_gpipe,
     "all forwards, then all backwards, stage by stage (GPipe; breadth-first)"},
    {"1f1b", 0, 0, LINEAR, sl_family_1f1b, "one forward, one backward in turn (PipeDream-Flush, Megatron)"},
    {"zb-h1", 0, 0, LINEAR, sl_family_zb_h1, "backward in two halves, memory of 1f1b (Zero Bubble)"},
    {"zb-h2", 0, 0, LINEAR, sl_family_zb_h2,
     "backward in two halves, no bubble for equal times, twice the memory (Zero Bubble)"},
    {"adaptra", 0, 0, LINEAR, sl_family_adaptra,
     "warm-up by slack against slow links, then I before F before W (Adaptra)"},
    {"interleaved-1f1b", 0, 0, LOOP, sl_family_interleaved,
     "1f1b with several stages per rank, in groups of microbatches (Megatron)"},
    {"zb-v", 0, 0, WAVE | SL_TWO_STAGES, sl_family_zb_v,
     "no bubble for equal times with the memory of 1f1b, two stages per rank (Zero Bubble)"},
    {"dualpipe-v", 0, 0, WAVE | SL_TWO_STAGES, sl_family_dualpipe_v,
     "forwards overlapped with backwards, two stages per rank (DeepSeek)"},
    {"chimera", 0, 0, BIDIRECTIONAL, sl_family_chimera,
     "two pipelines against each other, for as many microbatches as ranks or few more (Chimera)"},
    {"zb-auto", 1, SL_ZB_AUTO_TRIES, LINEAR | SL_LABORIOUS, sl_family_zb_auto,
     "as many forwards as fit before the first gradient and into memory, then F and I in turn (Zero Bubble)"},
    {"cross-ud-sub", 1, SL_CROSS_UD_SUB_TRIES, LINEAR | SL_LABORIOUS, sl_cross_ud_sub,
     "greedy with phases, bubbles filled with parts of W (CrossPipe)"},
    {NULL, 0, 0, 0, NULL, NULL}};

int sl_family_fits(const sl_family *family, const sl_problem *p) {
    return (family->placements & 1u << p->placement) &&
           (!(family->placements & SL_TWO_STAGES) || p->stages == 2 * p->ranks);
}

static sl_status refuse_shape(const sl_family *family, const sl_problem *p) {
    char needed[128] = "";
    if (family->placements & 1u << p->placement)
        return sl_error(SL_EINVAL, "%s needs two stages per rank (%d); the problem has %d", family->name,
                        2 * p->ranks, p->stages);
    for (int placement = 0; placement < SL_PLACEMENTS; placement++)
        if (family->placements & 1u << placement) {
            size_t used = strlen(needed);
            snprintf(needed + used, sizeof needed - used, "%s%s", used ? " or " : "",
                     sl_placement_name((sl_placement)placement));
        }
    return sl_error(SL_EINVAL, "%s needs placement %s; the problem's is %s", family->name, needed,
                    sl_placement_name(p->placement));
}

sl_status sl_family_check(const sl_family *family, const sl_problem *p) {
    return sl_family_fits(family, p) ? SL_OK : refuse_shape(family, p);
}

sl_status sl_family_build(const sl_family *family, const sl_problem *p, sl_order *order) {
    SL_TRY(sl_family_check(family, p));
    if (sl_problem_offloads(p))
        return sl_family_hosted(family, p, order);
    SL_TRY(family->build(p, order));
    sl_status status = family->parts ? SL_OK : sl_order_split(p, order);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

const sl_family *sl_family_find(const char *name) {
    for (const sl_family *family = sl_families; family->name; family++)
        if (strcmp(family->name, name) == 0)
            return family;
    return NULL;
}
