/* The gradients of an iteration as files, to compare layouts with each other and with other programs:
 * gradients/iteration-000000.f32 holds all tensors one after the other in canonical order (little-endian
 * f32), of the whole batch, before clipping; gradients/tensors.json says name, shape and offset in bytes of
 * each. */
#ifndef SL_RUN_BINDING_GRADIENTS_H
#define SL_RUN_BINDING_GRADIENTS_H

#include "run/binding/binding.h"

/** Collective, between sl_binding_join and sl_binding_clip; rank 0 of the world writes below `folder`,
 * which exists. SL_ESYS names the file. */
sl_status sl_gradients_write(sl_binding *binding, int leads, const char *folder, int iteration);

#endif
