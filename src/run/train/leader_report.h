/* What the leader writes when a run begins and when it ends. */
#pragma once

#include "run/train/leader.h"

/** The run begins now; ping[ranks * ranks]: the links before its first iteration. */
sl_status sl_leader_report_start(const sl_leader *leader, const sl_ping_link *ping);

/** The run is complete: its last files and the table. `peaks`[3 * world] of each rank: most bytes in device
 * and in host memory, and moves between the two; `summary` has validation and weights_hash. */
sl_status sl_leader_report_end(const sl_leader *leader, const long *peaks, sl_summary *summary);

/** A warning ended the run after `done` iterations. */
sl_status sl_leader_report_warned(const sl_leader *leader, int done);
