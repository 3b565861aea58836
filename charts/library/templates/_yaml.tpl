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

{{/* A string, plain where that is safe. */}}
{{- define "allranks.yaml.string" -}}
{{- if and (regexMatch "^[A-Za-z/][A-Za-z0-9/._@-]*(:[A-Za-z0-9/._@-]+)*$" .)
           (not (has (lower .) (list "y" "n" "yes" "no" "on" "off" "true" "false" "null"))) -}}
{{- . -}}
{{- else -}}
{{- quote . -}}
{{- end -}}
{{- end -}}

{{/* A text of a ConfigMap: a literal block where that is exact, so that people can read it:
     (dict "text" $x "indent" 4). */}}
{{- define "allranks.yaml.text" -}}
{{- $clean := and
      (regexMatch "^[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} \\n]+$" .text)
      (not (regexMatch "(^[ \\n])|( \\n)|( $)|(\\n\\n$)" .text)) -}}
{{- if and $clean (hasSuffix "\n" .text) -}}
|
{{ trimSuffix "\n" .text | indent (int .indent) | include "allranks.yaml.blank" }}
{{- else if $clean -}}
|-
{{ .text | indent (int .indent) | include "allranks.yaml.blank" }}
{{- else -}}
{{- quote .text -}}
{{- end -}}
{{- end -}}

{{/* Lines of blanks only, without the blanks. */}}
{{- define "allranks.yaml.blank" -}}
{{- regexReplaceAllLiteral "(?m)^ +$" . "" -}}
{{- end -}}
