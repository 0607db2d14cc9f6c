/* The certificate of an HTTP server: with the option --tls FILE it speaks https and nothing else. */
#pragma once

#include "base/status.h"

/** Reads a PEM file with a certificate (a chain: the server's own first) and its private key. *pem is freed
 * by sl_free. SL_EINVAL, naming the file: it cannot be read, lacks either, is readable by other users (it
 * holds the key), or libmicrohttpd was built without TLS. */
sl_status sl_tls_read(const char *who, const char *path, char **pem);
