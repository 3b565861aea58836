"""PyYAML's C parser, without the cost of the rest of PyYAML.

`import yaml` also imports a parser, a dumper and constructors in Python, and `re`, `datetime` and
`base64` for them: a third of what the post-renderer adds to Helm, which uses none of it. Here the
C parser is imported with the events that it makes, and the rest when somebody first asks for it.
"""

from __future__ import annotations

from allranks import libraries

# What the C parser takes from PyYAML, and trusts it to have imported.
_PARTS = ("yaml", "yaml.error", "yaml.events", "yaml.nodes", "yaml.tokens")
# What the C parser and dumper may raise.
_ERRORS = (
    "yaml.composer.ComposerError",
    "yaml.constructor.ConstructorError",
    "yaml.emitter.EmitterError",
    "yaml.parser.ParserError",
    "yaml.reader.ReaderError",
    "yaml.representer.RepresenterError",
    "yaml.scanner.ScannerError",
    "yaml.serializer.SerializerError",
)

for part in _PARTS:
    libraries.defer(part)
libraries.import_without("yaml._yaml", *_ERRORS)

from yaml._yaml import CParser  # noqa: E402 - after what it is imported without

__all__ = ["CParser"]
