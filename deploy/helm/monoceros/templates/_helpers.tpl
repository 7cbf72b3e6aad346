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

{{/* Fails where the cluster is too old for what is switched on, or where values contradict. */}}
{{- define "monoceros.needs" -}}
{{- if and .Values.kubernetes.enabled (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "kubernetes.enabled needs Kubernetes 1.33 or later, and this cluster has %s: upgrade it, or set kubernetes.enabled=false for a scheduler that serves other shims" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if .Values.cluster.enabled }}
{{- include "monoceros.clusterNeeds" . }}
{{- end }}
{{- end }}

{{/* Fails where values of the cluster contradict each other, or one is missing. */}}
{{- define "monoceros.clusterNeeds" -}}
{{- if .Values.kubernetes.enabled }}
{{- fail "cluster.enabled is for a scheduler that other shims connect to: set kubernetes.enabled=false. The replicas of a scheduler of this cluster (kubernetes.replicas) have a Lease, and are no members" }}
{{- end }}
{{- if not .Values.cluster.tls.secret }}
{{- fail "cluster.enabled needs cluster.tls.secret, since members speak to each other with TLS only: name a Secret with ca.crt, tls.crt and tls.key" }}
{{- end }}
{{- $etcd := .Values.cluster.etcd }}
{{- if and (eq .Values.cluster.arbiter "etcd") (not $etcd.endpoints) }}
{{- fail "cluster.arbiter=etcd needs cluster.etcd.endpoints" }}
{{- end }}
{{- if ne (empty $etcd.user) (empty $etcd.passwordSecret) }}
{{- fail "cluster.etcd.user and cluster.etcd.passwordSecret need each other" }}
{{- end }}
{{- $name := include "monoceros.fullname" . }}
{{- $address := printf "%s-%d.%s:50061" $name (int .Values.cluster.replicas) (include "monoceros.membersDomain" .) }}
{{- if or (gt (len $name) 52) (gt (len $address) 128) }}
{{- fail (printf "cluster.enabled: the name %s makes names of pods or addresses too long: set fullnameOverride to a shorter one" $name) }}
{{- end }}
{{- end }}

{{/* The headless Service of the members. */}}
{{- define "monoceros.membersName" -}}
{{- printf "%s-members" (include "monoceros.fullname" . | trunc 55 | trimSuffix "-") }}
{{- end }}

{{/* The domain of the members: each has a name in it. */}}
{{- define "monoceros.membersDomain" -}}
{{- printf "%s.%s.svc" (include "monoceros.membersName" .) .Release.Namespace }}
{{- end }}

{{/* The name of the cluster. In etcd it has to differ from that of another namespace. */}}
{{- define "monoceros.clusterName" -}}
{{- if .Values.cluster.name }}
{{- .Values.cluster.name }}
{{- else if eq .Values.cluster.arbiter "etcd" }}
{{- $name := printf "%s-%s" .Release.Namespace (include "monoceros.fullname" .) }}
{{- if gt (len $name) 63 }}
{{- fail (printf "cluster.name is not set, and %s is longer than 63 characters: set it" $name) }}
{{- end }}
{{- $name }}
{{- else }}
{{- include "monoceros.fullname" . }}
{{- end }}
{{- end }}

{{/* Whether claims are kept in the cluster's API server. */}}
{{- define "monoceros.keepsClaims" -}}
{{- if and .Values.cluster.enabled (eq .Values.cluster.arbiter "kubernetes") }}true{{ end }}
{{- end }}

{{/* Whether the pod uses the API server. */}}
{{- define "monoceros.needsToken" -}}
{{- or .Values.kubernetes.enabled (not (empty (include "monoceros.keepsClaims" .))) }}
{{- end }}

{{/* Settings of a member. They override those in TOML, since Services and Secrets depend on them. */}}
{{- define "monoceros.clusterSettings" -}}
{{- $domain := include "monoceros.membersDomain" . -}}
- name: MONOCEROS__CLUSTER__ARBITER
  value: {{ .Values.cluster.arbiter }}
- name: MONOCEROS__CLUSTER__NAME
  value: {{ include "monoceros.clusterName" . | quote }}
- name: MONOCEROS__CLUSTER__LEASE
  value: {{ .Values.cluster.lease | quote }}
- name: MONOCEROS__CLUSTER__LISTEN
  value: {{ printf "%s:50061" .Values.bindAddress | quote }}
- name: MONOCEROS__CLUSTER__ADVERTISE__GRPC
  value: $(POD_NAME).{{ $domain }}:50051
- name: MONOCEROS__CLUSTER__ADVERTISE__REST
  value: $(POD_NAME).{{ $domain }}:9080
- name: MONOCEROS__CLUSTER__ADVERTISE__INTERNAL
  value: $(POD_NAME).{{ $domain }}:50061
- name: MONOCEROS__CLUSTER__TLS__CA
  value: /etc/monoceros-cluster/tls/ca.crt
- name: MONOCEROS__CLUSTER__TLS__CERTIFICATE
  value: /etc/monoceros-cluster/tls/tls.crt
- name: MONOCEROS__CLUSTER__TLS__KEY
  value: /etc/monoceros-cluster/tls/tls.key
- name: MONOCEROS__CLUSTER__TLS__NAMES
  value: {{ default (list (printf "dns=%s" $domain)) .Values.cluster.tls.names | join "," | quote }}
{{- if eq .Values.cluster.arbiter "etcd" }}
- name: MONOCEROS__CLUSTER__ENDPOINTS
  value: {{ join "," .Values.cluster.etcd.endpoints | quote }}
{{- with .Values.cluster.etcd.user }}
- name: MONOCEROS__CLUSTER__USER
  value: {{ . | quote }}
- name: MONOCEROS__CLUSTER__PASSWORD_FILE
  value: /etc/monoceros-cluster/etcd/password
{{- end }}
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

{{/* A question of all three probes: it is answered without asking the scheduler. */}}
{{- define "monoceros.probe" -}}
httpGet:
  path: /healthz
  port: http
  scheme: {{ .Values.probes.scheme }}
{{- end }}
