{{/*
What every object has.
*/}}

{{/* metadata of an object, as YAML: (dict "ctx" $ "role" "node" "name" "x" "annotations" $map);
     without `annotations` they are the user's. */}}
{{- define "allranks.objects.metadata" -}}
{{- $metadata := dict
      "name" .name
      "namespace" .ctx.Release.Namespace
      "labels" (include "allranks.labels" . | fromJson) -}}
{{- with (hasKey . "annotations" | ternary .annotations .ctx.Values.annotations) -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $metadata) -}}
{{- end -}}
