"""api/openapi.yaml is valid, complete, and says what the code's tables say. Needs a compiler, but no broker and no daemon."""

import importlib.util
import json
import pathlib
import re

import jsonschema
import pytest
import referencing
import referencing.jsonschema
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ["get", "put", "post", "delete", "patch", "options", "head", "trace"]
PROBLEM_JSON = "application/problem+json"


def load_generator():
    spec = importlib.util.spec_from_file_location("openapi_generator", ROOT / "scripts/openapi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load_generator()


@pytest.fixture(scope="module")
def tables():
    return generator.load_tables()


@pytest.fixture(scope="module")
def text():
    return generator.YAML_FILE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document(text):
    return yaml.safe_load(text)


def operations(document):
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item, item[method]


def resolve(document, node):
    """Follows $ref; what stands beside it is kept, as OpenAPI 3.1 allows for schemas."""
    while "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def parameters(document, item, operation):
    both = item.get("parameters", []) + operation.get("parameters", [])
    return [resolve(document, parameter) for parameter in both]


def walk(node, pointer=""):
    yield pointer, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, child in children:
        yield from walk(child, f"{pointer}/{name}")


def test_contract_document_is_valid_openapi(document):
    errors = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in
              OpenAPIV31SpecValidator(document).iter_errors()]
    assert errors == []
    assert document["openapi"].startswith("3.1.")


def test_contract_files_are_what_the_generator_writes(tables, text):
    assert text == generator.make_yaml(tables, text), "run scripts/openapi.py"
    assert generator.JSON_FILE.read_text(encoding="utf-8") == generator.make_json(text), "run scripts/openapi.py"


def test_contract_json_equals_yaml(document):
    assert json.loads(generator.JSON_FILE.read_text(encoding="utf-8")) == document


def test_contract_has_every_route_and_no_other(tables, document):
    in_code = {(route["path"], route["method"].lower()) for route in tables["routes"]}
    in_document = {(path, method) for path, method, _, _ in operations(document)}
    assert in_document == in_code


def test_contract_has_the_parameters_and_daemons_of_every_route(tables, document):
    routes = {(route["path"], route["method"].lower()): route for route in tables["routes"]}
    for path, method, item, operation in operations(document):
        route = routes[path, method]
        declared = parameters(document, item, operation)
        in_query = [parameter["name"] for parameter in declared if parameter["in"] == "query"]
        assert sorted(in_query) == sorted(route["query"]), (path, method)
        in_path = [parameter["name"] for parameter in declared if parameter["in"] == "path"]
        assert sorted(in_path) == sorted(re.findall(r"{(\w+)}", path)), (path, method)
        daemons = ["coordinator"] * route["on_coordinator"] + ["agent"] * route["on_agent"]
        assert operation["x-daemons"] == daemons, (path, method)


def test_contract_schemas_are_the_tables_of_the_code(tables, document):
    """Compared field by field, apart from the generator, so that its mistakes show as well."""
    schemas = document["components"]["schemas"]
    named = {type_["name"] for type_ in tables["types"]}
    assert set(schemas) - named == {"request_problem", "job_problem"}
    for type_ in tables["types"]:
        properties = schemas[type_["name"]]["properties"]
        assert list(properties) == [field["name"] for field in type_["fields"]]
        for field in type_["fields"]:
            check_field(type_["name"], field, properties[field["name"]])


def check_field(owner, field, schema):
    where = f"{owner}.{field['name']}"
    assert schema["description"] == field["help"], where
    assert schema.get("x-immutable", False) == field["immutable"], where
    if field["kind"] == "object":
        assert schema["$ref"] == f"#/components/schemas/{field['type']}", where
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert ("null" in types) == field["nullable"], where
    expected = {"bool": "boolean", "uint32": "integer", "uint64": "integer", "int64": "integer", "knowable": "integer",
                "double": "number", "json": "object", "list": "array"}
    assert types[0] == expected.get(field["kind"], "string"), where
    if types[0] in ("integer", "number"):
        assert (schema["minimum"], schema["maximum"]) == (field["min"], field["max"]), where
    if field["kind"] == "string":
        assert (schema.get("minLength", 0), schema["maxLength"]) == (field["min"], field["max"]), where
    if field["kind"] == "enum":
        assert schema["enum"] == field["names"], where
    if field["kind"] == "list":
        assert (schema.get("minItems", 0), schema["maxItems"]) == (field["min"], field["max"]), where
        if field["element"] == "object":
            assert schema["items"]["$ref"] == f"#/components/schemas/{field['type']}", where


def test_contract_requires_what_the_code_requires(tables, document):
    schemas = document["components"]["schemas"]
    for name in ["job_spec", "job_logic", "agent_registration", "agent_report", "task_report"]:
        type_ = next(type_ for type_ in tables["types"] if type_["name"] == name)
        assert schemas[name]["required"] == [field["name"] for field in type_["fields"] if field["required"]]
        assert schemas[name]["additionalProperties"] is False
        optional = {field["name"] for field in type_["fields"] if not field["required"]}
        with_default = {key for key, schema in schemas[name]["properties"].items() if "default" in schema}
        assert with_default == optional, name
    for name in ["job_view", "processor_view", "problem_body", "job_page"]:
        assert schemas[name]["required"] == list(schemas[name]["properties"]), name
        assert "additionalProperties" not in schemas[name], "answers may gain fields"


def test_contract_names_every_problem_under_its_status(tables, document):
    status_of = {problem["code"]: problem["status"] for problem in tables["problems"] if problem["status"] != 0}
    named = set(document["x-codes"])
    for path, method, _, operation in operations(document):
        for status, response in operation["responses"].items():
            response = resolve(document, response)
            assert (int(status) >= 400) == ("x-codes" in response), (path, method, status)
            for code in response.get("x-codes", []):
                assert status_of.get(code) == int(status), (path, method, code)
                assert f"`{code}`" in response["description"], (path, method, code)
                named.add(code)
    assert named == set(status_of)

    choices = document["components"]["schemas"]["request_problem"]["oneOf"]
    assert {choice["const"]: choice["x-status"] for choice in choices} == status_of
    in_jobs = {problem["code"] for problem in tables["problems"] if problem["of_job"]}
    assert {choice["const"] for choice in document["components"]["schemas"]["job_problem"]["oneOf"]} == in_jobs


def test_contract_describes_every_operation(document):
    ids = [operation["operationId"] for _, _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, item, operation in operations(document):
        where = (path, method)
        assert operation["summary"] and operation["tags"] and set(operation["tags"]) <= tags, where
        assert any(status.startswith("2") for status in operation["responses"]), where
        assert "400" in operation["responses"], where
        for parameter in parameters(document, item, operation):
            assert parameter["description"] and parameter["schema"], where
        has_job = "{job}" in path and method != "put"
        assert not has_job or "404" in operation["responses"], where
        if "requestBody" in operation:
            assert {"413", "415", "422"} <= set(operation["responses"]), where
            assert list(operation["requestBody"]["content"]) == ["application/json"], where


def test_contract_refusals_are_problem_bodies(document):
    for path, method, _, operation in operations(document):
        for status, response in operation["responses"].items():
            response = resolve(document, response)
            if int(status) >= 400:
                assert list(response["content"]) == [PROBLEM_JSON], (path, method, status)
                assert response["content"][PROBLEM_JSON]["schema"]["$ref"].endswith("/problem_body")
            if status == "503":
                assert "Retry-After" in response["headers"], (path, method)


def test_contract_components_are_used_and_references_resolve(document):
    used = {node["$ref"] for _, node in walk(document) if isinstance(node, dict) and "$ref" in node}
    for reference in used:
        assert resolve(document, {"$ref": reference}) is not None
    there = {f"#/components/{kind}/{name}" for kind, items in document["components"].items() for name in items}
    assert there - used == {"#/components/schemas/request_problem", "#/components/schemas/job_problem"}


def media_types(document):
    for pointer, node in walk(document):
        if isinstance(node, dict) and isinstance(node.get("content"), dict):
            for name, media_type in node["content"].items():
                yield f"{pointer}/content/{name}", media_type


def examples_of(document, media_type):
    if "example" in media_type:
        yield "example", media_type["example"]
    for name, example in media_type.get("examples", {}).items():
        yield name, resolve(document, example)["value"]


def make_validator(document, schema):
    resource = referencing.Resource(contents=document, specification=referencing.jsonschema.DRAFT202012)
    registry = referencing.Registry().with_resource("urn:openapi", resource)
    absolute = json.loads(json.dumps(schema).replace('"#/components', '"urn:openapi#/components'))
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    assert "date-time" in checker.checkers, "rfc3339-validator is not installed: times would not be checked"
    return jsonschema.Draft202012Validator(absolute, registry=registry, format_checker=checker)


def test_contract_examples_are_valid(document):
    count = 0
    for pointer, media_type in media_types(document):
        validator = make_validator(document, media_type["schema"])
        for name, example in examples_of(document, media_type):
            errors = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(example)]
            assert errors == [], f"{pointer} {name}"
            count += 1
    assert count >= 25
    for pointer, node in walk(document):
        if isinstance(node, dict) and "in" in node and "example" in node:
            make_validator(document, node["schema"]).validate(node["example"])


def test_contract_examples_of_answers_have_all_fields_and_no_others(document):
    """Answers may gain fields, so the schema does not refuse others; an example must not have any."""
    schemas = document["components"]["schemas"]
    for name, example in document["components"]["examples"].items():
        schema = schemas.get(name)
        if schema is not None:
            assert set(example["value"]) <= set(schema["properties"]), name
            assert set(schema["required"]) <= set(example["value"]), name


def test_contract_refuses_bad_examples(document):
    """The check above can fail: one mistake of each kind is found."""
    schema = {"$ref": "#/components/schemas/job_spec"}
    good = document["components"]["examples"]["job_spec_least"]["value"]
    validator = make_validator(document, schema)
    assert validator.is_valid(good)
    for change in [{"processors": 0}, {"inputs": []}, {"inputs": [".."]}, {"surprise": 1}, {"settle": "10"},
                   {"on_error": "stop"}, {"logic": {"kind": "builtin"}}, {"group_id": None}, {"stateful": "yes"}]:
        assert not validator.is_valid({**good, **change}), change
    time = make_validator(document, document["components"]["schemas"]["job_status"]["properties"]["observed_at"])
    assert time.is_valid(None) and time.is_valid("2026-11-29T18:12:03.123Z") and not time.is_valid("yesterday")
