{{/*
What this chart refuses: what only `helm sweep` can do, what no grid is, and what no trial reads; and
of the trials what the torchrun chart refuses of a job.
*/}}

{{/* Fails with all that is wrong, or prints nothing. Takes the root context. */}}
{{- define "sweep.checks" -}}{{- include "allranks.once" (dict "ctx" . "what" "sweep.checks") -}}{{- end -}}
{{- define "sweep.checks.made" -}}
{{- $problems := list -}}
{{- range $rule := list "chart" "search" "trial" "parameters" -}}
{{- $problems = concat $problems (include (printf "sweep.checks.%s" $rule) $ | fromJsonArray) -}}
{{- end -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- $problems = include "sweep.checks.reaches" . | fromJsonArray -}}
{{- $problems = concat $problems (include "sweep.checks.size" . | fromJsonArray) -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- $trial := dict -}}
{{- include "sweep.context" (dict "ctx" . "result" $trial) -}}
{{- include "torchrun.checks.made" $trial.ctx -}}
{{- $problems = include "sweep.checks.mode" . | fromJsonArray -}}
{{- $problems = concat $problems (include "sweep.checks.tensorboard" . | fromJsonArray) -}}
{{- $problems = concat $problems (include "sweep.checks.choices" . | fromJsonArray) -}}
{{- include "allranks.checks.report" (dict "problems" $problems) -}}
{{- end -}}

{{- define "sweep.checks.chart" -}}
{{- $problems := list -}}
{{- if ne (toString .Values.workload) "sweep" -}}
{{- $problems = append $problems (printf "workload: these values are for %s and this chart is sweep; use charts/%s" .Values.workload .Values.workload) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "sweep.checks.search" -}}
{{- $problems := list -}}
{{- $sweep := .Values.sweep -}}
{{- if ne (lower $sweep.search) "grid" -}}
{{- $problems = append $problems (printf "sweep.search: plain Helm only knows grid, and this is %s; run it with helm sweep, or allranks sweep" $sweep.search) -}}
{{- end -}}
{{- if $sweep.earlyStopping.kind -}}
{{- $problems = append $problems "sweep.earlyStopping.kind: plain Helm does not read what trials say, so it can end none early; run it with helm sweep, or leave it empty" -}}
{{- end -}}
{{- $goal := ne (toString $sweep.objective.goal) "" -}}
{{- $missed := int $sweep.objective.missedExitCode -}}
{{- if and $goal (eq $missed 0) -}}
{{- $problems = append $problems "sweep.objective.goal: plain Helm does not read what trials say; have a trial that misses the goal end with an exit code, and name it in sweep.objective.missedExitCode, or run it with helm sweep" -}}
{{- end -}}
{{- if and (gt $missed 0) (ne (toString $sweep.maxFailedTrials) "") -}}
{{- $problems = append $problems "sweep.maxFailedTrials: with objective.missedExitCode every trial but the last fails; leave one of the two out" -}}
{{- end -}}
{{- /* An empty choice before it matches any text, so none is left but a pattern that is none. */ -}}
{{- if not (regexMatch (printf "|%s" $sweep.metrics.regex) "") -}}
{{- $problems = append $problems (printf "sweep.metrics.regex: %s is no regular expression of RE2's, which has no lookahead, lookbehind and back-references; put it right" $sweep.metrics.regex) -}}
{{- else if $sweep.metrics.regex -}}
{{- $groups := list -}}
{{- range regexFindAll `\(\?P?<\w+>` $sweep.metrics.regex -1 -}}
{{- $groups = append $groups (. | trimPrefix "(?" | trimPrefix "P" | trimPrefix "<" | trimSuffix ">") -}}
{{- end -}}
{{- if not (without $groups "step" "name") -}}
{{- $problems = append $problems "sweep.metrics.regex: has no named group that holds a value; name it after the metric, or value, such as acc (?P<accuracy>[0-9.]+)" -}}
{{- end -}}
{{- end -}}
{{- range .Values.runPolicy.fatalExitCodes -}}
{{- if and (gt $missed 0) (eq $missed (int .)) -}}
{{- $problems = append $problems (printf "sweep.objective.missedExitCode: %d is one of runPolicy.fatalExitCodes; use another" $missed) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "sweep.checks.trial" -}}
{{- $problems := list -}}
{{- $trial := .Values.sweep.trial -}}
{{- if not (has $trial.workload (list "" "torchrun")) -}}
{{- $problems = append $problems (printf "sweep.trial.workload: plain Helm has trials of one program or of torchrun, and %s is neither; run it with helm sweep" $trial.workload) -}}
{{- end -}}
{{- if $trial.chart -}}
{{- $problems = append $problems "sweep.trial.chart: a chart has no other one inside; run it with helm sweep" -}}
{{- end -}}
{{- if $trial.file -}}
{{- $problems = append $problems "sweep.trial.file: a chart reads no files of yours; write the values under sweep.trial.values, or run it with helm sweep" -}}
{{- end -}}
{{- if and (hasKey $trial.values "torchrun") (ne $trial.workload "torchrun") -}}
{{- $problems = append $problems "sweep.trial.values.torchrun: the trial does not run torchrun; set sweep.trial.workload to torchrun, or remove it" -}}
{{- end -}}
{{- $torchrunValues := .Files.Get "torchrun/values.yaml" | fromYaml -}}
{{- range $key := keys $trial.values | sortAlpha -}}
{{- if not (hasKey $torchrunValues $key) -}}
{{- $problems = append $problems (printf "sweep.trial.values.%s: no trial has such a value; use one of %s" $key (keys $torchrunValues | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if eq (get (get $trial.values "torchrun" | default dict) "controller" | toString) "StatefulSet" -}}
{{- $problems = append $problems "sweep.trial.values.torchrun.controller: a StatefulSet never ends, and a trial must; use Job" -}}
{{- end -}}
{{- range $key := list "preset" "layout" -}}
{{- if get $trial.values $key -}}
{{- $problems = append $problems (printf "sweep.trial.values.%s: it is about the whole release; write it at the root" $key) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* Each parameter by itself. */}}
{{- define "sweep.checks.parameters" -}}
{{- $problems := list -}}
{{- if not .Values.sweep.parameters -}}
{{- $problems = append $problems "sweep.parameters: empty, so there is nothing to try; name one, as in {lr: {values: [0.1, 0.01], arg: --lr}}" -}}
{{- end -}}
{{- range $name, $definition := .Values.sweep.parameters -}}
{{- $at := printf "sweep.parameters.%s" $name -}}
{{- if eq $name "trial" -}}
{{- $problems = append $problems (printf "%s: ${sweep.trial} is the trial's own name; call the parameter something else" $at) -}}
{{- end -}}
{{- $spaces := list -}}
{{- range $space := list "values" "range" "quantized" "uniform" "logUniform" "intUniform" -}}
{{- if hasKey $definition $space -}}{{- $spaces = append $spaces $space -}}{{- end -}}
{{- end -}}
{{- if ne (len $spaces) 1 -}}
{{- $problems = append $problems (printf "%s: %s; give one of values, range, quantized, uniform, logUniform and intUniform" $at ($spaces | join " and " | default "nothing to choose from")) -}}
{{- else if has (first $spaces) (list "uniform" "logUniform" "intUniform") -}}
{{- $problems = append $problems (printf "%s.%s: a grid has no numbers at random; give values or a range, or run it with helm sweep and search random or tpe" $at (first $spaces)) -}}
{{- else if hasKey $definition "values" -}}
{{- if not $definition.values -}}
{{- $problems = append $problems (printf "%s.values: empty; give at least one" $at) -}}
{{- end -}}
{{- $earlierValues := dict -}}
{{- range $place, $value := $definition.values -}}
{{- $written := kindIs "string" $value | ternary $value (toJson $value) -}}
{{- if eq (include "sweep.checks.exact" $value) "false" -}}
{{- $problems = append $problems (printf "%s.values[%d]: Helm reads this number as %s, and holds whole numbers below 9007199254740992 exactly; quote it" $at $place $written) -}}
{{- else if hasKey $earlierValues $written -}}
{{- $problems = append $problems (printf "%s.values[%d]: %q is given twice; keep one of the two" $at $place $written) -}}
{{- end -}}
{{- $_ := set $earlierValues $written true -}}
{{- end -}}
{{- else -}}
{{- with get $definition (first $spaces) -}}
{{- if or (eq (include "sweep.checks.exact" .min) "false") (eq (include "sweep.checks.exact" .max) "false") -}}
{{- $problems = append $problems (printf "%s.%s: Helm holds whole numbers below 9007199254740992 exactly; give such numbers as values, in quotes" $at (first $spaces)) -}}
{{- else if gt (float64 .min) (float64 .max) -}}
{{- $problems = append $problems (printf "%s.%s: min %s is more than max %s; exchange them" $at (first $spaces) (toJson .min) (toJson .max)) -}}
{{- else if and (not (hasKey . "step")) (or (ne (floor .min) (float64 .min)) (ne (floor .max) (float64 .max))) -}}
{{- $problems = append $problems (printf "%s.%s: step is missing; write how far apart the values are, as in step: 0.1" $at (first $spaces)) -}}
{{- else if and (hasKey . "step") (le (float64 .step) 0.0) -}}
{{- $problems = append $problems (printf "%s.%s.step: must be over 0; use a positive number" $at (first $spaces)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* "false" for a number without quotes that may have lost digits: Helm reads a float64. */}}
{{- define "sweep.checks.exact" -}}
{{- if or (kindIs "string" .) (kindIs "bool" .) -}}
{{- else if or (ge (float64 .) 9007199254740992.0) (le (float64 .) -9007199254740992.0) -}}false
{{- end -}}
{{- end -}}

{{/* Where the parameters go. */}}
{{- define "sweep.checks.reaches" -}}
{{- $problems := list -}}
{{- $trialValues := include "sweep.values" . | fromJson -}}
{{- $text := toJson $trialValues -}}
{{- $parameters := include "sweep.parameters" . | fromJsonArray -}}
{{- $pathsOfEnv := dict -}}
{{- $takenPaths := dict -}}
{{- $takenArgs := dict -}}
{{- $names := list -}}
{{- range $parameter := $parameters -}}
{{- $at := printf "sweep.parameters.%s" $parameter.name -}}
{{- $names = append $names $parameter.name -}}
{{- if not (or $parameter.arg $parameter.env $parameter.paths (contains (printf "${sweep.%s}" $parameter.name) $text)) -}}
{{- $problems = append $problems (printf "%s: reaches nothing; add arg: --%s or env: %s to it, or write ${sweep.%s} in a string of the trial" $at $parameter.name (regexReplaceAll "[^A-Z0-9_]" (upper $parameter.name) "_") $parameter.name) -}}
{{- end -}}
{{- range $path := $parameter.paths -}}
{{- with get $takenPaths $path -}}
{{- $problems = append $problems (printf "%s.path: %s is set by %s too; give one of them another path" $at $path .) -}}
{{- end -}}
{{- $_ := set $takenPaths $path $at -}}
{{- $plain := and (eq (splitList "." $path | first) "torchrun") (ne $.Values.sweep.trial.workload "torchrun") -}}
{{- if or $plain (ne (include "sweep.exists" (dict "values" $trialValues "path" (splitList "." $path))) "true") -}}
{{- $problems = append $problems (printf "%s.path: a trial has no value %s; look it up in the README of charts/%s" $at $path ($.Values.sweep.trial.workload | default "sweep")) -}}
{{- else if or (has (splitList "." $path | first) (list "workload" "preset" "layout" "command" "args" "script" "setup")) (hasPrefix "storage." $path) -}}
{{- $problems = append $problems (printf "%s.path: %s is what all trials share, or a list; use arg, env or a placeholder" $at $path) -}}
{{- end -}}
{{- end -}}
{{- with $parameter.arg -}}
{{- with get $takenArgs . -}}
{{- $problems = append $problems (printf "%s.arg: %s is set by %s too; give one of them another" $at $parameter.arg .) -}}
{{- end -}}
{{- $_ := set $takenArgs . $at -}}
{{- end -}}
{{- with $parameter.env -}}
{{- if or (hasKey $trialValues.env .) (hasKey $pathsOfEnv .) -}}
{{- $problems = append $problems (printf "%s.env: %s is set by %s too; use another name, or remove it there" $at . (get $pathsOfEnv . | default "env")) -}}
{{- else if and (eq . "ALLRANKS_TRIAL_NAME") (get $.Values.layout "trial") -}}
{{- /* The one parameter of a release that is a trial of `helm sweep`. */ -}}
{{- else if or (hasPrefix "PET_" .) (hasPrefix "ALLRANKS_" .) (eq . "JOB_COMPLETION_INDEX") -}}
{{- $problems = append $problems (printf "%s.env: the workload sets %s itself; use another name" $at .) -}}
{{- end -}}
{{- $_ := set $pathsOfEnv . $at -}}
{{- end -}}
{{- end -}}
{{- if ne (include "sweep.filled" .) "true" -}}
{{- range $reference := regexFindAll "[$][{]sweep[.][^}\"]*[}]?" $text -1 | uniq -}}
{{- $name := trimPrefix "${sweep." $reference | trimSuffix "}" -}}
{{- if or (not (hasSuffix "}" $reference)) (not (has $name (append $names "trial"))) -}}
{{- $problems = append $problems (printf "sweep.parameters: %s stands in the values, and there is no parameter of that name; use one of %s" $reference (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $trialValues.env -}}
{{- if and (contains "${sweep." (toString $value)) (not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $name)) -}}
{{- $problems = append $problems (printf "env.%s: a shell fills in the placeholder, and knows no variable of that name; use letters, digits and _" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* How many trials there are, before anything is made for each. */}}
{{- define "sweep.checks.size" -}}
{{- $problems := list -}}
{{- $sweep := .Values.sweep -}}
{{- $grid := include "sweep.grid" (include "sweep.parameters" . | fromJsonArray) | int64 -}}
{{- $trials := include "sweep.count" . | int64 -}}
{{- $whole := ge $grid 1000000000000 | ternary "10^12 or more" (toString $grid) -}}
{{- if gt (int64 $sweep.trials) $grid -}}
{{- $problems = append $problems (printf "sweep.trials: %d is more than the grid has, which is %s; use 0 for all of them" (int64 $sweep.trials) $whole) -}}
{{- else if gt $trials 10000 -}}
{{- $problems = append $problems (printf "sweep.parameters: a grid of %s trials, and one release has at most 10000; set sweep.trials to have the first of them, or run it with helm sweep" (gt (int64 $sweep.trials) 0 | ternary (toString $trials) $whole)) -}}
{{- else -}}
{{- $values := include "sweep.values" . | fromJson -}}
{{- $table := include "sweep.tables.bytes" . | int64 -}}
{{- $bytes := add $table (len $values.script) (len $values.setup) -}}
{{- if gt $bytes 716800 -}}
{{- $problems = append $problems (printf "sweep.parameters: the table of %s with script and setup has %d bytes, and a release has room for 716800; set sweep.trials to less, use shorter choices, or run it with helm sweep" (include "allranks.words.count" (list $trials "trial")) $bytes) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What follows from how many pods a trial has. */}}
{{- define "sweep.checks.mode" -}}
{{- $problems := list -}}
{{- $sweep := .Values.sweep -}}
{{- $trials := include "sweep.count" . | int64 -}}
{{- if eq (include "sweep.mode" .) "sets" -}}
{{- if gt $trials 100 -}}
{{- $problems = append $problems (printf "sweep.parameters: each of the %s has objects of its own here, and one release has room for 100; set sweep.trials, or run it with helm sweep" (include "allranks.words.count" (list $trials "trial"))) -}}
{{- end -}}
{{- if and (gt (int64 $sweep.parallel) 0) (lt (int64 $sweep.parallel) $trials) -}}
{{- $problems = append $problems "sweep.parallel: trials with objects of their own all start at once in plain Helm; use 0, a queue, or helm sweep" -}}
{{- end -}}
{{- if ne (toString $sweep.maxFailedTrials) "" -}}
{{- $problems = append $problems "sweep.maxFailedTrials: nothing counts trials with objects of their own in plain Helm; leave it \"\", or run it with helm sweep" -}}
{{- end -}}
{{- if $sweep.objective.missedExitCode -}}
{{- $problems = append $problems "sweep.objective.missedExitCode: nothing counts trials with objects of their own in plain Helm; leave it 0, or run it with helm sweep" -}}
{{- end -}}
{{- $trial := dict -}}
{{- include "sweep.context" (dict "ctx" . "result" $trial) -}}
{{- $problems = concat $problems (include "sweep.checks.pods" $trial.ctx | fromJsonArray) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{/* What a good job may have, and no trial of it. JSON list; takes the context of a trial. */}}
{{- define "sweep.checks.pods" -}}
{{- $problems := list -}}
{{- $nodes := int64 (include "allranks.layout" . | fromJson).maxNodes -}}
{{- if and (gt $nodes 1) (ne .Whole.Values.sweep.trial.workload "torchrun") -}}
{{- $problems = append $problems (printf "nodes: a trial of %s needs something that runs it; set sweep.trial.workload to torchrun, or use one node" (include "allranks.words.count" (list $nodes "pod"))) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}

{{- define "sweep.checks.tensorboard" -}}
{{- $problems := list -}}
{{- with .Values.sweep.tensorboard -}}
{{- if and .enabled (not (hasKey (include "allranks.storage.enabled" $ | fromJson) .volume)) -}}
{{- $problems = append $problems (printf "sweep.tensorboard.volume: storage.%s is off; give it a size or an existingClaim, or name another volume" .volume) -}}
{{- end -}}
{{- /* A Service's name has at most 63. What trials add to the release's is shorter. */ -}}
{{- if and .enabled (gt (len $.Release.Name) 51) -}}
{{- $problems = append $problems (printf "release name: %q has %d characters, and the Service of sweep.tensorboard is named after it; use at most 51" $.Release.Name (len $.Release.Name)) -}}
{{- end -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
