from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.layout import diagram, render
from allranks.layout.compute import compute
from allranks.model.inventory import Amount, Inventory, Node
from allranks.model.job_spec import JobSpec, PodAmounts, Topology
from allranks.model.layout import Layout

GPU = "nvidia.com/gpu"
SVG = "{http://www.w3.org/2000/svg}"


def cluster(count: int, rack: int = 4, block: int = 8, gpus: int = 8) -> Inventory:
    """Nodes of this many GPUs in racks and blocks of these sizes; every third is half busy."""
    return Inventory(
        tuple(
            Node(
                f"gpu-{number}.pool.internal",
                gpus=Amount(gpus, gpus // 2 if number % 3 == 0 else gpus),
                rack=f"r{number // rack}" if rack else "",
                block=f"b{number // block}" if block else "",
                blocked="cordoned" if number == 1 else "",
            )
            for number in range(count)
        ),
        GPU,
    )


def job(**fields: int) -> JobSpec:
    """A job with shares per GPU."""
    pod = PodAmounts(per_gpu={"cpu": "12", "memory": "180Gi"})
    return JobSpec(gpu_resource=GPU, pod=pod, shm_per_gpu="8Gi", **fields)  # type: ignore[arg-type]


def drawing(spec: JobSpec, inventory: Inventory | None, title: str = "a job") -> ET.Element:
    """The picture, parsed; it must be valid XML."""
    text = render.svg(compute(spec, inventory), inventory, title)
    return ET.fromstring(text)  # noqa: S314 - our own output


def texts(root: ET.Element) -> list[str]:
    """Every line of text in the picture."""
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def cells(root: ET.Element, kind: str) -> int:
    """How many cells of a kind are drawn, the legend's not counted."""
    boxes = [rect for rect in root.iter(f"{SVG}rect") if f"f-{kind} " in f"{rect.get('class')} "]
    return sum(1 for box in boxes if box.get("width") == "19")


def test_rows_name_ranks_places_and_shares() -> None:
    """One row per pod in rank order, with what it gets and where it goes."""
    inventory = cluster(8)
    rows = render.rows(compute(job(gpus=16), inventory))
    assert rows[0] == {
        "ranks": "0-7",
        "pod": 0,
        "node": "gpu-4.pool.internal",
        "rack": "r1",
        "block": "b0",
        "procs": 8,
        "gpus": 8,
        "cpu": "96",
        "memory": "1440Gi",
        "shm": "64Gi",
    }
    assert rows[1]["ranks"] == "8-15"
    assert len({tuple(row) for row in rows}) == 1


def test_rows_without_an_inventory_leave_out_what_is_not_known() -> None:
    """Columns that would be empty are not there."""
    assert render.rows(compute(JobSpec(nodes=2))) == [
        {"ranks": "0", "pod": 0, "procs": 1},
        {"ranks": "1", "pod": 1, "procs": 1},
    ]


def test_rows_of_an_elastic_job_show_who_waits() -> None:
    """Pods that do not fit now are listed too, and say that they wait."""
    layout = compute(job(gpus_per_node=8, min_nodes=1, max_nodes=9), cluster(8))
    waiting = [row for row in render.rows(layout) if row["node"].startswith("(waits")]
    assert len(waiting) == 9 - len(layout.assignment)
    assert {"rack", "block"} <= set(waiting[0])


def test_a_small_cluster_shows_every_node_and_every_rank() -> None:
    """Blocks, racks, nodes with their GPUs, and the job's ranks in order."""
    root = drawing(job(gpus=16), cluster(8))
    labels = texts(root)
    assert {"block b0", "rack r0", "rack r1", "gpu-4", "gpu-5"} <= set(labels)
    assert [str(rank) for rank in range(16)] == [text for text in labels if text.isdigit()]
    assert {"ranks 0-7", "ranks 8-15", "cordoned"} <= set(labels)
    counts = {kind: cells(root, kind) for kind in ("job", "busy", "free", "off")}
    assert counts == {"job": 16, "busy": 12, "free": 28, "off": 8}


def test_the_heading_has_the_numbers() -> None:
    """Size, share, cluster and placement stand under the title."""
    topology = Topology("required", "rack", {"rack": "example.com/rack"})
    labels = texts(drawing(replace(job(gpus=16), topology=topology), cluster(8), "llama"))
    assert labels[0] == "llama"
    times = "\N{MULTIPLICATION SIGN}"
    assert labels[1] == (
        f"2 nodes {times} 8 GPUs = 16 GPUs, 16 processes; each pod CPU 96, memory 1440Gi, shm 64Gi"
    )
    assert labels[2] == (
        "the cluster has 8 nodes with 64 GPUs: 16 this job, 12 busy, 28 free, 8 not schedulable"
    )
    assert labels[3] == "placement required: example.com/rack in r1"


def test_a_large_cluster_shows_racks_and_the_rest_as_blocks() -> None:
    """Ten thousand nodes are a page: racks where the job is, blocks where it is not."""
    inventory = cluster(10_000, 32, 512)
    root = drawing(job(gpus=2048), inventory)
    labels = texts(root)
    assert "other blocks" in labels
    blocks = {text for text in labels if text.startswith("block ")}
    assert len(blocks) == 1
    ranges = [text for text in labels if re.fullmatch(r"\d+-\d+", text)]
    assert ranges[0].startswith("0-")
    assert ranges[-1].endswith("-2047")
    assert len(list(root.iter(f"{SVG}g"))) < 100
    assert "gpu-4" not in labels


@pytest.mark.parametrize(
    ("inventory", "level", "boxes"),
    [
        (cluster(300, 16, 64), "node", 300),
        (cluster(2000, 40, 200), "rack", 50),
        (cluster(2000, 0, 0), "rack", 1),
        (cluster(2000, 2, 2000), "block", 1),
    ],
)
def test_the_level_of_detail_follows_the_size(inventory: Inventory, level: str, boxes: int) -> None:
    """However the cluster is cut, the number of things drawn stays readable."""
    picture = diagram.build(compute(job(gpus=8), inventory), inventory)
    count = sum(len(group.boxes) for _, groups in picture.blocks for group in groups)
    assert (level, boxes) == (picture.level, count)
    assert len(inventory.nodes) * 8 == picture.usage.total
    assert picture.usage.job == 8


def test_a_job_of_many_pods_alone_is_drawn_in_runs() -> None:
    """Without an inventory a thousand pods are still one page, and none is lost."""
    picture = diagram.build(compute(job(gpus=8000, gpus_per_node=8)), None)
    boxes = [box for _, groups in picture.blocks for group in groups for box in group.boxes]
    assert sum(box.nodes for box in boxes) == 1000
    assert [rank for box in boxes for rank in box.ranks] == list(range(8000))
    assert len(boxes) <= diagram.FEW_TILES


def test_cpu_jobs_are_drawn_too() -> None:
    """Processes in each pod, or one cell per node where the cluster is known."""
    assert cells(drawing(JobSpec(nodes=2, procs_per_node=3), None), "job") == 6
    root = drawing(JobSpec(nodes=2, procs_per_node=3, gpu_resource=GPU), cluster(4))
    assert cells(root, "job") == 2
    assert "ranks 3-5" in texts(root)


def test_nodes_with_many_gpus_are_bars() -> None:
    """Seventy-two cells in a row would not be read."""
    root = drawing(job(gpus=64), cluster(8, gpus=72))
    assert cells(root, "job") == 0
    assert "ranks 0-63" in texts(root)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_escaped(title: str, note: str) -> None:
    """Whatever a title or a note holds, the document stays XML and shows it as text."""
    layout = Layout(1, 1, 1, 1, 1, notes=(note,))
    root = ET.fromstring(render.svg(layout, None, title))  # noqa: S314 - our own output
    head = root.find(f"{SVG}title")
    assert head is not None
    plain = re.sub(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", title)
    assert (head.text or "").split() == plain.split()
    assert root.find(f".//{SVG}script") is None


def test_the_same_input_gives_the_same_bytes() -> None:
    """A picture can be committed and compared."""
    inventory = cluster(40)
    layout = compute(job(gpus=64), inventory)
    first = render.svg(layout, inventory, "a")
    assert first == render.svg(compute(job(gpus=64), inventory), inventory, "a")
    assert first.endswith("</svg>\n")


def test_dark_viewers_get_colours_of_their_own() -> None:
    """Every colour that is drawn has a counterpart for dark screens."""
    inventory = cluster(8)
    text = render.svg(compute(job(gpus=16), inventory), inventory, "a")
    style = text[text.index("prefers-color-scheme: dark") : text.index("</style>")]
    class_lists = set(re.findall(r'class="([^"]+)"', text))
    for name in {name for classes in class_lists for name in classes.split()}:
        assert f".{name}{{" in style
