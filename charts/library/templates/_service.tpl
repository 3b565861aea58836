{{/*
Services. A Service over all pods costs about two endpoint updates per pod, so by default only
rank 0 has a name; not-ready addresses are published, because the pods meet before they are ready.
*/}}

{{/* The headless Service that gives pods their names:
     (dict "ctx" $ "role" "node" "controller" "Job" "port" 29500). */}}
{{- define "allranks.service.headless" -}}
{{- $selector := include "allranks.labels.selectorOfRankZero" . | fromJson -}}
{{- if .ctx.Values.network.serviceAllPods -}}
{{- $selector = include "allranks.labels.selector" . | fromJson -}}
{{- end -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" (include "allranks.names.release" .ctx)) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "allranks.yaml" (dict "value" $selector) | nindent 4 }}
  ports:
    {{- include "allranks.service.ports" . | nindent 4 }}
{{- end -}}

{{/* The ClusterIP Service in front of rank 0: its address outlives the pod's. */}}
{{- define "allranks.service.master" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" (include "allranks.names.master" .ctx)) | nindent 2 }}
spec:
  type: ClusterIP
  publishNotReadyAddresses: true
  selector:
    {{- include "allranks.yaml" (dict "value" (include "allranks.labels.selectorOfRankZero" . | fromJson)) | nindent 4 }}
  ports:
    {{- include "allranks.service.ports" . | nindent 4 }}
{{- end -}}

{{- define "allranks.service.ports" -}}
- name: rendezvous
  port: {{ int .port }}
  targetPort: {{ int .port }}
  protocol: TCP
{{- end -}}
