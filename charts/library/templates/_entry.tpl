{{/*
How the container starts: a ConfigMap with entry.sh and what it needs, the user's setup, and the
user's inline script.

The kubelet expands $(VAR) and $$ in args and env values; every `$` of the user is therefore
doubled, and arrives as it was typed. ConfigMap contents are not expanded.
*/}}

{{/* A string that the kubelet hands over as it is. */}}
{{- define "allranks.entry.literal" -}}
{{- . | replace "$" "$$" -}}
{{- end -}}

{{/* A list of such strings. JSON list, printed item by item: `append` would copy it for each. */}}
{{- define "allranks.entry.literals" -}}
[
{{- range $index, $text := . -}}
{{- if $index -}},{{- end -}}
{{- include "allranks.entry.literal" $text | toJson -}}
{{- end -}}
]
{{- end -}}

{{/* What is mounted beside the user's own: entry.sh (the shell shared by all workloads, what
     unpacks a workspace where there is one, the workload's own) and the other files of the
     workload's chart. JSON {name: text}. */}}
{{- define "allranks.entry.files" -}}
{{- $files := dict -}}
{{- $spares := int64 (get (index .Values .Values.workload) "spares") -}}
{{- range $path, $_ := .Files.Glob "files/*" -}}
{{- if or (gt $spares 0) (ne (base $path) "spare.py") -}}
{{- $_ := set $files (base $path) ($.Files.Get $path) -}}
{{- end -}}
{{- end -}}
{{- $library := (index .Subcharts "allranks-library").Files -}}
{{- $shared := $library.Get "files/entry.sh" -}}
{{- if include "allranks.workspace.on" . -}}
{{- $shared = printf "%s%s" $shared ($library.Get "files/workspace.sh") -}}
{{- $_ := set $files "workspace.py" ($library.Get "files/workspace.py") -}}
{{- if eq .Chart.Name "torchrun" -}}{{- $_ := set $files "sync.py" ($library.Get "files/sync.py") -}}{{- end -}}
{{- end -}}
{{- /* What nobody asks for takes no room from a script. */ -}}
{{- $policy := .Values.runPolicy -}}
{{- if not $policy.diagnose -}}{{- $files = omit $files "sitecustomize.py" "stuck.py" -}}{{- end -}}
{{- if not $policy.stallSeconds -}}{{- $files = omit $files "stall.py" "standstill.py" -}}{{- end -}}
{{- if not (or $policy.diagnose $policy.stallSeconds) -}}{{- $_ := unset $files "why.py" -}}{{- end -}}
{{- if not (get (.Values.torchrun | default dict) "restartsInPlace") -}}{{- $_ := unset $files "in_place.py" -}}{{- end -}}
{{- if not (include "allranks.entry.preflight" .) -}}{{- $files = omit $files "preflight.py" "preflight_checks.py" -}}{{- end -}}
{{- if include "allranks.slurm.on" . -}}{{- $_ := set $files "slurm.sh" ($library.Get "files/slurm.sh") -}}{{- end -}}
{{- $_ := set $files "entry.sh" (printf "%s%s" $shared (get $files "entry.sh")) -}}
{{- range $name, $text := $files -}}
{{- if hasSuffix ".py" $name -}}{{- $_ := set $files $name (include "allranks.entry.code" $text) -}}{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{/* A program without what its docstrings say, which is a fifth of it: `kubectl apply` keeps all of a
     ConfigMap once more in an annotation, which may have 256 KiB. Takes the text, in which three
     quotes begin and end docstrings alone. */}}
{{- define "allranks.entry.code" -}}
{{- range $index, $part := splitList `"""` . -}}
{{- if eq (mod $index 2) 0 -}}{{- if $index -}}""{{- end -}}{{- $part -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where the nodes are looked at before the training; only torchrun's launcher does. Takes the
     root context. */}}
{{- define "allranks.entry.preflight" -}}
{{- if ne (get ((.Values.torchrun | default dict).preflight | default dict) "level" | default "none") "none" -}}true{{- end -}}
{{- end -}}

{{/* The folder of what ranks say of their progress, and of what they are told (files/progress.py). */}}
{{- define "allranks.entry.progress" -}}/dev/shm/allranks{{- end -}}

{{/* The signal that asks a rank for a checkpoint. JSON {name: text}; takes the root context. */}}
{{- define "allranks.entry.checkpointSignal" -}}
{{- $vars := dict -}}
{{- with .Values.runPolicy.checkpointSignal -}}{{- $_ := set $vars "ALLRANKS_CHECKPOINT_SIGNAL" . -}}{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* What tells a launcher to look for a stall. JSON {name: text}; takes the root context. */}}
{{- define "allranks.entry.stall" -}}
{{- $vars := dict -}}
{{- with int64 .Values.runPolicy.stallSeconds -}}
{{- $_ := set $vars "ALLRANKS_STALL_SECONDS" (toString .) -}}
{{- if eq $.Values.runPolicy.onStall "end" -}}{{- $_ := set $vars "ALLRANKS_STALL_ENDS" "1" -}}{{- end -}}
{{- with get (include "allranks.storage.enabled" $ | fromJson) "checkpoints" -}}
{{- $_ := set $vars "ALLRANKS_STALL_REPORTS" .mountPath -}}
{{- end -}}
{{- end -}}
{{- toJson $vars -}}
{{- end -}}

{{/* The container's args: the user's command or script, then the user's args. JSON list. */}}
{{- define "allranks.entry.args" -}}
{{- $script := list -}}
{{- if .Values.script -}}
{{- $script = list (printf "%s/script" (include "allranks.names.mount" .)) -}}
{{- end -}}
{{- concat $script (include "allranks.entry.literals" (concat .Values.command .Values.args) | fromJsonArray) | default list | toJson -}}
{{- end -}}

{{/* "true" where torchrun and the like must not put a Python in front: the user gave a whole argv,
     or a script that names its interpreter. */}}
{{- define "allranks.entry.ownInterpreter" -}}
{{- if .Values.script -}}
{{- if hasPrefix "#!" .Values.script -}}true{{- end -}}
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/* The ConfigMap: (dict "ctx" $ "role" "node" "files" (dict "hostfile" $text)). `files` are those
     that the values make, besides what lies in files/. */}}
{{- define "allranks.entry.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "allranks.objects.metadata" (dict "ctx" .ctx "role" .role "name" (include "allranks.names.release" .ctx)) | nindent 2 }}
data:
  {{- range $name, $text := merge (include "allranks.entry.files" .ctx | fromJson) (.files | default dict) }}
  {{ $name }}: {{ include "allranks.yaml.text" (dict "text" $text "indent" 4) }}
  {{- end }}
  {{- with .ctx.Values.setup }}
  setup.sh: {{ include "allranks.yaml.text" (dict "text" . "indent" 4) }}
  {{- end }}
  {{- with .ctx.Values.script }}
  script: {{ include "allranks.yaml.text" (dict "text" . "indent" 4) }}
  {{- end }}
{{- end -}}

{{/* Changes when what is mounted changes, so that a StatefulSet's pods are replaced with it. */}}
{{- define "allranks.entry.digest" -}}
{{- list (include "allranks.entry.files" .) .Values.setup .Values.script | toJson | sha256sum | printf "sha256:%s" -}}
{{- end -}}
