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

{{/* The pod template: (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.pod" -}}
{{- $stateful := eq .ctx.Values.torchrun.controller "StatefulSet" -}}
{{- $env := include "torchrun.env" . | fromJsonArray -}}
{{- if $stateful -}}
{{- $marker := printf "%s/finished" (include "allranks.names.state" .ctx) -}}
{{- $env = append $env (dict "name" "ALLRANKS_FINISHED_MARKER" "value" $marker) -}}
{{- end -}}
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
      "state" $stateful) -}}
{{- end -}}
