#include "report/chosen.h"

#include <math.h>
#include <stdio.h>

static sl_time end_of(const sl_recorded *rec, const sl_recorded_iteration *it) {
    sl_time end = 0;
    for (size_t k = it->first; k < it->first + it->count; k++)
        end = rec->event[k].end > end ? rec->event[k].end : end;
    return end;
}

static double time_of(const sl_told *told, int iteration) {
    long row = sl_told_find(told, iteration);
    return row < 0 ? NAN : told->iteration[row].time;
}

/* The slowest one after the first; of its replicas the one whose last op ends last. */
static size_t slowest(const sl_told *told, const sl_recorded *rec, const unsigned char *kept) {
    size_t best = rec->iterations;
    double longest = -1;
    sl_time end_of_best = -1;
    for (size_t i = 0; i < rec->iterations; i++) {
        const sl_recorded_iteration *it = &rec->iteration[i];
        double time =
            i == 0 || it->iteration == rec->iteration[0].iteration ? 0 : time_of(told, it->iteration);
        sl_time end = end_of(rec, it);
        if ((kept && !kept[i]) || isnan(time) || time < longest || (!(time > longest) && end <= end_of_best))
            continue;
        best = i;
        longest = time;
        end_of_best = end;
    }
    for (size_t i = 0; i < rec->iterations && best == rec->iterations; i++)
        best = !kept || kept[i] ? i : best;
    return best;
}

sl_status sl_chosen_find(const sl_told *told, const sl_recorded *rec, int wanted, const unsigned char *kept,
                         size_t *index) {
    sl_time last = -1;
    *index = slowest(told, rec, kept);
    for (size_t i = 0; i < rec->iterations && wanted != SL_CHOSEN_SLOWEST; i++) {
        const sl_recorded_iteration *it = &rec->iteration[i];
        sl_time end = end_of(rec, it);
        if (it->iteration != wanted || (kept && !kept[i]) || end <= last)
            continue;
        *index = i;
        last = end;
    }
    if (wanted != SL_CHOSEN_SLOWEST && last < 0)
        return sl_error(SL_ENONE, "%s: iteration %d was not recorded op by op", told->path, wanted);
    return *index < rec->iterations
               ? SL_OK
               : sl_error(SL_ENONE, "%s: no iteration was recorded op by op", told->path);
}

int sl_chosen_name(const sl_recorded *recorded, size_t index, char *text, size_t size) {
    const sl_recorded_iteration *it = &recorded->iteration[index];
    return recorded->replicas > 1
               ? snprintf(text, size, "iteration %d, replica %d", it->iteration, it->replica)
               : snprintf(text, size, "iteration %d", it->iteration);
}

void sl_chosen_title(const sl_told *t, const sl_recorded *recorded, size_t index, char *text, size_t size) {
    const sl_recorded_iteration *it = &recorded->iteration[index];
    long row = sl_told_find(t, it->iteration);
    const sl_told_iteration *told = row < 0 ? NULL : &t->iteration[row];
    size_t used = (size_t)sl_chosen_name(recorded, index, text, size);
    if (told && told->schedule >= 0)
        used += (size_t)snprintf(text + used, size - used, ": %.60s", t->name[told->schedule]);
    if (told && !isnan(told->time))
        used += (size_t)snprintf(text + used, size - used, ", %.6g ms", told->time);
    if (told && !isnan(told->predicted))
        snprintf(text + used, size - used, " (predicted %.6g ms)", told->predicted);
}
