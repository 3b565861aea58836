{{/*
What the templates of this chart share. All take the root context unless they say otherwise.
*/}}

{{/* The operator's Deployment, Service, Role and account. */}}
{{- define "operator.name" -}}
{{- .Release.Name -}}-watcher
{{- end -}}

{{/* Objects of the whole cluster: (dict "ctx" $ "part" "watcher"). */}}
{{- define "operator.clusterName" -}}
{{- printf "%s-%s-%s" .ctx.Release.Namespace .ctx.Release.Name .part -}}
{{- end -}}

{{/* The account that the operator runs as. */}}
{{- define "operator.account" -}}
{{- .Values.serviceAccount.name | default (include "operator.name" .) -}}
{{- end -}}

{{/* repository@digest, or repository:tag. */}}
{{- define "operator.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .digest -}}@{{- .digest -}}{{- else -}}:{{- .tag | default $.Chart.AppVersion -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The namespaces that are watched one by one, as a JSON list; none where all are. */}}
{{- define "operator.watched" -}}
{{- if .Values.watch.cluster -}}
[]
{{- else -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{/* The namespaces that have an account for masters, as a JSON list. */}}
{{- define "operator.mastered" -}}
{{- $watched := include "operator.watched" . | fromJsonArray | default (list .Release.Namespace) -}}
{{- .Values.master.namespaces | default $watched | uniq | toJson -}}
{{- end -}}

{{/* What selects the operator's pods. JSON. */}}
{{- define "operator.selector" -}}
{{- dict "app.kubernetes.io/name" .Chart.Name "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/component" "watcher" | toJson -}}
{{- end -}}

{{/* Labels of every object. They are not those of a run: this release is none. JSON. */}}
{{- define "operator.labels" -}}
{{- $own := include "operator.selector" . | fromJson -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (include "allranks.names.chart" .) -}}
{{- merge $own .Values.labels | toJson -}}
{{- end -}}

{{/* metadata, as YAML: (dict "ctx" $ "name" "x"), with
     namespace    "" is the release's; "-" is none, for an object of the whole cluster
     labels       more labels
     annotations  more annotations */}}
{{- define "operator.metadata" -}}
{{- $metadata := dict
      "name" .name
      "labels" (merge (deepCopy (.labels | default dict)) (include "operator.labels" .ctx | fromJson)) -}}
{{- if ne (.namespace | default "") "-" -}}
{{- $_ := set $metadata "namespace" (.namespace | default .ctx.Release.Namespace) -}}
{{- end -}}
{{- with merge (deepCopy (.annotations | default dict)) .ctx.Values.annotations -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $metadata) -}}
{{- end -}}

{{/* A RoleBinding to a Role of the same name and namespace:
     (dict "ctx" $ "name" "x" "namespace" "n" "account" "a" "accountNamespace" "m"). */}}
{{- define "operator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "operator.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | quote }}
    namespace: {{ .accountNamespace | quote }}
{{- end -}}
