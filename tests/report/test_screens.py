"""The recording of a run (recording.svg): a screen for every few iterations and the result, shown one after the other for as long
as they took in proportion, and the last one where pictures do not move. The run is that of test_adaptation.py, by hand."""
import os
import re
from xml.etree import ElementTree

from calling import run
from runner import expect
from test_adaptation import adapted, event, fault, healthy, make, relief, relieved, slow

SVG = "{http://www.w3.org/2000/svg}"


def recording(path):
    pictures = path + "-pictures"
    done = run("report", path, "--svg", pictures)
    expect(done.returncode == 0, f"{path}: {done.stderr}")
    file = os.path.join(pictures, "recording.svg")
    return ElementTree.parse(file).getroot() if os.path.exists(file) else None


def screens(picture):
    """Of each: its number, whether it is there without motion, and its lines of text from the top."""
    found = []
    for group in picture.iter(SVG + "g"):
        if group.get("id"):
            texts = sorted(((float(t.get("y")), float(t.get("x")), t.text) for t in group.iter(SVG + "text")))
            found.append((group.get("id"), group.get("visibility") != "hidden", [text for _, _, text in texts]))
    return found


def test_every_iteration_has_its_screen_and_the_answer_is_the_last():
    picture = recording(make("film", healthy + slow + adapted + relieved, [event("start", 0), *fault, *relief, event("end", 32)]))
    shown = screens(picture)
    expect([name for name, _, _ in shown] == [f"s{i}" for i in range(33)], "32 iterations, one each, and the result")
    expect([there for _, there, _ in shown] == [False] * 32 + [True], "without motion: the result")
    for i, (_, _, lines) in enumerate(shown[:32]):
        expect(any(line.startswith(f"iteration {i + 1:2} of 32") for line in lines), f"screen {i}: {lines}")
        expect("rank 0" in lines and "rank 1" in lines, f"screen {i} has the ops: {lines}")
    expect(any("onset" in line for line in shown[12][2]) and not any("onset" in line for line in shown[5][2]), "events from their iteration on")
    result = " ".join(shown[32][2])
    for text in ("before: 50 ms per iteration", "while it is slow: 150 ms per iteration, +100 ms", "after the change: 110 ms per iteration, -40 ms", "from 150 ms to 110 ms"):
        expect(text in result, f"{text}: {result}")


def test_screens_take_as_long_as_their_iterations():
    picture = recording(make("pace", healthy + slow + adapted + relieved, [event("start", 0), *fault, *relief, event("end", 32)]))
    style = picture.find(SVG + "style").text
    moments = [[float(share) for share in re.findall(r"([\d.]+)%{visibility:(?:visible|hidden)}", one)] for one in re.findall(r"@keyframes s\d+{(.*)}#", style)]
    begin = [shares[0] if i == 0 else shares[1] for i, shares in enumerate(moments)]
    expect(begin == sorted(begin) and begin[0] == 0 and begin[-1] < 100, f"one after the other: {begin}")
    # 10 of 50 ms, 5 of 150, 10 of 110, 7 of 50: 2,700 ms; they play in 14 s, the result stays for 8
    expect(abs(begin[10] - 100 * 14 / 22 * 500 / 2700) < 0.02, f"the slow ones begin after 500 of 2700 ms: {begin[10]}")
    expect(abs(begin[32] - 100 * 14 / 22) < 0.02, f"the result after 14 of 22 s: {begin[32]}")


def test_letters_of_ops_stay_within_the_screen():
    picture = recording(make("wide", healthy + slow + adapted + relieved, [event("start", 0), *fault, *relief, event("end", 32)]))
    width = float(picture.get("width")) - 24  # the edges
    for text in picture.iter(SVG + "text"):
        expect(float(text.get("x")) + float(text.get("textLength")) <= width + 0.1, f"{text.text!r} ends within the picture")


def test_a_run_without_recorded_iterations_has_no_recording():
    expect(recording(make("unrecorded", healthy, [event("start", 0)], recorded=lambda row: False)) is None, "nothing to show")
