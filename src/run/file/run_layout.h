/* The layouts of an elastic run (key elastic): the numbers of replicas and pipeline ranks that fit into the
 * slots that are left. Replicas are left out first: the others keep their stages, which need no more memory.
 * Only then does the pipeline get fewer ranks, with another cut of the same layers. Tensor ranks stay.
 *
 *   supervisor  chooses the layout of an attempt by its slots, and passes it to the ranks
 *   ranks       read the run file and change it to that layout, before anything else
 *
 * Every layout divides the same microbatches, so each iteration consumes the same samples. What the run file
 * says for another number of replicas or ranks only is replaced: split and cut by the defaults, a list of
 * recompute by the value true if it has one, a pace by the same time in all, a schedule that is not defined
 * there by auto. Positions of arrangements are ignored, and so are faults and shared wires without their
 * links. */
#pragma once

#include "run/file/run.h"

typedef struct sl_run_layout {
    int data, pipeline;
} sl_run_layout;

/** That of the run file. */
sl_run_layout sl_run_layout_of(const sl_run *run);
/** Its processes: data * pipeline * tensor. */
int sl_run_layout_ranks(const sl_run *run, sl_run_layout layout);

/** The largest layout on at most `slots` slots. SL_ENONE: there is none; the text names the smallest. */
sl_status sl_run_layout_fit(const sl_run *run, int slots, sl_run_layout *layout);

/** Changes a run, just read, to a layout of at most as many replicas and pipeline ranks. SL_EINVAL: it is not
 * such a layout; SL_ENOMEM. */
sl_status sl_run_layout_take(sl_run *run, sl_run_layout layout);

/** "2 replicas of 3 pipeline ranks"; for people. */
void sl_run_layout_words(sl_run_layout layout, char *words, size_t size);

/* The layout as an argument: "2x3". */
#define SL_RUN_LAYOUT_OPTION "--layout"
enum { SL_RUN_LAYOUT_TEXT = 24 };
void sl_run_layout_write(sl_run_layout layout, char text[SL_RUN_LAYOUT_TEXT]);
/** SL_EINVAL: it is none. */
sl_status sl_run_layout_named(const char *text, sl_run_layout *layout);
