{{/*
What is refused: rules between values, which a schema cannot say.

A rule appends one line to a list; all of them are reported at once, each as
"ERROR: path: what is wrong; the fix". The command line checks the same before Helm runs; these
stand for who uses plain Helm.
*/}}

{{/* Fails with every problem of the list in .problems. */}}
{{- define "allranks.checks.report" -}}
{{- with .problems -}}
{{- $lines := list -}}
{{- range . -}}{{- $lines = append $lines (printf "ERROR: %s" .) -}}{{- end -}}
{{- fail (join "\n" (uniq $lines)) -}}
{{- end -}}
{{- end -}}

{{/* The rules of the values that all workloads share:
     (dict "ctx" $ "layout" $layout "nameMax" 53 "paths" (dict "/etc/mpi" "the host file")
     "envs" (dict "mpi.worker.env" $env) "reserved" (list "RANK") "reservedPrefixes" (list "PET_")).
     `nameMax` is the longest release name, `paths` are what the workload mounts besides, `envs` the
     variables of its roles, and `reserved` the names that it sets itself. JSON list. */}}
{{- define "allranks.checks.shared" -}}
{{- $problems := list -}}
{{- range $rule := list "workload" "release" "program" "env" "resources" "storage" "workspace" "scheduling" "metadata" "stall" "compat" -}}
{{- $problems = concat $problems (include (printf "allranks.checks.%s" $rule) $ | fromJsonArray) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* The elastic range itself, before a layout is computed from it. JSON list; takes the root context. */}}
{{- define "allranks.checks.elastic" -}}
{{- $problems := list -}}
{{- $elastic := (index .Values .Chart.Name).elastic -}}
{{- $min := int $elastic.minNodes -}}
{{- $max := int $elastic.maxNodes -}}
{{- if or (gt $min 0) (gt $max 0) -}}
{{- if or (lt $min 1) (lt $max 1) -}}
{{- $problems = append $problems (printf "%s.elastic: a range needs both ends, got minNodes %d and maxNodes %d; set both, or neither" .Chart.Name $min $max) -}}
{{- else if gt $min $max -}}
{{- $problems = append $problems (printf "%s.elastic: minNodes %d is more than maxNodes %d; exchange them" .Chart.Name $min $max) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.workload" -}}
{{- $problems := list -}}
{{- $values := .ctx.Values -}}
{{- if ne (toString $values.workload) .ctx.Chart.Name -}}
{{- $problems = append $problems (printf "workload: these values are for %s and this chart is %s; use charts/%s" $values.workload .ctx.Chart.Name $values.workload) -}}
{{- end -}}
{{- with $values.preset -}}
{{- $names := kindIs "string" . | ternary . (toJson .) -}}
{{- $problems = append $problems (printf "preset: plain Helm does not know presets (%s); pass the preset's file from values/ with -f before your own and leave preset empty, or use allranks" $names) -}}
{{- end -}}
{{- if not $values.image.repository -}}
{{- $problems = append $problems "image.repository: empty; name the image to train with" -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.release" -}}
{{- $problems := list -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .ctx.Release.Name) -}}
{{- $problems = append $problems (printf "release name: %q cannot name a Service; use lower-case letters, digits and '-', and start with a letter" .ctx.Release.Name) -}}
{{- end -}}
{{- if gt (len .ctx.Release.Name) (int .nameMax) -}}
{{- $problems = append $problems (printf "release name: %q has %d characters, and pods are named after it; use at most %d" .ctx.Release.Name (len .ctx.Release.Name) (int .nameMax)) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.program" -}}
{{- $problems := list -}}
{{- $values := .ctx.Values -}}
{{- if and $values.command $values.script -}}
{{- $problems = append $problems "script: command is given too; leave one of the two out" -}}
{{- else if not (or $values.command $values.script) -}}
{{- $problems = append $problems "command: neither command nor script is given; say what to run, as in [python, train.py]" -}}
{{- end -}}
{{- $own := 0 -}}
{{- range $text := values (include "allranks.entry.files" .ctx | fromJson) -}}{{- $own = add $own (len $text) -}}{{- end -}}
{{- $size := add (len $values.script) (len $values.setup) -}}
{{- if gt (add $size $own) 1048576 -}}
{{- $problems = append $problems (printf "script: script and setup have %d bytes, and %d is what a ConfigMap holds beside our own files; put the code in the image or on a volume and run it with command" $size (sub 1048576 $own)) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* Of an elastic job only the ranks of a ring share a store, and what is to be done is its master's. */}}
{{- define "allranks.checks.stall" -}}
{{- $problems := list -}}
{{- $policy := .ctx.Values.runPolicy -}}
{{- if eq .ctx.Chart.Name "elastic" -}}
{{- if and $policy.stallSeconds (not (include "elastic.rings" .ctx)) -}}
{{- $problems = append $problems "runPolicy.stallSeconds: only workers that train in a ring notice it together (elastic.mode: auto, elastic.framework: pytorch); leave it out" -}}
{{- end -}}
{{- if ne (toString $policy.onStall) "report" -}}
{{- $problems = append $problems (printf "runPolicy.onStall: %s is the master's to do, after elastic.auto.policy.stallSeconds; leave it out" $policy.onStall) -}}
{{- end -}}
{{- else if and (ne (toString $policy.onStall) "report") (not $policy.stallSeconds) -}}
{{- $problems = append $problems (printf "runPolicy.onStall: %s needs runPolicy.stallSeconds, which is 0; set both" $policy.onStall) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.compat" -}}
{{- $problems := list -}}
{{- if and .ctx.Values.slurm.unset (not .ctx.Values.compat) -}}
{{- $problems = append $problems "slurm.unset: compat is empty and sets none of Slurm's variables; set compat to slurm, or leave it empty" -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.env" -}}
{{- $problems := list -}}
{{- range $path, $env := merge (dict "env" .ctx.Values.env) (.envs | default dict) -}}
{{- range $name, $value := $env -}}
{{- $isReserved := has $name $.reserved -}}
{{- range $prefix := $.reservedPrefixes -}}{{- if hasPrefix $prefix $name -}}{{- $isReserved = true -}}{{- end -}}{{- end -}}
{{- if $isReserved -}}
{{- $problems = append $problems (printf "%s.%s: the workload sets this variable itself; use another name, or the value that it comes from" $path $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.resources" -}}
{{- $problems := list -}}
{{- $values := .ctx.Values -}}
{{- $cpuOnly := eq (int .layout.gpusPerNode) 0 -}}
{{- $perPod := $values.resources.perPod -}}
{{- if and $values.resources.perGpu (or $perPod.requests $perPod.limits) -}}
{{- $problems = append $problems "resources: perPod and perGpu are both given; leave one of the two out" -}}
{{- end -}}
{{- if and $values.resources.perGpu $cpuOnly -}}
{{- $problems = append $problems "resources.perGpu: the job has no GPUs; use resources.perPod" -}}
{{- end -}}
{{- if or (hasKey $perPod.requests $values.gpuResource) (hasKey $perPod.limits $values.gpuResource) (hasKey $values.resources.perGpu $values.gpuResource) -}}
{{- $problems = append $problems (printf "resources: %s follows from gpus and gpusPerNode; remove it here" $values.gpuResource) -}}
{{- end -}}
{{- if and $values.shm.size $values.shm.sizePerGpu -}}
{{- $problems = append $problems "shm: size and sizePerGpu are both given; leave one of the two out" -}}
{{- end -}}
{{- if and $values.shm.sizePerGpu $cpuOnly -}}
{{- $problems = append $problems "shm.sizePerGpu: the job has no GPUs; use shm.size" -}}
{{- end -}}
{{- if and $values.gpuType.value (not $values.gpuType.label) -}}
{{- $problems = append $problems "gpuType.label: empty; name the node label that has the value" -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.storage" -}}
{{- $problems := list -}}
{{- range $name, $volume := .ctx.Values.storage -}}
{{- $problems = concat $problems (include "allranks.azure.problems" (dict "at" (printf "storage.%s" $name) "volume" $volume) | fromJsonArray) -}}
{{- end -}}
{{- $paths := merge (dict (include "allranks.names.mount" .) "the entry script" "/dev/shm" "shm" (include "allranks.names.state" .) "the entry script" (include "allranks.workspace.archive" .) "the workspace's archive" (include "allranks.workspace.state" .) "the workspace's state") (.paths | default dict) -}}
{{- range $name, $volume := include "allranks.storage.enabled" .ctx | fromJson -}}
{{- $at := printf "storage.%s" $name -}}
{{- if and $volume.existingClaim (or $volume.size $volume.sizePerGpu) -}}
{{- $problems = append $problems (printf "%s: an existing claim has its size already; leave existingClaim, or size and sizePerGpu, out" $at) -}}
{{- end -}}
{{- if and $volume.size $volume.sizePerGpu -}}
{{- $problems = append $problems (printf "%s: size and sizePerGpu are both given; leave one of the two out" $at) -}}
{{- end -}}
{{- if and $volume.sizePerGpu (eq (int $.layout.gpusPerNode) 0) -}}
{{- $problems = append $problems (printf "%s.sizePerGpu: the job has no GPUs; use %s.size" $at $at) -}}
{{- end -}}
{{- $path := clean $volume.mountPath -}}
{{- with get $paths $path -}}
{{- $problems = append $problems (printf "%s.mountPath: %s is where %s is mounted; choose another path" $at $path .) -}}
{{- end -}}
{{- $_ := set $paths $path $at -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.workspace" -}}
{{- $problems := list -}}
{{- $workspace := .ctx.Values.workspace -}}
{{- if $workspace.snapshot -}}
{{- $problems = concat $problems (include "allranks.checks.snapshot" $workspace.snapshot | fromJsonArray) -}}
{{- $problems = concat $problems (include "allranks.checks.mountPath" . | fromJsonArray) -}}
{{- else if and (eq $workspace.via "image") (not $workspace.registry) -}}
{{- $problems = append $problems "workspace.registry: empty, and workspace.via is image; name the repository that nodes pull from, or leave via empty" -}}
{{- else if and (eq $workspace.via "pvc") (not $workspace.claim) -}}
{{- $problems = append $problems "workspace.claim: empty, and workspace.via is pvc; name a ReadWriteMany claim, or leave via empty" -}}
{{- end -}}
{{- if gt (int .layout.maxNodes) 1 -}}
{{- range $key, $claim := dict "claim" $workspace.claim "snapshot.claim" (get $workspace.snapshot "claim") -}}
{{- range $name, $volume := $.ctx.Values.storage -}}
{{- if and $claim (eq $claim $volume.existingClaim) (not (without $volume.accessModes "ReadWriteOnce" "ReadWriteOncePod")) -}}
{{- $problems = append $problems (printf "workspace.%s: storage.%s.accessModes says that one node mounts %s, and the job has more; name a ReadWriteMany claim" $key $name $claim) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* Whether a snapshot says all that a pod needs, and nothing besides. Takes the snapshot. */}}
{{- define "allranks.checks.snapshot" -}}
{{- $problems := list -}}
{{- $of := dict "configMap" (list "configMaps") "image" (list "image") "pvc" (list "claim") -}}
{{- $needed := concat (list "archiveDigest" "compression" "digest" "via") (get $of (get . "via") | default list) -}}
{{- range $key := $needed -}}
{{- if not (get $ $key) -}}
{{- $problems = append $problems (printf "workspace.snapshot.%s: missing; take the whole snapshot as the command line writes it, or leave it empty" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := keys . | sortAlpha -}}
{{- $recorded := has $key (list "branch" "commit" "dirty") -}}
{{- if and (get $ "via") (not $recorded) (not (has $key $needed)) (not (and (eq $key "path") (eq $.via "pvc"))) -}}
{{- $problems = append $problems (printf "workspace.snapshot.%s: the snapshot was sent via %s, which has none; remove it" $key $.via) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* Whether the pod needs what the workspace would hide. */}}
{{- define "allranks.checks.mountPath" -}}
{{- $problems := list -}}
{{- $path := .ctx.Values.workspace.mountPath -}}
{{- $folder := clean $path -}}
{{- $fixed := list (include "allranks.names.mount" .) (include "allranks.names.state" .) (include "allranks.workspace.archive" .) (include "allranks.workspace.state" .) "/dev" "/proc" "/sys" -}}
{{- if eq $folder "/" -}}
{{- $problems = append $problems (printf "workspace.mountPath: %s is the root of the image, all of which would be hidden; use /app" $path) -}}
{{- end -}}
{{- range $mountFolder := ternary list (concat $fixed (keys (.paths | default dict) | sortAlpha)) (eq $folder "/") -}}
{{- if or (hasPrefix (printf "%s/" $folder) (printf "%s/" $mountFolder)) (hasPrefix (printf "%s/" $mountFolder) $folder) -}}
{{- $problems = append $problems (printf "workspace.mountPath: %s would hide %s, which the pod needs; use /app" $path $mountFolder) -}}
{{- end -}}
{{- end -}}
{{- range $name, $volume := include "allranks.storage.enabled" .ctx | fromJson -}}
{{- if eq (clean $volume.mountPath) $folder -}}
{{- $problems = append $problems (printf "workspace.mountPath: %s is where storage.%s is mounted; use /app, or mount the volume elsewhere" $path $name) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.scheduling" -}}
{{- $problems := list -}}
{{- $scheduling := .ctx.Values.scheduling -}}
{{- if and .ctx.Values.queue (has $scheduling.dialect (list "none" "coscheduling")) -}}
{{- $problems = append $problems (printf "queue: scheduling.dialect %s has no queues; use kueue, kai or volcano" $scheduling.dialect) -}}
{{- end -}}
{{- if and (eq $scheduling.dialect "kueue") (not .ctx.Values.queue) -}}
{{- $problems = append $problems "queue: empty, and Kueue admits a job through its queue only; name a LocalQueue of the namespace" -}}
{{- end -}}
{{- $isPlaced := ne $scheduling.topology.mode "none" -}}
{{- if and $isPlaced (eq $scheduling.dialect "kai") (not (get .ctx.Values.annotations "kai.scheduler/topology")) -}}
{{- $problems = append $problems (printf "scheduling.topology.mode: %s needs the name of KAI's Topology object; set annotations: {kai.scheduler/topology: NAME}" $scheduling.topology.mode) -}}
{{- end -}}
{{- if and (eq $scheduling.topology.mode "required") (eq $scheduling.dialect "volcano") (not (has $scheduling.topology.level (list "rack" "block"))) -}}
{{- $problems = append $problems (printf "scheduling.topology.level: Volcano places by tiers of HyperNodes, and %s is none that we know; use rack or block, or mode: preferred" $scheduling.topology.level) -}}
{{- end -}}
{{- if and $scheduling.gangTimeoutSeconds (eq $scheduling.dialect "none") -}}
{{- $problems = append $problems "scheduling.gangTimeoutSeconds: scheduling.dialect none has no gangs; name a dialect, or leave it 0" -}}
{{- end -}}
{{- $host := get $scheduling.nodeSelector "kubernetes.io/hostname" -}}
{{- if and $host (has $host $scheduling.avoidNodes) -}}
{{- $problems = append $problems (printf "scheduling.nodeSelector.kubernetes.io/hostname: selects %s, which scheduling.avoidNodes names; select another node, or take it out there" $host) -}}
{{- end -}}
{{- if and $isPlaced (not (get $scheduling.topology.labels $scheduling.topology.level)) -}}
{{- $problems = append $problems (printf "scheduling.topology.level: %q has no node label in scheduling.topology.labels; use one of %s" $scheduling.topology.level (keys $scheduling.topology.labels | sortAlpha | join ", ")) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "allranks.checks.metadata" -}}
{{- $problems := list -}}
{{- $own := include "allranks.labels.own" . | fromJson -}}
{{- range $key := keys .ctx.Values.labels | sortAlpha -}}
{{- if or (hasKey $own $key) (hasPrefix "allranks.dev/" $key) -}}
{{- $problems = append $problems (printf "labels.%s: this label is the chart's own; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := keys .ctx.Values.annotations | sortAlpha -}}
{{- if or (hasPrefix "allranks.dev/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- $problems = append $problems (printf "annotations.%s: this annotation is the chart's own or Helm's; use another key" $key) -}}
{{- end -}}
{{- end -}}
{{- $ref := .ctx.Values.queueRef -}}
{{- if and $ref.revision (not $ref.name) -}}
{{- $problems = append $problems "queueRef.name: empty, and a revision is given; name the queue that has it, or leave both out" -}}
{{- end -}}
{{- $policy := .ctx.Values.networkPolicy -}}
{{- if and $policy.from (not $policy.enabled) -}}
{{- $problems = append $problems "networkPolicy.from: there is no NetworkPolicy; set networkPolicy.enabled" -}}
{{- end -}}
{{- if and $policy.enabled .ctx.Values.network.hostNetwork -}}
{{- $problems = append $problems "networkPolicy.enabled: no NetworkPolicy holds for pods in the node's own network; leave out one of it and network.hostNetwork" -}}
{{- end -}}
{{- if and .ctx.Values.serviceAccount.annotations (not .ctx.Values.serviceAccount.create) -}}
{{- $problems = append $problems "serviceAccount.annotations: the chart does not create the account; set serviceAccount.create" -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
