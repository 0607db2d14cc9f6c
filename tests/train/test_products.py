# labels: long
"""Every product of pipeline x data x tensor up to 8 ranks trains the same model. Pipeline sizes, schedules, transports and
zero change no bit; data and tensor sizes change sums only in their last digits: gradients of the first iteration within
1e-5 of their norm, losses of 20 iterations within 1e-5. Gradients come from `dump_gradients`."""
import array
import json
import math
import os
import subprocess

from runner import build, folder, source
from training import arguments, train

# heads, kv_heads and inner widths that four tensor ranks can share; a vocabulary of 256
RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md", "%s/src/base/*.c"], seed: 3}
batch: {microbatches: 8, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 20
schedule: 1f1b
adapt: false
dump_gradients: 1
"""
LLAMA = ["model.kind=llama", "model.kv_heads=2"]


class Trained:
    def __init__(self, result, out):
        self.bits = result.bits
        self.losses = [float(line["loss"]) for line in result.metrics]
        self.validation = float(result.summary["validation_loss"])
        self.layout = result.summary["layout"]
        self.memory = result.summary["memory_peak_bytes"]
        self.gradients = array.array("f")
        path = os.path.join(out, "gradients", "iteration-000000.f32")
        with open(path, "rb") as file:
            self.gradients.frombytes(file.read())
        with open(os.path.join(out, "gradients", "tensors.json")) as file:
            tensors = json.load(file)
        last = tensors[-1]
        assert last["offset"] // 4 + math.prod(last["shape"]) == len(self.gradients), "tensors.json and values differ"


class Layouts:
    def __init__(self, build, source, folder):
        self.build, self.folder, self.count = build, folder, 0
        self.file = os.path.join(folder, "run.yaml")
        with open(self.file, "w") as out:
            out.write(RUN % (source, source))

    def train(self, pipeline, data, tensor, *settings):
        self.count += 1
        out = os.path.join(self.folder, f"run{self.count}-{pipeline}-{data}-{tensor}")
        sizes = [f"parallel.{key}={value}" for key, value in
                 (("pipeline", pipeline), ("data", data), ("tensor", tensor))]
        return Trained(train(self.build, self.file, out, *sizes, *settings), out)


def distance(a, b):
    """Of two gradients, against their norm."""
    norm = math.sqrt(sum(x * x for x in b))
    assert norm > 0.01 and len(a) == len(b), f"norm {norm}, {len(a)} and {len(b)} values"
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b))) / norm


def close(name, a, b):
    worst = max(abs(x - y) for x, y in zip(a.losses + [a.validation], b.losses + [b.validation]))
    apart = distance(a.gradients, b.gradients)
    assert worst <= 1e-5 and apart <= 1e-5, f"{name}: losses {worst:.2e} apart, gradients {apart:.2e}"
    return f"losses {worst:.1e} and gradients {apart:.1e} apart"


def products(layouts, sizes, *settings):
    """One after the other; of equal data and tensor sizes all are the same bits."""
    first, of = None, {}
    for pipeline, data, tensor in sizes:
        one = layouts.train(pipeline, data, tensor, *settings)
        name = f"{pipeline} x {data} x {tensor}"
        assert one.layout == {"pipeline": pipeline, "data": data, "tensor": tensor, "zero": 0}, one.layout
        if first is None:
            first = one
            assert one.losses[-1] < one.losses[0] - 0.3, "nothing is learnt"
        same = of.setdefault((data, tensor), one)
        assert one.bits == same.bits, f"{name}: {one.bits} is not {same.bits}"
        assert one.gradients == same.gradients, f"{name}: gradients differ in their bits over pipeline sizes"
        print(f"{name}: {close(name, one, first)}", flush=True)
    return of


def given():
    layouts = Layouts(build, source, folder)
    of = products(layouts, [(p, d, t) for d in (1, 2) for t in (1, 2) for p in (1, 2, 4) if p * d * t <= 8] + [(1, 1, 4), (2, 1, 4)])
    yield layouts, of


def test_replicas_add_in_another_order(layouts, of):
    assert of[2, 1].bits != of[1, 1].bits, "one and two replicas add in another order: equal bits would be a wonder"


def test_zero_transport_placement_and_an_even_split_change_no_bit(layouts, of):
    two = of[2, 1]
    for name, sizes, settings in (
            ("zero", (2, 2, 1), ["parallel.zero=1"]),
            ("zero on one pipeline rank", (1, 2, 1), ["parallel.zero=1"]),
            ("delegated", (2, 2, 1), ["transport=delegated"]),
            ("zb-v on a wave", (2, 2, 1), ["schedule=zb-v"]),
            ("an explicit even split", (2, 2, 1), ["batch.split=[4, 4]"])):
        other = layouts.train(*sizes, *settings)
        assert other.bits == two.bits, f"{name}: {other.bits} is not {two.bits}"
        assert other.gradients == two.gradients, f"{name}: other gradients"
        if name == "zero on one pipeline rank":
            whole = layouts.train(1, 2, 1)
            parameters = len(other.gradients)
            saved = whole.memory - other.memory # half of the two moments
            assert abs(saved - 4 * parameters) <= 0.15 * 4 * parameters, f"{saved} bytes saved of {parameters} parameters"
        print(f"{name}: the same bits as two replicas", flush=True)
    zero = layouts.train(2, 2, 2, "parallel.zero=1")
    assert zero.bits == of[2, 2].bits, "zero with tensor ranks"
    alone = layouts.train(2, 1, 1, "parallel.zero=1")
    assert alone.bits == of[1, 1].bits, "zero with one replica"


def test_odd_sizes_and_splits_train_the_same_model(layouts, of):
    two = of[2, 1]
    odd = ["model.vocabulary=301"] # the last of two tensor ranks has a row more
    assert layouts.train(1, 1, 1, *odd).bits != of[1, 1].bits
    print(f"an odd vocabulary: {close('odd', layouts.train(2, 1, 2, *odd), layouts.train(1, 1, 1, *odd))}")
    three = layouts.train(1, 3, 1), layouts.train(2, 3, 1, "parallel.zero=1")
    assert three[0].bits == three[1].bits, "three replicas with and without zero"
    print(f"three replicas: {close('three', three[0], two)}")

    uneven = layouts.train(2, 2, 1, "batch.split=[5, 3]"), layouts.train(1, 2, 1, "batch.split=[5, 3]", "parallel.zero=1")
    assert uneven[0].bits == uneven[1].bits and uneven[0].bits != two.bits, "uneven split"
    print(f"split [5, 3]: {close('uneven', uneven[0], two)}")


def test_llama_trains_alike_in_every_product(layouts, of):
    products(layouts, [(1, 1, 1), (2, 1, 2), (2, 2, 2)], *LLAMA)


def test_what_cannot_be_divided_is_refused(layouts, of):
    for words, settings in {
            "'split' must have a number for each of 2 replicas": ["parallel.data=2", "batch.split=[8]"],
            "'split' must be batch.microbatches (8) in sum": ["parallel.data=2", "batch.split=[5, 4]"],
            "'microbatches' of 8 is less than one for each of 9 replicas": ["parallel.data=9"],
            "replica 2, but the run has replicas 0 to 1": [
                "parallel.data=2", "faults=[{iteration: 1, kill: 0, replica: 2}]"],
            "heads": ["parallel.tensor=3"]}.items():
        done = subprocess.run(arguments(build, layouts.file, os.path.join(folder, "refused"), settings),
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, \
            f"exit {done.returncode}: '{done.stderr}' does not say '{words}'"
