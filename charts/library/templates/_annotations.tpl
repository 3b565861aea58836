{{/*
Annotations by which a chart asks the post-renderer for what a template cannot know: the queue and
gang in the scheduler's own dialect, the placement, the fabric. Each is one JSON object on the
controller's own metadata, absent when nothing is asked; they stay as the record of what was asked.
*/}}

{{/* Annotations of the controller: (dict "ctx" $ "layout" $layout). JSON. */}}
{{- define "allranks.annotations.controller" -}}
{{- $annotations := dict -}}
{{- range $key, $value := .ctx.Values.annotations -}}
{{- $_ := set $annotations $key $value -}}
{{- end -}}
{{- $_ := set $annotations "allranks.dev/values-digest" (toJson .ctx.Values | sha256sum | printf "sha256:%s") -}}
{{- with .layout.hash -}}
{{- $_ := set $annotations "allranks.dev/layout-hash" . -}}
{{- end -}}
{{- range $key, $asked := dict
      "scheduling" (include "allranks.annotations.scheduling" . | fromJson)
      "placement" (include "allranks.annotations.placement" . | fromJson)
      "fabric" (include "allranks.annotations.fabric" . | fromJson) -}}
{{- with $asked -}}
{{- $_ := set $annotations (printf "allranks.dev/%s" $key) (toJson .) -}}
{{- end -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end -}}

{{/* The gang, the queue, the priority and the topology. */}}
{{- define "allranks.annotations.scheduling" -}}
{{- $asked := dict -}}
{{- with .ctx.Values.scheduling -}}
{{- $gang := ne .dialect "none" -}}
{{- if or $gang (ne .topology.mode "none") -}}
{{- $_ := set $asked "dialect" .dialect -}}
{{- end -}}
{{- if $gang -}}
{{- $members := dict "minMember" (int $.layout.minNodes) -}}
{{- with int64 .gangTimeoutSeconds -}}
{{- $_ := set $members "timeoutSeconds" . -}}
{{- end -}}
{{- $_ := set $asked "gang" $members -}}
{{- with .priorityClassName -}}
{{- $_ := set $asked "priorityClass" . -}}
{{- end -}}
{{- with $.ctx.Values.queue -}}
{{- $_ := set $asked "queue" . -}}
{{- end -}}
{{- end -}}
{{- if ne .topology.mode "none" -}}
{{- $_ := set $asked "topology" (dict
      "key" (get .topology.labels .topology.level)
      "level" .topology.level
      "mode" .topology.mode) -}}
{{- end -}}
{{- end -}}
{{- toJson $asked -}}
{{- end -}}

{{/* The domain the generator chose. */}}
{{- define "allranks.annotations.placement" -}}
{{- $asked := dict -}}
{{- with .layout.placement -}}
{{- $asked = pick . "key" "mode" "values" -}}
{{- end -}}
{{- toJson $asked -}}
{{- end -}}

{{/* RDMA and its resources. */}}
{{- define "allranks.annotations.fabric" -}}
{{- $asked := dict -}}
{{- with .ctx.Values.network.rdma -}}
{{- if .enabled -}}
{{- $_ := set $asked "rdma" true -}}
{{- with .resources -}}
{{- $_ := set $asked "resources" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $asked -}}
{{- end -}}

{{/* What only the post-renderer does, in words joined by ", "; "" where plain Helm is enough. */}}
{{- define "allranks.annotations.postRendererFor" -}}
{{- $why := list -}}
{{- if ne .Values.scheduling.dialect "none" -}}
{{- $why = append $why (printf "scheduling.dialect %s" .Values.scheduling.dialect) -}}
{{- end -}}
{{- if ne .Values.scheduling.topology.mode "none" -}}
{{- $why = append $why (printf "scheduling.topology.mode %s" .Values.scheduling.topology.mode) -}}
{{- end -}}
{{- if get .Values.layout "placement" -}}
{{- $why = append $why "layout.placement" -}}
{{- end -}}
{{- if .Values.network.rdma.enabled -}}
{{- $why = append $why "network.rdma" -}}
{{- end -}}
{{- join ", " $why -}}
{{- end -}}
