"""How long the timeline of a run of 10,000 pods takes, and how much memory, from its objects.

python -m tests.bench.timeline
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc

from allranks.cli import status_view
from allranks.status.reduce import reduce
from allranks.timeline import goodput, of_objects, otlp, page, text
from tests.unit.status import samples

PODS = 10_000
SECONDS, MIB = 2.0, 200.0


def main() -> int:
    """Print the table; 1 where one form is over the budget."""
    retried = [samples.failed(index, 1, suffix="old") for index in range(PODS // 10)]
    pods = retried + [samples.ready(index) for index in range(PODS)]
    observation = samples.observe(samples.job(pods=PODS), pods=json.loads(json.dumps(pods)))
    leads = frozenset({"demo-0-x7k2p"})

    def built() -> of_objects.Timeline:
        return of_objects.build(observation, reduce(observation), {}, leads)

    forms = {
        "text": lambda: list(text.lines(built(), 100, status_view.length)),
        "html": lambda: page.html(run := built(), goodput.of(run), status_view.length),
        "json": lambda: json.dumps(built().as_dict()),
        "otlp": lambda: [json.dumps(body) for body in otlp.requests(built(), "1")],
    }
    is_over = False
    print(f"timeline of {len(pods):,} pods    seconds    MiB besides the objects")
    for name, form in forms.items():
        began = time.process_time()
        form()
        took = time.process_time() - began
        tracemalloc.start()
        form()
        mib = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        is_over |= took > SECONDS or mib > MIB
        print(f"{name:<24}{took:>8.2f}{mib:>8.0f}")
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
