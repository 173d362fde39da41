"""Sets of values with which the tests render the Helm chart."""

from __future__ import annotations

from typing import Any

from functory.cli.command_index import SECTIONS

ROLES = [entry.name for entry in SECTIONS["Roles"]]

EVERYTHING: dict[str, Any] = {
    "commonLabels": {"team": "shop"},
    "podLabels": {"mesh": "off"},
    "podAnnotations": {"example.com/a": "b"},
    "image": {"repository": "registry.example/functory", "tag": "1", "pullSecrets": ["pull"]},
    "database": {"directKey": "database-direct-url"},
    "tokens": {"eventsKey": "events-token", "metricsKey": "metrics-token"},
    "settings": {
        "log_json": True,
        "max_event_bytes": 16777216,
        "private_networks": ["10.0.0.0/8"],
        "lease_seconds": 60,
    },
    "home": {"existingClaim": "functory"},
    "server": {
        "api": "on",
        "trustedHosts": ["events.internal"],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
    "watcher": {
        "volumes": [{"name": "inbox", "persistentVolumeClaim": {"claimName": "inbox"}}],
        "volumeMounts": [{"name": "inbox", "mountPath": "/srv/inbox", "readOnly": True}],
        "env": [{"name": "FUNCTORY_LOG_LEVEL", "value": "debug"}],
    },
    "worker": {"autoscaling": {"enabled": True, "prometheus": {"authenticationRef": "prometheus"}}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "events.example.com",
        "tlsSecretName": "events-tls",
        "annotations": {"a.example/b": "c"},
    },
    "networkPolicies": {
        "enabled": True,
        "serverFrom": [{"namespaceSelector": {}}],
        "metricsFrom": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        ],
        "databaseTo": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
        "brokerTo": [{"podSelector": {"matchLabels": {"app": "rabbitmq"}}}],
    },
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Functory"}},
}
WITHOUT_BROKER: dict[str, Any] = {"broker": {"enabled": False}, "networkPolicies": {"enabled": True}}
BY_DATABASE: dict[str, Any] = {
    "worker": {
        "slots": 8,
        "autoscaling": {"enabled": True, "trigger": "postgresql", "executionsPerWorker": 3},
    }
}
TRIAL: dict[str, Any] = {
    "database": {"secretName": ""},
    "broker": {"secretName": ""},
    "secretKey": {"secretName": ""},
    "createSecret": {
        "databaseUrl": "postgresql://functory:a@db/functory",
        "brokerUrl": "amqp://functory:a@broker//",
        "secretKey": "AAAA",
    },
}
TIER_B: dict[str, Any] = {"sandbox": {"tier": "B", "procMount": True}}
SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "without a broker": WITHOUT_BROKER,
    "scaled by the database": BY_DATABASE,
    "trial": TRIAL,
    "tier B": TIER_B,
    **{f"without {role}": {role: {"enabled": False}} for role in ROLES},
}
