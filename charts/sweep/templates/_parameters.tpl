{{/*
The parameters, and the table that says which trial has which: one line per trial, its index and the
words of its choices, quoted for the shell that reads it in the pod.

Parameters stand in the order of their names, and the last one changes fastest.
*/}}

{{/* The parameters. JSON list of {name, count, stride, values or range, arg, env, paths}; a parameter that
     says nothing reaches the value of its own name. Takes the root context. */}}
{{- define "sweep.parameters" -}}{{- include "allranks.once" (dict "ctx" . "what" "sweep.parameters") -}}{{- end -}}
{{- define "sweep.parameters.made" -}}
{{- $trialValues := include "sweep.values" . | fromJson -}}
{{- $text := toJson $trialValues -}}
{{- $parameters := list -}}
{{- range $name, $definition := .Values.sweep.parameters -}}
{{- $parameter := dict "name" $name "paths" list "arg" (get $definition "arg" | default "") "env" (get $definition "env" | default "") -}}
{{- with (get $definition "range" | default (get $definition "quantized")) -}}
{{- $range := dict "min" .min "max" .max "step" (hasKey . "step" | ternary .step 1) -}}
{{- $_ := set $parameter "range" $range -}}
{{- $_ := set $parameter "count" (include "sweep.range.count" $range | int64) -}}
{{- else -}}
{{- $_ := set $parameter "values" (get $definition "values" | default list) -}}
{{- $_ := set $parameter "count" (len $parameter.values) -}}
{{- end -}}
{{- with get $definition "path" -}}{{- $_ := set $parameter "paths" (kindIs "string" . | ternary (list .) .) -}}{{- end -}}
{{- if not (or $parameter.arg $parameter.env $parameter.paths (contains (printf "${sweep.%s}" $name) $text)) -}}
{{- if eq (include "sweep.exists" (dict "values" $trialValues "path" (splitList "." $name))) "true" -}}
{{- $_ := set $parameter "paths" (list $name) -}}
{{- end -}}
{{- end -}}
{{- $parameters = append $parameters $parameter -}}
{{- end -}}
{{- $stride := 1 -}}
{{- range reverse $parameters -}}
{{- $_ := set . "stride" $stride -}}
{{- /* No trial that a template can render has an index beyond this. */ -}}
{{- $stride = include "sweep.product" (list $stride .count) | int64 -}}
{{- end -}}
{{- toJson $parameters -}}
{{- end -}}

{{/* How many numbers a range has. */}}
{{- define "sweep.range.count" -}}
{{- add1 (min 1000000000000 (floor (divf (subf .max .min) .step) | int64)) -}}
{{- end -}}

{{/* "true" where a values path is there, or below a map that a user fills with names of their own:
     (dict "values" $map "path" (list "torchrun" "port")). */}}
{{- define "sweep.exists" -}}
{{- if not (kindIs "map" .values) -}}
{{- else if hasKey .values (first .path) -}}
{{- if eq (len .path) 1 -}}true
{{- else -}}{{- include "sweep.exists" (dict "values" (get .values (first .path)) "path" (rest .path)) -}}{{- end -}}
{{- else if not .values -}}true
{{- end -}}
{{- end -}}

{{/* Two counts multiplied, as far as 10^12. */}}
{{- define "sweep.product" -}}
{{- $product := mulf (first .) (last .) -}}
{{- ge $product 1e12 | ternary 1000000000000 (int64 $product) -}}
{{- end -}}

{{/* How many trials the whole grid has; takes the parameters. Beyond 10^12 the count stands still. */}}
{{- define "sweep.grid" -}}
{{- $count := 1 -}}
{{- range . -}}
{{- $count = include "sweep.product" (list $count .count) | int64 -}}
{{- end -}}
{{- $count -}}
{{- end -}}

{{/* How many trials there are. Takes the root context. */}}
{{- define "sweep.count" -}}
{{- $grid := include "sweep.grid" (include "sweep.parameters" . | fromJsonArray) | int64 -}}
{{- int64 .Values.sweep.trials | default $grid -}}
{{- end -}}

{{/* One choice of a parameter: (dict "of" $parameter "at" 3). JSON {text, data}. A number that was
     not quoted has the text that Helm gives it. */}}
{{- define "sweep.value" -}}
{{- $data := "" -}}
{{- if hasKey .of "range" -}}
{{- $data = addf .of.range.min (mulf .of.range.step .at) -}}
{{- else -}}
{{- $data = index .of.values (int .at) -}}
{{- end -}}
{{- dict "text" (kindIs "string" $data | ternary $data (toJson $data)) "data" $data | toJson -}}
{{- end -}}

{{/* The choice of a parameter in a trial: (dict "parameter" $parameter "index" 17), the parameter with
     its stride. */}}
{{- define "sweep.choice" -}}
{{- include "sweep.value" (dict "of" .parameter "at" (mod (div .index .parameter.stride) .parameter.count)) -}}
{{- end -}}

{{/* A word that the shell reads as it is, on one line. */}}
{{- define "sweep.quoted" -}}
{{- if regexMatch "^[A-Za-z0-9_.,:/@%+=-]+$" . -}}
{{- . -}}
{{- else -}}
'{{- . | replace "'" "'\\''" | replace "\n" "'\"$allranks_newline\"'" -}}'
{{- end -}}
{{- end -}}

{{/* The lines of trials: (dict "parameters" $list "from" 0 "to" 100). */}}
{{- define "sweep.lines" -}}
{{- $words := list -}}
{{- range $parameter := .parameters -}}
{{- $of := list -}}
{{- if not (hasKey $parameter "range") -}}
{{- range $at := until (int $parameter.count) -}}
{{- $value := include "sweep.value" (dict "of" $parameter "at" $at) | fromJson -}}
{{- $of = append $of (include "sweep.quoted" $value.text) -}}
{{- end -}}
{{- end -}}
{{- $words = append $words $of -}}
{{- end -}}
# index{{ range .parameters }} {{ .name }}{{ end }}
{{- range $index := untilStep (int .from) (int .to) 1 }}
{{ $index }}
{{- range $place, $parameter := $.parameters -}}
{{- $at := mod (div $index $parameter.stride) $parameter.count -}}
{{- $of := index $words $place }} {{ if $of -}}
{{- index $of (int $at) -}}
{{- else -}}
{{- addf $parameter.range.min (mulf $parameter.range.step $at) | toJson -}}
{{- end -}}
{{- end -}}
{{- end }}
{{ end -}}
