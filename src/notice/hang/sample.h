/* Where a thread of another process is, from one sample that the program does not notice: its state for the
 * kernel (/proc), the frames of its Python interpreter, or else its native frames.
 *
 * A thread that sleeps in a system call is only read. One that runs is stopped for some milliseconds by
 * eu-stack (elfutils), if that is installed and the thread is no interpreter's: otherwise a loop in C has no
 * frames. What cannot be read stays unknown. */
#pragma once

#include "notice/hang/job.h"

/** Fills state, doing and frames of the thread. `native`: eu-stack may be used; it takes up to 5 s. */
void sl_hang_sample(int pid, int tid, int native, sl_hang_thread *thread);

/** The Python frames of the thread, the innermost first, "function (file.py:12) < caller (file.py:30)", in
 * text[size]. 0: it runs no Python of a known version (3.11 to 3.13), or its memory cannot be read. */
int sl_hang_python_frames(int pid, int tid, char *text, size_t size);
