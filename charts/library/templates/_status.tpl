{{/*
The TrainingRun: the object that says how a release does. The operator keeps its status, and makes
one itself for a release whose chart made none.
*/}}

{{/* "true" where the release is to have one: where the values ask for it, and by default where the
     cluster knows the kind. Takes the root context. */}}
{{- define "allranks.status.wanted" -}}
{{- $hasRunApi := .Capabilities.APIVersions.Has "allranks.dev/v1alpha1/TrainingRun" -}}
{{- ternary $hasRunApi .Values.status.enabled (eq (toString .Values.status.enabled) "auto") -}}
{{- end -}}

{{/* The object. Takes the root context. */}}
{{- define "allranks.status.trainingRun" -}}
{{- if eq (include "allranks.status.wanted" .) "true" -}}
apiVersion: allranks.dev/v1alpha1
kind: TrainingRun
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" . "name" (include "allranks.names.release" .)) | nindent 2 }}
spec:
  release: {{ .Release.Name | quote }}
  workload: {{ .Values.workload | quote }}
  suspend: {{ .Values.runPolicy.suspend }}
{{- end }}
{{- end -}}
