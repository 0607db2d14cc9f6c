#include "http/token.h"
#include "base/random.h"
#include "http/server.h"

#include <string.h>

enum { MIN = 8, MAX = SL_TOKEN_ROOM - 1 };

sl_status sl_token_take(const sl_options *o, void *token) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    char word[4096];
    SL_TRY(sl_option_secret(o, word, sizeof word));
    size_t length = strlen(word);
    if (length < MIN || length > MAX || strspn(word, allowed) != length)
        return sl_error(SL_EINVAL, "%s: --token must be %d to %d of letters, digits, - . _ ~", o->command,
                        MIN, MAX);
    memcpy(token, word, length + 1);
    return SL_OK;
}

sl_status sl_token_choose(const char *host, const char *given, char made[SL_TOKEN_MADE], const char **token) {
    *token = given;
    if (given || sl_server_is_loopback(host))
        return SL_OK;
    SL_TRY(sl_random_text(made, SL_TOKEN_MADE - 1, "random token"));
    *token = made;
    return SL_OK;
}
