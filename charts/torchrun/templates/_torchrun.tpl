{{/*
What the templates of this chart share.
*/}}

{{/* "true" where the pods need names: more than one of them, or a StatefulSet. */}}
{{- define "torchrun.named" -}}
{{- if or (eq .ctx.Values.torchrun.controller "StatefulSet")
          .ctx.Values.network.serviceAllPods
          (ne (include "torchrun.rendezvous" .) "standalone") -}}
true
{{- end -}}
{{- end -}}

{{/* Where newer code appears in a pod. */}}
{{- define "torchrun.sync" -}}/etc/allranks-workspace-sync{{- end -}}

{{/* "true" where the pods can take newer code while they run. With a static rendezvous, and at a
     lighthouse, nothing keeps nodes with different code apart. (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.syncs" -}}
{{- if and (include "allranks.workspace.on" .ctx) (ne (include "torchrun.rendezvous" .) "static") (not (include "torchrun.torchft.on" .ctx)) -}}true{{- end -}}
{{- end -}}

{{/* The pods' names as a host list of Slurm's; "" for one alone. (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.hosts" -}}
{{- $name := include "allranks.names.release" .ctx -}}
{{- if gt (int .layout.nodes) 1 -}}
{{- printf "%s-[0-%d].%s" $name (sub (int .layout.nodes) 1) $name -}}
{{- end -}}
{{- end -}}

{{/* After which exit codes the containers of a pod start again where they are: the launcher's own
     (files/in_place.py), and that of a container which the kernel has killed. A JSON list, as
     Kubernetes has it. */}}
{{- define "torchrun.restartRules" -}}
{{- $codes := list 137 220 -}}
{{- range .Values.runPolicy.fatalExitCodes -}}{{- if eq (int .) 137 -}}{{- $codes = list 220 -}}{{- end -}}{{- end -}}
{{- if and (gt (int .Values.torchrun.restartsInPlace) 0) (eq .Values.torchrun.controller "Job") -}}
{{- list (dict "action" "RestartAllContainers" "exitCodes" (dict "operator" "In" "values" $codes)) | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* The pod template: (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.pod" -}}
{{- $stateful := eq .ctx.Values.torchrun.controller "StatefulSet" -}}
{{- $env := include "torchrun.env" . | fromJsonArray -}}
{{- if $stateful -}}
{{- $marker := printf "%s/finished" (include "allranks.names.state" .ctx) -}}
{{- $env = append $env (dict "name" "ALLRANKS_FINISHED_MARKER" "value" $marker) -}}
{{- end -}}
{{- $rules := include "torchrun.restartRules" .ctx | fromJsonArray -}}
{{- $volumes := list -}}
{{- $mounts := list -}}
{{- if include "torchrun.syncs" . -}}
{{- /* Made by `allranks sync`, after the job: a pod starts without it, too. */ -}}
{{- $volumes = append $volumes (dict "name" "workspace-sync" "configMap" (dict
      "name" (include "allranks.names.part" (dict "ctx" .ctx "part" "sync"))
      "optional" true)) -}}
{{- $mounts = append $mounts (dict "name" "workspace-sync" "mountPath" (include "torchrun.sync" .ctx) "readOnly" true) -}}
{{- $env = append $env (dict "name" "ALLRANKS_WORKSPACE_SYNC" "value" (include "torchrun.sync" .ctx)) -}}
{{- end -}}
{{- include "allranks.pod" (dict
      "ctx" .ctx
      "layout" .layout
      "role" "node"
      "volumes" $volumes
      "mounts" $mounts
      "env" $env
      "hosts" (include "torchrun.hosts" .)
      "args" (include "allranks.entry.args" .ctx | fromJsonArray)
      "restartPolicy" (ternary "Always" "Never" $stateful)
      "uidLabel" (ternary "" "batch.kubernetes.io/controller-uid" $stateful)
      "subdomain" (ternary (include "allranks.names.release" .ctx) "" (and (not $stateful) (ne (include "torchrun.named" .) "")))
      "portName" "rendezvous"
      "port" (ternary 0 .ctx.Values.torchrun.port (eq (include "torchrun.rendezvous" .) "standalone"))
      "restartRules" $rules
      "state" (or $stateful (not (empty $rules)))) -}}
{{- end -}}
