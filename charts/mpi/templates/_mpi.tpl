{{/*
What the templates of this chart share: who the hosts are, and the pods of each role.

Hosts, in the order of their ranks: the launcher where it is one (mpi.runLauncherAsWorker), the
workers, and a last worker with fewer slots, which has a controller of its own because a controller
has one pod template.
*/}}

{{/* Job | StatefulSet, of the workers. The pods/exec API is allowed by pod names, and only a
     StatefulSet's pods have names that are known before. Takes the root context. */}}
{{- define "mpi.controller" -}}
{{- .Values.mpi.controller | default (ternary "StatefulSet" "Job" (eq .Values.mpi.transport "exec")) -}}
{{- end -}}

{{/* The groups of workers, first to last: (dict "ctx" $ "layout" $layout). JSON list of
     {part, count, least, most, layout}: how many there are, and may be where the job is elastic; the
     layout is that of their pods. */}}
{{- define "mpi.groups" -}}
{{- $launcher := ternary 1 0 .ctx.Values.mpi.runLauncherAsWorker -}}
{{- $last := ternary 1 0 (hasKey .layout "lastProcsPerNode") -}}
{{- $others := add $launcher $last -}}
{{- $groups := list -}}
{{- if gt (sub .layout.maxNodes $others) 0 -}}
{{- $groups = append $groups (dict
      "part" "worker"
      "count" (sub .layout.nodes $others)
      "least" (sub .layout.minNodes $others)
      "most" (sub .layout.maxNodes $others)
      "layout" .layout) -}}
{{- end -}}
{{- if $last -}}
{{- $smaller := dict "gpusPerNode" (get .layout "lastGpusPerNode" | int64) "procsPerNode" .layout.lastProcsPerNode -}}
{{- $groups = append $groups (dict
      "part" "worker-last" "count" 1 "least" 1 "most" 1
      "layout" (merge $smaller .layout)) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* The names of all pods with ranks. JSON list, printed item by item: `append` would copy it for
     each. (dict "ctx" $ "layout" $layout). */}}
{{- define "mpi.pods" -}}
{{- $between := "" -}}
[
{{- range $group := include "mpi.groups" . | fromJsonArray -}}
{{- $controller := include "allranks.names.part" (dict "ctx" $.ctx "part" $group.part) -}}
{{- range $index := until (int $group.most) -}}
{{- $between -}}{{- printf "%s-%d" $controller $index | toJson -}}
{{- $between = "," -}}
{{- end -}}
{{- end -}}
]
{{- end -}}

{{/* The launcher's pod name. Takes the root context. */}}
{{- define "mpi.launcher" -}}
{{- include "allranks.names.part" (dict "ctx" . "part" "launcher") -}}-0
{{- end -}}

{{/* The name that a pod is found by from anywhere in the cluster: (dict "ctx" $ "pod" "demo-worker-0"). */}}
{{- define "mpi.address" -}}
{{- printf "%s.%s.%s.svc" .pod (include "allranks.names.release" .ctx) .ctx.Release.Namespace -}}
{{- end -}}

{{/* The hosts and the slots of each, in the form that the MPI reads: (dict "ctx" $ "layout" $layout).
     An elastic job names all hosts that it may ever have. */}}
{{- define "mpi.hostfile" -}}
{{- $form := ternary "%s slots=%d\n" "%s:%d\n" (eq .ctx.Values.mpi.implementation "OpenMPI") -}}
{{- if .ctx.Values.mpi.runLauncherAsWorker -}}
{{- printf $form (include "mpi.address" (dict "ctx" .ctx "pod" (include "mpi.launcher" .ctx))) (int .layout.procsPerNode) -}}
{{- end -}}
{{- range $group := include "mpi.groups" . | fromJsonArray -}}
{{- $name := include "allranks.names.part" (dict "ctx" $.ctx "part" $group.part) -}}
{{- $after := include "mpi.address" (dict "ctx" $.ctx "pod" "") -}}
{{- $slots := int $group.layout.procsPerNode -}}
{{- range $index := until (int $group.most) -}}
{{- printf $form (printf "%s-%d%s" $name $index $after) $slots -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same as a host list of Slurm's: (dict "ctx" $ "layout" $layout). */}}
{{- define "mpi.hosts" -}}
{{- $hosts := list -}}
{{- if .ctx.Values.mpi.runLauncherAsWorker -}}
{{- $hosts = append $hosts (include "mpi.address" (dict "ctx" .ctx "pod" (include "mpi.launcher" .ctx))) -}}
{{- end -}}
{{- range $group := include "mpi.groups" . | fromJsonArray -}}
{{- $name := include "allranks.names.part" (dict "ctx" $.ctx "part" $group.part) -}}
{{- $numbers := ternary (printf "[0-%d]" (sub (int $group.most) 1)) "0" (gt (int $group.most) 1) -}}
{{- $hosts = append $hosts (include "mpi.address" (dict "ctx" $.ctx "pod" (printf "%s-%s" $name $numbers))) -}}
{{- end -}}
{{- join "," $hosts -}}
{{- end -}}

{{/* The Secret of the ssh key; "" where the transport needs none. Takes the root context. */}}
{{- define "mpi.secret" -}}
{{- if eq .Values.mpi.transport "ssh" -}}
{{- .Values.mpi.ssh.existingSecret | default (include "allranks.names.part" (dict "ctx" . "part" "ssh")) -}}
{{- end -}}
{{- end -}}

{{/* "true" where the launcher ends the workers by taking their number to zero: a StatefulSet starts
     its pods again however they end. Takes the root context. */}}
{{- define "mpi.scales" -}}
{{- if and (eq (include "mpi.controller" .) "StatefulSet") (ne .Values.mpi.cleanPodPolicy "None") -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the launcher speaks to the API server: to run its commands there, or to scale. Without
     workers there is nobody to speak of, and rights without names would be rights over all.
     (dict "ctx" $ "layout" $layout). */}}
{{- define "mpi.api" -}}
{{- if and (or (eq .ctx.Values.mpi.transport "exec") (include "mpi.scales" .ctx)) (include "mpi.groups" . | fromJsonArray) -}}
true
{{- end -}}
{{- end -}}

{{/* The pods that start together or not at all, as a controller's annotation asks for them: all that
     have ranks. A launcher without ranks takes no GPUs and waits for nobody's place, so it is none of
     them. (dict "ctx" $ "layout" $layout "least" 2), `least` being the controller's own. JSON. */}}
{{- define "mpi.gang" -}}
{{- $gang := dict "minMember" (int .layout.minNodes) -}}
{{- $controllers := add (len (include "mpi.groups" . | fromJsonArray)) (ternary 1 0 .ctx.Values.mpi.runLauncherAsWorker) -}}
{{- if or (gt $controllers 1) (eq (include "mpi.controller" .ctx) "StatefulSet") -}}
{{- $_ := set $gang "name" (include "allranks.names.release" .ctx) -}}
{{- $_ := set $gang "own" (int .least) -}}
{{- end -}}
{{- toJson $gang -}}
{{- end -}}

{{/* What finds all pods with ranks. JSON; takes the root context. */}}
{{- define "mpi.together" -}}
{{- include "allranks.labels.selector" (ternary (dict "ctx" .) (dict "ctx" . "role" "worker") .Values.mpi.runLauncherAsWorker) -}}
{{- end -}}

{{/* The launcher's pod template: (dict "ctx" $ "layout" $layout). */}}
{{- define "mpi.pod.launcher" -}}
{{- $mpi := .ctx.Values.mpi -}}
{{- include "mpi.pod" (dict
      "ctx" .ctx "layout" .layout "role" "launcher" "group" "launcher"
      "env" (include "mpi.env.launcher" . | fromJsonArray)
      "args" (include "mpi.args" .ctx | fromJsonArray)
      "own" $mpi.launcher
      "idle" (not $mpi.runLauncherAsWorker)
      "serviceAccount" (ternary (include "allranks.names.part" (dict "ctx" .ctx "part" "launcher")) "" (ne (include "mpi.api" .) ""))
      "restartPolicy" "Never") -}}
{{- end -}}

{{/* The pod template of a group of workers: (dict "ctx" $ "layout" $layout "group" $group). */}}
{{- define "mpi.pod.worker" -}}
{{- $mpi := .ctx.Values.mpi -}}
{{- $arguments := dict
      "ctx" .ctx "layout" .group.layout "role" "worker" "group" .group.part
      "env" (include "mpi.env.worker" . | fromJsonArray)
      "own" $mpi.worker
      "restartPolicy" (ternary "Always" "Never" (eq (include "mpi.controller" .ctx) "StatefulSet")) -}}
{{- if eq $mpi.transport "ssh" -}}
{{- $_ := set $arguments "port" $mpi.ssh.port -}}
{{- $_ := set $arguments "readinessProbe" (dict "tcpSocket" (dict "port" (int $mpi.ssh.port)) "periodSeconds" 5) -}}
{{- end -}}
{{- include "mpi.pod" $arguments -}}
{{- end -}}

{{/* What makes the controller of a group of workers, but for the root context, which JSON cannot hold:
     (dict "ctx" $ "layout" $layout "group" $group). JSON. */}}
{{- define "mpi.worker" -}}
{{- $policy := .ctx.Values.runPolicy -}}
{{- $ttl := $policy.ttlSecondsAfterFinished | default "" -}}
{{- if eq .ctx.Values.mpi.cleanPodPolicy "All" -}}{{- $ttl = 0 -}}{{- end -}}
{{- /* Later than the launcher's, whose verdict is the job's. */ -}}
{{- $deadline := ternary (add $policy.activeDeadlineSeconds 60) 0 (gt (int64 $policy.activeDeadlineSeconds) 0) -}}
{{- dict
      "layout" .layout "role" "worker" "group" .group.part
      "name" (include "allranks.names.part" (dict "ctx" .ctx "part" .group.part))
      "count" .group.count
      "template" (include "mpi.pod.worker" .)
      "firstFails" true
      "deadline" $deadline
      "ttl" $ttl
      "gang" (include "mpi.gang" (merge (dict "least" .group.least) .) | fromJson)
      "together" (include "mpi.together" .ctx | fromJson)
    | toJson -}}
{{- end -}}

{{/* What both have: the host file and the ssh key are mounted, and the Service names them. */}}
{{- define "mpi.pod" -}}
{{- $volumes := list (dict "name" "mpi" "configMap" (dict
      "name" (include "allranks.names.release" .ctx)
      "items" (list
        (dict "key" "hostfile" "path" "hostfile" "mode" 292)
        (dict "key" "discover_hosts.sh" "path" "discover_hosts.sh" "mode" 365)))) -}}{{/* 0444, 0555 */}}
{{- $mounts := list (dict "name" "mpi" "mountPath" "/etc/mpi" "readOnly" true) -}}
{{- $secret := include "mpi.secret" .ctx -}}
{{- $arguments := merge (dict
      "state" true
      "uidLabel" (ternary "" "batch.kubernetes.io/controller-uid" (eq .restartPolicy "Always"))
      "keyed" (ne $secret "")
      "portName" "ssh"
      "hosts" (include "mpi.hosts" .)
      "defaults" (include "mpi.defaults" . | fromJson)) . -}}
{{- if $secret -}}
{{- $volumes = append $volumes (dict "name" "ssh" "secret" (dict
      "secretName" $secret
      "items" (list (dict "key" "ssh-privatekey" "path" "ssh-privatekey"))
      "defaultMode" (include "mpi.keyMode" $arguments | int))) -}}
{{- $mounts = append $mounts (dict "name" "ssh" "mountPath" "/etc/allranks-ssh" "readOnly" true) -}}
{{- end -}}
{{- if eq .restartPolicy "Never" -}}
{{- /* A StatefulSet names its Service itself. */ -}}
{{- $_ := set $arguments "subdomain" (include "allranks.names.release" .ctx) -}}
{{- end -}}
{{- include "allranks.pod" (merge (dict "volumes" $volumes "mounts" $mounts) $arguments) -}}
{{- end -}}

{{/* The mode of the key's file, which is root's: for the pod's group where it has one, else for
     whatever user the pod, its container or its image names; no other process sees the mount. */}}
{{- define "mpi.keyMode" -}}
{{- $context := include "allranks.pod.security" . | fromJson -}}
{{- if hasKey $context "fsGroup" -}}
288{{/* 0440 */}}
{{- else -}}
292{{/* 0444 */}}
{{- end -}}
{{- end -}}
