"""Strings that something between a values file and a process would like to change."""

from __future__ import annotations

import re

from hypothesis import strategies as st

# Any character that a process can be given: no NUL, no half of a surrogate pair.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
# Fragments that YAML, Helm, the kubelet or a shell would each like to change.
SPICE = st.sampled_from(
    [
        *("{{ .Release.Name }}", "$", "$$", "$(HOME)", "$((1))", "${X}", "`id`", "\\", '"', "'"),
        *("---", "\n---\n", "...", ": ", " #", "- ", "? ", "!!str ", "&a", "*a", "|", ">-", "%"),
        *("1e-5", "0.10", "1e6", "0777", "0x1f", "0b1", "12:30:45", "1_000", ".5", "+1", "-0"),
        *("y", "n", "on", "off", "yes", "No", "TRUE", "null", "~", "", " ", "\t", "\r", "\r\n"),
        *("2026-01-02", "<<", "=", "\x85", "\u2028", "\u2029", "\ufeff", "\x7f", "\x9f", "\ud7ff"),
        *("\U0001f600", "\U0010ffff", "\ufffe", "\x01", "é", "\u0301", "\u202e", "<&>", "%s%d"),
        *("\n", "@", ".inf", "\x1b[0m"),
    ]
)
STRINGS = st.one_of(
    SPICE, TEXT, st.lists(st.one_of(SPICE, TEXT), max_size=5).map("".join), st.just("x" * 20_000)
)


def expand(text: str) -> str:
    """What the kubelet makes of an argument or a value, every variable being "EXPANDED".

    As in k8s.io/kubernetes third_party/forked/golang/expansion: `$$` is one `$`, `$(NAME)` is the
    variable, any other `$` stays. A chart that lets one `$(` through is seen at once.
    """
    return re.sub(
        r"\$\$|\$\([^)]*\)",
        lambda match: "$" if match[0] == "$$" else "EXPANDED",
        text,
    )
