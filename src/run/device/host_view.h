/* The host's view of an array in a device's memory, for code that runs seldom and on the host: the array
 * itself if the host reaches it (sl_device.host_memory), else a copy of it. */
#pragma once

#include "run/device/device.h"

typedef enum sl_host_view_use {
    SL_VIEW_READ = 1,  /* the array's values are in the view when it opens */
    SL_VIEW_WRITE = 2, /* the view's values are in the array when it has closed */
} sl_host_view_use;

typedef struct sl_host_view {
    void *host; /* the values; NULL: not open */
    sl_device *device;
    void *array;
    size_t bytes;
    int uses;
} sl_host_view;

/** uses: sl_host_view_use, added. Waits for the device if it copies. SL_ENOMEM, SL_ESYS. */
sl_status sl_host_view_open(sl_device *device, void *array, size_t bytes, int uses, sl_host_view *view);
/** Frees it, if it is open. `status`: of what happened to it; if that is no success, nothing is written back.
 * Returns the first failure. */
sl_status sl_host_view_close(sl_host_view *view, sl_status status);
