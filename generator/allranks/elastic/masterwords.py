"""What another master's command says of the job that it leads, where that is another job.

DLRover's master gets the job's name and namespace as words of its command. With another job's name
it starts, finds nothing, and its own job waits for a plan that never comes.
"""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from allranks.elastic.pods import templates
from allranks.status.fields import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME, _NAMESPACE = "--job_name", "--namespace"
# What the shell, or the kubelet, fills in is not known here.
_FILLED_IN = "$"


def contradictions(template: Any, name: str, namespace: str) -> Iterator[str]:
    """Where a master's command names another job than its own, in sentences.

    Args:
        template: of the master's pod.
        name: the job's.
        namespace: the job's; "" where it is not known.
    """
    said = dict(_options(_words(template)))
    for option, own in ((_NAME, name), (_NAMESPACE, namespace)):
        given = said.get(option, "")
        if own and given and _FILLED_IN not in given and given != own:
            yield (
                f"the master's command says {option} {given}, and this job's is {own}: "
                f"it would lead another job; write {option} {own}"
            )


def _words(template: Any) -> list[str]:
    """The words of a master's command, those of a shell's script among them."""
    found = items(mapping(template, "spec"), "containers")
    if not found:
        return []
    container = found[templates.main_index(found)]
    words: list[str] = []
    for key in ("command", "args"):
        given = container.get(key)
        for word in given if isinstance(given, list) else ():
            words += _split(word) if isinstance(word, str) else []
    return words


def _split(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError:  # no script that a shell could read either
        return [word]


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    for word, after in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        yield (option, value) if equals else (word, after)
