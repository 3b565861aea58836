{{/*
Who may do what. These are all the rights that the chart grants; docs/guides/operator.md says why
each of them is needed, and a test holds the two equal.
*/}}

{{/* The operator, where it watches. Takes the root context. */}}
{{- define "operator.rules.watched" -}}
- apiGroups: [allranks.dev]
  resources: [trainingruns]
  verbs: [list, watch, create, patch]
- apiGroups: [allranks.dev]
  resources: [trainingruns/status]
  verbs: [patch]
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs]
  verbs: [list, watch]
- apiGroups: [elastic.iml.github.io]
  resources: [scaleplans]
  verbs: [list, watch, create, delete]
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs/status, scaleplans/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods, services]
  verbs: [list, watch, create, delete]
# What the pods of an elastic job show to its master; never read again.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
# What explains a run that stands still.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
- apiGroups: [scheduling.x-k8s.io, scheduling.run.ai, scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [list]
{{- if .Values.master.history }}
# Each master runs as an account of its job's own, with a right to that job's history alone. Kubernetes
# lets nobody give a right that they do not have: those to get and to patch are had for that.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, patch]
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs, scaleplans]
  verbs: [get]
{{- end }}
{{- if .Values.podLogs }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* The operator, in its own namespace: who of several acts. A right to create cannot be given by
     name. Takes the root context. */}}
{{- define "operator.rules.lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "operator.name" . | quote }}]
  verbs: [get, update]
{{- end -}}

{{/* The masters of elastic jobs that have no account of their own. Takes the root context. */}}
{{- define "operator.rules.master" -}}
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs]
  verbs: [get]
- apiGroups: [elastic.iml.github.io]
  resources: [scaleplans]
  verbs: [get, list, create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* People who may edit or view a namespace: (dict "verbs" $list). */}}
{{- define "operator.rules.people" -}}
- apiGroups: [allranks.dev]
  resources: [trainingruns]
  verbs: {{ toJson .verbs }}
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs, scaleplans]
  verbs: {{ toJson .verbs }}
{{- end -}}
