/* Tokens that clients must present on an address that others can reach (see server.h). */
#pragma once

#include "base/option.h"

#define SL_TOKEN_MADE 33  /* bytes of a token that is made, with its end */
#define SL_TOKEN_ROOM 129 /* of any */

/** Takes the value of the option --token (SL_TAKES_OWN) into char[SL_TOKEN_ROOM]. SL_EINVAL. */
sl_status sl_token_take(const sl_options *options, void *token);

/** The token required on `host`: `given`, or, if that is NULL and others can reach the address, a random one
 * in `made`; *token is NULL if none is required. SL_ESYS. */
sl_status sl_token_choose(const char *host, const char *given, char made[SL_TOKEN_MADE], const char **token);
