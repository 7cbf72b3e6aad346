{{/* The name of the chart in labels. */}}
{{- define "monoceros.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of everything that a release makes; names may have 63 characters. */}}
{{- define "monoceros.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "monoceros.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "monoceros.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What does not change during the life of a release. */}}
{{- define "monoceros.selectorLabels" -}}
app.kubernetes.io/name: {{ include "monoceros.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "monoceros.labels" -}}
{{ include "monoceros.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "monoceros.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "monoceros.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "monoceros.priorityClassName" -}}
{{- if .Values.priorityClassName }}
{{- .Values.priorityClassName }}
{{- else if and .Values.kubernetes.enabled .Values.kubernetes.priorityClass.create }}
{{- include "monoceros.fullname" . }}
{{- end }}
{{- end }}

{{/* The image: by its tag if one is chosen, else by its digest if there is one. */}}
{{- define "monoceros.image" -}}
{{- if and .Values.image.digest (not .Values.image.tag) }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Fails where the cluster is too old for what is switched on. */}}
{{- define "monoceros.needs" -}}
{{- if and .Values.kubernetes.enabled .Values.cluster.enabled }}
{{- fail "cluster.enabled is for kubernetes.enabled=false: replicas of the scheduler of this cluster agree by a lease" }}
{{- end }}
{{- if and .Values.cluster.enabled (eq .Values.cluster.arbiter "etcd") (not .Values.cluster.endpoints) }}
{{- fail "cluster.endpoints: name the endpoints of etcd" }}
{{- end }}
{{- if and .Values.kubernetes.enabled (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "kubernetes.enabled needs Kubernetes 1.33 or later, and this cluster has %s: upgrade it, or set kubernetes.enabled=false for a scheduler that serves other shims" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}

{{/* In which version the cluster has policies that change what is created. */}}
{{- define "monoceros.mutatingPolicyVersion" -}}
{{- $group := "admissionregistration.k8s.io" }}
{{- if .Values.kubernetes.namespacePolicy.apiVersion }}
{{- printf "%s/%s" $group .Values.kubernetes.namespacePolicy.apiVersion }}
{{- else if .Capabilities.APIVersions.Has (printf "%s/v1/MutatingAdmissionPolicy" $group) }}
{{- printf "%s/v1" $group }}
{{- else if .Capabilities.APIVersions.Has (printf "%s/v1beta1/MutatingAdmissionPolicy" $group) }}
{{- printf "%s/v1beta1" $group }}
{{- else }}
{{- fail "kubernetes.namespacePolicy: this cluster has no MutatingAdmissionPolicy; see the comment in values.yaml" }}
{{- end }}
{{- end }}

{{/* The headless Service by which members have names. */}}
{{- define "monoceros.members" -}}
{{- printf "%s-members" (include "monoceros.fullname" . | trunc 55 | trimSuffix "-") }}
{{- end }}

{{/* Whether the API server is used. */}}
{{- define "monoceros.usesApi" -}}
{{- or .Values.kubernetes.enabled (and .Values.cluster.enabled (eq .Values.cluster.arbiter "kubernetes")) }}
{{- end }}

{{/* Settings of a member. Others reach it by the name that its pod keeps. */}}
{{- define "monoceros.memberEnv" -}}
{{- $host := printf "$(POD_NAME).%s.$(POD_NAMESPACE).svc" (include "monoceros.members" .) }}
- name: MONOCEROS__CLUSTER__ARBITER
  value: {{ .Values.cluster.arbiter }}
- name: MONOCEROS__CLUSTER__NAME
  value: {{ include "monoceros.fullname" . }}
{{- if eq .Values.cluster.arbiter "etcd" }}
- name: MONOCEROS__CLUSTER__ENDPOINTS
  value: {{ join "," .Values.cluster.endpoints | quote }}
{{- end }}
- name: MONOCEROS__CLUSTER__LEASE
  value: {{ .Values.cluster.lease | quote }}
- name: MONOCEROS__CLUSTER__LISTEN
  value: {{ printf "%s:50052" .Values.bindAddress | quote }}
- name: MONOCEROS__CLUSTER__ADVERTISE__GRPC
  value: {{ printf "%s:50051" $host | quote }}
- name: MONOCEROS__CLUSTER__ADVERTISE__REST
  value: {{ printf "%s:9080" $host | quote }}
- name: MONOCEROS__CLUSTER__ADVERTISE__INTERNAL
  value: {{ printf "%s:50052" $host | quote }}
- name: MONOCEROS__CLUSTER__TLS__CA
  value: /etc/monoceros-members/ca.crt
- name: MONOCEROS__CLUSTER__TLS__CERTIFICATE
  value: /etc/monoceros-members/tls.crt
- name: MONOCEROS__CLUSTER__TLS__KEY
  value: /etc/monoceros-members/tls.key
- name: MONOCEROS__CLUSTER__TLS__NAMES
  value: {{ join "," .Values.cluster.tls.names | quote }}
{{- end }}

{{/* A question of all three probes: it is answered without asking the scheduler. */}}
{{- define "monoceros.probe" -}}
httpGet:
  path: /healthz
  port: http
  scheme: {{ .Values.probes.scheme }}
{{- end }}
