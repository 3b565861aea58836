"""Which nodes a job runs on: hosts, features, types of GPUs, and how near they are, as values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.slurm import hostlist, sizes
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome
from allranks.humanize import list_some
from allranks.k8s.object_names import is_dns_1123_subdomain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.draft import Draft
    from allranks.convert.slurm.options import Setting

_HOSTS_SHOWN = 1_000
# A slice of a GPU, at the end of what Slurm calls it: nvidia_h100_80gb_hbm3_3g.40gb.
_SLICE = re.compile(r"(?:^|_)(\d+g\.\d+gb)$")

# What a script for GPUs of AMD's says, and one for NVIDIA's.
_ROCM = re.compile(
    r"\s--rocm\b|\b(?:ROCR|HIP)_VISIBLE_DEVICES=|\b(?:MIOPEN|HSA|ROCM|RCCL)_\w+="
    r"|\b(?:module\s+(?:load|add)|ml)\s[^\n]*(?:rocm|\bamd-mixed|PrgEnv-amd|accel-amd|amdgpu)"
    r"|rocm[\w.+-]*\.(?:sif|simg|img|sqsh)\b|/rocm[-\d.]*/|/whl/(?:\w+/)?rocm|[=:/\s]rocm/|\brocm-smi\b"
    r"|\b(?:rocprof|roctracer|omniperf|omnitrace|hipcc)\b|\b(?:setup|activate|load)_rocm\b"
)
_MAY_BE_OF_AMD = "the line is for GPUs of AMD's: take it and gpuResource out where they are not"
# The names that AMD gives its GPUs, in that of a partition.
_OF_AMD = re.compile(r"(?i)(?<![a-z0-9])mi(?:50|60|100|2[15]0x?|3[0-5]0[ax]?|3[235]5x)(?![a-z0-9])")
_CUDA = re.compile(
    r"\b(?:module\s+(?:load|add)|ml)\s[^\n]*(?:cuda|nvhpc|nvidia)|\bnvidia-smi\b|/cuda[-\d.]*/",
    re.IGNORECASE,
)


def put_maker(job: Draft) -> None:
    """Ask for GPUs of AMD's where the script is for them, and no type says whose they are."""
    values = job.fields.values
    code = words.without_comments(job.text)
    has_gpus = "gpusPerNode" in values or "gpus" in values
    if _CUDA.search(code) or not has_gpus or "gpuResource" in values:
        return
    if sizes.products(job.size.gpu_types):
        return
    partition, match = job.settings.get("partition"), _ROCM.search(code)
    if match is not None:
        key = job.key("ROCm", code.count("\n", 0, match.end()) + 1)
    elif partition is not None and _OF_AMD.search(partition.value):
        key = job.key("GPUs of the partition", partition.line)
    else:
        return
    job.fields.put(("gpuResource",), "amd.com/gpu", (key,))
    # A cache of MIOpen's stays in a copy of a script from another cluster.
    is_sure = match is None or not match[0].startswith("MIOPEN")
    why = "the GPUs are AMD's" if is_sure else _MAY_BE_OF_AMD
    job.fields.say((key,), Outcome.CHANGED, "gpuResource", why)


def put_gpu_type(job: Draft, option: str) -> None:
    """Carry the type of the GPUs that an option asks for."""
    types = job.size.gpu_types
    if not types:
        return
    if any(kind in sizes.AMD for kind in types):
        job.put(option, ("gpuResource",), "amd.com/gpu")
        job.say(
            option,
            Outcome.CHANGED,
            "gpusPerNode, gpuResource",
            "the GPU is AMD's; its type is a label of your nodes",
        )
        return
    slices = {match[1] for kind in types if (match := _SLICE.search(kind))}
    if len(slices) == len(types) == 1:
        job.put(option, ("gpuResource",), f"nvidia.com/mig-{slices.pop()}")
        why = "a slice is a resource of that name with the GPU operator's MIG strategy `mixed`"
        to = "gpusPerNode, gpuResource"
        whole = sizes.products(_SLICE.sub("", kind) for kind in types)
        if whole:
            _affinity(job, option, "nvidia.com/gpu.product", whole)
            to += ", scheduling.affinity"
        job.say(option, Outcome.CHANGED, to, why)
        return
    products = sizes.products(types)
    if not products:
        type_names = ", ".join(types)
        job.say(
            option,
            Outcome.NOT_CARRIED,
            "gpuType.value",
            f"{type_names} is what your site calls a GPU: write the value of the label "
            "nvidia.com/gpu.product",
        )
        return
    if len(products) == 1:
        job.put(option, ("gpuType", "value"), products[0])
        to = "gpusPerNode, gpuType.value"
    else:
        _affinity(job, option, "nvidia.com/gpu.product", products)
        to = "gpusPerNode, scheduling.affinity"
    rule = job.settings[option].option if option == "gpus-per-task" else None
    of_task = f"; {rule.why}" if rule is not None else ""
    why = f"the type is the label nvidia.com/gpu.product{of_task}"
    job.say(option, Outcome.CHANGED, to, why)


def _affinity(job: Draft, option: str, key: str, values: Sequence[str]) -> None:
    """Add a demand on nodes."""
    base = (
        "scheduling",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    node: Any = job.fields.values
    for step in base:
        node = node.get(step, {}) if isinstance(node, dict) else {}
    terms = node if isinstance(node, list) else []
    expressions = [*terms[0]["matchExpressions"]] if terms else []
    expressions.append({"key": key, "operator": "In", "values": list(values)})
    job.put(option, base, [{"matchExpressions": expressions}])


def nodelist(job: Draft, setting: Setting) -> None:
    """Carry the hosts that a job wants, or wants not."""
    try:
        hosts = hostlist.expand(setting.value)
    except ValueError as error:
        job.say(setting.name, Outcome.NOT_CARRIED, "", f"it is no list of hosts: {error}")
        return
    if not hosts or len(hosts) > _HOSTS_SHOWN or "/" in setting.value:
        job.say(
            setting.name,
            Outcome.NOT_CARRIED,
            "scheduling.affinity",
            "write the nodes by a label of theirs",
        )
        return
    hosts = [host.lower() for host in hosts]  # as the kubelet writes them
    longest = names.DNS_LABEL_MAX  # of the label that has the name of its node
    wrong = [host for host in hosts if not is_dns_1123_subdomain(host, longest=longest)]
    if wrong:
        why = f"no node of Kubernetes has such a name: {list_some(wrong)}"
        job.say(setting.name, Outcome.NOT_CARRIED, "scheduling", why)
        return
    is_count = "nodes" not in job.settings and len(hosts) == job.size.nodes
    to = "nodes, scheduling.affinity" if is_count else "scheduling.affinity"
    if setting.name == "exclude":
        to = "scheduling.avoidNodes"
        job.put(setting.name, ("scheduling", "avoidNodes"), list(dict.fromkeys(hosts)))
    else:
        _affinity(job, setting.name, names.HOSTNAME, hosts)
    job.say(
        setting.name,
        Outcome.CHANGED,
        to,
        f"by the label {names.HOSTNAME}: write other names where the nodes have others",
    )


def constraint(job: Draft, setting: Setting) -> None:
    """Carry features that are types of GPUs."""
    features = re.split(r"[|]", setting.value.strip("()[]\"' "))
    products = sizes.products([feature.strip().lower() for feature in features])
    is_whole = all(sizes.products([feature.strip().lower()]) for feature in features)
    if products and is_whole:
        _affinity(job, setting.name, "nvidia.com/gpu.product", products)
        job.say(
            setting.name,
            Outcome.CHANGED,
            "scheduling.affinity",
            "the type is the label nvidia.com/gpu.product",
        )
        return
    job.say(
        setting.name,
        Outcome.NOT_CARRIED,
        "scheduling.nodeSelector",
        "a feature of a node is a label here: write that which your nodes have",
    )


def topology(job: Draft, setting: Setting) -> None:
    """Prefer nodes that are near each other."""
    job.put(setting.name, ("scheduling", "topology", "mode"), "preferred")
    job.say(
        setting.name,
        Outcome.CHANGED,
        "scheduling.topology.mode",
        "nodes that are near each other are preferred",
    )
