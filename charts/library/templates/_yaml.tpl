{{/*
Printing YAML so that no reader can take a string for anything else.

A string is plain only where every YAML 1.1 and 1.2 reader agrees that it is one; all others are
double-quoted with ASCII escapes for what YAML calls unprintable. `1e-5`, `y`, `12:30`, a NEL or a
DEL character arrive as they were typed. Nothing here goes through `tpl`.
*/}}

{{/* A value as block YAML: (dict "value" $x). Maps are sorted; a null in a map is left out. Each line
     is printed as it comes: `append` copies its list, and a thousand lines would be copied each time. */}}
{{- define "allranks.yaml" -}}
{{- $value := .value -}}
{{- $between := "" -}}
{{- if and $value (kindIs "map" $value) -}}
{{- range $key, $below := $value -}}
{{- if not (kindIs "invalid" $below) -}}
{{- $text := include "allranks.yaml" (dict "value" $below) -}}
{{- $name := include "allranks.yaml.string" $key -}}
{{- if and $below (or (kindIs "map" $below) (kindIs "slice" $below)) -}}
{{- printf "%s%s:\n%s" $between $name (indent 2 $text) -}}
{{- else -}}
{{- printf "%s%s: %s" $between $name $text -}}
{{- end -}}
{{- $between = "\n" -}}
{{- end -}}
{{- end -}}
{{- else if and $value (kindIs "slice" $value) -}}
{{- range $item := $value -}}
{{- $text := include "allranks.yaml" (dict "value" $item) -}}
{{- printf "%s- %s" $between (indent 2 $text | trimPrefix "  ") -}}
{{- $between = "\n" -}}
{{- end -}}
{{- else if kindIs "string" $value -}}
{{- include "allranks.yaml.string" $value -}}
{{- else -}}
{{- toJson $value -}}
{{- end -}}
{{- end -}}

{{/* A string, plain where that is safe: letters, digits and /._@:- with a letter or / in front, and something
     behind each colon. No regular expression, which Helm compiles anew for each of a thousand strings. */}}
{{- define "allranks.yaml.string" -}}
{{- $letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/" -}}
{{- if and . (not (trimAll (printf "%s0123456789._@:-" $letters) .)) (not (trimAll $letters (substr 0 1 .)))
           (not (contains "::" .)) (not (hasSuffix ":" .))
           (not (has (lower .) (list "y" "n" "yes" "no" "on" "off" "true" "false" "null"))) -}}
{{- . -}}
{{- else -}}
{{- quote . -}}
{{- end -}}
{{- end -}}

{{/* A text of a ConfigMap: a literal block where that is exact, so that people can read it:
     (dict "text" $x "indent" 4). */}}
{{- define "allranks.yaml.text" -}}
{{- $ragged := or (hasPrefix "\n" .text) (hasPrefix " " .text) (hasSuffix " " .text) (hasSuffix "\n\n" .text) (contains " \n" .text) -}}
{{- /* ASCII is known without the regular expression, whose time is seen in texts of many kilobytes. */ -}}
{{- $ascii := "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~" -}}
{{- $readable := or (not (trimAll $ascii .text)) (regexMatch "^[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} \\n]+$" .text) -}}
{{- if and .text (not $ragged) $readable -}}
{{ hasSuffix "\n" .text | ternary "|" "|-" }}
{{ include "allranks.yaml.indented" . }}
{{- else -}}
{{- quote .text -}}
{{- end -}}
{{- end -}}

{{/* Its lines behind blanks, but for those that are empty. No line is of blanks alone before. Of three empty
     lines in a row the first pass finds the first and the third, so that two passes find all. */}}
{{- define "allranks.yaml.indented" -}}
{{- $blanks := repeat (int .indent) " " -}}
{{- $empty := printf "\n%s\n" $blanks -}}
{{- indent (int .indent) (trimSuffix "\n" .text) | replace $empty "\n\n" | replace $empty "\n\n" -}}
{{- end -}}
