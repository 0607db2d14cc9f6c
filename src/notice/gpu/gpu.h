/* The test of one GPU: what it computes and copies (rates.h), and what the management library says of it
 * while it works (state.h). Nothing here needs a GPU, a driver or CUDA to be built or started. */
#pragma once

#include "notice/gpu/rates.h"
#include "notice/gpu/state.h"

#include <stddef.h>

/* Sent between processes as is. */
typedef struct sl_gpu_result {
    int32_t index, spare; /* on its node */
    sl_gpu_state state;   /* under load, if products ran */
    sl_gpu_rates rates;
} sl_gpu_result;

/** Names of the rates, and their units, for reports: [SL_GPU_RATES]. */
extern const char *const sl_gpu_rate_name[], *const sl_gpu_rate_key[], *const sl_gpu_rate_unit[];

/** Tests GPU `index` of this node. Never fails: what cannot be tested is explained in result->rates.why. The
 * products take at least twice `window`. */
void sl_gpu_test(int index, sl_time window, sl_gpu_result *result);

/** What is wrong with the GPU whatever others do: wrong results, errors of its memory, a link to the host
 * with fewer lanes than it has. `cause` in a few words, `why` with figures; both "" if there is nothing. */
void sl_gpu_faults(const sl_gpu_result *result, char *cause, size_t cause_size, char *why, size_t why_size);

/** Why its clocks were low under load, in a few words; "": they were not. */
void sl_gpu_clocks(const sl_gpu_state *state, char *words, size_t size);
