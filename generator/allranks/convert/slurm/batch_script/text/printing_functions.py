"""Functions that print a command and run it: ``cmd() { echo "+ $@"; eval "$@"; }``.

``cmd "srun -n 8 ./a.out"`` is a step as ``srun -n 8 ./a.out`` is, and is read as that. A call whose
text the function's shell would read in another way stays, and the function with it.
"""

from __future__ import annotations

import re

_FUNCTION = re.compile(
    r"^(?:function[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*(?:\([ \t]*\))?\s*"
    r"\{(?P<body>(?:[^{}]|\$\{[^{}]*\})*?)\}[ \t]*$",
    re.MULTILINE,
)
_PRINTS = re.compile(r"(?:echo|printf)\b[^|&<>$`]*(?:\$(?:[@*1]|\{[@*1]\})[^|&<>$`]*)?|")
_EVALUATES = re.compile(r"eval[ \t]+\"?\$(?:[@*1]|\{[@*1]\})\"?")
_RUNS = re.compile(r"\"\$(?:@|\{@\})\"")


def inline(text: str) -> str:
    """The script with the commands that such functions are given, line by line as before.

    Args:
        text: a script.
    """
    for function in list(_FUNCTION.finditer(text)):
        parts = [part.strip() for part in re.split(r"(?:>&2)?[ \t]*[;\n]", function["body"])]
        parts = [part for part in parts if not _PRINTS.fullmatch(part)]
        if len(parts) != 1:
            continue
        begin = rf"^([ \t]*){re.escape(function['name'])}[ \t]+"
        if _EVALUATES.fullmatch(parts[0]):
            typed = r"\"((?![^\"\n]*'[^\"\n]*\$)[^\"\\`\n]+)\"(?=[ \t]*$)"
        elif _RUNS.fullmatch(parts[0]):
            typed = r"([\w./$])"
        else:
            continue
        call_count = len(re.findall(begin, text, re.MULTILINE))
        text, count = re.subn(f"{begin}{typed}", r"\1\2", text, flags=re.MULTILINE)
        name = re.compile(rf"(?<![\w-]){re.escape(function['name'])}(?![\w-])")
        if count == call_count and len(name.findall(text)) == 1:
            text = text.replace(function[0], "\n" * function[0].count("\n"), 1)
    return text
