"""What a person, or a program for templates, is to fill in before sbatch reads a script."""

from __future__ import annotations

import re

# What is written for a person; a shell takes its brackets for files.
FOR_A_PERSON = re.compile(r"<[A-Za-z][\w .,-]*>")
# The same within a path or behind an option, where no shell script has a file: `A=/home/<you>/b`.
# Quoted, it may be a text of how to use the script.
# So may capitals with a blank between, behind a file of input: `--save <PATH TO MODELS>`.
IN_PATHS = re.compile(
    r"(?<=[/=])<[A-Za-z][\w .-]*>(?=/|\s|$)|(?<=\s)<[A-Z]{2,}(?: [A-Za-z][\w.-]*)+>(?=/|\s|$)"
)
# One word in capitals is the same where no quotes are around it: `--data <DATA_DIR> --x 1`.
# So are several words: `cd <path to your code>/a`.
IN_CAPITALS = re.compile(
    r"(?<=\s)<(?:[A-Z][A-Z0-9_-]{2,}|[A-Za-z][\w'-]*(?: [\w'-]+)+)>(?=[\s:/,]|$)"
)
# A folder that a person is to fill in.
FOLDER = re.compile(r"/+path/(?:to|of|here)\b.*|(?:/[\w.-]+)*/(?:your|YOUR)(?:[/_-].*)?")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# What a script of the project's own replaces. A C compiler has `-D__NAME__`, Julia `@__DIR__`, a
# shell `$__NAME__`, and a here-document `<<__END__`, whose end stands alone on its line.
_REPLACED = r"(?<![\w${@<-])__[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*__(?![\w=])"
# In a directive: Jinja's, and those of Python's formats; `#` begins a comment there.
OF_DIRECTIVES = re.compile(
    r"\{\{[^{}]*\}\}|\{%[^{}]*%\}|(?<![$%{])\{[A-Za-z_][\w.]*\}|%\([A-Za-z_]\w*\)[sd]"
    r"|(?<!@)@@?[A-Za-z_]\w*@@?(?!@)|%[A-Z][A-Z0-9_]{2,}%(?![A-Za-z])"
    r"|(?:(?<=[=:/.])|(?<=-[A-Za-z] ))##[A-Za-z_]\w*##(?!#)"
    rf"|{_REPLACED}"
)
# In a line: Jinja's; then CMake's and Autosubmit's; then those of Python's string.Template, whose
# `$${a}` is a shell's `${a}`.
OF_LINES = re.compile(
    r"\{\{\s*[A-Za-z_][\w.]*\s*(?:\|[^{}]*)?\}\}|\{%-?\s*[a-z][^{}]*%\}"
    r"|(?<![\w$@])@\{[A-Za-z_]\w*\}"
    r"|(?<!@)(@@?)[A-Z][A-Z0-9_]+\1(?!@)|(?<![\w%$}])%[A-Z][A-Z0-9_]{2,}%"
    rf"|(?<![\\$])\$\$\{{[A-Za-z_]\w*\}}|{_REPLACED}"
    r"|(?<=[=/:-])\{(?:TODO|FIXME|FILL|INSERT|REPLACE|YOUR)\b[^{}$\n]*\}"
)
# Jinja's alone, which a program may have for itself, as it has the text around them.
_OF_JINJA = re.compile(
    r"\{\{-?\s*(?P<name>[A-Za-z_][\w.]*)\s*(?:\|[^{}]*)?-?\}\}|\{%-?\s*[a-z][^{}]*%\}"
)
_TEXTS = re.compile(r"\\[\s\S]|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\[\s\S])*)\"")
# As much of what stands before a text as its name may take.
_LONGEST_NAME = 80
_BEFORE_DEFAULT = re.compile(r"\$\{\w+:?[-=]\Z")
# The variable or the option whose value a text is.
_NAME_OF_VALUE = re.compile(r"(?P<name>[A-Za-z][\w-]*)(?:=|[ \t]+|=\$)\Z")
_OF_TEXTS = re.compile(
    r"(?!.*(?:file|path|dir|num|max|count|len|size|_id))"
    r".*(?:prompt|template|instruction|message|question|query)"
)
# A sentence; words of a command have options and paths.
_SENTENCE = re.compile(r"\s*[A-Z][a-z]*[\s,:][\s\S]*")
_OF_COMMAND = re.compile(r"(?:^|\s)--?[A-Za-z]|[/=]\{[{%]|[}%]\}/")
# A value that is a blank and nothing else, in quotes: `p="<path>"`, `--param '<<<file>>>'`.
_WHOLE_VALUE = re.compile(
    r"(?<![\w-])(?P<name>-{0,2}[A-Za-z_][\w-]*)(?P<sign>=|[ \t]+)(?P<quote>['\"])"
    r"(?P<blank><<<[A-Za-z][\w .-]*>>>|<[A-Za-z][\w .-]*>)(?P=quote)(?=[\s;&|)]|\Z)"
)
# What a tokenizer has in such brackets.
_OF_TOKENS = re.compile(
    r"(?i)tok|tag|stop|sep|delim|mark|mask|(?:^|[_<-])(?:[be]o[stw]|pad|unk|cls|start|end|im)(?=[_>-]|$)"
)


def without_texts(code: str) -> str:
    """Code without Jinja's blanks in what is a text for a program: a prompt of its own.

    That is the default of a variable, in quotes, or a sentence, or the value of what is called a
    prompt or a template. A blank of a template of the script is a word, a number, or part of a path
    or of a command; so is ``PATH="{{ path }}"``, and ``PROMPT="{{ prompt }}"``.

    Args:
        code: the script, without comments.
    """

    def put(match: re.Match[str]) -> str:
        text = match["single"] if match["double"] is None else match["double"]
        if not text or not _is_text(code[: match.start()], text):
            return match[0]
        return _OF_JINJA.sub(lambda blank: "\n" * blank[0].count("\n"), match[0])

    return _TEXTS.sub(put, code)


def _is_text(before: str, text: str) -> bool:
    """Whether what stands in quotes is a text for a program, behind what stands before it."""
    before = before[-_LONGEST_NAME:]
    if _BEFORE_DEFAULT.search(before):
        return True
    if _OF_COMMAND.search(text):
        return False
    head = _NAME_OF_VALUE.search(before)
    name = head["name"].lower().replace("-", "_") if head else ""
    if name in {(blank["name"] or "").lower() for blank in _OF_JINJA.finditer(text)}:
        return False
    return _OF_TEXTS.match(name) is not None or _SENTENCE.fullmatch(text) is not None


def whole_value(row: str) -> str:
    """A blank in quotes that is the whole value of a variable or an option; "" for none.

    Args:
        row: a line, without its comment.
    """
    for match in _WHOLE_VALUE.finditer(row):
        is_option = match["name"].startswith("-")
        is_value = is_option or match["sign"] == "="
        is_token = _OF_TOKENS.search(match["name"]) or _OF_TOKENS.search(match["blank"])
        if is_value and (match["blank"].startswith("<<<") or not is_token):
            return match["blank"]
    return ""
