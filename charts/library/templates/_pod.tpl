{{/*
The whole pod template of a workload: one container, "trainer", started by entry.sh.

What a user gives is put into maps and lists, never into text, and printed at the end by
`allranks.yaml`; `podTemplate` is merged last, over everything.
*/}}

{{/*
The pod template as YAML. Takes a dict:
  ctx, layout, role     the root context, the layout, the pods' role
  group                 the group of pods, where several share a role; "" is none
  env, args             the workload's own variables (a list) and the container's args
  hosts                 the host list of several nodes, for `compat: slurm`
  defaults              variables that the user may set instead, {name: value}
  own                   the role's own settings over the shared ones: {env, resources, podTemplate}
  idle                  true where no rank runs: no GPUs, no shared memory, no node of a GPU type
  restartPolicy         Never | OnFailure | Always
  restartRules          after which exit codes the pod's containers start again where they are
  subdomain             the headless Service that names the pods; "" is none
  port, portName        the port the pods listen on; 0 is none
  readinessProbe        when a pod is ready; nothing is at once
  state                 true where entry.sh keeps a marker for the life of the pod
  volumes, mounts       what the workload mounts besides
  serviceAccount        the account, with a token, where the pods speak to the API server
  uidLabel, trackedGroup, trials  see allranks.trackers.env
  keyed                 true where a file of a Secret must be readable for a user that is not root
*/}}
{{- define "allranks.pod" -}}
{{- $values := .ctx.Values -}}
{{- $mount := include "allranks.names.mount" . -}}
{{- $storage := include "allranks.storage.pod" . | fromJson -}}
{{- $workspace := include "allranks.workspace.pod" .ctx | fromJson -}}
{{- $volumes := list (dict "name" "entry" "configMap" (dict
      "name" (include "allranks.names.whole" .ctx)
      "defaultMode" 365)) -}}{{/* 0555: readable and executable for any user */}}
{{- $mounts := list (dict "name" "entry" "mountPath" $mount "readOnly" true) -}}
{{- $volumes = concat $volumes (.volumes | default list) -}}
{{- $mounts = concat $mounts (.mounts | default list) -}}
{{- if .state -}}
{{- $volumes = append $volumes (dict "name" "state" "emptyDir" dict) -}}
{{- $mounts = append $mounts (dict "name" "state" "mountPath" (include "allranks.names.state" .)) -}}
{{- end -}}
{{- $volumes = concat $volumes $workspace.volumes -}}
{{- $mounts = concat $mounts $workspace.mounts -}}
{{- $trainer := dict
      "name" "trainer"
      "image" (include "allranks.names.image" .ctx)
      "imagePullPolicy" $values.image.pullPolicy
      "command" (list "/bin/sh" (printf "%s/entry.sh" $mount))
      "args" .args
      "env" (include "allranks.pod.env" . | fromJsonArray)
      "volumeMounts" (concat $mounts $storage.mounts)
      "terminationMessagePolicy" "FallbackToLogsOnError" -}}
{{- with .restartRules -}}
{{- $_ := set $trainer "restartPolicy" $.restartPolicy -}}
{{- $_ := set $trainer "restartPolicyRules" . -}}
{{- end -}}
{{- with include "allranks.workspace.workingDir" .ctx -}}{{- $_ := set $trainer "workingDir" . -}}{{- end -}}
{{- with $values.envFrom -}}{{- $_ := set $trainer "envFrom" . -}}{{- end -}}
{{- with include "allranks.pod.resources" . | fromJson -}}
{{- $_ := set $trainer "resources" . -}}
{{- end -}}
{{- if .port -}}
{{- $_ := set $trainer "ports" (list (dict "name" .portName "containerPort" (int .port) "protocol" "TCP")) -}}
{{- end -}}
{{- with .readinessProbe -}}{{- $_ := set $trainer "readinessProbe" . -}}{{- end -}}
{{- with include "allranks.pod.containerSecurity" .ctx | fromJson -}}
{{- $_ := set $trainer "securityContext" . -}}
{{- end -}}
{{- $spec := include "allranks.pod.spec" . | fromJson -}}
{{- $_ := set $spec "containers" (list $trainer) -}}
{{- $_ := set $spec "volumes" (concat $volumes $storage.volumes) -}}
{{- $annotations := deepCopy $values.annotations -}}
{{- $_ := set $annotations "allranks.dev/entry-digest" (include "allranks.entry.digest" .ctx) -}}
{{- with get $values.workspace.snapshot "digest" -}}{{- $_ := set $annotations "allranks.dev/workspace-digest" . -}}{{- end -}}
{{- $pod := dict
      "metadata" (dict "labels" (include "allranks.labels" . | fromJson) "annotations" $annotations)
      "spec" $spec -}}
{{- include "allranks.merge" (dict "into" $pod "patch" $values.podTemplate) -}}
{{- with .own -}}
{{- include "allranks.merge" (dict "into" $pod "patch" .podTemplate) -}}
{{- end -}}
{{- include "allranks.pod.avoid" (dict "spec" $pod.spec "nodes" $values.scheduling.avoidNodes) -}}
{{- include "allranks.pod.asStored" $pod.spec -}}
{{- include "allranks.yaml" (dict "value" $pod) -}}
{{- end -}}

{{/* Keeps a PodSpec off nodes, whatever else its affinity asks: of several terms one has to hold, so
     each of them is given the rule. An empty term selects no node, and would begin to select some.
     Prints nothing. Takes (dict "spec" $spec "nodes" $names). */}}
{{- define "allranks.pod.avoid" -}}
{{- if .nodes -}}
{{- $rule := dict "key" "kubernetes.io/hostname" "operator" "NotIn" "values" .nodes -}}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $affinity := deepCopy (.spec.affinity | default dict) -}}
{{- $near := $affinity.nodeAffinity | default dict -}}
{{- $terms := list -}}
{{- range (get $near $key | default dict).nodeSelectorTerms | default (list (dict "matchExpressions" list)) -}}
{{- $term := . -}}
{{- if $term -}}{{- $_ := set $term "matchExpressions" (append ($term.matchExpressions | default list) $rule) -}}{{- end -}}
{{- $terms = append $terms $term -}}
{{- end -}}
{{- $_ := set $near $key (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $near -}}
{{- $_ := set .spec "affinity" $affinity -}}
{{- end -}}
{{- end -}}

{{/* Writes a PodSpec's containers as the API server stores them, so that what is applied again is
     what is there: a variable without a value is the empty one, and an amount is text. Prints
     nothing. */}}
{{- define "allranks.pod.asStored" -}}
{{- range $key := list "initContainers" "containers" -}}
{{- range $container := get $ $key | default list -}}
{{- range $variable := $container.env | default list -}}
{{- if and (hasKey $variable "value") (eq (toString $variable.value) "") -}}
{{- $_ := unset $variable "value" -}}
{{- end -}}
{{- end -}}
{{- range $amounts := values (pick ($container.resources | default dict) "limits" "requests") -}}
{{- range $name, $amount := $amounts | default dict -}}
{{- $_ := set $amounts $name (include "allranks.quantity.text" $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* PodSpec without its containers and volumes. JSON. */}}
{{- define "allranks.pod.spec" -}}
{{- $values := .ctx.Values -}}
{{- $spec := dict
      "restartPolicy" .restartPolicy
      "enableServiceLinks" false
      "automountServiceAccountToken" (or (ne (.serviceAccount | default "") "") $values.serviceAccount.automountToken) -}}
{{- with .subdomain -}}{{- $_ := set $spec "subdomain" . -}}{{- end -}}
{{- with .serviceAccount | default (include "allranks.names.serviceAccount" .ctx) -}}{{- $_ := set $spec "serviceAccountName" . -}}{{- end -}}
{{- with int64 $values.runPolicy.terminationGracePeriodSeconds -}}
{{- $_ := set $spec "terminationGracePeriodSeconds" . -}}
{{- end -}}
{{- with include "allranks.pod.pullSecrets" $values.imagePullSecrets | fromJsonArray -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- with include "allranks.pod.security" . | fromJson -}}{{- $_ := set $spec "securityContext" . -}}{{- end -}}
{{- if $values.network.hostNetwork -}}
{{- $_ := set $spec "hostNetwork" true -}}
{{- $_ := set $spec "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- with $values.network.dnsPolicy -}}{{- $_ := set $spec "dnsPolicy" . -}}{{- end -}}
{{- range $key, $value := include "allranks.pod.scheduling" . | fromJson -}}{{- $_ := set $spec $key $value -}}{{- end -}}
{{- toJson $spec -}}
{{- end -}}

{{/* The seconds between SIGTERM and SIGKILL that a pod has, whoever set them:
     (dict "ctx" $ "own" $own), `own` as in allranks.pod. */}}
{{- define "allranks.pod.grace" -}}
{{- $grace := .ctx.Values.runPolicy.terminationGracePeriodSeconds -}}
{{- range $template := list .ctx.Values.podTemplate (get (.own | default dict) "podTemplate" | default dict) -}}
{{- $spec := get $template "spec" | default dict -}}
{{- if hasKey $spec "terminationGracePeriodSeconds" -}}{{- $grace = $spec.terminationGracePeriodSeconds -}}{{- end -}}
{{- end -}}
{{- int64 ($grace | default 30) -}}{{/* Kubernetes' own, where nothing is set */}}
{{- end -}}

{{/* Where the pods may run. JSON. */}}
{{- define "allranks.pod.scheduling" -}}
{{- $scheduling := .ctx.Values.scheduling -}}
{{- $fields := dict -}}
{{- range $key := list "schedulerName" "priorityClassName" "runtimeClassName" "affinity" "tolerations" -}}
{{- with get $scheduling $key -}}{{- $_ := set $fields $key . -}}{{- end -}}
{{- end -}}
{{- $selector := deepCopy $scheduling.nodeSelector -}}
{{- with .ctx.Values.gpuType -}}
{{- if and .value (not $.idle) -}}{{- $_ := set $selector .label .value -}}{{- end -}}
{{- end -}}
{{- with $selector -}}{{- $_ := set $fields "nodeSelector" . -}}{{- end -}}
{{- with include "allranks.pod.spreads" . | fromJsonArray -}}{{- $_ := set $fields "topologySpreadConstraints" . -}}{{- end -}}
{{- toJson $fields -}}
{{- end -}}

{{/* The spread constraints. Without a selector one matches no pod at all; ours are meant. JSON list. */}}
{{- define "allranks.pod.spreads" -}}
{{- $pods := dict "matchLabels" (include "allranks.labels.selector" (omit . "group") | fromJson) -}}
[
{{- range $index, $spread := .ctx.Values.scheduling.topologySpreadConstraints -}}
{{- if $index -}},{{- end -}}
{{- if hasKey $spread "labelSelector" -}}{{- toJson $spread -}}{{- else -}}{{- set (deepCopy $spread) "labelSelector" $pods | toJson -}}{{- end -}}
{{- end -}}
]
{{- end -}}

{{/* Names of Secrets, as a PodSpec has them. JSON list. */}}
{{- define "allranks.pod.pullSecrets" -}}
[
{{- range $index, $name := . -}}
{{- if $index -}},{{- end -}}
{{- dict "name" $name | toJson -}}
{{- end -}}
]
{{- end -}}

{{/* What the user may set instead, what a trial of a sweep is told of itself, the workload's variables,
     then the user's, each sorted by name. A role's own variable replaces the shared one. JSON list. */}}
{{- define "allranks.pod.env" -}}
{{- $userEnv := dict -}}
{{- range $from := list .ctx.Values.env (get (.own | default dict) "env" | default dict) -}}
{{- range $name, $value := $from -}}{{- $_ := set $userEnv $name $value -}}{{- end -}}
{{- end -}}
{{- $env := list -}}
{{- $slurm := include "allranks.slurm.env" . | fromJson -}}
{{- range $name, $value := merge (dict "PYTHONUNBUFFERED" "1") (.defaults | default dict) $slurm -}}
{{- if not (hasKey $userEnv $name) -}}{{- $env = append $env (dict "name" $name "value" $value) -}}{{- end -}}
{{- end -}}
{{- with get .ctx.Values.layout "trial" -}}
{{- $env = append $env (dict "name" "ALLRANKS_SWEEP" "value" (include "allranks.entry.literal" .sweep)) -}}
{{- $env = append $env (dict "name" "ALLRANKS_TRIAL" "value" (int64 .number | toString)) -}}
{{- $env = append $env (dict "name" "ALLRANKS_TRIAL_NAME" "value" (include "allranks.entry.literal" .name)) -}}
{{- end -}}
{{- $env = include "allranks.trackers.env" (merge (dict "given" $userEnv) .) | fromJsonArray | concat $env -}}
{{- concat $env (include "allranks.workspace.env" .ctx | fromJsonArray) .env (include "allranks.pod.env.list" $userEnv | fromJsonArray) | toJson -}}
{{- end -}}

{{/* The user's variables, {name: text or {valueFrom}}, as a container has them. JSON list, printed
     item by item: `append` would copy it for each, of which there may be thousands. */}}
{{- define "allranks.pod.env.list" -}}
{{- $between := "" -}}
[
{{- range $name, $value := . -}}
{{- $between -}}
{{- if kindIs "map" $value -}}
{{- dict "name" $name "valueFrom" $value.valueFrom | toJson -}}
{{- else -}}
{{- dict "name" $name "value" (include "allranks.entry.literal" $value) | toJson -}}
{{- end -}}
{{- $between = "," -}}
{{- end -}}
]
{{- end -}}

{{/* Requests and limits of the trainer. A share per GPU is both: the kubelet pins CPUs and aligns
     them with the GPUs' NUMA nodes only for pods whose requests equal their limits. What the role
     asks of its own replaces the shared amounts, and is all that an idle pod asks. JSON. */}}
{{- define "allranks.pod.resources" -}}
{{- $resourceAmounts := dict "requests" dict "limits" dict -}}
{{- if not .idle -}}{{- $resourceAmounts = include "allranks.pod.shares" . | fromJson -}}{{- end -}}
{{- range $side, $amounts := get (.own | default dict) "resources" | default dict -}}
{{- range $name, $amount := $amounts -}}
{{- $_ := set (get $resourceAmounts $side) $name (include "allranks.quantity.text" $amount) -}}
{{- end -}}
{{- end -}}
{{- $resources := dict -}}
{{- range $side, $amounts := $resourceAmounts -}}
{{- with $amounts -}}{{- $_ := set $resources $side . -}}{{- end -}}
{{- end -}}
{{- toJson $resources -}}
{{- end -}}

{{/* What a pod with ranks asks. JSON {requests, limits}. */}}
{{- define "allranks.pod.shares" -}}
{{- $gpus := .layout.gpusPerNode -}}
{{- $requests := dict -}}
{{- $limits := dict -}}
{{- range $name, $amount := .ctx.Values.resources.perPod.requests -}}
{{- $_ := set $requests $name (include "allranks.quantity.text" $amount) -}}
{{- end -}}
{{- range $name, $amount := .ctx.Values.resources.perPod.limits -}}
{{- $_ := set $limits $name (include "allranks.quantity.text" $amount) -}}
{{- end -}}
{{- range $name, $amount := .ctx.Values.resources.perGpu -}}
{{- $share := include "allranks.quantity.multiply" (dict "quantity" $amount "count" $gpus "path" (printf "resources.perGpu.%s" $name)) -}}
{{- $_ := set $requests $name $share -}}
{{- $_ := set $limits $name $share -}}
{{- end -}}
{{- if gt (int $gpus) 0 -}}
{{- $_ := set $requests .ctx.Values.gpuResource (toString $gpus) -}}
{{- $_ := set $limits .ctx.Values.gpuResource (toString $gpus) -}}
{{- end -}}
{{- dict "requests" $requests "limits" $limits | toJson -}}
{{- end -}}

{{/* Pod Security "restricted", with the user's settings over it. The image's own user runs: a
     user that must be named is named in podSecurityContext. New claims are usually root's, and so
     is a Secret's file; where all claims are this release's own, a group is given that may use
     them. JSON. */}}
{{- define "allranks.pod.security" -}}
{{- $context := dict -}}
{{- if .ctx.Values.security.restricted -}}
{{- $_ := set $context "runAsNonRoot" true -}}
{{- $_ := set $context "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- $claims := include "allranks.storage.enabled" .ctx | fromJson -}}
{{- if or (include "allranks.storage.ownClaimsOnly" .ctx) (and .keyed (not $claims)) -}}
{{- $_ := set $context "fsGroup" 1000 -}}
{{- $_ := set $context "fsGroupChangePolicy" "OnRootMismatch" -}}
{{- end -}}
{{- end -}}
{{- include "allranks.merge" (dict "into" $context "patch" .ctx.Values.security.podSecurityContext) -}}
{{- toJson $context -}}
{{- end -}}

{{/* The trainer's own part of it. JSON. */}}
{{- define "allranks.pod.containerSecurity" -}}
{{- $context := dict -}}
{{- if .Values.security.restricted -}}
{{- $_ := set $context "allowPrivilegeEscalation" false -}}
{{- $_ := set $context "capabilities" (dict "drop" (list "ALL")) -}}
{{- end -}}
{{- include "allranks.merge" (dict "into" $context "patch" .Values.security.containerSecurityContext) -}}
{{- toJson $context -}}
{{- end -}}
