/* Wrappers of a Python program's functions that report their calls (reported_calls.h), without the frames of
 * Python that would cost more than a small call itself. They use Python's C interface of any version, found
 * by name in the process, as MPI is: there is no header, and objects are only pointers here.
 *
 * A call is seen twice: where it is made (a method of a process group, sl_reported_python_method) and, if
 * another function waits for it, in that function (`run`, sl_reported_python_run), which makes it one
 * blocking call. What is not simple (roots, peers, several tensors, new groups) is asked of Python's begin().
 * All functions are called with the interpreter's lock; a thread that is held gives it up. */
#pragma once

/* An object of Python; every pointer here is one. */
typedef struct sl_python_object sl_python_object;

/** Once: what the wrappers share with Python. `groups`: {id(group): number} of groups whose calls on the
 * processor's tensors go over Gloo; `alone`: set of types of argument that are one tensor; `requests`:
 * {id(Work): request with `handle`}. begin(method, arguments, options or None, blocking): what
 * sl_reported_begin returned, or 0; posted(method, arguments, work, handle); waited(request, work): the rank
 * that sent it, or -1. 1: wrappers can be made; 0: this is no Python. */
int sl_reported_python_start(sl_python_object *groups, sl_python_object *alone, sl_python_object *requests,
                             sl_python_object *begin, sl_python_object *posted, sl_python_object *waited);

/** From now on all wrappers only call what they wrap. */
void sl_reported_python_stop(void);

/** A wrapper of the method `real`; `name` is given to begin(). `blocking`, `posted`: numbers of the call.
 * `at`: position of the argument with the tensor, after self; -1: it has none; -2: begin() is always asked.
 * NULL: with Python's error set. */
sl_python_object *sl_reported_python_method(sl_python_object *real, sl_python_object *name, int blocking,
                                            int posted, long at);

/** A wrapper of Work.wait. */
sl_python_object *sl_reported_python_wait(sl_python_object *real);

/** run(function, position, arguments, options) calls a function that waits itself for the call that it makes,
 * unless its argument `async_op`, at `position`, is true; position -1: it has none. */
sl_python_object *sl_reported_python_run(void);

/** Whether this thread is in such a function. */
int sl_reported_python_inside(void);
