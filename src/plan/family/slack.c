#include "plan/family/slack.h"
#include "base/numbers.h"

/* Doubling keeps everything in integers: 2c <= slack * (...) - (tF + tI), rounded down. */
sl_time sl_slack_tolerance(const sl_problem *p, const int *warmup, int link, int full_backward) {
    int back = full_backward ? SL_B : SL_I;
    sl_time here = p->time[SL_F][link] + p->time[back][link];
    sl_time there = p->time[SL_F][link + 1] + p->time[back][link + 1];
    sl_time twice = (sl_time)(warmup[link] - warmup[link + 1]) * there - here;
    return twice > 0 ? twice / 2 : 0;
}

void sl_warmup_balanced(int ranks, int x0, int *warmup) {
    warmup[0] = x0;
    if (ranks == 1)
        return;
    int average = (x0 - 1) / (ranks - 1), rest = (x0 - 1) % (ranks - 1);
    for (int i = 1; i < ranks; i++)
        warmup[i] = warmup[i - 1] - average - (i <= rest ? 1 : 0);
}

static sl_time delay(const sl_problem *p, int a, int b) {
    const sl_link *there = &p->link[a * p->ranks + b], *back = &p->link[b * p->ranks + a];
    sl_time t = there->latency + there->transfer, u = back->latency + back->transfer;
    return t > u ? t : u;
}

void sl_warmup_adapted(const sl_problem *p, int *warmup) {
    int n = p->microbatches, s = p->ranks;
    warmup[s - 1] = 1;
    for (int i = s - 2; i >= 0; i--) {
        sl_time need = p->time[SL_F][i] + p->time[SL_I][i] + 2 * delay(p, i, i + 1);
        sl_time unit = p->time[SL_F][i + 1] + p->time[SL_I][i + 1];
        sl_time wanted = unit > 0 ? (need + unit - 1) / unit : need > 0 ? n : 0;
        int slack = sl_larger(wanted > n ? n : (int)wanted, 2), most = sl_larger(n - 2 * s, 2);
        slack = sl_larger(slack < most ? slack : most, 1);
        warmup[i] = warmup[i + 1] + slack;
        if (warmup[i] > n)
            warmup[i] = n;
    }
}
