"""The comments of a YAML file, by the line that they are about."""

from __future__ import annotations

from allranks.yamlio.comments import comments_of

TEXT = """\
# license

--- # document
# first
a: 1 # one
b: | # block
  # not this
  x # nor this
# quoted
c: "q
  # not this
  r" # end of c
d: [1, # item
  2] # list
# for f

f: # key
  g: plain
    words # end of g
h: !!str |- # tagged
  t
i:
  - 'a # b'
    # of i
j: 1
# last
"""


def test_comments_stand_at_the_lines_that_they_are_about() -> None:
    """Over empty lines and the start of a document; those further right are about what is above."""
    lines = TEXT.split("\n")
    by_text = {lines[number - 1]: comment for number, comment in comments_of(TEXT).items()}
    assert {
        "a: 1 # one": (("license", "document", "first"), "one"),
        "b: | # block": ((), "block"),
        'c: "q': (("quoted",), ""),
        '  r" # end of c': ((), "end of c"),
        "d: [1, # item": ((), "item"),
        "  2] # list": ((), "list"),
        "f: # key": (("for f",), "key"),
        "    words # end of g": ((), "end of g"),
        "h: !!str |- # tagged": ((), "tagged"),
        "    # of i": (("of i",), ""),
        "# last": (("last",), ""),
    } == by_text
