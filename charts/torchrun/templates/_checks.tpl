{{/*
What this chart refuses, besides the rules that all workloads share (allranks.checks.shared).
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "torchrun.checks" -}}{{- include "allranks.once" (dict "ctx" . "what" "torchrun.checks") -}}{{- end -}}
{{- define "torchrun.checks.made" -}}
{{- $problems := include "allranks.checks.elastic" . | fromJsonArray -}}
{{- if $problems -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
{{- $layout := include "allranks.layout" . | fromJson -}}
{{- $stateful := eq .Values.torchrun.controller "StatefulSet" -}}
{{- /* Helm allows 53; a StatefulSet's pods carry the name and a hash of 10 in a label of 63. */ -}}
{{- $problems = include "allranks.checks.shared" (dict
      "ctx" . "layout" $layout "nameMax" (ternary 52 53 $stateful)
      "reserved" (list "JOB_COMPLETION_INDEX" "RANK" "LOCAL_RANK" "WORLD_SIZE" "LOCAL_WORLD_SIZE" "GROUP_RANK" "GROUP_WORLD_SIZE" "ROLE_RANK" "ROLE_WORLD_SIZE" "MASTER_ADDR" "MASTER_PORT" "TORCHELASTIC_RUN_ID" "TORCHELASTIC_RESTART_COUNT" "TORCHELASTIC_MAX_RESTARTS")
      "reservedPrefixes" (list "PET_" "ALLRANKS_")) | fromJsonArray -}}
{{- $problems = concat $problems $layout.problems -}}
{{- range $rule := list "program" "rendezvous" "controller" -}}
{{- $problems = concat $problems (include (printf "torchrun.checks.%s" $rule) $ | fromJsonArray) -}}
{{- end -}}
{{- $problems = concat $problems (include "torchrun.checks.spares" (dict "ctx" . "layout" $layout) | fromJsonArray) -}}
{{- $problems = concat $problems (include "torchrun.checks.restartsInPlace" . | fromJsonArray) -}}
{{- $problems = concat $problems (include "torchrun.torchft.checks" . | fromJsonArray) -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{- define "torchrun.checks.program" -}}
{{- $problems := list -}}
{{- $torchrun := .Values.torchrun -}}
{{- if and $torchrun.module $torchrun.runPath -}}
{{- $problems = append $problems "torchrun.module: runPath is set too; leave one of the two out" -}}
{{- end -}}
{{- if and (or $torchrun.module $torchrun.runPath) .Values.script -}}
{{- $problems = append $problems (printf "torchrun.%s: it is about command, and script is given; set it to false" (ternary "module" "runPath" $torchrun.module)) -}}
{{- end -}}
{{- if and $torchrun.runPath .Values.command (not (hasPrefix "/" (first .Values.command))) -}}
{{- $problems = append $problems (printf "torchrun.runPath: the first word of command must be an absolute path, got %q; write it in full" (first .Values.command)) -}}
{{- end -}}
{{- if and $torchrun.runPath .Values.compat -}}
{{- $problems = append $problems "compat: torchrun.runPath is set too, and runs the ranks in torchrun's own interpreter, where nothing tells them of Slurm; set it to false" -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "torchrun.checks.rendezvous" -}}
{{- $problems := list -}}
{{- $torchrun := .Values.torchrun -}}
{{- if and (eq $torchrun.rdzvBackend "static") (gt (int $torchrun.elastic.maxNodes) 0) -}}
{{- $problems = append $problems "torchrun.rdzvBackend: static needs a fixed number of nodes; use c10d, or unset torchrun.elastic" -}}
{{- end -}}
{{- if and (hasPrefix "etcd" $torchrun.rdzvBackend) (not $torchrun.rdzvEndpoint) -}}
{{- $problems = append $problems (printf "torchrun.rdzvEndpoint: %s needs the host:port of an etcd; set it, or use c10d" $torchrun.rdzvBackend) -}}
{{- end -}}
{{- if and $torchrun.rdzvEndpoint (not (hasPrefix "etcd" $torchrun.rdzvBackend)) -}}
{{- $problems = append $problems (printf "torchrun.rdzvEndpoint: with %s the nodes meet at rank 0; remove it, or set torchrun.rdzvBackend to etcd" ($torchrun.rdzvBackend | default "c10d")) -}}
{{- end -}}
{{- range $key, $value := $torchrun.rdzvConf -}}
{{- if has $key (list "is_host" "rank") -}}
{{- $problems = append $problems (printf "torchrun.rdzvConf.%s: each node is told by its own rank; remove it" $key) -}}
{{- end -}}
{{- if contains "," (toString $value) -}}
{{- $problems = append $problems (printf "torchrun.rdzvConf.%s: torchrun separates settings by commas, and the value has one; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* A StatefulSet restarts its pods for ever; what ends a Job has no meaning there. */}}
{{- define "torchrun.checks.controller" -}}
{{- $problems := list -}}
{{- if eq .Values.torchrun.controller "StatefulSet" -}}
{{- if gt (int .Values.torchrun.elastic.maxNodes) 0 -}}
{{- $problems = append $problems "torchrun.controller: a StatefulSet has a fixed number of pods, and torchrun.elastic gives a range; use Job, or unset torchrun.elastic" -}}
{{- end -}}
{{- range $key := list "ttlSecondsAfterFinished" "activeDeadlineSeconds" "fatalExitCodes" -}}
{{- if get $.Values.runPolicy $key -}}
{{- $problems = append $problems (printf "runPolicy.%s: a StatefulSet never ends by itself; use torchrun.controller Job, or leave it out" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* The launcher asks for a restart by an exit code of its own. Takes the root context. */}}
{{- define "torchrun.checks.restartsInPlace" -}}
{{- $problems := list -}}
{{- if gt (int .Values.torchrun.restartsInPlace) 0 -}}
{{- if eq .Values.torchrun.controller "StatefulSet" -}}
{{- $problems = append $problems "torchrun.restartsInPlace: a StatefulSet starts containers again by itself, without an end; set torchrun.controller to Job, or remove it" -}}
{{- end -}}
{{- range .Values.runPolicy.fatalExitCodes -}}
{{- if eq (int .) 220 -}}
{{- $problems = append $problems "runPolicy.fatalExitCodes: with 220 the launcher asks for a restart in place (torchrun.restartsInPlace); leave it out" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* A pod that stands by joins a rendezvous of torch's, in the place of any but rank 0's:
     (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.checks.spares" -}}
{{- $problems := list -}}
{{- $torchrun := .ctx.Values.torchrun -}}
{{- if gt (int $torchrun.spares) 0 -}}
{{- if gt (int $torchrun.elastic.maxNodes) 0 -}}
{{- $problems = append $problems "torchrun.spares: torchrun.elastic is set too, and goes on without a pod that is lost; leave one of the two out" -}}
{{- else if eq (int .layout.nodes) 1 -}}
{{- $problems = append $problems "torchrun.spares: the job has one node, and rank 0's pod is the one that no spare replaces; use nodes: 2 or more, or remove it" -}}
{{- end -}}
{{- if not (has $torchrun.rdzvBackend (list "" "c10d")) -}}
{{- $problems = append $problems (printf "torchrun.spares: with the rendezvous %s no pod can stand by; set torchrun.rdzvBackend to c10d, or remove it" $torchrun.rdzvBackend) -}}
{{- end -}}
{{- if eq $torchrun.controller "StatefulSet" -}}
{{- $problems = append $problems "torchrun.spares: each pod of a StatefulSet has a rank of its own; set torchrun.controller to Job, or remove it" -}}
{{- end -}}
{{- if .ctx.Values.compat -}}
{{- $problems = append $problems "torchrun.spares: compat is set too, and which pods train is no list of hosts that Slurm's variables could name; leave one of the two out" -}}
{{- end -}}
{{- if $torchrun.localAddr -}}
{{- $problems = append $problems "torchrun.localAddr: gives all pods one name, and of a job with torchrun.spares nothing could tell which of them train; remove it" -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
