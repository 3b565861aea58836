"""Whether a script's own image has PyTorch, whose launcher starts the run.

srun starts any program. The torchrun chart starts it by PyTorch's launcher, without which a pod
ends at once, whatever the program needs. A script that starts such a launcher itself shows that its
image has it; for others the report says it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.chart_values import image_demands
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from allranks.convert.slurm.draft import Draft

# Words of what runs where torch is alone: its launchers, its variables, and files called by it.
_OF_TORCH = re.compile(
    r"(?i)torch|(?<![a-z])(?:deepspeed|accelerate|megatron|composer|(?:fabric|lightning|colossalai)"
    r"\s+run)(?![a-z])"
)
# Images of frameworks that are made on PyTorch.
_WITH_TORCH = re.compile(
    r"(?i)torch|deepspeed|megatron|lightning|accelerate|axolotl|unsloth|colossalai|llm-foundry"
    r"|(?<![a-z])(?:(?:bio)?nemo|modulus|physicsnemo|verl|vllm|sglang|composer)(?![a-z])"
)
_NEEDED = (
    "the image needs PyTorch, whose launcher starts the run, and no line of the script shows that "
    f"it has it: {image_demands.LAUNCHER}"
)


def note(job: Draft) -> None:
    """Note what the launcher needs of an image that the script names.

    Args:
        job: the job, whose image is there.
    """
    values = job.fields.values
    image: Mapping[str, Any] = values.get("image") or {}
    name = f"{image.get('repository', '')}:{image.get('tag', '')}"
    code = shell_text.without_printing(words.without_comments(job.text))
    shows_torch = _WITH_TORCH.search(name) is not None or _OF_TORCH.search(code) is not None
    has_words = image_demands.lacks_torch(name) or any(
        "needs PyTorch" in text for text in job.fields.notes
    )
    if not (shows_torch or has_words or image_demands.installs_more(values)):
        job.fields.note(_NEEDED)
