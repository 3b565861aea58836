"""`python -m tests.fuzz.manifests`: many mutated manifests, converted; what is wrong with any.

Whatever comes in, a conversion ends with an error that a person can read, or with values that are
valid, that are read back as they are, and with a verdict for every field.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import random
import sys
import time
import traceback
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document
from allranks.convert.verdicts import Outcome, leaves
from allranks.errors import AllranksError, InputError
from allranks.service import convert, prepare
from allranks.values.sources import Sources
from allranks.yamlio.load import load, load_objects

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

DATA = Path(__file__).parents[1] / "data" / "convert"
# What people write, and what nobody should.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**40, 0.5, 1e-9, float("1e300")),
    *("", " ", "0", "8", "auto", "1e3", "-1", "$(X)", "$$(X)", "${X}", "a b", "x" * 300, "ü", "\0"),
    *("\ud800", "yes", "null", "~", "#", "a: b", "100", "8Gi", "500m", "1.5", "nvidia.com/gpu"),
    *("bash", "-c", "torchrun --nnodes 2 a.py", "if true; then", "mpirun -np 2 x | tee y", "'"),
    *("cd /a && torchrun x.py $A", "set -e\npython a.py\n", "python a.py # b", "cat <<E\nx\nE\n"),
    *([], {}, [None], [[]], [{}], {"a": None}, {"name": "x"}, ["a", 1, None], {"": ""}),
    *({"name": 3}, [{"name": "a"}, {"name": "a"}], {"$patch": "delete"}, {"a.b/c": "d"}),
    *({"nvidia.com/gpu": 4}, {"amd.com/gpu": "2"}, {"cpu": 1e-3}, {"limits": {"memory": "1"}}),
    *({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"valueFrom": {}}),
    *(
        {"emptyDir": {"medium": "Memory", "sizeLimit": 1}},
        "Never",
        "Always",
        "OnFailure",
        "ExitCode",
    ),
)
KEYS = (
    *("name", "image", "command", "args", "env", "resources", "volumes", "replicas", "template"),
    *("spec", "metadata", "labels", "containers", "hostNetwork", "dnsPolicy", "schedulerName"),
    *("restartPolicy", "securityContext", "nodeSelector", "priority", "$patch", "", "x.y", "ü"),
    *("ownerReferences", "elasticPolicy", "runPolicy", "serviceAccountName", "items"),
)


@cache
def bases() -> tuple[dict[str, Any], ...]:
    """The jobs of our own samples."""
    runtimes: list[dict[str, Any]] = []
    for path in sorted(DATA.glob("*.yaml")):
        for document, _ in load_objects(path.read_bytes(), path.name):
            kind = (
                str(document.data.get("apiVersion")).partition("/")[0],
                document.data.get("kind"),
            )
            if kind in registry.KINDS:
                runtimes.append(document.data)
    return tuple(runtimes)


@cache
def runtimes() -> tuple[Document, ...]:
    """The runtimes of our own samples."""
    return tuple(
        Document(document.data, path.name)
        for path in sorted(DATA.glob("*.yaml"))
        for document, _ in load_objects(path.read_bytes(), path.name)
        if str(document.data.get("kind")).endswith("TrainingRuntime")
    )


def mutated(seed: int, number: int) -> dict[str, Any]:
    """The manifest of a number: a sample with a few changes."""
    random_numbers = random.Random(f"{seed}-{number}")  # noqa: S311 - no secret
    manifest = copy.deepcopy(random_numbers.choice(bases()))
    for _ in range(random_numbers.choice((1, 1, 2, 3, 6))):
        _mutate(manifest, random_numbers)
    return manifest


def _mutate(manifest: dict[str, Any], random_numbers: random.Random) -> None:
    """Change one place: a value, a key, an item more or less."""
    places: list[tuple[Any, Any]] = []
    _places(manifest, places)
    if not places:
        return
    node, key = random_numbers.choice(places)
    action = random_numbers.randrange(8)
    value = copy.deepcopy(random_numbers.choice(_VALUES))
    if action < 3:
        node[key] = value
    elif action == 3:
        del node[key]
    elif action == 4 and isinstance(node, dict):
        node[random_numbers.choice(KEYS)] = node.pop(key)
    elif action == 5 and isinstance(node, dict):
        node[random_numbers.choice(KEYS)] = value
    elif action == 6 and isinstance(node, list):
        node.insert(random_numbers.randrange(len(node) + 1), value)
    else:
        other, other_key = random_numbers.choice(places)
        node[key] = copy.deepcopy(other[other_key])


def _places(node: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            places.append((node, key))
            _places(value, places)
    elif isinstance(node, list):
        for key, value in enumerate(node):
            places.append((node, key))
            _places(value, places)


def judge(manifest: dict[str, Any]) -> tuple[str, str]:
    """What became of a manifest in a word, and what is wrong with that; "" for nothing."""
    source = copy.deepcopy(manifest)
    document = Document(manifest, "job.yaml", 1)
    try:
        context = Context(runtimes=runtimes(), entrypoint=("python", "a.py"))
        result = convert.values_of([document], context)
        wrong = [_wrong(conversion, source) for conversion in result.conversions]
    except AllranksError as error:
        return "refused", "" if str(error).strip() else "an error without words"
    except Exception:  # noqa: BLE001 - what is looked for
        return "crash", traceback.format_exc()
    if repr(manifest) != repr(source):
        wrong.append("the manifest was changed")
    if any(wrong):
        return "wrong", "; ".join(filter(None, wrong))
    return ("whole" if result.is_whole else "with a loss"), ""


def _wrong(conversion: Conversion, source: dict[str, Any]) -> str:
    """What is wrong with a conversion; "" for nothing."""
    if [verdict.path for verdict in conversion.verdicts] != list(leaves(source)):
        return "a field has no verdict"
    changed = conversion.of(Outcome.CHANGED, Outcome.NOT_CARRIED)
    is_queue = "workload" not in conversion.values
    silent = [str(item) for item in changed if not item.why and item.to != "workload"]
    if silent and not is_queue:
        return f"no reason: {silent}"
    text = convert.values_file(conversion)
    try:
        data = load(text, "values.yaml").data
    except AllranksError as error:
        return f"unreadable: {error}"
    return _problems(conversion, text, data, is_queue=is_queue)


def _problems(conversion: Conversion, text: str, data: Any, *, is_queue: bool) -> str:
    """What `allranks validate` says of the values file."""
    if data != conversion.values:
        return "the file does not say what the values are"
    if is_queue:
        return ""
    sources = Sources(("values.yaml",), contents={"values.yaml": text.encode()})
    try:
        prepare.prepare(sources, release=conversion.name, by_helm=False)
    except InputError as error:
        return f"invalid: {error}"
    return ""


def _judge(seed: int, number: int) -> tuple[int, str, str]:
    return (number, *judge(mutated(seed, number)))


def main() -> int:
    """Judge the cases that the command line asks for; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.manifests", description=__doc__)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    start, counts, wrong = time.monotonic(), Counter[str](), 0
    numbers = range(arguments.start, arguments.start + arguments.count)
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for number, word, report in pool.imap_unordered(
            partial(_judge, arguments.seed), numbers, chunksize=64
        ):
            counts[word] += 1
            if report:
                wrong += 1
                print(f"\nseed {arguments.seed}, case {number}: {word}\n{report}", flush=True)
    print(f"\n{arguments.count} converted in {time.monotonic() - start:.0f} s, {wrong} wrong")
    for word, count in counts.most_common():
        print(f"{count:7}  {word}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
