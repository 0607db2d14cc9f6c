#include "notice/validate/link_test.h"
#include "base/clock.h"
#include "notice/validate/wire.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PINGS = 40,
    PING_BYTES = 64,
    CHUNK = 64 << 10,       /* of a block, per write */
    BLOCK_FIRST = 16 << 10, /* 130 ms at 1 Mbit/s */
    BLOCK_MIN = 64 << 10,
    BLOCK_MAX = 64 << 20
};
#define PING_TIME (20 * SL_MS)
#define BLOCK_TIME (20 * SL_MS) /* a block that takes this long is measured well */
#define DIRECTION_TIME (60 * SL_MS)

/* ---- round trips ---- */

/* The first byte indicates whether another follows. */
static int ping(int file, sl_time limit, sl_time *shortest) {
    char message[PING_BYTES] = {1};
    sl_time begin = sl_now(), deadline = begin + limit;
    *shortest = SL_TIME_NEVER;
    for (int i = 0; i < PINGS; i++) {
        sl_time sent = sl_now();
        message[0] = i + 1 < PINGS && (i < 3 || sent - begin < PING_TIME);
        if (sl_wire_send(file, message, sizeof message, deadline) != 0)
            return -1;
        char more = message[0];
        if (sl_wire_receive(file, message, sizeof message, deadline) != 0)
            return -1;
        sl_time took = sl_now() - sent;
        *shortest = took < *shortest ? took : *shortest;
        if (!more)
            break;
    }
    return 0;
}

/* Times what it sees too: from an answer to the next question. */
static int pong(int file, sl_time limit, sl_time *shortest) {
    char message[PING_BYTES];
    sl_time deadline = sl_now() + limit + limit / 2, answered = 0;
    *shortest = SL_TIME_NEVER;
    do {
        if (sl_wire_receive(file, message, sizeof message, deadline) != 0)
            return -1;
        sl_time came = sl_now();
        if (answered && came - answered < *shortest)
            *shortest = came - answered;
        answered = came;
        if (sl_wire_send(file, message, sizeof message, deadline) != 0)
            return -1;
    } while (message[0]);
    return 0;
}

/* ---- blocks ---- */

typedef struct test_block {
    uint64_t size; /* 0: no more come */
} test_block;

typedef struct block_answer {
    int64_t took; /* the whole block; -1: the time was over */
} block_answer;

static uint64_t next_size(uint64_t size, sl_time took) {
    double wanted = (double)size * 1.5 * (double)BLOCK_TIME / (double)(took > 1000 ? took : 1000);
    double least = 2 * (double)size, most = 8 * (double)size;
    wanted = wanted < least ? least : wanted > most ? most : wanted;
    return wanted > BLOCK_MAX ? BLOCK_MAX : (uint64_t)wanted;
}

static int send_blocks(int file, sl_time limit) {
    static const char chunk[CHUNK];
    sl_time begin = sl_now(), deadline = begin + limit + limit / 4;
    for (uint64_t size = BLOCK_FIRST;;) {
        const test_block head = {.size = size};
        block_answer got;
        if (sl_wire_send(file, &head, sizeof head, deadline) != 0)
            return -1;
        for (uint64_t left = size; left > 0;) {
            size_t part = left < CHUNK ? (size_t)left : CHUNK;
            if (sl_wire_send(file, chunk, part, deadline) != 0)
                return -1;
            left -= part;
        }
        if (sl_wire_receive(file, &got, sizeof got, deadline) != 0 || got.took < 0)
            return -1;
        int measured = got.took >= BLOCK_TIME && (size >= BLOCK_MIN || got.took >= 5 * BLOCK_TIME);
        if (measured || size >= BLOCK_MAX || sl_now() - begin >= DIRECTION_TIME)
            break;
        size = next_size(size, got.took);
    }
    return sl_wire_send(file, &(test_block){0}, sizeof(test_block), deadline);
}

/* The rate of a block's last three quarters. */
static int receive_block(int file, uint64_t size, sl_time deadline, double *rate, sl_time *took) {
    char chunk[CHUNK];
    sl_time begin = sl_now(), quarter = begin;
    uint64_t got = 0, skipped = 0;
    while (got < size) {
        uint64_t left = size - got;
        ssize_t part = recv(file, chunk, left < CHUNK ? (size_t)left : CHUNK, MSG_DONTWAIT);
        if (part > 0) {
            got += (uint64_t)part;
        } else if (part == 0 || (errno != EAGAIN && errno != EINTR)) {
            return -1;
        } else {
            sl_time left_time = deadline - sl_now();
            struct pollfd one = {.fd = file, .events = POLLIN};
            if (left_time <= 0 || poll(&one, 1, (int)(left_time / SL_MS) + 1) == 0)
                break;
            continue;
        }
        if (!skipped && got >= size / 4) {
            skipped = got;
            quarter = sl_now();
        }
    }
    sl_time end = sl_now();
    uint64_t counted = skipped && got > skipped ? got - skipped : got;
    sl_time since = skipped && got > skipped ? end - quarter : end - begin;
    *rate = (double)counted / (double)(since > 0 ? since : 1);
    *took = end - begin;
    return got < size;
}

static int receive_blocks(int file, sl_time limit, sl_link_sample *sample) {
    sl_time deadline = sl_now() + limit;
    for (;;) {
        test_block head;
        block_answer reply;
        if (sl_wire_receive(file, &head, sizeof head, deadline + limit / 4) != 0)
            return -1;
        if (head.size == 0)
            return 0;
        int state = receive_block(file, head.size, deadline, &sample->gb_per_s, &reply.took);
        if (state < 0)
            return -1;
        if (state > 0) {
            sample->limited = 1;
            reply.took = -1;
            sl_wire_send(file, &reply, sizeof reply, sl_now() + limit / 4);
            return -1;
        }
        if (sl_wire_send(file, &reply, sizeof reply, deadline) != 0)
            return -1;
    }
}

void sl_link_test(int *file, int first, sl_time limit, sl_link_sample *sample) {
    sl_time shortest = SL_TIME_NEVER;
    *sample = (sl_link_sample){.latency_ms = -1, .gb_per_s = -1};
    int failed = first ? ping(*file, limit, &shortest) : pong(*file, limit, &shortest);
    if (shortest != SL_TIME_NEVER)
        sample->latency_ms = sl_to_ms(shortest) / 2;
    for (int turn = 0; turn < 2 && !failed; turn++)
        if (turn == !first) {
            failed = send_blocks(*file, limit);
        } else {
            sample->gb_per_s = 0;
            failed = receive_blocks(*file, limit, sample);
        }
    if (failed) {
        close(*file);
        *file = -1;
    }
}

/* ---- evidence ---- */

/* The interface that has the wire's address here. In a network namespace /sys shows the interfaces of another
 * one; the kernel's answer over a socket is right. */
static void find_interface(int file, const struct ifaddrs *all, char name[16]) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } here;
    socklen_t size = sizeof here;
    name[0] = 0;
    if (getsockname(file, &here.any, &size) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr)
            continue;
        const struct sockaddr_in *v4 = (const void *)i->ifa_addr;
        const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;
        int mapped = here.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&here.v6.sin6_addr);
        if ((i->ifa_addr->sa_family == AF_INET && here.any.sa_family == AF_INET &&
             memcmp(&v4->sin_addr, &here.v4.sin_addr, 4) == 0) ||
            (i->ifa_addr->sa_family == AF_INET && mapped &&
             memcmp(&v4->sin_addr, here.v6.sin6_addr.s6_addr + 12, 4) == 0) ||
            (i->ifa_addr->sa_family == AF_INET6 && here.any.sa_family == AF_INET6 &&
             memcmp(&v6->sin6_addr, &here.v6.sin6_addr, 16) == 0)) {
            snprintf(name, 16, "%.15s", i->ifa_name);
            return;
        }
    }
}

static double speed_of(int file, const char *name) {
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (void *)&command};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(file, SIOCETHTOOL, &request) != 0)
        return 0;
    uint32_t mbit = ethtool_cmd_speed(&command);
    return mbit == 0 || mbit == (uint32_t)SPEED_UNKNOWN ? 0 : mbit;
}

void sl_link_evidence_begin(int file, sl_link_evidence *before) {
    struct ifaddrs *all = NULL;
    *before = (sl_link_evidence){.errors = -1, .drops = -1, .resent = -1};
    if (file < 0 || getifaddrs(&all) != 0)
        return;
    find_interface(file, all, before->interface);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (before->interface[0] && strcmp(i->ifa_name, before->interface) == 0 && i->ifa_addr &&
            i->ifa_addr->sa_family == AF_PACKET && i->ifa_data) {
            const struct rtnl_link_stats *counts = i->ifa_data;
            before->errors = (int64_t)counts->rx_errors + counts->tx_errors;
            before->drops = (int64_t)counts->rx_dropped + counts->tx_dropped;
        }
    freeifaddrs(all);
    before->mbit = speed_of(file, before->interface);
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
        before->resent = info.tcpi_total_retrans;
}

static int64_t difference(int64_t before, int64_t after) {
    return before < 0 || after < 0 ? -1 : after < before ? after : after - before;
}

void sl_link_evidence_end(int file, const sl_link_evidence *before, sl_link_evidence *evidence) {
    sl_link_evidence after;
    sl_link_evidence_begin(file, &after);
    *evidence = *before;
    evidence->errors = difference(before->errors, after.errors);
    evidence->drops = difference(before->drops, after.drops);
    evidence->resent = difference(before->resent, after.resent);
}
