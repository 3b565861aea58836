"""An environment of its own for a framework that an example trains with.

    python tools/env.py tensorflow mxnet

For each name, the folder of an environment with exactly what requirements/NAME.txt pins, built the
first time it is asked for: `.tools/env/NAME-DIGEST`, where the digest is of the pins and of the
Python, so that other pins make another environment. One of `BESIDE` takes what it shares with the
Python that makes it from there. Several may ask at the same time.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PINS = REPO / "requirements"
CACHE = REPO / ".tools" / "env"
DIGEST = 12  # hexadecimal digits
# The newest Python that a retired framework's last wheels import on.
NEWEST_PYTHON = {"mxnet": (3, 11)}
# Those that take what they share with the Python that makes them from there: torch is large.
BESIDE = frozenset({"torchft"})
# What a wheel expects of the system and does not say.
PACKAGES = {"mxnet": "libquadmath0"}


def environments() -> list[str]:
    """The names there are: those whose requirements say that the environment is their own."""
    return sorted(path.stem for path in PINS.glob("*.in"))


def folder(name: str) -> Path:
    """Where the environment of a name is, built or not."""
    version = "{}.{}".format(*sys.version_info)
    shared = sysconfig.get_path("purelib") if name in BESIDE else ""
    content = (version + shared).encode() + (PINS / f"{name}.txt").read_bytes()
    return CACHE / f"{name}-{hashlib.sha256(content).hexdigest()[:DIGEST]}"


def ensure(name: str) -> Path:
    """The environment of a name, built if it is not there.

    Raises:
        SystemExit: it cannot be built with this Python, or its packages cannot be had.
    """
    target = folder(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / ".installed").exists():
            build(name, target)
    return target


def build(name: str, target: Path) -> None:
    """Make the environment; what a broken or an older build has left goes."""
    newest = NEWEST_PYTHON.get(name)
    if newest is not None and sys.version_info[:2] > newest:
        needed = "{}.{}".format(*newest)
        sys.exit(
            f"error: {name} needs Python {needed}, and this is {sys.version.split()[0]}\n"
            f"  fix: set up with it: make clean setup-test PYTHON=python{needed}"
        )
    print(f"installing {name} into {target.relative_to(REPO)}", file=sys.stderr)
    for partial in CACHE.glob(f"{name}-*"):
        shutil.rmtree(partial)
    subprocess.run([sys.executable, "-m", "venv", target], check=True)  # noqa: S603 (our own words)
    if name in BESIDE:  # pip then finds there what is pinned alike
        paths = {"base": str(target), "platbase": str(target)}
        own = Path(sysconfig.get_path("purelib", scheme="venv", vars=paths))
        (own / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    # It says what it downloads, with a bar on a terminal; our own output is the folder alone.
    pip = [target / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    pins = ["--no-deps", "--require-hashes", "-r", PINS / f"{name}.txt"]
    process = subprocess.run([*pip, *pins], check=False, stdout=sys.stderr)  # noqa: S603 (likewise)
    if process.returncode:
        sys.exit(f"error: cannot install what requirements/{name}.txt pins; pip says why above")
    check(name, target)
    (target / ".installed").touch()


def check(name: str, target: Path) -> None:
    """Import it once: what a wheel lacks of the system shows there, and not in an example's pod."""
    command = [target / "bin" / "python", "-W", "ignore", "-c", f"import {name}"]
    process = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 (ours)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or ["it does not say why"])[-1]
        package = PACKAGES.get(name)
        fix = f"\n  fix: install Debian's {package}" if package else ""
        sys.exit(f"error: {name} is installed and cannot be imported: {reason}{fix}")


def main() -> None:
    """Build what is asked for and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=environments(), metavar="NAME")
    for name in parser.parse_args().names:
        print(ensure(name))


if __name__ == "__main__":
    main()
