{{/*
Kubernetes quantities, multiplied exactly.

The unit is the user's choice and is kept: 180Gi eight times is 1440Gi, 500m three times is 1500m,
1.5Gi eight times is 12Gi. The digits are taken as one whole number and the point is put back, so
no float is involved. generator/allranks/model/quantity.py follows the same rule; a test holds
them equal.
*/}}

{{/* (dict "quantity" "1.5Gi" "count" 8 "path" "shm.sizePerGpu"): the product, as a string. */}}
{{- define "allranks.quantity.multiply" -}}
{{- $text := include "allranks.quantity.text" .quantity -}}
{{- $number := regexFind "^[+]?[0-9]*\\.?[0-9]*" $text -}}
{{- $suffix := trimPrefix $number $text -}}
{{- $number = trimPrefix "+" $number -}}
{{- $parts := splitList "." $number -}}
{{- $fraction := ternary (last $parts) "" (gt (len $parts) 1) -}}
{{- $digits := printf "%s%s" (first $parts) $fraction -}}
{{- if or (eq $digits "") (not (regexMatch "^([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$" $suffix)) -}}
{{- fail (printf "ERROR: %s: %q is not a Kubernetes quantity; write a number with a unit, as in 180Gi or 500m" .path $text) -}}
{{- end -}}
{{- if gt (len (regexReplaceAll "^0+" $digits "")) 12 -}}
{{- fail (printf "ERROR: %s: %q has more digits than a template can multiply exactly; use a larger unit" .path $text) -}}
{{- end -}}
{{- $product := mul (atoi $digits) (int64 .count) | toString -}}
{{- with len $fraction -}}
{{- $padded := printf "%s%s" (repeat . "0") $product -}}
{{- $split := sub (len $padded) . | int -}}
{{- $whole := regexReplaceAll "^0+" (substr 0 $split $padded) "" | default "0" -}}
{{- $rest := regexReplaceAll "0+$" (substr $split (len $padded) $padded) "" -}}
{{- $product = ternary (printf "%s.%s" $whole $rest) $whole (ne $rest "") -}}
{{- end -}}
{{- printf "%s%s" $product $suffix -}}
{{- end -}}

{{/* A quantity as text, whether it was typed as a string or as a number. */}}
{{- define "allranks.quantity.text" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- toJson . -}}{{- end -}}
{{- end -}}
