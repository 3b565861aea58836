"""The commands of a script that run in the folder that is sent, and what earlier ones have done.

A `cd` to any other folder ends them: what is read and written there has words of its own.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.programs import preparation, scanner
from allranks.convert.slurm.batch_script.text import sent_folder, started_words, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Programs that ask for files, and bring them, and are not hurt where one is missing.
IDLE = words.IN_EACH_RANK | {"test", "[", "[[", "rm", "cp", "mv"}


@dataclass(frozen=True, slots=True)
class SentCommand:
    """A command, and the folder as it finds it.

    Attributes:
        command: the command.
        texts: its words, without their quotes.
        place: the folder below the one that is sent in which it runs; "" for that itself.
        new_folders: those that the script has made before.
        has_trained: whether a program before it may have trained, and have written what it reads.
    """

    command: Command
    texts: list[str]
    place: str
    new_folders: frozenset[str]
    has_trained: bool

    def below_sent(self, path: str) -> str:
        """A path from the folder that is sent; "" for one that is not in it.

        Args:
            path: the path, from where the command runs.
        """
        whole = posixpath.normpath(posixpath.join(self.place, path))
        return "" if whole.startswith("..") else whole

    def has(self, folder: str) -> bool:
        """Whether the script has made a folder before, one above it, or below.

        Args:
            folder: the folder, from the one that is sent.
        """
        return any(sent_folder.has(folder, new) for new in self.new_folders)


def walk(script: Script, variables: ShellVariables) -> Iterator[SentCommand]:
    """The commands, up to the first that leaves the folder; none where a script starts elsewhere.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    if not sent_folder.starts_here(script):
        return
    place = ""
    new_folders: frozenset[str] = frozenset()
    has_trained = False
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        if texts[:1] in (["cd"], ["pushd"]):
            typed = "".join(texts[1:2])
            below = sent_folder.below(typed, variables.sent_folder)
            if sent_folder.is_sent(typed, variables.sent_folder):
                # `cd .` and `cd $PWD` stay below; a way of writing the folder itself goes back.
                is_back = sent_folder.is_itself(typed, variables.sent_folder)
                place = "" if is_back else place
            elif below:
                place = posixpath.normpath(posixpath.join(place, below))
            else:
                return
        yield SentCommand(command, texts, place, new_folders, has_trained)
        if "mkdir" in map(words.base, texts[:2]):
            new = {variables.resolved(text).removeprefix("./") for text in texts[1:]}
            new_folders = new_folders.union(new)
        has_trained |= any(map(preparation.may_train, started_words.programs(command)))
