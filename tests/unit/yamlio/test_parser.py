"""PyYAML's C parser is imported without the rest of PyYAML, which is what it was for others."""

from __future__ import annotations

import subprocess
import sys

import pytest

_READS = """
import re, sys
{first}
import yaml, json, base64
text = "[2001-12-14, 0x1F, 1_000, .5, ~, yes, 1:30, a]"
print(yaml.safe_load(text), yaml.safe_dump({{"a": "1e5", "b": "no", "c": "\\x85"}}))
print(yaml.load(text, yaml.CSafeLoader), yaml.dump([{{}}, 1], Dumper=yaml.CDumper))
for loader in (yaml.SafeLoader, yaml.CSafeLoader):
    for wrong in ("a: \\x01", "? - ]", "a: 'b", "*a", "!!python/none"):
        try:
            yaml.load(wrong, loader)
        except yaml.YAMLError as error:
            print(type(error), error)
print(sorted(name for name in vars(yaml) if name[0] != "_" or name.startswith("__w")))
print(yaml.__version__, yaml.__file__, yaml.__package__, yaml.__spec__.origin, yaml.__path__)
try:
    yaml.missing
except AttributeError as error:
    print(error)
"""
_LOADS = "from allranks.yamlio.load import load_all; print(load_all('a: [1]'), file=sys.stderr)"


def _output(first: str) -> str:
    command = [sys.executable, "-I", "-c", _READS.format(first=first)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "first",
    [
        _LOADS,
        f"{_LOADS}; import yaml.constructor",
        f"{_LOADS}; from yaml import nodes, resolver, safe_load",
        f"import yaml; {_LOADS}",
    ],
)
def test_other_readers_find_pyyaml_as_it_is(first: str) -> None:
    """What others in the same process read and write with PyYAML does not change."""
    assert _output("") == _output(first)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: \x01", "reader.ReaderError"),
        ("a: 'b", "scanner.ScannerError"),
        ("? - ]", "parser.ParserError"),
    ],
)
def test_the_errors_are_those_of_pyyaml(text: str, error: str) -> None:
    """An error whose module was not there when the parser was imported is PyYAML's own."""
    code = (
        "import sys\nfrom allranks.yamlio.parser import CParser\n"
        "assert not {'re', 'datetime', 'base64'} & set(sys.modules)\n"
        "try:\n"
        f"    parser = CParser({text!r})\n"
        "    while parser.get_event():\n        pass\n"
        "except Exception as error:\n"
        "    import yaml\n"
        f"    assert type(error) is yaml.{error}, type(error)\n"
        "    sys.exit(3)\n"
    )
    assert 3 == subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode


def test_threads_that_ask_at_once_find_all_of_it() -> None:
    """While the rest of PyYAML is imported for a thread, the others wait for it."""
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport sys\n"
        "from allranks.yamlio.parser import CParser\nimport yaml\n"
        "sys.setswitchinterval(1e-6)\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    documents = list(pool.map(lambda _: yaml.safe_load('a: 1'), range(8)))\n"
        "assert documents == [{'a': 1}] * 8, documents\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
