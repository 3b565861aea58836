{{/*
The environment of the pods: what our entry needs, and what makes each MPI use our agent and our host
file. The commands of `mpirun` run on the workers with the environment that their container has.
*/}}

{{/* What both roles have. JSON {name: text or {fieldRef}}: (dict "ctx" $ "role" "worker"). */}}
{{- define "mpi.env" -}}
{{- $mpi := .ctx.Values.mpi -}}
{{- $vars := dict
      "ALLRANKS_ROLE" .role
      "K_MPI_JOB_ROLE" .role
      "ALLRANKS_STATE" (include "allranks.names.state" .ctx)
      "ALLRANKS_PROGRESS" "log"
      "ALLRANKS_RELEASE" (include "allranks.names.release" .ctx)
      "ALLRANKS_NAMESPACE" (dict "fieldRef" (dict "fieldPath" "metadata.namespace"))
      "ALLRANKS_TERMINATION_LOG" "/dev/termination-log"
      "ALLRANKS_WAIT_SECONDS" (int .ctx.Values.network.waitSeconds | toString)
      "ALLRANKS_MPI_TRANSPORT" $mpi.transport
      "ALLRANKS_MPI_IMPLEMENTATION" $mpi.implementation
      "ALLRANKS_MPI_PORT" (int $mpi.ssh.port | toString)
      "ALLRANKS_MPI_HOSTFILE" "/etc/mpi/hostfile"
      "ALLRANKS_MPI_LAUNCHER" (include "mpi.address" (dict "ctx" .ctx "pod" (include "mpi.launcher" .ctx)))
      "ALLRANKS_MPI_LOST_SECONDS" (int $mpi.launcherLostSeconds | toString)
      "ALLRANKS_MPI_CLEAN" $mpi.cleanPodPolicy
      "ALLRANKS_GRACE_SECONDS" (include "allranks.pod.grace" (dict "ctx" .ctx "own" (get $mpi .role)))
      "ALLRANKS_MPI_CONTROLLER" (include "mpi.controller" .ctx)
      "ALLRANKS_MPI_WAIT_FOR_PODS" (ternary "bounded" "scheduler" (eq .ctx.Values.scheduling.dialect "none")) -}}
{{- $vars = merge $vars (include "allranks.entry.checkpointSignal" .ctx | fromJson) -}}
{{- $vars = merge $vars (include "allranks.entry.stall" .ctx | fromJson) -}}
{{- toJson $vars -}}
{{- end -}}

{{/* The workers': (dict "ctx" $). JSON list. */}}
{{- define "mpi.env.worker" -}}
{{- include "mpi.env.list" (include "mpi.env" (dict "ctx" .ctx "role" "worker") | fromJson) -}}
{{- end -}}

{{/* The launcher's: (dict "ctx" $ "layout" $layout). JSON list. */}}
{{- define "mpi.env.launcher" -}}
{{- $vars := include "mpi.env" (dict "ctx" .ctx "role" "launcher") | fromJson -}}
{{- $_ := set $vars "ALLRANKS_MPI_NP" (include "mpi.ranks" .) -}}
{{- $_ := set $vars "ALLRANKS_MPI_MIN_HOSTS" (int .layout.minNodes | toString) -}}
{{- $_ := set $vars "ALLRANKS_MPI_BACKOFF_LIMIT" (int .ctx.Values.runPolicy.backoffLimit | toString) -}}
{{- $_ := set $vars "ALLRANKS_MPI_FAILURES" (dict "fieldRef" (dict "fieldPath" "metadata.annotations['batch.kubernetes.io/job-index-failure-count']")) -}}
{{- if include "mpi.wraps" .ctx -}}
{{- $_ := set $vars "ALLRANKS_MPI_WRAP" "1" -}}
{{- end -}}
{{- with include "allranks.controllers.fatal" .ctx -}}
{{- $_ := set $vars "ALLRANKS_FATAL_EXIT_CODES" . -}}
{{- end -}}
{{- include "mpi.env.list" $vars -}}
{{- end -}}

{{/* A map as the list that a container has. */}}
{{- define "mpi.env.list" -}}
{{- $env := list -}}
{{- range $name, $value := . -}}
{{- $env = append $env (dict "name" $name (ternary "valueFrom" "value" (kindIs "map" $value)) $value) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* How many ranks mpirun starts. Elastic jobs start with what the fewest hosts have. */}}
{{- define "mpi.ranks" -}}
{{- $slots := ternary (mul .layout.minNodes .layout.procsPerNode) (int64 .layout.worldSize) (gt (int .ctx.Values.mpi.elastic.maxNodes) 0) -}}
{{- int (int64 .ctx.Values.mpi.np | default $slots) -}}
{{- end -}}

{{/* "true" where the launcher puts mpirun before the command: it is none itself, nor anything that
     starts ranks. Takes the root context. */}}
{{- define "mpi.wraps" -}}
{{- $starters := list "mpirun" "mpiexec" "mpiexec.hydra" "orterun" "prterun" "prun" "horovodrun" "srun" -}}
{{- if not .Values.mpi.ownMpirun -}}
{{- if or .Values.script (not (has (base (first .Values.command)) $starters)) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The launcher's args: how many flags of mpirun follow, the flags, and what each rank runs. A
     script that names no interpreter is Python. JSON list; takes the root context. */}}
{{- define "mpi.args" -}}
{{- $args := concat
      (list (len .Values.mpi.mpirunArgs | toString))
      (include "allranks.entry.literals" .Values.mpi.mpirunArgs | fromJsonArray) -}}
{{- if not (include "allranks.entry.ownInterpreter" .) -}}
{{- $args = append $args "python3" -}}
{{- end -}}
{{- toJson (concat $args (include "allranks.entry.args" . | fromJsonArray)) -}}
{{- end -}}

{{/* "true" where Open MPI 4 cannot shorten the list of its hosts: (dict "ctx" $ "layout" $layout). It
     cuts each name at its first digits, keeps what is before them in 50 bytes without looking at its
     length, and the digits in 32 bits (orte/mca/regx). `naive`, in 4.0.2 and later, shortens nothing. */}}
{{- define "mpi.regx" -}}
{{- $parts := list "launcher" -}}
{{- range $group := include "mpi.groups" . | fromJsonArray -}}
{{- $parts = append $parts $group.part -}}
{{- end -}}
{{- $naive := false -}}
{{- range $part := $parts -}}
{{- $host := printf "%s-0" (include "allranks.names.part" (dict "ctx" $.ctx "part" $part)) -}}
{{- $naive = or $naive (gt (len (regexFind "^[^0-9]*" $host)) 49) (gt (len (regexFind "[0-9]+" $host)) 9) -}}
{{- end -}}
{{- if $naive -}}true{{- end -}}
{{- end -}}

{{/*
What each MPI reads, and the user may set instead; files/entry.sh says what real runs showed of it.
Open MPI 4 reads OMPI_MCA_*, and 5 reads PRTE_MCA_* and silently ignores the other. All daemons are
started by the launcher, which alone has the credentials and sees a lost connection: so many at once
as there may be hosts. No rank is bound to a core, because all pods of a node would bind to the same.
JSON {name: text}: (dict "ctx" $ "layout" $layout "idle" true).
*/}}
{{- define "mpi.defaults" -}}
{{- $agent := printf "%s/rsh.sh" (include "allranks.names.mount" .ctx) -}}
{{- $hosts := "/etc/mpi/hostfile" -}}
{{- $slots := int .layout.procsPerNode | toString -}}
{{- $atOnce := add1 .layout.maxNodes | toString -}}
{{- $vars := dict -}}
{{- if eq .ctx.Values.mpi.implementation "OpenMPI" -}}
{{- $vars = dict
      "OMPI_MCA_plm_rsh_agent" $agent
      "PRTE_MCA_plm_ssh_agent" $agent
      "OMPI_MCA_orte_default_hostfile" $hosts
      "PRTE_MCA_prte_default_hostfile" $hosts
      "OMPI_MCA_orte_keep_fqdn_hostnames" "true"
      "OMPI_MCA_orte_set_default_slots" $slots
      "PRTE_MCA_prte_set_default_slots" $slots
      "OMPI_MCA_plm_rsh_no_tree_spawn" "1"
      "OMPI_MCA_orte_leave_session_attached" "1"
      "PRTE_MCA_plm_ssh_no_tree_spawn" "1"
      "OMPI_MCA_plm_rsh_num_concurrent" $atOnce
      "PRTE_MCA_plm_ssh_num_concurrent" $atOnce
      "OMPI_MCA_hwloc_base_binding_policy" "none"
      "PRTE_MCA_hwloc_default_binding_policy" "none"
      "OMPI_ALLOW_RUN_AS_ROOT" "1"
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" "1" -}}
{{- if include "mpi.regx" . -}}
{{- $_ := set $vars "OMPI_MCA_regx" "naive" -}}
{{- end -}}
{{- if include "allranks.slurm.on" .ctx -}}
{{- /* Where SLURM_JOBID is set, Open MPI has srun start its daemons, which no pod has. */ -}}
{{- $_ := set $vars "OMPI_MCA_plm" "^slurm" -}}
{{- $_ := set $vars "OMPI_MCA_ras" "^slurm" -}}
{{- $_ := set $vars "PRTE_MCA_plm" "^slurm" -}}
{{- $_ := set $vars "PRTE_MCA_ras" "^slurm" -}}
{{- end -}}
{{- else if eq .ctx.Values.mpi.implementation "MPICH" -}}
{{- $vars = dict
      "HYDRA_LAUNCHER" "ssh"
      "HYDRA_LAUNCHER_EXEC" $agent
      "HYDRA_HOST_FILE" $hosts -}}
{{- else -}}
{{- $vars = dict
      "I_MPI_HYDRA_BOOTSTRAP" "ssh"
      "I_MPI_HYDRA_BOOTSTRAP_EXEC" $agent
      "I_MPI_HYDRA_HOST_FILE" $hosts
      "I_MPI_HYDRA_BRANCH_COUNT" $atOnce
      "I_MPI_PIN" "0"
      "I_MPI_PERHOST" $slots -}}
{{- end -}}
{{- if .idle -}}
{{- /* A node's runtime would show all its GPUs to a container that asked for none. */ -}}
{{- $_ := set $vars "NVIDIA_VISIBLE_DEVICES" "" -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}
