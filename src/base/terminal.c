#include "base/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL 80 /* if a terminal does not report it */

static int width_of(int file) {
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
}

static int is_capable(int file) {
    const char *type = getenv("TERM");
    return isatty(file) && !(type && strcmp(type, "dumb") == 0);
}

static int wants_colour(void) {
    const char *without = getenv("NO_COLOR");
    return !(without && *without);
}

void sl_terminal_of(int file, sl_terminal *t) {
    *t = (sl_terminal){0};
    if (!is_capable(file))
        return;
    int width = width_of(file);
    t->columns = width ? width : USUAL;
    t->colour = wants_colour();
    if (ttyname_r(file, t->device, sizeof t->device) != 0)
        t->device[0] = 0;
}

void sl_terminal_offer(void) {
    sl_terminal t;
    char text[128];
    sl_terminal_of(STDOUT_FILENO, &t);
    snprintf(text, sizeof text, "%d,%d,%s", t.columns, t.colour, t.device);
    setenv(SL_TERMINAL_VARIABLE, text, 1);
}

void sl_terminal_find(sl_terminal *t) {
    const char *offer = getenv(SL_TERMINAL_VARIABLE);
    int columns = 0, colour = 0, at = 0;
    *t = (sl_terminal){0};
    if (!offer || sscanf(offer, "%d,%d,%n", &columns, &colour, &at) != 2 || at == 0 || columns < 1 ||
        strlen(offer + at) >= sizeof t->device)
        return;
    *t = (sl_terminal){.columns = columns, .colour = colour != 0};
    snprintf(t->device, sizeof t->device, "%s", offer + at);
}

int sl_terminal_columns(const sl_terminal *t) {
    int width = 0, file = t->device[0] ? open(t->device, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (file >= 0) {
        width = width_of(file);
        close(file);
    }
    return width ? width : t->columns > 0 ? t->columns : 1;
}

void sl_terminal_clear_line(FILE *out) {
    if (is_capable(fileno(out)))
        fputs("\r\033[K", out);
}
