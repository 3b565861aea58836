{{/*
The workspace: a snapshot of a folder of code, which the command line has sent, and which each pod
unpacks before its setup (files/workspace.sh).

Two volumes. `workspace-archive` is what was sent, read-only: archive.0, archive.1 and so on in one
folder. `workspace-code` is an emptyDir, mounted twice: its folder `code` is the user's, at
workspace.mountPath; the whole of it lies elsewhere, so that the archive is unpacked beside the code
and moved there within one mount, and the marker of the digest is no file of the user's.
*/}}

{{/* "true" where the pods have a workspace. Takes the root context. */}}
{{- define "allranks.workspace.on" -}}
{{- with get .Values.workspace.snapshot "digest" -}}true{{- end -}}
{{- end -}}

{{/* The folder with the archive. */}}
{{- define "allranks.workspace.archive" -}}/etc/allranks-workspace{{- end -}}

{{/* The folder with the copy, its marker and what is being unpacked. */}}
{{- define "allranks.workspace.state" -}}/var/run/allranks-workspace{{- end -}}

{{/* Its volumes and mounts. JSON {volumes, mounts}; takes the root context. */}}
{{- define "allranks.workspace.pod" -}}
{{- $volumes := list -}}
{{- $mounts := list -}}
{{- if include "allranks.workspace.on" . -}}
{{- $snapshot := .Values.workspace.snapshot -}}
{{- $archive := dict "name" "workspace-archive" -}}
{{- $mount := dict "name" "workspace-archive" "mountPath" (include "allranks.workspace.archive" .) "readOnly" true -}}
{{- if eq $snapshot.via "image" -}}
{{- $_ := set $archive "image" (dict "reference" $snapshot.image "pullPolicy" "IfNotPresent") -}}
{{- else if eq $snapshot.via "pvc" -}}
{{- $_ := set $archive "persistentVolumeClaim" (dict "claimName" $snapshot.claim) -}}
{{- with get $snapshot "path" -}}{{- $_ := set $mount "subPath" . -}}{{- end -}}
{{- else -}}
{{- $sources := list -}}
{{- range $index, $name := $snapshot.configMaps -}}
{{- $part := printf "archive.%d" $index -}}
{{- $sources = append $sources (dict "configMap" (dict
      "name" $name
      "items" (list (dict "key" $part "path" $part)))) -}}
{{- end -}}
{{- $_ := set $archive "projected" (dict "sources" $sources "defaultMode" 292) -}}{{/* 0444 */}}
{{- end -}}
{{- $volumes = list $archive (dict "name" "workspace-code" "emptyDir" dict) -}}
{{- $mounts = list
      $mount
      (dict "name" "workspace-code" "mountPath" (include "allranks.workspace.state" .))
      (dict "name" "workspace-code" "mountPath" .Values.workspace.mountPath "subPath" "code") -}}
{{- end -}}
{{- dict "volumes" $volumes "mounts" $mounts | toJson -}}
{{- end -}}

{{/* "true" where the command starts in the workspace: in a folder of it, or as nothing else was said.
     Takes the root context. */}}
{{- define "allranks.workspace.starts" -}}
{{- if include "allranks.workspace.on" . -}}
{{- $folder := clean .Values.workspace.mountPath -}}
{{- $start := clean (.Values.workingDir | default $folder) -}}
{{- if or (eq $start $folder) (hasPrefix (printf "%s/" $folder) $start) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the container starts; "" is the image's own folder. A folder of the workspace is there only
     when it is unpacked: entry.sh goes on to it. Takes the root context. */}}
{{- define "allranks.workspace.workingDir" -}}
{{- if include "allranks.workspace.starts" . -}}
{{- .Values.workspace.mountPath -}}
{{- else -}}
{{- .Values.workingDir -}}
{{- end -}}
{{- end -}}

{{/* What entry.sh is told of it. JSON list; takes the root context. */}}
{{- define "allranks.workspace.env" -}}
{{- $env := list -}}
{{- if include "allranks.workspace.on" . -}}
{{- $snapshot := .Values.workspace.snapshot -}}
{{- $vars := dict
      "ALLRANKS_WORKSPACE_ARCHIVE" (include "allranks.workspace.archive" .)
      "ALLRANKS_WORKSPACE_ARCHIVE_DIGEST" $snapshot.archiveDigest
      "ALLRANKS_WORKSPACE_COMPRESSION" $snapshot.compression
      "ALLRANKS_WORKSPACE_DIGEST" $snapshot.digest
      "ALLRANKS_WORKSPACE_FOLDER" .Values.workspace.mountPath
      "ALLRANKS_WORKSPACE_LOG" "/dev/termination-log"
      "ALLRANKS_WORKSPACE_STATE" (include "allranks.workspace.state" .) -}}
{{- if and .Values.workingDir (include "allranks.workspace.starts" .) -}}
{{- $_ := set $vars "ALLRANKS_WORKSPACE_START" .Values.workingDir -}}
{{- end -}}
{{- range $name, $value := $vars -}}
{{- $env = append $env (dict "name" $name "value" (include "allranks.entry.literal" $value)) -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}
