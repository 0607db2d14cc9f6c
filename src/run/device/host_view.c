#include "run/device/host_view.h"
#include "base/memory.h"

sl_status sl_host_view_open(sl_device *device, void *array, size_t bytes, int uses, sl_host_view *w) {
    char *made;
    *w = (sl_host_view){.device = device, .array = array, .bytes = bytes, .uses = uses};
    if (device->host_memory) {
        w->host = array;
        return SL_OK;
    }
    SL_TRY(sl_alloc(&made, bytes ? bytes : 1, 1));
    w->host = made;
    if (!(uses & SL_VIEW_READ))
        return SL_OK;
    device->read(device, w->host, array, bytes);
    return device->finish(device);
}

sl_status sl_host_view_close(sl_host_view *w, sl_status status) {
    if (!w->host || w->host == w->array)
        return status;
    if (status == SL_OK && (w->uses & SL_VIEW_WRITE)) {
        w->device->write(w->device, w->array, w->host, w->bytes);
        status = w->device->finish(w->device);
    }
    sl_free(w->host);
    w->host = NULL;
    return status;
}
