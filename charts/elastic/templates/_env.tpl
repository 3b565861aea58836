{{/*
The environment of the pods. What a framework reads is made in the pod itself (files/roles.py), where
the pod's index is known; in mode auto the operator adds what it knows.
*/}}

{{/* Of a pod in mode static: the dict of elastic.job. JSON list. */}}
{{- define "elastic.env.static" -}}
{{- $vars := include "elastic.env.shared" .ctx | fromJson -}}
{{- $count := dict "fieldRef" (dict "fieldPath" "metadata.annotations['batch.kubernetes.io/job-index-failure-count']") -}}
{{- $vars = merge $vars (dict
      "ALLRANKS_ROLE" .role
      "ALLRANKS_PLAN" (printf "%s/plan.json" (include "allranks.names.mount" .ctx))
      "ALLRANKS_POD_IP" (dict "fieldRef" (dict "fieldPath" "status.podIP"))
      "ALLRANKS_FOLLOW_PORT" (int .ctx.Values.elastic.followPort | toString)
      "ALLRANKS_GRACE_SECONDS" (include "elastic.grace" .)
      "ALLRANKS_LOST_SECONDS" (int .ctx.Values.elastic.leadLostSeconds | toString)
      "ALLRANKS_FAILURES" $count
      "ALLRANKS_BACKOFF_LIMIT" (int .ctx.Values.runPolicy.backoffLimit | toString)) -}}
{{- with .ctx.Values.elastic.existingSecret -}}
{{- $_ := set $vars "ALLRANKS_FOLLOW_TOKEN" (dict "secretKeyRef" (dict "name" . "key" "token")) -}}
{{- end -}}
{{- with include "allranks.controllers.fatal" .ctx -}}
{{- $_ := set $vars "ALLRANKS_FATAL_EXIT_CODES" . -}}
{{- end -}}
{{- include "elastic.env.list" $vars -}}
{{- end -}}

{{/* Of a pod of the ElasticJob: (dict "ctx" $ "layout" $layout "role" "worker"). JSON list. */}}
{{- define "elastic.env.auto" -}}
{{- $vars := include "elastic.env.shared" .ctx | fromJson -}}
{{- if eq (include "elastic.strategy" .ctx) "AllreduceStrategy" -}}
{{- $_ := set $vars "PET_NPROC_PER_NODE" (int .layout.procsPerNode | toString) -}}
{{- $_ := set $vars "ALLRANKS_MASTER_LOST_SECONDS" (int .ctx.Values.elastic.leadLostSeconds | toString) -}}
{{- $_ := set $vars "ALLRANKS_GRACE_SECONDS" (include "elastic.grace" .) -}}
{{- if include "elastic.rings" .ctx -}}{{- $vars = merge $vars (include "allranks.entry.stall" .ctx | fromJson) -}}{{- end -}}
{{- if and (include "elastic.rings" .ctx) (include "allranks.entry.ownInterpreter" .ctx) -}}
{{- $_ := set $vars "PET_NO_PYTHON" "1" -}}
{{- end -}}
{{- end -}}
{{- include "elastic.env.list" $vars -}}
{{- end -}}

{{/* How long a program has between SIGTERM and SIGKILL: of the pod's grace period a little less, so that
     who ends it is not killed before it. A pod's own SIGKILL comes from the kubelet. Takes a dict with
     `ctx` and `role`. */}}
{{- define "elastic.grace" -}}
{{- $own := get .ctx.Values.elastic.roles .role -}}
{{- $grace := include "allranks.pod.grace" (dict "ctx" .ctx "own" $own) | int -}}
{{- sub $grace (min 5 (max 1 (div $grace 10))) | max 1 -}}
{{- end -}}

{{/* What both have. JSON {name: text or {fieldRef}}; takes the root context. */}}
{{- define "elastic.env.shared" -}}
{{- merge (include "allranks.entry.checkpointSignal" . | fromJson) (dict
      "ALLRANKS_PROGRESS" (include "allranks.entry.progress" .)
      "ALLRANKS_WAIT_SECONDS" (int .Values.network.waitSeconds | toString)
      "ALLRANKS_TERMINATION_LOG" "/dev/termination-log")
    | toJson -}}
{{- end -}}

{{/* A map as the list that a container has. */}}
{{- define "elastic.env.list" -}}
{{- $env := list -}}
{{- range $name, $value := . -}}
{{- $env = append $env (dict "name" $name (ternary "valueFrom" "value" (kindIs "map" $value)) $value) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* Where a role's pods are. JSON list, printed item by item: `append` would copy it for each. */}}
{{- define "elastic.plan.hosts" -}}
[
{{- range $index := until (int .count) -}}
{{- if $index -}},{{- end -}}
{{- printf "%s-%d.%s" $.name $index $.at | toJson -}}
{{- end -}}
]
{{- end -}}

{{/* All pods of the job, and what the framework wants to know: what files/roles.py reads. JSON;
     (dict "ctx" $ "layout" $layout). */}}
{{- define "elastic.plan" -}}
{{- $recipe := include "elastic.recipe" .ctx | fromJson -}}
{{- $counts := include "elastic.counts" . | fromJson -}}
{{- $release := include "allranks.names.release" .ctx -}}
{{- $port := include "elastic.port" .ctx -}}
{{- $hosts := dict -}}
{{- range $role, $count := $counts -}}
{{- $pods := dict "count" $count "name" (printf "%s-%s" $release $role) "at" (printf "%s.%s.svc:%s" $release $.ctx.Release.Namespace $port) -}}
{{- $_ := set $hosts $role (include "elastic.plan.hosts" $pods | fromJsonArray) -}}
{{- end -}}
{{- $optional := list -}}
{{- range $role, $about := $recipe.roles -}}
{{- if $about.optional -}}{{- $optional = append $optional $role -}}{{- end -}}
{{- end -}}
{{- dict
      "hosts" $hosts
      "leads" (include "elastic.leads" (merge (dict "counts" $counts) .) | fromJsonArray)
      "needs" $recipe.needs
      "ranks" $recipe.ranks
      "optional" $optional
      "endsItself" $recipe.endsItself
      "env" $recipe.env
    | toJson -}}
{{- end -}}
