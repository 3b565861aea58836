{{/*
What this chart refuses, besides the rules that all workloads share (allranks.checks.shared).
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "torchrun.checks" -}}
{{- $problems := include "torchrun.checks.elastic" . | fromJsonArray -}}
{{- if $problems -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
{{- $layout := include "allranks.layout" . | fromJson -}}
{{- $stateful := eq .Values.torchrun.controller "StatefulSet" -}}
{{- /* Helm allows 53; a StatefulSet's pods carry the name and a hash of 10 in a label of 63. */ -}}
{{- $problems = include "allranks.checks.shared" (dict
      "ctx" . "layout" $layout "nameMax" (ternary 52 53 $stateful)) | fromJsonArray -}}
{{- $problems = concat $problems $layout.problems -}}
{{- range $rule := list "program" "rendezvous" "controller" -}}
{{- $problems = concat $problems (include (printf "torchrun.checks.%s" $rule) $ | fromJsonArray) -}}
{{- end -}}
{{- if not $layout.problems -}}
{{- $problems = concat $problems (include "torchrun.checks.size" (dict "ctx" . "layout" $layout) | fromJsonArray) -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{/* The range itself, before a layout is computed from it. */}}
{{- define "torchrun.checks.elastic" -}}
{{- $problems := list -}}
{{- $min := int .Values.torchrun.elastic.minNodes -}}
{{- $max := int .Values.torchrun.elastic.maxNodes -}}
{{- if or (gt $min 0) (gt $max 0) -}}
{{- if or (lt $min 1) (lt $max 1) -}}
{{- $problems = append $problems (printf "torchrun.elastic: a range needs both ends, got minNodes %d and maxNodes %d; set both, or neither" $min $max) -}}
{{- else if gt $min $max -}}
{{- $problems = append $problems (printf "torchrun.elastic: minNodes %d is more than maxNodes %d; exchange them" $min $max) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "torchrun.checks.size" -}}
{{- $problems := list -}}
{{- $elastic := .ctx.Values.torchrun.elastic -}}
{{- $nodes := int .layout.nodes -}}
{{- if and (gt (int $elastic.maxNodes) 0) (or (lt $nodes (int $elastic.minNodes)) (gt $nodes (int $elastic.maxNodes))) -}}
{{- $problems = append $problems (printf "torchrun.elastic: %d nodes are not between minNodes %d and maxNodes %d; widen the range, or ask for another size" $nodes (int $elastic.minNodes) (int $elastic.maxNodes)) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "torchrun.checks.program" -}}
{{- $problems := list -}}
{{- $torchrun := .Values.torchrun -}}
{{- if and $torchrun.module $torchrun.runPath -}}
{{- $problems = append $problems "torchrun.module: runPath is set too; leave one of the two out" -}}
{{- end -}}
{{- if and $torchrun.module .Values.script -}}
{{- $problems = append $problems "torchrun.module: an inline script is no module; use command, or set module to false" -}}
{{- end -}}
{{- if and $torchrun.runPath .Values.command (not (hasPrefix "/" (first .Values.command))) -}}
{{- $problems = append $problems (printf "torchrun.runPath: the first word of command must be an absolute path, got %q; write it in full" (first .Values.command)) -}}
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
{{- if hasKey $torchrun.rdzvConf "is_host" -}}
{{- $problems = append $problems "torchrun.rdzvConf.is_host: each node is told by its rank; remove it" -}}
{{- end -}}
{{- range $key, $value := $torchrun.rdzvConf -}}
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
{{- range $key := list "ttlSecondsAfterFinished" "activeDeadlineSeconds" "fatalExitCodes" -}}
{{- if get $.Values.runPolicy $key -}}
{{- $problems = append $problems (printf "runPolicy.%s: a StatefulSet never ends by itself; use torchrun.controller Job, or leave it out" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
