"""What `validate --fix` makes of values files: which fixes, in which file, and why not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InvalidValues
from allranks.service import fix, prepare
from allranks.values import resolve
from allranks.values.sources import Sources
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """\
# The job.
workload: torchrun  # which chart
image: {repository: my/trainer, tag: "1.0"}
command: [python, train.py]  # what runs
nodes: 2  # how many
# The end.

"""


def sources(folder: Path, *texts: str, sets: tuple[tuple[str, str], ...] = ()) -> Sources:
    """Values files of these texts, and flags."""
    names = []
    for number, text in enumerate(texts):
        path = folder / f"v{number}.yaml"
        path.write_bytes(text.encode())
        names.append(str(path))
    return Sources(files=tuple(names), sets=sets)


def fixed(folder: Path, text: str, *, with_unsafe: bool = False) -> str:
    """The text after all its fixes."""
    plan = fix.plan(sources(folder, text), with_unsafe=with_unsafe)
    return plan.files[0].after.decode() if plan.files else text


def reasons(plan: fix.FixPlan) -> dict[str, str]:
    """Why a fix was left out, by the path of its problem."""
    return {note.problem.path: note.reason for note in plan.omissions}


# What was written, and what it has to be.
MUTATED: dict[str, tuple[str, str, bool]] = {
    "a number where text is wanted": ("env: {A: 1}\n", 'env: {A: "1"}\n', False),
    "a number as it was typed": ("args: [--lr, 1e-5] # x\n", 'args: [--lr, "1e-5"] # x\n', False),
    "one spelled with a base": ("env:\n  A: 0x1F # x\n", 'env:\n  A: "0x1F" # x\n', False),
    "a boolean where text is wanted": ("env: {A: yes}\n", 'env: {A: "yes"}\n', False),
    "text where a number is wanted": ('procsPerNode: "4"\n', "procsPerNode: 4\n", False),
    "a number in another notation": ('procsPerNode: "4.0"\n', "procsPerNode: 4\n", False),
    "text where a boolean is wanted": (
        "serviceAccount: {automountToken: 'yes'}\n",
        "serviceAccount: {automountToken: true}\n",
        False,
    ),
    "1 where a boolean is wanted": (
        "serviceAccount: {automountToken: 1}\n",
        "serviceAccount: {automountToken: true}\n",
        False,
    ),
    "a time with its unit": (
        "runPolicy:\n  activeDeadlineSeconds: 10m # x\n",
        "runPolicy:\n  activeDeadlineSeconds: 600 # x\n",
        False,
    ),
    "a size with a unit of its own": ("shm:\n  size: 16gb\n", 'shm:\n  size: "16G"\n', False),
    "a size without a unit": ("shm: {size: 16}\n", 'shm: {size: "16Gi"}\n', True),
    "a key with underscores": ("procs_per_node: 4 # x\n", "procsPerNode: 4 # x\n", False),
    "a slip in a key": ("torchrun: {maxRestart: 3}\n", "torchrun: {maxRestarts: 3}\n", False),
    "a slip in a key above": (
        "torchrn: # x\n  maxRestart: 3\n  port: '29400'\n",
        "torchrun: # x\n  maxRestarts: 3\n  port: 29400\n",
        False,
    ),
    "another tool's key": ("nproc_per_node: 4\n", "procsPerNode: 4\n", False),
    "another tool's key, elsewhere": (
        "retries: 3 # x\n",
        "runPolicy:\n  backoffLimit: 3 # x\n",
        False,
    ),
    "a key at the wrong place": (
        "backoffLimit: 3 # x\nrunPolicy:\n  # y\n  activeDeadlineSeconds: 60\n",
        "runPolicy:\n  # y\n  activeDeadlineSeconds: 60\n  backoffLimit: 3 # x\n",
        False,
    ),
    "a field of a pod": (
        "hostAliases: []  # x\n",
        "podTemplate:\n  spec:\n    hostAliases: []  # x\n",
        False,
    ),
    "a scalar where a list is wanted": ("args: --fast\n", 'args: ["--fast"]\n', False),
    "a number where a list is wanted": ("args: 5\n", 'args: ["5"]\n', False),
    "times that end otherwise": (
        "runPolicy: {ttlSecondsAfterFinished: 10m}\n",
        "runPolicy: {ttlSecondsAfterFinished: 600}\n",
        False,
    ),
    "a choice in another case": (
        "scheduling: {dialect: KAI}\nqueue: q\n",
        "scheduling: {dialect: kai}\nqueue: q\n",
        False,
    ),
    "a path without its slash": ("workingDir: work\n", "workingDir: /work\n", True),
    "GPUs that cannot be split": ("gpus: 15\n", "gpus: 14\n", True),
}


@pytest.mark.parametrize("name", MUTATED)
def test_a_fixed_file_is_valid_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    """Nothing is left to say, and to fix it again changes nothing."""
    wrong, right, is_guess = MUTATED[name]
    text = GOOD + wrong
    with pytest.raises(InvalidValues):
        prepare.prepare(sources(tmp_path, text))
    if is_guess:
        assert text == fixed(tmp_path, text), "a guess is written only when it is asked for"
    new = fixed(tmp_path, text, with_unsafe=is_guess)
    assert GOOD + right == new
    prepare.prepare(sources(tmp_path, new))
    assert new == fixed(tmp_path, new, with_unsafe=True)


SWEEP = """\
workload: sweep
sweep:
  objective: {metric: loss, direction: minimize}
  trial:
    workload: torchrun
    values: {image: {repository: a/b, tag: "1"}, command: [python, t.py]}
"""


@pytest.mark.parametrize("typed", ["3", "0.5", "true"])
def test_one_choice_of_a_parameter_keeps_its_type(typed: str, tmp_path: Path) -> None:
    """Choices may be numbers: a list of one has the number, and no text."""
    text = f"{SWEEP}  parameters: {{lr: {{values: %s, arg: --lr}}}}\n"
    assert text % f"[{typed}]" == fixed(tmp_path, text % typed)


def test_words_with_commas_are_no_certain_choice(tmp_path: Path) -> None:
    """Whoever writes '1,2' may mean two."""
    text = f"{SWEEP}  parameters: {{lr: {{values: '1,2', arg: --lr}}}}\n"
    assert text == fixed(tmp_path, text)


@pytest.mark.parametrize(
    "typed",
    [
        "resources: {env: {requests: {cpu: 1}}}\n",
        "reries: {create: true, annotations: {a: b}}\n",
    ],
)
def test_a_guess_that_makes_things_worse_is_left(typed: str, tmp_path: Path) -> None:
    """What stands below the key would be refused there, too."""
    assert GOOD + typed == fixed(tmp_path, GOOD + typed, with_unsafe=True)


def test_an_open_file_is_not_the_persons_own(tmp_path: Path) -> None:
    """What is read by a descriptor is nobody's to write: its name may be another file's by now."""
    path = tmp_path / "v.yaml"
    path.write_text(f"{GOOD}env: {{A: 1}}\n")
    with path.open() as file:
        name = f"/dev/fd/{file.fileno()}"
        (tmp_path / "link.yaml").symlink_to(name)
        for given_name in (name, str(tmp_path / "link.yaml")):
            plan = fix.plan(Sources(files=(given_name,)))
            assert {"env.A": f"{given_name} is an open file and not its name"} == reasons(plan)
            assert () == plan.files
            file.seek(0)


def test_what_stricter_readers_refuse_is_left(tmp_path: Path) -> None:
    """Helm takes a tab between words: the problems are told as ever, each with why it is left."""
    plan = fix.plan(sources(tmp_path, GOOD.replace("nodes: 2", 'nodes:\t"2"') + "env: {A: 1}\n"))
    assert () == plan.files
    assert {"nodes", "env.A"} == set(reasons(plan))
    assert all("stricter readers of YAML do not" in reason for reason in reasons(plan).values())


def test_a_value_in_place_of_another_form_of_the_same(tmp_path: Path) -> None:
    """An image in one word, and a command in one line, each with its comment."""
    text = "workload: torchrun\nimage: my/trainer:1.10 # the image\ncommand: python train.py # it\n"
    right = (
        'workload: torchrun\nimage: {repository: my/trainer, tag: "1.10"} # the image\n'
        "command: [python, train.py] # it\n"
    )
    assert right == fixed(tmp_path, text)
    shell = text.replace("train.py #", "train.py && touch done #")
    assert shell.replace("my/trainer:1.10", '{repository: my/trainer, tag: "1.10"}') == fixed(
        tmp_path, shell
    ), "a shell would have done something else with it"


def test_what_was_not_wrong_has_no_plan(tmp_path: Path) -> None:
    """No file changes."""
    plan = fix.plan(sources(tmp_path, GOOD), with_unsafe=True)
    assert ((), (), ()) == (plan.files, plan.applied, plan.omissions)


def test_the_file_that_gives_a_value_is_fixed(tmp_path: Path) -> None:
    """The last one that has it; what an earlier file has is wrong no more."""
    first = GOOD + 'procsPerNode: "4"\nenv: {A: 1}\n'
    plan = fix.plan(sources(tmp_path, first, 'procsPerNode: "8"\n'))
    after = [file.after.decode() for file in plan.files]
    assert [GOOD + 'procsPerNode: "4"\nenv: {A: "1"}\n', "procsPerNode: 8\n"] == after


def test_an_unknown_key_goes_from_every_file(tmp_path: Path) -> None:
    """The order of the files decides as it did."""
    plan = fix.plan(sources(tmp_path, GOOD + "retries: 1\n", "retries: 2\nnodes: 3\n"))
    after = [file.after.decode() for file in plan.files]
    policy = "runPolicy:\n  backoffLimit: "
    assert [f"{GOOD}{policy}1\n", f"nodes: 3\n{policy}2\n"] == after


def test_one_file_by_two_names_is_one_file(tmp_path: Path) -> None:
    """It is changed once."""
    given_once = sources(tmp_path, GOOD + "env: {A: 1}\n")
    link = tmp_path / "link.yaml"
    link.symlink_to(given_once.files[0])
    plan = fix.plan(Sources(files=(given_once.files[0], str(link))))
    assert 1 == len(plan.files)


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        (("set", "env.A=1"), "env.A"),
        (("set-string", "procsPerNode=4"), "procsPerNode"),
        (("set", "retries=3"), "retries"),
    ],
)
def test_a_flag_is_not_written_into_a_file(
    flag: tuple[str, str], path: str, tmp_path: Path
) -> None:
    """It is said where the value comes from."""
    plan = fix.plan(sources(tmp_path, GOOD, sets=(flag,)))
    assert () == plan.files
    assert {path} == set(reasons(plan))
    assert f"it comes from --{flag[0]} " in reasons(plan)[path]


@pytest.mark.parametrize(
    ("lines", "path", "reason"),
    [
        ("x: &a 1\nenv: {A: *a}\n", "env.A", "the value comes from an alias"),
        ("env: {A: &a 1, B: *a}\n", "env.A", "it has an anchor, &a, by which others repeat it"),
        ("nodes_: 3\n", "nodes_", "the file has nodes already"),
        ("retries: [3]\n", "retries", "runPolicy.backoffLimit does not take what stands there"),
        (
            "retries: 3\nrunPolicy: {}\n",
            "retries",
            "runPolicy has no lines of its own to add one to",
        ),
        ("args: >-\n  a\n  b\n", "args", "the value is written over several lines"),
        ("gpus: 15\n", "gpus", "it is not certain that this was meant: --unsafe-fixes writes it"),
        ("hostname: me\n", "hostname", "it would be refused as podTemplate.spec.hostname as well"),
        ("pots: 1\n", "pots", ""),
    ],
)
def test_what_is_left_out_has_a_reason(lines: str, path: str, reason: str, tmp_path: Path) -> None:
    """And the text at that place stays."""
    plan = fix.plan(sources(tmp_path, GOOD + lines))
    assert reason == reasons(plan).get(path, "")
    assert path not in {note.problem.path for note in plan.applied}


def test_a_preset_and_a_read_only_file_are_left(tmp_path: Path) -> None:
    """They are not the person's to be written, or not now."""
    given_once = sources(tmp_path, GOOD + "env: {A: 1}\n")
    (tmp_path / "v0.yaml").chmod(0o444)
    assert {"env.A": f"{given_once.files[0]} is read-only"} == reasons(fix.plan(given_once))


def test_a_mark_and_the_ends_of_lines_stay(tmp_path: Path) -> None:
    """As an editor on Windows has them."""
    text = "\ufeff" + (GOOD + "env: {A: 1}\nretries: 3").replace("\n", "\r\n")
    right = "\ufeff" + (GOOD + 'env: {A: "1"}\nrunPolicy:\n  backoffLimit: 3').replace("\n", "\r\n")
    assert right == fixed(tmp_path, text).removesuffix("\r\n")


def test_a_fix_as_data(tmp_path: Path) -> None:
    """The value or the key, and whether it is certain; a reason where it was left out."""
    plan = fix.plan(sources(tmp_path, GOOD + "env: {A: 1}\nretries: 3\ngpus: 15\n"))
    applied = {note.problem.path: note.as_dict() for note in plan.applied}
    assert ("1", True) == (applied["env.A"]["value"], applied["env.A"]["safe"])
    assert "runPolicy.backoffLimit" == applied["retries"]["key"]
    (note_data,) = (note.as_dict() for note in plan.omissions)
    assert (14, False) == (note_data["value"], note_data["safe"])
    assert note_data["reason"]


_SNIPPETS = st.lists(st.sampled_from(sorted(MUTATED)), min_size=1, max_size=4, unique=True)


@settings(max_examples=25)  # each checks its values a dozen times
@given(
    mistakes=_SNIPPETS, comment=st.sampled_from(["", "  # c", " # 'x"]), with_unsafe=st.booleans()
)
def test_several_mistakes_at_once(
    mistakes: list[str], comment: str, with_unsafe: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All comments are there, what was right is as it was, and a second time changes nothing."""
    folder = tmp_path_factory.mktemp("fix")
    parts: list[str] = []
    keys: set[str] = set()
    for name in mistakes:
        wrong, right, _ = MUTATED[name]
        own = set(re.findall(r"^\w+", wrong + right, re.MULTILINE))
        if not own & keys:
            keys |= own
            parts.append(f"#{comment} about {name}\n{wrong}")
    text = GOOD + "".join(parts)
    new = fixed(folder, text, with_unsafe=with_unsafe)
    assert sorted(re.findall("#.*", text)) == sorted(re.findall("#.*", new))
    before, after = load(text, "x").data, load(new, "x").data
    for key in load(GOOD, "x").data:
        assert before[key] == after[key]
    assert new == fixed(folder, new, with_unsafe=with_unsafe)


def data_of(plan: fix.FixPlan) -> Any:
    """What the fixed files say."""
    return [load(file.after, file.name).data for file in plan.files]


def test_a_sweep_and_an_elastic_job_are_fixed_alike(tmp_path: Path) -> None:
    """Their own sections have keys of other tools, too."""
    elastic = (
        "workload: elastic\nimage: {repository: a, tag: b}\ncommand: [x]\n"
        "elastic:\n  roles:\n    worker: {replicas: '2'}\n    ps:\n      count: 1 # x\n"
    )
    ((after,),) = ([data_of(fix.plan(sources(tmp_path, elastic)))],)
    roles = after[0]["elastic"]["roles"]
    assert {"worker": {"replicas": 2}, "ps": {"replicas": 1}} == roles


def test_two_keys_for_one_place_are_not_certain(tmp_path: Path) -> None:
    """Which of two values was meant is for the person to say."""
    text = GOOD.replace("nodes: 2  # how many\n", "replicas: 2\nnnodes: 3\n")
    plan = fix.plan(sources(tmp_path, text))
    assert not plan.files
    assert all("not certain" in reason for reason in reasons(plan).values())
    assert set(reasons(plan)) == {"replicas", "nnodes"}


@pytest.mark.parametrize(
    ("command", "unsafe"),
    [
        ("FOO=1 python t.py", ""),
        ("python 'a", ""),
        ("cd /x && python t.py", '[sh, -c, "cd /x && python t.py"]'),
        ("python t.py > log", '[sh, -c, "python t.py > log"]'),
        ("python t.py $HOME", '[sh, -c, "python t.py $HOME"]'),
        ("ls ~/x", '[sh, -c, "ls ~/x"]'),
        ("cat *.txt", '[sh, -c, "cat *.txt"]'),
    ],
)
def test_what_only_a_shell_understands_is_not_split(
    command: str, unsafe: str, tmp_path: Path
) -> None:
    """A command for a shell is given to one, and only where guesses may be written."""
    text = GOOD.replace("[python, train.py]  # what runs", command)
    assert fixed(tmp_path, text) == text
    after = load(fixed(tmp_path, text, with_unsafe=True), "v").data
    expected = load(f"command: {unsafe or command}\n", "v").data
    assert after["command"] == expected["command"]


def test_fixes_that_are_right_only_together_are_written_together(tmp_path: Path) -> None:
    """Both ends of a range; a third that is refused at its new place does not keep them out."""
    text = GOOD + "minNodes: 1\nmaxNodes: 3\nhostname: me\n"
    plan = fix.plan(sources(tmp_path, text), with_unsafe=True)
    ((after,),) = ([data_of(plan)],)
    assert {"minNodes": 1, "maxNodes": 3} == after[0]["torchrun"]["elastic"]
    assert {"hostname": "it would be refused as podTemplate.spec.hostname as well"} == reasons(plan)


@pytest.mark.parametrize(
    ("lines", "path", "reason"),
    [
        (
            "minNodes: 3\n",
            "minNodes",
            (
                "then torchrun.elastic.maxNodes would be refused: is 0, and "
                "torchrun.elastic.minNodes is 3; a range has two ends"
            ),
        ),
        (
            "minNodes: 3\nmaxNodes: 2\n",
            "minNodes",
            "it would be refused as torchrun.elastic.minNodes as well",
        ),
    ],
)
@pytest.mark.parametrize("with_unsafe", [True, False])
def test_a_fix_that_brings_about_another_problem_is_not_written(
    lines: str, path: str, reason: str, with_unsafe: bool, tmp_path: Path
) -> None:
    """Also where guesses are asked for: the text stays as it is."""
    text = GOOD + lines
    plan = fix.plan(sources(tmp_path, text), with_unsafe=with_unsafe)
    assert not plan.files
    certain = "it is not certain that this was meant: --unsafe-fixes writes it"
    assert reasons(plan)[path] in ([reason] if with_unsafe else [reason, certain])


@pytest.mark.parametrize(
    ("lines", "keys"),
    [("replicas: 2\nnnodes: 3\n", "replicas nnodes"), ("replicas: 2\nnode: 3\n", "replicas node")],
)
def test_of_two_keys_for_one_place_no_guess_is_written(
    lines: str, keys: str, tmp_path: Path
) -> None:
    """Also with --unsafe-fixes: each names the other."""
    plan = fix.plan(
        sources(tmp_path, GOOD.replace("nodes: 2  # how many\n", lines)), with_unsafe=True
    )
    assert not plan.files
    first, second = keys.split()
    assert {
        first: f"it is not certain that it is nodes: {second} may be that, too",
        second: f"it is not certain that it is nodes: {first} may be that, too",
    } == reasons(plan)


@pytest.mark.parametrize(
    "lines",
    [
        "args: [--lr, x]\n",
        "sweep: {parameters: {lr: [1, 2]}}\n",
    ],
)
def test_a_shell_is_not_put_before_arguments(lines: str, tmp_path: Path) -> None:
    """`sh -c TEXT a b` gives them to the shell; the message says how they get to the program."""
    text = GOOD.replace("[python, train.py]", "cd /x && python t.py") + lines
    if lines.startswith("sweep"):
        text = text.replace("workload: torchrun", "workload: sweep")
    assert text == fixed(tmp_path, text, with_unsafe=True)
    with pytest.raises(InvalidValues) as excinfo:
        prepare.prepare(sources(tmp_path, text))
    hint = next(item.hint for item in excinfo.value.problems if item.path == "command")
    assert hint == (
        'write it as a list: ["sh", "-c", "cd /x && python t.py", "sh"], with "$@" in the text '
        "where the args belong"
    )


@pytest.mark.parametrize("text", ["gpus: |\n  4\n", "gpus: >-\n  4\n", "gpus: !!str 4\n"])
def test_there_are_no_quotes_to_remove(text: str, tmp_path: Path) -> None:
    """In a text of several lines, or with a tag; the message says what to write instead."""
    with pytest.raises(InvalidValues) as excinfo:
        prepare.prepare(sources(tmp_path, GOOD + text))
    assert "write it on the line of its key: 4" == excinfo.value.problem.hint


@pytest.mark.parametrize(
    "text",
    [
        "runPolicy:\n  suspend: flase\n",
        "runPolicy: {suspend: flase}\n",
        "runPolicy:\n  suspend: flase  # no\n",
    ],
)
def test_no_quotes_are_wanted_away_that_are_not_there(text: str, tmp_path: Path) -> None:
    """A misspelt word without quotes is spelt right, where it stands."""
    with pytest.raises(InvalidValues) as excinfo:
        prepare.prepare(sources(tmp_path, GOOD + text))
    assert "write false" == excinfo.value.problem.hint


def test_a_json_file_stays_json(tmp_path: Path) -> None:
    """A value, a key and a move, with the indentation that the others have."""
    data: dict[str, Any] = load(GOOD, "x").data | {"procs_per_node": 4, "env": {"A": 1}}
    text = json.dumps(data | {"retries": 3, "runPolicy": {"activeDeadlineSeconds": 60}}, indent=2)
    new = fixed(tmp_path, text)
    right = data | {"procsPerNode": 4, "env": {"A": "1"}}
    del right["procs_per_node"]
    right["runPolicy"] = {"activeDeadlineSeconds": 60, "backoffLimit": 3}
    assert right == json.loads(new)
    assert sorted(json.dumps(right, indent=2).splitlines()) == sorted(new.splitlines())


def test_many_fixes_cost_no_more_looks_than_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is parsed once for all of a pass, and the whole is judged once."""
    counts: list[list[int]] = []
    for number in (3, 300):
        calls = [0, 0]
        with monkeypatch.context() as patch:
            for index, (module, name) in enumerate(
                ((fix.edit, "_tree"), (resolve, "find_problems"))
            ):
                real = getattr(module, name)

                def counted(
                    *args: Any, real: Any = real, calls: list[int] = calls, index: int = index
                ) -> Any:
                    calls[index] += 1
                    return real(*args)

                patch.setattr(module, name, counted)
            lines = "".join(f"  A{at}: {at}\n" for at in range(number))
            plan = fix.plan(sources(tmp_path, f"{GOOD}env:\n{lines}retries: 3\nshm: {{size: 1}}\n"))
            assert number + 1 == len(plan.applied)
        counts.append(calls)
    assert counts[0] == counts[1]


def test_of_very_many_problems_some_are_left(tmp_path: Path) -> None:
    """Each pass reads the whole file, so that there are not as many passes as problems ask for."""
    numbers = ", ".join(str(number) for number in range(4_000))
    plan = fix.plan(sources(tmp_path, f"{GOOD}args: [{numbers}]\n"))
    assert 1_200 == len(plan.applied)
    assert b'"1199", 1200,' in plan.files[0].after
