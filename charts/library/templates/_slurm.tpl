{{/*
compat: slurm. What Slurm tells all tasks of a job alike; what differs between them, files/slurm.sh
tells them in the pod. The meanings are those of the manuals of sbatch and srun.
*/}}

{{/* "true" where the values ask for it. Takes the root context. */}}
{{- define "allranks.slurm.on" -}}{{- if eq .Values.compat "slurm" -}}true{{- end -}}{{- end -}}

{{/* A job's number. Slurm's counts up, and programs compute with it: here it is made of the release's
     name and namespace, and so the same for each of its pods, starts and revisions. */}}
{{- define "allranks.slurm.id" -}}
{{- $digits := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 7 -}}
{{- int64 (printf "0x1%s" $digits) -}}
{{- end -}}

{{/* What a pod asks of CPUs, as a whole number; "" where it asks none: allranks.pod's dict. */}}
{{- define "allranks.slurm.cpus" -}}
{{- $shares := include "allranks.pod.shares" . | fromJson -}}
{{- $amount := get $shares.requests "cpu" | default (get $shares.limits "cpu") | default "" | toString -}}
{{- if regexMatch "^[1-9][0-9]{0,8}$" $amount -}}
{{- $amount -}}
{{- else if regexMatch "^[0-9]{4,9}m$" $amount -}}
{{- div (trimSuffix "m" $amount | int64) 1000 -}}
{{- end -}}
{{- end -}}

{{/* The variables, {name: text}: allranks.pod's dict, with "hosts" the host list of several nodes.
     JSON; empty where they are not asked for. */}}
{{- define "allranks.slurm.env" -}}
{{- $vars := dict -}}
{{- if include "allranks.slurm.on" .ctx -}}
{{- $nodes := int .layout.nodes -}}
{{- $procs := int .layout.procsPerNode -}}
{{- $id := include "allranks.slurm.id" .ctx -}}
{{- $tasksPerNode := ternary (toString $procs) (printf "%d(x%d)" $procs $nodes) (eq $nodes 1) -}}
{{- $vars = dict
      "ALLRANKS_COMPAT" "slurm"
      "SLURM_JOB_ID" $id
      "SLURM_JOBID" $id
      "SLURM_JOB_NAME" (include "allranks.names.release" .ctx)
      "SLURM_NNODES" (toString $nodes)
      "SLURM_JOB_NUM_NODES" (toString $nodes)
      "SLURM_NTASKS" (toString (int .layout.worldSize))
      "SLURM_NPROCS" (toString (int .layout.worldSize))
      "SLURM_NTASKS_PER_NODE" (toString $procs)
      "SLURM_TASKS_PER_NODE" $tasksPerNode -}}
{{- with .hosts -}}{{- $_ := set $vars "SLURM_JOB_NODELIST" . -}}{{- end -}}
{{- with int .layout.gpusPerNode -}}
{{- $_ := set $vars "SLURM_GPUS_ON_NODE" (toString .) -}}
{{- $_ := set $vars "SLURM_GPUS_PER_NODE" (toString .) -}}
{{- $_ := set $vars "SLURM_JOB_GPUS" (until . | join ",") -}}
{{- /* Slurm names them to CUDA, too, and a device plugin does not: programs count and split the list. */ -}}
{{- if hasPrefix "nvidia.com/" $.ctx.Values.gpuResource -}}
{{- $_ := set $vars "CUDA_VISIBLE_DEVICES" (until . | join ",") -}}
{{- end -}}
{{- end -}}
{{- with include "allranks.slurm.cpus" . -}}
{{- $_ := set $vars "SLURM_CPUS_ON_NODE" . -}}
{{- $_ := set $vars "SLURM_CPUS_PER_TASK" (max 1 (div (int64 .) $procs) | toString) -}}
{{- $_ := set $vars "SLURM_JOB_CPUS_PER_NODE" (ternary . (printf "%s(x%d)" . $nodes) (eq $nodes 1)) -}}
{{- end -}}
{{- with .ctx.Values.queue -}}{{- $_ := set $vars "SLURM_JOB_PARTITION" . -}}{{- end -}}
{{- range .ctx.Values.slurm.unset -}}{{- $_ := unset $vars . -}}{{- end -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}
