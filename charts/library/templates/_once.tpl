{{/*
What a chart works out once, and not in each of its files.
*/}}

{{/* What a define prints: (dict "ctx" $ "what" "torchrun.checks") of "torchrun.checks.made". Helm renders
     all files of a chart with one and the same .Release, which is where it is kept. */}}
{{- define "allranks.once" -}}
{{- $cacheKey := printf "kept:%s" .what -}}
{{- if not (hasKey .ctx.Release $cacheKey) -}}
{{- $_ := set .ctx.Release $cacheKey (include (printf "%s.made" .what) .ctx) -}}
{{- end -}}
{{- get .ctx.Release $cacheKey -}}
{{- end -}}
