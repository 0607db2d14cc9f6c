#include "run/device/device.h"

#ifndef SL_CUDA
sl_status sl_device_open_cuda(int ordinal, sl_device **device) {
    (void)device;
    return sl_error(SL_EINVAL, "CUDA card %d: this program was built without CUDA (SLACKLINE_CUDA)", ordinal);
}

sl_status sl_device_cuda_cards(int *cards) {
    (void)cards;
    return sl_error(SL_EINVAL, "a CUDA card: this program was built without CUDA (SLACKLINE_CUDA)");
}
#endif
