/* The client's side of NCCL's RAS service: lines of text over TCP. */
#include "base/memory.h"
#include "notice/hang/ask.h"
#include "notice/hang/nccl_ras.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

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

sl_status sl_nccl_ras_ask(const char *address, int seconds, char **answer, size_t *size) {
    static const char status[] = "VERBOSE STATUS\n";
    char host[256];
    const char *colon = strrchr(address, ':');
    *answer = NULL;
    *size = 0;
    if (!colon || colon == address || !colon[1] || (size_t)(colon - address) >= sizeof host)
        return sl_error(SL_EINVAL, "%s: the address of NCCL's RAS service is HOST:PORT", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    int file = sl_ask_connect(host, colon + 1, seconds);
    if (file < 0)
        return sl_error(SL_EPEER, "%s: NCCL's RAS service does not listen there", address);
    sl_status result = SL_OK;
    if (!exchange(file, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL ") ||
        !exchange(file, "SET FORMAT json\n", "OK") ||
        send(file, status, sizeof status - 1, MSG_NOSIGNAL) != (ssize_t)sizeof status - 1)
        result = sl_error(
            SL_EPEER, "%s: does not answer as NCCL's RAS service with JSON (NCCL 2.28 and later)", address);
    else
        result = sl_ask_read(file, address, answer, size);
    close(file);
    if (result != SL_OK) {
        sl_free(*answer);
        *answer = NULL;
    }
    return result;
}
