{{- define "functory.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What never changes: selectors of a Deployment cannot be changed. Takes (dict "root" $ "role" "worker"). */ -}}
{{- define "functory.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .role }}
app.kubernetes.io/component: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "functory.labels" -}}
{{ include "functory.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The alerts expect jobs that begin with "functory", and tell deployments apart by them. */ -}}
{{- define "functory.job" -}}
functory-{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end -}}

{{- define "functory.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "functory.secret" -}}
{{ include "functory.fullname" . }}-secrets
{{- end -}}

{{- /* The roles that the values turn on, with spaces between them. */ -}}
{{- define "functory.roles" -}}
{{- range $role := list "server" "router" "scheduler" "worker" "watcher" "gateway" -}}
{{- if (index $.Values $role).enabled }}{{ $role }} {{ end -}}
{{- end -}}
{{- end -}}
