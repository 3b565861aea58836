{{/*
The master of mode auto: whose it is, what it may, and its pod.
*/}}

{{/* own | given: another master than ours brings its image and its command. Takes the root context. */}}
{{- define "elastic.master" -}}
{{- ternary "given" "own" (gt (len .Values.elastic.auto.master.command) 0) -}}
{{- end -}}

{{- define "elastic.master.account" -}}
{{- .Values.elastic.auto.master.serviceAccountName | default (include "allranks.names.part" (dict "ctx" . "part" "master")) -}}
{{- end -}}

{{/* How our master decides, as JSON. Takes the root context. */}}
{{- define "elastic.master.options" -}}
{{- $options := deepCopy .Values.elastic.auto.policy -}}
{{- $shape := dict -}}
{{- range $name, $amount := pick .Values.nodeShape "gpus" "cpu" "memory" -}}
{{- if $amount -}}{{- $_ := set $shape $name $amount -}}{{- end -}}
{{- end -}}
{{- with $shape -}}{{- $_ := set $options "nodeShape" . -}}{{- end -}}
{{- $_ := set $options "history" .Values.elastic.auto.history -}}
{{- $_ := set $options "maxRestarts" .Values.runPolicy.backoffLimit -}}
{{- with .Values.runPolicy.fatalExitCodes -}}{{- $_ := set $options "fatalExitCodes" . -}}{{- end -}}
{{- toJson $options -}}
{{- end -}}

{{/* What the master may do: ours reads its job and its pods and writes plans; another may make the
     pods and their Services itself. JSON list; takes the root context. */}}
{{- define "elastic.master.rules" -}}
{{- $elastic := "elastic.iml.github.io" -}}
{{- $rules := list -}}
{{- if eq (include "elastic.master" .) "own" -}}
{{- $rules = concat $rules (list
      (dict "apiGroups" (list $elastic) "resources" (list "elasticjobs")
            "resourceNames" (list (include "allranks.names.release" .)) "verbs" (list "get"))
      (dict "apiGroups" (list $elastic) "resources" (list "scaleplans") "verbs" (list "get" "list" "create"))
      (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "list"))
      (dict "apiGroups" (list "") "resources" (list "events") "verbs" (list "create"))) -}}
{{- if .Values.elastic.auto.history -}}
{{- $rules = append $rules (dict
      "apiGroups" (list "") "resources" (list "configmaps")
      "resourceNames" (list (include "allranks.names.part" (dict "ctx" . "part" "history")))
      "verbs" (list "get" "patch")) -}}
{{- end -}}
{{- else -}}
{{- $all := list "get" "list" "watch" "create" "update" "patch" "delete" -}}
{{- /* A watch has no name to be held to. */ -}}
{{- $rules = concat $rules (list
      (dict "apiGroups" (list $elastic) "resources" (list "elasticjobs") "verbs" (list "get" "list" "watch"))
      (dict "apiGroups" (list $elastic) "resources" (list "scaleplans") "verbs" $all)
      (dict "apiGroups" (list "") "resources" (list "pods" "services") "verbs" $all)) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* The template of the master's pod; the operator fills in the rest. JSON; takes the root context. */}}
{{- define "elastic.master.template" -}}
{{- $master := .Values.elastic.auto.master -}}
{{- $container := dict "name" "main" -}}
{{- with $master.image -}}{{- $_ := set $container "image" . -}}{{- end -}}
{{- with .Values.image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- if $master.command -}}
{{- $_ := set $container "command" (include "allranks.entry.literals" $master.command | fromJsonArray) -}}
{{- end -}}
{{- $env := list -}}
{{- if eq (include "elastic.master" .) "own" -}}
{{- $env = append $env (dict "name" "ALLRANKS_MASTER_OPTIONS" "value" (include "allranks.entry.literal" (include "elastic.master.options" .))) -}}
{{- end -}}
{{- with concat $env (include "allranks.pod.env.list" $master.env | fromJsonArray) -}}{{- $_ := set $container "env" . -}}{{- end -}}
{{- $resources := dict -}}
{{- range $side, $amounts := $master.resources -}}
{{- $quantities := dict -}}
{{- range $name, $amount := $amounts -}}{{- $_ := set $quantities $name (include "allranks.quantity.text" $amount) -}}{{- end -}}
{{- with $quantities -}}{{- $_ := set $resources $side . -}}{{- end -}}
{{- end -}}
{{- with $resources -}}{{- $_ := set $container "resources" . -}}{{- end -}}
{{- $security := dict -}}
{{- if eq (include "elastic.master" .) "given" -}}
{{- /* Ours is locked by the operator; another is as the trainer is. */ -}}
{{- $security = include "allranks.pod.security" (dict "ctx" .) | fromJson -}}
{{- with include "allranks.pod.containerSecurity" . | fromJson -}}{{- $_ := set $container "securityContext" . -}}{{- end -}}
{{- end -}}
{{- $spec := dict
      "serviceAccountName" (include "elastic.master.account" .)
      "automountServiceAccountToken" true
      "containers" (list $container) -}}
{{- include "allranks.pod.asStored" $spec -}}
{{- with $security -}}{{- $_ := set $spec "securityContext" . -}}{{- end -}}
{{- with include "allranks.pod.pullSecrets" .Values.imagePullSecrets | fromJsonArray -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- range $key, $value := include "elastic.master.scheduling" . | fromJson -}}{{- $_ := set $spec $key $value -}}{{- end -}}
{{- $metadata := dict -}}
{{- with .Values.labels -}}{{- $_ := set $metadata "labels" (deepCopy .) -}}{{- end -}}
{{- with .Values.annotations -}}{{- $_ := set $metadata "annotations" (deepCopy .) -}}{{- end -}}
{{- $pod := dict "metadata" $metadata "spec" $spec -}}
{{- include "allranks.merge" (dict "into" $pod "patch" $master.podTemplate) -}}
{{- include "allranks.pod.avoid" (dict "spec" $pod.spec "nodes" .Values.scheduling.avoidNodes) -}}
{{- toJson $pod -}}
{{- end -}}

{{/* Where the master may run: on the nodes that the job may have, of any GPU type. It is there before
     all other pods, so that nothing that places pods beside each other is for it. JSON; takes the root
     context. */}}
{{- define "elastic.master.scheduling" -}}
{{- $fields := include "allranks.pod.scheduling" (dict "ctx" . "role" "master" "idle" true) | fromJson -}}
{{- $where := pick $fields "schedulerName" "priorityClassName" "nodeSelector" "tolerations" -}}
{{- with get .Values.scheduling.affinity "nodeAffinity" -}}
{{- $_ := set $where "affinity" (dict "nodeAffinity" .) -}}
{{- end -}}
{{- toJson $where -}}
{{- end -}}
