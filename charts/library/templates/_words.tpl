{{/*
How numbers are said.
*/}}

{{/* A number and its noun, in the plural but for one: 1 GPU, 2 processes. (list 2 "process"). */}}
{{- define "allranks.words.count" -}}
{{- $number := index . 0 | int64 -}}
{{- $noun := index . 1 -}}
{{- $many := ternary (printf "%ses" $noun) (printf "%ss" $noun) (hasSuffix "s" $noun) -}}
{{- printf "%d %s" $number (ternary $noun $many (eq $number 1)) -}}
{{- end -}}
