"""Variables in a container's words: what Kubernetes or a shell puts in, and their numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import shell
from allranks.k8s.fields import digits

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

# What a Kubernetes container puts in place of $(NAME).
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\$|\$\(([-._A-Za-z][-._A-Za-z0-9]*)\)")


# Variables that controllers of training set in a container, so that Kubernetes puts them in.
_OF_CONTROLLERS = re.compile(
    r"MASTER_(?:ADDR|PORT)|(?:NODE_|GROUP_|LOCAL_)?RANK|(?:LOCAL_|GROUP_)?WORLD_SIZE|TF_CONFIG"
    r"|JOB_COMPLETION_INDEX|NUM_PROCESSES|PROCESS_ID|COORDINATOR_(?:ADDRESS|PORT)"
    r"|(?:PET|DMLC|VC|VK|LWS|PADDLE|K_MPI|OMPI|JOBSET|WORKER|SLURM|TORCHX)_[A-Z0-9_]+"
)
# What a process has of its system or a shell, and Kubernetes does not put in.
_OF_SHELL = ("HOSTNAME", "PATH", "HOME", "PWD", "USER", "SHELL")


def number(text: str, env: Mapping[str, str] | None = None) -> int | None:
    """The whole number that a word stands for.

    Args:
        text: ``8``, ``$NPROC``, ``${NPROC:-8}``, ``$(NPROC)``.
        env: the variables whose text is known.

    Returns:
        None where it is none, or none that is known.
    """
    text = text.strip().strip('"')
    if (plain := digits(text)) is not None:
        return plain
    match = re.fullmatch(
        r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?::?-([0-9]+))?\}?|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", text
    )
    if match is None:
        return None
    value = (env or {}).get(match[1] or match[3] or "", match[2] or "")
    return digits(value)


def ends(nnodes: str) -> tuple[str, str]:
    """The least and the largest number of nodes that a word says: ``2:4``, ``4``, ``${N:-4}``."""
    least, _, most = _RANGE.sub(r"\1\n\2", nnodes, count=1).partition("\n")
    return least, most or least


# The colon of a range, behind a number or a variable that may have a default.
_RANGE = re.compile(r"^((?:\$\{[^}]*\}|[^:{}])+):(.+)$")


def has_reference(text: str) -> bool:
    """Whether Kubernetes puts a variable into a text."""
    return any(match[1] for match in _REFERENCE.finditer(text))


def without(text: str, names: Container[str]) -> str:
    """A text into which Kubernetes puts other variables alone: $(NAME) of these stays as typed.

    Args:
        text: an entry's value, in Kubernetes' own notation.
        names: the variables that it does not see.
    """
    return _REFERENCE.sub(lambda match: f"${match[0]}" if match[1] in names else match[0], text)


def put_in(text: str, values: Mapping[str, str]) -> str:
    """A text as Kubernetes hands it over: $(NAME) is the value where there is one, $$ one dollar.

    Args:
        text: a word or an entry's value, in Kubernetes' own notation.
        values: the variables whose text is known; $(NAME) of another stays.
    """
    return _REFERENCE.sub(lambda match: values.get(match[1], match[0]) if match[1] else "$", text)


def filled(text: str, values: Mapping[str, str], names: Container[str] = ()) -> str:
    """A text as the container gets it: $(NAME) is the value, and $$ one dollar.

    Args:
        text: a word or an entry's value, in Kubernetes' own notation.
        values: the variables whose text is known.
        names: variables that have another; these, and what the old controller sets, become
            ``${NAME}``.
    """

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        if name in values:
            return values[name]
        is_set = name in names or (_VARIABLE.fullmatch(name) and name not in _OF_SHELL)
        return "${" + name + "}" if is_set else match[0]

    return _REFERENCE.sub(put, text)


def escaped(text: str) -> str:
    """A text that no Kubernetes has read yet, as `in_shell` gives it back: ``$$`` stays one.

    Args:
        text: a shell's text.
    """
    return text.replace("$", "$$")


def in_shell(text: str, env: Mapping[str, str]) -> str:
    """A shell's text as it reaches the shell: $(NAME) of a variable is what the variable holds.

    What is no variable of the container stays, because to the shell it is a command. A name in
    capitals is taken for a variable that the old controller sets. Kubernetes puts a text in before
    the shell reads it: one with quotes or other shell in it is put in here, and between single
    quotes, where a shell puts nothing in, they are left for the variable.

    Args:
        text: the shell's text.
        env: the container's variables whose text is known.
    """
    parts, last, quotes = [], 0, _SingleQuotes(text)
    for match in _REFERENCE.finditer(text):
        name = match[1]
        own = filled(match[0], {}, env)
        if name and own.startswith("${"):
            is_quoted = quotes.has(match.start())
            value = env.get(name, "")
            if _HAS_SHELL.search(value) if not is_quoted else "'" in value:
                own = value
            elif is_quoted:
                own = f"'\"{own}\"'"
        parts += [text[last : match.start()], own]
        last = match.end()
    return "".join((*parts, text[last:]))


# What a shell reads in its own text, and not in that of a variable.
_HAS_SHELL = re.compile(r"[\"'\\$`;&|<>(){}\n]")
# In a shell's text: what is no quote, a comment, and a text between quotes.
_QUOTING = re.compile(r"\\.|(?:(?<=[\s;&|])|\A)#[^\n]*|\"(?:\\.|[^\"\\])*\"|'([^']*)'", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<-?\s*[\"'\\]?([A-Za-z_]\w*)")


class _SingleQuotes:
    """Where a shell's text stands between single quotes.

    Args:
        text: the text; one with a here-document, whose quotes are text, is said to have none.
    """

    def __init__(self, text: str) -> None:
        has_document = _HERE_DOCUMENT.search(text) is not None
        matches = () if has_document else _QUOTING.finditer(text)
        self._spans = [match.span(1) for match in matches if match[1] is not None]

    def has(self, place: int) -> bool:
        """Whether a place of the text does."""
        return any(begin <= place < end for begin, end in self._spans)


def expanded(words: tuple[str, ...], names: Container[str] = ()) -> tuple[tuple[str, ...], bool]:
    """Words with $(NAME) as a shell's command that puts the variables in.

    To Kubernetes $(NAME) of no variable is text. A name that the container may have of elsewhere (a
    ConfigMap, a field) becomes that text where it has it not; what an old controller sets is there.

    Args:
        words: a container's words, in which Kubernetes puts variables.
        names: the container's variables whose text is known.

    Returns:
        The words, and whether there is anything to put in.
    """
    references = [match[1] for word in words for match in _REFERENCE.finditer(word)]
    if not any(_IDENTIFIER.fullmatch(name) for name in filter(None, references)):
        return tuple(word.replace("$$", "$") for word in words), False
    parts: list[str] = []
    for word in words:
        text, last = "", 0
        for match in _REFERENCE.finditer(word):
            name = match[1]
            if name and not _IDENTIFIER.fullmatch(name):
                continue  # no shell has such a variable: it stays as it is typed
            literal = word[last : match.start()]
            text += shell.quote(literal) if literal else ""
            if not name:
                text += "'$'"
            elif name in names or _OF_CONTROLLERS.fullmatch(name):
                text += '"${' + name + '}"'
            elif name in _OF_SHELL:
                text += shell.quote(match[0])
            else:
                text += '"${' + name + "-\\$(" + name + ')}"'
            last = match.end()
        literal = word[last:]
        text += shell.quote(literal) if literal or not text else ""
        parts.append(text)
    return ("sh", "-c", f"exec {' '.join(parts)}"), True


def expands(words: Sequence[str], name: str) -> bool:
    """Whether a shell puts a variable's value into words: ``$NAME``, ``$((NAME * 4))``."""
    value = rf"\$\{{?{name}(?!\w)|\$\(\((?:[^()]|\([^()]*\))*(?<!\w){name}(?!\w)"
    return any(re.search(value, word) for word in words)


def reads(words: Sequence[str], name: str) -> bool:
    """Whether a command asks for a variable: ``$NAME``, ``printenv NAME``, ``environ["NAME"]``.

    A text that is only called so, as that of a message, is none.
    """
    forms = rf"\$[({{]?{name}(?!\w)|([\"']){name}\1|printenv\s+{name}(?!\w)"
    return any(re.search(forms, word) for word in words)


def mentions(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """The variables among `names` that a command reads, in their order.

    Args:
        words: the command, or scripts.
        names: names of variables; one that ends with ``*`` is the start of names.
    """
    text = "\n".join(words)
    matches: list[str] = []
    for name in names:
        pattern = re.escape(name.rstrip("*")) + (r"[A-Za-z0-9_]*" if name.endswith("*") else "")
        mention = rf"(?<![A-Za-z0-9_]){pattern}(?![A-Za-z0-9_])"
        matches += [match[0] for match in re.finditer(mention, text)]
    return list(dict.fromkeys(matches))
