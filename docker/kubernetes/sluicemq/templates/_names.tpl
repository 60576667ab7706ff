{{- define "sluicemq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluicemq.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "sluicemq.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sluicemq.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluicemq.selector" -}}
app.kubernetes.io/name: {{ include "sluicemq.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluicemq.labels" -}}
{{ include "sluicemq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Every node as NUMBER@HOST:PORT, by the stable names of the pods. */}}
{{- define "sluicemq.nodes" -}}
{{- $name := include "sluicemq.fullname" . -}}
{{- $nodes := list -}}
{{- range $ordinal := until (int .Values.replicaCount) -}}
{{- $host := printf "%s-%d.%s-headless.%s.svc.%s" $name $ordinal $name $.Release.Namespace $.Values.clusterDomain -}}
{{- $nodes = append $nodes (printf "%d@%s:%d" (add1 $ordinal) $host (int $.Values.service.ports.dist)) -}}
{{- end -}}
{{- join "," $nodes -}}
{{- end -}}
