"""A manifest stream as slices of its text, so that unchanged documents stay byte for byte.

A line that starts with ``---`` or ``...``, followed by a blank, a line break or the end, is a
document marker wherever it stands: YAML forbids it at the start of a line inside any scalar, and
block scalars are indented. So the splitter needs no parser. Line breaks are YAML 1.1's, those of
Helm's parser and of libyaml.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BOM = "\ufeff"
BREAKS = ("\n", "\r", "\x85", "\u2028", "\u2029")
_BLANKS = (" ", "\t")
_AFTER_MARKER = BREAKS + _BLANKS


class StreamDocument:
    """One document of a stream; ``lead + body + tail`` is its text, byte for byte.

    Attributes:
        lead: ``---`` with what stands before it on its line; of a first document without a
            marker, the byte order mark or nothing.
        body: from the end of the lead to the end of the content, with comments and blanks.
        tail: a ``...`` line and what follows it, directives among it; of a stream that opens with
            directives, those.
        line: the line of the stream, from 1, on which the lead stands.
        directives: the ``%`` lines in force, from the tail of the document before.
    """

    __slots__ = ("body", "directives", "lead", "line", "tail")

    def __init__(self, lead: str, body: str, tail: str, line: int, directives: str) -> None:
        self.lead = lead
        self.body = body
        self.tail = tail
        self.line = line
        self.directives = directives

    @property
    def text(self) -> str:
        """The document as it stands in the stream."""
        return self.lead + self.body + self.tail

    @property
    def source(self) -> str:
        """The text of this document for a YAML parser."""
        marker = "---" if self.lead.endswith("---") else ""
        return f"{self.directives}{marker}{self.body}"

    @property
    def comments(self) -> str:
        """The comment and blank lines before the content, from the marker's own line on."""
        return self.body[: _content_start(self.body)]

    @property
    def has_content(self) -> bool:
        """Whether there is more than comments and blank lines."""
        return _content_start(self.body) < len(self.body)


def split(text: str) -> list[StreamDocument]:
    """Cut a stream into its documents; their texts, joined, are the stream again.

    Args:
        text: the whole stream.

    Returns:
        The documents in order. Text before the first marker is a document of its own, unless it
        is empty.
    """
    starts = list(_markers(text, "---"))
    documents: list[StreamDocument] = []
    line = 1
    directives = ""
    at = 0
    if not starts or text[: starts[0]].strip(BOM):
        end = starts[0] if starts else len(text)
        first = _document(text[:end], BOM if text.startswith(BOM) else "", line, "")
        documents.append(first)
        directives = _directives(first.tail)
        line += count_breaks(first.text)
        at = end
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(text)
        document = _document(text[at:end], text[at : start + 3], line, directives)
        documents.append(document)
        directives = _directives(document.tail)
        line += count_breaks(document.text)
        at = end
    return documents


def count_breaks(text: str) -> int:
    """The number of line breaks in a text; CRLF is one."""
    count = text.count("\n")
    if "\r" in text:
        count += text.count("\r") - text.count("\r\n")
    if not text.isascii():
        count += text.count("\x85") + text.count("\u2028") + text.count("\u2029")
    return count


def _document(text: str, lead: str, line: int, directives: str) -> StreamDocument:
    body = text[len(lead) :]
    end = next(_markers(body, "..."), -1) if "..." in body else -1
    if "%" in body and body.startswith("%", start := _content_start(body)):
        # Directives of the next document, behind a document without content.
        end = start
    if end < 0:
        return StreamDocument(lead, body, "", line, directives)
    return StreamDocument(lead, body[:end], body[end:], line, directives)


def _markers(text: str, marker: str) -> Iterator[int]:
    at = text.find(marker)
    while at >= 0:
        end = at + 3
        opens = at == 0 or text[at - 1] in BREAKS or (at == 1 and text[0] == BOM)
        if opens and (end == len(text) or text[end] in _AFTER_MARKER):
            yield at
        at = text.find(marker, end)


def _directives(tail: str) -> str:
    if "%" not in tail:
        return ""
    return "".join(line for line in tail.splitlines(keepends=True) if line.startswith("%"))


def _content_start(body: str) -> int:
    """The position of the first line that is neither blank nor a comment."""
    at = 0
    size = len(body)
    while at < size:
        cut = at
        while cut < size and body[cut] in _BLANKS:
            cut += 1
        if cut < size and body[cut] not in BREAKS and body[cut] != "#":
            return at
        while cut < size and body[cut] not in BREAKS:
            cut += 1
        if body.startswith("\r\n", cut):
            cut += 1
        at = min(cut + 1, size)
    return size
