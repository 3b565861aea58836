"""`python -m tests.corpus FOLDER`: convert every job below a folder, and render the values.

The folder is one of public projects' manifests and batch scripts, which are fetched for this and
never kept in the repository. A job is converted, converted with something lost, or refused with a
reason; it is wrong where the converter raises anything else, or where helm does not take the
values. Helm templates, YAML that is none, and scripts without a directive are left out.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import documents_of
from allranks.convert.slurm import job as sbatch
from allranks.errors import AllranksError, InputError, InvalidValues
from allranks.helm.binary import inspect
from allranks.service import prepare, render
from allranks.values.sources import Sources
from allranks.yamlio import dump, load
from tests.conftest import find_helm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.convert.documents.document import Document
    from allranks.convert.verdicts import Conversion
    from allranks.helm.binary import HelmBinary

CONVERTED, LOST, REFUSED, WRONG = "converted", "with loss", "refused", "wrong"
COLUMNS = (CONVERTED, LOST, REFUSED, WRONG)
_SUFFIXES = (".yaml", ".yml", ".json")
_DIRECTIVE = re.compile(rb"^#SBATCH\s", re.MULTILINE)
_TEMPLATE = re.compile(rb"\{\{|\{%|<%")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of an object.

    Attributes:
        place: its file, and its line.
        kind: its kind, with its API group.
        outcome: one of `COLUMNS`.
        text: the values and what was said, or the reason.
    """

    place: str
    kind: str
    outcome: str
    text: str


def documents(path: Path) -> list[Document]:
    """The objects of a file; none for a file that is no YAML."""
    try:
        return list(documents_of(load.load_objects(path.read_bytes(), str(path))))
    except InputError:
        return []


def judge(path: Path, helm: HelmBinary | None) -> Iterator[Judgement]:
    """Convert the jobs of a file, each by itself, and render them.

    Args:
        path: the file.
        helm: the helm that renders; None renders nothing.
    """
    for place, kind, convert in _jobs(path):
        try:
            conversion = convert()
        except InvalidValues as error:
            text = "; ".join(
                f"{problem.path}: {problem.message} ({problem.source}) [{problem.hint}]"
                for problem in error.problems
            )
            yield Judgement(place, kind, REFUSED, text)
        except InputError as error:
            problem = error.problem
            text = f"{problem.path}: {problem.message} [{problem.hint}]"
            yield Judgement(place, kind, REFUSED, text)
        except Exception:  # noqa: BLE001 - what else it raises is what is looked for
            yield Judgement(place, kind, WRONG, traceback.format_exc())
        else:
            fault = _fault(conversion, helm)
            outcome = WRONG if fault else LOST if conversion.lost else CONVERTED
            yield Judgement(place, kind, outcome, f"{_text(conversion)}{fault}")


def _jobs(path: Path) -> Iterator[tuple[str, str, Callable[[], Conversion]]]:
    """The place and the kind of each job of a file, and what converts it."""
    if path.suffix not in _SUFFIXES:
        data = path.read_bytes()
        if _DIRECTIVE.search(data) and not _TEMPLATE.search(data):
            yield str(path), sbatch.KIND, partial(sbatch.convert, data, path.name)
        return
    objects = documents(path)
    context = Context(tuple(objects))
    for document in filter(registry.is_job, objects):
        convert = partial(registry.convert_document, document, context)
        yield document.where, f"{document.group}/{document.kind}", convert


def _fault(conversion: Conversion, helm: HelmBinary | None) -> str:
    """What is wrong with the values of a conversion; "" for nothing."""
    if "workload" not in conversion.values:
        return ""  # a queue's
    name = "values.yaml"
    # What a job's queue says is not here.
    shared = {"image": {"repository": "queue"}} if conversion.queue else {}
    values = {**shared, **conversion.values}
    sources = Sources(files=(name,), contents={name: dump.dump(values).encode()})
    try:
        prepared = prepare.prepare(sources, release=conversion.name, by_helm=False)
        if helm is not None and not _needs_search(conversion):
            render.manifests(prepared, helm, conversion.name, conversion.namespace or "default")
    except AllranksError as error:
        return f"\n{type(error).__name__}: {error}"
    return ""


def _needs_search(conversion: Conversion) -> bool:
    """Whether it is a sweep that plain Helm does not render."""
    sweep = conversion.values.get("sweep", {})
    if "goal" in sweep.get("objective", {}) or sweep.get("earlyStopping"):
        return True
    workload = sweep.get("trial", {}).get("workload")
    if workload == "torchrun" and "parallel" in sweep:
        return True  # trials with objects of their own
    return sweep.get("search", "grid") != "grid" or workload in ("mpi", "elastic")


def _text(conversion: Conversion) -> str:
    verdicts = "".join(f"#   {verdict}\n" for verdict in conversion.verdicts if verdict.why)
    notes = "".join(f"# note: {note}\n" for note in conversion.notes)
    return f"# {conversion.summary()}\n{verdicts}{notes}{dump.dump(conversion.values)}"


def main() -> int:
    """Judge a folder; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", type=Path, help="a file for what became of each")
    parser.add_argument("--no-render", action="store_true", help="only validate the values")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--sample", type=int, help="report on so many of them, drawn by a seed")
    arguments = parser.parse_args()
    helm = None if arguments.no_render else inspect(find_helm(4).path)
    judgements: list[Judgement] = []
    for path in sorted(arguments.folder.rglob("*")):
        if path.is_file() and arguments.only in str(path):
            judgements += judge(path, helm)
    _table(judgements)
    is_wrong = any(item.outcome == WRONG for item in judgements)
    if arguments.report is not None:
        if arguments.sample is not None:
            count = min(arguments.sample, len(judgements))
            judgements = random.Random(count).sample(judgements, count)  # noqa: S311 - no secret
        text = "\n".join(
            f"===== {item.outcome}: {item.kind} {item.place}\n{item.text}" for item in judgements
        )
        arguments.report.write_text(text)
    return 1 if is_wrong else 0


def _table(judgements: list[Judgement]) -> None:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for item in judgements:
        kinds[item.kind][item.outcome] += 1
    width = max((len(kind) for kind in kinds), default=4)
    print(f"{'kind':{width}}", *(f"{column:>10}" for column in COLUMNS))
    for kind, counts in sorted(kinds.items()):
        print(f"{kind:{width}}", *(f"{counts[column]:>10}" for column in COLUMNS))
    total = Counter(item.outcome for item in judgements)
    print(f"{'all':{width}}", *(f"{total[column]:>10}" for column in COLUMNS))
    for item in judgements:
        if item.outcome == WRONG:
            print(f"wrong: {item.place}\n{item.text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
