"""Renders the Helm chart with Helm, and checks what it renders against the schemas of Kubernetes and its extensions.

chart = Chart.render({"broker": {"enabled": False}})
chart.one("Deployment", "functory-worker")
assert chart.faults() == []
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.services.missing_servers import require
from tests.services.wheel_programs import FOLDER

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "functory"
SCHEMAS = FOLDER / "kubernetes_validate" / "kubernetes-json-schema"
# The oldest that the chart names, and the newest that there are schemas of. Strict ones refuse unknown names.
KUBERNETES = ("v1.31.0", "v1.37.0")
# Types of extensions, made from their resource definitions: (apiVersion, kind) to the module of the type.
EXTENSIONS = {
    ("keda.sh/v1alpha1", "ScaledObject"): "cloudcoil.models.keda.v1alpha1",
    ("keda.sh/v1alpha1", "TriggerAuthentication"): "cloudcoil.models.keda.v1alpha1",
    ("monitoring.coreos.com/v1", "PodMonitor"): "cloudcoil.models.prometheus_operator.v1",
    ("monitoring.coreos.com/v1", "PrometheusRule"): "cloudcoil.models.prometheus_operator.v1",
}

Document = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """What Helm makes of the chart with some values."""

    documents: tuple[Document, ...]

    @classmethod
    def render(cls, values: Mapping[str, Any] = {}, release: str = "functory") -> Chart:
        """Render it. Fails with Helm's error."""
        text = _rendered(json.dumps(values), release)
        return cls(tuple(one for one in yaml.load_all(text, yaml.CSafeLoader) if one))

    def all(self, kind: str) -> dict[str, Document]:
        """The documents of one kind, by name."""
        return {one["metadata"]["name"]: one for one in self.documents if one["kind"] == kind}

    def one(self, kind: str, name: str) -> Document:
        """The document of this kind and name."""
        return self.all(kind)[name]

    def pods(self) -> dict[str, Document]:
        """The templates of pods, by the name of their Deployment or Job."""
        return {
            one["metadata"]["name"]: one["spec"]["template"]
            for one in self.documents
            if one["kind"] in ("Deployment", "Job")
        }

    def faults(self) -> list[str]:
        """What the schemas refuse."""
        return [
            f"{one['kind']} {one['metadata']['name']}: {fault}"
            for one in self.documents
            for fault in faults(one)
        ]


@functools.cache
def _rendered(values: str, release: str) -> str:
    done = helm("template", release, CHART, "--namespace", "shop", "--values", "-", given=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(*words: object, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run Helm, with its caches in no folder of the user, and without a cluster."""
    return subprocess.run(
        [str(require("helm").programs["helm"]), *map(str, words)],
        input=given,
        env={"PATH": os.environ["PATH"], "HELM_CACHE_HOME": os.devnull, "KUBECONFIG": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )


def faults(document: Document) -> Iterator[str]:
    """What the schema of a document's kind refuses."""
    kind = (document["apiVersion"], document["kind"])
    if kind in EXTENSIONS:
        yield from _faults_of_extension(document, EXTENSIONS[kind])
        return
    for version in KUBERNETES:
        for error in _validator(version, *kind).iter_errors(document):
            yield f"{version}: {'/'.join(map(str, error.instance_path))}: {error.message}"


@functools.cache
def _validator(version: str, api_version: str, kind: str) -> Any:
    group = api_version.replace(".k8s.io", "").replace("/", "-")
    folder = SCHEMAS / f"{version}-local-strict"
    schema: dict[str, Any] = {}
    for file in ("_definitions.json", f"{kind.lower()}-{group}.json"):
        # The files refer to each other by addresses that are none; here they are one document.
        text = re.sub(r'"[^"]*_definitions\.json#', '"#', (folder / file).read_text())
        schema |= json.loads(text)
    schema.pop("$id", None)
    return jsonschema_rs.validator_for(schema, retriever=_refuse)


def _refuse(address: str) -> Any:
    raise ValueError(f"{address}: a schema must be complete")


def _faults_of_extension(document: Document, module: str) -> Iterator[str]:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    made = getattr(importlib.import_module(module), document["kind"]).model_validate(document)
    # Names that a type does not know are dropped, and are missing when it is written again.
    known = made.model_dump(mode="json", by_alias=True, exclude_unset=True)
    yield from (f"{path} is not known" for path in _missing(document, known))


def _missing(given: Any, known: Any, path: str = "") -> Iterator[str]:
    if isinstance(given, dict):
        for name, value in given.items():
            if not isinstance(known, dict) or name not in known:
                yield f"{path}/{name}"
            else:
                yield from _missing(value, known[name], f"{path}/{name}")
    elif isinstance(given, list):
        for place, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _missing(one, other, f"{path}/{place}")


def container(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The only container of a pod."""
    (found,) = pod["spec"]["containers"]
    return found


def environment(pod: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a pod, each given once."""
    names = [one["name"] for one in container(pod)["env"]]
    assert len(set(names)) == len(names)
    return {one["name"]: one["value"] for one in container(pod)["env"]}
