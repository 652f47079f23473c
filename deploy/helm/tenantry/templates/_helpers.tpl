{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "tenantry.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "tenantry.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenantry.labels" -}}
{{ include "tenantry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tenantry.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The container fields that the migration and the service share. */ -}}
{{- define "tenantry.container" -}}
image: {{ include "tenantry.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - name: TENANTRY_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.database.existingSecret }}
        key: {{ .Values.database.key }}
  {{- if .Values.redis.existingSecret }}
  - name: TENANTRY_REDIS_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.redis.existingSecret }}
        key: {{ .Values.redis.key }}
  {{- end }}
  - name: TENANTRY_LISTEN
    value: ":8080"
  - name: TENANTRY_ADMIN_LISTEN
    value: ":9090"
  - name: TENANTRY_PUBLIC_URL
    value: {{ .Values.publicURL | quote }}
  - name: TENANTRY_KEYSET_FILE
    value: /etc/tenantry/keyset/{{ .Values.keyset.key }}
  {{- with .Values.microsoft365 }}
  {{- if .clientID }}
  - name: TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_ID
    value: {{ .clientID | quote }}
  - name: TENANTRY_PROVIDERS_MICROSOFT365_CLIENT_CERTIFICATE_FILE
    value: /etc/tenantry/microsoft365/{{ .key }}
  {{- end }}
  {{- range $name, $value := .settings }}
  - name: TENANTRY_PROVIDERS_MICROSOFT365_{{ upper $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - name: TENANTRY_{{ upper $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range $name, $value := .Values.telemetry }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- with .Values.telemetrySecret }}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  # Secrets are mounted as folders: Kubernetes does not update a file that is mounted with subPath.
  - name: keyset
    mountPath: /etc/tenantry/keyset
    readOnly: true
  {{- if .Values.microsoft365.clientID }}
  - name: microsoft365
    mountPath: /etc/tenantry/microsoft365
    readOnly: true
  {{- end }}
{{- end }}
