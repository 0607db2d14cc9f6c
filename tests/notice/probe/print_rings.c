/* Prints what the rings of a folder hold, one record a line, for the tests and benches of the probe:
 * FILE kind sequence call communicator peer tag bytes start end device rank thread; and after a ring "FILE
 * ring pid rank size family program lost untracked". Usage: print_rings FOLDER */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "notice/record/call.h"

static int print_ring(const char *folder, const char *name) {
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        return 1;
    size_t bytes = (size_t)status.st_size;
    sl_ring_file *head = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (head == MAP_FAILED || bytes < sizeof *head || head->magic != SL_RING_FILE_MAGIC ||
        head->version != SL_PROBE_VERSION)
        return 1;
    const sl_record_ring *ring = (const sl_record_ring *)(head + 1);
    if (sl_record_ring_valid(ring, bytes - sizeof *head) != 0)
        return 1;
    uint64_t position = 0, lost = 0;
    sl_record record;
    while (sl_record_read(ring, &position, &record, 1, &lost) == 1) {
        sl_call c;
        memcpy(&c, &record, sizeof c);
        printf("%s %s %" PRIu64 " %s %016" PRIx64 " %d %d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64
               " %d %d\n",
               name,
               c.kind == SL_RECORD_CALL         ? "call"
               : c.kind == SL_RECORD_COMPLETION ? "completion"
                                                : "other",
               c.sequence, sl_call_name(c.call), c.communicator, c.peer, c.tag, c.bytes, c.start, c.end,
               c.device, c.rank, c.thread);
    }
    printf("%s ring %d %d %d %u %s %" PRIu64 " %" PRIu64 "\n", name, head->pid, head->rank, head->size,
           head->family, head->program, lost, head->untracked);
    munmap(head, bytes);
    return 0;
}

int main(int argc, char **argv) {
    DIR *directory = argc == 2 ? opendir(argv[1]) : NULL;
    if (!directory) {
        fprintf(stderr, "usage: print_rings FOLDER\n");
        return 2;
    }
    int wrong = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".ring") == 0 &&
            print_ring(argv[1], entry->d_name)) {
            fprintf(stderr, "print_rings: %s is no ring\n", entry->d_name);
            wrong = 1;
        }
    }
    closedir(directory);
    return wrong;
}
