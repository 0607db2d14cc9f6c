/* A man in the middle: forwards TCP connections to a port of the loopback interface and does on demand what
 * networks do. A thread of its own; all commands are atomic words. */
#ifndef SL_TESTS_TRANSPORT_PROXY_H
#define SL_TESTS_TRANSPORT_PROXY_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROXY_PAIRS 32

enum { PASS, DROP, STALL }; /* per direction, while set */
enum { NOTHING, CLOSE_ALL, FLIP_A_BIT, CUT_IN_MID_FRAME, CUT_AT_THE_SENDER, END }; /* once */

typedef struct proxy {
    int listening;
    uint16_t port, target;
    _Atomic int up, down; /* towards the receiver; back */
    _Atomic int command;
    _Atomic int refuses;        /* new connections */
    _Atomic uint64_t forwarded; /* bytes towards the receiver */
    _Atomic uint64_t accepted;  /* connections */
    uint8_t recorded[4096];     /* the first bytes towards the receiver of the first connection */
    _Atomic size_t recorded_bytes;
    int pair[PROXY_PAIRS][2];                                 /* -1: none */
    void (*forge)(void *object, uint8_t *data, size_t bytes); /* data towards the receiver of the first
                                                               * connection; NULL: none */
    void *object;
    int nobody; /* behind the end of a connection that was cut at the sender; 0: none */
    pthread_t thread;
} proxy;

static inline int proxy_listen(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = made < 0 || bind(made, (struct sockaddr *)&at, size) != 0 || listen(made, 64) != 0 ||
                 getsockname(made, (struct sockaddr *)&at, &size) != 0;
    if (failed)
        abort();
    *port = ntohs(at.sin_port);
    return made;
}

static inline int connect_to_port(uint16_t port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (made >= 0 && connect(made, (struct sockaddr *)&to, sizeof to) != 0) {
        close(made);
        made = -1;
    }
    return made;
}

static inline void proxy_close_pair(proxy *p, int i) {
    close(p->pair[i][0]);
    close(p->pair[i][1]);
    p->pair[i][0] = p->pair[i][1] = -1;
}

/* The sender's end closes, the receiver's stays and is silent, as behind an interface that was set down. */
static inline void proxy_cut_at_the_sender(proxy *p, int i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    close(p->pair[i][0]);
    p->pair[i][0] = ends[0];
    p->nobody = ends[1];
    atomic_store(&p->refuses, 1);
}

static inline void proxy_accept(proxy *p) {
    int client = accept4(p->listening, NULL, NULL, SOCK_CLOEXEC), server, yes = 1;
    if (atomic_load(&p->refuses)) {
        close(client);
        return;
    }
    server = connect_to_port(p->target);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    atomic_fetch_add(&p->accepted, 1);
    for (int i = 0; i < PROXY_PAIRS && server >= 0; i++)
        if (p->pair[i][0] < 0) {
            p->pair[i][0] = client;
            p->pair[i][1] = server;
            return;
        }
    close(client);
    if (server >= 0)
        close(server);
}

static inline int proxy_write(int to, const uint8_t *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(to, data + done, bytes - done, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static inline void proxy_record(proxy *p, const uint8_t *data, size_t bytes) {
    size_t done = atomic_load(&p->recorded_bytes), room = sizeof p->recorded - done;
    bytes = bytes < room ? bytes : room;
    memcpy(p->recorded + done, data, bytes);
    atomic_store(&p->recorded_bytes, done + bytes);
}

static inline void proxy_forward(proxy *p, int i, int back) {
    uint8_t data[65536];
    ssize_t n = recv(p->pair[i][back], data, sizeof data, 0);
    int expected = back ? -1 : FLIP_A_BIT, cut = CUT_IN_MID_FRAME, half = CUT_AT_THE_SENDER;
    if (n <= 0) {
        proxy_close_pair(p, i);
        return;
    }
    if (atomic_load(back ? &p->down : &p->up) == DROP)
        return;
    size_t bytes = (size_t)n;
    if (!back) {
        atomic_fetch_add(&p->forwarded, bytes);
        if (atomic_load(&p->accepted) == 1)
            proxy_record(p, data, bytes);
        if (atomic_load(&p->accepted) == 1 && p->forge)
            p->forge(p->object, data, bytes);
        if (bytes > 1000 && atomic_compare_exchange_strong(&p->command, &expected, NOTHING))
            data[bytes / 2] ^= 8;
        if (bytes > 1000 && atomic_compare_exchange_strong(&p->command, &cut, NOTHING)) {
            proxy_write(p->pair[i][1], data, bytes / 2);
            proxy_close_pair(p, i);
            return;
        }
        if (bytes > 1000 && atomic_compare_exchange_strong(&p->command, &half, NOTHING)) {
            proxy_write(p->pair[i][1], data, bytes / 2);
            proxy_cut_at_the_sender(p, i);
            return;
        }
    }
    if (proxy_write(p->pair[i][1 - back], data, bytes) != 0)
        proxy_close_pair(p, i);
}

static inline void *proxy_run(void *object) {
    proxy *p = object;
    for (;;) {
        struct pollfd polled[1 + 2 * PROXY_PAIRS] = {{.fd = p->listening, .events = POLLIN}};
        int expected = CLOSE_ALL;
        if (atomic_load(&p->command) == END)
            return NULL;
        if (atomic_compare_exchange_strong(&p->command, &expected, NOTHING))
            for (int i = 0; i < PROXY_PAIRS; i++)
                if (p->pair[i][0] >= 0)
                    proxy_close_pair(p, i);
        for (int i = 0; i < PROXY_PAIRS; i++)
            for (int back = 0; back < 2; back++)
                polled[1 + 2 * i + back] = (struct pollfd){
                    .fd = atomic_load(back ? &p->down : &p->up) == STALL ? -1 : p->pair[i][back],
                    .events = POLLIN};
        poll(polled, 1 + 2 * PROXY_PAIRS, 2);
        for (int i = 0; i < PROXY_PAIRS; i++)
            for (int back = 0; back < 2; back++)
                if (polled[1 + 2 * i + back].fd >= 0 && polled[1 + 2 * i + back].revents &&
                    p->pair[i][0] >= 0)
                    proxy_forward(p, i, back);
        if (polled[0].revents)
            proxy_accept(p);
    }
}

static inline void proxy_listen_for(proxy *p, uint16_t target) {
    memset(p, 0, sizeof *p);
    memset(p->pair, -1, sizeof p->pair);
    p->listening = proxy_listen(&p->port);
    p->target = target;
}

static inline void proxy_run_thread(proxy *p) {
    if (pthread_create(&p->thread, NULL, proxy_run, p) != 0)
        abort();
}

static inline void proxy_start(proxy *p, uint16_t target) {
    proxy_listen_for(p, target);
    proxy_run_thread(p);
}

static inline void proxy_end(proxy *p) {
    atomic_store(&p->command, END);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < PROXY_PAIRS; i++)
        if (p->pair[i][0] >= 0)
            proxy_close_pair(p, i);
    if (p->nobody > 0)
        close(p->nobody);
    close(p->listening);
}

#endif
