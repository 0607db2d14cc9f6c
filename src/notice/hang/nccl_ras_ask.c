/* The client's side of NCCL's RAS service: lines of text over TCP. */
#include "base/memory.h"
#include "notice/hang/nccl_ras.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LARGEST (UINT64_C(1) << 28)
enum { PATIENCE = 30 };

static int connect_to(const char *host, const char *port) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int file = -1;
    if (getaddrinfo(host, port, &wanted, &found) != 0)
        return -1;
    for (const struct addrinfo *a = found; a && file < 0; a = a->ai_next) {
        const struct timeval limit = {.tv_sec = PATIENCE};
        file = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (file < 0)
            continue;
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(file, a->ai_addr, a->ai_addrlen) != 0) {
            close(file);
            file = -1;
        }
    }
    freeaddrinfo(found);
    return file;
}

/* Sends a line and reads the one that answers it. */
static int exchange(int file, const char *line, const char *expected) {
    char answer[256];
    size_t got = 0;
    if (send(file, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        return 0;
    while (got + 1 < sizeof answer && (got == 0 || answer[got - 1] != '\n')) {
        if (recv(file, answer + got, 1, 0) != 1)
            return 0;
        got++;
    }
    answer[got] = 0;
    return strncasecmp(answer, expected, strlen(expected)) == 0;
}

static sl_status read_rest(int file, const char *address, char **bytes, size_t *size) {
    size_t capacity = 0;
    ssize_t got = 1;
    *size = 0;
    while (got > 0) {
        if (*size > LARGEST)
            return sl_error(SL_EPEER, "%s: NCCL's RAS service sends more than 256 MiB", address);
        SL_TRY(sl_grow(bytes, &capacity, *size + (1 << 16), 1));
        got = recv(file, *bytes + *size, 1 << 16, 0);
        *size += got > 0 ? (size_t)got : 0;
    }
    return got == 0 ? SL_OK : sl_error_errno(SL_EPEER, "%s: NCCL's RAS service", address);
}

sl_status sl_nccl_ras_ask(const char *address, char **answer, size_t *size) {
    static const char status[] = "VERBOSE STATUS\n";
    char host[256];
    const char *colon = strrchr(address, ':');
    *answer = NULL;
    *size = 0;
    if (!colon || colon == address || !colon[1] || (size_t)(colon - address) >= sizeof host)
        return sl_error(SL_EINVAL, "%s: the address of NCCL's RAS service is HOST:PORT", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    int file = connect_to(host, colon + 1);
    if (file < 0)
        return sl_error(SL_EPEER, "%s: NCCL's RAS service does not listen there", address);
    sl_status result = SL_OK;
    if (!exchange(file, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL ") ||
        !exchange(file, "SET FORMAT json\n", "OK") ||
        send(file, status, sizeof status - 1, MSG_NOSIGNAL) != (ssize_t)sizeof status - 1)
        result = sl_error(
            SL_EPEER, "%s: does not answer as NCCL's RAS service with JSON (NCCL 2.28 and later)", address);
    else
        result = read_rest(file, address, answer, size);
    close(file);
    if (result != SL_OK) {
        sl_free(*answer);
        *answer = NULL;
    }
    return result;
}
