#include "notice/store/seal.h"
#include "base/build_id.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* What the mac is of: a fixed size, so that nothing can be moved from one part into another. */
typedef struct sealed_text {
    sl_seal seal; /* its mac is zero */
    uint8_t name[32], bytes[32];
} sealed_text;

sl_status sl_seal_begin(sl_seal *seal) {
    memset(seal, 0, sizeof *seal);
    memcpy(seal->magic, SL_SEAL_MAGIC, sizeof seal->magic);
    snprintf(seal->version, sizeof seal->version, "%s", sl_build_id());
    if (gethostname(seal->host, sizeof seal->host - 1) != 0)
        seal->host[0] = 0;
    if (getrandom(&seal->sender, sizeof seal->sender, 0) != (ssize_t)sizeof seal->sender)
        return sl_error_errno(SL_ESYS, "cannot get a random number");
    return SL_OK;
}

static sl_status compute(const sl_seal *seal, const char *key, const char *name, const void *bytes,
                         size_t size, uint8_t mac[32]) {
    sealed_text text;
    unsigned length = 32;
    memset(&text, 0, sizeof text);
    text.seal = *seal;
    memset(text.seal.mac, 0, sizeof text.seal.mac);
    if (EVP_Digest(name, strlen(name), text.name, NULL, EVP_sha256(), NULL) != 1 ||
        EVP_Digest(bytes, size, text.bytes, NULL, EVP_sha256(), NULL) != 1 ||
        !HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)&text, sizeof text, mac, &length))
        return sl_error(SL_ENOMEM, "a message cannot be sealed: libcrypto has no SHA-256, or no memory");
    return SL_OK;
}

sl_status sl_seal_close(sl_seal *seal, const char *key, const char *name, const void *bytes, size_t size) {
    return compute(seal, key, name, bytes, size, seal->mac);
}

sl_status sl_seal_check(const sl_seal *seal, const char *key, const char *name, const void *bytes,
                        size_t size, int *right) {
    uint8_t mac[32];
    SL_TRY(compute(seal, key, name, bytes, size, mac));
    *right = CRYPTO_memcmp(mac, seal->mac, sizeof mac) == 0;
    return SL_OK;
}

static int is_printable(const char *text, size_t size) {
    const char *end = memchr(text, 0, size);
    for (; end && text < end; text++)
        if (*text <= ' ' || *text >= 127)
            return 0;
    return end != NULL;
}

int sl_seal_is(const void *bytes, size_t size) {
    sl_seal seal;
    if (size != sizeof seal)
        return 0;
    memcpy(&seal, bytes, sizeof seal);
    return memcmp(seal.magic, SL_SEAL_MAGIC, sizeof seal.magic) == 0 &&
           is_printable(seal.version, sizeof seal.version) && is_printable(seal.host, sizeof seal.host);
}

void sl_seal_version_text(const char *version, const char *host, char *text, size_t size) {
    char here[64] = "";
    if (gethostname(here, sizeof here - 1) != 0)
        here[0] = 0;
    snprintf(text, size,
             "slackline %s on host %s and slackline %s on host %s cannot work together: install one version "
             "on all "
             "hosts",
             version, host, sl_build_id(), here);
}
