#include "choose/model/model_work.h"

enum { F, I, W };

/* Arithmetic or memory, whichever takes longer: a device does both at once. */
static double op_seconds(const sl_layer_work *work, int op, const sl_work_rates *rates) {
    double arithmetic = work->flops[op] / rates->flops_per_s, memory = work->moved[op] / rates->bytes_per_s;
    if (work->seconds[op] > 0)
        return work->seconds[op] / rates->speed;
    if (work->flops[op] <= 0 && work->moved[op] <= 0)
        return 0;
    return (arithmetic > memory ? arithmetic : memory) / rates->speed + rates->overhead_s;
}

/* What of `sent` remains when `hidden` seconds of computation run at the same time. */
static double beyond(double sent, double hidden) {
    return sent > hidden ? sent - hidden : 0;
}

void sl_layer_time(const sl_layer_work *work, const sl_work_rates *rates, sl_layer_seconds *seconds) {
    double attention[3];
    *seconds = (sl_layer_seconds){0};
    for (int op = F; op <= W; op++) {
        seconds->computed[op] = op_seconds(work, op, rates);
        attention[op] = work->attention_flops[op] / rates->flops_per_s / rates->speed;
        for (int group = 0; group < SL_WORK_GROUPS; group++)
            seconds->sent[group][op] = work->traffic[group][op].steps * rates->latency_s[group] +
                                       work->traffic[group][op].bytes * rates->s_per_byte[group];
    }
    seconds->computed[I] += work->again * seconds->computed[F];
    if (work->again >= 1) /* blocks of keys and values pass again, too */
        attention[I] += attention[F];
    for (int op = F; op <= W; op++)
        seconds->sent[SL_WORK_CONTEXT][op] = beyond(seconds->sent[SL_WORK_CONTEXT][op], attention[op]);
    /* sequence parallel: the inputs of a product are gathered while another one runs */
    seconds->sent[SL_WORK_TENSOR][W] = beyond(seconds->sent[SL_WORK_TENSOR][W], seconds->computed[W]);
}
