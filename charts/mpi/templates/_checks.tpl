{{/*
What this chart refuses, besides the rules that all workloads share (allranks.checks.shared).
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "mpi.checks" -}}{{- include "allranks.once" (dict "ctx" . "what" "mpi.checks") -}}{{- end -}}
{{- define "mpi.checks.made" -}}
{{- $problems := include "allranks.checks.elastic" . | fromJsonArray -}}
{{- if $problems -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
{{- $layout := include "allranks.layout" . | fromJson -}}
{{- $arguments := dict "ctx" . "layout" $layout -}}
{{- $problems = include "allranks.checks.shared" (merge (dict
      "nameMax" (include "mpi.nameMax" $arguments | int)
      "paths" (dict "/etc/mpi" "the host file" "/etc/allranks-ssh" "the ssh key")
      "reserved" (list "JOB_COMPLETION_INDEX" "K_MPI_JOB_ROLE")
      "reservedPrefixes" (list "ALLRANKS_" "OMPI_COMM_WORLD_" "PMI_" "PMIX_RANK")
      "envs" (dict "mpi.launcher.env" .Values.mpi.launcher.env "mpi.worker.env" .Values.mpi.worker.env))
      $arguments) | fromJsonArray -}}
{{- $problems = concat $problems $layout.problems -}}
{{- range $rule := list "size" "program" "transport" "hostfile" -}}
{{- $problems = concat $problems (include (printf "mpi.checks.%s" $rule) $arguments | fromJsonArray) -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{/* The longest release name. A Job's pods have its name and their index as a host name of at most
     63; a StatefulSet's carry its name and a hash of 10 in a label of 63. */}}
{{- define "mpi.nameMax" -}}
{{- $longest := len "-launcher-0" -}}
{{- $stateful := eq (include "mpi.controller" .ctx) "StatefulSet" -}}
{{- range $group := include "mpi.groups" . | fromJsonArray -}}
{{- $index := printf "-%d" (sub $group.most 1) -}}
{{- $longest = max $longest (add 1 (len $group.part) (ternary 11 (len $index) $stateful)) -}}
{{- end -}}
{{- min 53 (sub 63 $longest) -}}
{{- end -}}

{{/* The size, as MPI's own values say it. */}}
{{- define "mpi.checks.size" -}}
{{- $problems := list -}}
{{- $values := .ctx.Values -}}
{{- $mpi := $values.mpi -}}
{{- $workers := int64 $mpi.numWorkers -}}
{{- $hosts := ternary (add1 $workers) $workers $mpi.runLauncherAsWorker -}}
{{- if and (gt $workers 0) (gt (int64 $values.nodes) 0) (ne $hosts (int64 $values.nodes)) -}}
{{- $problems = append $problems (printf "mpi.numWorkers: %s%s make %s, and nodes is %d; leave one of the two out" (include "allranks.words.count" (list $workers "worker")) (ternary " and a launcher with ranks" "" $mpi.runLauncherAsWorker) (include "allranks.words.count" (list $hosts "node")) (int64 $values.nodes)) -}}
{{- end -}}
{{- $slots := int64 $mpi.slotsPerWorker -}}
{{- $procs := int64 $values.procsPerNode -}}
{{- $gpus := int64 .layout.gpusPerNode -}}
{{- if and (gt $slots 0) (gt $procs 0) (ne $slots $procs) -}}
{{- $problems = append $problems (printf "mpi.slotsPerWorker: %d contradicts procsPerNode %d; leave one of the two out" $slots $procs) -}}
{{- else if and (gt $slots 0) (eq $procs 0) (gt $gpus 0) (ne $slots $gpus) -}}
{{- $problems = append $problems (printf "mpi.slotsPerWorker: %d contradicts %s per node, one for each rank; leave it out, or set procsPerNode to have fewer ranks than GPUs, or ranks that share them" $slots (include "allranks.words.count" (list $gpus "GPU"))) -}}
{{- end -}}
{{- $all := ternary (mul .layout.maxNodes .layout.procsPerNode) (int64 .layout.worldSize) (gt (int64 $mpi.elastic.maxNodes) 0) -}}
{{- if gt (int64 $mpi.np) (int64 $all) -}}
{{- $problems = append $problems (printf "mpi.np: %s do not fit the %s of all hosts; use at most %d, or leave it out for all" (include "allranks.words.count" (list $mpi.np "rank")) (include "allranks.words.count" (list $all "slot")) $all) -}}
{{- end -}}
{{- range $side, $amounts := $mpi.launcher.resources -}}
{{- if hasKey $amounts $values.gpuResource -}}
{{- $problems = append $problems (printf "mpi.launcher.resources: %s follows from gpus and gpusPerNode; remove it, and set mpi.runLauncherAsWorker where the launcher is to have ranks" $values.gpuResource) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What the launcher runs. */}}
{{- define "mpi.checks.program" -}}
{{- $problems := list -}}
{{- $mpi := .ctx.Values.mpi -}}
{{- $command := .ctx.Values.command -}}
{{- if and (or $command .ctx.Values.script) (not (include "mpi.wraps" .ctx)) -}}
{{- if and $mpi.mpirunArgs $mpi.ownMpirun -}}
{{- $problems = append $problems "mpi.mpirunArgs: with mpi.ownMpirun, the command runs as it is; put the flags into command" -}}
{{- else if $mpi.mpirunArgs -}}
{{- $problems = append $problems (printf "mpi.mpirunArgs: command is %s, which runs as it is; put the flags into command" (base (first $command))) -}}
{{- end -}}
{{- else if gt (int $mpi.elastic.maxNodes) 0 -}}
{{- $problems = append $problems "mpi.elastic: mpirun starts a fixed number of ranks; use horovodrun with --host-discovery-script /etc/mpi/discover_hosts.sh as command, or leave the range out" -}}
{{- end -}}
{{- range .ctx.Values.runPolicy.fatalExitCodes -}}
{{- if eq (int .) 214 -}}
{{- $problems = append $problems "runPolicy.fatalExitCodes: with 214 the launcher says that a worker was lost, which is tried again; leave it out" -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "mpi.checks.transport" -}}
{{- $problems := list -}}
{{- $mpi := .ctx.Values.mpi -}}
{{- if eq $mpi.transport "exec" -}}
{{- if eq $mpi.controller "Job" -}}
{{- $problems = append $problems "mpi.controller: the transport exec reaches pods by names that are known before, and a Job's are not; use StatefulSet, or mpi.transport ssh" -}}
{{- end -}}
{{- if $mpi.ssh.existingSecret -}}
{{- $problems = append $problems "mpi.ssh.existingSecret: the transport exec needs no key; leave it out, or use mpi.transport ssh" -}}
{{- end -}}
{{- else if and (lt (int $mpi.ssh.port) 1024) .ctx.Values.security.restricted -}}
{{- $problems = append $problems (printf "mpi.ssh.port: port %d is for root, and security.restricted is true; use a port from 1024 to 65535, such as 2222" (int $mpi.ssh.port)) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What a ConfigMap holds. */}}
{{- define "mpi.checks.hostfile" -}}
{{- $problems := list -}}
{{- $size := len (include "mpi.hostfile" .) -}}
{{- $rest := add (len .ctx.Values.script) (len .ctx.Values.setup) (len (include "allranks.entry.files" .ctx)) -}}
{{- if gt (add $size $rest) 1048576 -}}
{{- $problems = append $problems (printf "nodes: the names of %s take %d bytes, and %d is what a ConfigMap holds beside the other files; use fewer hosts, or shorter names of release and namespace" (include "allranks.words.count" (list .layout.maxNodes "host")) $size (sub 1048576 $rest)) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
