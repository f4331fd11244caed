"""Holds what a live coordinator answers against api/openapi.yaml: routes, statuses, headers, schemas, problem codes."""

import json
import pathlib
import re

import jsonschema
import yaml

from http_client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBLEM_JSON = "application/problem+json"


class Contract:
    def __init__(self):
        self.document = yaml.safe_load((ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))
        # A path like /agents/{id} also fits /agents/{id}/report's pattern only segment by segment, so order is no matter.
        self.paths = [
            (re.compile("^" + re.sub(r"{\w+}", "[^/]+", path) + "$"), path) for path in self.document["paths"]
        ]

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def operation(self, method, path):
        """What the document has for a request, or None; a HEAD is a GET."""
        wanted = "get" if method == "HEAD" else method.lower()
        for pattern, template in self.paths:
            if pattern.match(path):
                return self.document["paths"][template].get(wanted)
        return None

    def check_schema(self, schema, value):
        """References in the schema are into the document."""
        whole = {**schema, "components": self.document["components"]}
        errors = [
            f"/{'/'.join(map(str, error.absolute_path))}: {error.message}"
            for error in jsonschema.Draft202012Validator(whole).iter_errors(value)
        ]
        assert errors == [], errors

    def check(self, method, target, reply):
        path = target.split("?")[0]
        operation = self.operation(method, path)
        if operation is None:
            codes, content = self.document["x-codes"], {PROBLEM_JSON: {"schema": self.schema("problem_body")}}
            headers = {}
        else:
            responses = operation["responses"]
            assert str(reply.status) in responses, f"{method} {path}: {reply.status} is not in the contract: {reply}"
            response = self.resolve(responses[str(reply.status)])
            codes, content = response.get("x-codes"), response.get("content", {})
            headers = response.get("headers", {})
        self.check_headers(headers, reply)
        self.check_content(method, path, content, codes, reply)

    def check_headers(self, headers, reply):
        for name, header in headers.items():
            header = self.resolve(header)
            value = reply.headers.get(name)
            assert value is not None or not header.get("required"), f"no {name}: {reply}"
            if value is not None and header["schema"]["type"] == "string":
                self.check_schema(header["schema"], value)

    def check_content(self, method, path, content, codes, reply):
        kind = reply.headers.get("Content-Type")
        if not content:
            assert reply.body == b"" and kind is None, f"{method} {path}: {reply}"
            return
        plain = {name.split(";")[0]: media for name, media in content.items()}
        assert kind.split(";")[0] in plain, f"{method} {path}: {kind} is not in the contract"
        if method == "HEAD":
            assert reply.body == b"" and int(reply.headers["Content-Length"]) > 0
            return
        if "json" in kind:
            self.check_schema(plain[kind.split(";")[0]]["schema"], reply.json)
        if kind == PROBLEM_JSON:
            problem = reply.json
            assert problem["status"] == reply.status
            assert problem["code"] in codes, f"{method} {path}: {problem['code']} is not in the contract: {codes}"
            assert problem["type"] == f"urn:baton:problem:{problem['code']}"
            assert problem["detail"], problem
            if reply.status == 503:
                assert int(reply.headers["Retry-After"]) >= 1

    def schema(self, name):
        return {"$ref": f"#/components/schemas/{name}"}


class CheckedClient(Client):
    """Every answer is held against the contract."""

    contract = None

    def __init__(self, address, timeout_s=30):
        super().__init__(address, timeout_s)
        if CheckedClient.contract is None:
            CheckedClient.contract = Contract()

    def request(self, method, path, body=None, expect=None, headers=None, raw=None, timeout_s=None):
        reply = super().request(method, path, body, expect, headers, raw, timeout_s)
        self.contract.check(method, path, reply)
        return reply

    def refused(self, method, path, status, code, body=None, **options):
        """The problem of a request that must be refused with this status and code."""
        problem = self.problem(method, path, body, expect=status, **options)
        assert problem["code"] == code, problem
        return problem


def pointers(problem):
    return [error["pointer"] for error in problem["errors"]]


def as_json(value):
    return json.dumps(value, separators=(",", ":"))
