{{/*
What every object has.
*/}}

{{/* metadata of an object, as YAML: (dict "ctx" $ "role" "node" "name" "x" "annotations" $map);
     without `annotations` they are the user's, and with `cluster` it is in no namespace. */}}
{{- define "allranks.objects.metadata" -}}
{{- $metadata := dict
      "name" .name
      "labels" (include "allranks.labels" . | fromJson) -}}
{{- if not .cluster -}}{{- $_ := set $metadata "namespace" .ctx.Release.Namespace -}}{{- end -}}
{{- with (hasKey . "annotations" | ternary .annotations .ctx.Values.annotations) -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $metadata) -}}
{{- end -}}

{{/* The account that the pods run as, where the chart makes it: (dict "ctx" $ "role" "node"). */}}
{{- define "allranks.objects.serviceAccount" -}}
{{- if .ctx.Values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "allranks.objects.metadata" (dict
        "ctx" .ctx "role" .role "name" (include "allranks.names.serviceAccount" .ctx)
        "annotations" (merge (deepCopy .ctx.Values.serviceAccount.annotations) .ctx.Values.annotations)) | nindent 2 }}
automountServiceAccountToken: {{ .ctx.Values.serviceAccount.automountToken }}
{{- end }}
{{- end -}}

{{/* Who reaches the release's pods: these themselves, and whom the values name. What the pods ask of
     others (DNS, data, an API server) is left alone. (dict "ctx" $ "role" "node"). */}}
{{- define "allranks.objects.networkPolicy" -}}
{{- $policy := .ctx.Values.networkPolicy -}}
{{- if $policy.enabled -}}
{{- $own := dict "matchLabels" (include "allranks.labels.selector" (dict "ctx" (.ctx.Whole | default .ctx)) | fromJson) -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" (include "allranks.names.release" .ctx)) | nindent 2 }}
spec:
  podSelector:
    {{- include "allranks.yaml" (dict "value" $own) | nindent 4 }}
  policyTypes: [Ingress]
  ingress:
    - from:
        {{- include "allranks.yaml" (dict "value" (prepend $policy.from (dict "podSelector" $own))) | nindent 8 }}
{{- end }}
{{- end -}}

{{/* No cluster serves this kind. Where the values ask for what only the post-renderer does, the
     document stops `helm install` before anything is applied; the post-renderer removes it. Takes the
     root context. */}}
{{- define "allranks.objects.postRendererRequired" -}}
{{- with include "allranks.annotations.postRendererFor" . -}}
apiVersion: allranks.dev/v1alpha1
kind: PostRendererRequired
metadata:
  name: add---post-renderer-allranks-postrender
message: {{ printf "%s: only the post-renderer does this. Add --post-renderer allranks-postrender to the helm command, or use allranks render." . | quote }}
{{- end }}
{{- end -}}
