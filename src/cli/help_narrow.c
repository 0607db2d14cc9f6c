/* Help on a terminal that is narrower than its lines. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST = 30 }; /* columns; below, the terminal breaks lines as well as we do */

/* Where a line goes on: below its words, behind the option that they are of. */
static size_t below(const char *line, size_t width) {
    size_t indent = strspn(line, " ");
    const char *gap = strstr(line + indent, "  ");
    size_t words = gap ? (size_t)(gap - line) + strspn(gap, " ") : indent;
    return words <= width / 2 ? words : indent + 4;
}

/* How much of `line` fits into `room`: to a blank behind `from`, else to the first one. */
static size_t piece(const char *line, size_t from, size_t room) {
    size_t at = room;
    while (at > from && line[at] != ' ')
        at--;
    return at > from ? at : room + strcspn(line + room, " ");
}

static void print_line(const char *line, size_t width, FILE *out) {
    size_t left = below(line, width), from = left, room = width;
    while (strlen(line) > room) {
        size_t length = piece(line, from, room);
        fprintf(out, "%.*s\n", (int)length, line);
        line += length;
        line += strspn(line, " ");
        if (!*line)
            return;
        fprintf(out, "%*s", (int)left, "");
        from = 0;
        room = width - left;
    }
    fprintf(out, "%s\n", line);
}

int sl_help_narrow(const sl_subcommand *command) {
    struct winsize size;
    sl_help help;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < LEAST)
        return 0;
    if (sl_help_read(command, &help) != SL_OK) {
        sl_help_free(&help);
        return 0;
    }
    for (int i = 0; i < help.lines; i++)
        print_line(help.line[i], size.ws_col, stdout);
    sl_help_free(&help);
    return 1;
}
