#include "notice/hang/torch_server.h"
#include "base/memory.h"
#include "notice/hang/ask.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE = 4, PORTS = 16, LISTENS = 0x0a };
#define WHO "torch.distributed.WorkerServer"

/* ---- where it listens ---- */

static int is_any_address(const char *hex) {
    return strspn(hex, "0") == strlen(hex);
}

/* Whether a socket is one of the process's open files. */
static int holds(int pid, unsigned long inode) {
    char path[300], wanted[64], target[64];
    int found = 0;
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files && !found && (entry = readdir(files));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.32s", pid, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        found = strcmp(target, wanted) == 0;
    }
    if (files)
        closedir(files);
    return found;
}

static int add_ports(int pid, const char *table, unsigned *port, int count) {
    char path[64], line[512], address[33];
    unsigned number, state;
    unsigned long inode;
    snprintf(path, sizeof path, "/proc/%d/net/%s", pid, table);
    FILE *file = fopen(path, "re");
    while (file && count < PORTS && fgets(line, sizeof line, file))
        if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*[^ ] %x %*s %*s %*s %*u %*d %lu", address, &number,
                   &state, &inode) == 4 &&
            state == LISTENS && is_any_address(address) && holds(pid, inode))
            port[count++] = number;
    if (file)
        fclose(file);
    return count;
}

/* A process of another network namespace listens elsewhere. */
static int is_near(int pid) {
    char path[64];
    struct stat own, its;
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    return stat("/proc/self/ns/net", &own) == 0 && stat(path, &its) == 0 && own.st_ino == its.st_ino;
}

/* ---- the question ---- */

/* The body of the answer to a request, in *text; NULL: none, or the server refuses. */
static sl_status request(int file, const char *what, char **text, size_t *size) {
    char line[200], *answer = NULL;
    size_t length = 0;
    sl_status status = SL_OK;
    *text = NULL;
    if (file < 0)
        return SL_OK;
    int used =
        snprintf(line, sizeof line,
                 "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", what);
    if (send(file, line, (size_t)used, MSG_NOSIGNAL) == used)
        status = sl_ask_read(file, "PyTorch's debug server", &answer, &length);
    close(file);
    const char *body = answer && length > 12 ? memmem(answer, length, "\r\n\r\n", 4) : NULL;
    if (status == SL_OK && body && memcmp(answer, "HTTP/1.", 7) == 0 && memcmp(answer + 8, " 200", 4) == 0) {
        *size = length - (size_t)(body + 4 - answer);
        status = sl_alloc(text, *size + 1, 1);
        if (status == SL_OK)
            memcpy(*text, body + 4, *size);
    }
    sl_free(answer);
    return status == SL_ENOMEM ? status : SL_OK;
}

static int is_it(const char *text, size_t size) {
    return text && memmem(text, size, WHO, strlen(WHO)) != NULL;
}

static sl_status ask_port(unsigned number, char **dump, size_t *size) {
    char port[16], *who;
    snprintf(port, sizeof port, "%u", number);
    SL_TRY(request(sl_ask_connect("localhost", port, PATIENCE), "GET /", &who, size));
    const int answers = is_it(who, *size);
    sl_free(who);
    return answers ? request(sl_ask_connect("localhost", port, PATIENCE), "POST /handler/fr_trace_json", dump,
                             size)
                   : SL_OK;
}

sl_status sl_torch_server_ask(int pid, const char *except, const char *socket_file, char **dump,
                              size_t *size) {
    unsigned port[PORTS];
    *dump = NULL;
    *size = 0;
    if (socket_file[0])
        SL_TRY(
            request(sl_ask_connect_file(socket_file, PATIENCE), "POST /handler/fr_trace_json", dump, size));
    if (*dump || !is_near(pid))
        return SL_OK;
    int count = add_ports(pid, "tcp", port, 0);
    count = add_ports(pid, "tcp6", port, count);
    for (int i = 0; i < count && !*dump; i++)
        if (port[i] != strtoul(except, NULL, 10))
            SL_TRY(ask_port(port[i], dump, size));
    return SL_OK;
}
