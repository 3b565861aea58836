"""PyYAML is imported without the patterns of its Python reader, and is what it was for others."""

from __future__ import annotations

import subprocess
import sys

_READS = """
import re, sys
{first}
import yaml, json, base64
assert type(re.compile("x")) is re.Pattern and re.compile.__module__.startswith("re")
text = "[2001-12-14, 0x1F, 1_000, .5, ~, yes, 1:30, a]"
print(yaml.safe_load(text), yaml.safe_dump({{"a": "1e5", "b": "no", "c": "\\x85"}}))
for wrong in ("a: \\x01", "? - ]"):
    try:
        yaml.safe_load(wrong)
    except yaml.YAMLError as error:
        print(type(error), error)
"""


def _output(first: str) -> str:
    command = [sys.executable, "-I", "-c", _READS.format(first=first)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_other_readers_find_pyyaml_as_it_is() -> None:
    """What others in the same process read and write with PyYAML does not change."""
    assert _output("") == _output("import allranks.yamlio.load")


def test_no_pattern_is_compiled_that_is_not_used() -> None:
    """The largest alone takes as long as the rest of the import."""
    code = (
        "import re\nsizes = []\nwhole = re._compiler.compile\n"
        "def count(pattern, *flags):\n"
        "    sizes.append(pattern)\n    return whole(pattern, *flags)\n"
        "re._compiler.compile = count\nimport allranks.yamlio.load, yaml.reader\n"
        "assert not [text for text in sizes if '\\ud7ff' in text]\n"
        "assert yaml.reader.Reader.NON_PRINTABLE.search('\\x01')\n"
        "assert [text for text in sizes if '\\ud7ff' in text]\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_pyyaml_that_is_there_already_is_taken() -> None:
    """A library that has imported it first keeps its own."""
    assert _output("import yaml, allranks.yamlio.load") == _output("")
