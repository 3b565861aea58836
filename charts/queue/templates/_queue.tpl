{{/*
What the templates of this chart share. All take the root context unless they say otherwise.
*/}}

{{/* The queue's own name. */}}
{{- define "queue.name" -}}
{{- .Values.name | default .Release.Name -}}
{{- end -}}

{{/* Most of its objects. */}}
{{- define "queue.object" -}}
allranks-queue-{{ include "queue.name" . }}
{{- end -}}

{{/* Its objects of the whole cluster, whose names no two namespaces share. */}}
{{- define "queue.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "queue.name" .) -}}
{{- end -}}

{{/* A block of the values as YAML text: (dict "value" $block). */}}
{{- define "queue.block" -}}
{{- include "allranks.yaml" . }}
{{ end -}}

{{/* Of what jobs get from it: 12 hexadecimal digits. */}}
{{- define "queue.revision" -}}
{{- $texts := list -}}
{{- range list "defaults" "rules" "imposed" -}}
{{- $texts = append $texts (include "queue.block" (dict "value" (get $.Values .))) -}}
{{- end -}}
{{- join "---\n" $texts | sha256sum | trunc 12 -}}
{{- end -}}

{{/* The labels that are the chart's. They are not those of a run: this release is none. JSON. */}}
{{- define "queue.labels.own" -}}
{{- dict
      "allranks.dev/queue" (include "queue.name" .)
      "app.kubernetes.io/name" .Chart.Name
      "app.kubernetes.io/instance" .Release.Name
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" .Chart.AppVersion
      "helm.sh/chart" (include "allranks.names.chart" .)
    | toJson -}}
{{- end -}}

{{/* Labels of every object. JSON. */}}
{{- define "queue.labels" -}}
{{- merge (include "queue.labels.own" . | fromJson) .Values.labels | toJson -}}
{{- end -}}

{{/* metadata, as YAML: (dict "ctx" $ "name" "x"), with
     cluster      true for an object of the whole cluster
     annotations  more annotations */}}
{{- define "queue.metadata" -}}
{{- $metadata := dict
      "name" .name
      "labels" (include "queue.labels" .ctx | fromJson) -}}
{{- if not .cluster -}}
{{- $_ := set $metadata "namespace" .ctx.Release.Namespace -}}
{{- end -}}
{{- with merge (deepCopy (.annotations | default dict)) .ctx.Values.annotations -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $metadata) -}}
{{- end -}}

{{/* A map of resources to quantities, as text. JSON: (dict "value" $map). */}}
{{- define "queue.amounts" -}}
{{- $amounts := dict -}}
{{- range $resource, $amount := .value -}}
{{- $_ := set $amounts $resource (include "allranks.quantity.text" $amount) -}}
{{- end -}}
{{- toJson $amounts -}}
{{- end -}}

{{/* What the value `queue` of the jobs is to be for each scheduler that the release makes a queue of.
     JSON. */}}
{{- define "queue.ofSchedulers" -}}
{{- $queues := dict -}}
{{- range $dialect, $own := dict "kueue" .Values.kueue.localQueue "kai" .Values.kai.queue "volcano" .Values.volcano.queue -}}
{{- if (get $.Values $dialect).enabled -}}
{{- $_ := set $queues $dialect ($own | default (include "queue.name" $)) -}}
{{- end -}}
{{- end -}}
{{- toJson $queues -}}
{{- end -}}
