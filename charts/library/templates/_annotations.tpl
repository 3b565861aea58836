{{/*
Annotations by which a chart asks the post-renderer for what a template cannot know: the queue and
gang in the scheduler's own dialect, the placement, the fabric. Each is one JSON object on the
controller's own metadata, absent when nothing is asked; they stay as the record of what was asked.
*/}}

{{/* Annotations of a controller: (dict "ctx" $ "layout" $layout "gang" $gang "together" $labels
     "idle" true "aside" true "marks" $map). JSON.
     `gang` is {minMember} where it is not the fewest nodes, with {name, own} where several controllers
     share it, or false where each pod is of use alone; `together` are the labels of all pods that
     belong into one place. An idle controller's pods have no rank: they belong to no gang, and run
     anywhere. Those aside have no GPUs: they start with the others, and neither their nodes nor
     their devices are chosen. `marks` are further annotations. */}}
{{- define "allranks.annotations.controller" -}}
{{- $annotations := dict -}}
{{- range $key, $value := .ctx.Values.annotations -}}
{{- $_ := set $annotations $key $value -}}
{{- end -}}
{{- $_ := set $annotations "allranks.dev/values-digest" (toJson .ctx.Values | sha256sum | printf "sha256:%s") -}}
{{- with get .ctx.Values.workspace.snapshot "digest" -}}
{{- $_ := set $annotations "allranks.dev/workspace-digest" . -}}
{{- end -}}
{{- range $key := list "commit" "branch" "dirty" -}}
{{- if hasKey $.ctx.Values.workspace.snapshot $key -}}
{{- $_ := set $annotations (printf "allranks.dev/workspace-%s" $key) (get $.ctx.Values.workspace.snapshot $key | toString) -}}
{{- end -}}
{{- end -}}
{{- with .layout.hash -}}
{{- $_ := set $annotations "allranks.dev/layout-hash" . -}}
{{- end -}}
{{- with (.ctx.Whole | default .ctx).Values.queueRef.revision -}}
{{- $_ := set $annotations "allranks.dev/queue-revision" . -}}
{{- end -}}
{{- if eq (toString .ctx.Values.status.enabled) "false" -}}
{{- /* The operator then makes no TrainingRun of its own. */ -}}
{{- $_ := set $annotations "allranks.dev/status" "off" -}}
{{- end -}}
{{- range $key, $request := dict
      "scheduling" (include "allranks.annotations.scheduling" . | fromJson)
      "placement" (ternary "{}" (include "allranks.annotations.placement" .) (or .idle .aside false) | fromJson)
      "fabric" (ternary "{}" (include "allranks.annotations.fabric" .) (or .idle .aside false) | fromJson) -}}
{{- with $request -}}
{{- $_ := set $annotations (printf "allranks.dev/%s" $key) (toJson .) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := .marks -}}
{{- $_ := set $annotations $key $value -}}
{{- end -}}
{{- toJson $annotations -}}
{{- end -}}

{{/* The gang, the queue, the priority and the topology. */}}
{{- define "allranks.annotations.scheduling" -}}
{{- $request := dict -}}
{{- with .ctx.Values.scheduling -}}
{{- $queued := ne .dialect "none" -}}
{{- $placed := and (ne .topology.mode "none") (not $.idle) -}}
{{- if or $queued $placed -}}
{{- $_ := set $request "dialect" .dialect -}}
{{- end -}}
{{- if and $queued (or $.idle (kindIs "bool" $.gang)) -}}
{{- $_ := set $request "gang" false -}}
{{- else if $queued -}}
{{- $members := deepCopy ($.gang | default (dict "minMember" (add $.layout.minNodes $.layout.spares | int))) -}}
{{- with int64 .gangTimeoutSeconds -}}
{{- $_ := set $members "timeoutSeconds" . -}}
{{- end -}}
{{- $_ := set $request "gang" $members -}}
{{- end -}}
{{- if $queued -}}
{{- with .priorityClassName -}}
{{- $_ := set $request "priorityClass" . -}}
{{- end -}}
{{- with $.ctx.Values.queue -}}
{{- $_ := set $request "queue" . -}}
{{- end -}}
{{- end -}}
{{- if $placed -}}
{{- $topology := dict
      "key" (get .topology.labels .topology.level)
      "level" .topology.level
      "mode" .topology.mode -}}
{{- with $.together -}}{{- $_ := set $topology "pods" . -}}{{- end -}}
{{- $_ := set $request "topology" $topology -}}
{{- end -}}
{{- end -}}
{{- toJson $request -}}
{{- end -}}

{{/* The domain the generator chose. */}}
{{- define "allranks.annotations.placement" -}}
{{- $request := dict -}}
{{- with .layout.placement -}}
{{- $request = pick . "key" "mode" "values" -}}
{{- end -}}
{{- toJson $request -}}
{{- end -}}

{{/* RDMA and its resources. */}}
{{- define "allranks.annotations.fabric" -}}
{{- $request := dict -}}
{{- with .ctx.Values.network.rdma -}}
{{- if .enabled -}}
{{- $_ := set $request "rdma" true -}}
{{- with .resources -}}
{{- $_ := set $request "resources" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $request -}}
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
