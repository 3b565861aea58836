{{/*
The controllers that make the pods.
*/}}

{{/*
An Indexed Job. Takes a dict:
  ctx, layout, role     the root context, the layout, the pods' role
  group                 the group of pods, where several share a role; "" is none
  name, count           its name, and how many pods
  parallel              how many of them run at the same time; not given is all
  template              the pod template, as YAML
  retries               how often each index may start again; not given is the user's backoffLimit.
                        Pods tell how many of them are spent, in an annotation
  deadline, ttl         seconds; 0 is none, and for `ttl` "" is none and 0 is at once
  ignored               exit codes that cost no retry, [{code, why}]
  failing               exit codes that fail it at once, [{code, why}]
  failingIndex          exit codes that fail their index without a retry, [{code, why}]
  fatal                 true where the user's fatal exit codes fail it, "index" where they fail their
                        index alone
  firstFails            true where it has failed with the first index that is out of retries
  mayFail               how many indexes may fail before it has failed, an int64; "" is any number
  rankZeroEnds          true where it is over when rank 0 is
  firstEnds             true where it is over when any index has succeeded
  enough                how many indexes have to succeed until it is over; not given is all
  gang, together, idle, aside, marks  see allranks.annotations.controller
*/}}
{{- define "allranks.controllers.job" -}}
{{- $policy := .ctx.Values.runPolicy -}}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "allranks.controllers.metadata" . | nindent 2 }}
spec:
  completionMode: Indexed
  completions: {{ int .count }}
  parallelism: {{ int (.parallel | default .count) }}
  suspend: {{ $policy.suspend }}
  # Each pod has retries, and a back-off, of its own. A limit for the whole Job would double the
  # back-off with each pod that is lost, to ten minutes, also where a rack goes down at once.
  backoffLimitPerIndex: {{ int (hasKey . "retries" | ternary .retries $policy.backoffLimit) }}
  {{- if .firstFails }}
  maxFailedIndexes: 0
  {{- end }}
  {{- if kindIs "int64" .mayFail }}
  maxFailedIndexes: {{ .mayFail }}
  {{- end }}
  {{- with int64 .deadline }}
  activeDeadlineSeconds: {{ . }}
  {{- end }}
  {{- if ne (toString .ttl) "" }}
  ttlSecondsAfterFinished: {{ int64 .ttl }}
  {{- end }}
  # A pod is replaced once it has ended, never while it still runs: two pods of one rank would meet.
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
      # A drained or preempted pod is replaced and costs no retry.
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      {{- range .ignored }}
      # {{ .why }}
      - action: Ignore
        onExitCodes:
          containerName: trainer
          operator: In
          values: [{{ .code }}]
      {{- end }}
      {{- if include "allranks.workspace.on" .ctx }}
      # What was sent as the workspace cannot be unpacked, here or anywhere.
      - action: FailJob
        onExitCodes:
          containerName: trainer
          operator: In
          values: [217]
      {{- end }}
      {{- range .failing }}
      # {{ .why }}
      - action: FailJob
        onExitCodes:
          containerName: trainer
          operator: In
          values: [{{ .code }}]
      {{- end }}
      {{- range .failingIndex }}
      # {{ .why }}
      - action: FailIndex
        onExitCodes:
          containerName: trainer
          operator: In
          values: [{{ .code }}]
      {{- end }}
      {{- if and .fatal $policy.fatalExitCodes }}
      - action: {{ ternary "FailIndex" "FailJob" (eq (toString .fatal) "index") }}
        onExitCodes:
          containerName: trainer
          operator: In
          values: [{{ include "allranks.controllers.fatal" .ctx }}]
      {{- end }}
  {{- if .rankZeroEnds }}
  # The training is over when rank 0 is done. A node that came late must not keep the job open, and
  # a rank that aborts while it ends must not train again.
  successPolicy:
    rules:
      - succeededIndexes: "0"
  {{- end }}
  {{- if .firstEnds }}
  # Any pod that ends with 0 has done what the others are still trying to do.
  successPolicy:
    rules:
      - succeededCount: 1
  {{- end }}
  {{- with int .enough }}
  # So many replica groups are enough: all that are there have the same weights.
  successPolicy:
    rules:
      - succeededCount: {{ . }}
  {{- end }}
  template:
    {{- .template | nindent 4 }}
{{- end -}}

{{/* A StatefulSet, of the same dict. */}}
{{- define "allranks.controllers.statefulSet" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "allranks.controllers.metadata" . | nindent 2 }}
spec:
  serviceName: {{ include "allranks.names.release" .ctx }}
  # A suspended StatefulSet has no pods.
  replicas: {{ .ctx.Values.runPolicy.suspend | ternary 0 (int .count) }}
  # All ranks start together: none of them gets ready without the others.
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "allranks.yaml" (dict "value" (include "allranks.labels.selector" . | fromJson)) | nindent 6 }}
  template:
    {{- .template | nindent 4 }}
{{- end -}}

{{- define "allranks.controllers.metadata" -}}
{{- $annotations := include "allranks.annotations.controller" . | fromJson -}}
{{- include "allranks.objects.metadata" (merge (dict "annotations" $annotations) .) -}}
{{- end -}}

{{/* Exit codes that no restart can mend, joined by commas; in order, as the API demands. Takes the
     root context. */}}
{{- define "allranks.controllers.fatal" -}}
{{- $codes := list -}}
{{- range .Values.runPolicy.fatalExitCodes -}}
{{- $codes = append $codes (printf "%03d" (int .)) -}}
{{- end -}}
{{- range $i, $code := sortAlpha $codes -}}
{{- if $i -}},{{- end -}}{{- regexReplaceAll "^0+" $code "" -}}
{{- end -}}
{{- end -}}
