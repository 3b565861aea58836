"""StatefulSets that train, as values.

A StatefulSet whose pods run torchrun, found by the names that its headless Service gives them, is a
job of the torchrun chart with such a controller. One that serves is no job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import finish
from allranks.convert.jobs import configmap_scripts, pod_jobs, pod_names
from allranks.convert.kinds import job
from allranks.convert.pods import claims, pod_values, podsets
from allranks.convert.programs import commands
from allranks.convert.verdicts import METADATA, Beside, Fields, Rule, Rules, carried, changed

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion

KIND = "StatefulSet"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.replicas", "nodes"),
    changed("spec.selector.**", "", "the chart's own labels select the pods"),
    changed("spec.serviceName", "", "the chart makes the Service that names the pods"),
    changed("spec.podManagementPolicy", "", "all pods start together: ranks wait for each other"),
    changed("spec.updateStrategy.**", "", "the chart's own"),
    changed("spec.revisionHistoryLimit", "", "Helm keeps the revisions of a release"),
    changed("spec.minReadySeconds", "", "no pod of a job waits for another's readiness"),
    changed("spec.ordinals.**", "", "ranks are counted from 0"),
    *claims.rules_of_pod_claims("spec"),
    *pod_values.fields_at("spec.template"),
)
_RULES = Rules(FIELDS)
_FOR_EVER = (
    "as before, its pods start anew for ever where they fail, whatever runPolicy.backoffLimit "
    "says; when the training is done they stay{}: set torchrun.controller to Job for a run that "
    "ends"
)
_AS_THEY_DID = ", and do not train again as they did"
# Source: ValidateStatefulSetSpec, pkg/apis/apps/validation of Kubernetes.
_ALWAYS = "Kubernetes takes Always alone of a StatefulSet: its pods start anew where they fail"
_RESTARTS = "the pods of a StatefulSet start anew where they fail, as before"


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A StatefulSet as values.

    Args:
        manifest: the object.
        context: what else is known; its documents may have the Service.

    Raises:
        InputError: its pods are no job.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    podset = job.replicas_of(fields, ("spec",), "its pods")
    podsets.check_ends([podset], KIND)
    shape = podsets.shape([podset], KIND, context.entrypoint)
    if shape.key is None:
        configmap_scripts.refuse_with_ranks(fields, [podset], KIND, context)
        raise podsets.without_ranks([podset], KIND, "spec.template", context.entrypoint)
    queue = pod_jobs.convert(
        fields, context, shape, {}, claim_templates=("spec", "volumeClaimTemplates")
    )
    if fields.values.get("workload") == "torchrun":
        fields.put(("torchrun", "controller"), KIND)
        # A script that keeps its pod has not trained again either.
        keeps_pods = commands.POD_STAYS in fields.notes
        fields.note(_FOR_EVER.format("" if keeps_pods else _AS_THEY_DID))
        policy = ("spec", "template", "spec", "restartPolicy")
        is_always = fields.text(*policy) in ("", "Always")
        fields.change(policy, _RESTARTS if is_always else _ALWAYS)
    else:
        fields.note(job.FOR_EVER)
    service = fields.text("spec", "serviceName")
    if service:
        why = "the chart makes a headless Service for the job's own pods"
        fields.beside.append(Beside("Service", service, False, why))
    name = fields.text("metadata", "name")
    pod_names.put_right(fields, [podset], [name], f"{name}-0")
    if context.find("Service", service) is None:  # else it is said of that
        pod_names.note_service(fields, service)
    return finish.conversion(fields, queue=queue)
