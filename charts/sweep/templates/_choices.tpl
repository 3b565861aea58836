{{/*
What a parameter sets by its path, held against the schema of the trial's chart: Helm itself holds only
the values at the root against a schema. What the schema says of lists is left out, as no path leads
into one.
*/}}

{{/* The problems of all choices that have a path, one for each. JSON list; takes the root context. */}}
{{- define "sweep.checks.choices" -}}
{{- $problems := list -}}
{{- $trialValues := include "sweep.values" . | fromJson -}}
{{- /* The copy of a chart that `allranks` installs has no schemas: it has judged the values before. */ -}}
{{- $schema := .Files.Get "torchrun/values.schema.json" | default "{}" | fromJson -}}
{{- range $parameter := include "sweep.parameters" . | fromJsonArray -}}
{{- range $path := $parameter.paths -}}
{{- $keys := splitList "." $path -}}
{{- $now := $trialValues -}}
{{- range $keys -}}{{- $now = kindIs "map" $now | ternary (get (kindIs "map" $now | ternary $now dict) .) "" -}}{{- end -}}
{{- /* With more choices than these a release has no room for the trials. */ -}}
{{- range $at := until (min $parameter.count 100 | int) -}}
{{- $choice := include "sweep.value" (dict "of" $parameter "at" $at) | fromJson -}}
{{- $fitted := include "sweep.fitted" (dict "now" $now "path" $path "choice" $choice) | fromJson -}}
{{- if $fitted.kind -}}
{{- $problems = append $problems (printf "sweep.parameters.%s: %s is %s, and %q is none; choose others, or another path" $parameter.name $path $fitted.kind $choice.text) -}}
{{- else if and (eq $path "torchrun.controller") (eq $choice.text "StatefulSet") -}}
{{- $problems = append $problems (printf "sweep.parameters.%s: at %s: a StatefulSet never ends, and a trial must; use Job" $parameter.name $path) -}}
{{- else -}}
{{- $value := $fitted.value -}}
{{- range reverse $keys -}}{{- $value = dict . $value -}}{{- end -}}
{{- range include "sweep.schema" (dict "all" $schema "schema" $schema "value" $value "known" $trialValues) | fromJsonArray -}}
{{- $problems = append $problems (printf "sweep.parameters.%s: at %s: %s; choose another" $parameter.name $path .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What a schema has against a value. JSON list of phrases, such as "\"x\" is not a number of CPUs":
     (dict "all" $root "schema" $schema "value" "x" "known" $now), where `known` has what stands beside
     the value already, so that a map of one key lacks nothing of it. */}}
{{- define "sweep.schema" -}}
{{- $wrong := list -}}
{{- $schema := .schema -}}
{{- $value := .value -}}
{{- $isMap := kindIs "map" $value -}}
{{- $isText := kindIs "string" $value -}}
{{- $isNumber := kindIs "float64" $value -}}
{{- $shown := $isText | ternary (printf "%q" $value) (toJson $value) -}}
{{- $not := printf "%s is not %s" $shown $schema.title -}}
{{- with get $schema "$ref" -}}
{{- $to := index $.all "$defs" (trimPrefix "#/$defs/" .) -}}
{{- $wrong = include "sweep.schema" (dict "all" $.all "schema" $to "value" $value "known" $.known) | fromJsonArray -}}
{{- end -}}
{{- with $schema.type -}}
{{- $types := kindIs "string" . | ternary (list .) . -}}
{{- $is := $isMap | ternary "object" ($isText | ternary "string" ($isNumber | ternary "number" "boolean")) -}}
{{- $isWhole := and $isNumber (has "integer" $types) -}}
{{- if $isWhole -}}{{- $isWhole = eq (floor $value) $value -}}{{- end -}}
{{- if not (or (has $is $types) $isWhole) -}}
{{- $wrong = append $wrong (hasKey $schema "title" | ternary $not (printf "%s is not of type %s" $shown (join " or " $types))) -}}
{{- end -}}
{{- end -}}
{{- with $schema.enum -}}
{{- if not (has $value .) -}}
{{- $choices := list -}}
{{- range . -}}{{- $choices = append $choices (toString . | default "\"\"") -}}{{- end -}}
{{- $wrong = append $wrong (printf "%s is not one of %s" $shown (join ", " $choices)) -}}
{{- end -}}
{{- end -}}
{{- if and $isText $schema.pattern -}}
{{- if not (regexMatch $schema.pattern $value) -}}{{- $wrong = append $wrong $not -}}{{- end -}}
{{- end -}}
{{- if and $isText $schema.maxLength -}}
{{- if gt (splitList "" $value | len) (int $schema.maxLength) -}}
{{- $wrong = append $wrong (printf "%s has more than %d characters" $shown (int $schema.maxLength)) -}}
{{- end -}}
{{- end -}}
{{- if and $isNumber (hasKey $schema "minimum") -}}
{{- if lt $value $schema.minimum -}}{{- $wrong = append $wrong (printf "%s is less than %s" $shown (toJson $schema.minimum)) -}}{{- end -}}
{{- end -}}
{{- if and $isNumber (hasKey $schema "maximum") -}}
{{- if gt $value $schema.maximum -}}{{- $wrong = append $wrong (printf "%s is more than %s" $shown (toJson $schema.maximum)) -}}{{- end -}}
{{- end -}}
{{- if $isMap -}}
{{- $beside := kindIs "map" .known | ternary .known dict -}}
{{- range $key := $schema.required -}}
{{- if not (or (hasKey $value $key) (hasKey $beside $key)) -}}
{{- $wrong = append $wrong (printf "%s is missing beside it" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $item := $value -}}
{{- with $schema.propertyNames -}}
{{- $wrong = concat $wrong (include "sweep.schema" (dict "all" $.all "schema" . "value" $key) | fromJsonArray) -}}
{{- end -}}
{{- $below := list -}}
{{- if hasKey ($schema.properties | default dict) $key -}}
{{- $below = append $below (get $schema.properties $key) -}}
{{- end -}}
{{- range $pattern, $for := $schema.patternProperties -}}
{{- if regexMatch $pattern $key -}}{{- $below = append $below $for -}}{{- end -}}
{{- end -}}
{{- if and (not $below) (hasKey $schema "additionalProperties") -}}
{{- if kindIs "map" $schema.additionalProperties -}}
{{- $below = append $below $schema.additionalProperties -}}
{{- else -}}
{{- $wrong = append $wrong (printf "there is no %s here" $key) -}}
{{- end -}}
{{- end -}}
{{- range $below -}}
{{- $wrong = concat $wrong (include "sweep.schema" (dict "all" $.all "schema" . "value" $item "known" (get $beside $key)) | fromJsonArray) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}
