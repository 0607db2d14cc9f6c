/* A terminal is offered to those whose output ends at it: found again with its width as it is then, or not at
 * all. Standard output is a pseudo terminal here. */
#include "check.h"

#include "base/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The master side; `as` becomes standard output, `saved` what it was. */
static int open_terminal(int columns, int *saved) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
    fflush(stdout);
    *saved = dup(STDOUT_FILENO);
    assert_int_equal(dup2(slave, STDOUT_FILENO), STDOUT_FILENO);
    close(slave);
    return master;
}

static void put_back(int saved) {
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

static void the_offer_is_found_with_the_width_as_it_is(void **state) {
    (void)state;
    sl_terminal t;
    int saved, master;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    master = open_terminal(132, &saved);
    sl_terminal_offer();
    put_back(saved); /* as for a rank: its own standard output is none of it */
    sl_terminal_find(&t);
    assert_true(t.columns == 132 && t.colour == 1 && t.device[0] == '/');
    assert_int_equal(sl_terminal_columns(&t), 132);
    struct winsize size = {.ws_row = 24, .ws_col = 61};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
    assert_int_equal(sl_terminal_columns(&t), 61);
    close(master); /* the terminal is gone: the width that was */
    assert_int_equal(sl_terminal_columns(&t), 132);
}

static void no_colour_and_dumb_terminals_are_respected(void **state) {
    (void)state;
    sl_terminal t;
    int saved, master;
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    master = open_terminal(90, &saved);
    sl_terminal_offer();
    sl_terminal_find(&t);
    assert_true(t.columns == 90 && t.colour == 0);
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    sl_terminal_offer();
    sl_terminal_find(&t);
    assert_int_equal(t.columns, 0);
    setenv("TERM", "xterm", 1);
    struct winsize unknown = {0};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &unknown), 0);
    sl_terminal_offer();
    sl_terminal_find(&t);
    assert_true(t.columns == 80 && sl_terminal_columns(&t) == 80);
    put_back(saved);
    close(master);
}

static void without_a_terminal_an_older_offer_is_withdrawn(void **state) {
    (void)state;
    sl_terminal t;
    int ends[2], saved;
    assert_int_equal(pipe(ends), 0);
    setenv(SL_TERMINAL_VARIABLE, "100,1,/dev/pts/0", 1);
    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    sl_terminal_offer();
    sl_terminal_clear_line(stdout); /* says nothing into a pipe */
    fflush(stdout);
    put_back(saved);
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    sl_terminal_find(&t);
    assert_int_equal(t.columns, 0);
    /* nor is nonsense believed */
    static const char *const nonsense[] = {"", "100", "100,1", "x,1,/dev/null", "-5,1,/dev/null", "0,0,"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        setenv(SL_TERMINAL_VARIABLE, nonsense[i], 1);
        sl_terminal_find(&t);
        assert_int_equal(t.columns, 0);
    }
    unsetenv(SL_TERMINAL_VARIABLE);
    sl_terminal_find(&t);
    assert_int_equal(t.columns, 0);
    setenv(SL_TERMINAL_VARIABLE, "77,0,/nowhere", 1);
    sl_terminal_find(&t);
    assert_true(t.columns == 77 && sl_terminal_columns(&t) == 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_offer_is_found_with_the_width_as_it_is),
        cmocka_unit_test(no_colour_and_dumb_terminals_are_respected),
        cmocka_unit_test(without_a_terminal_an_older_offer_is_withdrawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
