{{/* Names are fixed: a node has one nri-cpuset, and leaves it alone by this label. */}}
{{- define "nri-cpuset.labels" -}}
app.kubernetes.io/name: nri-cpuset
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "nri-cpuset.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The flags that differ from the program's defaults. */}}
{{- define "nri-cpuset.args" -}}
- run
{{- if or .Values.metrics.onNode (ne (int .Values.metrics.port) 9178) }}
- --listen={{ if not .Values.metrics.onNode }}127.0.0.1{{ end }}:{{ .Values.metrics.port }}
{{- end }}
{{- if ne .Values.nri.pluginIndex "10" }}
- --plugin-index={{ .Values.nri.pluginIndex }}
{{- end }}
{{- if not .Values.writeCgroups }}
- --cgroup-root=
{{- end }}
{{- if not .Values.kubelet.detectManagers }}
- --kubelet-root-dir=
{{- end }}
{{- if ne .Values.log.level "info" }}
- --log-level={{ .Values.log.level }}
{{- end }}
{{- if ne .Values.log.format "text" }}
- --log-format={{ .Values.log.format }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
