#!/usr/bin/env python3
"""Opens report pages in headless Chromium and says what is wrong with them: page_check.py PAGE…

Each page is opened wide (1,440 pixels) and narrow (380), light and dark, and on paper. Found are console messages, a page wider than
its window, what axe-core calls serious or critical, and how long the page took to be there. Prints JSON; exit 1 when anything is wrong.

    --axe FILE           axe.min.js, by default the one that scripts/setup brought
    --chromium PROGRAM   by default TRTFORGE_CHROMIUM, else the first of chromium, chromium-browser, google-chrome
    --screenshots DIR    also write a PNG of every view, to look at
    --folds              with every fold open (also in the screenshots)

Standard library only. Chromium is driven through its debugging pipe: no driver, no port.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AXE = ROOT / ".trtforge" / "axe" / "axe.min.js"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS, SCHEMES = (1440, 380), ("light", "dark")
# Some of a page's checks are slow on a loaded machine; a hang is what this is for.
PATIENCE_S = 120.0


class Browser:
    """One headless Chromium with one page."""

    def __init__(self, program: str, folder: str):
        # Descriptors 3 and 4 are what Chromium reads and writes; ours must not be among them.
        ours = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (*os.pipe(), *os.pipe())]
        (theirs_in, self.to), (self.back, theirs_out) = ours[:2], ours[2:]
        command = [
            program, "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
            "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
            "--disable-component-update", f"--user-data-dir={folder}",
        ]
        # Chromium refuses its sandbox to root, which is what containers of a pipeline run as.
        command += ["--no-sandbox"] if os.getuid() == 0 else []
        # What Python opens is closed in a child unless it is put in place like this.
        place = lambda: (os.dup2(theirs_in, 3), os.dup2(theirs_out, 4))
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*command, "about:blank"], preexec_fn=place, close_fds=False, **quiet)
        os.close(theirs_in), os.close(theirs_out)
        self.buffer, self.count, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def message(self) -> dict:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], PATIENCE_S)
            block = os.read(self.back, 1 << 16) if ready else b""
            if not block:
                raise SystemExit("page_check: Chromium " + ("ended" if ready else "does not answer"))
            self.buffer += block
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method: str, **parameters: object) -> dict:
        self.count += 1
        request = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        block = json.dumps(request).encode() + b"\0"
        while block:
            block = block[os.write(self.to, block):]
        while True:
            answer = self.message()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise SystemExit(f"page_check: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not any(found.get("method") == event for found in self.events):
            if time.monotonic() > deadline:
                raise SystemExit(f"page_check: no {event}")
            self.events.append(self.message())

    def value(self, script: str) -> object:
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"page_check: {answer['exceptionDetails'].get('exception', {}).get('description', answer)}")
        return answer["result"].get("value")

    def open(self, page: Path, width: int, scheme: str, media: str = "screen") -> None:
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def complaints(self) -> list[str]:
        """What the page said on its console, and what the browser said of it."""
        said = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                said.append(event["params"]["entry"]["text"])
            if event.get("method") == "Runtime.exceptionThrown":
                said.append(event["params"]["exceptionDetails"].get("text", "exception"))
            if event.get("method") == "Runtime.consoleAPICalled":
                said.append(" ".join(str(part.get("value")) for part in event["params"]["args"]))
        return said

    def screenshot(self, path: Path) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(image["data"]))


AXE_RUN = """axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations
  .filter(one => one.impact === "serious" || one.impact === "critical")
  .map(one => `${one.id}: ${one.help} (${one.nodes.length}x, such as ${one.nodes[0].target} ${one.nodes[0].any.map(c => c.message)})`))"""
OPEN_FOLDS = "document.querySelectorAll('details').forEach(fold => { fold.open = true })"
# What reaches out of the window, by name, so that a person finds it.
WIDE = """(() => { const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  return [...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > room + 1).slice(0, 5)
    .map(one => `${one.tagName.toLowerCase()}.${one.getAttribute('class')} reaches ${Math.round(one.getBoundingClientRect().right)} of ${room}`)
    .concat(`the page is ${document.documentElement.scrollWidth} wide`); })()"""
# The search box finds nothing of a word that is nowhere and everything of nothing; the keyboard reaches it and the folds.
KEYS = """(() => { const box = document.querySelector('.search input'); if (!box) return [];
  const shown = () => document.querySelectorAll('.tensors li:not([hidden])').length, wrong = [], all = shown();
  box.value = 'no such tensor anywhere'; box.dispatchEvent(new Event('input')); if (shown() !== 0) wrong.push('search hides nothing');
  box.value = ''; box.dispatchEvent(new Event('input')); if (shown() !== all) wrong.push('an emptied search hides something');
  for (const one of [box, ...document.querySelectorAll('summary')]) { if (one.tabIndex < 0) wrong.push('not reached by keyboard'); }
  return wrong; })()"""


def check(browser: Browser, page: Path, axe: str, options: argparse.Namespace) -> list[dict]:
    views = [(width, scheme, "screen") for width in WIDTHS for scheme in SCHEMES] + [(794, "dark", "print")]
    results = []
    for width, scheme, media in views:
        browser.open(page, width, scheme, media)
        timing = browser.value("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        painted = browser.value("new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))")
        wrong = [f"console: {text}" for text in browser.complaints()]
        wrong += [f"too wide: {text}" for text in browser.value(WIDE)]
        if options.screenshots:
            if options.folds:
                browser.value(OPEN_FOLDS)
            options.screenshots.mkdir(parents=True, exist_ok=True)
            browser.screenshot(options.screenshots / f"{page.stem}-{media}-{width}-{scheme}.png")
        if media == "screen":
            wrong += [f"keyboard: {text}" for text in browser.value(KEYS)]
            browser.value(OPEN_FOLDS)
            wrong += [f"too wide with all folds open: {text}" for text in browser.value(WIDE)]
            # Contrast and names do not hang on the width; once narrow is for what is laid out otherwise.
            if axe and (width, scheme) != (WIDTHS[-1], SCHEMES[-1]):
                browser.value(axe + ";0")
                wrong += [f"axe: {text}" for text in browser.value(AXE_RUN)]
        wrong += [f"console: {text}" for text in browser.complaints() if f"console: {text}" not in wrong]
        view = {"page": page.name, "width": width, "scheme": scheme, "media": media}
        results.append({**view, "ready_ms": round(timing), "painted_ms": round(painted), "wrong": wrong})
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--axe", type=Path, default=AXE)
    parser.add_argument("--no-axe", action="store_true", help="leave axe-core out: a page with thousands of nodes takes it minutes")
    parser.add_argument("--chromium", default=os.environ.get("TRTFORGE_CHROMIUM"))
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--folds", action="store_true", help="open every fold before the screenshot")
    options = parser.parse_args()
    program = options.chromium or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise SystemExit("page_check: no Chromium found (on Debian or Ubuntu: apt-get install chromium)")
    axe = "" if options.no_axe else options.axe.read_text(encoding="utf-8")
    results = []
    folder = tempfile.mkdtemp()
    browser = Browser(program, folder)
    try:
        for page in options.pages:
            results += check(browser, page, axe, options)
    finally:
        browser.close()
        # Chromium's other processes may still be writing there.
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(results, indent=1))
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
