{{/*
Storage: the three volumes of a job (workspace, datasets, checkpoints) and /dev/shm.
*/}}

{{/* The volumes that are on, by name. JSON {name: settings}. Takes the root context. */}}
{{- define "allranks.storage.enabled" -}}
{{- $enabled := dict -}}
{{- range $name, $volume := .Values.storage -}}
{{- if or $volume.existingClaim $volume.size $volume.sizePerGpu (include "allranks.azure.exists" $volume) -}}
{{- $_ := set $enabled $name $volume -}}
{{- end -}}
{{- end -}}
{{- toJson $enabled -}}
{{- end -}}

{{/* A claim that the release creates, with the volume or the class that it is of on Azure:
     (dict "ctx" $ "role" "node" "name" "checkpoints" "volume" $v "layout" $l). */}}
{{- define "allranks.storage.claim" -}}
{{- $size := include "allranks.quantity.text" .volume.size -}}
{{- if .volume.sizePerGpu -}}
{{- $gpus := include "allranks.layout.gpus" (dict "layout" .layout "nodes" .layout.maxNodes) -}}
{{- $size = include "allranks.quantity.multiply" (dict "quantity" .volume.sizePerGpu "count" $gpus "path" (printf "storage.%s.sizePerGpu" .name)) -}}
{{- end -}}
{{- $annotations := deepCopy .ctx.Values.annotations -}}
{{- /* What exists outlives the release without this, and a volume that lost its claim takes no other. */ -}}
{{- if and .volume.keep (not (include "allranks.azure.exists" .volume)) -}}
{{- $_ := set $annotations "helm.sh/resource-policy" "keep" -}}
{{- end -}}
{{- $spec := dict
      "accessModes" .volume.accessModes
      "resources" (dict "requests" (dict "storage" $size)) -}}
{{- with .volume.storageClassName -}}
{{- $_ := set $spec "storageClassName" . -}}
{{- end -}}
{{- $name := include "allranks.names.claim" (dict "ctx" .ctx "volume" .name) -}}
{{- $clusterName := include "allranks.names.clusterVolume" (dict "ctx" .ctx "volume" .name) -}}
{{- $azure := include "allranks.azure" .volume | fromJson -}}
{{- $ofCluster := dict "ctx" .ctx "role" .role "name" $clusterName "annotations" $annotations "cluster" true -}}
{{- if include "allranks.azure.exists" .volume -}}
{{- $_ := set $spec "storageClassName" "" -}}
{{- $_ := set $spec "volumeName" $clusterName -}}
{{- $_ := set $spec.resources.requests "storage" (include "allranks.azure.size" .) -}}
apiVersion: v1
kind: PersistentVolume
metadata:
  {{- include "allranks.objects.metadata" $ofCluster | nindent 2 }}
spec:
  {{- include "allranks.azure.volumeSpec" (dict "namespace" .ctx.Release.Namespace "claim" $name "name" $clusterName "accessModes" .volume.accessModes "azure" $azure) | nindent 2 }}
---
{{ else if $azure -}}
{{- $_ := set $spec "storageClassName" $clusterName -}}
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  {{- include "allranks.objects.metadata" $ofCluster | nindent 2 }}
{{ include "allranks.azure.classBody" (dict "namespace" .ctx.Release.Namespace "azure" $azure) }}
---
{{ end -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" $name "annotations" $annotations) | nindent 2 }}
spec:
  {{- include "allranks.yaml" (dict "value" $spec) | nindent 2 }}
{{- end -}}

{{/* All of them, as documents: (dict "ctx" $ "role" "node" "layout" $layout). */}}
{{- define "allranks.storage.claims" -}}
{{- range $name, $volume := include "allranks.storage.enabled" .ctx | fromJson }}
{{- if not $volume.existingClaim }}
---
{{ include "allranks.storage.claim" (merge (dict "name" $name "volume" $volume) $) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Volumes and mounts of the pod: (dict "ctx" $ "layout" $layout). JSON {volumes, mounts}. */}}
{{- define "allranks.storage.pod" -}}
{{- $volumes := list -}}
{{- $mounts := list -}}
{{- range $name, $volume := include "allranks.storage.enabled" .ctx | fromJson -}}
{{- $claim := $volume.existingClaim | default (include "allranks.names.claim" (dict "ctx" $.ctx "volume" $name)) -}}
{{- $volumes = append $volumes (dict "name" $name "persistentVolumeClaim" (dict "claimName" $claim)) -}}
{{- $mount := dict "name" $name "mountPath" $volume.mountPath -}}
{{- with $volume.subPath -}}{{- $_ := set $mount "subPath" . -}}{{- end -}}
{{- if $volume.readOnly -}}{{- $_ := set $mount "readOnly" true -}}{{- end -}}
{{- $mounts = append $mounts $mount -}}
{{- end -}}
{{- with include "allranks.storage.shm" . -}}
{{- $volumes = append $volumes (dict "name" "shm" "emptyDir" (dict "medium" "Memory" "sizeLimit" .)) -}}
{{- $mounts = append $mounts (dict "name" "shm" "mountPath" "/dev/shm") -}}
{{- end -}}
{{- dict "volumes" $volumes "mounts" $mounts | toJson -}}
{{- end -}}

{{/* The size of /dev/shm of a pod; "" where it is the runtime's own. */}}
{{- define "allranks.storage.shm" -}}
{{- with .ctx.Values.shm -}}
{{- if $.idle -}}
{{- else if .sizePerGpu -}}
{{- include "allranks.quantity.multiply" (dict "quantity" .sizePerGpu "count" $.layout.gpusPerNode "path" "shm.sizePerGpu") -}}
{{- else if .size -}}
{{- include "allranks.quantity.text" .size -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where every claim is this release's own, with all that is in it: then the pods may take
     over its group. */}}
{{- define "allranks.storage.ownClaimsOnly" -}}
{{- $enabled := include "allranks.storage.enabled" . | fromJson -}}
{{- $own := gt (len $enabled) 0 -}}
{{- range $enabled -}}
{{- if or .existingClaim (include "allranks.azure.exists" .) -}}{{- $own = false -}}{{- end -}}
{{- end -}}
{{- if $own -}}true{{- end -}}
{{- end -}}
