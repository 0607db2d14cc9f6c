# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Records a script's calls over Gloo for `slackline watch`. The process groups of torch.distributed report each call to the preloaded
probe (src/notice/probe/reported_calls.h). It writes the call into its ring and can hold the rank before it, as with MPI's calls.

The wrapped methods are those of ProcessGroup, because all Python functions of torch.distributed end there. A function that waits
itself (send, all_reduce without async_op, ...) is reported as one blocking call. Any other call is reported when it is posted and
again when the program waits for its Work. The calls of DistributedDataParallel are made in C++ and pass through a forwarding group.
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

VERSION = 1  # of reported_calls.h
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
    """The functions of reported_calls.h. ctypes releases the interpreter's lock in each, so a held call stops only its own thread."""

    def __init__(self):
        library = ctypes.CDLL(None)
        number, pointer = ctypes.c_int, ctypes.c_void_p
        for name, result, arguments in (("version", number, ()), ("call", number, (ctypes.c_char_p,)), ("world", number, (number, number)),
                                        ("group", number, (ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32), number)),
                                        ("begin", number, (number, number, number, number, ctypes.c_uint64)), ("end", pointer, (number,)),
                                        ("wait", number, (pointer,)), ("waited", None, (pointer, number, number)), ("forget", None, (pointer,))):
            function = getattr(library, "sl_reported_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        if self.version() != VERSION:
            raise RuntimeError(f"the probe's interface has version {self.version()}, this package knows {VERSION}")


class State:
    __slots__ = ("blocking", "begun", "posted")

    def __init__(self):
        self.blocking = False  # inside a function that waits for its own call
        self.begun = False  # that function has begun its call
        self.posted = None  # requests of this backward pass that C++ will wait for


class Thread(threading.local):
    def __init__(self):
        self.state = State()  # its attributes are found faster than those of a thread's own object


class Group:
    """The properties of a process group: its number for the probe, its ranks in the world, the devices with a Gloo backend."""

    def __init__(self, number, ranks):
        self.number, self.ranks, self.gloo = number, ranks, {}
        self.forget = None  # the reference by whose end it leaves `by_id`


class Request:
    """A posted call, which lives as long as its Work."""

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
alone = set()  # types of argument that are one tensor
requests = weakref.WeakKeyDictionary()  # Work -> Request
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
        found.forget = weakref.ref(group, lambda _, key=id(group): by_id.pop(key, None))
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


def begin(group, method, arguments, options, is_blocking):
    """Reports the begin of a call. 1: end() must follow; 0: the call is not reported. Never raises."""
    try:
        known = by_id.get(id(group)) or known_group(group)
        if known is None:
            return 0
        name, at, rooted = METHODS[method]
        given = () if at is None else arguments[at] if at < len(arguments) else list(options.values())
        one = given[0] if type(given) is list and len(given) == 1 else None
        if type(one) in alone and one.is_cpu and known.gloo.get("cpu"):
            size = one.nbytes
        else:
            tensors = tensors_of(given, [])
            size = sum(tensor.nbytes for tensor in tensors)
            device = tensors[0].device if tensors else None
            if not over_gloo(group, known, device):
                return 0
            if len(tensors) == 1 and tensors[0] is one and one.is_cpu:
                alone.add(type(one))
                known.gloo["cpu"] = True
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


def post(group, work, method):
    """Reports that the call has returned `work`, which is not yet complete."""
    handle = loaded.end(1)
    if handle is None:
        return
    if work is None:
        loaded.forget(handle)
        return
    try:
        known = by_id[id(group)]
        requests[work] = Request(handle, known.ranks if method == "recv_anysource" else None)
    except Exception as error:
        loaded.forget(handle)
        give_up(error)


def replace(kind, wraps):
    """Wraps methods of a C++ class: {name: wrap(name, method)}. A subclass in Python keeps the C++ methods that it does not
    override: C++ looks for an override in Python, and would mistake the wrapper, which calls C++, for one."""
    replaced = {}
    for method, wrap in wraps.items():
        if method in vars(kind):
            replaced[method] = wrap(method, getattr(kind, method)), vars(kind)[method]
            setattr(kind, method, replaced[method][0])

    def keep(cls, **options):
        super(kind, cls).__init_subclass__(**options)
        for method, (seen, real) in replaced.items():
            if getattr(cls, method) is seen:
                setattr(cls, method, real)
    kind.__init_subclass__ = classmethod(keep)


def reports(method, real):
    @functools.wraps(real)
    def seen(self, *arguments, **options):
        me = here.state
        if probe is None or me.begun or not begin(self, method, arguments, options, me.blocking):
            return real(self, *arguments, **options)
        ended = False
        try:
            work = real(self, *arguments, **options)
            if me.blocking:
                me.begun = ended = True  # blocking() ends it
            else:
                ended = True
                post(self, work, method)
            return work
        finally:
            if not ended:
                end(0)
    return seen


def end(ok):
    if loaded is not None:
        loaded.end(ok)


def blocking(function, position):
    """Wraps a function that waits itself unless its argument `async_op`, at `position`, is true; position None: it always waits."""
    @functools.wraps(function)
    def seen(*arguments, **options):
        if position is None:
            later = False
        else:
            later = arguments[position] if len(arguments) > position else options.get("async_op", False)
        me = here.state
        if probe is None or me.begun or later or me.blocking:
            return function(*arguments, **options)
        me.blocking, ok = True, 0
        try:
            result = function(*arguments, **options)
            ok = 1
            return result
        finally:
            me.blocking = False
            if me.begun:
                me.begun = False
                end(ok)
    return seen


def waits(method, real):
    @functools.wraps(real)
    def wait(self, *arguments, **options):
        request = None if probe is None or here.state.begun else requests.get(self)
        if request is None or not loaded.wait(request.handle):
            return real(self, *arguments, **options)
        done, peer = 0, NONE
        try:
            result = real(self, *arguments, **options)
            done = 1
            request.waited = True
            return result
        finally:
            if done and request.senders:
                try:
                    peer = request.senders[self._source_rank()]
                except Exception:
                    pass
            loaded.waited(request.handle, done, peer)
    return wait


# ---- waits in C++ ----------------------------------------------------------------------------------------------------------


def settle_after_backward(work):
    """In a backward pass: C++ waits for `work` at the end of the pass (DDP). Waits for it here just before, so that the wait is
    recorded. The next waiter gets any error."""
    import torch
    if probe is None or work is None or torch._C._current_graph_task_id() == -1:
        return
    task = torch._C._current_graph_task_id()
    if here.state.posted is not None and here.state.posted[0] == task:
        here.state.posted[1].append(work)
        return
    posted = here.state.posted = (task, [work])

    def settle():
        here.state.posted = None
        for one in posted[1]:
            try:
                one.wait()
            except Exception:
                pass
    try:
        torch.autograd.Variable._execution_engine.queue_callback(settle)
    except RuntimeError:
        here.state.posted = None


def futures(method, real):
    """Wraps `get_future`: a communication hook of DDP gives a call's future to C++."""
    @functools.wraps(real)
    def get_future(self, *arguments, **options):
        future = real(self, *arguments, **options)
        if probe is not None and self in requests:
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
        if probe is None or here.state.begun or here.state.blocking:
            return real_broadcast(group, tensors, buffer_size, src)
        here.state.blocking, ok = True, 0
        reported = begin(group, "broadcast", (tensors, src), {}, True)
        here.state.begun = bool(reported)
        try:
            result = real_broadcast(group, tensors, buffer_size, src)
            ok = 1
            return result
        finally:
            here.state.blocking = here.state.begun = False
            if reported:
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
        if probe is None or here.state.begun or here.state.blocking or options or not begin_operator(name, arguments):
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
        request = results.pop(storage(tensor), None) if probe is not None and results and not here.state.begun else None
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
        posted = "I" + name[0].lower() + name[1:]
        calls[name] = loaded.call(b"gloo" + name.encode()), loaded.call(b"gloo" + posted.encode())
        if 0 in calls[name]:
            raise RuntimeError(f"the probe knows no gloo{name}")
    probe, ProcessGroup = loaded, module.ProcessGroup
    replace(ProcessGroup, {method: reports for method in METHODS})
    replace(module.Work, {"wait": waits, "get_future": futures})
    for name, function in list(vars(module).items()):
        if type(function) is types.FunctionType and function.__module__ == module.__name__ and not name.startswith("_"):
            words = list(inspect.signature(function).parameters)
            if "async_op" in words:
                setattr(module, name, blocking(function, words.index("async_op")))
    for name in ("send", "recv", "monitored_barrier"):
        setattr(module, name, blocking(getattr(module, name), None))
    for name in ("init_process_group", "_new_group_with_tag", "split_group"):
        if hasattr(module, name):
            setattr(module, name, after(getattr(module, name), see_group))

