{{/*
torchft: each node is a replica group, with a torchrun of its own in which its ranks count from 0. The
groups meet at a lighthouse, at each step those that are there, so that a run goes on without one that
is lost. torchrun.elastic says how many must remain.
*/}}

{{/* "true" where the nodes are replica groups. Takes the root context. */}}
{{- define "torchrun.torchft.on" -}}
{{- if .Values.torchrun.torchft.lighthouse -}}true{{- end -}}
{{- end -}}

{{/* The variables that a group is told, and that env may not set. Takes the root context; JSON. */}}
{{- define "torchrun.torchft.names" -}}
{{- list "TORCHFT_LIGHTHOUSE" "REPLICA_GROUP_ID" "NUM_REPLICA_GROUPS" | toJson -}}
{{- end -}}

{{/* What a group is told: (dict "ctx" $ "layout" $layout). JSON {name: text, or a value from the
     downward API}; empty where there are none. */}}
{{- define "torchrun.torchft.env" -}}
{{- $vars := dict -}}
{{- if include "torchrun.torchft.on" .ctx -}}
{{- $vars = dict
      "TORCHFT_LIGHTHOUSE" (printf "http://%s" .ctx.Values.torchrun.torchft.lighthouse)
      "REPLICA_GROUP_ID" (include "torchrun.rank" .ctx | fromJson)
      "NUM_REPLICA_GROUPS" (int .layout.nodes | toString)
      "PET_NNODES" "1"
      "PET_LOCAL_ADDR" (dict "fieldRef" (dict "fieldPath" "status.podIP")) -}}
{{- /* A group tells the others where its store is, and looks for it before its ranks make a process
       group: that is torchrun's own, which the launcher else keeps from the ranks. */ -}}
{{- if not (hasKey .ctx.Values.env "TORCH_DISABLE_SHARE_RDZV_TCP_STORE") -}}
{{- $_ := set $vars "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" "0" -}}
{{- end -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* How a Job of groups ends: it has failed when fewer are left than have to be, and is over when so
     many have succeeded, for all of them have the same weights. (dict "ctx" $ "layout" $layout). JSON,
     for allranks.controllers.job; empty where there are none. */}}
{{- define "torchrun.torchft.end" -}}
{{- if include "torchrun.torchft.on" .ctx -}}
{{- dict "mayFail" (sub .layout.nodes .layout.minNodes) "enough" .layout.minNodes | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* What replica groups cannot be. Takes the root context; JSON list. */}}
{{- define "torchrun.torchft.checks" -}}
{{- $problems := list -}}
{{- $torchrun := .Values.torchrun -}}
{{- if include "torchrun.torchft.on" . -}}
{{- $path := "torchrun.torchft.lighthouse" -}}
{{- if .Whole -}}
{{- $problems = append $problems (printf "%s: a lighthouse does not tell jobs apart, and the trials of a sweep would share it; remove it" $path) -}}
{{- end -}}
{{- if eq $torchrun.controller "StatefulSet" -}}
{{- $problems = append $problems (printf "%s: a StatefulSet never ends, and groups do; set torchrun.controller to Job, or remove torchrun.torchft" $path) -}}
{{- end -}}
{{- if not (has $torchrun.rdzvBackend (list "" "c10d")) -}}
{{- $problems = append $problems (printf "%s: each group is one node, and meets nobody by %s; remove torchrun.rdzvBackend" $path $torchrun.rdzvBackend) -}}
{{- end -}}
{{- if gt (int $torchrun.spares) 0 -}}
{{- $problems = append $problems (printf "%s: torchrun.spares is set too, and the groups that are left go on without the one that is lost; remove torchrun.spares" $path) -}}
{{- end -}}
{{- if $torchrun.localAddr -}}
{{- $problems = append $problems (printf "%s: torchrun.localAddr gives all groups one address; remove torchrun.localAddr" $path) -}}
{{- end -}}
{{- if .Values.compat -}}
{{- $problems = append $problems (printf "%s: compat is set too, and each group counts its ranks from 0, which Slurm's variables could not say; leave one of the two out" $path) -}}
{{- end -}}
{{- range $name := include "torchrun.torchft.names" . | fromJsonArray -}}
{{- if hasKey $.Values.env $name -}}
{{- $problems = append $problems (printf "env.%s: with %s each group is told its own; remove it" $name $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
