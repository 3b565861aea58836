"""What helm prints, word for word, and the error a person reads for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import (
    ForbiddenError,
    InputError,
    InvalidValues,
    NameTakenError,
    Problem,
    ReleaseTakenError,
    RunError,
    TemplateError,
    ToolError,
    UnknownKindError,
)
from allranks.helm import errors

SCHEMA = """\
Error: values don't meet the specifications of the schema(s) in the following chart(s):
c:
- at '/a': validation failed
  - at '/a/s': validation failed
    - at '/a/s': maxLength: got 8, want 5
    - at '/a/s': 'AAAAAAAA' does not match pattern '^[a-z]+$'
  - at '/a/b': 'oneOf' failed, none matched
    - at '/a/b': got boolean, want string
    - at '/a/b': got boolean, want object
    - at '/a/b': got boolean, want integer
  - at '/a': additional properties 'zz', 'yy' not allowed
- at '/mode': value must be one of '', 'fail'
- at '/gpus': minimum: got -1, want 0
- at '': additional properties 'yy' not allowed
- at '': missing property 'gpus'
- at '/d~1e~0f/0': got number, want string

"""


def test_a_name_that_somebody_takes_at_the_same_moment_is_taken() -> None:
    """Helm has other words then; what is there is the other's, and must not be taken back."""
    text = "Error: INSTALLATION FAILED: release: already exists\n"
    assert isinstance(errors.parse(text), ReleaseTakenError)


def test_schema_failures_are_problems_by_values_path() -> None:
    """Each line of the schema's verdict is one problem, in plain words, unknown keys one each."""
    error = errors.parse(SCHEMA)
    assert isinstance(error, InvalidValues)
    assert (
        Problem("a.s", "must have at most 5 characters, not 8"),
        Problem("a.s", "'AAAAAAAA' does not match '^[a-z]+$'"),
        Problem("a.b", "must be string or object or integer, not boolean"),
        Problem("a.zz", "unknown key", "remove it, or correct it"),
        Problem("a.yy", "unknown key", "remove it, or correct it"),
        Problem("mode", "must be one of '', 'fail'"),
        Problem("gpus", "must be at least 0, not -1"),
        Problem("yy", "unknown key", "remove it, or correct it"),
        Problem("gpus", "is required", "set it"),
        Problem("d/e~f[0]", "must be string, not number"),
    ) == error.problems


@pytest.mark.parametrize(
    ("stderr", "kind", "problem"),
    [
        (
            (
                "Error: execution error at (torchrun/templates/_checks.tpl:1:35): ERROR: "
                "torchrun.port:"
                " 70000 is above 65535\n  fix: use a port from 1024 to 65535\n\n"
                "Use --debug flag to render out invalid YAML\n"
            ),
            InvalidValues,
            Problem("torchrun.port", "70000 is above 65535", "use a port from 1024 to 65535"),
        ),
        (
            "Error: execution error at (c/templates/x.yaml:3:34): image.repository is needed\n",
            InvalidValues,
            Problem("", "image.repository is needed", source="c/templates/x.yaml:3:34"),
        ),
        (
            (
                "Error: INSTALLATION FAILED: Kubernetes cluster unreachable: Get "
                '"http://localhost:8080/version": dial tcp 127.0.0.1:8080: connect: refused\n'
            ),
            RunError,
            Problem(
                "",
                'the cluster does not answer: Get "http://localhost:8080/version": dial tcp '
                "127.0.0.1:8080: connect: refused",
                "check `kubectl config current-context`; `allranks doctor` tests the way there",
            ),
        ),
        (
            (
                'level=ERROR msg="cluster reachability check failed: kubernetes '
                'cluster unreachable"\n'
                "Error: INSTALLATION FAILED: cluster reachability check failed: kubernetes cluster "
                "unreachable: no route\n"
            ),
            RunError,
            Problem(
                "",
                "the cluster does not answer: no route",
                "check `kubectl config current-context`; `allranks doctor` tests the way there",
            ),
        ),
        (
            (
                "walk.go:75: found symbolic link in path: charts/a/charts/b resolves to charts/b. "
                "Contents of linked file included and used\nno such thing\n"
            ),
            ToolError,
            Problem("", "helm failed: no such thing"),
        ),
        (
            "Error: INSTALLATION FAILED: cannot re-use a name that is still in use\n",
            ReleaseTakenError,
            Problem(
                "",
                "a release of this name is already there",
                "take another name; or change that one with `allranks upgrade NAME`, or remove it "
                "with `allranks delete NAME`",
            ),
        ),
        (
            (
                "Error: YAML parse error on c/templates/x.yaml: error converting YAML to JSON: "
                "yaml: line 4: did not find expected key\n\n"
                "Use --debug flag to render out invalid YAML\n"
            ),
            TemplateError,
            Problem(
                "c/templates/x.yaml",
                "the chart rendered text that is not YAML: error converting YAML to JSON: yaml: "
                "line 4: did not find expected key",
                "please report this with your values file: a chart must not do that",
            ),
        ),
        (
            (
                "Error: failed to parse bad.yaml: cannot unmarshal yaml document: error converting "
                "YAML to JSON: yaml: line 1: did not find expected ',' or ']'\n"
            ),
            InputError,
            Problem("bad.yaml", "is not valid YAML: line 1: did not find expected ',' or ']'"),
        ),
        (
            "Error: failed parsing --set data: error parsing index: EOF\n",
            InputError,
            Problem("--set", "cannot be read: error parsing index: EOF"),
        ),
        (
            "Error: unable to detect chart at /x/Chart.yaml: open /x/Chart.yaml: no such file\n",
            InputError,
            Problem(
                "",
                "there is no chart: unable to detect chart at /x/Chart.yaml: open /x/Chart.yaml: "
                "no such file",
                "name a folder with a Chart.yaml in it, an archive, or a reference",
            ),
        ),
        (
            (
                "Error: c/templates/x.yaml:2:41\n"
                '  executing "c/templates/x.yaml" at <.Values.q.r>:\n'
                "    nil pointer evaluating interface {}.r\n"
            ),
            TemplateError,
            Problem(
                "c/templates/x.yaml:2:41",
                'the chart\'s template failed: executing "c/templates/x.yaml" at <.Values.q.r>: '
                "nil pointer evaluating interface {}.r",
                "please report this with your values file",
            ),
        ),
        (
            (
                "Error: INSTALLATION FAILED: unable to build kubernetes objects from release "
                "manifest: "
                'resource mapping not found for name: "x" namespace: "" from "": no matches '
                "for kind "
                '"PostRendererRequired" in version "allranks.dev/v1alpha1"\n'
            ),
            InputError,
            Problem(
                "",
                "these values need the post-renderer, and helm was called without it",
                "add --post-renderer allranks-postrender (`allranks plugin install` once)",
            ),
        ),
        (
            (
                'Error: invalid argument "pr" for "--post-renderer" flag: plugin: {Name:pr '
                "Type:postrenderer/v1} not found\n"
            ),
            InputError,
            Problem(
                "",
                "helm does not know this post-renderer: {Name:pr Type:postrenderer/v1} not found",
                "run `allranks plugin install`; Helm 4 takes the plugin's name, Helm 3 an "
                "executable",
            ),
        ),
        (
            'Error: INSTALLATION FAILED: namespaces "ml" not found\n',
            InputError,
            Problem(
                "",
                "there is no namespace 'ml'",
                "kubectl create namespace ml, or pass another with -n",
            ),
        ),
        (
            'Error: INSTALLATION FAILED: namespaces "My_Lab" not found\n',
            InputError,
            Problem(
                "",
                "there is no namespace 'My_Lab'",
                "the name of a namespace has lower-case letters, digits and '-', at most 63: "
                "pass -n my-lab",
            ),
        ),
        (
            (
                'Error: INSTALLATION FAILED: jobs.batch "demo" is forbidden: '
                "ValidatingAdmissionPolicy 'allranks-queue-lab-h100-jobs' with binding "
                "'allranks-queue-lab-h100-jobs' denied request: gpus: 64 GPUs are more than the 16 "
                "that queue h100 allows (rules.maxGpusPerJob)\n"
            ),
            InputError,
            Problem(
                "gpus",
                "64 GPUs are more than the 16 that queue h100 allows (rules.maxGpusPerJob)",
                "keep to the queue's rule rules.maxGpusPerJob. The policy of queue h100 holds the "
                "jobs of the namespace, also those without -q: `allranks queue show h100` shows "
                "its rules",
            ),
        ),
        (
            (
                'Error: INSTALLATION FAILED: jobs.batch "demo" is forbidden: '
                "ValidatingAdmissionPolicy 'site' with binding 'all' denied request: "
                "no label team\n"
            ),
            RunError,
            Problem(
                "",
                "the cluster refuses: no label team (ValidatingAdmissionPolicy site)",
                "change what it names, or ask who keeps this policy; no Role allows it",
            ),
        ),
        (
            "Error: something new\nand more\n",
            ToolError,
            Problem("", "helm failed: something new", "and more"),
        ),
        ("", ToolError, Problem("", "helm failed: it printed nothing")),
    ],
)
def test_other_failures(stderr: str, kind: type[Exception], problem: Problem) -> None:
    """Every other failure becomes one error of the right class, with its fix."""
    error = errors.parse(stderr)
    assert kind is type(error)
    assert problem == error.problem


def test_several_template_errors_stay_several() -> None:
    """A chart that collects its checks before it fails gives one problem per check."""
    error = errors.parse(
        "Error: execution error at (c/t.yaml:1:1): ERROR: gpus: bad\n  fix: a\n"
        "ERROR: nodes: worse\n"
    )
    assert (Problem("gpus", "bad", "a"), Problem("nodes", "worse")) == error.problems


def test_the_post_renderers_words_are_shown() -> None:
    """Helm 3 passes its standard error on; under Helm 4 the report file has it."""
    words = "allranks-postrender: allranks.dev/scheduling: nope\n  fix: do it\n"
    problem = Problem("allranks.dev/scheduling", "nope", "do it")
    three = errors.parse(
        "Error: error while running post render on files: error while running command /x/pr. "
        f"error output:\n{words}: exit status 2\n\nUse --debug flag to render out invalid YAML\n"
    )
    four = 'Error: error while running post render on files: plugin "pr" exited with error\n'
    assert problem == three.problem
    assert problem == errors.parse(four, report=words).problem
    assert problem == errors.parse(words + four).problem
    assert "the post-renderer failed" in errors.parse(four).problem.message


@given(st.text())
def test_any_output_gives_an_error_with_words(stderr: str) -> None:
    """Whatever helm prints, an error of ours comes out, and it says something."""
    assert errors.parse(stderr).problem.message


def test_noise_before_the_error_is_left_out() -> None:
    """Log lines and plugin warnings do not hide the error."""
    error = errors.parse(
        'failed to load plugins: failed to load plugin at "/x": unknown field\n'
        "WARNING: Kubernetes configuration file is group-readable.\n"
        "Error: UPGRADE FAILED: boom\n"
    )
    assert error.problem.message == "helm failed: boom"


GRANT = (
    'Error: INSTALLATION FAILED: roles.rbac.authorization.k8s.io "h1-master" is forbidden: user '
    '"researcher" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not '
    'currently held:\n{APIGroups:[""], Resources:["events"], Verbs:["create"]}\n'
    '{APIGroups:["batch"], Resources:["jobs" "cronjobs"], ResourceNames:["a"], Verbs:["get"]}\n'
)


def test_a_right_that_may_not_be_granted_is_named() -> None:
    """The server names it on a line of its own, which must not be lost."""
    error = errors.parse(GRANT)
    assert isinstance(error, ForbiddenError)
    assert (
        "user 'researcher' may not make Role 'h1-master': it grants rights that the user does not "
        "have: create events; get jobs.batch, cronjobs.batch"
    ) == error.problem.message
    assert "docs/guides/cluster.md" in error.problem.hint


def test_a_refused_grant_without_its_list_is_told_as_far_as_it_goes() -> None:
    """Another server may word it in another way."""
    error = errors.parse(GRANT.partition("{")[0] + "something else\n")
    assert "does not have: something else" in error.problem.message


@pytest.mark.parametrize(
    ("why", "words", "hint"),
    [
        ("etcdserver: mvcc: database space exceeded", "the etcd of the cluster is full", "room"),
        ('Post "https://127.0.0.1:1/x": EOF', "the cluster does not answer: ", "allranks doctor"),
        ('Get "https://h/x": read tcp: connection reset by peer', "does not answer", "doctor"),
    ],
)
def test_a_cluster_in_trouble_is_not_the_chart_s_fault(why: str, words: str, hint: str) -> None:
    """A full store, and an API server that goes away in the middle."""
    error = errors.parse(f"Error: INSTALLATION FAILED: create: failed to create: {why}\n")
    assert words in error.problem.message
    assert hint in error.problem.hint


@pytest.mark.parametrize(
    ("kind", "version", "hint"),
    [
        ("TrainingRun", "allranks.dev/v1alpha1", "allranks operator install --crds-only"),
        ("Queue", "scheduling.run.ai/v2", "brings that kind, or set kai.enabled: false"),
        ("PodGroup", "scheduling.x-k8s.io/v1alpha1", "or set another scheduling.dialect"),
    ],
)
def test_a_kind_that_the_cluster_does_not_know(kind: str, version: str, hint: str) -> None:
    """It is named with the way out; both majors end in these words."""
    error = errors.parse(
        "Error: UPGRADE FAILED: unable to build kubernetes objects from current release manifest: "
        f'resource mapping not found for name: "x" namespace: "n" from "": no matches for kind '
        f'"{kind}" in version "{version}"\nensure CRDs are installed first\n'
    )
    assert isinstance(error, UnknownKindError)
    assert f"does not know the kind {kind} ({version})" in error.problem.message
    assert hint in error.problem.hint


def test_a_field_that_somebody_else_set_has_two_ways_out() -> None:
    """Helm 4 names kubectl for each upgrade after `kubectl scale`."""
    error = errors.parse(
        "Error: UPGRADE FAILED: conflict occurred while applying object n/u "
        "elastic.iml.github.io/v1alpha1, Kind=ElasticJob: Apply failed with 1 conflict: conflict "
        'with "kubectl" with subresource "scale" using elastic.iml.github.io/v1alpha1: '
        ".spec.replicaSpecs.worker.replicas\n"
    )
    assert "spec.replicaSpecs.worker.replicas was set by 'kubectl'" in error.problem.message
    for way in ("allranks upgrade", "--force-conflicts"):
        assert way in error.problem.hint


APPLY = "Error: INSTALLATION FAILED: server-side apply failed for object lab/allranks-watcher "
LIMIT = (
    'Deployment.apps "allranks-watcher" is invalid: '
    'spec.template.spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than '
    "or equal to memory limit of 512Mi"
)
PEER = 'NetworkPolicy.networking.k8s.io "allranks-watcher" is invalid: spec.ingress[0].from[0]'


@pytest.mark.parametrize(
    ("output", "path", "message", "fix"),
    [
        (
            f"{APPLY}apps/v1, Kind=Deployment: {LIMIT}\n",
            "Deployment/allranks-watcher",
            'spec.template.spec.containers[0].resources.requests: Invalid value: "1Gi": must be',
            "correct resources.requests in the values",
        ),
        (
            f"Error: INSTALLATION FAILED: 1 error occurred:\n\t* {LIMIT}\n\n",
            "Deployment/allranks-watcher",
            "memory limit of 512Mi",
            "correct resources.requests in the values",
        ),
        (
            f"Error: INSTALLATION FAILED: 1 error occurred:\n\t* {PEER}: Required value: none\n\n",
            "NetworkPolicy/allranks-watcher",
            "Kubernetes refuses spec.ingress[0].from[0]: Required value: none",
            "correct networkPolicy.from in the values",
        ),
        (
            (
                f"{APPLY}networking.k8s.io/v1, Kind=NetworkPolicy: failed to create typed patch "
                "object (lab/allranks-watcher; networking.k8s.io/v1, Kind=NetworkPolicy): "
                ".spec.ingress[0].from[0].foo: field not declared in schema\n"
            ),
            "NetworkPolicy/allranks-watcher",
            "Kubernetes refuses spec.ingress[0].from[0].foo: field not declared in schema",
            "correct networkPolicy.from in the values",
        ),
        (
            'Error: Job.batch "j" is invalid: [spec.a: Invalid value: 1: no, spec.b: Required]\n',
            "Job/j",
            "Kubernetes refuses spec.a: Invalid value: 1: no, spec.b: Required",
            "correct the value that it comes from",
        ),
    ],
)
def test_a_field_that_the_server_refuses_names_its_value(
    output: str, path: str, message: str, fix: str
) -> None:
    """The object, the field and why; and the value where the field tells which."""
    problem = errors.parse(output).problem
    assert (path, fix) == (problem.path, problem.hint)
    assert message in problem.message


def test_rights_on_the_whole_cluster_are_not_asked_of_a_role() -> None:
    """A Role cannot give them."""
    error = errors.parse(
        'Error: clusterroles.rbac.authorization.k8s.io "x" is forbidden: User "ada" cannot get '
        'resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope\n'
    )
    assert "belong to the whole cluster" in error.problem.hint


def test_an_object_of_another_release_is_told_by_both_majors() -> None:
    """Helm 4 leaves the first half of the sentence out."""
    rest = 'nable to continue with install: ServiceAccount "a" in namespace "n" exists'
    for text in (f"u{rest}", f"rendered manifests contain a resource that already exists. U{rest}"):
        error = errors.parse(f"Error: INSTALLATION FAILED: {text} and cannot be imported\n")
        assert type(error) is NameTakenError
        assert "belongs to another release" in error.problem.message
        assert 'ServiceAccount "a"' in error.problem.message


@pytest.mark.parametrize("verb", ["install", "update"])
def test_an_object_that_may_not_be_looked_at_is_a_missing_right(verb: str) -> None:
    """Helm begins as for an object of another release, though nobody has looked."""
    about = 'could not get information about the resource ConfigMap "eve1" in namespace "research"'
    for first in ("U", "rendered manifests contain a resource that already exists. U"):
        error = errors.parse(
            f"Error: INSTALLATION FAILED: {first}nable to continue with {verb}: {about}: "
            'configmaps "eve1" is forbidden: User "eve" cannot get resource "configmaps" in API '
            'group "" in the namespace "research"\n'
        )
        assert type(error) is ForbiddenError
        assert error.exit_code == 1
        assert error.problem.message == "user 'eve' may not get configmaps in namespace research"


def test_a_server_that_is_gone_while_helm_looks_for_objects_is_no_taken_name() -> None:
    """The reason behind helm's words is the one that is told."""
    error = errors.parse(
        "Error: INSTALLATION FAILED: Unable to continue with install: could not get information "
        'about the resource Job "a": Get "https://10.0.0.1": dial tcp: connection refused\n'
    )
    assert type(error) is RunError
    assert "the cluster does not answer" in error.problem.message
