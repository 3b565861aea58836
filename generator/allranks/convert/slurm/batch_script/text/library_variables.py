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
# CUDA's own; a site's modules have others of that beginning, such as CUDA_ROOT.
_OF_CUDA = frozenset(
    {*("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "CUDA_HOME")}
    | {*("CUDA_CACHE_PATH", "CUDA_PATH", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING")}
)


def is_read(name: str) -> bool:
    """Whether a library reads a variable.

    Args:
        name: its name.
    """
    is_of_gpus = name.startswith("CUDA_") and name not in _OF_CUDA
    return name in CACHES or (not is_of_gpus and _OF_LIBRARIES.fullmatch(name) is not None)
