{{/*
What the team may do in its namespace: submit, watch, sync and delete jobs. These are all the rights that the
chart grants, and tests/cluster/test_queue_rights.py holds them to what is used. A Role or
RoleBinding is not among them.
*/}}

{{/* Takes the root context. */}}
{{- define "queue.rights" -}}
{{- $any := not .Values.rules.workloads -}}
# Helm keeps a release in a Secret.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, create, update, patch, delete]
# What a release is made of, and a workspace.
- apiGroups: [""]
  resources: [configmaps, services, persistentvolumeclaims, serviceaccounts]
  verbs: [get, list, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [allranks.dev]
  resources: [trainingruns]
  verbs: [get, list, watch, create, patch, delete]
{{- if or $any (has "elastic" .Values.rules.workloads) }}
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs, scaleplans]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
# Logs, and why a run stands still.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events, resourcequotas]
  verbs: [list]
# A sync reaches the launcher of each pod; a claim is filled through one.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [create, get]
{{- if .Values.kueue.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads, localqueues]
  verbs: [get, list]
{{- end }}
{{- if or .Values.kai.enabled .Values.volcano.enabled }}
- apiGroups: [scheduling.run.ai, scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end -}}
