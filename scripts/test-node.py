#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# test-node.py PROJECT OUT : checks the files of user/system/node that only Grafana and Kubernetes
# read. Writes the dashboard's expressions into the file OUT, as rules that promtool can check.
# PYTHONPATH has the module yaml.

import json
import re
import sys

import yaml

project, out = sys.argv[1:]
node = f"{project}/user/system/node"
failures = 0


def check(description, ok, value):
    global failures
    print(f"{'ok' if ok else 'not ok'} - {description}" + ("" if ok else f": {value}"))
    failures += not ok


def read(name):
    with open(f"{project}/{name}") as f:
        return f.read()


# --- Grafana's dashboard ---------------------------------------------------------------------

# Values that Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "2m", "$instance": ".*", "$id": ".*"}


def panels_of(parent):
    for panel in parent.get("panels", []):
        yield panel
        yield from panels_of(panel)


def without_variables(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


dashboard = json.loads(read("user/system/node/grafana.json"))
panels = list(panels_of(dashboard))
expressions = [
    without_variables(target["expr"]) for panel in panels for target in panel.get("targets", [])
]
queries = [
    variable["query"]["query"]
    for variable in dashboard["templating"]["list"]
    if variable["type"] == "query"
]
check("the dashboard has expressions", len(expressions) > 5, expressions)
ids = [panel["id"] for panel in panels]
check("each panel has an ID of its own", len(ids) == len(set(ids)), ids)
unknown = [expression for expression in expressions if "$" in expression]
check("the expressions have no other variables", not unknown, unknown)
# The pages on serve have each metric. Counters get the end `_total`.
documented = read("Documentation/serve.rst")
metrics = set(re.findall(r"\b(?:container|node|perfmon)_\w+", " ".join(expressions + queries)))
missing = [m for m in metrics if f"``{m.removesuffix('_total')}" not in documented]
check("serve has the metrics of the dashboard", metrics and not missing, missing)
with open(out, "w") as f:
    rules = [{"record": f"grafana:{i}", "expr": text} for i, text in enumerate(expressions)]
    yaml.safe_dump({"groups": [{"name": "grafana", "rules": rules}]}, f)

# --- Kubernetes' manifest --------------------------------------------------------------------

# The fields of the types that the manifest may have, as in the reference of the API: a type's name,
# [TYPE] for a list, {TYPE} for a map, or a type of Python.
FIELDS = {
    "Namespace": {"apiVersion": str, "kind": str, "metadata": "ObjectMeta"},
    "DaemonSet": {"apiVersion": str, "kind": str, "metadata": "ObjectMeta", "spec": "DaemonSetSpec"},
    "NetworkPolicy": {"apiVersion": str, "kind": str, "metadata": "ObjectMeta", "spec": "NetworkPolicySpec"},
    "ObjectMeta": {"name": str, "namespace": str, "labels": {str}, "annotations": {str}},
    "LabelSelector": {"matchLabels": {str}, "matchExpressions": [dict]},
    "DaemonSetSpec": {
        "selector": "LabelSelector", "template": "PodTemplateSpec", "updateStrategy": dict,
        "minReadySeconds": int, "revisionHistoryLimit": int,
    },
    "PodTemplateSpec": {"metadata": "ObjectMeta", "spec": "PodSpec"},
    "PodSpec": {
        "affinity": dict, "automountServiceAccountToken": bool, "containers": ["Container"],
        "enableServiceLinks": bool, "hostIPC": bool, "hostNetwork": bool, "hostPID": bool,
        "imagePullSecrets": [dict], "initContainers": ["Container"], "nodeSelector": {str},
        "priorityClassName": str, "securityContext": dict, "serviceAccountName": str,
        "terminationGracePeriodSeconds": int, "tolerations": ["Toleration"], "volumes": ["Volume"],
    },
    "Container": {
        "args": [str], "command": [str], "env": [dict], "image": str, "imagePullPolicy": str,
        "livenessProbe": "Probe", "name": str, "ports": ["ContainerPort"], "readinessProbe": "Probe",
        "resources": "ResourceRequirements", "securityContext": "SecurityContext",
        "startupProbe": "Probe", "volumeMounts": ["VolumeMount"], "workingDir": str,
    },
    "ContainerPort": {"containerPort": int, "hostIP": str, "hostPort": int, "name": str, "protocol": str},
    "Probe": {
        "exec": dict, "failureThreshold": int, "httpGet": "HTTPGetAction", "initialDelaySeconds": int,
        "periodSeconds": int, "successThreshold": int, "tcpSocket": dict, "timeoutSeconds": int,
    },
    "HTTPGetAction": {"host": str, "httpHeaders": [dict], "path": str, "port": (str, int), "scheme": str},
    "ResourceRequirements": {"limits": {(str, int)}, "requests": {(str, int)}},
    "SecurityContext": {
        "allowPrivilegeEscalation": bool, "appArmorProfile": dict, "capabilities": "Capabilities",
        "privileged": bool, "procMount": str, "readOnlyRootFilesystem": bool, "runAsGroup": int,
        "runAsNonRoot": bool, "runAsUser": int, "seLinuxOptions": dict, "seccompProfile": "SeccompProfile",
    },
    "Capabilities": {"add": [str], "drop": [str]},
    "SeccompProfile": {"localhostProfile": str, "type": str},
    "VolumeMount": {"mountPath": str, "mountPropagation": str, "name": str, "readOnly": bool, "subPath": str},
    "Volume": {"configMap": dict, "emptyDir": dict, "hostPath": "HostPathVolumeSource", "name": str, "secret": dict},
    "HostPathVolumeSource": {"path": str, "type": str},
    "Toleration": {"effect": str, "key": str, "operator": str, "tolerationSeconds": int, "value": str},
    "NetworkPolicySpec": {
        "egress": [dict], "ingress": ["NetworkPolicyIngressRule"], "podSelector": "LabelSelector",
        "policyTypes": [str],
    },
    "NetworkPolicyIngressRule": {"from": ["NetworkPolicyPeer"], "ports": ["NetworkPolicyPort"]},
    "NetworkPolicyPeer": {"ipBlock": dict, "namespaceSelector": "LabelSelector", "podSelector": "LabelSelector"},
    "NetworkPolicyPort": {"endPort": int, "port": (str, int), "protocol": str},
}
VERSIONS = {"Namespace": "v1", "DaemonSet": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1"}


def faults_of(value, kind, place):
    """Yields the places where a value is not of its type."""
    if isinstance(kind, str):
        if not isinstance(value, dict):
            yield f"{place} is no {kind}"
            return
        for name, inner in value.items():
            if name in FIELDS[kind]:
                yield from faults_of(inner, FIELDS[kind][name], f"{place}.{name}")
            else:
                yield f"{place}.{name} is no field of {kind}"
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{place} is no list"
            return
        for i, inner in enumerate(value):
            yield from faults_of(inner, kind[0], f"{place}[{i}]")
    elif isinstance(kind, set):
        if not isinstance(value, dict):
            yield f"{place} is no map"
            return
        for name, inner in value.items():
            yield from faults_of(inner, next(iter(kind)), f"{place}.{name}")
    # A bool is an int in Python.
    elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        yield f"{place} is {value!r}"


def faults(document):
    kind = document.get("kind")
    if document.get("apiVersion") != VERSIONS.get(kind, ""):
        return [f"{kind} of {document.get('apiVersion')}"]
    return list(faults_of(document, kind, kind))


documents = list(yaml.safe_load_all(read("user/system/node/daemonset.yaml")))
for document in documents:
    check(f"the manifest's {document.get('kind')} has fields of Kubernetes", not faults(document), faults(document))
misspelled = json.loads(json.dumps(documents[1]))
misspelled["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
check("a field that is misspelled is found", len(faults(misspelled)) == 1, faults(misspelled))

namespace, daemon_set, policy = documents
pod = daemon_set["spec"]["template"]
container, = pod["spec"]["containers"]
labels = pod["metadata"]["labels"].items()
name = namespace["metadata"]["name"]
places = [document["metadata"].get("namespace") for document in (daemon_set, policy)]
check("all is in the manifest's namespace", places == [name, name], places)
for selector in (daemon_set["spec"]["selector"], policy["spec"]["podSelector"]):
    check("a selector selects the pods", selector["matchLabels"].items() <= labels, selector)
mounts = {mount["name"] for mount in container["volumeMounts"]}
volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
check("each mount has its volume", mounts == volumes, (mounts, volumes))
ports = {port["name"]: port["containerPort"] for port in container["ports"]}
probe = container["readinessProbe"]["httpGet"]
allowed = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
check("the probe and the policy name a port", {probe["port"], *allowed} <= ports.keys(), (probe, allowed))
check("serve has the path of the probe", f"``{probe['path']}``" in documented, probe)
listen = [argument for argument in container["args"] if argument.startswith("--listen=")]
check("serve listens on the container's port", listen == [f"--listen=0.0.0.0:{ports['metrics']}"], listen)
manual = read("Documentation/pmctl.1").replace("\\", "")
manual = manual.split("\n.SS serve\n")[1].split("\n.SS ")[0]
options = [argument.split("=")[0] for argument in container["args"] if argument.startswith("--")]
unknown = [option for option in options if f"fB{option}fR" not in manual]
check("pmctl serve has the options", not unknown, unknown)

# --- Prometheus' configuration ---------------------------------------------------------------

jobs = {job["job_name"]: job for job in yaml.safe_load(read("user/system/node/prometheus.yml"))["scrape_configs"]}
job = jobs["perfmon-pods"]
places = [place for config in job["kubernetes_sd_configs"] for place in config["namespaces"]["names"]]
check("Prometheus looks for pods in the manifest's namespace", places == [name], places)
kept = [
    (rule["source_labels"], rule["regex"]) for rule in job["relabel_configs"] if rule.get("action") == "keep"
]
expected = [([f"__meta_kubernetes_pod_label_{label}"], value) for label, value in labels]
check("Prometheus keeps the manifest's pods", kept == expected, kept)

sys.exit(failures > 0)
