/* Published schedules with fixed orders: they depend on the shape of
 * the problem (ranks, stages, microbatches) and not on its times; entries of the table in family.c. If a
 * recipe needs more microbatches than there are, it is built for the required number without the surplus.
 * This keeps every dependency because an op depends only on ops of its own microbatch. */
#pragma once

#include "plan/pipeline/order.h"

/** All forwards stage by stage, then all backwards from the last stage on; linear, loop and wave. */
sl_status sl_family_gpipe(const sl_problem *problem, sl_order *order);

/** PipeDream-Flush, Megatron-LM's default; linear. */
sl_status sl_family_1f1b(const sl_problem *problem, sl_order *order);

/** Zero Bubble's handcrafted schedules (Qi et al., ICLR 2024, section 2); linear. */
sl_status sl_family_zb_h1(const sl_problem *problem, sl_order *order);
sl_status sl_family_zb_h2(const sl_problem *problem, sl_order *order);

/** Megatron-LM's interleaved 1F1B (Narayanan et al., SC 2021); loop, any number of stages per rank. */
sl_status sl_family_interleaved(const sl_problem *problem, sl_order *order);

/** Zero Bubble's V schedule (Qi et al., ICLR 2024, section 6); wave, two stages per rank. */
sl_status sl_family_zb_v(const sl_problem *problem, sl_order *order);

/** DualPipeV (DeepSeek, 2025); wave, two stages per rank; full backwards paired with forwards. */
sl_status sl_family_dualpipe_v(const sl_problem *problem, sl_order *order);

/** Chimera with direct concatenation (Li and Hoefler, SC 2021); bidirectional. */
sl_status sl_family_chimera(const sl_problem *problem, sl_order *order);
