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
    r"|(?<!@)(@@?)[A-Z][A-Z0-9_]+\1(?!@)|(?<![\w%$}])%[A-Z][A-Z0-9_]{2,}%"
    rf"|(?<![\\$])\$\$\{{[A-Za-z_]\w*\}}|{_REPLACED}"
    r"|(?<=[=/:-])\{(?:TODO|FIXME|FILL|INSERT|REPLACE|YOUR)\b[^{}$\n]*\}"
)
