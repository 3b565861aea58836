"""Variables that well-known libraries read of the environment, where no line of a script does."""

from __future__ import annotations

import re

# Where Hugging Face's libraries look for models and data.
CACHES = frozenset(
    {*("HF_HOME", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")}
    | {*("TRANSFORMERS_CACHE", "HF_DATASETS_CACHE")}
)
_OF_LIBRARIES = re.compile(
    r"(?!\w+_VERSION\Z)(?:HF|HUGGINGFACE|HUGGING_FACE|TRANSFORMERS|DIFFUSERS|WANDB|MLFLOW|COMET|NCCL|CUDA|TORCH"
    r"|PYTORCH|TORCHINDUCTOR|TRITON|XLA|JAX|TF|OMP|MKL|OPENBLAS|UCX|XDG|NLTK|MPL|KERAS|RAY"
    r"|SENTENCE_TRANSFORMERS|TIKTOKEN)_[A-Z0-9_]+"
    r"|MPLCONFIGDIR|U2NET_HOME|OPENAI_API_KEY|NUMEXPR_NUM_THREADS|TOKENIZERS_PARALLELISM"
)


def is_read(name: str) -> bool:
    """Whether a library reads a variable.

    Args:
        name: its name.
    """
    return name in CACHES or _OF_LIBRARIES.fullmatch(name) is not None
