{{/*
What the templates of this chart share.
*/}}

{{/* What all trials share: (dict "ctx" $ "result" $dict); sets result.ctx, a context for the torchrun
     chart's templates, and result.layout. */}}
{{- define "sweep.shared" -}}
{{- include "sweep.context" . -}}
{{- $_ := set .result "layout" (include "allranks.layout" .result.ctx | fromJson) -}}
{{- end -}}

{{/* A trial may fail so often: the pods that each start of it may lose, for each of its starts. */}}
{{- define "sweep.retries" -}}
{{- $attempts := add1 (int64 .ctx.Values.runPolicy.backoffLimit) -}}
{{- min 2147483647 (sub (mul $attempts (add1 (int64 .root.Values.sweep.retries))) 1) -}}
{{- end -}}

{{/* What the sweep is, for who reads its results in the cluster. Takes the root context. */}}
{{- define "sweep.about" -}}
{{- $sweep := .Values.sweep -}}
{{- $names := list -}}
{{- range include "sweep.parameters" . | fromJsonArray -}}{{- $names = append $names .name -}}{{- end -}}
{{- dict
      "parameters" $names
      "trials" (include "sweep.count" . | int64)
      "search" $sweep.search "order" $sweep.order "seed" (int64 $sweep.seed) "keep" $sweep.keep
      "objective" (omit $sweep.objective "missedExitCode")
      "earlyStopping" (pick $sweep.earlyStopping "kind" "minSteps" "reductionFactor" "warmupTrials")
      "metrics" $sweep.metrics
    | toJson -}}
{{- end -}}

{{/* The name of what shows the logs. Takes the root context. */}}
{{- define "sweep.tensorboard" -}}
{{- include "allranks.names.part" (dict "ctx" . "part" "tensorboard") -}}
{{- end -}}
