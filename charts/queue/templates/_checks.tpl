{{/*
What this chart refuses: rules between values, which a schema cannot say.
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "queue.checks" -}}
{{- $problems := list -}}
{{- $name := include "queue.name" . -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- $problems = append $problems (printf "name: %q is no name of a queue; use lower-case letters, digits and '-'" $name) -}}
{{- end -}}
{{- if hasKey .Values.imposed "preset" -}}
{{- $problems = append $problems "imposed.preset: a preset lies below a job's own values and cannot be imposed; set defaults.preset, or write its values into imposed" -}}
{{- end -}}
{{- $own := include "queue.labels.own" . | fromJson -}}
{{- range $key := keys .Values.labels | sortAlpha -}}
{{- if or (hasKey $own $key) (hasPrefix "allranks.dev/" $key) (eq $key "app.kubernetes.io/part-of") -}}
{{- $problems = append $problems (printf "labels.%s: this label is the chart's own, or says that an object is part of a run; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- $problems = concat $problems (include "queue.checks.schedulers" . | fromJsonArray) -}}
{{- $problems = concat $problems (include "queue.checks.kueue" . | fromJsonArray) -}}
{{- if and .Values.policy.otherQueues (not .Values.policy.forAll) -}}
{{- $problems = append $problems "policy.otherQueues: without policy.forAll these rules hold for no other queue's jobs anyway; empty it, or set policy.forAll" -}}
{{- end -}}
{{- if has $name .Values.policy.otherQueues -}}
{{- $problems = append $problems (printf "policy.otherQueues: %s is this queue itself; remove it" $name) -}}
{{- end -}}
{{- if and .Values.networkPolicy.from (not .Values.networkPolicy.enabled) -}}
{{- $problems = append $problems "networkPolicy.from: there is no NetworkPolicy; set networkPolicy.enabled" -}}
{{- end -}}
{{- $counted := printf "requests.%s" .Values.gpuResource -}}
{{- if and .Values.rules.maxGpusInAll (hasKey .Values.quota $counted) -}}
{{- $problems = append $problems (printf "quota.%s: rules.maxGpusInAll says the same; leave one of the two out" $counted) -}}
{{- end -}}
{{- range $name, $volume := .Values.storage -}}
{{- $problems = concat $problems (include "allranks.azure.problems" (dict "at" (printf "storage.%s" $name) "volume" $volume) | fromJsonArray) -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{/* A scheduler's queue that no job names is for nobody. JSON list. */}}
{{- define "queue.checks.schedulers" -}}
{{- $problems := list -}}
{{- $jobs := mergeOverwrite (deepCopy .Values.defaults) (deepCopy .Values.imposed) -}}
{{- $dialect := (get $jobs "scheduling" | default dict).dialect | default "none" -}}
{{- $queue := get $jobs "queue" | default "" -}}
{{- range $scheduler, $called := include "queue.ofSchedulers" . | fromJson -}}
{{- if or (ne $dialect $scheduler) (ne $queue $called) -}}
{{- $problems = append $problems (printf "%s.enabled: no job of the queue waits there, as defaults and imposed have queue %q and scheduling.dialect %s; set defaults: {queue: %s, scheduling: {dialect: %s}}, or %s.enabled to false" $scheduler $queue $dialect $called $scheduler $scheduler) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* JSON list. */}}
{{- define "queue.checks.kueue" -}}
{{- $problems := list -}}
{{- with .Values.kueue -}}
{{- if and .enabled (not .admin) (not .clusterQueue) -}}
{{- $problems = append $problems "kueue.clusterQueue: empty; name the ClusterQueue that your administrators have made, or set kueue.admin to make it" -}}
{{- end -}}
{{- if and .admin (not .enabled) -}}
{{- $problems = append $problems "kueue.admin: nothing is made of Kueue; set kueue.enabled" -}}
{{- end -}}
{{- if and .admin (not .resources) -}}
{{- $problems = append $problems (printf "kueue.resources: empty, and a ClusterQueue without quota admits nothing; set {%s: {nominal: 64}}" $.Values.gpuResource) -}}
{{- end -}}
{{- range $resource, $quota := .resources -}}
{{- if and $quota.borrow (not $.Values.kueue.cohort) -}}
{{- $problems = append $problems (printf "kueue.resources.%s.borrow: nobody lends without a cohort; set kueue.cohort" $resource) -}}
{{- end -}}
{{- if and $quota.lend (not $.Values.kueue.cohort) -}}
{{- $problems = append $problems (printf "kueue.resources.%s.lend: nobody borrows without a cohort; set kueue.cohort" $resource) -}}
{{- end -}}
{{- end -}}
{{- if and .flavor.name (or .flavor.nodeLabels .flavor.tolerations .topology) -}}
{{- $problems = append $problems "kueue.flavor.name: a flavor that is there has its nodes and its topology already; leave nodeLabels, tolerations and kueue.topology out, or leave the name empty" -}}
{{- end -}}
{{- if has "kubernetes.io/hostname" (initial .topology) -}}
{{- $problems = append $problems "kueue.topology: kubernetes.io/hostname is not the last level, and nothing is inside a node; put it last" -}}
{{- end -}}
{{- if and .topology (not .flavor.nodeLabels) (not .flavor.name) -}}
{{- $problems = append $problems "kueue.flavor.nodeLabels: empty, and a flavor with a topology has to say which nodes it is of; set a label that they have" -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
