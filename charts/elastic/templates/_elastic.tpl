{{/*
What an elastic job is made of. What a framework asks is data (frameworks.yaml); nothing here knows
one by its name.
*/}}

{{/* The framework's recipe. JSON; takes the root context. */}}
{{- define "elastic.recipe" -}}
{{- get (.Files.Get "frameworks.yaml" | fromYaml) .Values.elastic.framework | toJson -}}
{{- end -}}

{{/* AllreduceStrategy | ParameterServerStrategy, of mode auto; "" where there is none. Takes the root
     context. */}}
{{- define "elastic.strategy" -}}
{{- if eq .Values.elastic.mode "auto" -}}
{{- .Values.elastic.strategy | default (include "elastic.recipe" . | fromJson).strategy -}}
{{- end -}}
{{- end -}}

{{/* "true" where our worker runs torchrun: only our master says who trains; another one has a worker
     of its own. Takes the root context. */}}
{{- define "elastic.rings" -}}
{{- if and (eq (include "elastic.strategy" .) "AllreduceStrategy") (eq (include "elastic.master" .) "own") -}}
true
{{- end -}}
{{- end -}}

{{/* What the size follows from, over the values that all workloads share: the nodes are the workers.
     JSON; takes the root context. */}}
{{- define "elastic.size" -}}
{{- $auto := .Values.elastic.auto -}}
{{- $worker := .Values.elastic.roles.worker -}}
{{- $nodes := int64 .Values.nodes | default (int64 $worker.replicas) -}}
{{- $gpusPerPod := int64 .Values.gpusPerNode | default (int64 $worker.gpusPerPod) -}}
{{- $least := 0 -}}
{{- $most := 0 -}}
{{- if eq .Values.elastic.mode "auto" -}}
{{- $limit := int64 $auto.limits.gpu -}}
{{- $cap := int64 .Values.nodeShape.gpus -}}
{{- if and (eq $gpusPerPod 0) (eq (int64 .Values.gpus) 0) (gt $limit 0) (gt $cap 0) -}}
{{- /* GPUs that all may have together are split over the fewest nodes; what does not divide leaves a rest. */ -}}
{{- $fewest := div (add $limit $cap -1) $cap -}}
{{- $gpusPerPod = ternary (div $limit $fewest) $cap (eq (mod $limit $fewest) 0) -}}
{{- end -}}
{{- $most = int64 $auto.maxWorkers -}}
{{- if and (gt $limit 0) (gt $gpusPerPod 0) (gt (div $limit $gpusPerPod) 0) -}}
{{- $most = min ($most | default (div $limit $gpusPerPod)) (div $limit $gpusPerPod) -}}
{{- end -}}
{{- if and (eq $most 0) (gt (int64 $auto.minWorkers) 0) -}}
{{- $most = max (int64 $auto.minWorkers) $nodes -}}
{{- end -}}
{{- if gt $most 0 -}}{{- $least = max 1 (int64 $auto.minWorkers) -}}{{- end -}}
{{- end -}}
{{- $size := dict "nodes" $nodes "gpusPerNode" $gpusPerPod "min" $least "max" $most -}}
{{- if ne (include "elastic.strategy" .) "AllreduceStrategy" -}}
{{- $_ := set $size "procsPerNode" 1 -}}
{{- end -}}
{{- toJson $size -}}
{{- end -}}

{{/* The roles that the job has, with how many pods of each: (dict "ctx" $ "layout" $layout). In mode
     auto 0 lets the master decide. JSON {role: count}. */}}
{{- define "elastic.counts" -}}
{{- $counts := dict -}}
{{- $elastic := .ctx.Values.elastic -}}
{{- $auto := eq $elastic.mode "auto" -}}
{{- range $role, $recipe := include "elastic.roles" .ctx | fromJson -}}
{{- $count := max (int (get $elastic.roles $role).replicas) (int (get $recipe "least")) -}}
{{- if eq $role "worker" -}}
{{- $count = int $.layout.nodes -}}
{{- if and $auto (not (include "elastic.sized" $.ctx)) -}}{{- $count = 0 -}}{{- end -}}
{{- end -}}
{{- if or $auto (gt $count 0) -}}
{{- $_ := set $counts $role $count -}}
{{- end -}}
{{- end -}}
{{- toJson $counts -}}
{{- end -}}

{{/* "true" where the values say how many workers there are. Takes the root context. */}}
{{- define "elastic.sized" -}}
{{- if or .Values.nodes .Values.gpus .Values.elastic.roles.worker.replicas -}}true{{- end -}}
{{- end -}}

{{/* The roles that the framework has here: all workers alike have only each other. JSON; takes the
     root context. */}}
{{- define "elastic.roles" -}}
{{- $roles := (include "elastic.recipe" . | fromJson).roles -}}
{{- if eq (include "elastic.strategy" .) "AllreduceStrategy" -}}
{{- $roles = pick $roles "worker" -}}
{{- else if eq .Values.elastic.mode "auto" -}}
{{- $ownRoles := dict -}}
{{- range $role, $recipe := $roles -}}
{{- if or (has $role (list "worker" "ps")) (int (get $.Values.elastic.roles $role).replicas) -}}
{{- $_ := set $ownRoles $role $recipe -}}
{{- end -}}
{{- end -}}
{{- $roles = $ownRoles -}}
{{- end -}}
{{- toJson $roles -}}
{{- end -}}

{{/* Whose end is the end of the training: (dict "ctx" $ "counts" $counts). JSON list of
     [role, how many of its pods, from 0]; the first pod of the first one keeps the meeting. */}}
{{- define "elastic.leads" -}}
{{- $recipe := include "elastic.recipe" .ctx | fromJson -}}
{{- $all := eq (.ctx.Values.elastic.successPolicy | default $recipe.policy) "allWorkers" -}}
{{- $leads := list -}}
{{- range $role := $recipe.lead -}}
{{- $count := int (get $.counts $role) -}}
{{- if and (gt $count 0) (or $all (not $leads)) -}}
{{- $leads = append $leads (list $role (ternary $count 1 $all)) -}}
{{- end -}}
{{- end -}}
{{- toJson $leads -}}
{{- end -}}

{{/* GPUs of each pod of a role: (dict "ctx" $ "layout" $layout "role" "ps"). */}}
{{- define "elastic.gpus" -}}
{{- if eq .role "worker" -}}
{{- int .layout.gpusPerNode -}}
{{- else -}}
{{- int (get .ctx.Values.elastic.roles .role).gpusPerPod -}}
{{- end -}}
{{- end -}}

{{/* What tells the pods of a role from the workers: the dict of a controller and a pod, but for the root
     context, which JSON cannot hold. (dict "ctx" $ "layout" $layout "role" "ps"). JSON. */}}
{{- define "elastic.role" -}}
{{- $gpus := include "elastic.gpus" . | int -}}
{{- $light := and (ne .role "worker") (eq $gpus 0) -}}
{{- dict
      "role" .role
      "layout" (set (deepCopy .layout) "gpusPerNode" $gpus)
      "own" (get .ctx.Values.elastic.roles .role)
      "light" $light
    | toJson -}}
{{- end -}}

{{/* The port that the pods listen on. Takes the root context. */}}
{{- define "elastic.port" -}}
{{- int (.Values.elastic.port | default (include "elastic.recipe" . | fromJson).port) -}}
{{- end -}}

{{/* The Job of a role: (dict "ctx" $ "layout" $layout "counts" $counts "role" "ps"). */}}
{{- define "elastic.job" -}}
{{- $policy := .ctx.Values.runPolicy -}}
{{- $about := include "elastic.role" . | fromJson -}}
{{- $recipe := include "elastic.recipe" .ctx | fromJson -}}
{{- $leads := include "elastic.leads" . | fromJsonArray -}}
{{- $leading := 0 -}}
{{- range $leads -}}{{- if eq (index . 0) $.role -}}{{- $leading = int (index . 1) -}}{{- end -}}{{- end -}}
{{- $total := 0 -}}
{{- range .counts -}}{{- $total = add $total . -}}{{- end -}}
{{- $count := get .counts .role -}}
{{- $gang := dict "minMember" (int $total) "name" (include "allranks.names.release" .ctx) "own" (int $count) -}}
{{- $marks := dict -}}
{{- $deadline := int64 $policy.activeDeadlineSeconds -}}
{{- if $leading -}}
{{- $_ := set $marks "allranks.dev/lead" "true" -}}
{{- else if $deadline -}}
{{- /* Later than the leads', whose verdict is the job's. */ -}}
{{- $deadline = add $deadline 60 -}}
{{- end -}}
{{- include "allranks.controllers.job" (dict
      "ctx" .ctx "layout" $about.layout "role" .role
      "name" (include "allranks.names.part" (dict "ctx" .ctx "part" .role))
      "count" $count
      "template" (include "elastic.pod.static" (merge (dict "about" $about) .))
      "firstFails" (not (get $recipe.roles .role).optional)
      "rankZeroEnds" (and (eq $leading 1) (gt (int $count) 1))
      "deadline" $deadline
      "ttl" ($policy.ttlSecondsAfterFinished | default "")
      "failing" (list
        (dict "code" 215 "why" "No lead has been seen for elastic.leadLostSeconds.")
        (dict "code" 216 "why" "Another pod, without which there is no training, has failed for good."))
      "fatal" true
      "gang" $gang
      "together" (include "allranks.labels.selector" (dict "ctx" .ctx) | fromJson)
      "aside" $about.light
      "marks" $marks) -}}
{{- end -}}

{{/* The pod template of a role in mode static: the dict of elastic.job, and `about`. */}}
{{- define "elastic.pod.static" -}}
{{- include "elastic.pod" (merge (dict
      "how" "follow"
      "uidLabel" "batch.kubernetes.io/controller-uid"
      "env" (include "elastic.env.static" . | fromJsonArray)
      "restartPolicy" "Never"
      "subdomain" (include "allranks.names.release" .ctx)
      "port" (include "elastic.port" .ctx)
      "portName" "training") .) -}}
{{- end -}}

{{/* The pod template of a role of the ElasticJob: (dict "ctx" $ "layout" $layout "role" "worker"). */}}
{{- define "elastic.pod.auto" -}}
{{- $about := include "elastic.role" . | fromJson -}}
{{- include "elastic.pod" (merge (dict
      "about" $about
      "how" (ternary "elastic_worker" "exec" (ne (include "elastic.rings" .ctx) ""))
      "env" (include "elastic.env.auto" . | fromJsonArray)
      "restartPolicy" "Never") .) -}}
{{- end -}}

{{/* What both have. */}}
{{- define "elastic.pod" -}}
{{- include "allranks.pod" (merge (dict
      "layout" .about.layout
      "own" .about.own
      "idle" .about.light
      "defaults" (ternary (dict "NVIDIA_VISIBLE_DEVICES" "") dict .about.light)
      "args" (include "elastic.args" . | fromJsonArray)) (omit . "layout")) -}}
{{- end -}}

{{/* How entry.sh starts the pod, and what the role runs. A script that names no interpreter is Python.
     A role's command has none of the args that all share. JSON list. */}}
{{- define "elastic.args" -}}
{{- $own := .about.own -}}
{{- $words := list -}}
{{- $of := .ctx -}}
{{- if or $own.command $own.args -}}
{{- $program := dict "command" $own.command "args" $own.args "script" "" -}}
{{- if not $own.command -}}
{{- $program = dict "command" .ctx.Values.command "args" $own.args "script" .ctx.Values.script -}}
{{- end -}}
{{- $of = dict "Values" $program -}}
{{- end -}}
{{- if and (not (include "allranks.entry.ownInterpreter" $of)) (ne .how "elastic_worker") -}}
{{- $words = append $words "python3" -}}
{{- end -}}
{{- concat (list .how) $words (include "allranks.entry.args" $of | fromJsonArray) | toJson -}}
{{- end -}}
