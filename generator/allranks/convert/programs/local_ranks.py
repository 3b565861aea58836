"""The number of a process in its pod as an option, which some launchers give their scripts.

torchrun sets ``LOCAL_RANK`` alone. A script that torch.distributed.launch or deepspeed started has
``--local_rank=N`` as well, in front of its own words, and so it has here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import shell

if TYPE_CHECKING:
    from collections.abc import Sequence

# As torch.distributed.launch writes it from torch 2.0 on, and before (torch/distributed/run.py).
_DASHED, _OLD = "--local-rank", "--local_rank"
OF_LAUNCH = (
    "torch.distributed.launch gives a script --local-rank (before torch 2 --local_rank), and so "
    "does the command here: write the other where the script knows no other; with a script that "
    "reads LOCAL_RANK it may be python3 and the script alone"
)


def with_option(python: Sequence[str], option: str = _DASHED) -> tuple[str, ...]:
    """The words in front of a script, with which it gets the option in front of its own words.

    Args:
        python: what runs the script; () where it runs by itself.
        option: the option.
    """
    # A shell's $0 is the word behind its text: the script, which its own words follow.
    words = ("exec", *map(shell.quote, python), '"$0"', f'{option}="$LOCAL_RANK"', '"$@"')
    return ("sh", "-c", " ".join(words))


def of_image(command: Sequence[str], image: str) -> tuple[str, ...]:
    """A command whose option is that of the torch in its image.

    Args:
        command: a command, which may be one of `with_option`.
        image: the image's name, whose tag may tell the version of torch.
    """
    return tuple(
        word.replace(f' {_DASHED}="$LOCAL_RANK"', f' {_OLD}="$LOCAL_RANK"')
        if word.endswith('"$@"') and _has_torch_1(image)
        else word
        for word in command
    )


def _has_torch_1(image: str) -> bool:
    """Whether an image's tag says torch 0 or 1; NVIDIA's images had torch 2 from 23.03 on."""
    name, _, tag = image.rpartition(":")
    if name.rpartition("/")[2] not in ("pytorch", "torch") or "/" in tag:
        return False  # the tag of a person's own image says its own version
    month = re.match(r"(\d\d)\.(\d\d)(?!\d)", tag)
    if month is not None and "nvidia" in name:
        return (int(month[1]), int(month[2])) < _FIRST_WITH_TORCH_2
    return re.match(r"v?[01]\.\d", tag) is not None


_FIRST_WITH_TORCH_2 = (23, 3)
