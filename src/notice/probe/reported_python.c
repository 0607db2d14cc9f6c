#include "notice/probe/reported_python.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#include "notice/probe/probe.h"
#include "notice/probe/reported_calls.h"

#define EXPORTED __attribute__((visibility("default")))

typedef sl_python_object object;

/* Of Python's stable interface: name and prototype as in its headers. */
#define FUNCTIONS(X)                                                                                         \
    X(object *, PyObject_Call, (object *, object *, object *))                                               \
    X(object *, PyObject_CallFunctionObjArgs, (object *, ...))                                               \
    X(object *, PyObject_GetAttr, (object *, object *))                                                      \
    X(int, PyObject_IsTrue, (object *))                                                                      \
    X(object *, PyObject_Type, (object *))                                                                   \
    X(ssize_t, PyTuple_Size, (object *))                                                                     \
    X(object *, PyTuple_GetItem, (object *, ssize_t))                                                        \
    X(ssize_t, PyList_Size, (object *))                                                                      \
    X(object *, PyList_GetItem, (object *, ssize_t))                                                         \
    X(object *, PyDict_GetItem, (object *, object *))                                                        \
    X(int, PySet_Contains, (object *, object *))                                                             \
    X(object *, PyLong_FromVoidPtr, (void *))                                                                \
    X(object *, PyBool_FromLong, (long))                                                                     \
    X(void *, PyLong_AsVoidPtr, (object *))                                                                  \
    X(long, PyLong_AsLong, (object *))                                                                       \
    X(unsigned long long, PyLong_AsUnsignedLongLong, (object *))                                             \
    X(object *, PyUnicode_InternFromString, (const char *))                                                  \
    X(object *, PyCapsule_New, (void *, const char *, void (*)(object *)))                                   \
    X(void *, PyCapsule_GetPointer, (object *, const char *))                                                \
    X(object *, PyCFunction_NewEx, (void *, object *, object *))                                             \
    X(object *, PyErr_Occurred, (void))                                                                      \
    X(void, PyErr_Clear, (void))                                                                             \
    X(void, Py_IncRef, (object *))                                                                           \
    X(void, Py_DecRef, (object *))

/* PyMethodDef, and its flags. */
typedef struct definition {
    const char *name;
    void *function;
    int flags;
    const char *words;
} definition;

enum { VARARGS = 0x1, KEYWORDS = 0x2, FAST = 0x80 };

/* The process; set once, with the interpreter's lock, as everything here is read. */
static struct {
#define MEMBER(type, name, params) type(*name) params;
    FUNCTIONS(MEMBER)
    object *none, *list;               /* None, and the type of lists */
    object *is_cpu, *nbytes;           /* names of attributes */
    object *handle, *async_op;         /* the same */
    object *groups, *alone, *requests; /* the header has their content */
    object *begin, *posted, *waited;
    int active;
} python;

/* A function of the program: it waits itself for its call, and has begun it. */
static __thread struct { int blocking, begun; } inside __attribute__((tls_model("initial-exec")));

typedef struct wrapper {
    definition definition;
    object *real, *name;
    int blocking, posted;
    long at;
} wrapper;

static int find_python(void) {
#define FIND(type, symbol, params)                                                                           \
    if (!(*(void **)(void *)&python.symbol = dlsym(RTLD_DEFAULT, #symbol)))                                  \
        return 0;
    FUNCTIONS(FIND)
    python.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    python.list = dlsym(RTLD_DEFAULT, "PyList_Type");
    python.is_cpu = python.PyUnicode_InternFromString("is_cpu");
    python.nbytes = python.PyUnicode_InternFromString("nbytes");
    python.handle = python.PyUnicode_InternFromString("handle");
    python.async_op = python.PyUnicode_InternFromString("async_op");
    return python.none && python.list && python.is_cpu && python.nbytes && python.handle && python.async_op;
}

EXPORTED int sl_reported_python_start(object *groups, object *alone, object *requests, object *begin,
                                      object *posted, object *waited) {
    if (!find_python())
        return 0;
    object *const kept[] = {groups, alone, requests, begin, posted, waited};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        python.Py_IncRef(kept[i]);
    python.groups = groups;
    python.alone = alone;
    python.requests = requests;
    python.begin = begin;
    python.posted = posted;
    python.waited = waited;
    python.active = 1;
    return 1;
}

EXPORTED void sl_reported_python_stop(void) {
    python.active = 0;
}

EXPORTED int sl_reported_python_inside(void) {
    return inside.blocking;
}

/* What Python's own functions answered: the number, or `otherwise` after an error, of which the program must
 * not hear. Takes `answer`. */
static long number_of(object *answer, long otherwise) {
    long number = answer ? python.PyLong_AsLong(answer) : -1;
    if (answer)
        python.Py_DecRef(answer);
    if (number != -1 || !python.PyErr_Occurred())
        return answer ? number : otherwise;
    python.PyErr_Clear();
    return otherwise;
}

/* dictionary[id(key)], borrowed; NULL: it has none. */
static object *by_id(object *dictionary, object *key) {
    object *id = python.PyLong_FromVoidPtr(key);
    if (!id) {
        python.PyErr_Clear();
        return NULL;
    }
    object *found = python.PyDict_GetItem(dictionary, id);
    python.Py_DecRef(id);
    return found;
}

static int is_of_type(object *one, object *type) {
    object *its = python.PyObject_Type(one);
    python.Py_DecRef(its);
    return its == type;
}

/* The one tensor that `given` is or holds, borrowed; NULL: Python must look. */
static object *one_tensor(object *given) {
    if (is_of_type(given, python.list)) {
        if (python.PyList_Size(given) != 1)
            return NULL;
        given = python.PyList_GetItem(given, 0);
    }
    object *type = python.PyObject_Type(given);
    int known = python.PySet_Contains(python.alone, type);
    python.Py_DecRef(type);
    if (known < 0)
        python.PyErr_Clear();
    return known == 1 ? given : NULL;
}

/* The bytes of a tensor of the processor; 0: it is another one's, or is unknown. */
static int bytes_of(object *tensor, uint64_t *bytes) {
    object *here = python.PyObject_GetAttr(tensor, python.is_cpu);
    int ours = here ? python.PyObject_IsTrue(here) : -1;
    object *size = ours == 1 ? python.PyObject_GetAttr(tensor, python.nbytes) : NULL;
    if (size)
        *bytes = python.PyLong_AsUnsignedLongLong(size);
    if (here)
        python.Py_DecRef(here);
    if (size)
        python.Py_DecRef(size);
    if (ours == 0)
        return 0;
    if (!python.PyErr_Occurred())
        return 1;
    python.PyErr_Clear();
    return 0;
}

/* Begins a call of which nothing need be asked: of a known group, with at most one tensor, without a root or
 * peer. 1: begun, 0: not recorded, -1: it is not such a call. */
static int begin_simple(const wrapper *method, object *arguments, int call) {
    uint64_t bytes = 0;
    if (method->at < -1 || python.PyTuple_Size(arguments) <= method->at + 1)
        return -1;
    object *number = by_id(python.groups, python.PyTuple_GetItem(arguments, 0));
    if (!number)
        return -1;
    if (method->at >= 0) {
        object *tensor = one_tensor(python.PyTuple_GetItem(arguments, method->at + 1));
        if (!tensor || !bytes_of(tensor, &bytes))
            return -1;
    }
    return sl_reported_begin(call, (int)python.PyLong_AsLong(number), SL_PEER_NONE, SL_TAG_NONE, bytes);
}

static int begin(const wrapper *method, object *arguments, object *options) {
    int begun = begin_simple(method, arguments, inside.blocking ? method->blocking : method->posted);
    if (begun >= 0)
        return begun;
    object *waits = python.PyBool_FromLong(inside.blocking);
    object *answer = python.PyObject_CallFunctionObjArgs(python.begin, method->name, arguments,
                                                         options ? options : python.none, waits, NULL);
    python.Py_DecRef(waits);
    return (int)number_of(answer, 0);
}

/* The call has returned `work`, which is not complete yet. */
static void keep_request(const wrapper *method, object *arguments, object *work) {
    void *request = sl_reported_end(1);
    if (!request)
        return;
    object *handle = work != python.none ? python.PyLong_FromVoidPtr(request) : NULL;
    if (!handle) {
        sl_reported_forget(request);
        return;
    }
    number_of(python.PyObject_CallFunctionObjArgs(python.posted, method->name, arguments, work, handle, NULL),
              0);
    python.Py_DecRef(handle);
}

static object *call_method(object *capsule, object *arguments, object *options) {
    const wrapper *method = python.PyCapsule_GetPointer(capsule, NULL);
    if (!python.active || sl_probe_self.entered || !begin(method, arguments, options))
        return python.PyObject_Call(method->real, arguments, options);
    object *work = python.PyObject_Call(method->real, arguments, options);
    if (!work)
        sl_reported_end(0);
    else if (inside.blocking)
        inside.begun = 1; /* run() ends it */
    else
        keep_request(method, arguments, work);
    return work;
}

static object *call_wait(object *capsule, object *arguments, object *options) {
    const wrapper *method = python.PyCapsule_GetPointer(capsule, NULL);
    object *request = NULL;
    void *handle = NULL;
    if (python.active && !sl_probe_self.entered && python.PyTuple_Size(arguments) > 0)
        request = by_id(python.requests, python.PyTuple_GetItem(arguments, 0));
    if (request) {
        object *number = python.PyObject_GetAttr(request, python.handle);
        handle = number ? python.PyLong_AsVoidPtr(number) : NULL;
        if (number)
            python.Py_DecRef(number);
        if (python.PyErr_Occurred())
            python.PyErr_Clear();
    }
    if (!handle || !sl_reported_wait(handle))
        return python.PyObject_Call(method->real, arguments, options);
    python.Py_IncRef(request); /* it must outlive the wait */
    object *result = python.PyObject_Call(method->real, arguments, options);
    long peer = -1;
    if (result)
        peer = number_of(python.PyObject_CallFunctionObjArgs(python.waited, request,
                                                             python.PyTuple_GetItem(arguments, 0), NULL),
                         -1);
    sl_reported_waited(handle, result != NULL, (int)peer);
    python.Py_DecRef(request);
    return result;
}

static int is_later(long position, object *arguments, object *options) {
    object *given = NULL;
    if (position >= 0)
        given = python.PyTuple_Size(arguments) > position ? python.PyTuple_GetItem(arguments, position)
                                                          : python.PyDict_GetItem(options, python.async_op);
    int later = given ? python.PyObject_IsTrue(given) : 0;
    if (later < 0)
        python.PyErr_Clear();
    return later != 0;
}

static object *call_run(object *none, object *const *given, ssize_t count) {
    (void)none;
    (void)count; /* gloo.py is the only caller */
    object *function = given[0], *arguments = given[2], *options = given[3];
    if (!python.active || inside.blocking || sl_probe_self.entered ||
        is_later(python.PyLong_AsLong(given[1]), arguments, options))
        return python.PyObject_Call(function, arguments, options);
    inside.blocking = 1;
    object *result = python.PyObject_Call(function, arguments, options);
    inside.blocking = 0;
    if (inside.begun) {
        inside.begun = 0;
        sl_reported_end(result != NULL);
    }
    return result;
}

/* A function of Python; what it needs lives as long as the process. */
static object *function_of(const wrapper *content, void *function, int flags, const char *name) {
    wrapper *made = malloc(sizeof *made);
    object *capsule = made ? python.PyCapsule_New(made, NULL, NULL) : NULL;
    if (!capsule) {
        free(made);
        return NULL;
    }
    *made = *content;
    made->definition = (definition){.name = name, .function = function, .flags = flags};
    if (made->real)
        python.Py_IncRef(made->real);
    if (made->name)
        python.Py_IncRef(made->name);
    object *result = python.PyCFunction_NewEx(&made->definition, capsule, NULL);
    python.Py_DecRef(capsule);
    return result;
}

EXPORTED object *sl_reported_python_method(object *real, object *name, int blocking, int posted, long at) {
    wrapper content = {.real = real, .name = name, .blocking = blocking, .posted = posted, .at = at};
    return function_of(&content, (void *)(uintptr_t)call_method, VARARGS | KEYWORDS, "method");
}

EXPORTED object *sl_reported_python_wait(object *real) {
    wrapper content = {.real = real};
    return function_of(&content, (void *)(uintptr_t)call_wait, VARARGS | KEYWORDS, "wait");
}

EXPORTED object *sl_reported_python_run(void) {
    wrapper content = {.real = NULL};
    return function_of(&content, (void *)(uintptr_t)call_run, FAST, "run");
}
