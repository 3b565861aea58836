{{/*
The size of the job: how many pods, and what each of them has.

Where the generator ran, `.Values.layout` carries its result (it knows the cluster) and the chart
only places it. With plain Helm the homogeneous case is computed here, by the rules the generator
follows without an inventory; a test holds the two equal:

  gpus with gpusPerNode        exact: a remainder is refused, but MPI has a smaller last node for it
  gpus with nodes              must divide
  gpus with nodeShape.gpus     the fewest nodes n with gpus/n on each, no node over its capacity
  gpus alone                   one node; elastic: torchrun.elastic.maxNodes of them
  nodes (default 1, elastic: maxNodes) with gpusPerNode, or on CPUs
  procsPerNode                 one per GPU, one on CPUs; MPI's may be more, which share the GPUs

MPI also says its size as numWorkers (hosts besides a launcher without ranks) and slotsPerWorker. The
nodes of an elastic job are its workers, which it also says with their role; one process runs in each
but where torchrun does.
*/}}

{{/* JSON {nodes, procsPerNode, gpusPerNode, worldSize, minNodes, maxNodes, spares, hash, placement,
     problems}, and {lastGpusPerNode, lastProcsPerNode} where the last node is smaller; with problems
     the numbers are not to be used. Takes the root context. */}}
{{- define "allranks.layout" -}}
{{- $sizeValues := include "allranks.layout.asked" . | fromJson -}}
{{- $min := int64 $sizeValues.min -}}
{{- $max := int64 $sizeValues.max -}}
{{- $layoutValues := .Values.layout -}}
{{- $layout := dict "problems" list "spares" (int64 (get (index .Values .Values.workload) "spares")) -}}
{{- if $layoutValues -}}
{{- range $key := list "nodes" "procsPerNode" "gpusPerNode" "worldSize" "minNodes" "maxNodes" -}}
{{- $_ := set $layout $key (get $layoutValues $key | int64) -}}
{{- end -}}
{{- range $key := list "lastGpusPerNode" "lastProcsPerNode" -}}
{{- if hasKey $layoutValues $key -}}{{- $_ := set $layout $key (get $layoutValues $key | int64) -}}{{- end -}}
{{- end -}}
{{- $_ := set $layout "hash" (get $layoutValues "hash" | default "") -}}
{{- $_ := set $layout "placement" (get $layoutValues "placement" | default dict) -}}
{{- $_ := set $layout "problems" (include "allranks.layout.contradictions" (dict "values" $sizeValues "layout" $layout "min" $min "max" $max) | fromJsonArray) -}}
{{- else -}}
{{- include "allranks.layout.compute" (dict "values" $sizeValues "layout" $layout "max" $max) -}}
{{- $procs := int64 (int64 $sizeValues.procsPerNode | default $layout.gpusPerNode | default 1) -}}
{{- $_ := set $layout "procsPerNode" $procs -}}
{{- with $layout.lastGpusPerNode -}}
{{- $_ := set $layout "lastProcsPerNode" (ternary (div (mul $procs .) $layout.gpusPerNode) (min $procs .) (gt $procs (int64 $layout.gpusPerNode))) -}}
{{- end -}}
{{- $_ := set $layout "worldSize" (include "allranks.layout.ranks" $layout | int64) -}}
{{- $_ := set $layout "minNodes" (ternary $min $layout.nodes (gt $max 0)) -}}
{{- $_ := set $layout "maxNodes" (ternary $max $layout.nodes (gt $max 0)) -}}
{{- include "allranks.layout.bounds" (dict "layout" $layout "elastic" (gt $max 0) "shared" $sizeValues.shared) -}}
{{- $_ := set $layout "hash" "" -}}
{{- $_ := set $layout "placement" dict -}}
{{- end -}}
{{- toJson $layout -}}
{{- end -}}

{{/* The numbers that the layout follows from, whatever the workload calls them. JSON. */}}
{{- define "allranks.layout.asked" -}}
{{- $own := index .Values .Values.workload -}}
{{- $sizeValues := dict
      "gpus" .Values.gpus
      "nodes" .Values.nodes
      "gpusPerNode" .Values.gpusPerNode
      "procsPerNode" .Values.procsPerNode
      "capacity" .Values.nodeShape.gpus
      "uneven" false
      "shared" (eq .Values.workload "mpi") -}}
{{- if eq .Values.workload "elastic" -}}
{{- $sizeValues = merge (include "elastic.size" . | fromJson) $sizeValues -}}
{{- else -}}
{{- with int64 (get $own "numWorkers") -}}
{{- $_ := set $sizeValues "nodes" (int64 $sizeValues.nodes | default (ternary (add1 .) . $own.runLauncherAsWorker | int64)) -}}
{{- end -}}
{{- $_ := set $sizeValues "procsPerNode" (int64 $sizeValues.procsPerNode | default (int64 (get $own "slotsPerWorker"))) -}}
{{- $_ := set $sizeValues "min" (int64 (get $own.elastic "minNodes")) -}}
{{- $_ := set $sizeValues "max" (int64 (get $own.elastic "maxNodes")) -}}
{{- $_ := set $sizeValues "uneven" (and (eq .Values.workload "mpi") (eq $sizeValues.max 0)) -}}
{{- end -}}
{{- toJson $sizeValues -}}
{{- end -}}

{{/* The ranks of a layout: the last node may have fewer. */}}
{{- define "allranks.layout.ranks" -}}
{{- $all := mul .nodes .procsPerNode -}}
{{- if hasKey . "lastProcsPerNode" -}}
{{- $all = sub (add $all .lastProcsPerNode) .procsPerNode -}}
{{- end -}}
{{- $all -}}
{{- end -}}

{{/* The GPUs of the first `nodes` nodes: (dict "layout" $layout "nodes" 2). */}}
{{- define "allranks.layout.gpus" -}}
{{- $all := mul .nodes .layout.gpusPerNode -}}
{{- if hasKey .layout "lastGpusPerNode" -}}
{{- $all = sub (add $all .layout.lastGpusPerNode) .layout.gpusPerNode -}}
{{- end -}}
{{- $all -}}
{{- end -}}

{{/* Sets nodes, gpusPerNode and problems of .layout: (dict "values" .. "layout" .. "max" ..). */}}
{{- define "allranks.layout.compute" -}}
{{- $gpus := int64 .values.gpus -}}
{{- $nodes := int64 .values.nodes -}}
{{- $perNode := int64 .values.gpusPerNode -}}
{{- $capacity := int64 .values.capacity -}}
{{- $problems := list -}}
{{- if and (gt $capacity 0) (gt $perNode $capacity) -}}
{{- $problems = append $problems (printf "gpusPerNode: %s %s a node of %d (nodeShape.gpus); use at most %d" (include "allranks.words.count" (list $perNode "GPU")) (ternary "does not fit" "do not fit" (eq $perNode 1)) $capacity $capacity) -}}
{{- end -}}
{{- if and (gt $gpus 0) (gt $perNode 0) -}}
{{- $count := div $gpus $perNode -}}
{{- $rest := mod $gpus $perNode -}}
{{- if and .values.uneven (gt $count 0) (gt $rest 0) -}}
{{- $count = add1 $count -}}
{{- $_ := set .layout "lastGpusPerNode" $rest -}}
{{- if and (gt $nodes 0) (ne $nodes $count) -}}
{{- $problems = append $problems (printf "nodes: %s on nodes of %d need %s, and nodes is %d; leave one of the three out" (include "allranks.words.count" (list $gpus "GPU")) $perNode (include "allranks.words.count" (list $count "node")) $nodes) -}}
{{- end -}}
{{- else if ne $rest 0 -}}
{{- $problems = append $problems (printf "gpus: %s cannot be split into nodes of %d; use %s%d, or another gpusPerNode" (include "allranks.words.count" (list $gpus "GPU")) $perNode (ternary (printf "%d or " (mul $count $perNode)) "" (gt $count 0)) (mul (add $count 1) $perNode)) -}}
{{- else if and (gt $nodes 0) (ne $nodes $count) -}}
{{- $problems = append $problems (printf "nodes: %s with %s each have %s in all, and gpus is %d; leave one of the three out" (include "allranks.words.count" (list $nodes "node")) (include "allranks.words.count" (list $perNode "GPU")) (include "allranks.words.count" (list (mul $nodes $perNode) "GPU")) $gpus) -}}
{{- end -}}
{{- $nodes = max 1 $count -}}
{{- else if gt $gpus 0 -}}
{{- if and (eq $nodes 0) (gt $capacity 0) -}}
{{- $nodes = div (add $gpus $capacity -1) $capacity -}}
{{- range $count := untilStep (int $nodes) (int (add $gpus 1)) 1 -}}
{{- if eq (mod $gpus $count) 0 -}}{{- $nodes = $count -}}{{- break -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $nodes = int64 ($nodes | default .max | default 1) -}}
{{- $perNode = div $gpus $nodes -}}
{{- if ne (mod $gpus $nodes) 0 -}}
{{- $problems = append $problems (printf "gpus: %s cannot be split equally over %s; use %s%d, or another number of nodes" (include "allranks.words.count" (list $gpus "GPU")) (include "allranks.words.count" (list $nodes "node")) (ternary (printf "%d or " (mul $perNode $nodes)) "" (gt $perNode 0)) (mul (add $perNode 1) $nodes)) -}}
{{- else if and (gt $capacity 0) (gt $perNode $capacity) -}}
{{- $problems = append $problems (printf "nodes: %s on %s are %d on each, and a node has %d (nodeShape.gpus); use at least %s" (include "allranks.words.count" (list $gpus "GPU")) (include "allranks.words.count" (list $nodes "node")) $perNode $capacity (include "allranks.words.count" (list (div (add $gpus $capacity -1) $capacity) "node"))) -}}
{{- end -}}
{{- else -}}
{{- $nodes = int64 ($nodes | default .max | default 1) -}}
{{- end -}}
{{- $_ := set .layout "nodes" $nodes -}}
{{- $_ := set .layout "gpusPerNode" $perNode -}}
{{- $_ := set .layout "problems" $problems -}}
{{- end -}}

{{/* Appends to .layout.problems what does not fit into its bounds:
     (dict "layout" .. "elastic" true "shared" false), shared where ranks may share a GPU. */}}
{{- define "allranks.layout.bounds" -}}
{{- $layout := .layout -}}
{{- if and .elastic (or (lt $layout.nodes $layout.minNodes) (gt $layout.nodes $layout.maxNodes)) -}}
{{- $problem := printf "nodes: %d is not between minNodes %d and maxNodes %d of the elastic range; widen the range, or ask for another size" $layout.nodes $layout.minNodes $layout.maxNodes -}}
{{- $_ := set $layout "problems" (append $layout.problems $problem) -}}
{{- end -}}
{{- if and (gt $layout.gpusPerNode 0) (gt $layout.procsPerNode $layout.gpusPerNode) -}}
{{- if and .shared (hasKey $layout "lastGpusPerNode") (ne (mod (mul $layout.procsPerNode $layout.lastGpusPerNode) $layout.gpusPerNode) 0) -}}
{{- $problem := printf "procsPerNode: %s share %s of a node, and the last node has %d: its share is no whole number; use %d, or a multiple of gpusPerNode for gpus" (include "allranks.words.count" (list $layout.procsPerNode "process")) (include "allranks.words.count" (list $layout.gpusPerNode "GPU")) $layout.lastGpusPerNode (mul (div $layout.procsPerNode $layout.gpusPerNode) $layout.gpusPerNode) -}}
{{- $_ := set $layout "problems" (append $layout.problems $problem) -}}
{{- else if not .shared -}}
{{- $problem := printf "procsPerNode: %s would share %s of a node, and each needs its own; use at most %d, or leave it out" (include "allranks.words.count" (list $layout.procsPerNode "process")) (include "allranks.words.count" (list $layout.gpusPerNode "GPU")) $layout.gpusPerNode -}}
{{- $_ := set $layout "problems" (append $layout.problems $problem) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where a given layout and the values disagree. JSON list. */}}
{{- define "allranks.layout.contradictions" -}}
{{- $problems := list -}}
{{- $layout := .layout -}}
{{- $fix := "run allranks render again with these values, or leave layout empty" -}}
{{- range $key := list "nodes" "procsPerNode" "worldSize" -}}
{{- if lt (get $layout $key) 1 -}}
{{- $problems = append $problems (printf "layout.%s: must be at least 1; %s" $key $fix) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $layout "lastProcsPerNode" -}}
{{- if not .values.uneven -}}
{{- $problems = append $problems (printf "layout.lastProcsPerNode: only MPI with a fixed number of nodes has a smaller last node; %s" $fix) -}}
{{- else if or (lt $layout.nodes 2) (lt $layout.lastProcsPerNode 1) (gt $layout.lastProcsPerNode $layout.procsPerNode) -}}
{{- $problems = append $problems (printf "layout.lastProcsPerNode: %d is not possible for the last of %s with %s each; %s" $layout.lastProcsPerNode (include "allranks.words.count" (list $layout.nodes "node")) (include "allranks.words.count" (list $layout.procsPerNode "process")) $fix) -}}
{{- end -}}
{{- end -}}
{{- if ne (include "allranks.layout.ranks" $layout | int64) $layout.worldSize -}}
{{- $problems = append $problems (printf "layout.worldSize: %d contradicts %s with %s each; %s" $layout.worldSize (include "allranks.words.count" (list $layout.nodes "node")) (include "allranks.words.count" (list $layout.procsPerNode "process")) $fix) -}}
{{- end -}}
{{- if or (lt $layout.nodes $layout.minNodes) (gt $layout.nodes $layout.maxNodes) -}}
{{- $problems = append $problems (printf "layout.nodes: %d is not between minNodes %d and maxNodes %d; %s" $layout.nodes $layout.minNodes $layout.maxNodes $fix) -}}
{{- end -}}
{{- $total := include "allranks.layout.gpus" (dict "layout" $layout "nodes" $layout.nodes) | int64 -}}
{{- if ne (int64 .values.gpus | default $total) $total -}}
{{- $problems = append $problems (printf "layout: %s in all contradicts gpus %d; %s" (include "allranks.words.count" (list $total "GPU")) (int64 .values.gpus) $fix) -}}
{{- end -}}
{{- range $key := list "nodes" "gpusPerNode" "procsPerNode" -}}
{{- $userAmount := get $.values $key | int64 -}}
{{- if and (ne $userAmount 0) (ne $userAmount (get $layout $key)) -}}
{{- $problems = append $problems (printf "layout.%s: %d contradicts %s %d; %s" $key (get $layout $key) $key $userAmount $fix) -}}
{{- end -}}
{{- end -}}
{{- if gt .max 0 -}}
{{- if or (ne .min $layout.minNodes) (ne .max $layout.maxNodes) -}}
{{- $problems = append $problems (printf "layout: %d to %s contradicts an elastic range of %d to %d; %s" $layout.minNodes (include "allranks.words.count" (list $layout.maxNodes "node")) .min .max $fix) -}}
{{- end -}}
{{- else if ne $layout.minNodes $layout.maxNodes -}}
{{- $problems = append $problems (printf "layout: %d to %s, and the values ask for a fixed number; %s" $layout.minNodes (include "allranks.words.count" (list $layout.maxNodes "node")) $fix) -}}
{{- end -}}
{{- toJson $problems -}}
{{- end -}}
