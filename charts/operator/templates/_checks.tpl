{{/*
What this chart refuses: rules between values, which a schema cannot say.
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "operator.checks" -}}
{{- $problems := list -}}
{{- if and .Values.watch.cluster .Values.watch.namespaces -}}
{{- $problems = append $problems "watch.namespaces: watch.cluster is all of them already; empty one of the two: --set-json 'watch.namespaces=[]', or --set watch.cluster=false" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- $problems = append $problems "serviceAccount.name: empty; name the account that is there, or have one made with create" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- $problems = append $problems (printf "release name: %q cannot name a Service; use lower-case letters, digits and '-', and start with a letter" .Release.Name) -}}
{{- end -}}
{{- $own := include "operator.selector" . | fromJson -}}
{{- range $key := keys .Values.labels | sortAlpha -}}
{{- if or (hasKey $own $key) (hasPrefix "allranks.dev/" $key) (eq $key "app.kubernetes.io/part-of") -}}
{{- $problems = append $problems (printf "labels.%s: this label is the chart's own, or says that an object is part of a run; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
