"""The same training under many settings, as tests of its bits meet it."""
import os

from training import train, train_swapping

SMALL = """
model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}
data: {files: ["%s/docs/*.md", "%s/src/plan/*/*.c", "%s/src/base/*.c"], seed: 3}
parallel: {pipeline: 1}
batch: {microbatches: 6, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 5
schedule: 1f1b
adapt: false
"""
# products of different shapes take different paths at this width
WIDE = SMALL.replace("width: 64, heads: 4", "width: 768, heads: 12").replace("iterations: 5", "iterations: 2").replace(
    "microbatches: 6, size: 2", "microbatches: 3, size: 1")


def compare(build, source, folder, kind, text, variants):
    """Every variant (name: settings) has the losses and the weights of the run file `text` with one pipeline rank."""
    file = os.path.join(folder, kind + ".yaml")
    with open(file, "w") as out:
        out.write(text % (source, source, source))
    reference = train(build, file, os.path.join(folder, kind)).bits
    assert len(set(reference[0])) > 1, "the loss does not move: nothing is trained"
    for name, settings in variants.items():
        how = train_swapping if "swap" in name else train
        result = how(build, file, os.path.join(folder, f"{kind}-{name}"), *settings)
        assert result.bits == reference, f"{kind} {name}: {result.bits} is not {reference}"
        print(f"{kind} {name}: the same bits as one rank")
