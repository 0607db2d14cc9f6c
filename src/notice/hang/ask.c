#include "notice/hang/ask.h"
#include "base/memory.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGEST ((size_t)1 << 28)

static int connected(int family, int type, const struct sockaddr *address, socklen_t size, int seconds) {
    const struct timeval limit = {.tv_sec = seconds};
    int file = socket(family, type | SOCK_CLOEXEC, 0);
    if (file < 0)
        return -1;
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(file, address, size) == 0)
        return file;
    close(file);
    return -1;
}

int sl_ask_connect(const char *host, const char *port, int seconds) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int file = -1;
    if (getaddrinfo(host, port, &wanted, &found) != 0)
        return -1;
    for (const struct addrinfo *a = found; a && file < 0; a = a->ai_next)
        file = connected(a->ai_family, a->ai_socktype, a->ai_addr, a->ai_addrlen, seconds);
    freeaddrinfo(found);
    return file;
}

int sl_ask_connect_file(const char *path, int seconds) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return connected(AF_UNIX, SOCK_STREAM, (const struct sockaddr *)&address, sizeof address, seconds);
}

sl_status sl_ask_read(int file, const char *who, char **bytes, size_t *size) {
    size_t capacity = 0;
    ssize_t got = 1;
    *bytes = NULL;
    *size = 0;
    while (got > 0) {
        if (*size > LARGEST)
            return sl_error(SL_EPEER, "%s sends more than 256 MiB", who);
        SL_TRY(sl_grow(bytes, &capacity, *size + (1 << 16), 1));
        got = recv(file, *bytes + *size, 1 << 16, 0);
        *size += got > 0 ? (size_t)got : 0;
    }
    return got == 0 ? SL_OK : sl_error_errno(SL_EPEER, "%s", who);
}
