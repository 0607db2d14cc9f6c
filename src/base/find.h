/* Finds all code that is loaded or started: OR-tools, slackline's own programs and its preloaded library,
 * programs in PATH. No other code searches for it.
 *
 * Locations: a path in an environment variable; the folder of the running program, or of slackline's library
 * in another program, and folders next to it; the active Python environment. The working directory is not one
 * of them: a file in it must not decide what a command started there runs. So a relative entry of PATH or a
 * relative VIRTUAL_ENV is skipped. A relative path in a variable of slackline's own is the user's choice; it
 * becomes absolute, so that a later change of folder has no effect.
 *
 * Trust: slackline's own parts and OR-tools are used only if no other user may replace them. The file and
 * every folder and link on the way to it must belong to root, to the user, or to the owner of the running
 * program, whose code runs already (on clusters that is often an account for software). None may be writable
 * by others, except folders with the sticky bit (/tmp), where others cannot replace files that are not
 * theirs. A group with write permission is rejected as well, unless it is the private group of the owner or
 * of the user: one of the same name without other members, as on Debian and Fedora, where a umask of 002
 * makes every folder
 * 775. A shared group of a project is rejected because each member could run code as any other; `chmod -R
 * g-w` fixes it. With access control lists the group's bits are their mask, so a list that lets others write
 * is rejected, too.
 *
 * In a user namespace (containers without privileges) ids from outside show as one number, and root is among
 * them: there it counts as root. Programs that are not slackline's (mpirun, redis-server, hooks) are the
 * system's or the user's: they come from PATH as a shell would take them, without the check of owners; a
 * redis-server that came along next to the program is checked. */
#pragma once

#include "base/status.h"
#include <limits.h>

/** The folder at `relative` to the running program's own: "" (that one), "/..", "/../lib" and the like.
 * SL_ENONE: the program's path is not in /proc. */
sl_status sl_find_folder(const char *relative, char folder[PATH_MAX]);

/** 1 if `path` is a regular file. */
int sl_find_is_file(const char *path);

/** SL_OK if only root, the user and the owner of the running program may replace the file `path` (absolute).
 * SL_ESYS names the offending part of the path and the reason. */
sl_status sl_find_trust(const char *path);

/** The absolute path that the environment variable names; path[0] is 0 if it is not set or empty. SL_ENONE:
 * the path is too long. */
sl_status sl_find_named(const char *variable, char path[PATH_MAX]);

/** The regular file `name` in the first of the `folders` that has it: as for sl_find_folder, and, if this
 * code is in a shared library, then relative to the library's folder. The list ends with NULL. SL_ENONE: it
 * is in none of them. SL_ESYS: it is not trusted. */
sl_status sl_find_near(const char *const *folders, const char *name, char path[PATH_MAX]);

typedef enum sl_find_entries {
    SL_FIND_ABSOLUTE, /* those that are absolute paths */
    SL_FIND_AS_SHELL  /* all of them: for the user's own command line, which a shell would run that way */
} sl_find_entries;

/** The program `name`: itself if it has a slash, else from the first of the `entries` of PATH in which it can
 * be run. Returns 1, or 0 with the reason in errno (ENOENT: not found). */
int sl_find_program(const char *name, sl_find_entries entries, char path[PATH_MAX]);
