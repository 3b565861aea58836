{{/*
The table of the trials, in one ConfigMap or several, and what its pods do with it (sweep.sh).
*/}}

{{- define "sweep.tables.mount" -}}/etc/allranks-trials{{- end -}}

{{/* The bytes of all lines, as they are on average over the whole grid. Takes the root context. */}}
{{- define "sweep.tables.bytes" -}}{{- include "allranks.once" (dict "ctx" . "what" "sweep.tables.bytes") -}}{{- end -}}
{{- define "sweep.tables.bytes.made" -}}
{{- $trials := include "sweep.count" . | int64 -}}
{{- $bytes := mul $trials (add1 (len (toString $trials))) -}}
{{- range $parameter := include "sweep.parameters" . | fromJsonArray -}}
{{- $words := 0 -}}
{{- if hasKey $parameter "range" -}}
{{- $words = mul $parameter.count (max (len (toJson $parameter.range.min)) (len (toJson $parameter.range.max)) (len (toJson $parameter.range.step))) -}}
{{- else -}}
{{- range $data := $parameter.values -}}
{{- $words = add $words (len (include "sweep.quoted" (kindIs "string" $data | ternary $data (toJson $data)))) -}}
{{- end -}}
{{- end -}}
{{- $bytes = add $bytes $trials (div (mul $words $trials) (max 1 $parameter.count)) -}}
{{- end -}}
{{- $bytes -}}
{{- end -}}

{{/* How many trials each ConfigMap has: about 256 KiB of them. Takes the root context. */}}
{{- define "sweep.tables.each" -}}
{{- $trials := include "sweep.count" . | int64 -}}
{{- $maps := add1 (div (include "sweep.tables.bytes" . | int64) 262144) -}}
{{- div (sub (add $trials $maps) 1) $maps -}}
{{- end -}}

{{/* The ConfigMaps: a JSON list of {name, key, from, to}. Takes the root context. */}}
{{- define "sweep.tables" -}}
{{- $trials := include "sweep.count" . | int64 -}}
{{- $trialsPerTable := include "sweep.tables.each" . | int64 -}}
{{- $maps := list -}}
{{- range $place, $from := untilStep 0 (int $trials) (int $trialsPerTable) -}}
{{- $maps = append $maps (dict
      "name" (include "allranks.names.part" (dict "ctx" $ "part" (printf "trials-%d" $place)))
      "key" (toString $place)
      "from" $from "to" (min (add $from $trialsPerTable) $trials)) -}}
{{- end -}}
{{- toJson $maps -}}
{{- end -}}

{{/* The volume that has them all. JSON list; takes the root context. */}}
{{- define "sweep.tables.volumes" -}}
{{- $sources := list -}}
{{- range include "sweep.tables" . | fromJsonArray -}}
{{- $sources = append $sources (dict "configMap" (dict "name" .name)) -}}
{{- end -}}
{{- list (dict "name" "trials" "projected" (dict "sources" $sources "defaultMode" 292)) | toJson -}}{{/* 0444 */}}
{{- end -}}

{{/* What a pod does with the words of its line ($allranks_1, $allranks_2, …): a shell text that
     entry.sh reads. Takes the root context. */}}
{{- define "sweep.reaches" -}}
{{- $parameters := include "sweep.parameters" . | fromJsonArray -}}
{{- $values := include "sweep.values" . | fromJson -}}
# Made by the chart from sweep.parameters and read by entry.sh: where each parameter goes.
allranks_value() {
  case $1 in
    trial) allranks_text=$ALLRANKS_TRIAL_NAME ;;
{{- range $place, $parameter := $parameters }}
    {{ $parameter.name }}) allranks_text=$allranks_{{ add1 $place }} ;;
{{- end }}
    *)
      allranks_say "there is no parameter $1"
      exit 1
      ;;
  esac
}
{{- range $name, $value := $values.env }}
{{- if and (kindIs "string" $value) (contains "${sweep." (toString $value)) (ne (include "sweep.filled" $) "true") }}
allranks_fill "${{ $name }}"
export {{ $name }}="$allranks_filled"
{{- end }}
{{- end }}
{{- range $place, $parameter := $parameters }}
{{- with $parameter.env }}
export {{ . }}="$allranks_{{ add1 $place }}"
{{- end }}
{{- with $parameter.arg }}
set -- "$@" {{ include "sweep.quoted" . }}{{ hasSuffix "=" . | ternary "" " " }}"$allranks_{{ add1 $place }}"
{{- end }}
{{- end }}
{{ end -}}
