#include "notice/record/offset.h"

void sl_offset_add(sl_offset *estimate, int64_t sent, int64_t replied, int64_t received, int frozen) {
    if (received < sent || (frozen && estimate->trips > 0))
        return;
    int64_t error = (received - sent + 1) / 2;
    estimate->trip[estimate->trips % SL_OFFSET_TRIPS] =
        (sl_offset_trip){.offset = replied - (sent + (received - sent) / 2), .error = error};
    estimate->trips++;
    int kept = estimate->trips < SL_OFFSET_TRIPS ? estimate->trips : SL_OFFSET_TRIPS;
    const sl_offset_trip *best = &estimate->trip[0];
    for (int i = 1; i < kept; i++)
        if (estimate->trip[i].error < best->error)
            best = &estimate->trip[i];
    estimate->offset = best->offset;
    estimate->error = best->error;
}

/* An offset that is wrong by e adds e to one direction and takes it from the other: the difference is off by
 * up to 2e. */
int sl_offset_direction_certain(int64_t delay, int64_t opposite, int64_t error) {
    int64_t difference = delay > opposite ? delay - opposite : opposite - delay;
    return difference > 2 * error;
}
