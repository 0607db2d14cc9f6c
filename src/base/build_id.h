/* The id of a build: the version and a hash of all sources, "0.1.0+1a2b3c4d5e6f". Everything that is built
 * from the same sources has the same id: command, worker, delegate, solver, libraries, and probe. Programs
 * and files that exchange binary data compare it. It is in every one of them as text, after SL_BUILD_MARK, so
 * that `slackline doctor` reads the probe's without loading it.
 *
 * CMake writes the id when a source has changed (build_id.cmake), in an object of its own, which only
 * programs and shared libraries link; tests find it in a library. Needs libc alone. */
#pragma once

#define SL_BUILD_MARK "slackline-build "

extern const char sl_build_mark[]; /* SL_BUILD_MARK, followed by the id */

static inline const char *sl_build_id(void) {
    return sl_build_mark + sizeof SL_BUILD_MARK - 1;
}
