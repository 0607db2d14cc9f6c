# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Records a script's calls over Gloo for `slackline watch`. The process groups of torch.distributed report each call to the preloaded
probe (src/notice/probe/reported_calls.h). It writes the call into its ring and can hold the rank before it, as with MPI's calls.

The wrapped methods are those of ProcessGroup, because all Python functions of torch.distributed end there. A function that waits
itself (send, all_reduce without async_op, ...) is reported as one blocking call. Any other call is reported when it is posted and
again when the program waits for its Work. The wrappers are functions of the probe (src/notice/probe/reported_python.h), which calls
begin() here for what is not simple. The calls of DistributedDataParallel are made in C++ and pass through a forwarding group.
Functional collectives (DTensor, torch.compile) are made by C++ from the dispatcher and pass through forwarding kernels.
Calls that cannot be recorded are noted for the watch's report (unseen).
No call changes: arguments, results and exceptions are the program's.
"""
import ctypes
import functools
import inspect
import os
import sys
import threading
import types
import weakref

VERSION = 2  # of reported_calls.h
NONE, ANY_SOURCE = -1, -2
TOKEN = os.urandom(8).hex()  # containers that share a folder may have equal process ids

# method of ProcessGroup: name of the call, position of the argument that gives its bytes, whether it has a root
METHODS = {
    "allreduce": ("Allreduce", 0, False), "allreduce_coalesced": ("Allreduce", 0, False),
    "broadcast": ("Broadcast", 0, True), "reduce": ("Reduce", 0, True),
    "allgather": ("Allgather", 1, False), "allgather_coalesced": ("Allgather", 1, False),
    "_allgather_base": ("Allgather", 1, False), "all_gather_single": ("Allgather", 1, False),
    "allgather_into_tensor_coalesced": ("Allgather", 1, False), "all_gather_single_coalesced": ("Allgather", 1, False),
    "gather": ("Gather", 1, True), "scatter": ("Scatter", 0, True),
    "reduce_scatter": ("ReduceScatter", 1, False), "_reduce_scatter_base": ("ReduceScatter", 1, False),
    "reduce_scatter_single": ("ReduceScatter", 1, False), "reduce_scatter_tensor_coalesced": ("ReduceScatter", 1, False),
    "reduce_scatter_single_coalesced": ("ReduceScatter", 1, False),
    "alltoall": ("Alltoall", 1, False), "alltoall_base": ("Alltoall", 1, False), "all_to_all_single": ("Alltoall", 1, False),
    "barrier": ("Barrier", None, False), "monitored_barrier": ("Barrier", None, False),
    "send": ("Send", 0, False), "recv": ("Recv", 0, False), "recv_anysource": ("Recv", 0, False),
}

# operator of torch.ops._c10d_functional: name of the call, positions of the arguments for its group, root or peer, and tag
OPERATORS = {
    **{name: ("Allreduce", 2, None, None) for name in ("all_reduce", "all_reduce_", "all_reduce_coalesced", "all_reduce_coalesced_")},
    **{name: ("Allgather", 2, None, None) for name in ("all_gather_into_tensor", "all_gather_into_tensor_out", "all_gather_into_tensor_coalesced")},
    **{name: ("ReduceScatter", 3, None, None) for name in ("reduce_scatter_tensor", "reduce_scatter_tensor_out", "reduce_scatter_tensor_coalesced")},
    "all_to_all_single": ("Alltoall", 3, None, None), "broadcast": ("Broadcast", 2, 1, None), "broadcast_": ("Broadcast", 2, 1, None),
    "isend": ("Send", 3, 1, 2), "irecv": ("Recv", 3, 1, 2),
}


class Probe:
    """The functions of reported_calls.h and reported_python.h. All keep the interpreter's lock; a held call gives it up."""

    def __init__(self):
        library = ctypes.PyDLL(None)
        number, pointer, thing = ctypes.c_int, ctypes.c_void_p, ctypes.py_object
        for name, result, arguments in (("version", number, ()), ("call", number, (ctypes.c_char_p,)), ("world", number, (number, number)),
                                        ("group", number, (ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32), number)),
                                        ("begin", number, (number, number, number, number, ctypes.c_uint64)), ("end", pointer, (number,)),
                                        ("wait", number, (pointer,)), ("waited", None, (pointer, number, number)), ("forget", None, (pointer,)),
                                        ("pauses", None, (pointer, pointer)), ("python_start", number, (thing,) * 6), ("python_stop", None, ()),
                                        ("python_method", thing, (thing, thing, number, number, ctypes.c_long)),
                                        ("python_wait", thing, (thing,)), ("python_run", thing, ()), ("python_inside", number, ())):
            function = getattr(library, "sl_reported_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        if self.version() != VERSION:
            raise RuntimeError(f"the probe's interface has version {self.version()}, this package knows {VERSION}")
        self.pauses(*(ctypes.cast(getattr(ctypes.pythonapi, name), pointer) for name in ("PyEval_SaveThread", "PyEval_RestoreThread")))


class Thread(threading.local):
    posted = None  # requests of this backward pass that C++ will wait for


class Group:
    """The properties of a process group: its number for the probe, its ranks in the world, the devices with a Gloo backend."""

    def __init__(self, number, ranks):
        self.number, self.ranks, self.gloo = number, ranks, {}
        self.forget = None  # the reference by whose end it leaves `by_id` and `simple`


class Request:
    """A posted call, which lives as long as its Work."""
    __slots__ = ("handle", "senders", "waited", "forget")

    def __init__(self, handle, senders):
        self.handle, self.senders = handle, senders  # ranks of the group, for a receive from any source
        self.waited = False

    def __del__(self):
        try:
            if not self.waited:
                unseen("when calls ended whose Work was never waited for (polled, waited for through a future, or left alone)")
            loaded.forget(self.handle)
        except Exception:  # the interpreter is shutting down
            pass


probe = loaded = None  # the same object; `probe` is None while calls are not reported
calls = {}
here = Thread()
groups = weakref.WeakKeyDictionary()  # ProcessGroup -> Group, or None: not reported
by_id = {}  # id of a living ProcessGroup that is reported -> Group: found faster
simple = {}  # the same -> its number, if its calls on the processor's tensors go over Gloo
alone = set()  # types of argument that are one tensor
requests = {}  # id of a living Work -> Request
methods = []  # of each wrapped method: class, name, wrapper, what it wraps
results = {}  # storage of a functional collective's result -> Request, until the program waits for it
kernels = []  # the library object that keeps them registered
noted = set()
known_world = None
c10d = None
ProcessGroup = None


def give_up(error):
    """Prints an internal error once. The program continues without reports."""
    global probe
    if probe is not None:
        probe.python_stop()
        probe = None
        print(f"slackline: calls over Gloo are no longer seen: {type(error).__name__}: {error}", file=sys.stderr)
        unseen(f"calls over Gloo after an internal error of slackline ({type(error).__name__}: {error})")


def unseen(what):
    """Notes calls of this process that cannot be recorded, for the report: once each, in a file next to the rings."""
    if what in noted:
        return
    noted.add(what)
    try:
        with open(os.path.join(os.environ["SLACKLINE_PROBE"], f"{os.getpid()}-{TOKEN}.unseen"), "a") as file:
            file.write(" ".join(what.split())[:200] + "\n")
    except (OSError, KeyError):  # the watch has ended
        pass


def world():
    """Whether this process's calls can be reported. Checked again when the default group changes."""
    global known_world
    default = c10d.GroupMember.WORLD
    if default is None:
        return False
    if known_world is None or known_world[0]() is not default:
        known_world = weakref.ref(default), bool(probe.world(default.rank(), default.size()))
    return known_world[1]


def enter(group):
    """Registers a group with the probe."""
    ranks = c10d._world.pg_group_ranks.get(group)
    if ranks is None or not world():
        return None
    ranks = [rank for rank, _ in sorted(ranks.items(), key=lambda item: item[1])]
    number = probe.group(str(c10d._world.pg_names.get(group, "")).encode(), (ctypes.c_int32 * len(ranks))(*ranks), len(ranks))
    found = Group(number, ranks) if number >= 0 else None
    if type(group) is not ProcessGroup:
        unseen(f"calls of a ProcessGroup of the program's own ({type(group).__name__})")
    groups[group] = found
    if found is not None:
        by_id[id(group)] = found
        found.forget = weakref.ref(group, lambda _, key=id(group): (by_id.pop(key, None), simple.pop(key, None)))
    return found


def enter_all():
    if probe is not None and ProcessGroup is not None:
        try:
            for group in list(c10d._world.pg_group_ranks):
                if isinstance(group, ProcessGroup) and group not in groups:  # groups of other processes are numbers
                    enter(group)
        except Exception as error:
            give_up(error)


def over_gloo(group, known, device):
    """Whether the group's calls on tensors of `device` (None: the processor) go over Gloo. Calls over MPI and NCCL are recorded there."""
    found = known.gloo.get(device)
    if found is None:
        try:
            import torch  # already imported: the program called it
            backend = group._get_backend(device or torch.device("cpu")).name().lower()
            found = "gloo" in backend
            if not found and backend not in ("nccl", "mpi"):
                unseen(f"calls over the backend {backend}")
        except RuntimeError:  # no backend for this device: the call itself will fail
            found = False
        known.gloo[device] = found
    return found


def tensors_of(argument, found):
    if hasattr(argument, "element_size"):
        found.append(argument)
    elif isinstance(argument, (list, tuple)):
        for one in argument:
            tensors_of(one, found)
    return found


def root_of(arguments, options):
    for given in (*arguments[1:], *options.values()):
        if isinstance(given, int):
            return given
        root = getattr(given, "rootRank", None)
        if root is not None:
            return root
    return NONE


def known_group(group):
    known = by_id.get(id(group))
    return known if known is not None or group in groups else enter(group)


def begin(method, arguments, options, is_blocking):
    """Reports the begin of a call of a group, the first of `arguments`. 1: end() must follow; 0: the call is not reported. Never raises."""
    try:
        group, *arguments = arguments
        options = options or {}
        known = known_group(group)
        if known is None:
            return 0
        name, at, rooted = METHODS[method]
        given = () if at is None else arguments[at] if at < len(arguments) else list(options.values())
        tensors = tensors_of(given, [])
        size = sum(tensor.nbytes for tensor in tensors)
        if not over_gloo(group, known, tensors[0].device if tensors else None):
            return 0
        one = given[0] if type(given) is list and len(given) == 1 else given
        if len(tensors) == 1 and tensors[0] is one and one.is_cpu:
            alone.add(type(one))
            simple[id(group)] = known.number
        peer = tag = NONE
        if method in ("send", "recv"):
            peer = known.ranks[arguments[1]]
            tag = arguments[2] if len(arguments) > 2 else options.get("tag", 0)
        elif method == "recv_anysource":
            peer, tag = ANY_SOURCE, arguments[1] if len(arguments) > 1 else options.get("tag", 0)
        elif rooted:
            root = root_of(arguments, options)
            peer = known.ranks[root] if 0 <= root < len(known.ranks) else NONE
        return probe.begin(calls[name][not is_blocking], known.number, peer, tag, size)
    except Exception as error:
        give_up(error)
        return 0


def posted(method, arguments, work, handle):
    """The call has returned `work`, which is not yet complete."""
    request = Request(handle, None)
    try:
        if method == "recv_anysource":
            request.senders = by_id[id(arguments[0])].ranks
        requests[id(work)] = request
        request.forget = weakref.ref(work, lambda _, key=id(work): requests.pop(key, None))
    except Exception as error:
        requests.pop(id(work), None)
        give_up(error)
    return 0


def waited(request, work):
    """The program has waited for `work`; returns the rank that sent it, if received from any source."""
    request.waited = True
    try:
        return NONE if request.senders is None else request.senders[work._source_rank()]
    except Exception:
        return NONE


def replace(kind, wraps):
    """Wraps methods of a C++ class: {name: wrap(name, method)}. A subclass in Python keeps the C++ methods that it does not
    override: C++ looks for an override in Python, and would mistake the wrapper, which calls C++, for one."""
    bound = ctypes.pythonapi.PyInstanceMethod_New  # a method's place in a class of C++
    bound.restype, bound.argtypes = ctypes.py_object, (ctypes.py_object,)
    replaced = {}
    for method, wrap in wraps.items():
        if method in vars(kind):
            real = getattr(kind, method)
            replaced[method] = wrap(method, real), vars(kind)[method]
            methods.append((kind, method, bound(replaced[method][0]), vars(kind)[method]))
            setattr(kind, method, methods[-1][2])

    def keep(cls, **options):
        super(kind, cls).__init_subclass__(**options)
        for method, (seen, real) in replaced.items():
            if getattr(cls, method) is seen:
                setattr(cls, method, real)
    kind.__init_subclass__ = classmethod(keep)


def reports(method, real):
    """Wraps a method of ProcessGroup."""
    name, at, rooted = METHODS[method]
    asks = rooted or name in ("Send", "Recv")
    return probe.python_method(real, method, *calls[name], -2 if asks else -1 if at is None else at)


def end(ok):
    if loaded is not None:
        loaded.end(ok)


def blocking(function, position):
    """Wraps a function that waits itself unless its argument `async_op`, at `position`, is true; position -1: it always waits. The
    wrapper is a function of Python because torch.compile looks for one."""
    run = probe.python_run()

    @functools.wraps(function)
    def seen(*arguments, **options):
        return run(function, position, arguments, options)
    return seen


def waits(method, real):
    return probe.python_wait(real)


# ---- waits in C++ ----------------------------------------------------------------------------------------------------------


def settle_after_backward(work):
    """In a backward pass: C++ waits for `work` at the end of the pass (DDP). Waits for it here just before, so that the wait is
    recorded. The next waiter gets any error."""
    import torch
    if probe is None or work is None or torch._C._current_graph_task_id() == -1:
        return
    task = torch._C._current_graph_task_id()
    if here.posted is not None and here.posted[0] == task:
        here.posted[1].append(work)
        return
    posted = here.posted = (task, [work])

    def settle():
        here.posted = None
        for one in posted[1]:
            try:
                one.wait()
            except Exception:
                pass
    try:
        torch.autograd.Variable._execution_engine.queue_callback(settle)
    except RuntimeError:
        here.posted = None


def futures(method, real):
    """Wraps `get_future`: a communication hook of DDP gives a call's future to C++."""
    @functools.wraps(real)
    def get_future(self, *arguments, **options):
        future = real(self, *arguments, **options)
        if probe is not None and id(self) in requests:
            settle_after_backward(self)
        return future
    return get_future


@functools.lru_cache(maxsize=None)
def passing_on():
    """A process group for DDP's C++. Its sums go through the wrapped method of the real group; everything else goes directly to
    that group's backend."""
    import torch

    class Passing(ProcessGroup):
        def __init__(self, group):
            super().__init__(group.rank(), group.size())
            self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, group._get_backend(torch.device("cpu")))
            self._set_default_backend(ProcessGroup.BackendType.GLOO)
            self._set_group_name(group.group_name)
            self.real = group

        def allreduce(self, tensors, options):
            work = self.real.allreduce(tensors, options)
            settle_after_backward(work)
            return work

    return Passing


def see_ddp(distributed):
    if probe is None or not hasattr(distributed, "Reducer"):
        return
    real_reducer = distributed.Reducer

    class Reducer(real_reducer):
        def __init__(self, *arguments, **options):
            arguments = list(arguments)
            try:
                at = next(i for i, one in enumerate(arguments) if isinstance(one, ProcessGroup))
                known = known_group(arguments[at])
                if type(arguments[at]) is ProcessGroup and known is not None and over_gloo(arguments[at], known, None):
                    arguments[at] = self.slackline_group = passing_on()(arguments[at])
            except StopIteration:
                pass
            except Exception as error:
                give_up(error)
            super().__init__(*arguments, **options)
    Reducer.__name__, Reducer.__qualname__, Reducer.__module__ = "Reducer", "Reducer", real_reducer.__module__
    distributed.Reducer = Reducer

    real_broadcast = distributed._broadcast_coalesced

    @functools.wraps(real_broadcast)
    def broadcast(group, tensors, buffer_size, src=0):
        tensors = list(tensors)
        if probe is None or probe.python_inside() or not begin("broadcast", (group, tensors, src), None, True):
            return real_broadcast(group, tensors, buffer_size, src)
        ok = 0
        try:
            result = real_broadcast(group, tensors, buffer_size, src)
            ok = 1
            return result
        finally:
            end(ok)
    distributed._broadcast_coalesced = broadcast


# ---- calls of the dispatcher ------------------------------------------------------------------------------------------------


def storage(tensor):
    return tensor.untyped_storage()._cdata


def begin_operator(name, arguments):
    """Reports the begin of an operator's call; returns the same as begin()."""
    try:
        call, at, peer_at, tag_at = OPERATORS[name]
        group = arguments[at]
        group = c10d._resolve_process_group(group) if isinstance(group, str) else group
        known = known_group(group)
        if known is None:
            return 0
        tensors = tensors_of(arguments[0], [])
        if not over_gloo(group, known, tensors[0].device if tensors else None):
            return 0
        peer = NONE if peer_at is None else arguments[peer_at]
        return probe.begin(calls[call][1], known.number, known.ranks[peer] if 0 <= peer < len(known.ranks) else NONE,
                           NONE if tag_at is None else arguments[tag_at], sum(tensor.nbytes for tensor in tensors))
    except Exception as error:
        give_up(error)
        return 0


def post_operator(result):
    """Reports that the operator has returned tensors; the program waits for them with wait_tensor."""
    handle = loaded.end(1)
    if handle is None:
        return
    try:
        request = Request(handle, None)
        for tensor in tensors_of(result, []):
            results[storage(tensor)] = request
    except Exception as error:
        give_up(error)


def operator(name, real, below):
    """Wraps an operator. `real` releases the interpreter's lock while it runs, and continues to the kernel below this one."""
    def seen(*arguments, **options):
        if probe is None or probe.python_inside() or options or not begin_operator(name, arguments):
            return real.redispatch(below, *arguments, **options)
        ended = False
        try:
            result = real.redispatch(below, *arguments)
            ended = True
            post_operator(result)
            return result
        finally:
            if not ended:
                end(0)
    return seen


def waits_for_result(real, below):
    def seen(tensor):
        request = results.pop(storage(tensor), None) if probe is not None and results and not probe.python_inside() else None
        if request is None or not loaded.wait(request.handle):
            return real.redispatch(below, tensor)
        done = 0
        try:
            result = real.redispatch(below, tensor)
            done, request.waited = 1, True
            return result
        finally:
            loaded.waited(request.handle, done, NONE)
    return seen


def notes_only(name, real, below):
    """Wraps an operator that makes many calls in one, which Gloo may refuse: only notes it."""
    def seen(*arguments, **options):
        unseen(f"calls of torch.ops._c10d_functional.{name}")
        return real.redispatch(below, *arguments, **options)
    return seen


def see_operators():
    """Registers kernels for CPU tensors in front of PyTorch's own kernels for all devices. Called once, when the first group exists
    and so PyTorch is fully imported. Tracing and compiling run no kernels, so they are not affected."""
    if probe is None or kernels:
        return
    try:
        import torch
        below = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
        library = torch.library.Library("_c10d_functional", "IMPL")
        kernels.append(library)
        for name in (*OPERATORS, "wait_tensor", "batch_p2p_ops"):
            packet = getattr(torch.ops._c10d_functional, name, None)
            if packet is not None:  # missing in other versions
                real = packet.default
                kernel = (operator(name, real, below) if name in OPERATORS else waits_for_result(real, below) if name == "wait_tensor"
                          else notes_only(name, real, below))
                library.impl(name, kernel, "CPU")
    except Exception as error:
        kernels[:] = [None]
        unseen(f"functional collectives ({type(error).__name__}: {error})")


# ---- setup -----------------------------------------------------------------------------------------------------------------


def after(function, work):
    @functools.wraps(function)
    def seen(*arguments, **options):
        result = function(*arguments, **options)
        work()
        return result
    return seen


def see_group():
    enter_all()
    see_operators()


def see_calls(module):
    """Called right after the import of torch.distributed.distributed_c10d, as part of torch, before other modules import its functions."""
    global probe, loaded, c10d, ProcessGroup
    c10d = module
    try:
        loaded = Probe()
    except AttributeError:  # the probe is not in this process: not preloaded, or removed from LD_PRELOAD
        return
    if not hasattr(module, "ProcessGroup"):  # this PyTorch was built without distributed
        return
    for name in {name for name, _, _ in METHODS.values()}:
        calls[name] = tuple(loaded.call(b"gloo" + word.encode()) for word in (name, "I" + name[0].lower() + name[1:]))
        if 0 in calls[name]:
            raise RuntimeError(f"the probe knows no gloo{name}")
    if not loaded.python_start(simple, alone, requests, begin, posted, waited):
        raise RuntimeError("the interpreter's functions are not found in its process")
    probe, ProcessGroup = loaded, module.ProcessGroup
    replace(ProcessGroup, {method: reports for method in METHODS})
    replace(module.Work, {"wait": waits, "get_future": futures})
    for name, function in list(vars(module).items()):
        if type(function) is types.FunctionType and function.__module__ == module.__name__ and not name.startswith("_"):
            words = list(inspect.signature(function).parameters)
            if "async_op" in words:
                setattr(module, name, blocking(function, words.index("async_op")))
    for name in ("send", "recv", "monitored_barrier"):
        setattr(module, name, blocking(getattr(module, name), -1))
    for name in ("init_process_group", "_new_group_with_tag", "split_group"):
        if hasattr(module, name):
            setattr(module, name, after(getattr(module, name), see_group))

