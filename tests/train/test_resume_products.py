# labels: slow
"""A checkpoint of any product of pipeline, data and tensor, with or without ZeRO, goes on in any other: with the same bits
where only pipeline and ZeRO change, else but for rounding, for both kinds of models."""
import os
import shutil
import sys

sys.dont_write_bytecode = True
from checkpoints import break_off, run, write_run
from runner import build, folder, source

path = write_run(folder, source)
PRODUCTS = {  # before, after: the same bits where only pipeline and zero change, nearly the same elsewhere
    "zero divided": ("{pipeline: 1, data: 2, zero: 1}", "{pipeline: 2, data: 2, zero: 0}", True),
    "zero put together": ("{pipeline: 2, data: 2, zero: 0}", "{pipeline: 1, data: 2, zero: 1}", True),
    "three replicas": ("{pipeline: 1, data: 3, zero: 1}", "{pipeline: 3, data: 3, zero: 1}", True),
    "tensor": ("{pipeline: 1, tensor: 2}", "{pipeline: 2, tensor: 2}", True),
    "both": ("{pipeline: 1, tensor: 2, data: 2, zero: 1}", "{pipeline: 2, tensor: 2, data: 2, zero: 0}", True),
    "one to both": ("{pipeline: 2}", "{pipeline: 1, tensor: 2, data: 2, zero: 1}", False),
    "both to one": ("{pipeline: 1, tensor: 2, data: 2, zero: 1}", "{pipeline: 1}", False),
    "tensor to data": ("{pipeline: 1, tensor: 4}", "{pipeline: 1, data: 2, zero: 1}", False),
}
LLAMA = "model={kind: llama, layers: 4, width: 64, heads: 4, kv_heads: 4, context: 32}"


def products(folder, file, *settings):
    """Over other data and tensor sizes sums are rounded otherwise; a moment that went astray would show by far more."""
    ended = {}
    for name, (before, after, same) in PRODUCTS.items():
        before, after = (["parallel=" + layout, "device.threads=1", *settings] for layout in (before, after))
        out = os.path.join(folder, "product")
        shutil.rmtree(out, ignore_errors=True)
        if after[0] not in ended:
            ended[after[0]] = run(build, file, os.path.join(folder, "whole-product"), *after, resume=False)
            shutil.rmtree(os.path.join(folder, "whole-product"))
        break_off(build, file, out, *before, at=9)
        result = run(build, file, out, *after)
        whole = ended[after[0]]
        if same:
            assert result.bits == whole.bits, f"{name}: {result.bits} is not {whole.bits}"
        worst = max(abs(float(a) - float(b)) for a, b in zip(result.bits[0], whole.bits[0]))
        assert len(result.metrics) == 20 and worst < 1e-5, f"{name}: losses differ by {worst}"
        # the weights themselves: whatever layout reads them, they hash alike
        for layout in (before, after):
            again = run(build, file, out, *layout)
            assert again.summary["weights_hash"] == result.summary["weights_hash"], f"{name}: weights changed in between"
        print(f"{name}: losses differ by {worst:.1e}" + (", the same bits" if same else ""))

def test_a_checkpoint_of_gpt2_goes_on_in_any_product():
    products(folder, path)


def test_a_checkpoint_of_llama_goes_on_in_any_product():
    products(folder, path, LLAMA)
