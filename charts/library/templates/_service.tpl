{{/*
Services. A Service over all pods costs about two endpoint updates per pod, so where the workload
needs no more only rank 0 has a name; not-ready addresses are published, because the pods meet
before they are ready.
*/}}

{{/* The headless Service that gives pods their names, those of `selector`:
     (dict "ctx" $ "role" "node" "selector" $labels "port" 29500 "portName" "rendezvous"). Port 0 is
     none, and without `name` it is the release's. */}}
{{- define "allranks.service.headless" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" (.name | default (include "allranks.names.release" .ctx))) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "allranks.yaml" (dict "value" .selector) | nindent 4 }}
  {{- if .port }}
  ports:
    {{- include "allranks.service.ports" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The ClusterIP Service in front of rank 0: its address outlives the pod's.
     (dict "ctx" $ "role" "node" "controller" "Job" "port" 29500 "portName" "rendezvous"). */}}
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
- name: {{ .portName }}
  port: {{ int .port }}
  targetPort: {{ int .port }}
  protocol: TCP
{{- end -}}
