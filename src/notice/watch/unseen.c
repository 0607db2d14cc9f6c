#include "notice/watch/unseen.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MAX = 4096 };

static void take(sl_unseen *u, const char *line) {
    int place = 0;
    while (place < u->count && strcmp(u->text[place], line) != 0)
        place++;
    if (place == SL_UNSEEN_LINES)
        return;
    if (place == u->count)
        snprintf(u->text[u->count++], sizeof u->text[0], "%s", line);
    u->processes[place]++;
}

/* As much of a line as fits, without characters that a terminal would interpret. */
static void take_lines(sl_unseen *u, char *content) {
    for (char *next, *line = content; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        if (length >= sizeof u->text[0])
            line[sizeof u->text[0] - 1] = 0;
        for (char *c = line; *c; c++)
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                *c = '?';
        if (*line)
            take(u, line);
    }
}

void sl_unseen_read(const char *folder, sl_unseen *unseen) {
    *unseen = (sl_unseen){.count = 0};
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[4400], *content;
        size_t size, length = strlen(entry->d_name);
        if (length < 8 || strcmp(entry->d_name + length - 7, ".unseen") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (sl_file_read_most(path, MAX, &content, &size) != SL_OK)
            continue;
        take_lines(unseen, content);
        sl_free(content);
    }
    closedir(directory);
}
