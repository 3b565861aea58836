"""The reasons of the Events about elastic jobs, and what each one means."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN_CLAMPED = "PlanClamped"
PLAN_ODD = "PlanOdd"
PLAN_FAILED = "PlanFailed"
PLAN_SUPERSEDED = "PlanSuperseded"
PLAN_MISSING = "PlanMissing"
PODS_ADOPTED = "PodsAdopted"
PODS_BOUNDED = "PodsBounded"
PODS_REPLACED = "PodsReplaced"
POD_GIVEN_UP = "PodGivenUp"
MASTER_REPLACED = "MasterReplaced"
MASTER_NO_IMAGE = "NoMasterImage"
POD_WITHHELD = "PodWithheld"
JOB_ODD = "JobOdd"
JOB_SUCCEEDED = "JobSucceeded"
JOB_FAILED = "JobFailed"
# How a job ended: the reason of its conditions.
TRAINING_FAILED = "TrainingFailed"

TABLE: Mapping[str, str] = {
    PLAN_CLAMPED: "a plan asked for more or less than the job allows",
    PLAN_ODD: "something in a plan is unusual, or could not be done as it stands; the rest was",
    PLAN_FAILED: "a plan could not be taken, and nothing of it was done",
    PLAN_SUPERSEDED: "a newer plan says all that this one did",
    PLAN_MISSING: "the master made no plan, so that the job's own counts were taken",
    PODS_ADOPTED: "pods of the job were there that its record did not know",
    PODS_BOUNDED: "a job's minReplicas or maxReplicas was edited, and pods come or go for it",
    PODS_REPLACED: "pods that were lost or failed are made again",
    POD_GIVEN_UP: "a pod failed too often, and the job goes on without it where it can",
    MASTER_REPLACED: "the master failed or was lost, and is made again",
    MASTER_NO_IMAGE: "nothing names the image of the job's master, so that it cannot be made",
    POD_WITHHELD: "a pod would run as the operator's own account, and is not made; the message "
    "names the field of the job",
    JOB_ODD: "a field of a job's spec cannot be read, and is ignored",
    JOB_SUCCEEDED: "the job has ended well",
    JOB_FAILED: "the job has failed",
}

# Why a plan failed: the reason of its condition.
INVALID = "Invalid"
NO_TEMPLATE = "NoTemplate"
TOO_LARGE = "TooLarge"
NO_SUCH_POD = "NoSuchPod"
NO_SUCH_JOB = "NoSuchJob"
JOB_ENDED = "JobEnded"
