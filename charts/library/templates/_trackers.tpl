{{/*
What experiment trackers (Weights & Biases, MLflow) read of their environment, so that a pod that starts
again goes on with the run that the first one began. Keys are never here: they come from a Secret.
*/}}

{{/*
The variables of a pod, those left out that the user sets. JSON list. Takes the dict of allranks.pod:
  uidLabel      the label that has the uid of the pods' controller; "" where pods have none
  trackedGroup  the name that several runs share; "" is the release's own
  trials        true where each pod is a trial of its own, by its index
and `given`, the user's variables.
*/}}
{{- define "allranks.trackers.env" -}}
{{- $trackers := .ctx.Values.trackers -}}
{{- $userEnv := .given -}}
{{- $env := list -}}
{{- if ne $trackers.mode "none" -}}
{{- $trial := get .ctx.Values.layout "trial" | default dict -}}
{{- $release := include "allranks.names.release" .ctx -}}
{{- $name := $trial.name | default $release -}}
{{- $group := $trial.sweep | default .trackedGroup | default $release -}}
{{- $suffix := "" -}}
{{- if .trials -}}
{{- $suffix = "-$(ALLRANKS_POD_INDEX)" -}}
{{- $env = append $env (dict "name" "ALLRANKS_POD_INDEX" "valueFrom" (dict "fieldRef" (dict
      "fieldPath" "metadata.labels['batch.kubernetes.io/job-completion-index']"))) -}}
{{- end -}}
{{- $texts := dict
      "WANDB_RUN_GROUP" (include "allranks.entry.literal" $group)
      "WANDB_NAME" (print (include "allranks.entry.literal" $name) $suffix)
      "MLFLOW_RUN_NAME" (print (include "allranks.entry.literal" $name) $suffix) -}}
{{- if and (eq $trackers.mode "run") (not (hasKey $userEnv "WANDB_RUN_ID")) -}}
{{- $id := include "allranks.entry.literal" $trackers.id -}}
{{- if and (not $id) .uidLabel -}}
{{- $env = append $env (dict "name" "ALLRANKS_RUN_UID" "valueFrom" (dict "fieldRef" (dict
      "fieldPath" (printf "metadata.labels['%s']" .uidLabel)))) -}}
{{- $id = "$(ALLRANKS_RUN_UID)" -}}
{{- end -}}
{{- if not $id -}}
{{- $id = printf "%s-%s" (trunc 40 $release) (printf "%s/%s" .ctx.Release.Namespace $release | sha256sum | trunc 12) -}}
{{- end -}}
{{- $_ := set $texts "WANDB_RUN_ID" (print $id $suffix) -}}
{{- $_ := set $texts "WANDB_RESUME" "allow" -}}
{{- end -}}
{{- range $variable, $value := $texts -}}
{{- if not (hasKey $userEnv $variable) -}}{{- $env = append $env (dict "name" $variable "value" $value) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}
