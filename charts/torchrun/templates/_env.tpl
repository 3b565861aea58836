{{/*
torchrun's options, as the PET_* variables it reads them from. What torchrun has no variable for, and
what only a running pod knows, the launcher (files/launch.py) adds; ALLRANKS_* tells it what.
*/}}

{{/* c10d | static | etcd | etcd-v2 | standalone (one node, or each by itself: no rendezvous to speak of).
     (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.rendezvous" -}}
{{- $torchrun := .ctx.Values.torchrun -}}
{{- if or (include "torchrun.torchft.on" .ctx) (and (eq (int .layout.nodes) 1) (eq (int $torchrun.elastic.maxNodes) 0)) -}}
standalone
{{- else -}}
{{- $torchrun.rdzvBackend | default "c10d" -}}
{{- end -}}
{{- end -}}

{{/* Rank 0's own name. */}}
{{- define "torchrun.rankZero" -}}
{{- $name := include "allranks.names.release" . -}}
{{- printf "%s-0.%s" $name $name -}}
{{- end -}}

{{/* Where the nodes meet: rank 0 itself, or the Service whose address outlives its pod. */}}
{{- define "torchrun.meeting" -}}
{{- if eq .Values.torchrun.controller "StatefulSet" -}}
{{- include "allranks.names.master" . -}}
{{- else -}}
{{- include "torchrun.rankZero" . -}}
{{- end -}}
{{- end -}}

{{/* A pod's own index, through the downward API. JSON. */}}
{{- define "torchrun.rank" -}}
{{- $path := "metadata.annotations['batch.kubernetes.io/job-completion-index']" -}}
{{- if eq .Values.torchrun.controller "StatefulSet" -}}
{{- $path = "metadata.labels['apps.kubernetes.io/pod-index']" -}}
{{- end -}}
{{- dict "fieldRef" (dict "fieldPath" $path) | toJson -}}
{{- end -}}

{{/* The variables, as a JSON list: (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.env" -}}
{{- $vars := include "torchrun.env.size" . | fromJson -}}
{{- $vars = merge $vars (include "torchrun.env.rendezvous" . | fromJson) -}}
{{- $vars = merge $vars (include "torchrun.env.options" .ctx | fromJson) -}}
{{- $vars = merge $vars (include "torchrun.env.preflight" . | fromJson) -}}
{{- $vars = mergeOverwrite $vars (include "torchrun.torchft.env" . | fromJson) -}}
{{- if eq (include "torchrun.rendezvous" .) "static" -}}
{{- /* Agents restart their processes each for itself here, and the restarted ones would wait for
       the others for ever: a failed process fails its pod instead. */ -}}
{{- $_ := set $vars "PET_MAX_RESTARTS" "0" -}}
{{- end -}}
{{- $_ := set $vars "ALLRANKS_NODE_RANK" (include "torchrun.rank" .ctx | fromJson) -}}
{{- if include "torchrun.restartRules" .ctx | fromJsonArray -}}
{{- $_ := set $vars "ALLRANKS_RESTARTS_IN_PLACE" (int .ctx.Values.torchrun.restartsInPlace | toString) -}}
{{- $_ := set $vars "ALLRANKS_STARTS_FILE" (printf "%s/starts" (include "allranks.names.state" .ctx)) -}}
{{- end -}}
{{- $_ := set $vars "ALLRANKS_GRACE_SECONDS" (include "allranks.pod.grace" .) -}}
{{- if and (gt (int .layout.procsPerNode) 1) .ctx.Values.torchrun.rankPrefix -}}
{{- $_ := set $vars "ALLRANKS_RANK_PREFIX" "1" -}}
{{- end -}}
{{- $env := list -}}
{{- range $name, $value := $vars -}}
{{- if kindIs "map" $value -}}
{{- $env = append $env (dict "name" $name "valueFrom" $value) -}}
{{- else -}}
{{- $env = append $env (dict "name" $name "value" (include "allranks.entry.literal" $value)) -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* How many nodes and processes. */}}
{{- define "torchrun.env.size" -}}
{{- $nodes := int .layout.nodes | toString -}}
{{- if gt (int .ctx.Values.torchrun.elastic.maxNodes) 0 -}}
{{- $nodes = printf "%d:%d" (int .layout.minNodes) (int .layout.maxNodes) -}}
{{- end -}}
{{- $vars := dict
      "PET_NNODES" $nodes
      "PET_NPROC_PER_NODE" (int .layout.procsPerNode | toString) -}}
{{- with int .layout.spares -}}{{- $_ := set $vars "ALLRANKS_SPARES" (toString .) -}}{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* How the nodes meet. A map is a value from the downward API. */}}
{{- define "torchrun.env.rendezvous" -}}
{{- $torchrun := .ctx.Values.torchrun -}}
{{- $kind := include "torchrun.rendezvous" . -}}
{{- $vars := dict -}}
{{- if eq $kind "standalone" -}}
{{- $_ := set $vars "PET_STANDALONE" "1" -}}
{{- else -}}
{{- $host := include "torchrun.meeting" .ctx -}}
{{- $port := int $torchrun.port | toString -}}
{{- $_ := set $vars "PET_RDZV_BACKEND" $kind -}}
{{- /* An etcd outlives the job and remembers a rendezvous that has closed, so each revision has its
       own id there. A store on rank 0 lives and dies with the job: a fixed id keeps the pod template
       the same over revisions, and a template that changed is one that Kubernetes refuses. */ -}}
{{- $id := ternary (printf "%s-%d" .ctx.Release.Name (int .ctx.Release.Revision)) .ctx.Release.Name (hasPrefix "etcd" $kind) -}}
{{- $_ := set $vars "PET_RDZV_ID" ($torchrun.rdzvId | default $id) -}}
{{- $_ := set $vars "ALLRANKS_WAIT_SECONDS" (int .ctx.Values.network.waitSeconds | toString) -}}
{{- if eq $kind "static" -}}
{{- $_ := set $vars "PET_NODE_RANK" (include "torchrun.rank" .ctx | fromJson) -}}
{{- end -}}
{{- if $torchrun.rdzvEndpoint -}}
{{- $_ := set $vars "PET_RDZV_ENDPOINT" $torchrun.rdzvEndpoint -}}
{{- /* The nodes tell each other where they are. A host name would resolve only where the Service
       covers every pod; the address always does. */ -}}
{{- $_ := set $vars "PET_LOCAL_ADDR" (dict "fieldRef" (dict "fieldPath" "status.podIP")) -}}
{{- else -}}
{{- /* The launcher waits for this name. With c10d it is also where the ranks' own store listens, on
       a port of each round's own: the pod itself, because a Service passes on only its own port. */ -}}
{{- $_ := set $vars "ALLRANKS_RANK0_HOST" (ternary $host (include "torchrun.rankZero" .ctx) (eq $kind "static")) -}}
{{- $_ := set $vars "ALLRANKS_RANK0_PORT" $port -}}
{{- if eq $kind "static" -}}
{{- $_ := set $vars "PET_MASTER_ADDR" $host -}}
{{- $_ := set $vars "PET_MASTER_PORT" $port -}}
{{- else -}}
{{- $_ := set $vars "PET_RDZV_ENDPOINT" (printf "%s:%s" $host $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $pairs := list -}}
{{- if and (gt (int .layout.spares) 0) (le (int .layout.nodes) 64) (not (hasKey $torchrun.rdzvConf "keep_alive_interval")) -}}
{{- /* A node is lost after three intervals without a sign of it, and the spare stands ready. torch's
       own interval is 5 s; each sign rewrites the state of all nodes, which many of them feel. */ -}}
{{- $pairs = append $pairs "keep_alive_interval=2" -}}
{{- end -}}
{{- range $key, $value := $torchrun.rdzvConf -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- with $pairs -}}{{- $_ := set $vars "PET_RDZV_CONF" (join "," .) -}}{{- end -}}
{{- with $torchrun.localAddr -}}{{- $_ := set $vars "PET_LOCAL_ADDR" . -}}{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* What is looked at before the training, by the keys of files/preflight_checks.py. */}}
{{- define "torchrun.env.preflight" -}}
{{- $vars := dict -}}
{{- if include "allranks.entry.preflight" .ctx -}}
{{- $preflight := .ctx.Values.torchrun.preflight -}}
{{- $shape := .ctx.Values.nodeShape -}}
{{- /* A process sees one MIG device at most, whatever its pod has. */ -}}
{{- $gpus := ternary (min 1 (int .layout.gpusPerNode)) (int .layout.gpusPerNode) (contains "/mig-" .ctx.Values.gpuResource) -}}
{{- $limits := dict
      "all" $preflight.allReduceGBps
      "clock" $preflight.clockSeconds
      "disk" $preflight.diskMiB
      "gpuFree" $preflight.gpuFreePercent
      "gpus" $gpus
      "matmul" $shape.gpuTflops
      "memory" $shape.gpuMemoryGBps
      "pair" $preflight.pairGBps
      "shm" $preflight.shmMiB
      "slowPercent" $preflight.slowPercent -}}
{{- $_ := set $vars "ALLRANKS_NODE_NAME" (dict "fieldRef" (dict "fieldPath" "spec.nodeName")) -}}
{{- $_ := set $vars "ALLRANKS_PREFLIGHT" (dict "gpus" $gpus "level" $preflight.level "limits" $limits "seconds" $preflight.timeoutSeconds | toJson) -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* Exit codes that no retry can mend, because a preflight has named a node. JSON list, for
     allranks.controllers.job; takes the context of a job, or of a trial of a sweep. */}}
{{- define "torchrun.unfit" -}}
{{- $codes := list -}}
{{- if include "allranks.entry.preflight" . -}}
{{- $codes = list (dict "code" 219 "why" "A preflight has named a node: the next pod might be on the same one.") -}}
{{- end -}}
{{- toJson $codes -}}
{{- end -}}

{{/* Everything else; what is not set is left to torchrun. */}}
{{- define "torchrun.env.options" -}}
{{- $torchrun := .Values.torchrun -}}
{{- $vars := dict
      "PET_MAX_RESTARTS" (int $torchrun.maxRestarts | toString)
      "ALLRANKS_PROGRESS" (include "allranks.entry.progress" .)
      "ALLRANKS_TERMINATION_LOG" "/dev/termination-log" -}}
{{- $vars = merge $vars (include "allranks.entry.checkpointSignal" . | fromJson) -}}
{{- if $torchrun.module -}}
{{- $_ := set $vars "PET_MODULE" "1" -}}
{{- else if $torchrun.runPath -}}
{{- $_ := set $vars "PET_RUN_PATH" "1" -}}
{{- else if include "allranks.entry.ownInterpreter" . -}}
{{- $_ := set $vars "PET_NO_PYTHON" "1" -}}
{{- end -}}
{{- if $torchrun.virtualLocalRank -}}{{- $_ := set $vars "PET_VIRTUAL_LOCAL_RANK" "1" -}}{{- end -}}
{{- with $torchrun.monitorInterval -}}{{- $_ := set $vars "PET_MONITOR_INTERVAL" (toJson .) -}}{{- end -}}
{{- with int $torchrun.shutdownTimeout -}}{{- $_ := set $vars "PET_SHUTDOWN_TIMEOUT" (toString .) -}}{{- end -}}
{{- $policy := .Values.runPolicy -}}
{{- if not $policy.diagnose -}}{{- $_ := set $vars "ALLRANKS_DIAGNOSE" "0" -}}{{- end -}}
{{- $vars = merge $vars (include "allranks.entry.stall" . | fromJson) -}}
{{- range $name, $value := dict
      "PET_START_METHOD" $torchrun.startMethod
      "PET_ROLE" $torchrun.role
      "PET_LOG_DIR" $torchrun.logDir
      "PET_REDIRECTS" $torchrun.redirects
      "PET_TEE" $torchrun.tee
      "PET_LOG_LINE_PREFIX_TEMPLATE" $torchrun.logLinePrefixTemplate
      "PET_LOCAL_RANKS_FILTER" $torchrun.localRanksFilter
      "PET_DUPLICATE_STDOUT_FILTERS" $torchrun.duplicateStdoutFilters
      "PET_DUPLICATE_STDERR_FILTERS" $torchrun.duplicateStderrFilters
      "PET_EVENT_LOG_HANDLER" $torchrun.eventLogHandler
      "PET_SIGNALS_TO_HANDLE" $torchrun.signalsToHandle
      "ALLRANKS_FATAL_EXIT_CODES" (include "allranks.controllers.fatal" .)
      "ALLRANKS_LOGS_SPECS" $torchrun.logsSpecs
      "ALLRANKS_NUMA_BINDING" $torchrun.numaBinding -}}
{{- with $value -}}{{- $_ := set $vars $name . -}}{{- end -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}
