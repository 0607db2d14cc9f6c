"""Makes the measured samples of the documentation anew, on a quiet machine: README.md's pictures, table, and figures from one run of
examples/slow-link.yaml, and the samples of all pages whose numbers are measured (commands.py --write).
Usage: samples.py BUILD SOURCE [--run FOLDER]    FOLDER: a run of that example with its output as FOLDER.txt, instead of a new one
Look at `git diff` afterwards: figures in sentences of other pages are put there by hand."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from page import Page, remade  # noqa: E402

ROWS = ("healthy", "slow, not adapted", "adapted")
QUIET = 0.01  # a run whose iterations differ more from their predictions had company


def medians(text):
    """{row: (measured, predicted)} of the table that a run prints, or that README.md has."""
    found = re.findall(r"(?m)^(healthy|slow, not adapted|adapted) +\d+ +([\d.]+) ms +([\d.]+) ms", text)
    return {name: (float(measured), float(predicted)) for name, measured, predicted in found}


def disturbed(printed):
    """Rows that other programs have disturbed."""
    rows = medians(printed)
    return [f"{name}: " + (f"{rows[name][0]:.1f} ms, {rows[name][1]:.1f} ms predicted" if name in rows else "no iteration") for name in ROWS
            if name not in rows or abs(rows[name][0] / rows[name][1] - 1) > QUIET]


def renew(page, printed):
    """README.md with the table and the figures of the run that printed this. Raises ValueError: the words of the table differ."""
    old, new = medians(page), medians(printed)
    for block in Page("README.md", page).blocks:
        if block.kind == "output" and "slow, not adapted" in block.text:
            table = remade(block.text, printed)
            if table is None:
                raise ValueError("the run prints another table than README.md has")
            page = page.replace(block.text, table)
    figures = {f"{old[name][0]:.0f} ms": f"{new[name][0]:.0f} ms" for name in ROWS}
    return re.sub("|".join(rf"(?<![\d.]){figure}" for figure in figures), lambda match: figures[match[0]], page)


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def train(command, folder):
    done = subprocess.run([command, "train", os.path.join(os.path.dirname(folder), "slow-link.yaml"), "--out", folder], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"samples.py: {done.stderr}")
    write(folder + ".txt", done.stdout)


def renew_readme(command, source, folder):
    printed = read(folder + ".txt")
    if disturbed(printed):
        sys.exit("samples.py: other programs have disturbed the run, so nothing was written: " + "; ".join(disturbed(printed)))
    page, pictures = os.path.join(source, "README.md"), folder + "-pictures"
    place, name = os.path.split(folder)
    subprocess.run([command, "report", name, "--svg", pictures], cwd=place, check=True, stdout=subprocess.DEVNULL)
    write(page, renew(read(page), printed))
    for picture, kept in (("iterations.svg", "slow-link.svg"), ("recording.svg", "recording.svg")):
        shutil.copy(os.path.join(pictures, picture), os.path.join(source, "docs", kept))
    listed = os.path.join(source, "bench", "fresh", "readme.py")
    figures = ", ".join(f"{medians(printed)[name][0]:.0f}" for name in ROWS)
    write(listed, re.sub(r"(?m)^(BEFORE, DURING, AFTER = )\d+, \d+, \d+", rf"\g<1>{figures}", read(listed)))


def measured_pages(source):
    for path in sorted(glob.glob(os.path.join(source, "docs", "**", "*.md"), recursive=True)):
        name = os.path.relpath(path, source)
        if not name.startswith(os.path.join("docs", "results")) and any(block.kind == "output" and block.compare != "exactly" for block in Page(name, read(path)).blocks):
            yield name


def main():
    arguments = [word for word in sys.argv[1:] if word != "--run"]
    build, source = map(os.path.realpath, arguments[:2])
    command = os.path.join(build, "slackline")
    with tempfile.TemporaryDirectory(prefix="doc") as place:
        folder = os.path.realpath(arguments[2]) if "--run" in sys.argv else os.path.join(place, "slow-link")
        if "--run" not in sys.argv:
            shutil.copy(os.path.join(source, "examples", "slow-link.yaml"), place)
            train(command, folder)
        renew_readme(command, source, folder)
    for name in measured_pages(source):
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, os.path.join(here, "commands.py"), build, source, name, "--slow", "--write"])


if __name__ == "__main__":
    main()
