{{/*
The operator's pod.
*/}}

{{/* What the operator is told; `allranks-operator --help` lists the variables. JSON list. Takes the
     root context. */}}
{{- define "operator.pod.env" -}}
{{- $env := list
      (dict "name" "ALLRANKS_WATCH_NAMESPACES" "value" (include "operator.watched" . | fromJsonArray | join ","))
      (dict "name" "ALLRANKS_WATCH_CLUSTER" "value" (toString .Values.watch.cluster))
      (dict "name" "ALLRANKS_MASTER_IMAGE" "value" (.Values.master.image | default (include "operator.image" .)))
      (dict "name" "ALLRANKS_MASTER_ACCOUNTS" "value" (toString .Values.master.history))
      (dict "name" "ALLRANKS_LISTEN" "value" (printf ":%d" (int .Values.port)))
      (dict "name" "ALLRANKS_LOG_LEVEL" "value" .Values.logLevel)
      (dict "name" "ALLRANKS_CONCURRENCY" "value" (toString (int .Values.concurrency)))
      (dict "name" "ALLRANKS_POD_LOGS" "value" (toString .Values.podLogs))
      (dict "name" "ALLRANKS_LEASE_NAMESPACE" "value" .Release.Namespace)
      (dict "name" "ALLRANKS_LEASE_NAME" "value" (include "operator.name" .))
      (dict "name" "ALLRANKS_OPERATOR_ACCOUNT" "valueFrom" (dict "fieldRef" (dict "fieldPath" "spec.serviceAccountName")))
      (dict "name" "ALLRANKS_OPERATOR_NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace")))
      (dict "name" "ALLRANKS_IDENTITY" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name"))) -}}
{{- toJson $env -}}
{{- end -}}

{{/* A security context, as YAML: (dict "given" $user "own" $ours). */}}
{{- define "operator.pod.security" -}}
{{- $context := deepCopy .own -}}
{{- range $key, $value := .given -}}
{{- $_ := set $context $key $value -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $context) -}}
{{- end -}}
