{{/*
What the API server holds masters to. A Role cannot say whose plan or Event an account may create; a
ValidatingAdmissionPolicy can (Kubernetes 1.30 and newer).
*/}}

{{/* "true" where there are to be policies. Takes the root context. */}}
{{- define "operator.admission.wanted" -}}
{{- $hasPolicyApi := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- $auto := and .Values.watch.cluster $hasPolicyApi -}}
{{- ternary $auto .Values.master.admissionPolicy (eq (toString .Values.master.admissionPolicy) "auto") -}}
{{- end -}}

{{/* A policy of the masters' requests, and its binding: (dict "ctx" $ "part" "plans"), with
     rules        what it is about
     variables    more variables, after `job`: the job whose master asks
     validations  what must hold */}}
{{- define "operator.admission.policy" -}}
{{- $name := include "operator.clusterName" (dict "ctx" .ctx "part" (printf "master-%s" .part)) -}}
{{- $metadata := include "operator.metadata" (dict "ctx" .ctx "name" $name "namespace" "-") -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  {{- $metadata | nindent 2 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    {{- with include "operator.watched" .ctx | fromJsonArray }}
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
    {{- end }}
    resourceRules:
      {{- .rules | trim | nindent 6 }}
  # Who asks is a master by the name of its account, which the operator has made for its job, or by the
  # name of the pod that its token is bound to, where the account is another.
  matchConditions:
    - name: a-master
      expression: >-
        request.userInfo.username.startsWith('system:serviceaccount:')
        && (request.userInfo.username.matches(':elasticjob-.+-dlrover-master-[0-9a-f]{8}$')
        || (has(request.userInfo.extra) && 'authentication.kubernetes.io/pod-name' in request.userInfo.extra
        && request.userInfo.extra['authentication.kubernetes.io/pod-name'].exists(pod,
        pod.matches('^elasticjob-.+-dlrover-master-[0-9]+$'))))
  variables:
    - name: account
      expression: request.userInfo.username.split(':')
    # elasticjob-JOB-dlrover-master-UID, or else elasticjob-JOB-dlrover-master-ATTEMPT.
    - name: job
      expression: >-
        variables.account[3].matches('^elasticjob-.+-dlrover-master-[0-9a-f]{8}$')
        ? variables.account[3].substring(11, variables.account[3].lastIndexOf('-dlrover-master-'))
        : request.userInfo.extra['authentication.kubernetes.io/pod-name'][0].substring(11,
        request.userInfo.extra['authentication.kubernetes.io/pod-name'][0].lastIndexOf('-dlrover-master-'))
    {{- .variables | trim | nindent 4 }}
  validations:
    - expression: request.namespace == variables.account[2]
      messageExpression: >-
        'the master of elastic job ' + variables.job + ' may do this in its own namespace alone, '
        + variables.account[2]
    {{- .validations | trim | nindent 4 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- $metadata | nindent 2 }}
spec:
  policyName: {{ $name | quote }}
  validationActions: [Deny]
{{- end -}}

{{/* A plan says whose it is by its own field, by a label of new or old, or by its owner: each that is
     there must be the master's job. It is called JOB-WORD-NUMBER: a name that another job's master
     would take keeps that one from planning. */}}
{{- define "operator.admission.plans" -}}
rules: |
  - apiGroups: [elastic.iml.github.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [scaleplans]
variables: |
  - name: owners
    expression: >-
      [object.?spec.ownerJob.orValue('')]
      + ['elasticjob.dlrover/name', 'elasticjob-name'].map(label, object.metadata.?labels[label].orValue(''))
      + object.metadata.?ownerReferences.orValue([]).map(owner,
      owner.kind.lowerAscii() == 'elasticjob' ? owner.name : '')
      + [oldObject == null ? '' : oldObject.?spec.ownerJob.orValue('')]
  - name: others
    expression: variables.owners.filter(owner, owner != '' && owner != variables.job)
validations: |
  - expression: size(variables.others) == 0
    messageExpression: >-
      'the master of elastic job ' + variables.job + ' may write ScalePlans of that job alone, and this '
      + 'one is of ' + variables.others.join(', ') + ': spec.ownerJob, its labels and its owner must name '
      + variables.job
  - expression: >-
      object.metadata.name.startsWith(variables.job + '-')
      && object.metadata.name.substring(size(variables.job)).matches('^-[a-z]+-[0-9]+$')
    messageExpression: >-
      'the master of elastic job ' + variables.job + ' may write ScalePlans of that job alone, which are '
      + 'called ' + variables.job + '-plan-NUMBER, not ' + object.metadata.name
{{- end -}}

{{/* Our master tells of its job; another may tell of the job's pods, Services and plans. */}}
{{- define "operator.admission.events" -}}
rules: |
  - apiGroups: ["", events.k8s.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [events]
variables: |
  - name: kind
    expression: object.?involvedObject.kind.orValue(object.?regarding.kind.orValue(''))
  - name: about
    expression: object.?involvedObject.name.orValue(object.?regarding.name.orValue(''))
validations: |
  - expression: >-
      (variables.kind == 'ElasticJob' && variables.about == variables.job)
      || (variables.kind in ['Pod', 'Service'] && (variables.about.startsWith(variables.job + '-edljob-')
      || variables.about.startsWith('elasticjob-' + variables.job + '-dlrover-master')))
      || (variables.kind == 'ScalePlan' && variables.about.startsWith(variables.job + '-')
      && variables.about.substring(size(variables.job)).matches('^-[a-z]+-[0-9]+$'))
    messageExpression: >-
      'the master of elastic job ' + variables.job + ' may tell of ElasticJob ' + variables.job
      + ', its pods, Services and plans alone, not of ' + variables.kind + ' ' + variables.about
{{- end -}}
