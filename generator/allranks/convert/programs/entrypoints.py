"""What a container without a command runs: the image decides, and a few images are known.

`COMMANDS` has the ENTRYPOINTs of the Dockerfiles of the examples of kubeflow/training-operator,
kubeflow/kubeflow and kubeflow/mpi-operator and of kubeflow/katib's trial images, as far as they
were looked up; an image of the same name may have been built of another version. So what is taken
from here is said, and --entrypoint wins.
"""

from __future__ import annotations

import re

_MNIST = ("python", "/opt/mnist/src/mnist.py")
_TORCHRUN = ("python", "-m", "torch.distributed.run")
# By the image's name without registry, and without its tag where that does not matter.
COMMANDS: dict[str, tuple[str, ...]] = {
    "kubeflow/pytorch-dist-mnist": _MNIST,
    "kubeflow/pytorch-dist-mnist-test": _MNIST,
    "kubeflow/training-v1/pytorch-dist-mnist": _MNIST,
    "kubeflow/pytorch-dist-sendrecv-test": ("python", "/opt/mlkube/dist_sendrecv.py"),
    "kubeflow/pytorch-elastic-example-echo": _TORCHRUN,
    "kubeflow/pytorch-elastic-example-imagenet": _TORCHRUN,
    "kubeflow/tf-dist-mnist-test": ("python", "/var/tf_dist_mnist/dist_mnist.py"),
    "kubeflow/tf-mnist-with-summaries": ("python", "/var/tf_mnist/mnist_with_summaries.py"),
    "kubeflow/xgboost-dist-iris": ("python", "/opt/mlkube/main.py"),
    "kubeflow/xgboost-dist-rabit-test": ("python", "/opt/mlkube/xgboost_smoke_test.py"),
    "kubeflow/lightgbm-dist-py-test": ("python", "/app/main.py"),
    "kubeflow/tf-distributed-worker": (
        *("python", "/keras_model_to_estimator.py", "/tmp/tfkeras_example/"),  # noqa: S108
    ),
    "kubeflow/tf-multi-worker-strategy": (
        *("python", "/multi_worker_strategy-with-keras.py"),
        *("--saved_model_dir", "/train/saved_model/", "--checkpoint_dir", "/train/checkpoint"),
    ),
    "kubeflow/jaxjob-dist-spmd-mnist": ("python3", "spmd_mnist_classifier_fromscratch.py"),
    "kubeflow/mxnet-gpu": (
        *("python3", "/mxnet/mxnet/example/image-classification/train_mnist.py"),
    ),
    "kubeflowkatib/pytorch-mnist": ("python3", "/opt/pytorch-mnist/mnist.py"),
    "kubeflowkatib/pytorch-mnist-cpu": ("python3", "/opt/pytorch-mnist/mnist.py"),
    "kubeflowkatib/pytorch-mnist-gpu": ("python3", "/opt/pytorch-mnist/mnist.py"),
    "kubeflowkatib/tf-mnist-with-summaries": ("python3", "/opt/tf-mnist-with-summaries/mnist.py"),
    # It tells its arguments, a whole command, of the hosts that TF_CONFIG has.
    "kubeflow/tf-benchmarks-cpu": ("/opt/launcher.py",),
    "kubeflow/tf-benchmarks-gpu": ("/opt/launcher.py",),
    # It finds Intel's MPI, which is on no PATH, and runs its arguments.
    "mpioperator/intel": ("/entrypoint.sh",),
    "mpioperator/mpi-pi:intel": ("/entrypoint.sh",),
}
# Programs that nobody gives to another one as its arguments: an image whose container has these as
# args has an entry point that runs its arguments.
_PROGRAMS = re.compile(
    r"(?:/\S*/)?(?:python[0-9.]*|bash|sh|torchrun|mpirun|mpiexec|horovodrun|accelerate|deepspeed"
    r"|env|numactl|nsys|srun|conda|uv|poetry|sshd)|/\S+/\S+(?<!\.py)"
)


def of(image: str) -> tuple[str, ...]:
    """The entry point of a known image; () for every other.

    Args:
        image: its name, with registry and tag.
    """
    parts = image.partition("@")[0].split("/")
    if len(parts) > 1 and re.search(r"[.:]", parts[0]):
        parts = parts[1:]
    name = "/".join(parts)
    return COMMANDS.get(name) or COMMANDS.get(name.partition(":")[0], ())


def runs_its_arguments(args: tuple[str, ...]) -> bool:
    """Whether args are a whole command, which the image's entry point then runs.

    Args:
        args: a container's args.
    """
    return bool(args) and _PROGRAMS.fullmatch(args[0]) is not None
