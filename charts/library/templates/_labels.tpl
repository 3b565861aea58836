{{/*
Labels. Selectors are immutable once applied, so they hold only what never changes in a release's
life: no chart version, nothing a user sets. All return JSON.
*/}}

{{/* What selects pods: (dict "ctx" $ "role" "node" "group" "worker-last"). Without `role` these are
     all pods of the release; `group` tells apart the controllers that share a role. */}}
{{- define "allranks.labels.selector" -}}
{{- $whole := .ctx.Whole | default .ctx -}}
{{- $labels := dict
      "app.kubernetes.io/name" $whole.Chart.Name
      "app.kubernetes.io/instance" $whole.Release.Name -}}
{{- if hasKey . "role" -}}{{- $_ := set $labels "allranks.dev/role" .role -}}{{- end -}}
{{- with .group | default .ctx.Group -}}{{- $_ := set $labels "allranks.dev/group" . -}}{{- end -}}
{{- toJson $labels -}}
{{- end -}}

{{/* What selects rank 0 alone: (dict "ctx" $ "role" "node" "controller" "Job"|"StatefulSet").
     Kubernetes itself writes the index as a label on each pod; a template cannot. */}}
{{- define "allranks.labels.selectorOfRankZero" -}}
{{- $labels := include "allranks.labels.selector" . | fromJson -}}
{{- if eq .controller "StatefulSet" -}}
{{- $_ := set $labels "statefulset.kubernetes.io/pod-name" (printf "%s-0" .ctx.Release.Name) -}}
{{- else -}}
{{- $_ := set $labels "batch.kubernetes.io/job-completion-index" "0" -}}
{{- end -}}
{{- toJson $labels -}}
{{- end -}}

{{/* All labels of an object or pod, by the dict of its selector. The user's never replace ours. */}}
{{- define "allranks.labels" -}}
{{- $labels := dict -}}
{{- range $key, $value := .ctx.Values.labels -}}
{{- $_ := set $labels $key $value -}}
{{- end -}}
{{- range $key, $value := include "allranks.labels.own" . | fromJson -}}
{{- $_ := set $labels $key $value -}}
{{- end -}}
{{- toJson $labels -}}
{{- end -}}

{{/* The labels that are ours. */}}
{{- define "allranks.labels.own" -}}
{{- $labels := include "allranks.labels.selector" . | fromJson -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .ctx.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "allranks" -}}
{{- $_ := set $labels "helm.sh/chart" (include "allranks.names.chart" ($.ctx.Whole | default $.ctx)) -}}
{{- $_ := set $labels "allranks.dev/workload" ($.ctx.Whole | default $.ctx).Values.workload -}}
{{- with ($.ctx.Whole | default $.ctx).Values.queueRef.name -}}
{{- $_ := set $labels "allranks.dev/queue" . -}}
{{- end -}}
{{- toJson $labels -}}
{{- end -}}
