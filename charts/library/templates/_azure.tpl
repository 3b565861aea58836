{{/*
Volumes on Azure, by the CSI drivers of Azure Files and Blob Storage: what exists already as a
PersistentVolume of its own, and what is new as a StorageClass of its own. Both are objects of the
whole cluster, which only who may make such objects can install. No key stands in any of them.
*/}}

{{/* Where a volume is on Azure. JSON {driver, key, what, name, settings}, where `key` is that of the
     values, `what` is the driver's word and `name` is what exists, or ""; {} where it is elsewhere.
     Takes the volume's values. */}}
{{- define "allranks.azure" -}}
{{- $azure := dict -}}
{{- with .azureFile -}}
{{- $azure = dict "driver" "file.csi.azure.com" "key" "azureFile" "what" "shareName" "name" (get . "shareName") "settings" . -}}
{{- end -}}
{{- with .azureBlob -}}
{{- $azure = dict "driver" "blob.csi.azure.com" "key" "azureBlob" "what" "containerName" "name" (get . "containerName") "settings" . -}}
{{- end -}}
{{- toJson $azure -}}
{{- end -}}

{{/* "true" where a volume is a share or container that exists. Takes its values. */}}
{{- define "allranks.azure.exists" -}}
{{- if (include "allranks.azure" . | fromJson).name -}}true{{- end -}}
{{- end -}}

{{/* What both a PersistentVolume and a StorageClass tell the driver, which takes text alone. JSON;
     takes the settings. */}}
{{- define "allranks.azure.parameters" -}}
{{- $parameters := dict -}}
{{- range $key := list "clientID" "containerName" "protocol" "resourceGroup" "shareName" "storageAccount" -}}
{{- with get $ $key -}}{{- $_ := set $parameters $key . -}}{{- end -}}
{{- end -}}
{{- toJson $parameters -}}
{{- end -}}

{{/* The options of its mount. Containers of a job are not root, whom alone blobfuse would let in.
     JSON; takes what `allranks.azure` gives. */}}
{{- define "allranks.azure.mountOptions" -}}
{{- $options := get .settings "mountOptions" | default list -}}
{{- if and (eq .key "azureBlob") (ne (get .settings "protocol") "nfs") -}}
{{- $options = prepend $options "-o allow_other" | uniq -}}
{{- end -}}
{{- toJson $options -}}
{{- end -}}

{{/* `spec` of the PersistentVolume of what exists, as YAML, for one claim and no other:
     (dict "namespace" "x" "claim" "x" "name" "x" "accessModes" $modes "azure" $azure). The handle is
     what the driver tells volumes apart by, so it is the object's own name. The claim has to ask for
     a size, which nothing holds it to: what holds is the share's own quota. */}}
{{- define "allranks.azure.volumeSpec" -}}
{{- $csi := dict
      "driver" .azure.driver
      "volumeHandle" .name
      "volumeAttributes" (include "allranks.azure.parameters" .azure.settings | fromJson) -}}
{{- with get .azure.settings "secretName" -}}
{{- $_ := set $csi "nodeStageSecretRef" (dict "name" . "namespace" $.namespace) -}}
{{- end -}}
{{- $spec := dict
      "accessModes" .accessModes
      "capacity" (dict "storage" (include "allranks.azure.size" .))
      "claimRef" (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "namespace" .namespace "name" .claim)
      "csi" $csi
      "persistentVolumeReclaimPolicy" "Retain"
      "storageClassName" "" -}}
{{- with include "allranks.azure.mountOptions" .azure | fromJsonArray -}}
{{- $_ := set $spec "mountOptions" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $spec) -}}
{{- end -}}

{{/* What a PersistentVolume and its claim say of a size where none is known. */}}
{{- define "allranks.azure.size" -}}1Gi{{- end -}}

{{/* What stands beside `metadata` in the StorageClass of what is new, as YAML:
     (dict "namespace" "x" "azure" $azure). Whatever is removed, the data stays. */}}
{{- define "allranks.azure.classBody" -}}
{{- $parameters := include "allranks.azure.parameters" .azure.settings | fromJson -}}
{{- with get .azure.settings "skuName" -}}
{{- $_ := set $parameters "skuName" . -}}
{{- end -}}
{{- with get .azure.settings "secretName" -}}
{{- range $use := list "controller-expand" "node-stage" "provisioner" -}}
{{- $_ := set $parameters (printf "csi.storage.k8s.io/%s-secret-name" $use) (get $.azure.settings "secretName") -}}
{{- $_ := set $parameters (printf "csi.storage.k8s.io/%s-secret-namespace" $use) $.namespace -}}
{{- end -}}
{{- end -}}
{{- $body := dict
      "allowVolumeExpansion" true
      "provisioner" .azure.driver
      "reclaimPolicy" "Retain"
      "volumeBindingMode" "Immediate" -}}
{{- with $parameters -}}{{- $_ := set $body "parameters" . -}}{{- end -}}
{{- with include "allranks.azure.mountOptions" .azure | fromJsonArray -}}
{{- $_ := set $body "mountOptions" . -}}
{{- end -}}
{{- include "allranks.yaml" (dict "value" $body) -}}
{{- end -}}

{{/* What is wrong with a volume on Azure: (dict "at" "storage.datasets" "volume" $values). JSON list. */}}
{{- define "allranks.azure.problems" -}}
{{- $problems := list -}}
{{- $at := .at -}}
{{- $volume := .volume -}}
{{- $azure := include "allranks.azure" $volume | fromJson -}}
{{- if $azure -}}
{{- $key := printf "%s.%s" $at $azure.key -}}
{{- $settings := $azure.settings -}}
{{- $hasSize := or $volume.size (get $volume "sizePerGpu") -}}
{{- $isNfs := eq (get $settings "protocol") "nfs" -}}
{{- if and $volume.azureFile $volume.azureBlob -}}
{{- $problems = append $problems (printf "%s: azureFile and azureBlob are both given; leave one of the two out" $at) -}}
{{- end -}}
{{- if get $volume "existingClaim" -}}
{{- $problems = append $problems (printf "%s: an existing claim has its volume already; leave existingClaim or %s out" $at $azure.key) -}}
{{- end -}}
{{- if and $azure.name $hasSize -}}
{{- $problems = append $problems (printf "%s.%s: what exists has its size already; leave %s, or the size, out" $key $azure.what $azure.what) -}}
{{- else if not (or $azure.name $hasSize (get $volume "existingClaim")) -}}
{{- $problems = append $problems (printf "%s: neither %s nor a size is given; name what exists, or set %s.size for a new one" $key $azure.what $at) -}}
{{- end -}}
{{- if $volume.storageClassName -}}
{{- $problems = append $problems (printf "%s.storageClassName: the volume of %s has a class of its own, or none; leave one of the two out" $at $azure.key) -}}
{{- end -}}
{{- if and $azure.name (not (get $settings "storageAccount")) (or $isNfs (not (get $settings "secretName"))) -}}
{{- $problems = append $problems (printf "%s.storageAccount: empty, and no driver finds %s without its account; name it" $key $azure.name) -}}
{{- end -}}
{{- if and $azure.name (get $settings "skuName") -}}
{{- $problems = append $problems (printf "%s.skuName: %s exists, and its account is what it is; remove it" $key $azure.name) -}}
{{- end -}}
{{- if and (get $settings "secretName") (get $settings "clientID") -}}
{{- $problems = append $problems (printf "%s: secretName and clientID are both given; leave one of the two out" $key) -}}
{{- end -}}
{{- range $credential := list "secretName" "clientID" -}}
{{- if and $isNfs (get $settings $credential) -}}
{{- $problems = append $problems (printf "%s.%s: nfs asks for no credentials, only for a network that may reach the account; remove it" $key $credential) -}}
{{- end -}}
{{- end -}}
{{- if and $isNfs (eq $azure.key "azureFile") (hasPrefix "Standard_" (get $settings "skuName")) -}}
{{- $problems = append $problems (printf "%s.skuName: %s has no nfs; use Premium_LRS, or protocol: smb" $key (get $settings "skuName")) -}}
{{- end -}}
{{- range $index, $option := get $settings "mountOptions" | default list -}}
{{- if regexMatch "(?i)(^|[\\s,])pass(word2?)?=" $option -}}
{{- $problems = append $problems (printf "%s.mountOptions.%d: a key in values is for everybody to read; put it into a Secret, and name that in secretName" $key $index) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
