from __future__ import annotations

from tests.converted import DATA, lost, refusal, sample, text_as_jobs


def test_a_role_of_torchrun_is_a_job() -> None:
    """The role that dist.ddp makes is a torchrun job of as many nodes, with what it asks for."""
    conversion = sample("appdef.yaml", "ddp")
    values = conversion.values
    assert ("torchrun", 2, 4, 3) == (
        values["workload"],
        values["nodes"],
        values["gpusPerNode"],
        values["runPolicy"]["backoffLimit"],
    )
    assert {"cpu": "8", "memory": "16384M", "vpc.amazonaws.com/efa": "1"} == (
        values["resources"]["perPod"]["limits"]
    )
    assert set() == lost(conversion)


def test_macros_are_put_in() -> None:
    """What TorchX puts in for a macro is there: the name, and which replica a pod is."""
    values = sample("appdef.yaml", "ddp").values
    assert "ddp" == values["env"]["APP"]
    assert "exec python3 -u train.py --index ${JOB_COMPLETION_INDEX}" == values["command"][2]


def test_it_is_known_by_its_form() -> None:
    """What torchx prints has no kind, and is known by its roles."""
    lines = (DATA / "appdef.yaml").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("apiVersion", "kind")))
    assert ["AppDef"] == [conversion.kind for conversion in text_as_jobs(text).conversions]


def test_several_roles_are_refused() -> None:
    """Roles beside each other are no torchrun job, and that is said."""
    problem = refusal(
        "name: a\nroles:\n- {name: trainer, image: i, entrypoint: train}\n"
        "- {name: reader, image: i, entrypoint: read}\n"
    )
    assert "it has the roles trainer, reader, and a torchrun job has one" == problem.message
