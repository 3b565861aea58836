{{/*
What this chart refuses, besides the rules that all workloads share (allranks.checks.shared).
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "elastic.checks" -}}{{- include "allranks.once" (dict "ctx" . "what" "elastic.checks") -}}{{- end -}}
{{- define "elastic.checks.made" -}}
{{- $problems := list -}}
{{- range $rule := list "compat" "choice" "roles" "size" "auto" -}}
{{- $problems = concat $problems (include (printf "elastic.checks.%s" $rule) $ | fromJsonArray) -}}
{{- end -}}
{{- if $problems -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}
{{- $layout := include "allranks.layout" . | fromJson -}}
{{- $arguments := dict "ctx" . "layout" $layout -}}
{{- $envs := dict -}}
{{- range $role, $own := .Values.elastic.roles -}}
{{- $_ := set $envs (printf "elastic.roles.%s.env" $role) $own.env -}}
{{- end -}}
{{- $problems = include "allranks.checks.shared" (merge (dict
      "nameMax" (include "elastic.nameMax" $arguments | int)
      "reserved" (include "elastic.reserved" . | fromJsonArray)
      "reservedPrefixes" (list "ALLRANKS_")
      "envs" $envs) $arguments) | fromJsonArray -}}
{{- $problems = concat $problems $layout.problems -}}
{{- if eq .Values.elastic.mode "static" -}}
{{- $problems = concat $problems (include "elastic.checks.plan" $arguments | fromJsonArray) -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{- define "elastic.checks.compat" -}}
{{- $problems := list -}}
{{- with .Values.compat -}}
{{- $problems = append $problems (printf "compat: the pods of an elastic job have roles and no ranks of %s; leave it empty" .) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* The longest release name. A Job's pods have its name and their index as a host name of at most 63;
     the Service of an ElasticJob's master has a long name of its own. */}}
{{- define "elastic.nameMax" -}}
{{- $longest := len "elasticjob--dlrover-master" -}}
{{- if eq .ctx.Values.elastic.mode "static" -}}
{{- $longest = 0 -}}
{{- range $role, $count := include "elastic.counts" . | fromJson -}}
{{- $longest = max $longest (printf "-%s-%d" $role (sub $count 1) | len) -}}
{{- end -}}
{{- end -}}
{{- min 53 (sub 63 $longest) -}}
{{- end -}}

{{/* Variables that are not the user's. JSON list; takes the root context. */}}
{{- define "elastic.reserved" -}}
{{- if eq .Values.elastic.mode "static" -}}
{{- append (keys (include "elastic.recipe" . | fromJson).env | sortAlpha) "JOB_COMPLETION_INDEX" | toJson -}}
{{- else -}}
{{- $reserved := list "TF_CONFIG" "RANK" "WORLD_SIZE" "POD_NAME" "POD_IP" "NODE_IP" "NODE_TYPE" "NODE_ID" "NODE_NUM" "NODE_RANK" "PET_NPROC_PER_NODE" "PET_NO_PYTHON" -}}
{{- toJson $reserved -}}
{{- end -}}
{{- end -}}

{{/* A mode, a framework and a strategy that go together. */}}
{{- define "elastic.checks.choice" -}}
{{- $problems := list -}}
{{- $elastic := .Values.elastic -}}
{{- $recipes := .Files.Get "frameworks.yaml" | fromYaml -}}
{{- if not (hasKey $recipes $elastic.framework) -}}
{{- include "allranks.checks.report" (dict "problems" (list (printf "elastic.framework: %v is not known; use one of %s" $elastic.framework (keys $recipes | sortAlpha | join ", ")))) -}}
{{- end -}}
{{- if eq $elastic.mode "static" -}}
{{- if $elastic.strategy -}}
{{- $problems = append $problems "elastic.strategy: only an ElasticJob has one; set elastic.mode to auto, or leave it out" -}}
{{- end -}}
{{- if eq (int $elastic.followPort) (include "elastic.port" . | int) -}}
{{- $problems = append $problems (printf "elastic.followPort: %d is the port that the training listens on; use another" (int $elastic.followPort)) -}}
{{- end -}}
{{- else -}}
{{- if not (include "elastic.strategy" .) -}}
{{- $problems = append $problems (printf "elastic.framework: %s has a fixed number of pods; set elastic.mode to static" $elastic.framework) -}}
{{- end -}}
{{- if $elastic.successPolicy -}}
{{- $problems = append $problems "elastic.successPolicy: the master decides when an ElasticJob is done; leave it out, or set elastic.mode to static" -}}
{{- end -}}
{{- if $elastic.port -}}
{{- $problems = append $problems "elastic.port: the pods of an ElasticJob listen where its master expects them; leave it out, or set elastic.mode to static" -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* The roles that the framework has. */}}
{{- define "elastic.checks.roles" -}}
{{- $problems := list -}}
{{- $roleRecipes := include "elastic.roles" . | fromJson -}}
{{- $recipe := include "elastic.recipe" . | fromJson -}}
{{- range $role, $own := .Values.elastic.roles -}}
{{- $at := printf "elastic.roles.%s" $role -}}
{{- $count := int $own.replicas -}}
{{- if not (hasKey $roleRecipes $role) -}}
{{- if gt $count 0 -}}
{{- $how := printf "%s has %s" $.Values.elastic.framework (keys $recipe.roles | sortAlpha | join ", ") -}}
{{- if eq (include "elastic.strategy" $) "AllreduceStrategy" -}}{{- $how = "with AllreduceStrategy there are workers alone" -}}{{- end -}}
{{- $problems = append $problems (printf "%s.replicas: the job has no such role: %s; use 0" $at $how) -}}
{{- end -}}
{{- else -}}
{{- with int (get (get $roleRecipes $role) "most") -}}
{{- if gt $count . -}}
{{- $problems = append $problems (printf "%s.replicas: %d is too many for %s; use at most %d" $at $count $.Values.elastic.framework .) -}}
{{- end -}}
{{- end -}}
{{- range $side, $amounts := $own.resources -}}
{{- if hasKey $amounts $.Values.gpuResource -}}
{{- $problems = append $problems (printf "%s.resources: %s follows from gpusPerPod; remove it here" $at $.Values.gpuResource) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* The size, as the workers' role says it. */}}
{{- define "elastic.checks.size" -}}
{{- $problems := list -}}
{{- $worker := .Values.elastic.roles.worker -}}
{{- $nodes := int64 .Values.nodes -}}
{{- $gpusPerNode := int64 .Values.gpusPerNode -}}
{{- if and (gt $nodes 0) (gt (int64 $worker.replicas) 0) (ne $nodes (int64 $worker.replicas)) -}}
{{- $problems = append $problems (printf "elastic.roles.worker.replicas: %d contradicts nodes %d, and each node is a worker; leave one of the two out" (int64 $worker.replicas) $nodes) -}}
{{- end -}}
{{- if and (gt $gpusPerNode 0) (gt (int64 $worker.gpusPerPod) 0) (ne $gpusPerNode (int64 $worker.gpusPerPod)) -}}
{{- $problems = append $problems (printf "elastic.roles.worker.gpusPerPod: %d contradicts gpusPerNode %d; leave one of the two out" (int64 $worker.gpusPerPod) $gpusPerNode) -}}
{{- end -}}
{{- if and (gt (int64 .Values.procsPerNode) 1) (ne (include "elastic.strategy" .) "AllreduceStrategy") -}}
{{- $problems = append $problems (printf "procsPerNode: %s per pod are for torchrun (elastic.mode auto with AllreduceStrategy), and here one runs in each; use more pods" (include "allranks.words.count" (list .Values.procsPerNode "process"))) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What only mode auto has, and what it has not. */}}
{{- define "elastic.checks.auto" -}}
{{- $problems := list -}}
{{- $auto := .Values.elastic.auto -}}
{{- if eq .Values.elastic.mode "auto" -}}
{{- $least := int64 $auto.minWorkers -}}
{{- $most := int64 $auto.maxWorkers -}}
{{- if and (gt $most 0) (gt $least $most) -}}
{{- $problems = append $problems (printf "elastic.auto.minWorkers: %d is more than maxWorkers %d; use at most %d, or raise maxWorkers" $least $most $most) -}}
{{- end -}}
{{- $size := include "elastic.size" . | fromJson -}}
{{- $start := int64 $auto.policy.startWorkers -}}
{{- if gt $start 0 -}}
{{- if and (gt (int64 $size.nodes) 0) (ne $start (int64 $size.nodes)) -}}
{{- $problems = append $problems (printf "elastic.auto.policy.startWorkers: %d contradicts nodes %d, which says the same; leave one of the two out" $start (int64 $size.nodes)) -}}
{{- else if and (gt (int64 $size.max) 0) (or (lt $start (int64 $size.min)) (gt $start (int64 $size.max))) -}}
{{- $problems = append $problems (printf "elastic.auto.policy.startWorkers: %d is outside the range of workers, %d to %d; use a number in it, or widen it" $start (int64 $size.min) (int64 $size.max)) -}}
{{- end -}}
{{- end -}}
{{- $limit := int64 $auto.limits.gpu -}}
{{- $needed := mul (max 1 $least $size.nodes) $size.gpusPerNode -}}
{{- range $role, $own := .Values.elastic.roles -}}
{{- if ne $role "worker" -}}{{- $needed = add $needed (mul $own.replicas $own.gpusPerPod) -}}{{- end -}}
{{- end -}}
{{- if and (gt $limit 0) (gt (int64 $size.gpusPerNode) 0) (gt $needed $limit) -}}
{{- $problems = append $problems (printf "elastic.auto.limits.gpu: %d is all that the pods may have, and the fewest pods need %d; raise it, or use fewer workers or GPUs per node" $limit $needed) -}}
{{- end -}}
{{- $recipe := include "elastic.recipe" . | fromJson -}}
{{- if and (eq (include "elastic.strategy" .) "ParameterServerStrategy") (hasKey $recipe.roles "chief") (not (int .Values.elastic.roles.chief.replicas)) -}}
{{- $nodes := int64 .Values.nodes | default (int64 .Values.elastic.roles.worker.replicas) -}}
{{- if eq 1 (int ($nodes | default $most)) -}}
{{- $problems = append $problems (printf "%s: 1 worker is to be the chief, and none is left to work for it; use 2 or more, or set elastic.roles.chief.replicas to 1" (ternary "nodes" "elastic.auto.maxWorkers" (gt $nodes 0))) -}}
{{- end -}}
{{- end -}}
{{- $without := list "activeDeadlineSeconds" "ttlSecondsAfterFinished" -}}
{{- if eq (include "elastic.master" .) "given" -}}{{- $without = append $without "fatalExitCodes" -}}{{- end -}}
{{- range $key := $without -}}
{{- if get $.Values.runPolicy $key -}}
{{- $problems = append $problems (printf "runPolicy.%s: an ElasticJob has no such thing; leave it out, or set elastic.mode to static" $key) -}}
{{- end -}}
{{- end -}}
{{- if and $auto.master.command (not $auto.master.image) -}}
{{- $problems = append $problems "elastic.auto.master.image: empty, and a command is given, which is for another master than ours; name its image, or leave command out" -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What the pods are told must fit into a variable, and into a ConfigMap. */}}
{{- define "elastic.checks.plan" -}}
{{- $problems := list -}}
{{- $size := len (include "elastic.plan" .) -}}
{{- $rest := add (len .ctx.Values.script) (len .ctx.Values.setup) (len (include "allranks.entry.files" .ctx)) -}}
{{- if and (le $size 131071) (gt (add $size $rest) 1048576) -}}
{{- $problems = append $problems (printf "script: script, setup and the names of all pods have %d bytes, and 1048576 is what a ConfigMap holds; put the code in the image or on a volume and run it with command" (add $size $rest)) -}}
{{- end -}}
{{- if gt $size 131071 -}}
{{- $problems = append $problems (printf "nodes: the names of all pods have %d bytes, and 131071 is what a variable holds; use fewer pods, or shorter names of release and namespace" $size) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
