{{/*
What `helm install` prints, as far as all workloads share it. Nothing here shows a value of env.
*/}}

{{/* A size in words: 2 nodes x 8 processes = 16 ranks, 16 GPUs (nvidia.com/gpu); with a smaller last
     node: 2 nodes x 8 processes, the last 4 = 12 ranks. (dict "ctx" $ "layout" $layout). */}}
{{- define "allranks.notes.size" -}}
{{- $nodes := int .layout.nodes -}}
{{- $procs := int .layout.procsPerNode -}}
{{- $gpus := include "allranks.layout.gpus" (dict "layout" .layout "nodes" $nodes) | int64 -}}
{{- $last := "" -}}
{{- with get .layout "lastProcsPerNode" -}}{{- $last = printf ", the last %d" (int .) -}}{{- end -}}
{{- $spares := "" -}}
{{- with int .layout.spares -}}{{- $spares = printf ", and %s" (include "allranks.words.count" (list . "spare")) -}}{{- end -}}
{{- printf "%s x %s%s = %s" (include "allranks.words.count" (list $nodes "node")) (include "allranks.words.count" (list $procs "process")) $last (include "allranks.words.count" (list .layout.worldSize "rank")) -}}
{{- if gt $gpus 0 -}}
{{- printf ", %s (%s)%s" (include "allranks.words.count" (list $gpus "GPU")) .ctx.Values.gpuResource $spares -}}
{{- else -}}
{{- printf ", on CPUs%s" $spares -}}
{{- end -}}
{{- end -}}

{{/* The selector of the release's pods, as kubectl takes it: (dict "ctx" $ "role" "node"). */}}
{{- define "allranks.notes.selector" -}}
{{- $pairs := list -}}
{{- range $key, $value := include "allranks.labels.selector" . | fromJson -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{/* One line per volume. Takes the root context. */}}
{{- define "allranks.notes.storage" -}}
{{- range $name, $volume := include "allranks.storage.enabled" . | fromJson }}
{{- $azure := include "allranks.azure" $volume | fromJson }}
{{- if $volume.existingClaim }}
  volume      {{ $name }} at {{ $volume.mountPath }}: claim {{ $volume.existingClaim }}
{{- else if $azure.name }}
  volume      {{ $name }} at {{ $volume.mountPath }}: {{ $azure.name }} on Azure by claim {{ include "allranks.names.claim" (dict "ctx" $ "volume" $name) }}; its data stays on uninstall
{{- else }}
  volume      {{ $name }} at {{ $volume.mountPath }}: new claim {{ include "allranks.names.claim" (dict "ctx" $ "volume" $name) }}{{ if $volume.keep }}, kept on uninstall{{ end }}
{{- end }}
{{- if eq $name "workspace" }}
{{- with include "allranks.notes.azureLimits" $volume }}
              it {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What a volume of Azure cannot do that code needs: "" or a sentence. Takes the volume. */}}
{{- define "allranks.notes.azureLimits" -}}
{{- $azure := include "allranks.azure" . | fromJson -}}
{{- if and $azure (ne (get $azure.settings "protocol") "nfs") -}}
has no hard links and no permissions of single files: conda environments and git break there, use protocol: nfs
{{- end -}}
{{- end -}}

{{/* A line per new claim that pods on other nodes cannot mount: (dict "ctx" $ "layout" $layout). */}}
{{- define "allranks.notes.oneNodeClaims" -}}
{{- range $claim, $volume := include "allranks.storage.enabled" .ctx | fromJson }}
{{- if and (gt (int $.layout.nodes) 1) (has "ReadWriteOnce" $volume.accessModes) (not $volume.existingClaim) }}
  claim {{ $claim }}       is ReadWriteOnce: pods on other nodes cannot mount it
{{- end }}
{{- end }}
{{- end -}}

{{/* The object that says how the run does, where there is one. Takes the root context. */}}
{{- define "allranks.notes.status" -}}
{{- if eq (include "allranks.status.wanted" .) "true" }}
  TrainingRun {{ include "allranks.names.release" . }} (kubectl -n {{ .Release.Namespace }} get runs)
{{- end }}
{{- end -}}
