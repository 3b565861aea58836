{{/*
What this chart refuses: rules between values, which a schema cannot say.
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "runner.checks" -}}
{{- $problems := list -}}
{{- if or (not .Values.sweep.head) (not .Values.sweep.rules) -}}
{{- $problems = append $problems "sweep: this chart is installed by `allranks sweep run NAME -f values.yaml --in-cluster`, which fills in what is tried and the rights that a trial needs" -}}
{{- end -}}
{{- range $key := keys .Values.labels | sortAlpha -}}
{{- if or (hasPrefix "allranks.dev/" $key) (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- $problems = append $problems (printf "labels.%s: this label is the chart's own, or says that an object is part of a run; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
