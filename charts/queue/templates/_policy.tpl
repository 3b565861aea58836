{{/*
What the API server holds jobs to: the rules, in CEL. Each is one validation, whose message begins with
the value that is to be changed. On an update a rule lets through what the stored object had already,
so that a changed queue stops nothing that runs.

The variables exist twice: of the object, and with `old` in front of the stored one, which is empty where
there is none. `pods` are the PodSpecs that an object has, each with how many pods are made of it.
*/}}

{{/* "true" where there are to be policies. Takes the root context. */}}
{{- define "queue.policy.wanted" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- ternary $served .Values.policy.enabled (eq (toString .Values.policy.enabled) "auto") -}}
{{- end -}}

{{/* "true" where a rule counts pods or GPUs, which a scale request changes and does not show. */}}
{{- define "queue.policy.counts" -}}
{{- with .Values.rules -}}{{- or (gt (int64 .maxGpusPerJob) 0) (gt (int64 .maxNodesPerJob) 0) -}}{{- end -}}
{{- end -}}

{{/* A policy of this namespace and its binding: (dict "ctx" $ "part" "jobs" "spec" $yaml). */}}
{{- define "queue.policy" -}}
{{- $name := printf "allranks-queue-%s-%s" (include "queue.clusterName" .ctx) .part -}}
{{- $metadata := include "queue.metadata" (dict "ctx" .ctx "name" $name "cluster" true) -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  {{- $metadata | nindent 2 }}
spec:
  failurePolicy: Fail
  {{- .spec | trim | nindent 2 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- $metadata | nindent 2 }}
spec:
  policyName: {{ $name | quote }}
  validationActions: [Deny]
{{- end -}}

{{/* Which requests: (dict "ctx" $ "rules" $yaml). */}}
{{- define "queue.policy.matches" -}}
matchConstraints:
  namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ .ctx.Release.Namespace | quote }}
  resourceRules:
    {{- .rules | nindent 4 }}
{{- end -}}

{{/* What makes pods, or is one. Takes the root context. */}}
{{- define "queue.policy.jobs" -}}
{{- $queue := include "queue.name" . -}}
{{- $resources := list
      (dict "apiGroups" (list "") "resources" (list "pods" "pods/ephemeralcontainers" "replicationcontrollers"))
      (dict "apiGroups" (list "batch") "resources" (list "jobs" "cronjobs"))
      (dict "apiGroups" (list "apps") "resources" (list "statefulsets" "deployments" "replicasets" "daemonsets"))
      (dict "apiGroups" (list "elastic.iml.github.io") "resources" (list "elasticjobs")) -}}
{{- $matched := list -}}
{{- range $resources -}}
{{- $matched = append $matched (merge (dict "apiVersions" (list "*") "operations" (list "CREATE" "UPDATE")) .) -}}
{{- end -}}
{{- include "queue.policy.matches" (dict "ctx" . "rules" (include "allranks.yaml" (dict "value" $matched))) }}
matchConditions:
  # Pods of an object that was held when it was made are not held again. Who is asking is what
  # Kubernetes knows; the owner is what anybody may write.
  - name: not-of-a-controller
    expression: >-
      !(request.kind.kind in ['Pod', 'ReplicaSet']
      && request.userInfo.username in {{ include "queue.policy.controllers" . }}
      && object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)
      && owner.kind in ['Job', 'StatefulSet', 'Deployment', 'ReplicaSet', 'ReplicationController', 'DaemonSet', 'ElasticJob']))
  {{- if not .Values.policy.forAll }}
  - name: of-this-queue
    expression: object.metadata.?labels['allranks.dev/queue'].orValue('') == '{{ $queue }}'
  {{- else if .Values.policy.otherQueues }}
  - name: of-no-other-queue
    expression: >-
      !(object.metadata.?labels['allranks.dev/queue'].orValue('') in {{ include "queue.policy.strings" .Values.policy.otherQueues }})
  {{- end }}
variables:
  {{- include "queue.policy.variables" (dict "ctx" . "old" "") | nindent 2 }}
  {{- include "queue.policy.variables" (dict "ctx" . "old" "old") | nindent 2 }}
  - name: workload
    expression: variables.it.?metadata.labels['allranks.dev/workload'].orValue('')
  # What holds GPUs, and what says that it is a job of ours.
  - name: trains
    expression: variables.gpus > 0 || variables.workload != ''
validations:
{{- $validations := list -}}
{{- range list "sizes" "duration" "lists" "host" -}}
{{- with include (printf "queue.policy.%s" .) $ | trim -}}{{- $validations = append $validations . -}}{{- end -}}
{{- end }}
  {{- join "\n" $validations | default "- expression: \"true\"" | nindent 2 }}
{{- end -}}

{{/* Who makes pods of what was held, as a list in CEL. */}}
{{- define "queue.policy.controllers" -}}
{{- $accounts := list "system:kube-controller-manager" -}}
{{- range list "job" "statefulset" "deployment" "replicaset" "replication" "daemon-set" -}}
{{- $accounts = append $accounts (printf "system:serviceaccount:kube-system:%s-controller" .) -}}
{{- end -}}
{{- include "queue.policy.strings" (concat $accounts .Values.policy.controllers) -}}
{{- end -}}

{{/* A list of strings in CEL. None of them has a quote or a backslash in it: the schema sees to that. */}}
{{- define "queue.policy.strings" -}}
{{- $quoted := list -}}
{{- range . -}}{{- $quoted = append $quoted (printf "'%s'" .) -}}{{- end -}}
[{{ join ", " $quoted }}]
{{- end -}}

{{/* GPUs that a list of containers asks, in CEL: (dict "ctx" $ "of" "containers"). An extended resource
     has a limit; a template that no API server has judged may have a request alone. */}}
{{- define "queue.policy.gpusOf" -}}
{{- $gpu := .ctx.Values.gpuResource -}}
{{ .of }}.map(c, c.?resources.limits['{{ $gpu }}'].orValue(c.?resources.requests['{{ $gpu }}'].orValue(dyn(0)))).map(q, type(q) == int ? int(q) : quantity(q).asInteger())
{{- end -}}

{{/* (dict "ctx" $ "old" ""|"old"). */}}
{{- define "queue.policy.variables" -}}
{{- $it := printf "variables.%sit" .old -}}
- name: {{ .old }}it
  expression: {{ ternary "oldObject == null ? dyn({}) : dyn(oldObject)" "dyn(object)" (eq .old "old") | quote }}
# {n, spec, role} of each kind of pod.
- name: {{ .old }}pods
  expression: >-
    size({{ $it }}) == 0 ? dyn([])
    : request.kind.kind == 'Pod' ? dyn([{'n': dyn(1), 'spec': dyn({{ $it }}.spec), 'role': dyn('')}])
    : request.kind.kind == 'CronJob' ? dyn([{'n': dyn([{{ $it }}.spec.jobTemplate.spec.?parallelism.orValue(1),
    {{ $it }}.spec.jobTemplate.spec.?completions.orValue({{ $it }}.spec.jobTemplate.spec.?parallelism.orValue(1))].min()),
    'spec': dyn({{ $it }}.spec.jobTemplate.spec.template.spec), 'role': dyn('')}])
    : request.kind.kind == 'Job' ? dyn([{'n': dyn([{{ $it }}.spec.?parallelism.orValue(1),
    {{ $it }}.spec.?completions.orValue({{ $it }}.spec.?parallelism.orValue(1))].min()),
    'spec': dyn({{ $it }}.spec.template.spec), 'role': dyn('')}])
    : request.kind.kind == 'ElasticJob' ? dyn({{ $it }}.?spec.replicaSpecs.orValue({}).map(role,
    {'n': dyn([{{ $it }}.spec.replicaSpecs[role].?replicas.orValue(0), {{ $it }}.spec.replicaSpecs[role].?maxReplicas.orValue(0)].max()),
    'spec': dyn({{ $it }}.spec.replicaSpecs[role].?template.spec.orValue({})), 'role': dyn(role)}))
    : request.kind.kind == 'DaemonSet' ? dyn([{'n': dyn(100000), 'spec': dyn({{ $it }}.spec.template.spec), 'role': dyn('')}])
    : dyn([{'n': dyn({{ $it }}.spec.?replicas.orValue(1)), 'spec': dyn({{ $it }}.spec.template.spec), 'role': dyn('')}])
- name: {{ .old }}containers
  expression: >-
    variables.{{ .old }}pods.map(pod, pod.spec.?containers.orValue([]) + pod.spec.?initContainers.orValue([])
    + pod.spec.?ephemeralContainers.orValue([]))
# An ElasticJob's own bound holds for all of its plans.
- name: {{ .old }}gpus
  expression: >-
    [0, variables.{{ .old }}pods.map(pod, {{ include "queue.policy.podGpus" .ctx }} * int(pod.n)).sum(),
    request.kind.kind == 'ElasticJob' ? [{{ $it }}.?spec.resourceLimits.gpu.orValue(dyn(0))].map(q, type(q) == int ? int(q) : quantity(q).asInteger())[0] : 0].max()
- name: {{ .old }}deadline
  expression: >-
    request.kind.kind == 'CronJob' ? int({{ $it }}.?spec.jobTemplate.spec.activeDeadlineSeconds.orValue(0)) : int({{ $it }}.?spec.activeDeadlineSeconds.orValue(0))
- name: {{ .old }}nodes
  expression: variables.{{ .old }}pods.filter(pod, pod.role != 'dlrover-master').map(pod, int(pod.n)).sum()
{{- end -}}

{{/* GPUs of the pod `pod`, in CEL: its containers and sidecars together, or its largest other init
     container where that is more. Takes the root context. */}}
{{- define "queue.policy.podGpus" -}}
([0, {{ include "queue.policy.gpusOf" (dict "ctx" . "of" "pod.spec.?containers.orValue([])") }}.sum(), ([0] + {{ include "queue.policy.gpusOf" (dict "ctx" . "of" "pod.spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue('') != 'Always')") }}).max()].max() + {{ include "queue.policy.gpusOf" (dict "ctx" . "of" "pod.spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue('') == 'Always')") }}.sum())
{{- end -}}

{{- define "queue.policy.sizes" -}}
{{- $queue := include "queue.name" . -}}
{{- with int64 .Values.rules.maxGpusPerJob }}
- expression: variables.gpus <= {{ . }} || variables.gpus <= variables.oldgpus
  messageExpression: >-
    request.kind.kind == 'DaemonSet' ? 'gpus: a DaemonSet has a pod on each node, and queue {{ $queue }} allows {{ . }} GPUs for each job (rules.maxGpusPerJob); use a Job'
    : 'gpus: ' + string(variables.gpus) + ' GPUs are more than the {{ . }} that queue {{ $queue }} allows (rules.maxGpusPerJob)'
- expression: >-
    request.kind.kind != 'ElasticJob' || variables.gpus == 0 || variables.it.?spec.resourceLimits.gpu.hasValue()
    || variables.containers == variables.oldcontainers
  message: >-
    elastic.auto.limits.gpu: not set, and plans may give an ElasticJob any number of GPUs; set it to at most {{ . }}, which queue {{ $queue }} allows (rules.maxGpusPerJob)
- expression: >-
    variables.pods.all(pod, size(pod.spec.?resourceClaims.orValue([])) == 0) || variables.containers == variables.oldcontainers
  message: >-
    podTemplate.spec.resourceClaims: devices of a claim are not counted, and queue {{ $queue }} allows {{ . }} GPUs for each job (rules.maxGpusPerJob); use gpus
{{- end }}
{{- with int64 .Values.rules.maxNodesPerJob }}
- expression: request.kind.kind == 'DaemonSet' || variables.nodes <= {{ . }} || variables.nodes <= variables.oldnodes
  messageExpression: >-
    'nodes: ' + string(variables.nodes) + ' nodes are more than the {{ . }} that queue {{ $queue }} allows (rules.maxNodesPerJob)'
{{- end }}
{{- end -}}

{{/* A Job may run as long as its deadline says; the pods of an ElasticJob, and pods without a controller, as
     long as their own does. What has replicas never ends. What follows a lead ends a minute after it. */}}
{{- define "queue.policy.duration" -}}
{{- $queue := include "queue.name" . -}}
{{- with int64 .Values.rules.maxDurationSeconds }}
{{- $wide := add . 60 }}
- expression: >-
    !(request.kind.kind in ['Job', 'CronJob']) || !variables.trains
    || (variables.deadline > 0 && (variables.deadline <= {{ . }} || (variables.deadline <= {{ $wide }}
    && variables.workload in ['mpi', 'elastic'] && variables.it.?metadata.annotations['allranks.dev/lead'].orValue('') != 'true')))
    || (oldObject != null && variables.deadline == variables.olddeadline)
  messageExpression: >-
    'runPolicy.activeDeadlineSeconds: ' + (variables.deadline > 0 ? string(variables.deadline) + ' seconds are more than the ' : 'not set; set it to at most ')
    + '{{ . }} that queue {{ $queue }} allows (rules.maxDurationSeconds)'
- expression: >-
    !(request.kind.kind in ['Pod', 'ElasticJob']) || variables.pods.all(pod, {{ include "queue.policy.podGpus" $ }} == 0
    || (pod.spec.?activeDeadlineSeconds.orValue(0) > 0 && pod.spec.?activeDeadlineSeconds.orValue(0) <= {{ . }}))
    || (oldObject != null && variables.pods.all(pod, variables.oldpods.exists(p,
    p.role == pod.role && p.spec.?activeDeadlineSeconds.orValue(0) == pod.spec.?activeDeadlineSeconds.orValue(0))))
  message: >-
    podTemplate.spec.activeDeadlineSeconds: a pod with GPUs needs one of at most {{ . }}, which queue {{ $queue }} allows (rules.maxDurationSeconds)
- expression: >-
    request.kind.kind in ['Pod', 'ElasticJob', 'Job', 'CronJob'] || variables.gpus == 0 || oldObject != null && variables.gpus <= variables.oldgpus
  messageExpression: >-
    variables.workload + (variables.workload == '' ? '' : '.controller: ') + 'a ' + request.kind.kind + ' with GPUs never ends, and queue {{ $queue }} allows {{ . }} seconds (rules.maxDurationSeconds); use a Job'
{{- end }}
{{- end -}}

{{- define "queue.policy.lists" -}}
{{- $queue := include "queue.name" . -}}
{{- with .Values.rules.images }}
{{- $allowed := include "queue.policy.image" . }}
- expression: >-
    variables.containers.all(cs, cs.map(c, c.?image.orValue('')).all(image, {{ $allowed }}
    || variables.oldcontainers.exists(olds, olds.exists(old, old.?image.orValue('') == image))))
  messageExpression: >-
    'image.repository: ' + variables.containers.map(cs, cs.map(c, c.?image.orValue('')).filter(image, !({{ $allowed }})))
    .filter(images, size(images) > 0)[0][0] + ' is none of the images that queue {{ $queue }} allows (rules.images): {{ include "queue.policy.some" . }}'
{{- end }}
{{- with .Values.rules.priorityClasses }}
{{- $in := include "queue.policy.strings" (concat (list "") .) }}
- expression: >-
    variables.pods.all(pod, pod.spec.?priorityClassName.orValue('') in {{ $in }}
    || variables.oldpods.exists(old, old.spec.?priorityClassName.orValue('') == pod.spec.?priorityClassName.orValue('')))
  messageExpression: >-
    'scheduling.priorityClassName: ' + variables.pods.map(pod, pod.spec.?priorityClassName.orValue('')).filter(name, !(name in {{ $in }}))[0]
    + ' is none of the classes that queue {{ $queue }} allows (rules.priorityClasses): {{ include "queue.policy.some" . }}'
- expression: >-
    ['kueue.x-k8s.io/priority-class', 'priorityClassName'].all(label, variables.it.?metadata.labels[label].orValue('') in {{ $in }}
    || variables.it.?metadata.labels[label].orValue('') == variables.oldit.?metadata.labels[label].orValue(''))
  messageExpression: >-
    'scheduling.priorityClassName: ' + ['kueue.x-k8s.io/priority-class', 'priorityClassName'].map(label, variables.it.?metadata.labels[label].orValue(''))
    .filter(name, !(name in {{ $in }}))[0] + ' is none of the classes that queue {{ $queue }} allows (rules.priorityClasses): {{ include "queue.policy.some" . }}'
{{- end }}
{{- with .Values.rules.workloads }}
- expression: >-
    !variables.trains || variables.workload in {{ include "queue.policy.strings" . }} || oldObject != null && variables.gpus <= variables.oldgpus
    && variables.workload == variables.oldit.?metadata.labels['allranks.dev/workload'].orValue('')
  messageExpression: >-
    'workload: ' + (variables.workload == '' ? 'a ' + request.kind.kind + ' that has no label allranks.dev/workload' : variables.workload)
    + ' is none that queue {{ $queue }} allows (rules.workloads): {{ include "queue.policy.some" . }}'
{{- end }}
{{- end -}}

{{/* The first of some strings, and how many more there are: the API server drops a message of more
     than 5 KiB, and shows the expression in its place. */}}
{{- define "queue.policy.some" -}}
{{- $most := 5 -}}
{{- if le (len .) $most -}}
{{- join ", " . -}}
{{- else -}}
{{- printf "%s and %d more" (slice . 0 $most | join ", ") (sub (len .) $most) -}}
{{- end -}}
{{- end -}}

{{/* Whether the image `image` is allowed, in CEL; takes rules.images. Names cost less than patterns. */}}
{{- define "queue.policy.image" -}}
{{- $names := list -}}
{{- $patterns := list -}}
{{- range . -}}
{{- if contains "*" . -}}
{{- $patterns = append $patterns (printf "^%s$" (. | replace "." "[.]" | replace "*" ".*")) -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
({{ include "queue.policy.strings" $names }}.exists(name, image.startsWith(name) && (size(image) == size(name) || image.startsWith(name + '/') || image.substring(size(name)).matches('^[:@][^/]*$'))) || {{ include "queue.policy.strings" $patterns }}.exists(pattern, image.matches(pattern)))
{{- end -}}

{{/* What would reach the node. Containers of the same words as before are let through. */}}
{{- define "queue.policy.host" -}}
{{- $queue := include "queue.name" . -}}
{{- with .Values.rules -}}
{{- if not .allowHostPath }}
- expression: >-
    variables.pods.all(pod, pod.spec.?volumes.orValue([]).all(volume, !has(volume.hostPath)
    || variables.oldpods.exists(old, old.spec.?volumes.orValue([]).exists(v, v == volume))))
  messageExpression: >-
    'podTemplate.spec.volumes: ' + variables.pods.map(pod, pod.spec.?volumes.orValue([]).filter(volume, has(volume.hostPath))
    .map(volume, volume.hostPath.path)).filter(paths, size(paths) > 0)[0][0] + ' is a folder of the node, which queue {{ $queue }} does not allow (rules.allowHostPath); use a claim'
{{- end }}
{{- if not .allowHostNetwork }}
- expression: >-
    variables.pods.all(pod, !pod.spec.?hostNetwork.orValue(false)
    || variables.oldpods.exists(old, old.spec.?hostNetwork.orValue(false)))
  message: >-
    network.hostNetwork: queue {{ $queue }} does not allow the node's own network (rules.allowHostNetwork); set it to false
- expression: >-
    variables.containers.all(cs, cs.all(c, c.?ports.orValue([]).all(port, port.?hostPort.orValue(0) == 0)))
    || variables.containers == variables.oldcontainers
  message: >-
    podTemplate.spec.containers: queue {{ $queue }} does not allow ports of the node (rules.allowHostNetwork); leave hostPort out
{{- end }}
{{- if not .allowPrivileged }}
- expression: >-
    variables.containers.all(cs, cs.all(c, !c.?securityContext.privileged.orValue(false)
    && c.?securityContext.procMount.orValue('Default') == 'Default'
    && !c.?securityContext.windowsOptions.hostProcess.orValue(false)
    && c.?securityContext.capabilities.add.orValue([]).all(capability, capability in {{ include "queue.policy.strings" (list
      "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "IPC_LOCK" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") }})))
    || variables.containers == variables.oldcontainers
  message: >-
    security.containerSecurityContext: queue {{ $queue }} allows no container that is privileged or adds such capabilities (rules.allowPrivileged); look at podTemplate as well
- expression: >-
    variables.pods.all(pod, !(pod.spec.?hostPID.orValue(false) || pod.spec.?hostIPC.orValue(false)
    || pod.spec.?securityContext.windowsOptions.hostProcess.orValue(false))) || size(variables.oldpods) > 0
    && variables.oldpods.exists(old, old.spec.?hostPID.orValue(false) || old.spec.?hostIPC.orValue(false)
    || old.spec.?securityContext.windowsOptions.hostProcess.orValue(false))
  message: >-
    podTemplate.spec: queue {{ $queue }} does not let pods see the processes of their node (rules.allowPrivileged); leave hostPID and hostIPC out
{{- end }}
{{- end -}}
{{- end -}}

{{/* A request for scale shows how many pods and not of what. Takes the root context. */}}
{{- define "queue.policy.scale" -}}
{{- $queue := include "queue.name" . -}}
{{- $rules := list
      (dict "apiGroups" (list "apps") "resources" (list "statefulsets/scale" "deployments/scale" "replicasets/scale"))
      (dict "apiGroups" (list "") "resources" (list "replicationcontrollers/scale")) -}}
{{- range $rules -}}
{{- $_ := set . "apiVersions" (list "*") -}}
{{- $_ := set . "operations" (list "UPDATE") -}}
{{- end -}}
{{- include "queue.policy.matches" (dict "ctx" . "rules" (include "allranks.yaml" (dict "value" $rules))) }}
validations:
  - expression: object.spec.?replicas.orValue(0) <= oldObject.spec.?replicas.orValue(0)
    messageExpression: >-
      'nodes: ' + string(object.spec.?replicas.orValue(0)) + ' are more than the ' + string(oldObject.spec.?replicas.orValue(0))
      + ' there are, and a request for scale does not show what pods ask for, which queue {{ $queue }} bounds (rules.maxGpusPerJob, rules.maxNodesPerJob); change the object itself: helm upgrade, or kubectl patch'
{{- end -}}

{{/* What a queue is made of and the team's Role reaches, because runs need the same kinds: ConfigMaps of queues,
     their NetworkPolicies, and helm's records of this release, whichever label or name finds them. It is for those who may
     change Roles, and for the controllers that end a namespace. Takes the root context. */}}
{{- define "queue.policy.own" -}}
{{- $rules := list
      (dict "apiGroups" (list "") "resources" (list "configmaps" "secrets"))
      (dict "apiGroups" (list "networking.k8s.io") "resources" (list "networkpolicies")) -}}
{{- range $rules -}}
{{- $_ := set . "apiVersions" (list "*") -}}
{{- $_ := set . "operations" (list "CREATE" "UPDATE" "DELETE") -}}
{{- end -}}
{{- include "queue.policy.matches" (dict "ctx" . "rules" (include "allranks.yaml" (dict "value" $rules))) }}
matchConditions:
  - name: of-a-queue
    expression: >-
      [object, oldObject].exists(o, o != null && (request.resource.resource == 'secrets'
      ? o.metadata.?name.orValue('').startsWith('sh.helm.release.v1.{{ .Release.Name }}.v')
      || (o.metadata.?labels['owner'].orValue('') == 'helm' && o.metadata.?labels['name'].orValue('') == '{{ .Release.Name }}')
      : o.metadata.?name.orValue('').startsWith('allranks-queue-')))
  - name: not-of-a-controller
    expression: >-
      !(request.operation == 'DELETE' && request.userInfo.username in ['system:kube-controller-manager',
      'system:serviceaccount:kube-system:namespace-controller', 'system:serviceaccount:kube-system:generic-garbage-collector'])
validations:
  - expression: authorizer.group('rbac.authorization.k8s.io').resource('roles').namespace('{{ .Release.Namespace }}').check('update').allowed()
    reason: Forbidden
    messageExpression: >-
      request.resource.resource + ' ' + (object == null ? oldObject : object).metadata.?name.orValue('') + ': of the queues of namespace {{ .Release.Namespace }}, and only who may update Roles there may '
      + request.operation.lowerAscii() + ' it; ask a cluster administrator, who keeps queue {{ include "queue.name" . }}'
{{- end -}}
