"""Arguments of Volcano's plugins, as Go's package flag reads them."""

from __future__ import annotations

import pytest

from allranks.convert.kinds import volcano_flags
from tests.converted import refusal, text_as_jobs


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--master=m", "-worker=w", "--port=1"], {"master": "m", "worker": "w", "port": "1"}),
        (["--master", "m", "-port", "0x5BA0"], {"master": "m", "port": "0x5BA0"}),
        (["--master", "--worker", "--port=1"], {"master": "--worker", "port": "1"}),
        (["--master=", "--worker=a=b"], {"master": "", "worker": "a=b"}),
        (["--wait-master-enabled", "--port=1"], {"wait-master-enabled": "true", "port": "1"}),
        (["--wait-master-enabled=F"], {"wait-master-enabled": "F"}),
    ],
)
def test_a_value_is_behind_the_sign_or_is_the_next_argument(
    words: list[str], values: dict[str, str]
) -> None:
    """The next argument is the value whatever it looks like; a switch takes none of its own."""
    assert volcano_flags.Arguments(values) == volcano_flags.read("pytorch", words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["master", "--port=1"], "it is no flag, which begins with --"),
        (["-", "--port=1"], "it is no flag, which begins with --"),
        (["--", "--port=1"], "it ends the flags"),
        (["--prot=1", "--port=1"], "there is no flag of that name; did you mean --port?"),
        (["---port=1", "--port=1"], "there is no flag of that name; did you mean --port?"),
        (["--port=a", "--port=1"], "its value is 'a', and it takes a whole number"),
        (["--wait-master-enabled=on"], "its value is 'on', and it takes true or false"),
        (["--port"], "its value is missing"),
    ],
)
def test_the_first_argument_that_is_wrong_is_the_last_that_is_read(
    words: list[str], why: str
) -> None:
    """Volcano goes on with what it has read before it, and all behind it says nothing."""
    arguments = volcano_flags.read("pytorch", ["--worker=w", *words])
    assert {"worker": "w"} == arguments.values
    assert [*range(1, len(words) + 1)] == list(arguments.ignored)
    start = words[0].partition("=")[0]
    sentence = f"Volcano's plugin pytorch reads its arguments as far as '{start}': {why}"
    assert {sentence} == set(arguments.ignored.values())


def test_a_switch_takes_no_argument_of_its_own() -> None:
    """The word behind a switch is no flag, so that nothing is read from there on."""
    arguments = volcano_flags.read("svc", ["--disable-network-policy", "true", "--x"])
    assert {"disable-network-policy": "true"} == arguments.values
    assert [1, 2] == list(arguments.ignored)


JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  plugins: PLUGINS
  tasks:
  - {name: worker, replicas: 2, template: {spec: {restartPolicy: Never, containers: [
      {name: t, image: "a/b:1", command: [python, t.py]}]}}}
"""


def test_a_flag_s_name_is_no_task_s_where_it_is_a_value() -> None:
    """`--master --worker` names the master --worker, which no task is called, and no worker."""
    plugins = '{pytorch: ["--master", "--worker", "--port=1"], svc: [all], env: [index]}'
    conversion = text_as_jobs(JOB.replace("PLUGINS", plugins)).conversions[0]
    assert 2 == conversion.values["nodes"]
    notes = "\n".join(conversion.notes)
    assert "the plugin pytorch had port 1;" in notes
    assert "no task is called --worker, as the master of the plugin pytorch is" in notes
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "'all': it is no flag" in reasons["spec.plugins.svc[0]"]
    assert "Volcano's plugin env reads no arguments" == reasons["spec.plugins.env[0]"]
    assert not conversion.lost


def test_a_task_that_the_flags_do_not_name_is_refused_with_the_names_that_they_do() -> None:
    """What Volcano does not read gives no role its name."""
    plugins = "{pytorch: [--port=1, master=m, --worker=w]}"
    text = JOB.replace("PLUGINS", plugins).replace("name: worker", "name: w")
    problem = refusal(text)
    assert "the plugin pytorch does not know the task w" == problem.message
    assert "name it one of master, worker, or leave it out" == problem.hint
