{{/*
What the templates of this chart share. All take the root context unless they say otherwise.
*/}}

{{/* The account of the runner, its Role and binding. */}}
{{- define "runner.name" -}}
{{- .Release.Name -}}-runner
{{- end -}}

{{/* The first of the journal's Secrets, and its Lease. */}}
{{- define "runner.journal" -}}
{{- .Release.Name -}}-journal
{{- end -}}

{{/* The Secret with the chart of the trials. */}}
{{- define "runner.chart" -}}
{{- .Release.Name -}}-chart
{{- end -}}

{{/* repository@digest, or repository:tag. */}}
{{- define "runner.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .digest -}}@{{- .digest -}}{{- else -}}:{{- .tag | default $.Chart.AppVersion -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object. They are not those of a run: this release is none. JSON. */}}
{{- define "runner.labels" -}}
{{- $own := dict
      "app.kubernetes.io/name" .Chart.Name
      "app.kubernetes.io/instance" .Release.Name
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" .Chart.AppVersion
      "helm.sh/chart" (include "allranks.names.chart" .) -}}
{{- merge $own .Values.labels | toJson -}}
{{- end -}}

{{/* metadata, as YAML: (dict "ctx" $ "name" "x"). */}}
{{- define "runner.metadata" -}}
{{- $metadata := dict
      "name" .name
      "namespace" .ctx.Release.Namespace
      "labels" (include "runner.labels" .ctx | fromJson) -}}
{{- with .ctx.Values.annotations -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $metadata) -}}
{{- end -}}

{{/* A security context, as YAML: (dict "given" $user "own" $ours). */}}
{{- define "runner.security" -}}
{{- $context := deepCopy .own -}}
{{- range $key, $value := .given -}}
{{- $_ := set $context $key $value -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $context) -}}
{{- end -}}
