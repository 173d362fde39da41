{{- /* The environment of every role and of the schema's Job. Passwords are in files, never in it. */ -}}
{{- define "functory.environment" -}}
- {name: FUNCTORY_DATABASE_URL_FILE, value: /run/secrets/functory/database-url}
{{- if .Values.database.directKey }}
- {name: FUNCTORY_DATABASE_DIRECT_URL_FILE, value: /run/secrets/functory/database-direct-url}
{{- end }}
{{- if .Values.broker.enabled }}
- {name: FUNCTORY_BROKER_URL_FILE, value: /run/secrets/functory/broker-url}
{{- else }}
- {name: FUNCTORY_BROKER_URL, value: "none://"}
{{- end }}
- {name: FUNCTORY_SECRET_KEY_FILE, value: /run/secrets/functory/secret-key}
{{- if .Values.tokens.eventsKey }}
- {name: FUNCTORY_EVENTS_TOKEN_FILE, value: /run/secrets/functory/events-token}
{{- end }}
{{- if .Values.tokens.metricsKey }}
- {name: FUNCTORY_METRICS_TOKEN_FILE, value: /run/secrets/functory/metrics-token}
{{- end }}
- {name: FUNCTORY_HOME, value: /var/lib/functory/.functory}
- {name: FUNCTORY_GRACE_SECONDS, value: {{ .Values.graceSeconds | quote }}}
{{- range $name, $value := .Values.settings }}
- {name: FUNCTORY_{{ upper $name }}, value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}}
{{- end }}
{{- end -}}

{{- define "functory.volumeMounts" -}}
- {name: secrets, mountPath: /run/secrets/functory, readOnly: true}
- {name: home, mountPath: /var/lib/functory}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "functory.volumes" -}}
- name: secrets
  projected:
    # Root's files, which the group of the pod reads.
    defaultMode: 0440
    sources:
      - secret:
          name: {{ default (include "functory.secret" .) .Values.database.secretName }}
          items:
            - {key: {{ .Values.database.key | quote }}, path: database-url}
            {{- with .Values.database.directKey }}
            - {key: {{ . | quote }}, path: database-direct-url}
            {{- end }}
      {{- if .Values.broker.enabled }}
      - secret:
          name: {{ default (include "functory.secret" .) .Values.broker.secretName }}
          items:
            - {key: {{ .Values.broker.key | quote }}, path: broker-url}
      {{- end }}
      - secret:
          name: {{ default (include "functory.secret" .) .Values.secretKey.secretName }}
          items:
            - {key: {{ .Values.secretKey.key | quote }}, path: secret-key}
      {{- if or .Values.tokens.eventsKey .Values.tokens.metricsKey }}
      - secret:
          name: {{ required "tokens.secretName: which Secret holds the tokens?" .Values.tokens.secretName }}
          items:
            {{- with .Values.tokens.eventsKey }}
            - {key: {{ . | quote }}, path: events-token}
            {{- end }}
            {{- with .Values.tokens.metricsKey }}
            - {key: {{ . | quote }}, path: metrics-token}
            {{- end }}
      {{- end }}
- name: home
  {{- if .Values.home.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .Values.home.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .Values.home.sizeLimit }}
  {{- end }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.tmpSizeLimit }}
{{- end -}}

{{- /* Takes (dict "root" $ "role" "worker"). The ids are the image's. */ -}}
{{- define "functory.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- if and (eq .root.Values.sandbox.tier "B") (has .role (list "worker" "server")) }}
# The sandbox makes namespaces and mounts, which the default profiles refuse.
seccompProfile:
  type: Localhost
  localhostProfile: {{ .root.Values.sandbox.seccompProfile }}
{{- if .root.Values.sandbox.appArmor }}
appArmorProfile:
  type: Unconfined
{{- end }}
{{- else }}
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end -}}

{{- define "functory.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- if and (eq .root.Values.sandbox.tier "B") .root.Values.sandbox.procMount (has .role (list "worker" "server")) }}
procMount: Unmasked
{{- end }}
{{- end -}}
