#include "http/tls.h"
#include "base/file.h"
#include "base/memory.h"

#include <microhttpd.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX = 1 << 20 };

static sl_status check(const char *who, const char *path, const char *pem) {
    struct stat about;
    if (!strstr(pem, "-----BEGIN CERTIFICATE-----"))
        return sl_error(SL_EINVAL, "%s: --tls %s has no certificate (PEM)", who, path);
    if (!strstr(pem, "PRIVATE KEY-----"))
        return sl_error(SL_EINVAL,
                        "%s: --tls %s has no private key (PEM, in the same file as the certificate)", who,
                        path);
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode) && (about.st_mode & (S_IRWXG | S_IRWXO)))
        return sl_error(SL_EINVAL, "%s: --tls %s: other users may read this private key; chmod 600 it", who,
                        path);
    return SL_OK;
}

sl_status sl_tls_read(const char *who, const char *path, char **pem) {
    size_t size;
    *pem = NULL;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return sl_error(SL_EINVAL, "%s: --tls: the libmicrohttpd of this build has no TLS", who);
    SL_TRY(sl_file_read_max(path, MAX, pem, &size));
    sl_status status = check(who, path, *pem);
    if (status != SL_OK) {
        sl_free(*pem);
        *pem = NULL;
    }
    return status;
}
