/* The traffic of a training job, from a model or as numbers (Falcon, appendix 9.2, in bytes). */
#pragma once

#include "adapt/topology/topology.h"
#include "base/config.h"

extern const sl_key sl_volume_model_keys[], sl_volume_keys[];

/** `model:` or `volumes:` of a cluster file into activation, gradient, sum and sums; exactly one of them.
 * `size`: sequences per microbatch. SL_EINVAL names file, line and key. */
sl_status sl_volume_read(const sl_yaml *root, int size, sl_cluster *cluster);

/** Bytes that one rank of a stage sends per iteration: to the next stage and back (2 m messages per
 * boundary), in its ring (2 (D - 1) / D of its gradients), in sums with its tensor ranks (2 (T - 1) / T of
 * each). */
double sl_volume_pipeline(const sl_cluster *cluster);
double sl_volume_data(const sl_cluster *cluster, int stage);
double sl_volume_tensor(const sl_cluster *cluster, int stage);
