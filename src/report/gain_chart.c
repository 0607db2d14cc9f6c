/* The effect of each change, as a picture. */
#include "base/memory.h"
#include "plan/draw/chart.h"
#include "report/gain.h"

#define MAX_LONG 4 /* up to this many changes, labels have room for the gain */

typedef char label[64];

sl_status sl_course_gains(const sl_run_data *data, const sl_gain *gain, size_t count,
                          const sl_draw_style *style, FILE *out) {
    double *y = NULL;
    label *text = NULL;
    const char **labels = NULL;
    sl_status status;
    if (count == 0)
        return SL_OK;
    SL_TRY_GOTO(done, status, sl_alloc(&y, 2 * count, sizeof *y));
    SL_TRY_GOTO(done, status, sl_alloc(&text, count, sizeof *text));
    SL_TRY_GOTO(done, status, sl_alloc(&labels, count, sizeof(const char *)));
    for (size_t i = 0; i < count; i++) {
        y[i] = gain[i].before;
        y[count + i] = gain[i].after;
        int used =
            snprintf(text[i], sizeof text[i], "%d: %.20s", gain[i].first, data->event[gain[i].event].kind);
        if (count <= MAX_LONG)
            snprintf(text[i] + used, sizeof text[i] - (size_t)used, ", %+.3g s", gain[i].gained / 1e3);
        labels[i] = text[i];
    }
    const sl_chart_line series[2] = {{.name = "before", .y = y}, {.name = "after", .y = y + count}};
    const sl_chart chart = {.title = "What each change gained",
                            .x_label = count <= MAX_LONG ? "from iteration: change, total gain"
                                                         : "from iteration: change",
                            .y_label = "iteration time, median (ms)",
                            .points = (int)count,
                            .label = labels,
                            .count = 2,
                            .series = series,
                            .style = style};
    status = sl_draw_chart(&chart, out);
done:
    SL_FREE(y, text, labels);
    return status;
}
