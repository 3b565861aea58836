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

{{/* The pod template: (dict "ctx" $ "layout" $layout). */}}
{{- define "torchrun.pod" -}}
{{- $stateful := eq .ctx.Values.torchrun.controller "StatefulSet" -}}
{{- $env := include "torchrun.env" . | fromJsonArray -}}
{{- if $stateful -}}
{{- $marker := printf "%s/finished" (include "allranks.names.state" .ctx) -}}
{{- $env = append $env (dict "name" "ALLRANKS_FINISHED_MARKER" "value" $marker) -}}
{{- end -}}
{{- include "allranks.pod" (dict
      "ctx" .ctx
      "layout" .layout
      "role" "node"
      "env" $env
      "args" (include "allranks.entry.args" .ctx | fromJsonArray)
      "restartPolicy" (ternary "Always" "Never" $stateful)
      "subdomain" (ternary (include "allranks.names.release" .ctx) "" (and (not $stateful) (ne (include "torchrun.named" .) "")))
      "portName" "rendezvous"
      "port" (ternary 0 .ctx.Values.torchrun.port (eq (include "torchrun.rendezvous" .) "standalone"))
      "state" $stateful) -}}
{{- end -}}
