"""Looks at a report in Debian's Chromium: `make test-report`. Screenshots are left in tests/.report.

The page is made of two models on a few clips and opened without a network, at the width of a desktop and of a phone, in
light and in dark. Checked are that nothing is loaded, that nothing but tables is wider than the screen, that plots are
there, and that clips play, all panes in step. Chromium is spoken to by its driver's own protocol (W3C WebDriver).

    apt-get install chromium chromium-driver
"""

import base64
import copy
import dataclasses
import io
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from videopred import checkpoint
from videopred.evaluation import Protocol, evaluate, report
from videopred.evaluation.shown import shown

FOLDER = Path(__file__).parents[1] / ".report"
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
PORT = 9517
FACTS = """return {
  loaded: performance.getEntriesByType("resource").map(x => x.name).filter(x => !x.startsWith("data:")),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  plots: [...document.querySelectorAll("svg")].map(x => [x.querySelectorAll("polyline").length,
    x.getBoundingClientRect().width, x.getBoundingClientRect().height]),
  clips: [...document.images].map(x => x.complete && x.naturalWidth > 0),
  text: getComputedStyle(document.body).color, ground: getComputedStyle(document.body).backgroundColor,
}"""


class Browser:
    """One window, without a network."""

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL)
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.path = ""
        self.path = f"/session/{self._post('/session', wanted, tries=200)['sessionId']}"
        self.command("Network.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.command("Network.emulateNetworkConditions", **offline)

    def _post(self, path: str, body: dict, tries: int = 1):
        data, address = json.dumps(body).encode(), f"http://127.0.0.1:{PORT}{self.path}{path}"
        for left in reversed(range(tries)):
            try:
                request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
                return json.loads(urllib.request.urlopen(request, timeout=300).read())["value"]
            except OSError:
                if not left:
                    raise
                time.sleep(0.1)

    def command(self, name: str, **parameters):
        return self._post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, page: Path, width: int, height: int, scheme: str) -> None:
        phone = width < 600
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._post("/url", {"url": page.as_uri()})

    def run(self, script: str):
        return self._post("/execute/sync", {"script": script, "args": []})

    def picture(self, **clip) -> Image.Image:
        """What is seen, or a part of the page (x, y, width, height)."""
        options = {"clip": clip | {"scale": 1}} if clip else {}
        found = self.command("Page.captureScreenshot", captureBeyondViewport=bool(clip), **options)
        return Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")

    def close(self) -> None:
        self.driver.terminate()
        self.driver.wait()


def make_page(path: Path) -> int:
    """Writes the page; returns how many panes its clips have."""
    model = checkpoint.load("moving-mnist-small")
    noisy = copy.deepcopy(model.predictor)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in noisy.parameters():
            weight.add_(torch.randn(weight.shape, generator=random) * 0.05 * weight.std(correction=0))
    protocol = dataclasses.replace(Protocol.load("moving-mnist-small"), num_clips=4, horizon=30)
    models = {model.name: model.predictor, "5 % noise in its weights": noisy}
    results = [evaluate(each, protocol, checkpoint={"name": name}).data for name, each in models.items()]
    clips = shown(models, protocol, results[0])
    path.write_text(report.page(results, clips=clips, against=model.name))
    return 1 + len(models)


def check(browser: Browser, name: str, panes: int) -> None:
    facts = browser.run(FACTS)
    assert facts["loaded"] == [], f"{name}: loads {facts['loaded']}"
    assert facts["wide"] <= 0, f"{name}: is {facts['wide']} pixels wider than the screen"
    assert len(facts["plots"]) == 4, f"{name}: {len(facts['plots'])} plots"
    assert all(lines >= 6 and width > 250 and height > 120 for lines, width, height in facts["plots"]), facts["plots"]
    assert facts["clips"] == [True] * 3, f"{name}: a clip does not load"
    text, ground = (np.mean([int(x) for x in facts[key].strip("rgba()").split(",")[:3]]) for key in ("text", "ground"))
    if "dark" in name:
        assert text > 180 and ground < 60, f"{name}: {facts['text']} on {facts['ground']}"
    place = browser.run(
        "const x = document.images[0]; x.scrollIntoView({block: 'center'}); const r = x.getBoundingClientRect();"
        "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}"
    )
    seen = []
    for _ in range(6):
        seen.append(np.asarray(browser.picture(**place), np.int64))
        time.sleep(0.35)
    runs = [[line_length(pane) for pane in np.array_split(picture, panes, 1)] for picture in seen]
    assert all(max(run) - min(run) <= 3 for run in runs), f"{name}: panes are not in step: {runs}"
    assert len({run[0] for run in runs}) >= 3, f"{name}: clips do not play: {runs}"
    below = [np.array_split(picture[8:], panes, 1) for picture in seen]
    for i in range(panes):
        assert any(np.abs(a[i] - b[i]).max() > 60 for a, b in pairwise(below)), f"{name}: pane {i}"


def line_length(pane: np.ndarray) -> int:
    """Pixels of the coloured line over a pane (h, w, 3)."""
    row = pane[1]
    return int((np.ptp(row, axis=1) > 90).sum())


def main() -> None:
    if not (shutil.which("chromedriver") and shutil.which("chromium")):
        sys.exit(
            "NOT LOOKED AT: no Chromium here; apt-get install chromium chromium-driver, then make test-report again"
        )
    FOLDER.mkdir(exist_ok=True)
    page = FOLDER / "report.html"
    panes = make_page(page)
    print(f"made {page}", flush=True)
    browser = Browser()
    try:
        for screen, size in SCREENS.items():
            for scheme in SCHEMES:
                name = f"{screen}-{scheme}"
                browser.open(page, *size, scheme)
                time.sleep(1)
                browser.picture().save(FOLDER / f"{name}.png")
                height = min(browser.run("return document.documentElement.scrollHeight"), 8000)
                browser.picture(x=0, y=0, width=size[0], height=height).save(FOLDER / f"{name}-whole.png")
                check(browser, name, panes)
                print(f"{name}: plots are there, clips play in step, nothing is loaded", flush=True)
    finally:
        browser.close()
    print(f"screenshots are in {FOLDER}")


if __name__ == "__main__":
    main()
