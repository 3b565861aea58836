{{/*
Strategic merge, as Kubernetes documents it for a PodTemplateSpec. `podTemplate` is merged last by
it, over all that the chart renders.

- A map merges key by key; a null deletes the key.
- These lists merge item by item, by the key Kubernetes gives them:
    containers, initContainers, ephemeralContainers, imagePullSecrets, schedulingGates   name
    volumes, env, resourceClaims                  name; the item keeps only the keys of the patch
    volumeMounts                                  mountPath
    volumeDevices                                 devicePath
    ports                                         containerPort and protocol (TCP where not given)
    hostAliases                                   ip
    topologySpreadConstraints                     topologyKey and whenUnsatisfiable
    ownerReferences                               uid
  An item without a counterpart is appended. The keys that a patch of a volume or of a variable
  does not name are dropped (Kubernetes' "retainKeys"): a volume has one source, a variable one value.
- Every other list (tolerations, command, args, envFrom, ...) replaces.
- `$patch: delete` in an item removes it, in a map removes the map; `$patch: replace` replaces the
  map, or as an item of its own ({$patch: replace}) the whole list.
*/}}

{{/* In place: (dict "into" $map "patch" $map). Prints nothing; `patch` is left as it is. */}}
{{- define "allranks.merge" -}}
{{- $into := .into -}}
{{- $directive := get .patch "$patch" | default "merge" -}}
{{- if not (has $directive (list "merge" "replace" "delete")) -}}
{{- fail (printf "ERROR: podTemplate: $patch: %v is not a directive; use delete, replace or merge" $directive) -}}
{{- end -}}
{{- if eq $directive "replace" -}}
{{- range $key := keys $into -}}{{- $_ := unset $into $key -}}{{- end -}}
{{- end -}}
{{- range $key, $value := .patch -}}
{{- if eq $key "$patch" -}}
{{- else if hasPrefix "$" $key -}}
{{- fail (printf "ERROR: podTemplate: the directive %s is not supported; use $patch, or give the whole list" $key) -}}
{{- else if kindIs "invalid" $value -}}
{{- $_ := unset $into $key -}}
{{- else if kindIs "map" $value -}}
{{- if eq (get $value "$patch" | toString) "delete" -}}
{{- $_ := unset $into $key -}}
{{- else -}}
{{- $below := dict -}}
{{- if kindIs "map" (get $into $key) -}}{{- $below = get $into $key -}}{{- end -}}
{{- include "allranks.merge" (dict "into" $below "patch" $value) -}}
{{- $_ := set $into $key $below -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- $base := list -}}
{{- if kindIs "slice" (get $into $key) -}}{{- $base = get $into $key -}}{{- end -}}
{{- $result := dict -}}
{{- include "allranks.merge.list" (dict "field" $key "base" $base "patch" $value "result" $result) -}}
{{- $_ := set $into $key $result.list -}}
{{- else -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One list: (dict "field" "env" "base" $list "patch" $list "result" $dict); sets result.list.
     `append` copies its list, so what is in order stands in a map whose keys sort so: `order` has the
     items' ids by their places, `places` the reverse. */}}
{{- define "allranks.merge.list" -}}
{{- $strategy := include "allranks.merge.keys" .field -}}
{{- $order := dict -}}
{{- $places := dict -}}
{{- $items := dict -}}
{{- $plain := dict -}}
{{- $retain := has .field (list "volumes" "env" "resourceClaims") -}}
{{- if $strategy -}}
{{- range $number, $item := .base -}}
{{- $id := include "allranks.merge.id" (dict "item" $item "keys" $strategy) -}}
{{- $place := printf "0-%09d" $number -}}
{{- $_ := set $order $place $id -}}
{{- $_ := set $places $id $place -}}
{{- $_ := set $items $id $item -}}
{{- end -}}
{{- end -}}
{{- range $number, $item := .patch -}}
{{- $place := printf "1-%09d" $number -}}
{{- if not (kindIs "map" $item) -}}
{{- if not (kindIs "invalid" $item) -}}{{- $_ := set $plain $place $item -}}{{- end -}}
{{- else if and $strategy (eq (get $item "$patch" | toString) "replace") (eq (len $item) 1) -}}
{{- $order = dict -}}
{{- $items = dict -}}
{{- else if $strategy -}}
{{- $id := include "allranks.merge.id" (dict "item" $item "keys" $strategy) -}}
{{- if eq (get $item "$patch" | toString) "delete" -}}
{{- if hasKey $items $id -}}
{{- $_ := unset $order (get $places $id) -}}
{{- $_ := unset $items $id -}}
{{- end -}}
{{- else -}}
{{- $merged := get $items $id | default dict -}}
{{- include "allranks.merge" (dict "into" $merged "patch" $item) -}}
{{- if $retain -}}
{{- range $key := keys $merged -}}
{{- if not (hasKey $item $key) -}}{{- $_ := unset $merged $key -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (hasKey $items $id) -}}
{{- $_ := set $order $place $id -}}
{{- $_ := set $places $id $place -}}
{{- end -}}
{{- $_ := set $items $id $merged -}}
{{- end -}}
{{- else -}}
{{- $copy := dict -}}
{{- include "allranks.merge" (dict "into" $copy "patch" $item) -}}
{{- $_ := set $plain $place $copy -}}
{{- end -}}
{{- end -}}
{{- range $place, $id := $order -}}
{{- if hasKey $items $id -}}{{- $_ := set $plain (printf "2-%s" $place) (get $items $id) -}}{{- end -}}
{{- end -}}
{{- /* In runs, of which each is copied into the whole once. */ -}}
{{- $whole := list -}}
{{- $run := list -}}
{{- range $item := $plain -}}
{{- $run = append $run $item -}}
{{- if gt (len $run) 99 -}}
{{- $whole = concat $whole $run -}}
{{- $run = list -}}
{{- end -}}
{{- end -}}
{{- $_ := set .result "list" (concat $whole $run | default list) -}}{{/* and not null, where it is empty */}}
{{- end -}}

{{/* The merge keys of a list field, joined by commas; "" where the list is atomic. */}}
{{- define "allranks.merge.keys" -}}
{{- if has . (list "containers" "initContainers" "ephemeralContainers" "imagePullSecrets" "schedulingGates" "volumes" "env" "resourceClaims") -}}name
{{- else if eq . "volumeMounts" -}}mountPath
{{- else if eq . "volumeDevices" -}}devicePath
{{- else if eq . "ports" -}}containerPort,protocol
{{- else if eq . "hostAliases" -}}ip
{{- else if eq . "topologySpreadConstraints" -}}topologyKey,whenUnsatisfiable
{{- else if eq . "ownerReferences" -}}uid
{{- end -}}
{{- end -}}

{{/* What identifies an item: the values of its merge keys. */}}
{{- define "allranks.merge.id" -}}
{{- $item := .item -}}
{{- $values := list -}}
{{- range $key := splitList "," .keys -}}
{{- $default := ternary "TCP" "" (eq $key "protocol") -}}
{{- $values = append $values (get $item $key | default $default) -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}
