#include "adapt/orchestrator/pair_load.h"

#include <math.h>

#define CHANGE 1.05     /* ops that take longer by this factor have changed */
#define UNEXPLAINED 0.9 /* of healthy: a faster device was slow when healthy was learned */

/* The common change of both: the smaller one if both moved the same way. */
static double step(const double was[2], const double now[2]) {
    double a = now[0] / was[0], b = now[1] / was[1], least = fmin(a, b), most = fmax(a, b);
    return least > CHANGE ? least : most < 1 / CHANGE ? most : 1;
}

static int is_near(double a, double b) {
    return a < CHANGE * b && b < CHANGE * a;
}

/* One slowed down, the other sped up, and they are alike now: more load, and the end of a fault. */
static int have_met(const double was[2], const double now[2]) {
    double a = now[0] / was[0], b = now[1] / was[1];
    return fmin(a, b) < 1 / CHANGE && fmax(a, b) > CHANGE && is_near(now[0], now[1]);
}

double sl_pair_load(double before, const double was[2], const double now[2]) {
    double common = before > 0 ? before * step(was, now) : fmax(1, fmin(now[0], now[1]));
    if (before > 0 && have_met(was, now))
        common = fmax(common, fmin(now[0], now[1]));
    for (int i = 0; i < 2; i++) {
        if (now[i] > UNEXPLAINED && now[i] < common) /* load affects every device */
            common = now[i];
        if (common < 1 && is_near(now[i], 1)) /* or both were slow until now */
            common = 1;
    }
    return is_near(common, 1) ? 1 : common;
}
