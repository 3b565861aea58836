{{/*
A trial: its values, and the context in which the templates of the torchrun chart render it.

A trial's values are the torchrun chart's defaults, the values at the root over them, and those of
`sweep.trial.values` over both. What a trial's own pod does with its parameters (arguments,
variables, placeholders in the program) is done in the pod, by files/entry.sh, so that all pods have
one template; what must be known before there is a pod (a values path, a placeholder elsewhere) makes
a set of objects for each trial.
*/}}

{{/* The values that all trials have, whatever their parameters. JSON; takes the root context. */}}
{{- define "sweep.values" -}}{{- include "allranks.once" (dict "ctx" . "what" "sweep.values") -}}{{- end -}}
{{- define "sweep.values.made" -}}
{{- $values := .Files.Get "torchrun/values.yaml" | fromYaml -}}
{{- $chartValues := omit (.Values | toJson | fromJson) "workload" "sweep" "global" "allranks-library" -}}
{{- include "sweep.overlay" (dict "into" $values "over" $chartValues) -}}
{{- include "sweep.overlay" (dict "into" $values "over" .Values.sweep.trial.values) -}}
{{- $_ := set $values "workload" "torchrun" -}}
{{- toJson $values -}}
{{- end -}}

{{/* Values over others, in place, as Helm lays files over each other: (dict "into" .. "over" ..). */}}
{{- define "sweep.overlay" -}}
{{- range $key, $value := .over -}}
{{- $below := get $.into $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $below) -}}
{{- include "sweep.overlay" (dict "into" $below "over" $value) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $.into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where all placeholders were filled in before, because the release is one trial of `helm sweep`:
     what looks like one now was chosen. Takes the root context. */}}
{{- define "sweep.filled" -}}{{- with get .Values.layout "trial" -}}true{{- end -}}{{- end -}}

{{/* The program of a trial: the strings that the pod itself fills in. JSON; takes trial values. */}}
{{- define "sweep.program" -}}
{{- pick . "command" "args" "env" "script" "setup" | toJson -}}
{{- end -}}

{{/* Sets .result.ctx to a context for the torchrun chart's templates:
     (dict "ctx" $ "result" $dict) for what all trials share, and with "index" for one of them. */}}
{{- define "sweep.context" -}}
{{- $root := .ctx -}}
{{- $values := include "sweep.values" $root | fromJson -}}
{{- $release := dict -}}
{{- range $key, $value := $root.Release -}}
{{- if not (hasPrefix "kept:" $key) -}}{{- $_ := set $release $key $value -}}{{- end -}}
{{- end -}}
{{- $context := dict
      "Release" $release
      "Chart" (dict "Name" "torchrun" "Version" $root.Chart.Version)
      "Files" $root.Files "Subcharts" $root.Subcharts "Capabilities" $root.Capabilities
      "Whole" $root -}}
{{- if hasKey . "index" -}}
{{- $values = include "sweep.values.of" (dict "ctx" $root "values" $values "index" .index) | fromJson -}}
{{- $_ := set $release "Name" (printf "%s-%d" $root.Release.Name (int .index)) -}}
{{- $_ := set $context "Group" (printf "trial-%d" (int .index)) -}}
{{- end -}}
{{- $_ := set $context "Values" $values -}}
{{- $_ := set .result "ctx" $context -}}
{{- end -}}

{{/* Fails with what is wrong with one trial, by the rules of its chart; the name is the release's. */}}
{{- define "sweep.check" -}}
{{- $of := dict -}}
{{- range $key, $value := . -}}{{- $_ := set $of $key $value -}}{{- end -}}
{{- $_ := set $of "Release" .Whole.Release -}}
{{- include "torchrun.checks.made" $of -}}
{{- include "allranks.checks.report" (dict "problems" (include "sweep.checks.pods" $of | fromJsonArray)) -}}
{{- end -}}

{{/* The values of one trial: placeholders outside of its program, then paths. JSON. */}}
{{- define "sweep.values.of" -}}
{{- $program := include "sweep.program" .values | fromJson -}}
{{- $text := replace "${sweep.trial}" (printf "%s-%d" .ctx.Release.Name (int .index)) (toJson .values) -}}
{{- $chosen := list -}}
{{- range $parameter := include "sweep.parameters" .ctx | fromJsonArray -}}
{{- $choice := include "sweep.choice" (dict "parameter" $parameter "index" $.index) | fromJson -}}
{{- $chosen = append $chosen (dict "paths" $parameter.paths "choice" $choice) -}}
{{- /* What a choice says is taken as it is: a placeholder in it is none for those that follow. */ -}}
{{- $written := toJson $choice.text | trimPrefix "\"" | trimSuffix "\"" | replace "${sweep." "\\u0024{sweep." -}}
{{- $text = replace (printf "${sweep.%s}" $parameter.name) $written $text -}}
{{- end -}}
{{- $values := fromJson $text -}}
{{- range $key, $value := $program -}}{{- $_ := set $values $key $value -}}{{- end -}}
{{- range $parameter := $chosen -}}
{{- range $path := $parameter.paths -}}
{{- include "sweep.put" (dict "into" $values "path" (splitList "." $path) "choice" $parameter.choice "all" $path) -}}
{{- end -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{/* Sets a path, in place: (dict "into" $map "path" (list "torchrun" "port") "choice" $choice "all"
     "torchrun.port"). */}}
{{- define "sweep.put" -}}
{{- $key := first .path -}}
{{- $now := get .into $key -}}
{{- if gt (len .path) 1 -}}
{{- if not (kindIs "map" $now) -}}{{- $_ := set .into $key dict -}}{{- end -}}
{{- include "sweep.put" (merge (dict "into" (get .into $key) "path" (rest .path)) (omit . "into" "path")) -}}
{{- else -}}
{{- $fitted := include "sweep.fitted" (dict "now" $now "path" .all "choice" .choice) | fromJson -}}
{{- $_ := set .into $key $fitted.value -}}
{{- end -}}
{{- end -}}

{{/* A choice as the value of a path: a number, or a yes or no, where there is one now.
     (dict "now" 29400 "path" "torchrun.port" "choice" $choice); JSON {value}, or {value, kind} where
     it is not of the kind that stands there. */}}
{{- define "sweep.fitted" -}}
{{- $kind := kindIs "bool" .now | ternary "true or false" (or (kindIs "float64" .now) (kindIs "int64" .now) | ternary "a number" "") -}}
{{- $form := eq $kind "a number" | ternary "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$" "^(true|false)$" -}}
{{- if not $kind -}}
{{- /* A map of the user's own has texts, but for the pod template. */ -}}
{{- dict "value" (hasPrefix "podTemplate." .path | ternary .choice.data .choice.text) | toJson -}}
{{- else if regexMatch $form .choice.text -}}
{{- dict "value" (printf "[%s]" .choice.text | fromJsonArray | first) | toJson -}}
{{- else -}}
{{- dict "value" .choice.text "kind" $kind | toJson -}}
{{- end -}}
{{- end -}}

{{/* "pods" where one Indexed Job has all trials as its pods, "sets" where each trial is a set of
     objects. Takes the root context. */}}
{{- define "sweep.mode" -}}{{- include "allranks.once" (dict "ctx" . "what" "sweep.mode") -}}{{- end -}}
{{- define "sweep.mode.made" -}}
{{- $values := include "sweep.values" . | fromJson -}}
{{- $rest := omit $values "command" "args" "env" "script" "setup" | toJson -}}
{{- $paths := false -}}
{{- range include "sweep.parameters" . | fromJsonArray -}}{{- if .paths -}}{{- $paths = true -}}{{- end -}}{{- end -}}
{{- if or $paths (and (contains "${sweep." $rest) (ne (include "sweep.filled" .) "true")) -}}
sets
{{- else -}}
{{- $trial := dict -}}
{{- include "sweep.context" (dict "ctx" . "result" $trial) -}}
{{- $layout := include "allranks.layout" $trial.ctx | fromJson -}}
{{- if or (gt (int $layout.nodes) 1) (gt (int $layout.maxNodes) 1) -}}sets{{- else -}}pods{{- end -}}
{{- end -}}
{{- end -}}

{{/* The pod template of a trial, or of all: (dict "ctx" $trial "layout" $layout "root" $ "index" 3);
     without `index` the pod's own index says which trial it is. */}}
{{- define "sweep.pod" -}}
{{- $alone := not (hasKey . "index") -}}
{{- $how := .root.Values.sweep.trial.workload | default "exec" -}}
{{- $program := include "sweep.program" .ctx.Values | fromJson -}}
{{- $mount := include "allranks.names.mount" . -}}
{{- $filled := list -}}
{{- range $file, $key := dict "script" "script" "setup.sh" "setup" -}}
{{- if and (contains "${sweep." (get $program $key)) (ne (include "sweep.filled" $.root) "true") -}}{{- $filled = append $filled $file -}}{{- end -}}
{{- end -}}
{{- $env := list -}}
{{- if not (get .ctx.Values.layout "trial") -}}
{{- $env = append $env (dict "name" "ALLRANKS_SWEEP" "value" (include "allranks.names.release" .root)) -}}
{{- end -}}
{{- $env = concat $env (list
      (dict "name" "ALLRANKS_TRIALS" "value" (include "sweep.tables.mount" .))
      (dict "name" "ALLRANKS_TRIALS_EACH" "value" (include "sweep.tables.each" .root))) -}}
{{- if not $alone -}}
{{- $env = append $env (dict "name" "ALLRANKS_TRIAL" "value" (toString (int .index))) -}}
{{- end -}}
{{- with $filled -}}
{{- $env = append $env (dict "name" "ALLRANKS_FILL" "value" (join " " .)) -}}
{{- $env = append $env (dict "name" "ALLRANKS_FILLED" "value" (include "allranks.names.state" $)) -}}
{{- end -}}
{{- $args := list $how -}}
{{- if and (eq $how "exec") (not (include "allranks.entry.ownInterpreter" .ctx)) -}}
{{- $args = append $args "python3" -}}
{{- end -}}
{{- range $word := include "allranks.entry.args" .ctx | fromJsonArray -}}
{{- if and (has "script" $filled) (eq $word (printf "%s/script" $mount)) -}}
{{- $word = printf "%s/script" (include "allranks.names.state" $) -}}
{{- end -}}
{{- $args = append $args $word -}}
{{- end -}}
{{- $named := "" -}}
{{- $rules := list -}}
{{- if eq $how "torchrun" -}}
{{- $named = include "torchrun.named" . -}}
{{- $rules = include "torchrun.restartRules" .ctx | fromJsonArray -}}
{{- range $variable := include "torchrun.env" . | fromJsonArray -}}
{{- /* The pod's index is the trial's here, and each trial has one node, whose rank is 0. */ -}}
{{- if not (and $alone (eq $variable.name "ALLRANKS_NODE_RANK")) -}}{{- $env = append $env $variable -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- range $name, $value := include "allranks.entry.checkpointSignal" .ctx | fromJson -}}
{{- $env = append $env (dict "name" $name "value" $value) -}}
{{- end -}}
{{- end -}}
{{- include "allranks.pod" (dict
      "ctx" .ctx
      "layout" .layout
      "role" "trial"
      "env" $env
      "hosts" (ternary "" (include "torchrun.hosts" .) $alone)
      "args" $args
      "restartPolicy" "Never"
      "uidLabel" "batch.kubernetes.io/controller-uid"
      "trackedGroup" (include "allranks.names.release" .root)
      "trials" $alone
      "subdomain" (ternary (include "allranks.names.release" .ctx) "" (and (not $alone) (ne $named "")))
      "portName" "rendezvous"
      "port" (ternary .ctx.Values.torchrun.port 0 (and (eq $how "torchrun") (ne (include "torchrun.rendezvous" .) "standalone")))
      "restartRules" $rules
      "state" (or (gt (len $filled) 0) (gt (len $rules) 0))
      "volumes" (include "sweep.tables.volumes" .root | fromJsonArray)
      "mounts" (list (dict "name" "trials" "mountPath" (include "sweep.tables.mount" .) "readOnly" true))) -}}
{{- end -}}
