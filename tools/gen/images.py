"""Writes the newest digest of each base image's tag into the Containerfiles (`make gen-images`).

A tag is whatever its registry says today; a digest is the hash of what is pulled. The digest of a
tag is that of its index, which names the image of each platform. There is no `check-images`: that a
newer image is there is no mistake of this repository's.

Usage: python tools/gen/images.py [FILE ...]
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FROM = re.compile(r"^FROM (?P<image>[^\s@]+:[^\s@]+)@sha256:[0-9a-f]{64}", re.MULTILINE)
_SECONDS = 120


def containerfiles() -> list[Path]:
    """All of the repository's."""
    listed = subprocess.run(
        ["git", "ls-files", "*Containerfile", "*Dockerfile"],  # noqa: S607 - this checkout's
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines()]


def newest(image: str) -> str:
    """The digest that a tag has now: the hash of its index, as the registry sends it.

    Raises:
        SystemExit: skopeo is not there, or the registry does not answer.
    """
    program = shutil.which("skopeo")
    if program is None:
        sys.exit("error: skopeo is not on PATH\n  fix: install it; it reads a registry's indexes")
    process = subprocess.run(  # noqa: S603 - an image's name, of our own files
        [program, "inspect", "--raw", f"docker://{image}"],
        check=False,
        capture_output=True,
        timeout=_SECONDS,
    )
    if process.returncode != 0:
        reason = process.stderr.decode("utf-8", "replace").strip()
        sys.exit(f"error: {image}: {reason}\n  fix: check the tag and the network")
    return f"sha256:{hashlib.sha256(process.stdout).hexdigest()}"


def renewed(text: str, digests: dict[str, str]) -> str:
    """A Containerfile with these digests.

    Args:
        text: the file's.
        digests: by image and tag.
    """
    return _FROM.sub(lambda match: f"FROM {match['image']}@{digests[match['image']]}", text)


def main(names: list[str]) -> None:
    """Renew the named files, or all."""
    files = [Path(name) for name in names] or containerfiles()
    texts = {file: file.read_text("utf-8") for file in files}
    images = sorted({match["image"] for text in texts.values() for match in _FROM.finditer(text)})
    digests = {image: newest(image) for image in images}
    for file, text in texts.items():
        changed = renewed(text, digests)
        if changed != text:
            file.write_text(changed, "utf-8")
            print(f"wrote {file}")


if __name__ == "__main__":
    main(sys.argv[1:])
