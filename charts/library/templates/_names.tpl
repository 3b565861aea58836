{{/*
Names of objects. Each comes from the release, so two jobs never collide; every template asks here.
All take the root context.

A chart that renders several jobs in one release gives each a context of its own, with a Release.Name
of its own, and the root context as `Whole`; `Group` then tells the job's pods from those of the
others. What the jobs share is named after the release itself.
*/}}

{{/* What all jobs of a release share is named after. */}}
{{- define "allranks.names.whole" -}}
{{- (.Whole | default .).Release.Name -}}
{{- end -}}

{{/* The Job or StatefulSet, the headless Service, the ConfigMap. */}}
{{- define "allranks.names.release" -}}
{{- .Release.Name -}}
{{- end -}}

{{/* What belongs to one group of the release's pods: (dict "ctx" $ "part" "launcher"). */}}
{{- define "allranks.names.part" -}}
{{- .ctx.Release.Name -}}-{{- .part -}}
{{- end -}}

{{/* The ClusterIP Service in front of rank 0 of a StatefulSet. */}}
{{- define "allranks.names.master" -}}
{{- .Release.Name -}}-master
{{- end -}}

{{/* The service account the pods run as; "" is the namespace's default. */}}
{{- define "allranks.names.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{- if .name -}}{{- .name -}}{{- else if .create -}}{{- include "allranks.names.whole" $ -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* A claim the release creates: (dict "ctx" $ "volume" "checkpoints"). */}}
{{- define "allranks.names.claim" -}}
{{- include "allranks.names.whole" .ctx -}}-{{- .volume -}}
{{- end -}}

{{/* The volume or the class of such a claim, which is an object of the whole cluster: no other
     namespace and release have this name, as neither has a dot. (dict "ctx" $ "volume" "checkpoints"). */}}
{{- define "allranks.names.clusterVolume" -}}
{{- .ctx.Release.Namespace -}}.{{- include "allranks.names.claim" . -}}
{{- end -}}

{{/* name-version, as Helm's own convention has it. */}}
{{- define "allranks.names.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The image reference: a digest wins over a tag. */}}
{{- define "allranks.names.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .digest -}}@{{- .digest -}}{{- else if .tag -}}:{{- .tag -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The folder where the ConfigMap is mounted: entry.sh, setup.sh, script. */}}
{{- define "allranks.names.mount" -}}/etc/allranks{{- end -}}

{{/* The folder that lives as long as the pod, for the marker of a finished rank. */}}
{{- define "allranks.names.state" -}}/var/run/allranks{{- end -}}
