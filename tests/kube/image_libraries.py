"""Empty libraries in the place of CUDA's, so that torch from PyPI loads without them.

The builds of torch on PyPI are linked against about 3 GB of CUDA libraries. The loader wants each
of them by name, with each function of which torch keeps the address, before ``import torch`` can
go on; a machine without a GPU never calls one. Here each missing name becomes a small library that
has those functions, all of them one: it says that this image has no CUDA, and ends the process.
What is missing is asked of the loader itself (``ldd``), so a new torch needs no change here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.kube.image_programs import Root

# write(2, message), exit_group(127).
_FUNCTION = r"""
    .text
none:
    mov $1, %eax
    mov $2, %edi
    lea message(%rip), %rsi
    mov $length, %edx
    syscall
    mov $127, %edi
    mov $231, %eax
    syscall
message:
    .ascii "this image has no CUDA libraries, and one was called\n"
    .set length, . - message
    .section .note.GNU-stack, "", @progbits
"""
# The library that the module torch._C is linked against, and that needs all others.
_LOADED = "libtorch_python.so"
# Python's own functions are there once Python has loaded the library.
_OF_PYTHON = re.compile(r"_?Py")


def complete(root: Root, folder: Path) -> None:
    """Add to torch's libraries the ones that ``import torch`` would miss.

    Args:
        root: the image, with binutils.
        folder: torch's libraries, somewhere in it; they look for others beside themselves.

    Raises:
        BenchError: a program of the image failed.
    """
    # What the import loads. Others wait for a GPU: the driver's own library must stay missing,
    # that is how torch sees that there is none.
    loaded = [f"/{(folder / _LOADED).relative_to(root.folder)}"]
    missing = _missing(root, loaded)
    present = [f"/{path.relative_to(root.folder)}" for path in sorted(folder.glob("*.so*"))]
    versions = _versions(root, present, missing)
    for name in missing:
        _link(root, folder, name, {})
    symbols = _symbols(root, loaded)
    plain = next((name for name in missing if not versions[name]), None)
    for name in missing:
        symbols_of_version = {version: symbols[version] for version in versions[name]}
        _link(root, folder, name, symbols_of_version, symbols[""] if name == plain else ())


def _missing(root: Root, libraries: Iterable[str]) -> list[str]:
    """The names that the loader does not find."""
    output = _ldd(root, libraries)
    return sorted(set(re.findall(r"^\s*(\S+) => not found$", output, re.MULTILINE)))


def _versions(
    root: Root, libraries: Iterable[str], names: Iterable[str]
) -> Mapping[str, frozenset[str]]:
    """Library name -> the symbol versions that are asked of it."""
    versions_by_name: dict[str, set[str]] = {name: set() for name in names}
    output = root.inside("objdump", "-p", *libraries, purpose="read torch's libraries")
    for name, block in re.findall(r"required from (\S+):\n((?:\s+0x.*\n)+)", output):
        if name in versions_by_name:
            versions_by_name[name].update(line.split()[-1] for line in block.splitlines())
    return {name: frozenset(versions) for name, versions in versions_by_name.items()}


def _symbols(root: Root, libraries: Iterable[str]) -> Mapping[str, set[str]]:
    """Symbol version, "" without one -> the symbols that the loader does not find."""
    symbols_by_version: dict[str, set[str]] = defaultdict(set)
    pattern = re.compile(
        r"(?:undefined symbol: |symbol )([^\s,]+)(?:, version (\S+))?"
        r"(?: not defined in file .*)?\s+\(",
    )
    for symbol, version in pattern.findall(_ldd(root, libraries, "-r")):
        if not _OF_PYTHON.match(symbol):
            symbols_by_version[version].add(symbol)
    return symbols_by_version


def _ldd(root: Root, libraries: Iterable[str], *options: str) -> str:
    command = f"ldd {' '.join((*options, *libraries))} 2>&1 || true"
    return root.inside("sh", "-c", command, purpose="ask the loader what torch misses")


def _link(
    root: Root,
    folder: Path,
    name: str,
    versions: Mapping[str, Iterable[str]],
    plain: Iterable[str] = (),
) -> None:
    """Write one library.

    Args:
        root: the image.
        folder: where it goes.
        name: its name.
        versions: symbol version -> its symbols.
        plain: symbols without a version.
    """
    symbols = sorted({*plain, *(symbol for group in versions.values() for symbol in group)})
    aliases = "".join(f".globl {symbol}\n.set {symbol}, none\n" for symbol in symbols)
    script = "".join(
        f"{version} {{ global: {' '.join(f'{symbol};' for symbol in sorted(group))} }};\n"
        for version, group in sorted(versions.items())
    )
    mapped = "--version-script=map" if script else ""
    target = f"/{(folder / name).relative_to(root.folder)}"
    with root.scratch() as work:
        (work / "none.s").write_text(_FUNCTION + aliases, encoding="utf-8")
        (work / "map").write_text(script, encoding="utf-8")
        command = (
            f"cd /{work.name} && as -o none.o none.s && "
            f"ld -shared -soname {name} {mapped} -o {target} none.o"
        )
        root.inside("sh", "-c", command, purpose=f"make an empty {name}")
