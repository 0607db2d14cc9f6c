#include "base/memory.h"
#include "base/numbers.h"
#include "plan/draw/chart_inside.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_POINTS = 8, SHARE = 20 }; /* points; one of so many may be rare, and one always */
#define FAR 2.0                      /* times the largest of the others */
#define LETTER 7.2

/* The largest values, at most a twentieth, the least of which is more than twice the largest of all others.
 */
sl_status sl_chart_rare_find(const sl_chart *c, const unsigned char *seen, double *from) {
    double *most;
    int count = 0;
    *from = INFINITY;
    SL_TRY(sl_alloc(&most, (size_t)c->points, sizeof *most));
    for (int i = 0; i < c->points; i++) {
        double value = -INFINITY;
        for (int k = 0; k < c->count; k++)
            if (seen[i] && isfinite(c->series[k].y[i]))
                value = fmax(value, c->series[k].y[i]);
        if (isfinite(value))
            most[count++] = value;
    }
    if (count > 0)
        qsort(most, (size_t)count, sizeof *most, sl_ascending_numbers);
    const int limit = count / SHARE > 1 ? count / SHARE : 1;
    for (int k = 1; k <= limit && count >= MIN_POINTS; k++) {
        const double rare = most[count - k], usual = most[count - k - 1];
        if (usual > 0 && rare > FAR * usual)
            *from = rare;
    }
    sl_free(most);
    return SL_OK;
}

void sl_chart_rare_draw(const sl_chart *c, const sl_chart_rare *rare, size_t count, double right, double top,
                        FILE *out) {
    double free_from = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        char text[48];
        const int length = snprintf(text, sizeof text, "%.4g %s", rare[i].value, c->y_label);
        const double width = LETTER * length, x = rare[i].x;
        const int before = x + 8 + width > right;
        const double from = before ? x - 8 - width : x + 8;
        fprintf(out, "<path d=\"M%.2f %.2fl5 9h-10z\" fill=\"#000\"><title>%.9g at %s</title></path>\n", x,
                top, rare[i].value, c->label[rare[i].point]);
        if (from < free_from)
            continue; /* its tooltip has it */
        fprintf(out,
                "<text x=\"%.1f\" y=\"%.1f\"%s stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">%s"
                "</text>\n",
                before ? x - 8 : x + 8, top + 10, before ? " text-anchor=\"end\"" : "", text);
        free_from = before ? x + 8 : from + width;
    }
}
