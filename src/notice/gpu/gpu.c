#include "notice/gpu/gpu.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const sl_gpu_rate_name[] = {"bf16 products", "f32 products", "copies within its memory",
                                        "copies from the host", "copies to the host"};
const char *const sl_gpu_rate_key[] = {"bf16_tflops", "f32_tflops", "memory_gb_per_s", "from_host_gb_per_s",
                                       "to_host_gb_per_s"};
const char *const sl_gpu_rate_unit[] = {"TFLOP/s", "TFLOP/s", "GB/s", "GB/s", "GB/s"};

/* Clocks and the link's generation are low while a GPU is idle. */
static void look_under_load(void *context) {
    sl_gpu_result *result = context;
    sl_gpu_state now;
    if (sl_gpu_look(result->index, &now) == SL_OK)
        result->state = now;
}

void sl_gpu_test(int index, sl_time window, sl_gpu_result *result) {
    *result = (sl_gpu_result){.index = index, .rates.multiprocessor = -1};
    sl_status status = sl_gpu_look(index, &result->state);
    SL_THEN(status, sl_gpu_measure(result->state.pci, window, look_under_load, result, &result->rates));
    if (status != SL_OK)
        snprintf(result->rates.why, sizeof result->rates.why, "%s", sl_error_text());
}

/* ---- words ---- */

static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    size_t used = strlen(text);
    if (used > 0 && used + 3 < size) {
        memcpy(text + used, ", ", 3);
        used += 2;
    }
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void sl_gpu_clocks(const sl_gpu_state *s, char *words, size_t size) {
    words[0] = 0;
    if (s->reasons & SL_GPU_HW_THERMAL)
        add(words, size, "heat (%d C)", s->celsius);
    else if (s->reasons & SL_GPU_SW_THERMAL)
        add(words, size, "heat, slowed by the driver (%d C)", s->celsius);
    if (s->reasons & SL_GPU_POWER_BRAKE)
        add(words, size, "power brake of the host");
    else if (s->reasons & SL_GPU_HW_SLOWDOWN && !(s->reasons & SL_GPU_HW_THERMAL))
        add(words, size, "slowed by its hardware");
    if (s->reasons & SL_GPU_POWER_CAP)
        add(words, size, "at its power limit (%.0f W)", s->watts_max);
}

void sl_gpu_faults(const sl_gpu_result *r, char *cause, size_t cause_size, char *why, size_t why_size) {
    const sl_gpu_state *s = &r->state;
    cause[0] = why[0] = 0;
    if (r->rates.wrong > 0) {
        add(cause, cause_size, "computes wrongly");
        add(why, why_size, "%u threads had wrong products, one of them on multiprocessor %d", r->rates.wrong,
            r->rates.multiprocessor);
    }
    if (r->rates.corrupt > 0) {
        add(cause, cause_size, "corrupts copies");
        add(why, why_size, "%u words came back from its memory otherwise than they were sent",
            r->rates.corrupt);
    }
    if (s->uncorrected > 0 || s->remap_failed) {
        add(cause, cause_size, "memory errors");
        add(why, why_size, "%" PRId64 " uncorrectable errors of its memory%s",
            s->uncorrected > 0 ? s->uncorrected : 0,
            s->remap_failed    ? ", with no row left to replace the bad one"
            : s->remap_pending ? ", whose row is replaced when the GPU is reset"
                               : "");
    }
    if (s->lanes > 0 && s->lanes < s->lanes_max) {
        add(cause, cause_size, "link to the host: x%d of x%d", s->lanes, s->lanes_max);
        add(why, why_size, "its PCIe link has %d of %d lanes", s->lanes, s->lanes_max);
    }
}
