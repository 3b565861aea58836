"""What sbatch refuses of the options that are typed before a script's name.

A line of the script that is none is said, and the rest is carried; who types an option sees at once
that it is none, and types it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm import amounts, options, sizes
from allranks.convert.slurm.batch_script.containers import images
from allranks.errors import InputError, InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.options import Setting

_IMAGES = ("image", "container-image")


def read(words: Sequence[str]) -> list[Setting]:
    """The options of a command line.

    Args:
        words: as typed, before the script's name.

    Raises:
        InvalidValues: some have texts that are none of their form; each is a problem.
        InputError: a word is none.
    """
    settings, rest = options.parse(list(words), "sbatch", 0)
    if rest:
        raise InputError(
            f"{rest[0]!r} is no option of sbatch's", hint="write options before the script's name"
        )
    misfits = dict(sizes.read(settings).misfits)
    for setting in settings:
        name, text = setting.name, setting.value
        if name == "time" and amounts.seconds(text) is None:
            misfits[name] = amounts.no_time(text)
        elif name == "signal" and amounts.signal(text) is None:
            misfits[name] = amounts.no_signal(text)
        elif name in _IMAGES and " " in text.strip() and images.image(text) is None:
            misfits[name] = f"{text!r} is no name of an image, such as ghcr.io/my/trainer:1.0"
    if misfits:
        hint = "correct it, or leave it out: the script's own then counts"
        raise InvalidValues([Problem(f"--{name}", why, hint) for name, why in misfits.items()])
    return settings
