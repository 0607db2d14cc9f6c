# labels: long net
"""A handful of faults during training over two rails, of every kind, by delegates and on the direct path: bit-identical to the
undisturbed run, nothing left behind; and rails that stay down beyond the configured limit end the run with the link's name.
Called with BUILD_DIR SOURCE_DIR; SL_SEED repeats it."""
import time

import faulted as f
from faulted import Faulted, Lab, needs, seed_of, until
from runner import build, source


def test_one_of_each_kind_changes_no_bit(faulted, lab):
    faulted.round(lab, len(f.KINDS), kinds=f.KINDS)


def test_the_direct_path_survives_rails_too(faulted, lab):
    kinds = [kind for kind in f.KINDS if "delegate" not in kind]
    faulted.round(lab, len(faulted.thrown) + len(kinds), kinds=kinds, transport="direct")


def test_rails_that_stay_down_end_the_run_and_name_the_link(faulted, lab):
    for transport in ("delegated", "direct"):
        process, watch = faulted.begin(lab, "lost", transport=transport,
                                       network={"rails": ["rail0", "rail1"], "outage_s": 1},
                                       checkpoint={"every": 2, "keep": 2})
        faulted.wait_for_checkpoint("lost", process)
        for rail in range(lab.rails):
            lab.down(rail)
        begin = time.monotonic()
        process.wait(timeout=60)
        watch.over = True
        said = faulted.said()
        lab.restore()
        assert process.returncode == 1, f"{transport}: exit {process.returncode}: {said}"
        assert "link 1 -> 2" in said or "link 2 -> 1" in said, f"{transport}: no link is named: {said}"
        print(f"  {transport}: ended {time.monotonic() - begin:.1f} s after the rails", flush=True)
        until(lambda: not lab.processes(), 10, 0.05)
        assert not lab.processes(), f"processes stay: {lab.processes()}"
        print(f"  {transport}: {faulted.resumed('lost')}", flush=True)


def given():
    needs(build)
    with Faulted(build, source, seed_of()) as faulted, Lab(rails=2) as lab:
        faulted.undisturbed()
        yield faulted, lab
