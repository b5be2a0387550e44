{{- define "llm-do.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "llm-do.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What finds the pods of a part; it must never change for a release. */}}
{{- define "llm-do.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "llm-do.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{/* What every program is told of the server, the keys and the blobs. */}}
{{- define "llm-do.env" -}}
- name: TEMPORAL_ADDRESS
  value: {{ .Values.temporal.address | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ .Values.temporal.namespace | quote }}
- name: LLM_DO_TASK_QUEUE
  value: {{ .Values.taskQueue | quote }}
- name: LLM_DO_WORKSHOP
  value: /workshop
{{- with .Values.temporal.tls }}
{{- if or .enabled .secretName }}
- name: TEMPORAL_TLS
  value: "true"
{{- end }}
{{- if .secretName }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /secrets/temporal/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /secrets/temporal/tls.key
{{- with .caKey }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /secrets/temporal/{{ . }}
{{- end }}
{{- end }}
{{- if .serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ .serverName | quote }}
{{- end }}
{{- end }}
{{- with .Values.temporal.apiKey }}
{{- if .secretName }}
- name: TEMPORAL_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .Values.encryption }}
{{- if .secretName }}
- name: LLM_DO_ENCRYPTION
  value: required
- name: LLM_DO_ENCRYPTION_KEY_FILE
  value: /secrets/encryption/{{ .key }}
{{- end }}
{{- end }}
{{- with .Values.blobs }}
{{- if .url }}
- name: LLM_DO_BLOBS_URL
  value: {{ .url | quote }}
{{- end }}
{{- if .endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ .endpoint | quote }}
{{- end }}
{{- if .region }}
- name: AWS_REGION
  value: {{ .region | quote }}
{{- end }}
{{- end }}
{{- with .Values.page.url }}
- name: LLM_DO_UI_URL
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Where the program finds the workshop and the secrets; the root filesystem is read-only. */}}
{{- define "llm-do.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if or .Values.workshop.claim .Values.workshop.init }}
- name: workshop
  mountPath: /workshop
{{- end }}
{{- if .Values.temporal.tls.secretName }}
- name: temporal-tls
  mountPath: /secrets/temporal
  readOnly: true
{{- end }}
{{- if .Values.encryption.secretName }}
- name: encryption
  mountPath: /secrets/encryption
  readOnly: true
{{- end }}
{{- end }}

{{- define "llm-do.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 2Gi
{{- if .Values.workshop.claim }}
- name: workshop
  persistentVolumeClaim:
    claimName: {{ .Values.workshop.claim }}
{{- else if .Values.workshop.init }}
- name: workshop
  emptyDir: {}
{{- end }}
{{- if .Values.temporal.tls.secretName }}
- name: temporal-tls
  secret:
    secretName: {{ .Values.temporal.tls.secretName }}
    defaultMode: 0440
{{- end }}
{{- if .Values.encryption.secretName }}
- name: encryption
  secret:
    secretName: {{ .Values.encryption.secretName }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* Which machine a pod goes to: as given and, where the workshop wants that, beside the others of the release. The first
     of them finds only itself, which counts. */}}
{{- define "llm-do.affinity" -}}
{{- $affinity := deepCopy .given }}
{{- if .root.Values.workshop.oneMachine }}
{{- $labels := dict "app.kubernetes.io/name" .root.Chart.Name "app.kubernetes.io/instance" .root.Release.Name }}
{{- $beside := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) }}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (list $beside) }}
{{- $affinity = mergeOverwrite $affinity (dict "podAffinity" $required) }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* What no container may. */}}
{{- define "llm-do.confined" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}

{{/* What both pods are: whose, and what fills their workshop. */}}
{{- define "llm-do.pod" -}}
serviceAccountName: {{ include "llm-do.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- if .Values.workshop.init }}
initContainers:
{{- range .Values.workshop.init }}
  - volumeMounts:
      - name: workshop
        mountPath: /workshop
    {{- if not .securityContext }}
    securityContext: {{ include "llm-do.confined" $ | nindent 6 }}
    {{- end }}
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "llm-do.container" -}}
image: {{ include "llm-do.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{ include "llm-do.confined" . | nindent 2 }}
  readOnlyRootFilesystem: true
{{- end }}

{{/* Secrets whose keys are variables. */}}
{{- define "llm-do.envFrom" -}}
{{- range compact (list .Values.blobs.secretName .Values.models.secretName) }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- end }}

{{/* How KEDA asks the server; empty where that needs nothing. */}}
{{- define "llm-do.scalerSecrets" -}}
{{- with .Values.temporal.tls }}
{{- if .secretName }}
- parameter: cert
  name: {{ .secretName }}
  key: tls.crt
- parameter: key
  name: {{ .secretName }}
  key: tls.key
{{- with .caKey }}
- parameter: ca
  name: {{ $.Values.temporal.tls.secretName }}
  key: {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.temporal.apiKey }}
{{- if .secretName }}
- parameter: apiKey
  name: {{ .secretName }}
  key: {{ .key }}
{{- end }}
{{- end }}
{{- end }}

{{/* What answers browsers does so to its own names only. */}}
{{- define "llm-do.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  httpHeaders:
    - name: Host
      value: {{ first .hosts | quote }}
timeoutSeconds: 5
{{- end }}

{{/* Which machine a pod goes to, all of it. */}}
{{- define "llm-do.placement" -}}
{{- with .given.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .given.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with include "llm-do.affinity" (dict "root" .root "given" .given.affinity) }}
affinity: {{ . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A Service for what answers browsers, and an Ingress where that is wanted. */}}
{{- define "llm-do.door" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  labels: {{ include "llm-do.labels" .root | nindent 4 }}
spec:
  selector: {{ include "llm-do.selector" . | nindent 4 }}
  ports:
    - name: http
      port: 80
      targetPort: http
{{- if .given.ingress.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .name }}
  labels: {{ include "llm-do.labels" .root | nindent 4 }}
  {{- with .given.ingress.annotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .given.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .given.ingress.tlsSecretName }}
  tls:
    - hosts: {{ toYaml $.given.hosts | nindent 8 }}
      secretName: {{ . }}
  {{- end }}
  rules:
    {{- range .given.hosts }}
    - host: {{ . | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ $.name }}
                port:
                  name: http
    {{- end }}
{{- end }}
{{- end }}
